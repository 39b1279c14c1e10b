"""Jobs whose worker dies, hangs or is frozen: real workers, real handlers, real signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.processes.running import Running, Tables, eventually, runworker


@pytest.fixture
def tables(project_database: str) -> Tables:
    return Tables(project_database)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes"
    path.touch()
    return path


def count(notes: Path, word: str, job_id: str = "") -> int:
    return sum(line.startswith(f"{word} {job_id}") for line in notes.read_text().splitlines())


def pid_of(notes: Path, word: str) -> int:
    return int(next(li for li in notes.read_text().splitlines() if li.startswith(word)).split()[2])


def all_completed(tables: Tables, ids: list[str]) -> bool:
    done = tables.one(
        "SELECT count(*) FROM jobs_job WHERE status = 'completed' AND id = ANY(%s::uuid[])", ids
    )
    return bool(done == len(ids))


def test_jobs_of_a_killed_child_run_again_at_once_and_bystanders_keep_their_attempts(
    tables: Tables, notes: Path
) -> None:
    ids = [tables.enqueue("toy.nap", notes=str(notes), seconds=1.0) for _ in range(6)]
    with runworker(tables.url, "--concurrency", "2") as worker:
        eventually(lambda: count(notes, "started") >= 2, "both slots busy")
        os.kill(pid_of(notes, "started"), signal.SIGKILL)
        eventually(lambda: all_completed(tables, ids), "all completed")
        assert worker.stop() == 0

    outcomes = sorted(tables.attempts(job)[0] for job in ids)
    assert outcomes.count("lost") == 2
    spent = tables.rows("SELECT attempt_count, lost_count FROM jobs_job ORDER BY 1")
    assert spent == [(1, 0)] * 4 + [(2, 1)] * 2


def test_a_job_that_kills_its_worker_ends_dead_and_all_others_complete(
    tables: Tables, notes: Path
) -> None:
    poison = tables.enqueue("toy.kill", max_attempts=2, notes=str(notes))
    ids = [tables.enqueue("toy.note", notes=str(notes)) for _ in range(20)]
    with runworker(tables.url, "--concurrency", "2") as worker:
        eventually(lambda: tables.status(poison) == "failed", "the dead letter")
        eventually(lambda: all_completed(tables, ids), "all completed")
        assert worker.stop() == 0

    assert tables.attempts(poison) == ["lost", "lost"]
    assert count(notes, "started", poison) == 2


def test_when_supervisor_and_child_are_killed_another_worker_runs_the_jobs(
    tables: Tables, notes: Path
) -> None:
    with runworker(tables.url, "--concurrency", "2") as doomed:
        doomed.wait_for("worker.ready")
        ids = [tables.enqueue("toy.nap", notes=str(notes), seconds=1.0) for _ in range(3)]
        eventually(lambda: count(notes, "started") >= 2, "both slots busy")
        doomed.process.kill()
    with runworker(tables.url, "--concurrency", "2") as other:
        eventually(lambda: all_completed(tables, ids), "all completed")
        assert other.stop() == 0

    histories = [tables.attempts(job) for job in ids]
    assert sum(history.count("lost") for history in histories) in (2, 3)
    assert all(history[-1] == "succeeded" for history in histories), histories


def test_jobs_are_rescued_also_when_the_dead_workers_row_is_gone(
    tables: Tables, notes: Path
) -> None:
    with runworker(tables.url) as doomed:
        doomed.wait_for("worker.ready")
        job = tables.enqueue("toy.nap", notes=str(notes), seconds=1.0)
        eventually(lambda: count(notes, "started") == 1, "it runs")
        doomed.process.kill()
        doomed.ended()
    tables.rows("DELETE FROM jobs_worker")
    with runworker(tables.url) as other:
        eventually(lambda: tables.status(job) == "completed", "it completes")
        assert other.stop() == 0

    assert tables.attempts(job) == ["lost", "succeeded"]


def test_a_frozen_workers_job_is_done_elsewhere_and_its_own_outcome_is_refused(
    tables: Tables, notes: Path
) -> None:
    with runworker(tables.url) as frozen:
        frozen.wait_for("worker.ready")
        (child,) = tables.child_pids()
        job = tables.enqueue("toy.nap", notes=str(notes), seconds=3.0)
        eventually(lambda: count(notes, "started") == 1, "it runs")
        for pid in (frozen.process.pid, child):
            os.kill(pid, signal.SIGSTOP)
        with runworker(tables.url) as other:
            eventually(lambda: tables.status(job) == "completed", "it completes elsewhere")
            before = tables.rows("SELECT * FROM jobs_job")
            for pid in (child, frozen.process.pid):
                os.kill(pid, signal.SIGCONT)
            frozen.wait_for("worker.declared_dead")
            frozen.wait_for("worker.ready", 2)

            assert tables.rows("SELECT * FROM jobs_job") == before
            assert tables.attempts(job) == ["lost", "succeeded"]
            for worker in (frozen, other):
                assert worker.stop() == 0


def test_a_handler_that_holds_the_interpreter_is_started_once(tables: Tables, notes: Path) -> None:
    job = tables.enqueue("toy.hog", notes=str(notes), seconds=9.0)  # three times dead_after
    with runworker(tables.url) as worker, runworker(tables.url) as other:
        eventually(lambda: count(notes, "started") == 1, "it runs")
        hog = worker if is_running_in(worker, pid_of(notes, "started")) else other
        hog.signal(signal.SIGTERM)  # also during a graceful stop
        eventually(lambda: tables.status(job) == "completed", "it completes")

        assert hog.ended() == 0
    assert count(notes, "started") == 1
    assert tables.attempts(job) == ["succeeded"]


def is_running_in(worker: Running, pid: int) -> bool:
    return any(line["pid"] == pid for line in worker.logged("worker.ready"))


def test_a_handler_that_holds_the_interpreter_past_its_deadline_is_killed(
    tables: Tables, notes: Path
) -> None:
    job = tables.enqueue("toy.overdue", max_attempts=1, notes=str(notes), seconds=120.0)
    with runworker(tables.url) as worker:
        eventually(lambda: tables.status(job) == "failed", "it timed out")
        worker.wait_for("worker.ready", 2)

        assert tables.attempts(job) == ["timed_out"]
        assert worker.logged("worker.hung")
        assert worker.stop() == 0


def test_a_drained_worker_finishes_what_runs_and_hands_back_the_rest(
    tables: Tables, notes: Path
) -> None:
    ids = [tables.enqueue("toy.nap", notes=str(notes), seconds=3.0) for _ in range(8)]
    with runworker(tables.url, "--concurrency", "2") as worker:
        eventually(lambda: count(notes, "started") >= 2, "both slots busy")
        assert worker.stop() == 0

    statuses = sorted(tables.status(job) for job in ids)
    assert statuses == ["completed"] * 2 + ["pending"] * 6
    assert tables.one("SELECT max(attempt_count) FROM jobs_job WHERE status = 'pending'") == 0
    assert tables.workers() == ["stopped"]


@pytest.mark.parametrize("how", ["second signal", "time-out"])
def test_a_forced_stop_hands_back_unfinished_jobs_unspent(
    tables: Tables, notes: Path, how: str
) -> None:
    job = tables.enqueue("toy.nap", notes=str(notes), seconds=60.0)
    options = ["--graceful-timeout", "0.5"] if how == "time-out" else []
    with runworker(tables.url, *options) as worker:
        eventually(lambda: count(notes, "started") == 1, "it runs")
        worker.signal(signal.SIGTERM)
        worker.wait_for("worker.draining")
        if how == "second signal":
            worker.signal(signal.SIGTERM)

        assert worker.ended() == 1
    assert tables.status(job) == "pending"
    assert tables.one("SELECT attempt_count FROM jobs_job") == 0
    assert tables.attempts(job) == ["handed_back"]
    assert tables.workers() == ["stopped"]


def test_a_burst_ends_when_nothing_is_due_also_after_a_child_has_died(
    tables: Tables, notes: Path
) -> None:
    ids = [tables.enqueue("toy.note", notes=str(notes)) for _ in range(50)]
    poison = tables.enqueue("toy.kill", max_attempts=1, notes=str(notes))
    later = tables.enqueue("toy.note", notes=str(notes))
    tables.rows("UPDATE jobs_job SET due_at = now() + interval '1 hour' WHERE id = %s", later)
    with runworker(tables.url, "--burst", "--processes", "2") as worker:
        assert worker.ended() == 0

    assert all_completed(tables, ids)
    assert tables.status(poison) == "failed"
    assert tables.status(later) == "pending"
