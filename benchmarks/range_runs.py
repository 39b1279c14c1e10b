"""The same way of running a range on real workers for all benchmarks that do."""

from __future__ import annotations

from typing import Any

from benchmarks.stage import Database, wait_until
from ranges.declaring import RangeJob
from ranges.models import RangeRun
from ranges.progress import Progress, progress
from ranges.states import ENDED, RunStatus

LONGEST_SECONDS = 3_600.0


def run_on_workers(
    database: Database,
    job: type[RangeJob],
    *args: Any,
    lanes: int,
    processes: int = 1,
    **options: Any,
) -> Progress:
    """Run it to its end on a worker that was waiting. Its seconds are `active_seconds`.

    They go from the planning of the run to its proof, by the database's clock.
    """
    with database.workers(processes=processes, concurrency=-(-lanes // processes) + 1):
        run = job.start(*args, concurrency=lanes, **options)
        wait_until_ended(database, run)
    run.refresh_from_db()
    if run.status != RunStatus.COMPLETED:
        raise RuntimeError(f"the run is {run.status}: {run.reason}")
    if not run.verify().is_complete:
        raise RuntimeError(f"the run did not cover its range: {run.verify().problems}")
    return progress(run)


def wait_until_ended(database: Database, run: RangeRun) -> None:
    """Ended, or paused by itself, from which it would not go on."""
    rests = {str(status) for status in (*ENDED, RunStatus.PAUSED)}
    wait_until(
        lambda: database.one("SELECT status FROM ranges_rangerun WHERE id = %s", run.id) in rests,
        "the run has ended",
        LONGEST_SECONDS,
    )
