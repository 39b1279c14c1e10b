"""What a range runs over: a plain range of keys, or the rows of a table.

A source answers where work is left and where ranges can be cut. It never decides what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from jobs.errors import CoppiceError, InvalidInput
from ranges.positions import Position, before, greatest, least, midpoint, width

if TYPE_CHECKING:
    from ranges.axes.base import Axis


class ProbeTimeout(CoppiceError):
    """A probe took too long: nothing is known, so the keys in question are processed."""


class UnfitKey(InvalidInput):
    """The column of the keys holds what its field does not say; nothing can be walked past it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, field="key")


class Found(NamedTuple):
    """The next key that needs work, and the end of a leaf from there."""

    first: Position
    upto: Position
    """Exclusive. Keys that are equal are never parted."""
    items: int | None = None
    """How many rows (or how much width) the leaf holds; None: not known before it is read."""


class Source(Protocol):
    """Where the work is. A table's source counts rows, a plain range's counts width."""

    @property
    def axis(self) -> Axis[Any]: ...

    @property
    def counts_rows(self) -> bool: ...

    def limits(
        self, lo: Position | None = None, hi: Position | None = None
    ) -> tuple[Position, Position] | None:
        """[first key, last key + 1 ulp) of those in [lo, hi); None: there are no keys."""
        ...

    def next_leaf(
        self, cur: Position, hi: Position, size: int, *, blind: bool = False
    ) -> Found | None:
        """The next key in [cur, hi) that needs work, and the end of a leaf of `size` from it.

        None: nothing left before hi. `blind`: do not look for what needs work, walk all keys (the
        leaf's own query filters). Raises ProbeTimeout.
        """
        ...

    def boundaries(self, lo: Position, hi: Position, parts: int) -> list[Position]:
        """At most parts - 1 cuts strictly inside (lo, hi), ascending, for parts of equal size."""
        ...

    def median(self, lo: Position, hi: Position) -> Position | None:
        """A cut strictly between that halves the rows (or width); None: cannot be cut."""
        ...

    def estimate(self, lo: Position, hi: Position) -> int:
        """About how many rows (or how much width) [lo, hi) holds."""
        ...

    def leaf_queryset(self, lo: Position, hi: Position, *, todo: bool = True) -> Any:
        """The rows of [lo, hi) that need work; None for a plain range."""
        ...

    def keys(self, lo: Position, hi: Position, limit: int) -> list[Position]:
        """The first `limit` keys of [lo, hi) that need work, ascending."""
        ...


class FarSighted(Protocol):
    """What a source may have besides, if one question for many leaves is cheaper than many."""

    def next_leaves(self, cur: Position, hi: Position, size: int, count: int) -> list[Found]:
        """At most `count` leaves before hi, the first as `next_leaf` finds it.

        Each other one begins where the one before ends. Raises ProbeTimeout.
        """
        ...


def key_of(source: Source, obj: Any) -> Any:
    """The key of a row that the source has; anything else is a key itself."""
    keyed = getattr(source, "keyed", None)
    return getattr(obj, keyed.field.attname) if keyed and isinstance(obj, keyed.model) else obj


PLAIN_TEXT_DEPTH = 10
"""Text has no count of keys: without a table a range of text is cut into this many halvings."""


