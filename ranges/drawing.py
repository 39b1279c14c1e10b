"""Pictures of a run: the virtual midpoint tree, the strip of coverage, the lineage of its nodes.

A node stores totals, a cursor, and a byte of flags for each of the 1,024 cells of the axis. From
these the done part of each node is cut into stretches, each processed, skipped, or (within one cell)
some of both; what a node's totals say is shared out over its stretches, so that the sums stay right.
A block of the tree or of the strip is then looked up by two searches.

Text has no width: its pictures are drawn on a projection, and its numbers are parts of 2**20.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jobs.database import Database, DjangoDatabase
from jobs.errors import InvalidInput, NotFound
from ranges.axes import restore
from ranges.positions import Position, before, end_key, midpoint
from ranges.proof import bounds_of
from ranges.states import CELL_PROCESSED, CELL_SKIPPED, CELLS, NodeState

if TYPE_CHECKING:
    from ranges.axes import Axis
    from ranges.models import RangeRun

DEEPEST = 10
MOST_BLOCKS = 500
MOST_BUCKETS = 1_024
TEXT_SCALE = 2**20

PIECES = """
SELECT {lo}, {cur}, {resv}, {hi}, state, width_ok, width_skipped, cells
FROM ranges_rangenode
WHERE run_id = %(run)s AND {lo} < {hi}
ORDER BY {lo}
"""

LINEAGE = """
SELECT id, parent_id, kind, state, depth, {lo}, {cur}, {hi}, rows_ok, rows_failed, leaves, retries,
    attempts, seconds_per_row, error, created_at, finished_at
FROM ranges_rangenode
WHERE run_id = %(run)s AND id > %(after)s
ORDER BY id
LIMIT %(limit)s
"""


class Block(NamedTuple):
    """What is known of an interval."""

    processed: int
    skipped: int
    failed: int
    left: int
    running: bool

    @property
    def state(self) -> str:
        if self.running and self.left:
            return NodeState.RUNNING.value
        if self.left:
            return NodeState.PENDING.value
        if self.failed:
            return NodeState.ERROR.value
        if self.skipped and not self.processed:
            return NodeState.SKIPPED.value
        return NodeState.DONE.value

    @property
    def is_uniform(self) -> bool:
        """All of it is the same, so there is nothing to see inside."""
        kinds = sum(part > 0 for part in self[:4])
        return kinds <= 1 and not self.running

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            **{
                name: _number(getattr(self, name))
                for name in ("processed", "skipped", "failed", "left")
            },
        }


def tree(
    run: RangeRun, depth: int = 4, *, path: str = "", database: Database | None = None
) -> dict[str, Any]:
    """The block at `path` ("" is the root, then "0" for each left half and "1" for each right one).

    `{path, lo, hi, state, processed, skipped, failed, left, children?}`, `depth` levels down (at
    most 10). A block without children is of one kind throughout, cannot be halved, or lies deeper
    than was asked; 500 blocks at most.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= DEEPEST:
        raise InvalidInput(f"must be from 0 to {DEEPEST}", field="depth")
    picture = _picture(run, database)
    lo, hi = _descend(picture.axis, picture.lo, picture.hi, path)
    root, block = picture.node(path, lo, hi)
    waiting = deque([(root, block, lo, hi)])
    count = 1
    while waiting and count + 2 <= MOST_BLOCKS:
        node, block, lo, hi = waiting.popleft()
        if len(node["path"]) - len(path) >= depth or block.is_uniform:
            continue
        middle = midpoint(picture.axis, lo, hi)
        if middle is None:
            continue
        node["children"] = []
        for turn, (left, right) in enumerate(((lo, middle), (middle, hi))):
            child, inside = picture.node(f"{node['path']}{turn}", left, right)
            node["children"].append(child)
            waiting.append((child, inside, left, right))
        count += 2
    return root


