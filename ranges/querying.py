"""`QuerySource`: the rows of a table as the source of a range.

1. "Which key needs work next" and "where does a leaf of that many rows end" are one statement,
   walking an index with ORDER BY and LIMIT. A bare EXISTS would be answered by a sequential scan.
2. Rows with the same key are never parted.
3. An error or a time-out says nothing about the rows, so it never passes them over.
4. A leaf's queryset applies `todo` again: what was finished meanwhile is not done twice.

Where no index answers the first question, `probing="filter"` walks all keys and leaves `todo` to
the leaf's queryset: one pass over the table, however little is left to do in it.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Any, Literal

from django.core.exceptions import FieldError
from django.db.models import Q, QuerySet

from jobs.errors import InvalidInput
from ranges.axes import Axis, IntAxis
from ranges.keyed import WALK, Keyed, Statement, condition_sql, index_definition
from ranges.positions import Position, before, key_at
from ranges.sources import Found, PlainSource, ProbeTimeout, UnfitKey
from ranges.statistics import known_keys, sampled_keys

type Probing = Literal["none", "witness", "filter"]

PROBE_MILLISECONDS = 200
LIMITS_MILLISECONDS = 5_000
EXACT_ROWS = 20_000
"""A median of so many rows is taken exactly; of more, from statistics."""
MARKS = 8
"""So many sampled keys a part make a cut good enough."""
COARSE = 20
"""Marks from the statistics that will do for a few parts."""
NULLS_SEEN = 1_000

# The number of rows, the first key, the middle one, and the least that is greater than the first.
MIDDLE = """
WITH few AS MATERIALIZED ({walk} ORDER BY key LIMIT {limit}),
    first AS (SELECT key FROM few ORDER BY key LIMIT 1)
SELECT (SELECT count(*) FROM few),
    (SELECT key FROM first),
    (SELECT key FROM few ORDER BY key LIMIT 1 OFFSET (SELECT count(*) / 2 FROM few)),
    (SELECT few.key FROM few, first WHERE few.key > first.key ORDER BY few.key LIMIT 1)
