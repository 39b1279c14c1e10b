"""Range runs with a real worker, which all of them share: who works, who stops, who takes over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.processes.ranging import Runs, runs_on
from tests.processes.running import eventually, runworker

NOTED = 100_000
"""Keys of `toys.Note` and its like."""
SOME = 40_000


@pytest.fixture(scope="module")
def shared(module_database: str) -> Iterator[Runs]:
    with (
        runs_on(module_database) as runs,
        runworker(module_database, "--concurrency", "64") as worker,
    ):
        worker.wait_for("worker.ready")
        yield runs
        assert worker.stop() == 0


@pytest.fixture
def runs(shared: Runs) -> Runs:
    """Nothing of an earlier test is at work, or noted."""
    shared.clear()
    return shared


def test_a_run_over_a_table_touches_each_undone_row_once_and_completes(runs: Runs) -> None:
    runs.tables.rows(
        "INSERT INTO toy_key (todo, hits) SELECT mod(n, 5) <> 0, 0 FROM generate_series(1, 50000) n"
    )
    runs.tables.rows("ANALYZE toy_key")
    run = runs.start("toys.Touch")
    runs.becomes(run, "completed")

    assert runs.tables.rows(
        "SELECT todo, hits, count(*) FROM toy_key GROUP BY 1, 2 ORDER BY 2"
    ) == [
        (False, 0, 10_000),
        (False, 1, 40_000),
    ]
    verdict = runs.call("verify", run)
    assert (verdict["ok"], verdict["unfinished"], verdict["rows_ok"]) == (True, 0, 40_000)


def test_two_runs_over_the_same_rows_at_one_time_touch_each_row_once(runs: Runs) -> None:
    runs.tables.rows(
        "INSERT INTO toy_key (todo, hits) SELECT true, 0 FROM generate_series(1, 20000)"
    )
    runs.tables.rows("ANALYZE toy_key")
    both = [runs.start("toys.Touch", max_range_size=50, params={"seconds": 0.01}) for _ in range(2)]
    for run in both:
        runs.becomes(run, "completed")

    assert runs.tables.rows("SELECT todo, hits, count(*) FROM toy_key GROUP BY 1, 2") == [
        (False, 1, 20_000)
    ]
    shares = [runs.call("verify", run)["rows_ok"] for run in both]
    assert sum(shares) == 20_000
    assert min(shares) > 0  # both were at work


def test_a_plain_range_is_tiled_by_its_leaves(runs: Runs) -> None:
    run = runs.start("toys.Note")
    runs.becomes(run, "completed")

    assert runs.is_tiled(0, NOTED)
    assert runs.call("verify", run)["rows_ok"] == NOTED
    assert runs.nodes(run) < 40


def test_idle_lanes_steal_the_tail_of_a_slow_strand(runs: Runs) -> None:
    run = runs.start("toys.Note", params={"slow_below": 10_000})
    runs.becomes(run, "completed")

    assert runs.is_tiled(0, NOTED)
    assert runs.nodes(run, "parent_id IS NOT NULL AND kind = 'strand'")
    assert runs.call("verify", run)["ok"]


def test_a_billion_keys_on_64_lanes_cost_a_few_hundred_rows(runs: Runs) -> None:
    run = runs.start("toys.Billion")
    runs.becomes(run, "completed")

    assert runs.call("verify", run)["rows_ok"] == 10**9
    assert runs.nodes(run) <= 300
    assert runs.tables.one("SELECT count(*) FROM jobs_attempt WHERE outcome = 'snoozed'") == 0


# Pause and cancel


def test_a_pause_comes_to_rest_and_a_resume_finishes_with_each_leaf_done_once(runs: Runs) -> None:
    run = runs.start("toys.Note", params={"seconds": 0.02})
    eventually(lambda: len(runs.notes()) > 20, "some leaves")
    runs.call("pause", run, reason="lunch")
    eventually(lambda: runs.is_at_rest(run), "nobody works")
    count = len(runs.notes())
    assert runs.status(run) == "paused"

    assert runs.call("retune", run, concurrency=8)
    runs.call("resume", run)
    runs.becomes(run, "completed")

    assert 20 < count < 1_000
    assert runs.is_tiled(0, NOTED)


def test_a_cancel_is_seen_inside_a_leaf_whose_work_is_undone(runs: Runs) -> None:
    run = runs.start("toys.Patient")
    eventually(lambda: runs.working(run) == 2, "two leaves at work")
    runs.call("cancel", run)
    eventually(lambda: runs.is_at_rest(run), "nobody works")

    assert runs.status(run) == "cancelled"
    assert runs.notes() == []
    assert runs.failed_keys(run) == []


# Deaths


def test_a_leaf_past_its_hard_time_out_is_taken_away_and_its_late_work_undone(runs: Runs) -> None:
    run = runs.start("toys.Stuck")
    runs.becomes(run, "completed")
    eventually(lambda: runs.is_at_rest(run), "the stuck lane ends")

    assert runs.is_tiled(0, NOTED)
    fenced = "SELECT sum(fenced) FROM ranges_rangenode WHERE run_id = %s"
    assert runs.tables.one(fenced, run) == 1


def test_the_strands_of_a_killed_worker_are_taken_over(runs: Runs) -> None:
    run = runs.start("toys.Note", end=SOME, params={"seconds": 0.02})
    eventually(lambda: len(runs.notes()) > 40, "some leaves")
    os.kill(runs.tables.child_pids()[0], signal.SIGKILL)
    runs.becomes(run, "completed")

    assert runs.is_tiled(0, SOME)
    assert runs.call("verify", run)["ok"]


def test_work_outside_a_transaction_is_done_at_least_once(runs: Runs) -> None:
    run = runs.start("toys.NoteOutside", end=SOME, params={"seconds": 0.02})
    eventually(lambda: len(runs.notes()) > 20, "some leaves")
    os.kill(runs.tables.child_pids()[0], signal.SIGKILL)
    runs.becomes(run, "completed")

    notes = runs.notes()
    covered = {key for lo, hi in notes for key in range(lo, hi)}
    assert covered == set(range(SOME))
    assert len(notes) - len(set(notes)) <= 4  # one leaf for each lane of the dead worker


def test_a_key_that_kills_its_worker_is_found_and_all_others_are_done(runs: Runs) -> None:
    run = runs.start("toys.Note", params={"fatal": [50_050]})
    runs.becomes(run, "partially_failed")

    assert runs.failed_keys(run) == [50_050]
    assert runs.is_tiled(0, NOTED, without=(50_050,))
    assert runs.call("verify", run)["ok"]
