"""What a run would do, without doing it.

Nothing here costs more than a few seconds, however large the table: counts are the planner's, shares
come from pages taken at random, and what no index answers in time stays unknown, with a warning.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import DatabaseError

from ranges.bounding import bounds_of, least_leaf
from ranges.declaring import RangeJob
from ranges.guard import IndexVerdict, judge
from ranges.options import Options
from ranges.positions import before, end_key, key_at, width
from ranges.querying import LIMITS_MILLISECONDS, QuerySource
from ranges.rates import as_float
from ranges.sizing import LeafSizer
from ranges.sources import PLAIN_TEXT_DEPTH, ProbeTimeout
from ranges.splitting import strand_count
from ranges.statistics import sampled_share

if TYPE_CHECKING:
    from ranges.positions import Position
    from ranges.sources import Source


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Figures of a run that has not been made. None: not known."""

    job: str
    counts: str
    """What `items` counts: rows of a table, or width of a plain range."""
    lo: str | int | None
    """In their JSON form; `hi` is exclusive, None: up to the last key of the type."""
    hi: str | int | None
    width: int | None
    items: int | None
    share: float | None
    """The sampled share of the items that need work."""
    items_left: int | None
    null_keys: int | None
    leaf_size: int
    leaves: int | None
    strands: int
    concurrency: int
    index: IndexVerdict | None
    seconds_per_item: float | None
    """Of one lane, from the last run of the same job that ended."""
    seconds: float | None
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "width": None if self.width is None else str(self.width),
            "index": self.index.as_json() if self.index else None,
            "warnings": list(self.warnings),
        }


def plan(
    job_class: type[RangeJob], options: Options | None = None, *, start: Any = None, end: Any = None
) -> Plan:
    """The plan of a run from `start` to `end` with these options. InvalidInput as for a real run."""
    chosen = job_class.options() if options is None else options
    source = job_class().source(chosen)
    warnings: list[str] = []
    if isinstance(source, QuerySource):
        source.patient = False
    try:
        bounds: tuple[Position, Position] | None = bounds_of(source, start, end)
    except ProbeTimeout:
        bounds = None
        warnings.append("the first and the last key are not known: no index gives them")
    verdict, null_keys, share = _table(source, bounds, warnings)
    is_empty = bounds is not None and not before(*bounds)
    is_counted = source.counts_rows or source.axis.is_ordinal
    if not is_counted:
        depth = PLAIN_TEXT_DEPTH if chosen.max_depth is None else chosen.max_depth
        warnings.append(f"text is not counted: it is cut into at most 2^{depth} leaves, of no size")
    items = 0 if is_empty else _items(source, bounds) if is_counted else None
    left = items if items is None or share in (None, 1.0) else round(items * share)
    seconds_per_item = _known_seconds(job_class.name)
    least = 1 if bounds is None or is_empty else least_leaf(source, bounds, chosen.max_depth)
    sizer = LeafSizer(chosen.leaf.on(source.axis), least=least, seconds_per_item=seconds_per_item)
    size = sizer.size()
    # Where finished rows cannot be passed over, leaves are made of them as well.
    walked = items if verdict is not None and verdict.probing == "filter" else left
    leaves = None if walked is None else -(-walked // size)
    likely = leaves or 1 if is_counted else 2 * chosen.concurrency
    strands = 0 if is_empty else strand_count(concurrency=chosen.concurrency, leaves=likely)
    return Plan(
        job=job_class.name,
        counts="rows" if source.counts_rows else "width",
        lo=None if bounds is None else source.axis.to_json(key_at(source.axis, bounds[0])),
        hi=None if bounds is None else _end_in_json(source, bounds[1]),
        width=None if bounds is None or not source.axis.is_ordinal else width(source.axis, *bounds),
        items=items,
        share=share,
        items_left=left,
        null_keys=null_keys,
        leaf_size=size,
        leaves=leaves,
        strands=strands,
        concurrency=chosen.concurrency,
        index=verdict,
        seconds_per_item=seconds_per_item,
        seconds=None
        if left is None or seconds_per_item is None
        else as_float(left) * seconds_per_item / chosen.concurrency,
        warnings=tuple(warnings),
    )


def _table(
    source: Source, bounds: tuple[Position, Position] | None, warnings: list[str]
) -> tuple[IndexVerdict | None, int | None, float | None]:
    """The index verdict, rows without a key, and the share that needs work; of a table only."""
    if not isinstance(source, QuerySource):
        return None, 0, 1.0
    verdict = judge(source, *(bounds or (None, None)))
    if verdict.warning:
        warnings.append(verdict.warning)
    nulls: int | None
    try:
        nulls = source.count_nulls(milliseconds=LIMITS_MILLISECONDS)
    except ProbeTimeout:
        nulls = None
        warnings.append("it is not known whether rows have no key: no index tells")
    if nulls:
        what = "are left out" if source.nulls == "skip" else "must be dealt with first"
        warnings.append(f"{nulls:,} rows have no {source.keyed.field.name} and {what}")
    return verdict, nulls, sampled_share(source.keyed)


def _items(source: Source, bounds: tuple[Position, Position] | None) -> int | None:
    if bounds is None:
        return None
    if not isinstance(source, QuerySource):
        return source.estimate(*bounds)
    # All rows of `over`; the share says how many of them need work.
    return source.estimate_all(*bounds)


def _end_in_json(source: Source, hi: Position) -> str | int | None:
    key = end_key(source.axis, hi)
    return None if key is None else source.axis.to_json(key)


# A run that ended, so that neither a slow start nor a pause is taken for the usual.
KNOWN_SECONDS = """
SELECT sum(n.busy_seconds) / nullif(sum(n.rows_ok + n.rows_failed), 0)
FROM ranges_rangenode n
WHERE n.run_id = (
    SELECT r.id FROM ranges_rangerun r
    WHERE r.name = %(name)s AND r.finished_at IS NOT NULL
    ORDER BY r.id DESC LIMIT 1
)
"""


def _known_seconds(name: str) -> float | None:
    from jobs.database import DjangoDatabase

    try:
        found = DjangoDatabase().rows(KNOWN_SECONDS, {"name": name})[0][0]
    except (DatabaseError, ImproperlyConfigured):
        # A plain range can be planned without our tables.
        return None
    return float(found) if found else None
