"""Proof that a run covers its range: every position in exactly one node, and every node accounted for.

1. **Chain** (all key types): ordered by `lo`, each node begins where the one before it ends, the
   first at the run's `lo` and the last at its `hi`. The database compares, never Python.
2. **Multirange** (ordinal axes): the union of the nodes is the run's range, and their widths add up
   to its width. It shares nothing with the chain but the rows.
3. **Ledger** (ordinal axes): in each node, width worked on, passed over, failed and left add up to
   its width.

Nodes with lo = hi hold nothing and have no part in this. Two ledgers are kept apart: width, which
adds up, and rows, which are what the work itself counted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobs.database import Database, DjangoDatabase
from jobs.errors import CoppiceError, NotFound
from ranges.positions import Position, before, key_at

if TYPE_CHECKING:
    from ranges.models import RangeRun
    from ranges.sources import Source

# One pass over the run's nodes for both kinds of axis: the columns are named by the axis.
# The end is the greatest, not the last: a node that lies inside another is a break as well.
CHAIN = """
SELECT count(*), count(*) FILTER (WHERE s.lo IS DISTINCT FROM s.before),
    min(s.lo), max(s.hi),
    min(ROW(s.before, s.lo)::text) FILTER (WHERE s.lo IS DISTINCT FROM s.before),
    count(*) FILTER (WHERE s.cur < s.hi)
FROM (
    SELECT n.{lo} AS lo, n.{hi} AS hi, n.{cur} AS cur,
        lag(n.{hi}, 1, %(lo)s{cast}) OVER (ORDER BY n.{lo}, n.{hi}) AS before
    FROM ranges_rangenode n
    WHERE n.run_id = %(run)s AND n.{lo} < n.{hi}
) s
"""

MULTIRANGE = """
SELECT coalesce(range_agg(numrange(n.lo, n.hi)), '{}'::nummultirange)
        = nummultirange(numrange(%(lo)s::numeric, %(hi)s::numeric)),
    coalesce(sum(n.hi - n.lo), 0) = %(hi)s::numeric - %(lo)s::numeric
FROM ranges_rangenode n
WHERE n.run_id = %(run)s AND n.lo < n.hi
"""

LEDGER = """
SELECT coalesce(sum(n.rows_ok), 0)::bigint, coalesce(sum(n.rows_failed), 0)::bigint,
    coalesce(sum(n.width_ok), 0), coalesce(sum(n.width_skipped), 0),
    coalesce(sum(n.width_failed), 0), coalesce(sum(n.hi - n.cur), 0),
    count(*) FILTER (WHERE n.width_ok + n.width_skipped + n.width_failed + (n.hi - n.cur)
        <> n.hi - n.lo),
    (SELECT count(*) FROM ranges_rangefailure f WHERE f.run_id = %(run)s AND f.state = 'open')