class PlainSource:
    """All keys between two bounds, without a table. A leaf's size is its width."""

    counts_rows = False

    def __init__(
        self, axis: Axis[Any], lo: Position, hi: Position, *, depth: int | None = None
    ) -> None:
        self.axis = axis
        self._lo = lo
        self._hi = hi
        self._depth = PLAIN_TEXT_DEPTH if depth is None else depth
        self._aligned = axis.is_ordinal and getattr(axis, "align", None) is not None
        self._ordinal = axis.is_ordinal

    def open(self, lo: Position, hi: Position) -> None:
        """Let the range be [lo, hi), as a run asks for it."""
        self._lo, self._hi = lo, hi

    def limits(
        self, lo: Position | None = None, hi: Position | None = None
    ) -> tuple[Position, Position] | None:
        first = self._lo if lo is None else greatest(lo, self._lo)
        last = self._hi if hi is None else least(hi, self._hi)
        return (first, last) if before(first, last) else None

    def next_leaf(
        self,
        cur: Position,
        hi: Position,
        size: int,
        *,
        blind: bool = False,  # noqa: ARG002 - every key needs work, so there is nothing to look for
    ) -> Found | None:
        if isinstance(cur, int) and isinstance(hi, int):
            if cur >= hi:
                return None
            upto = cur + size
            if upto >= hi:
                upto = hi
            elif self._aligned:
                upto = self._aligned_end(cur, upto, hi)
            return Found(cur, upto, upto - cur)
        if not before(cur, hi):
            return None
        end = least(self._block_end(cur), hi)
        return Found(cur, end, width(self.axis, cur, end))

    def boundaries(self, lo: Position, hi: Position, parts: int) -> list[Position]:
        """Equal shares; of text, and with days to keep to, halves of halves."""
        if parts < 2 or not before(lo, hi):
            return []
        if isinstance(lo, int) and isinstance(hi, int) and not self._aligned:
            shares = {lo + (hi - lo) * part // parts for part in range(1, parts)}
            return sorted(shares - {lo})
        pieces: list[tuple[Position, Position]] = [(lo, hi)]
        cuts: list[Position] = []
        while len(pieces) < parts:
            halved: list[tuple[Position, Position]] = []
            for index, (left, right) in enumerate(pieces):
                middle = None
                if len(halved) + len(pieces) - index < parts:
                    middle = midpoint(self.axis, left, right)
                if middle is None:
                    halved.append((left, right))
                else:
                    cuts.append(middle)
                    halved += [(left, middle), (middle, right)]
            if len(halved) == len(pieces):
                break
            pieces = halved
        return sorted(cuts)

    def median(self, lo: Position, hi: Position) -> Position | None:
        return midpoint(self.axis, lo, hi)

    def estimate(self, lo: Position, hi: Position) -> int:
        return width(self.axis, lo, hi)

    def leaf_queryset(
        self,
        lo: Position,  # noqa: ARG002 - there is no table
        hi: Position,  # noqa: ARG002
        *,
        todo: bool = True,  # noqa: ARG002
    ) -> None:
        return None

    def keys(self, lo: Position, hi: Position, limit: int) -> list[Position]:
        if not self._ordinal:
            return self._texts(cast(str, lo), hi, limit)
        return list(range(cast(int, lo), min(cast(int, hi), cast(int, lo) + limit)))

    def _texts(self, lo: str, hi: Position, limit: int) -> list[Position]:
        """Each text is followed by itself with the least character behind it."""
        found: list[Position] = []
        at: str | None = lo
        while at is not None and before(at, hi) and len(found) < limit:
            found.append(at)
            at = self.axis.successor(at)
        return found

    def _block_end(self, cur: Position) -> Position:
        """The end of the virtual tree's block that holds `cur`, `depth` halvings down."""
        lo, hi = self._lo, self._hi
        for _ in range(self._depth):
            middle = midpoint(self.axis, lo, hi)
            if middle is None:
                break
            if before(cur, middle):
                hi = middle
            else:
                lo = middle
        return hi if before(cur, hi) else self._hi

    def _aligned_end(self, cur: int, upto: int, hi: int) -> int:
        """The last start of a local day (or hour) in (cur, upto]; if none, the next behind it."""
        axis = cast(Any, self.axis)
        step = 86_400_000_000 if axis.align == "day" else 3_600_000_000
        for candidate in (upto, *(cur + count * step for count in (1, 2, 3))):
            mark: int = axis.encode(axis.align_down(axis.decode(min(candidate, axis.last))))
            if mark > cur:
                return min(mark, hi)
        return upto
