"""Range runs whose workers all stop, or all die."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes.ranging import Runs, runs_on
from tests.processes.running import eventually, runworker

SOME = 30_000


@pytest.fixture
def runs(project_database: str) -> Iterator[Runs]:
    with runs_on(project_database) as runs:
        yield runs


def test_a_pause_comes_to_rest_though_all_workers_are_killed(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as doomed:
        run = runs.start("toys.Note", end=SOME, params={"seconds": 0.02})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        doomed.process.kill()
        doomed.ended()
        runs.call("pause", run)
    with runworker(runs.tables.url, "--concurrency", "4") as other:
        eventually(lambda: runs.is_at_rest(run), "nobody works")
        assert runs.status(run) == "paused"
        runs.call("resume", run)
        runs.becomes(run, "completed")
        assert other.stop() == 0

    assert runs.is_tiled(0, SOME)


def test_a_worker_that_is_told_to_stop_gives_its_strands_back_uncharged(runs: Runs) -> None:
    with runworker(runs.tables.url, "--concurrency", "4") as first:
        run = runs.start("toys.Note", end=SOME, params={"seconds": 0.05})
        eventually(lambda: len(runs.notes()) > 20, "some leaves")
        assert first.stop() == 0
        assert runs.working(run) == 0
    with runworker(runs.tables.url, "--concurrency", "4") as second:
        runs.becomes(run, "completed")
        assert second.stop() == 0

    assert runs.is_tiled(0, SOME)
    assert runs.tables.one("SELECT max(interrupted) + max(attempts) FROM ranges_rangenode") == 0
    assert runs.tables.one("SELECT count(*) FROM jobs_attempt WHERE outcome = 'lost'") == 0
