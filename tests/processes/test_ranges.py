"""Range runs with real workers: who works, who stops, and who takes over."""

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


def tiled(notes: list[tuple[int, int]], lo: int, hi: int) -> bool:
    """Whether the leaves follow one another without gap or overlap."""
    at = lo
    for start, end in notes:
        if start != at:
            return False
        at = end
    return at == hi


def ended(runs: Runs, run: str, status: str, seconds: float = 60.0) -> None:
    eventually(
        lambda: runs.status(run) == status,
        lambda: f"{status}; it is {runs.status(run)} {runs.reason(run)}",
        seconds,
    )


def test_a_run_over_a_table_touches_each_undone_row_once_and_completes(runs: Runs) -> None:
    runs.tables.rows(
        "INSERT INTO toy_key (todo, hits) SELECT mod(n, 5) <> 0, 0 FROM generate_series(1, 50000) n"
    )
    runs.tables.rows("ANALYZE toy_key")
    with runworker(runs.tables.url, "--concurrency", "8") as worker:
        run = runs.start("toys.Touch")
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert runs.tables.rows(
        "SELECT todo, hits, count(*) FROM toy_key GROUP BY 1, 2 ORDER BY 2"
    ) == [
        (False, 0, 10_000),
        (False, 1, 40_000),
    ]
    verdict = runs.call("verify", run)
    assert (verdict["ok"], verdict["unfinished"], verdict["rows_ok"]) == (True, 0, 40_000)


def test_a_plain_range_is_tiled_by_its_leaves(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.Note")
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert tiled(runs.notes(), 0, 100_000)
    assert runs.call("verify", run)["rows_ok"] == 100_000
    assert runs.tables.one("SELECT count(*) FROM ranges_rangenode") < 40


def test_the_strands_of_a_killed_worker_are_taken_over(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.Note", params={"seconds": 0.02})
        eventually(lambda: len(runs.notes()) > 40, "some leaves")
        os.kill(runs.tables.child_pids()[0], signal.SIGKILL)
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert tiled(runs.notes(), 0, 100_000)
    assert runs.call("verify", run)["ok"]


def test_idle_lanes_steal_the_tail_of_a_slow_strand(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as worker:
        run = runs.start("toys.Note", params={"slow_below": 10_000})
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert tiled(runs.notes(), 0, 100_000)
    assert runs.tables.one(
        "SELECT count(*) FROM ranges_rangenode WHERE parent_id IS NOT NULL AND kind = 'strand'"
    )
    assert runs.call("verify", run)["ok"]


def test_a_billion_keys_on_64_lanes_cost_a_few_hundred_rows(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "64") as worker:
        run = runs.start("toys.Billion")
        ended(runs, run, "completed")
        assert worker.stop() == 0

    assert runs.call("verify", run)["rows_ok"] == 10**9
    assert int(runs.tables.one("SELECT count(*) FROM ranges_rangenode")) <= 300
    assert runs.tables.one("SELECT count(*) FROM jobs_attempt WHERE outcome = 'snoozed'") == 0
