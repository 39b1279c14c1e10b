"""How far a run is, how fast it goes and when it will be done.

All of it is summed from the run's nodes, a few hundred rows however many keys there are, and from
its samples, one about every ten seconds. Two ledgers stay apart: keys are the width of the range, of
which processed + skipped + failed + left = total; rows are what the work itself counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from jobs.database import Database, DjangoDatabase
from jobs.errors import NotFound
from ranges.rates import eta_of, rates, smoothed
from ranges.sampling import ACTIVE
from ranges.states import ENDED, NodeState, RunStatus
from ranges.timings import BUCKETS, percentile

if TYPE_CHECKING:
    from ranges.models import RangeRun

SAMPLES_USED = 60

SUMS = f"""
SELECT r.id::text, r.name, r.status, r.reason, r.probing, r.rows_estimate, r.hi - r.lo, r.prune_errors,
    r.probe_timeouts, ({ACTIVE})::float8, r.concurrency,
    n.rows_ok, n.rows_failed, n.width_ok, n.width_skipped, n.width_failed, n.width_left,
    n.leaves, n.retries, n.fenced, n.busy_seconds, n.states,
    (SELECT count(*) FROM ranges_rangefailure f WHERE f.run_id = r.id AND f.state = 'open'),
    (SELECT jsonb_object_agg(b.bucket, b.leaves) FROM (
        SELECT each.key AS bucket, sum(each.value::bigint) AS leaves
        FROM ranges_rangenode m CROSS JOIN LATERAL jsonb_each_text(m.leaf_seconds) each
        WHERE m.run_id = r.id GROUP BY each.key) b)
FROM ranges_rangerun r
CROSS JOIN LATERAL (
    SELECT coalesce(sum(m.rows_ok), 0)::bigint AS rows_ok,
        coalesce(sum(m.rows_failed), 0)::bigint AS rows_failed,
        coalesce(sum(m.width_ok), 0) AS width_ok,
        coalesce(sum(m.width_skipped), 0) AS width_skipped,
        coalesce(sum(m.width_failed), 0) AS width_failed,
        sum(m.hi - m.cur) AS width_left,
        coalesce(sum(m.leaves), 0)::bigint AS leaves,
        coalesce(sum(m.retries), 0)::bigint AS retries,
        coalesce(sum(m.fenced), 0)::bigint AS fenced,
        coalesce(sum(m.busy_seconds), 0)::float8 AS busy_seconds,
        ARRAY[count(*) FILTER (WHERE m.state = 'pending'),
            count(*) FILTER (WHERE m.state = 'running'),
            count(*) FILTER (WHERE m.state = 'done'),
            count(*) FILTER (WHERE m.state = 'skipped'),
            count(*) FILTER (WHERE m.state = 'error')] AS states
    FROM ranges_rangenode m WHERE m.run_id = r.id
) n
WHERE r.id = ANY(%(runs)s::uuid[])
"""

SAMPLES = f"""
SELECT wanted.id::text, s.rows, s.width_done, s.active_seconds
FROM unnest(%(runs)s::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT rows_ok + rows_failed AS rows, width_done, active_seconds, at
    FROM ranges_rangesample WHERE run_id = wanted.id ORDER BY at DESC LIMIT {SAMPLES_USED}
) s
ORDER BY s.at
"""

# Only text: its widths are projections, which the database cannot make.
TEXT_PIECES = """
SELECT r.id::text, r.lo_key, r.hi_key, n.cur_key, n.hi_key
FROM ranges_rangerun r LEFT JOIN ranges_rangenode n ON n.run_id = r.id AND n.cur_key < n.hi_key
WHERE r.id = ANY(%(runs)s::uuid[])
"""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A run at one moment. None: not known (yet), or keys of this type have no width."""

    run_id: str
    job: str
    status: RunStatus
    reason: str
    line: str
    """All of it in a sentence."""
    percent: float
    """Of the width; 100 exactly when nothing is left."""
    total: int | None
    processed: int | None
    skipped: int | None
    failed: int | None
    left: int | None
    rows: int
    rows_failed: int
    rows_left: int | None
    """By the estimate that the run was planned with."""
    leaves: int
    """Leaves that succeeded."""
    attempts: int
    retries: int
    fenced: int
    """Commits that came too late and were rolled back."""
    nodes: Mapping[str, int]
    """How many are in each state."""
    lanes: int
    """Strands at work now."""
    open_failures: int
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    """Of leaves; told within a fifth."""
    active_seconds: float
    busy_seconds: float
    rows_per_second: float | None
    """Lately, over active time."""
    keys_per_second: float | None
    eta_seconds: tuple[float, float] | None
    """If it goes on as it did for half of the time lately, and for nine tenths of it."""
    prune_errors: int
    probe_timeouts: int

    def as_json(self) -> dict[str, Any]:
        widths = ("total", "processed", "skipped", "failed", "left")
        values = asdict(self)
        for name in widths:
            values[name] = None if values[name] is None else str(values[name])
        values["eta_seconds"] = None if self.eta_seconds is None else list(self.eta_seconds)
        return values