FROM ranges_rangenode n
WHERE n.run_id = %(run)s
"""

FAILED = """
SELECT {lo}, {hi} FROM ranges_rangenode
WHERE run_id = %(run)s AND state = 'error' AND {lo} < {hi}
ORDER BY {lo}
"""

BOUNDS = """
SELECT axis, lo, hi, lo_key, hi_key FROM ranges_rangerun WHERE id = %(run)s
"""


class NotCovered(CoppiceError, AssertionError):
    """The run did not do what a finished run has done; `verdict` has the figures."""

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the proofs found. `ok`: all of them hold, whether or not the work is finished."""

    ok: bool
    nodes: int
    breaks: int
    """Places where a node does not begin where the one before it ends."""
    first_break: str | None
    """The end of the one node and the beginning of the other, of one such place."""
    chain: bool
    multirange: bool | None
    """None: keys of this type cannot be added up."""
    ledger: bool | None
    unbalanced: int
    """Nodes whose widths do not add up."""
    unfinished: int
    """Nodes with something left."""
    open_failures: int
    rows_ok: int
    rows_failed: int
    width: int | None
    width_ok: int | None
    width_skipped: int | None
    width_failed: int | None
    width_left: int | None

    @property
    def is_complete(self) -> bool:
        """Whether the proofs hold, nothing is left, and no failure is open."""
        return self.ok and not self.unfinished and not self.open_failures

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in sentences; empty when `is_complete`."""
        if not self.nodes and not self.chain:
            return ("nothing was planned yet",)
        found = []
        if not self.chain:
            where = f", for example at {self.first_break}" if self.first_break else ""
            places = "1 break" if self.breaks == 1 else f"{self.breaks:,} breaks"
            found.append(f"the nodes do not follow one another: {places}{where}")
        if self.multirange is False:
            found.append("the nodes together are not the range of the run")
        if self.ledger is False:
            found.append(_number(self.unbalanced, "node does", "nodes do", "not add up in width"))
        if self.unfinished:
            found.append(_number(self.unfinished, "node has", "nodes have", "something left"))
        if self.open_failures:
            found.append(_number(self.open_failures, "failure is", "failures are", "open"))
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """For `RangeRun.verdict`; widths as text, as they may exceed what JSON readers keep."""
        widths = {name for name in self.__dataclass_fields__ if name.startswith("width")}
        return {
            name: str(value) if name in widths and value is not None else value
            for name, value in asdict(self).items()
        }


def _number(count: int, one: str, many: str, rest: str) -> str:
    return f"{count:,} {one if count == 1 else many} {rest}"


def verify(run: RangeRun | UUID | str, *, database: Database | None = None) -> Verdict:
    """Run every proof over the nodes of the run as they are now. Reads no table of the user.

    The bounds are those of the run's row, read afresh.
    """
    database = database or DjangoDatabase()
    run_id = str(getattr(run, "id", run))
    with database.transaction():
        found = database.rows(BOUNDS, {"run": run_id})
        if not found:
            raise NotFound("range run", run_id)
        _, lo, hi, lo_key, hi_key = found[0]
        # A text axis has its bounds in the other columns.
        is_text = lo_key is not None
        start, end = (lo_key, hi_key) if is_text else (lo, hi)
        columns = {name: f"{name}_key" if is_text else name for name in ("lo", "hi", "cur")}
        cast = '::text COLLATE "C"' if is_text else "::numeric"
        chain = database.rows(CHAIN.format(**columns, cast=cast), {"run": run_id, "lo": start})[0]
        ledger = database.rows(LEDGER, {"run": run_id})[0]
        union = (
            None
            if is_text or lo is None
            else database.rows(MULTIRANGE, {"run": run_id, "lo": lo, "hi": hi})[0]
        )
    return _judge(start, end, chain=chain, union=union, ledger=ledger)


def sweep_probe(
    run: RangeRun, source: Source, *, database: Database | None = None, patient: bool = False
) -> Position | None:
    """The first key of the range that still needs work, keys recorded as failed aside; or None.

    One witness, and one more for each failed piece that still needs work. Raises ProbeTimeout.
    Where no index tells what needs work nothing is said, unless `patient`: then the table is read.
    """
    probing = getattr(source, "probing", None)
    lo, hi = bounds_of(run)
    if lo is None or hi is None or probing not in {"witness", "filter"}:
        return None
    if probing == "filter" and not patient:
        return None
    suffix = "" if run.lo_key is None else "_key"
    failed = (database or DjangoDatabase()).rows(
        FAILED.format(lo=f"lo{suffix}", hi=f"hi{suffix}"), {"run": str(run.id)}
    )
    known = [(_position(start), _position(end)) for start, end in failed]
    while before(lo, hi):
        key = _first(source, lo, hi, patient=patient)
        if key is None:
            return None
        end = next(
            (end for start, end in known if not before(key, start) and before(key, end)), None
        )
        if end is None:
            return key
        lo = end
    return None


def assert_complete(run: RangeRun, source: Source | None = None) -> Verdict:
    """The verdict of a run that has covered everything; NotCovered says what is missing.

    With its source, also no row may have come to need work behind the cursors. That may cost a
    pass over the table where no index tells.
    """
    verdict = verify(run)
    problems = list(verdict.problems)
    if source is not None and (key := sweep_probe(run, source, patient=True)) is not None:
        found = source.axis.to_json(key_at(source.axis, key))
        problems.append(f"the key {found!r} needs work")
    if problems:
        raise NotCovered(f"run {run.id} is not complete: {'; '.join(problems)}", verdict)
    return verdict


def _first(source: Source, lo: Position, hi: Position, *, patient: bool) -> Position | None:
    if patient:
        return next(iter(source.keys(lo, hi, 1)), None)
    found = source.next_leaf(lo, hi, 1)
    return found.first if found else None


def _position(value: Any) -> Position:
    return value if isinstance(value, str) else int(value)


def bounds_of(run: RangeRun) -> tuple[Position | None, Position | None]:
    """The run's bounds as positions."""
    if run.lo_key is not None:
        return run.lo_key, run.hi_key
    return (None, None) if run.lo is None else (int(run.lo), int(run.hi))


def _judge(
    lo: Any, hi: Any, *, chain: tuple[Any, ...], union: tuple[Any, ...] | None,
    ledger: tuple[Any, ...],
) -> Verdict:  # fmt: skip
    nodes, breaks, least, greatest, example, unfinished = chain
    rows_ok, rows_failed, ok, skipped, failed, left, unbalanced, open_failures = ledger
    # An empty range needs no nodes; any other begins and ends with one. Without bounds there is none.
    ends = (least, greatest) if nodes else (lo, lo)
    chained = lo is not None and not breaks and ends == (lo, hi)
    covered = None if union is None else (lo == hi and not nodes) or bool(union[0] and union[1])
    balanced = None if union is None else unbalanced == 0
    numbers = (
        [None] * 5 if union is None else [int(n) for n in (hi - lo, ok, skipped, failed, left)]
    )
    return Verdict(
        ok=chained and covered is not False and balanced is not False,
        nodes=nodes,
        breaks=breaks,
        first_break=example,
        chain=chained,
        multirange=covered,
        ledger=balanced,
        unbalanced=0 if union is None else unbalanced,
        unfinished=unfinished,
        open_failures=open_failures,
        rows_ok=rows_ok,
        rows_failed=rows_failed,
        width=numbers[0],
        width_ok=numbers[1],
        width_skipped=numbers[2],
        width_failed=numbers[3],
        width_left=numbers[4],
    )
