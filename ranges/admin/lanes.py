"""Who works at a run now: its lanes, the jobs they are, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.database import DjangoDatabase
from ranges.admin.scale import Scale, written
from ranges.models import RangeRun

MOST = 100

# Lanes are children of the run's job; the piece that each owns is found by the run.
LANES = """
SELECT j.id::text, (j.payload ->> 'index')::integer, j.status, j.worker_id::text,
    coalesce(w.name, ''), w.beat_at, n.kind, n.depth, n.attempts, n.leaves, n.progress_at,
    coalesce(n.cur::text, n.cur_key), coalesce(n.hi::text, n.hi_key)
FROM jobs_job j
LEFT JOIN jobs_worker w ON w.id = j.worker_id AND j.status = 'processing'
LEFT JOIN ranges_rangenode n ON n.run_id = %(run)s::uuid AND n.state = 'running'
    AND n.owner_job = j.id
WHERE j.parent_id = %(job)s::uuid AND j.status IN ('pending', 'processing')
ORDER BY 2, 1
LIMIT %(most)s
"""


@dataclass(frozen=True, kw_only=True)
class Lane:
    job_id: str
    index: int
    is_working: bool
    worker_id: str | None
    worker: str
    beat_at: datetime | None
    kind: str
    depth: int | None
    attempts: int
    """Failed ones of the leaf at work."""
    leaves: int
    progress_at: datetime | None
    cur: Any
    hi: Any
    """Where its piece ends."""

    @property
    def place(self) -> str:
        return f"{written(self.cur)} of {'the end' if self.hi is None else written(self.hi)}"


def lanes(run: RangeRun, scale: Scale | None) -> list[Lane]:
    if run.job_id is None:
        return []
    given = {"run": str(run.id), "job": str(run.job_id), "most": MOST}
    found = []
    for row in DjangoDatabase().rows(LANES, given):
        id, index, status, worker_id, worker, beat_at, kind, depth, attempts, leaves, at = row[:11]
        keys = [_key(scale, place) for place in row[11:]]
        found.append(
            Lane(
                job_id=id,
                index=index,
                is_working=status == "processing",
                worker_id=worker_id,
                worker=worker,
                beat_at=beat_at,
                kind=kind or "",
                depth=depth,
                attempts=attempts or 0,
                leaves=leaves or 0,
                progress_at=at,
                cur=keys[0],
                hi=keys[1],
            )
        )
    return found


def _key(scale: Scale | None, place: str | None) -> Any:
    if place is None or scale is None:
        return None
    return scale.key(int(place) if isinstance(scale.lo, int) else place)