def progress(run: RangeRun | UUID | str, *, database: Database | None = None) -> Progress:
    """Read by two or three statements of a few milliseconds, whatever the size of the run."""
    run_id = str(getattr(run, "id", run))
    found = progress_of([run_id], database=database).get(run_id)
    if found is None:
        raise NotFound("range run", run_id)
    return found


def progress_of(
    runs: Iterable[RangeRun | UUID | str], *, database: Database | None = None
) -> dict[str, Progress]:
    """The same of many runs by their ids, in as many statements as for one."""
    database = database or DjangoDatabase()
    ids = [str(getattr(run, "id", run)) for run in runs]
    if not ids:
        return {}
    sums = {id: _Sums(*row) for id, *row in database.rows(SUMS, {"runs": ids})}
    samples: dict[str, list[_Sample]] = {}
    for id, *row in database.rows(SAMPLES, {"runs": ids}):
        samples.setdefault(id, []).append(_Sample(*row))
    texts = [id for id, found in sums.items() if found.width is None]
    pieces: dict[str, list[tuple[Any, ...]]] = {}
    for id, *row in database.rows(TEXT_PIECES, {"runs": texts}) if texts else ():
        pieces.setdefault(id, []).append(tuple(row))
    return {
        id: _put_together(
            id,
            found,
            samples.get(id, []),
            _text_left(pieces.get(id, []))
            if found.width is None
            else _share(found.width, found.width_left),
        )
        for id, found in sums.items()
    }


# --------------------------------------------------------------------------------------------------


class _Sums(NamedTuple):
    name: str
    status: str
    reason: str
    probing: str
    rows_estimate: int | None
    width: Any
    prune_errors: int
    probe_timeouts: int
    active_seconds: float
    concurrency: int
    rows_ok: int
    rows_failed: int
    width_ok: Any
    width_skipped: Any
    width_failed: Any
    width_left: Any
    leaves: int
    retries: int
    fenced: int
    busy_seconds: float
    states: list[int]
    open_failures: int
    leaf_seconds: Any


class _Sample(NamedTuple):
    rows: int
    width: Any
    active_seconds: float


