"""Pausing, cancelling, stopping and losing workers in the middle of a range run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.processes.ranging import Runs, runs_on
from tests.processes.running import eventually, runworker


@pytest.fixture
def runs(project_database: str) -> Iterator[Runs]:
    with runs_on(project_database) as runs:
        yield runs


def ended(runs: Runs, run: str, status: str, seconds: float = 60.0) -> None:
    eventually(
        lambda: runs.status(run) == status,
        lambda: f"{status}; it is {runs.status(run)} {runs.reason(run)}",
        seconds,
    )


def is_tiled(runs: Runs, without: tuple[int, ...] = ()) -> bool:
    """Whether the leaves follow one another from 0 to 100,000, with nothing left out but these."""
    at = 0
    for lo, hi in runs.notes():
        while at in without:
            at += 1
        if lo != at:
            return False
        at = hi
    while at in without:
        at += 1
    return at == 100_000


def test_a_pause_comes_to_rest_and_a_resume_finishes_with_each_leaf_done_once(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.Note", params={"seconds": 0.02})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        runs.call("pause", run, reason="lunch")
        eventually(lambda: runs.is_at_rest(run), "nobody works")
        count = len(runs.notes())
        assert runs.status(run) == "paused"

        assert runs.call("retune", run, concurrency=8)
        runs.call("resume", run)
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert 20 < count < 1_000
    assert is_tiled(runs)


def test_a_pause_comes_to_rest_though_all_workers_are_killed(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as doomed:
        run = runs.start("toys.Note", params={"seconds": 0.02})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        doomed.process.kill()
        doomed.ended()
        runs.call("pause", run)
    with runworker(runs.tables.url, "--concurrency", "4") as other:
        eventually(lambda: runs.is_at_rest(run), "nobody works")
        assert runs.status(run) == "paused"
        runs.call("resume", run)
        ended(runs, run, "completed")
        assert other.stop() == 0

    assert is_tiled(runs)


def test_a_cancel_is_seen_inside_a_leaf_whose_work_is_undone(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "2") as worker:
        run = runs.start("toys.Patient")
        eventually(lambda: runs.working(run) == 2, "two leaves at work")
        runs.call("cancel", run)
        eventually(lambda: runs.is_at_rest(run), "nobody works")
        assert worker.stop() == 0

    assert runs.status(run) == "cancelled"
    assert runs.notes() == []
    assert runs.tables.one("SELECT count(*) FROM ranges_rangefailure") == 0


def test_a_worker_that_is_told_to_stop_gives_its_strands_back_uncharged(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as first:
        run = runs.start("toys.Note", params={"seconds": 0.05})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        assert first.stop() == 0
        assert runs.working(run) == 0
    with runworker(runs.tables.url, "--concurrency", "4") as second:
        ended(runs, run, "completed")
        assert second.stop() == 0

    assert is_tiled(runs)
    assert runs.tables.one("SELECT max(interrupted) + max(attempts) FROM ranges_rangenode") == 0
    assert runs.tables.one("SELECT count(*) FROM jobs_attempt WHERE outcome = 'lost'") == 0


def test_a_key_that_kills_its_worker_is_found_and_all_others_are_done(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.Note", params={"fatal": [50_050]})
        ended(runs, run, "partially_failed", 120.0)
        assert worker.stop() == 0

    assert runs.tables.rows("SELECT key, upto FROM ranges_rangefailure") == [("50050", "")]
    assert is_tiled(runs, without=(50_050,))
    assert runs.call("verify", run)["ok"]


def test_a_leaf_past_its_hard_time_out_is_taken_away_and_its_late_work_undone(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "2") as worker:
        run = runs.start("toys.Stuck")
        ended(runs, run, "completed")
        eventually(lambda: runs.is_at_rest(run), "the stuck lane ends")
        assert worker.stop() == 0

    assert is_tiled(runs)
    assert runs.tables.one("SELECT sum(fenced) FROM ranges_rangenode") == 1


def test_work_outside_a_transaction_is_done_at_least_once(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.NoteOutside", params={"seconds": 0.02})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        os.kill(runs.tables.child_pids()[0], signal.SIGKILL)
        ended(runs, run, "completed")
        assert worker.stop() == 0

    notes = runs.notes()
    covered = {key for lo, hi in notes for key in range(lo, hi)}
    assert covered == set(range(100_000))
    assert len(notes) - len(set(notes)) <= 4  # one leaf for each lane of the dead worker
