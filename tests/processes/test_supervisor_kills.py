"""Kill workers at random moments, again and again: no job is lost, none completes twice."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.processes.running import Running, Tables, amount, eventually, runworker

KILLS = amount(8, thorough=60)
WORKERS = 2


def test_every_job_completes_once_whoever_is_killed_when(
    project_database: str, tmp_path: Path
) -> None:
    tables, notes = Tables(project_database), tmp_path / "notes"
    rng = random.Random(KILLS)
    ids: list[str] = []
    with ExitStack() as stack:

        def start() -> Running:
            worker = runworker(
                tables.url, "--concurrency", "4", "--processes", "2", "--graceful-timeout", "1"
            )
            started: Running = stack.enter_context(worker)
            return started

        workers = [start() for _ in range(WORKERS)]
        for _ in range(KILLS):
            ids += [
                tables.enqueue(
                    "toy.nap", 1_000, notes=str(notes), seconds=rng.choice([0.0, 0.05, 0.5])
                )
                for _ in range(10)
            ]
            time.sleep(rng.uniform(0.0, 1.5))
            strike(rng, tables, workers)
            workers = [each if each.process.poll() is None else start() for each in workers]
        eventually(lambda: unfinished(tables) == 0, f"{KILLS} kills are overcome")
        for each in workers:
            each.stop()

    assert tables.one("SELECT count(*) FROM jobs_job WHERE status = 'completed'") == len(ids)
    succeeded = tables.rows(
        "SELECT job_id FROM jobs_attempt WHERE outcome = 'succeeded'"
        " GROUP BY job_id HAVING count(*) = 1"
    )
    assert len(succeeded) == len(ids)
    # Each claim has its attempt on record, and unspent ones were given back.
    assert not tables.rows(
        "SELECT j.id FROM jobs_job j WHERE j.lease_epoch <>"
        " (SELECT count(*) FROM jobs_attempt a WHERE a.job_id = j.id)"
    )
    assert not tables.rows(
        "SELECT j.id FROM jobs_job j WHERE j.attempt_count <> (SELECT count(*) FROM jobs_attempt a"
        " WHERE a.job_id = j.id AND a.outcome IN ('succeeded', 'lost', 'failed', 'timed_out'))"
    )


def unfinished(tables: Tables) -> int:
    return int(
        tables.one("SELECT count(*) FROM jobs_job WHERE status IN ('pending', 'processing')")
    )


def strike(rng: random.Random, tables: Tables, workers: list[Running]) -> None:
    """Kill a child or a whole worker, by force or politely."""
    pids = tables.child_pids()
    number = rng.choice([signal.SIGKILL, signal.SIGTERM])
    if pids and rng.random() < 0.5:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(pids), signal.SIGKILL)
    else:
        worker = rng.choice(workers)
        worker.signal(number)
        if number == signal.SIGKILL:
            worker.ended()