def _put_together(
    run_id: str, sums: _Sums, samples: Sequence[_Sample], share_left: float
) -> Progress:
    status = RunStatus(sums.status)
    is_text = sums.width is None
    # Before there are nodes all is left.
    left = None if is_text else int(sums.width if sums.width_left is None else sums.width_left)
    dealt = sums.rows_ok + sums.rows_failed
    done = None if is_text or left is None else int(sums.width) - left
    points = [*samples, _Sample(dealt, done, sums.active_seconds)]
    row_rates = rates((each.active_seconds, each.rows) for each in points)
    key_rates = [] if is_text else rates((each.active_seconds, each.width) for each in points)
    rows_left = None
    # Only there does the estimate count what the work will count.
    if sums.rows_estimate is not None and sums.probing in {"none", "witness"}:
        rows_left = 0 if share_left == 0 else max(sums.rows_estimate - dealt, 0)
    percent = 100.0 if share_left == 0 else min(99.99, 100.0 * (1 - share_left))
    eta = None
    if status not in ENDED:
        if rows_left and row_rates:
            eta = eta_of(rows_left, row_rates)
        elif left is not None and (key_rates or not left):
            eta = eta_of(left, key_rates)
        elif 0 < share_left < 1 and sums.active_seconds:
            # Text without an estimate: by the share that is done.
            eta = eta_of(share_left, [((1 - share_left) / sums.active_seconds, 1.0)])
    states = dict(zip(_STATES, sums.states, strict=True))
    counts = _buckets(sums.leaf_seconds)
    rows_per_second, keys_per_second = smoothed(row_rates), smoothed(key_rates)
    return Progress(
        run_id=run_id,
        job=sums.name,
        status=status,
        reason=sums.reason,
        line=_line(status, sums, percent, rows_per_second, eta, states["running"]),
        percent=percent,
        total=None if is_text else int(sums.width),
        processed=None if is_text else int(sums.width_ok),
        skipped=None if is_text else int(sums.width_skipped),
        failed=None if is_text else int(sums.width_failed),
        left=left,
        rows=sums.rows_ok,
        rows_failed=sums.rows_failed,
        rows_left=rows_left,
        leaves=sums.leaves,
        attempts=sums.leaves + sums.retries,
        retries=sums.retries,
        fenced=sums.fenced,
        nodes=states,
        lanes=states["running"],
        open_failures=sums.open_failures,
        mean_seconds=sums.busy_seconds / sums.leaves if sums.leaves else None,
        p50_seconds=percentile(counts, 0.50),
        p95_seconds=percentile(counts, 0.95),
        p99_seconds=percentile(counts, 0.99),
        active_seconds=sums.active_seconds,
        busy_seconds=sums.busy_seconds,
        rows_per_second=rows_per_second,
        keys_per_second=keys_per_second,
        eta_seconds=eta,
        prune_errors=sums.prune_errors,
        probe_timeouts=sums.probe_timeouts,
    )


_STATES = tuple(str(state) for state in NodeState)
assert _STATES == ("pending", "running", "done", "skipped", "error")


def _share(width: Any, left: Any) -> float:
    if not width:
        return 0.0
    return 1.0 if left is None else float(left / width)


def _text_left(rows: Sequence[tuple[Any, ...]]) -> float:
    """The share of a text range that is left, by its projection; 0 only if nothing is."""
    from ranges.axes import TextAxis

    if not rows:
        return 0.0
    if rows[0][0] is None:
        return 1.0  # of whatever type: the first step of the run fixes its bounds
    measure = TextAxis().encode
    lo, hi = rows[0][0] or "", rows[0][1] or ""
    total = measure(hi) - measure(lo)
    pieces = [(cur, end) for _, _, cur, end in rows if cur is not None]
    if not pieces:
        return 0.0
    if total <= 0:
        return 1.0
    left = sum(measure(end) - measure(cur) for cur, end in pieces) / total
    return max(left, 1e-9)


def _buckets(counted: Any) -> list[int]:
    counts = [0] * BUCKETS
    for bucket, leaves in (_loaded(counted) or {}).items():
        counts[min(int(bucket), BUCKETS - 1)] += int(leaves)
    return counts


def _loaded(value: Any) -> Any:
    """JSON as either connection returns it: read, or still as text."""
    import json

    return json.loads(value) if isinstance(value, str | bytes) else value


def _line(
    status: RunStatus,
    sums: _Sums,
    percent: float,
    rate: float | None,
    eta: tuple[float, float] | None,
    lanes: int,
) -> str:
    done = f"{percent:.1f} % done" if percent < 100 else "all keys done"
    match status:
        case RunStatus.CREATED:
            return "not started"
        case RunStatus.RUNNING:
            parts = [done]
            if rate is not None:
                parts.append(f"{rate:,.0f} rows/s on {lanes} of {sums.concurrency} lanes")
            if eta is not None and eta[1] > 0:
                parts.append(f"about {in_words(eta[0])} to {in_words(eta[1])} left")
            line = ", ".join(parts)
        case _:
            line = f"{status.value.replace('_', ' ')}, {done}"
            if sums.reason:
                line = f"{line}: {sums.reason}"
    failures = sums.open_failures
    if failures:
        line += f"; {failures:,} failure{'s' if failures > 1 else ''} open"
    return line


def in_words(seconds: float) -> str:
    """A length of time by its one or two largest units: 42 s, 3 min, 2 h 5 min, 12 d 3 h."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 36:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