"""

# The first key, and the ends of so many leaves, each found from the one before. Inside it, a table of
# the user's with this name would be taken for the statement's own.
ENDS = """
WITH RECURSIVE coppice_ends(key, leaf) AS (
    SELECT ({walk} ORDER BY key LIMIT 1), 0
    UNION ALL
    SELECT ({behind} ORDER BY key LIMIT 1 OFFSET %s), leaf + 1
    FROM coppice_ends WHERE key IS NOT NULL AND leaf < %s
)
SELECT key FROM coppice_ends ORDER BY leaf
"""
LAST_END = "coppice_ends.key"


class QuerySource:
    """See `ranges.sources.Source`. Sizes are rows."""

    counts_rows = True

    def __init__(
        self,
        over: Any,
        *,
        key: str = "pk",
        todo: Q | None = None,
        nulls: str = "refuse",
        probing: Probing | None = None,
        axis: Axis[Any] | None = None,
    ) -> None:
        if nulls not in {"refuse", "skip"}:
            raise InvalidInput("must be refuse or skip", field="nulls")
        self.keyed = Keyed(over, key=key, todo=todo, axis=axis)
        self.nulls = nulls
        self.patient = True
        """Whether the limits may cost a pass over the table where no index has them."""
        self.probing: Probing = probing or ("none" if todo is None else "witness")

    @property
    def axis(self) -> Axis[Any]:
        return self.keyed.axis

    @property
    def alias(self) -> str:
        """The database that holds the rows."""
        return self.keyed.alias

    # --- The walk ---------------------------------------------------------------------------------

    def limits(
        self, lo: Position | None = None, hi: Position | None = None
    ) -> tuple[Position, Position] | None:
        """[first key, last key + 1 ulp) of `over` in [lo, hi); None when it has none there.

        Where `over` itself has a condition that no index knows, the limits of the whole table are
        taken after a while: they hold all keys too. Raises ProbeTimeout unless `patient`, and
        UnfitKey.
        """
        walk = self.keyed.walk_sql(lo, hi, todo=False)
        if walk is None:
            return None
        longest = None if self.patient else LIMITS_MILLISECONDS
        try:
            found = self._ends(walk, milliseconds=LIMITS_MILLISECONDS)
        except ProbeTimeout:
            everything = Keyed(
                self.keyed.model._base_manager.using(self.alias),  # noqa: SLF001
                key=self.keyed.field.name,
                axis=self.axis,
            ).walk_sql(lo, hi, todo=False)
            assert everything is not None
            try:
                found = self._ends(everything, milliseconds=longest)
            except UnfitKey:
                # Whether that row is in `over`, nothing else tells.
                found = self._ends(walk, milliseconds=longest)
        if found is None:
            return None
        return found[0], self._behind(found[1])

    def next_leaf(
        self, cur: Position, hi: Position, size: int, *, blind: bool = False
    ) -> Found | None:
        """The next key in [cur, hi) that needs work, and the end of a leaf of `size` rows from it.

        None: nothing left before hi. Raises ProbeTimeout, unless it walks blindly.
        """
        if not before(cur, hi):
            return None
        looks = self.probing == "witness" and not blind
        walk = self.keyed.walk_sql(cur, hi, todo=looks)
        if walk is None:
            return None
        sql, params = walk
        # Nothing before the witness needs work, so the offset may count from the cursor.
        first, bound = self.keyed.ask(
            f"SELECT ({sql} ORDER BY key LIMIT 1), ({sql} ORDER BY key LIMIT 1 OFFSET %s)",
            (*params, *params, size),
            milliseconds=PROBE_MILLISECONDS if looks else None,
        )[0]
        if first is None:
            return None
        start = self.keyed.position(first)
        if bound is None:
            return Found(start, hi)
        upto = self.keyed.position(bound)
        if upto == start:
            # One key has more rows than a leaf; they stay together.
            self._must_not_be_unique(start)
            return Found(start, min(self._behind(upto), hi))
        return Found(start, upto, size if self.keyed.is_unique else None)

    def next_leaves(self, cur: Position, hi: Position, size: int, count: int) -> list[Found]:
        """The next leaf and those behind it, as long as each begins where the last one ends.

        Raises ProbeTimeout, whatever is walked: one leaf at a time may take as long as it takes.
        """
        if count < 2 or not self._knows_ends_ahead or not before(cur, hi):
            found = self.next_leaf(cur, hi, size)
            return [] if found is None else [found]
        looks = self.probing == "witness"
        walk = self.keyed.walk_sql(cur, hi, todo=looks)
        behind = self.keyed.walk_sql(cur, hi, todo=looks, start=LAST_END)
        if walk is None or behind is None:
            return []
        keys = self.keyed.ask(
            ENDS.format(walk=walk[0], behind=behind[0]),
            (*walk[1], *behind[1], size, count),
            milliseconds=PROBE_MILLISECONDS,
        )
        ends = [self.keyed.position(key) for (key,) in keys if key is not None]
        for lo, upto in pairwise(ends):
            if lo == upto:
                self._must_not_be_unique(lo)
        leaves = [Found(lo, upto, size) for lo, upto in pairwise(ends)]
        if ends and len(ends) < count + 1:
            leaves.append(Found(ends[-1], hi))
        return leaves

    @property
    def _knows_ends_ahead(self) -> bool:
        # Keys that are not unique may have to stay together. Of the other types the recursion
        # would want a cast to the type of the column, its length and scale too.
        return self.keyed.is_unique and isinstance(self.axis, IntAxis)

    def leaf_queryset(self, lo: Position, hi: Position, *, todo: bool = True) -> QuerySet[Any]:
        """The rows of [lo, hi) that need work, in the order of the key, on the writer's database."""
        return self.keyed.queryset(lo, hi, todo=todo)

    def keys(self, lo: Position, hi: Position, limit: int) -> list[Position]:
        """The first `limit` keys of [lo, hi) that need work, ascending, each once."""
        walk = self.keyed.walk_sql(lo, hi, todo=True)
        if walk is None:
            return []
        sql, params = walk
        if not self.keyed.is_unique:
            sql = sql.replace("SELECT key", "SELECT DISTINCT key", 1)
        found = self.keyed.ask(f"{sql} ORDER BY key LIMIT %s", (*params, limit))
        return [self.keyed.position(key) for (key,) in found]

    # --- Where to cut -----------------------------------------------------------------------------

    def estimate(self, lo: Position, hi: Position) -> int:
        """The planner's guess at the rows that a walk of [lo, hi) meets. Reads no rows."""
        return self._estimate(lo, hi, todo=self.probing == "witness")

    def estimate_all(self, lo: Position, hi: Position) -> int:
        """The same for all rows of `over`, whether they need work or not."""
        return self._estimate(lo, hi, todo=False)

    def boundaries(self, lo: Position, hi: Position, parts: int) -> list[Position]:
        """At most parts - 1 cuts strictly inside (lo, hi), ascending, for parts of equal rows.

        Statistics do not know where the rows lie that need work, so with a `todo` a few pages of
        the table are read at random. Else, or when too few were met, cuts lie between keys that
        the statistics know, weighed by the planner; without any of this the axis is halved.
        """
        if parts < 2 or not before(lo, hi):
            return []
        sampled: list[Position] | None = None
        if self.keyed.todo is not None:
            sampled = _inside(sampled_keys(self.keyed), lo, hi)
            if len(sampled) >= MARKS * parts:
                return _ranks(sampled, parts)
        marks = _inside(known_keys(self.keyed), lo, hi)
        if marks:
            # Each mark costs a question to the planner; a cut in two does not need a hundred.
            step = -(-len(marks) // max(COARSE, 2 * parts))
            grid = [lo, *marks[step - 1 :: step], hi]
            rows = [self.estimate(left, right) for left, right in pairwise(grid)]
            return self._cuts(grid, rows, parts)
        if sampled is None:
            sampled = _inside(sampled_keys(self.keyed), lo, hi)
        if len(sampled) >= parts:
            return _ranks(sampled, parts)
        return PlainSource(self.axis, lo, hi).boundaries(lo, hi, parts)

    def median(self, lo: Position, hi: Position) -> Position | None:
        """A cut strictly between with work on both sides; None: it cannot be cut.

        Exact for up to 20,000 rows that need work. Beyond, the cut is where statistics put the
        middle, and either side may turn out to be finished.
        """
        if not before(lo, hi):
            return None
        walk = self.keyed.walk_sql(lo, hi, todo=True)
        if walk is None:
            return None
        try:
            sql, params = walk
            count, first, middle, second = self.keyed.ask(
                MIDDLE.format(walk=sql, limit=EXACT_ROWS + 1),
                params,
                milliseconds=PROBE_MILLISECONDS,
            )[0]
        except ProbeTimeout:
            count, first, middle, second = EXACT_ROWS + 1, None, None, None
        if count <= EXACT_ROWS:
            # Equal keys stay together, so a cut at the first key would leave nothing before it.
            cut = middle if middle != first else second
            return None if cut is None else self.keyed.position(cut)
        cuts = self.boundaries(lo, hi, 2)
        if cuts:
            return cuts[0]
        return None if middle is None or middle == first else self.keyed.position(middle)

    # --- Keys without a place ---------------------------------------------------------------------

    def count_nulls(self, *, milliseconds: int | None = None) -> int:
        """Rows of `over` without a key, counted up to 1,000. Raises ProbeTimeout if so limited.

        What the model says about NULL may not be true, of a view say: the database knows.
        """
        rows = self.keyed.rows_sql(todo=False)
        if rows is None or self.keyed.catalog()[1]:
            return 0
        sql, params = rows
        limited = f"SELECT 1 FROM ({sql}) walked(key) WHERE key IS NULL LIMIT {NULLS_SEEN}"
        counted = f"SELECT count(*) FROM ({limited}) few"
        return int(self.keyed.ask(counted, params, milliseconds=milliseconds)[0][0])

    def check_nulls(self) -> None:
        """Refuse rows whose key is NULL, which no range can hold, unless they are to be skipped.

        Where nobody can tell in time whether there are any, that is refused as well.
        """
        if self.nulls != "refuse":
            return
        try:
            found = self.count_nulls(milliseconds=LIMITS_MILLISECONDS)
        except ProbeTimeout:
            raise InvalidInput(
                f"no index tells in time whether rows have no {self.keyed.field.name}:"
                f' {self._index_of_nulls()}; or give nulls = "skip" to leave such rows out',
                field="nulls",
            ) from None
        if found:
            count = f"at least {found:,}" if found == NULLS_SEEN else f"{found:,}"
            raise InvalidInput(
                f"{count} rows have no {self.keyed.field.name}, so no range holds them;"
                ' give nulls = "skip" to leave them out',
                field="nulls",
            )

    def _index_of_nulls(self) -> str:
        try:
            condition = condition_sql(self.keyed, todo=False)
        except FieldError:
            condition = None
        return index_definition(self.keyed, condition)

    # ----------------------------------------------------------------------------------------------

    def _estimate(self, lo: Position, hi: Position, *, todo: bool) -> int:
        walk = self.keyed.walk_sql(lo, hi, todo=todo)
        if walk is None or not before(lo, hi):
            return 0
        return int(self.keyed.explain(*walk)["Plan Rows"])

    def _must_not_be_unique(self, position: Position) -> None:
        if self.keyed.is_unique:
            key = self.axis.to_json(key_at(self.axis, position))
            raise self.keyed.unfit(
                f"is unique to its model, but more rows have {key} than a leaf may hold:"
                " take unique=True away, or mend the table"
            )

    def _ends(
        self, walk: Statement, *, milliseconds: int | None
    ) -> tuple[Position, Position] | None:
        sql, params = walk
        first, last = self.keyed.ask(
            f"SELECT ({sql} ORDER BY key LIMIT 1), ({sql} ORDER BY key DESC LIMIT 1)",
            (*params, *params),
            milliseconds=milliseconds,
            settings=WALK,
        )[0]
        if first is None:
            return None
        return self.keyed.position(first), self.keyed.position(last)

    def _behind(self, position: Position) -> Position:
        """The least position behind one that has a key."""
        if isinstance(position, int):
            return position + 1
        following: str | None = self.axis.successor(position)
        assert following is not None
        return following

    def _cuts(self, grid: list[Position], rows: list[int], parts: int) -> list[Position]:
        """Cuts for equal shares of all rows, between marks by proportion."""
        # The planner never says none; a mark must not weigh more than what lies behind it.
        upto = list(accumulate(rows, initial=0))
        cuts: list[Position] = []
        for part in range(1, parts):
            goal = upto[-1] * part // parts
            place = min(bisect_right(upto, goal) - 1, len(rows) - 1)
            cut = self._between(
                grid[place], grid[place + 1], (goal - upto[place]) / (rows[place] or 1)
            )
            if before(grid[0], cut) and before(cut, grid[-1]):
                cuts.append(cut)
        return sorted(set(cuts))

    def _between(self, lo: Position, hi: Position, share: float) -> Position:
        if isinstance(lo, int) and isinstance(hi, int):
            return lo + int((hi - lo) * share) if hi - lo < 2**53 else lo + _part(hi - lo, share)
        for _ in range(4):
            middle = self.axis.midpoint(lo, hi)
            if middle is None:
                break
            share *= 2
            if share >= 1:
                lo, share = middle, share - 1
            else:
                hi = middle
        return lo


def _part(width: int, share: float) -> int:
    return width * int(share * 2**32) >> 32


def _inside(keys: list[Position], lo: Position, hi: Position) -> list[Position]:
    return [key for key in keys if before(lo, key) and before(key, hi)]


def _ranks(keys: list[Position], parts: int) -> list[Position]:
    """Cuts at equal ranks of sorted keys."""
    return sorted({keys[len(keys) * part // parts] for part in range(1, parts)})
