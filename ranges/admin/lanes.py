"""Who works at a run now: its lanes, the jobs they are, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs import conf
from jobs.console.lists import PLACE
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput
from ranges.admin.scale import Scale, written
from ranges.models import RangeRun

MOST = 1_000
"""As many as a run can have."""
LAST = datetime.max.replace(tzinfo=UTC)
"""When a lane begins that waits for a slot."""

# Lanes are children of the run's job; the piece that each owns is found by the run. A leaf begins
# when the one before it was committed.
LANES = """
SELECT j.id::text, (j.payload ->> 'index')::integer, j.status, j.worker_id::text,
    coalesce(w.name, ''), j.status = 'processing' AND NOT coalesce(
        w.state IN ('running', 'draining')
        AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second', false),
    n.kind, n.attempts, n.leaves,
    CASE WHEN j.status = 'processing'
        THEN coalesce(n.progress_at, n.claimed_at, j.started_at) END,
    coalesce(n.cur::text, n.cur_key), coalesce(n.resv::text, n.resv_key),
    coalesce(n.hi::text, n.hi_key)
FROM jobs_job j
LEFT JOIN jobs_worker w ON w.id = j.worker_id AND j.status = 'processing'
LEFT JOIN ranges_rangenode n ON n.run_id = %(run)s::uuid AND n.state = 'running'
    AND n.owner_job = j.id
WHERE j.parent_id = %(job)s::uuid AND j.status IN ('pending', 'processing')
LIMIT %(most)s
"""


@dataclass(frozen=True, kw_only=True)
class Lane:
    job_id: str
    index: int
    is_working: bool
    worker_id: str | None
    worker: str
    is_stuck: bool
    """Its worker shows no sign of life."""
    kind: str
    attempts: int
    """Failed ones of the leaf at work."""
    leaves: int
    since: datetime | None
    """When its leaf was begun; None: it waits for a slot."""
    cur: Any
    resv: Any
    """The leaf at work ends before it."""
    hi: Any
    """Where its piece ends."""
    begin: float
    """Its piece as a share of the range; nothing when both are 0."""
    end: float

    @property
    def leaf(self) -> str:
        return (
            written(self.cur)
            if self.resv == self.cur
            else f"{written(self.cur)} to {_end(self.resv)}"
        )

    @property
    def upto(self) -> str:
        return _end(self.hi)

    @property
    def place(self) -> tuple[datetime, str]:
        return self.since or LAST, self.job_id


def lanes(run: RangeRun, scale: Scale | None) -> list[Lane]:
    """Those whose leaf is at work longest first, then those that wait for a slot."""
    if run.job_id is None:
        return []
    given = {
        "run": str(run.id),
        "job": str(run.job_id),
        "most": MOST,
        "dead_after": conf.get().dead_after_seconds,
    }
    found = [_lane(row, scale) for row in DjangoDatabase().rows(LANES, given)]
    return sorted(found, key=lambda lane: lane.place)


def page_of(
    found: list[Lane], *, after: str, before: str, size: int
) -> tuple[list[Lane], bool, bool]:
    """At most `size` of them, and whether there are some before and after. Raises InvalidInput."""
    if before:
        place = _place(before)
        earlier = [lane for lane in found if lane.place < place]
        return earlier[-size:], len(earlier) > size, True
    later = found
    if after:
        place = _place(after)
        later = [lane for lane in found if lane.place > place]
    return later[:size], bool(after), len(later) > size


def place_text(lane: Lane) -> str:
    at, id = lane.place
    return f"{at.isoformat()}{PLACE}{id}"


def _place(text: str) -> tuple[datetime, str]:
    at, _, id = text.partition(PLACE)
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidInput("is not the place of a page", field="after")
    return found, id


def _lane(row: tuple[Any, ...], scale: Scale | None) -> Lane:
    id, index, status, worker_id, worker, is_stuck, kind, attempts, leaves, since = row[:10]
    cur, resv, hi = (_key(scale, place) for place in row[10:])
    begin = end = 0.0
    if scale is not None and row[10] is not None:
        begin, end = (scale.share(_position(scale, place)) for place in (row[10], row[12]))
    return Lane(
        job_id=id,
        index=index,
        is_working=status == "processing",
        worker_id=worker_id,
        worker=worker,
        is_stuck=is_stuck,
        kind=kind or "",
        attempts=attempts or 0,
        leaves=leaves or 0,
        since=since,
        cur=cur,
        resv=resv,
        hi=hi,
        begin=begin,
        end=end,
    )


def _key(scale: Scale | None, place: str | None) -> Any:
    return None if place is None or scale is None else scale.key(_position(scale, place))


def _position(scale: Scale, place: str) -> Any:
    return int(place) if isinstance(scale.lo, int) else place


def _end(key: Any) -> str:
    return "the end" if key is None else written(key)