def coverage(
    run: RangeRun,
    lo: Any = None,
    hi: Any = None,
    width: int = 200,
    *,
    database: Database | None = None,
) -> dict[str, Any]:
    """The strip of [lo, hi), or of the whole run, in `width` buckets of equal width.

    `{lo, hi, buckets: [{lo, state, processed, skipped, failed, left}]}`. Bounds may be keys or
    their JSON form. Fewer buckets when there are fewer keys; of text a bucket has no `lo`.
    """
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= MOST_BUCKETS:
        raise InvalidInput(f"must be from 1 to {MOST_BUCKETS}", field="width")
    picture = _picture(run, database)
    start = picture.lo if lo is None else _inside(picture, lo, "from")
    end = picture.hi if hi is None else _inside(picture, hi, "to")
    if before(end, start):
        raise InvalidInput("must not lie before from", field="to")
    first, last = picture.measure(start), picture.measure(end)
    count = min(width, last - first)
    edges = [first + (last - first) * part // count for part in range(count + 1)] if count else []
    buckets = []
    for left, right in pairwise(edges):
        key = picture.key(left) if picture.axis.is_ordinal else None
        buckets.append({"lo": key, **picture.look(left, right).as_json()})
    return {"lo": picture.key(start), "hi": picture.key(end), "buckets": buckets}


def lineage(
    run: RangeRun, *, after: int = 0, limit: int = 500, database: Database | None = None
) -> list[dict[str, Any]]:
    """The stored nodes in the order they were made, each with its parent; at most 500 at a time."""
    axis = axis_of(run)
    columns = _columns(run)
    rows = (database or DjangoDatabase()).rows(
        LINEAGE.format(**columns),
        {"run": str(run.id), "after": after, "limit": max(1, min(limit, MOST_BLOCKS))},
    )
    names = (
        "id", "parent", "kind", "state", "depth", "lo", "cur", "hi", "rows_ok", "rows_failed",
        "leaves", "retries", "attempts", "seconds_per_row", "error", "created_at", "finished_at",
    )  # fmt: skip
    found = []
    for row in rows:
        node = dict(zip(names, row, strict=True))
        for name in ("lo", "cur", "hi"):
            node[name] = key_json(axis, _position(node[name]))
        for name in ("created_at", "finished_at"):
            node[name] = node[name].isoformat() if node[name] else None
        found.append(node)
    return found


def axis_of(run: RangeRun) -> Axis[Any]:
    """The axis of a run; of an axis that is somebody's own, the code must be there."""
    try:
        return restore(run.axis)
    except InvalidInput:
        from ranges.loading import load

        return load(run).source.axis


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Node:
    """A stored node, measured."""

    lo: int
    cur: int
    resv: int
    hi: int
    state: str
    ok: int
    skipped: int
    cells: bytes


class _Stretch(NamedTuple):
    """An interval of one kind.

    Of a done one `num / den` is processed and the rest skipped. Rounded from the node's first
    unclear place on, of which `before` lie before this stretch: so parts add up to the whole.
    """

    lo: int
    hi: int
    kind: Literal["done", "failed", "left"]
    num: int = 0
    den: int = 1
    before: int = 0

    def part(self, lo: int, hi: int) -> tuple[int, int, int, int]:
        """What the part of it inside [lo, hi) holds."""
        lo, hi = max(lo, self.lo), min(hi, self.hi)
        if lo >= hi:
            return 0, 0, 0, 0
        match self.kind:
            case "failed":
                return 0, 0, hi - lo, 0
            case "left":
                return 0, 0, 0, hi - lo
            case "done":
                processed = self._processed(hi) - self._processed(lo)
                return processed, hi - lo - processed, 0, 0

    def _processed(self, upto: int) -> int:
        return (self.before + upto - self.lo) * self.num // self.den


class _Picture:
    """All stretches of a run, in order, with their running sums."""

    def __init__(self, axis: Axis[Any], lo: Position, hi: Position) -> None:
        self.axis = axis
        self.lo = lo
        self.hi = hi
        self._start = self._place(lo)
        self._width = self._place(hi) - self._start
        self._stretches: list[_Stretch] = []
        self._starts: list[int] = []
        self._sums: list[tuple[int, int, int, int]] = []
        self._at_work: list[tuple[int, int]] = []

    def measure(self, position: Position) -> int:
        """Where a position lies: itself, or on the projection of text from 0 to 2**20."""
        if isinstance(position, int):
            return position
        if self._width <= 0:
            # All keys begin alike for longer than the projection looks: there is one block.
            return TEXT_SCALE if position == self.hi else 0
        return (self._place(position) - self._start) * TEXT_SCALE // self._width

    def draw(self, nodes: list[_Node]) -> None:
        start, end = self.measure(self.lo), self.measure(self.hi)
        for node in nodes:
            self._stretches += _stretches(node, start, end - start)
            if node.state == NodeState.RUNNING:
                self._at_work.append((node.cur, max(node.resv, node.cur + 1)))
        if not nodes and start < end:
            self._stretches.append(_Stretch(start, end, "left"))
        self._starts = [each.lo for each in self._stretches]
        parts = (each.part(each.lo, each.hi) for each in self._stretches)
        self._sums = list(accumulate(parts, _add, initial=(0, 0, 0, 0)))

    def look(self, lo: int, hi: int) -> Block:
        """What [lo, hi) holds, in measures."""
        if lo >= hi:
            return Block(0, 0, 0, 0, running=False)
        first = max(bisect_right(self._starts, lo) - 1, 0)
        last = bisect_right(self._starts, hi - 1) - 1
        if last < first:
            return Block(0, 0, 0, 0, running=False)
        found = self._stretches[first].part(lo, hi)
        if last > first:
            found = _add(found, self._stretches[last].part(lo, hi))
            found = _add(found, _less(self._sums[last], self._sums[first + 1]))
        running = any(start < hi and lo < end for start, end in self._at_work)
        return Block(*found, running=running)

    def node(self, path: str, lo: Position, hi: Position) -> tuple[dict[str, Any], Block]:
        block = self.look(self.measure(lo), self.measure(hi))
        return {"path": path, "lo": self.key(lo), "hi": self.key(hi), **block.as_json()}, block

    def key(self, position: Position) -> Any:
        return key_json(self.axis, position)

    def _place(self, position: Position) -> int:
        return position if isinstance(position, int) else self.axis.encode(position)


def _picture(run: RangeRun, database: Database | None) -> _Picture:
    lo, hi = bounds_of(run)
    if lo is None or hi is None:
        raise NotFound("the range of run", run.id)
    picture = _Picture(axis_of(run), lo, hi)
    rows = (database or DjangoDatabase()).rows(PIECES.format(**_columns(run)), {"run": str(run.id)})
    nodes = []
    for row in rows:
        places = [picture.measure(_position(position)) for position in row[:4]]
        nodes.append(
            _Node(
                lo=places[0], cur=places[1], resv=places[2], hi=places[3], state=row[4],
                # Of text the totals are in another measure than the picture.
                ok=int(row[5] or 0) if picture.axis.is_ordinal else 0,
                skipped=int(row[6] or 0) if picture.axis.is_ordinal else 0,
                cells=bytes(row[7] or b""),
            )
        )  # fmt: skip
    picture.draw(nodes)
    return picture


def _stretches(node: _Node, start: int, width: int) -> list[_Stretch]:
    """A node's done part by its cells, and what is left of it."""
    if node.lo >= node.hi:
        return []
    if node.state == NodeState.ERROR:
        return [_Stretch(node.lo, node.hi, "failed")]
    found = _done(node, start, width)
    if node.cur < node.hi:
        found.append(_Stretch(node.cur, node.hi, "left"))
    return found


def _done(node: _Node, start: int, width: int) -> list[_Stretch]:
    if node.lo >= node.cur:
        return []
    runs = _runs(node, start, width)
    clear = {CELL_PROCESSED: (1, 1), CELL_SKIPPED: (0, 1)}
    # Cells with both flags, or with none, take what the totals say beyond the cells that are clear.
    unclear = sum(hi - lo for lo, hi, flags in runs if flags not in clear)
    processed = unclear // 2
    if node.ok or node.skipped:
        certain = sum(hi - lo for lo, hi, flags in runs if flags == CELL_PROCESSED)
        processed = min(max(node.ok - certain, 0), unclear)
    found: list[_Stretch] = []
    before_it = 0
    for lo, hi, flags in runs:
        if flags in clear:
            found.append(_Stretch(lo, hi, "done", *clear[flags]))
        else:
            found.append(_Stretch(lo, hi, "done", processed, unclear, before_it))
            before_it += hi - lo
    return found


def _runs(node: _Node, start: int, width: int) -> list[tuple[int, int, int]]:
    """(lo, hi, flags) over [node.lo, node.cur), neighbours with the same flags joined."""
    count = min(CELLS, max(width, 1))
    if not node.cells:
        return [(node.lo, node.cur, 0)]
    first = (node.lo - start) * count // width
    last = (node.cur - 1 - start) * count // width
    runs: list[tuple[int, int, int]] = []
    for cell in range(first, last + 1):
        index = cell - first
        flags = (
            node.cells[index] & (CELL_PROCESSED | CELL_SKIPPED) if index < len(node.cells) else 0
        )
        # The first place that falls into the next cell.
        edge = start - (-(cell + 1) * width // count)
        lo = runs[-1][1] if runs else node.lo
        hi = min(edge, node.cur)
        if runs and runs[-1][2] == flags:
            runs[-1] = (runs[-1][0], hi, flags)
        else:
            runs.append((lo, hi, flags))
    return runs


def _descend(axis: Axis[Any], lo: Position, hi: Position, path: str) -> tuple[Position, Position]:
    for turn in path:
        middle = midpoint(axis, lo, hi) if turn in "01" else None
        if middle is None:
            raise InvalidInput("names no block of the tree", field="path")
        lo, hi = (lo, middle) if turn == "0" else (middle, hi)
    return lo, hi


def _inside(picture: _Picture, value: Any, field: str) -> Position:
    key = picture.axis.validate(value, field)
    position: Position = picture.axis.encode(key) if picture.axis.is_ordinal else key
    if before(position, picture.lo) or before(picture.hi, position):
        raise InvalidInput("lies outside the run", field=field)
    return position


def _columns(run: RangeRun) -> dict[str, str]:
    suffix = "_key" if run.lo_key is not None else ""
    return {name: f"{name}{suffix}" for name in ("lo", "cur", "resv", "hi")}


def _position(value: Any) -> Position:
    return value if isinstance(value, str) else int(value)


def key_json(axis: Axis[Any], position: Position) -> Any:
    """The key at a place in its JSON form; None: the place past the last key of the type."""
    key = end_key(axis, position)
    return None if key is None else axis.to_json(key)


def _number(number: int) -> int | str:
    """JavaScript loses digits beyond 2**53."""
    return number if number <= 2**53 else str(number)


def _add(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _less(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3]
