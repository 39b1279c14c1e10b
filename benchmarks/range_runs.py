"""The same way of running a range on real workers for all benchmarks that do.

Leaves that note their start and end (`records.py`) are measured from the first start to the last
end, whatever came before and after.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.stage import Database, Stage, Worker, wait_until
from ranges.declaring import RangeJob
from ranges.models import RangeRun
from ranges.progress import Progress, progress
from ranges.states import ENDED, RunStatus

LONGEST_SECONDS = 3_600.0

_numbers = count(1)


def run_on_workers(
    database: Database,
    job: type[RangeJob],
    *args: Any,
    lanes: int,
    processes: int = 1,
    notes: Path | None = None,
    **options: Any,
) -> Progress:
    """Run it to its end on a worker that was waiting. Its seconds are `active_seconds`.

    They go from the planning of the run to its proof, by the database's clock.
    """
    slots = -(-lanes // processes) + 1
    with database.workers(processes=processes, concurrency=slots, records=notes) as worker:
        run = job.start(*args, concurrency=lanes, **options)
        wait_until_ended(database, run, worker)
    run.refresh_from_db()
    if run.status != RunStatus.COMPLETED:
        raise RuntimeError(f"the run is {run.status}: {run.reason}")
    if not run.verify().is_complete:
        raise RuntimeError(f"the run did not cover its range: {run.verify().problems}")
    return progress(run)


def new_notes(stage: Stage) -> Path:
    """A file for the notes of one run."""
    return stage.file(f"leaves_{next(_numbers)}")


def leaf_seconds(notes: Path, leaves: int | None = None) -> float:
    """From the start of the first leaf to the end of the last one, of so many.

    Of a leaf that was done again the first time counts.
    """
    found = records.read(notes)
    if leaves is not None and len(found.ends) != leaves:
        raise RuntimeError(f"{len(found.ends)} leaves have ended, not {leaves}")
    return max(each[0] for each in found.ends.values()) - min(
        each[0] for each in found.starts.values()
    )


def wait_until_ended(database: Database, run: RangeRun, worker: Worker) -> None:
    """Ended, or paused by itself, from which it would not go on."""
    rests = {str(status) for status in (*ENDED, RunStatus.PAUSED)}

    def rested() -> bool:
        if worker.process.poll() is not None:
            raise RuntimeError(f"runworker ended: {worker.log.read_text()[-2_000:]}")
        status = database.one("SELECT status FROM ranges_rangerun WHERE id = %s", run.id)
        return status in rests

    wait_until(rested, "the run has ended", LONGEST_SECONDS)
