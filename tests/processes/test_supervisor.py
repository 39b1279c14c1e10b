"""What a supervisor does about its children, with children that misbehave on demand."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import psycopg
import pytest

from config.servers import Postgres
from jobs.registry import OWN_QUEUE
from tests.processes.running import Running, Tables, eventually, runworker, standins


@pytest.fixture
def tables(project_database: str) -> Tables:
    return Tables(project_database)


def beats(tables: Tables) -> int:
    return int(tables.one("SELECT coalesce(sum(beats), 0) FROM jobs_worker"))


def moves_on(tables: Tables) -> None:
    """Wait until some worker beats again."""
    before = beats(tables)
    eventually(lambda: beats(tables) > before + 1, "beats")


def test_a_child_is_entered_vouched_for_and_stopped(tables: Tables) -> None:
    with standins(tables.url, "is fine", "--processes", "2", "--queues", "a,b") as worker:
        worker.wait_for("worker.ready", 2)
        moves_on(tables)
        rows = tables.rows("SELECT name, pid, state, queues, lock_key FROM jobs_worker")
        pids = {line["pid"] for line in worker.logged("worker.ready")}

        assert {row[1] for row in rows} == pids
        assert len({row[0] for row in rows}) == 2
        assert {row[2] for row in rows} == {"running"}
        assert all(row[3] == ["a", "b", OWN_QUEUE] and row[4] for row in rows)
        assert worker.stop() == 0

    assert tables.workers() == ["stopped", "stopped"]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_child_that_is_killed_is_replaced(tables: Tables) -> None:
    with standins(tables.url, "is fine") as worker:
        (first,) = worker.wait_for("worker.ready")
        os.kill(first["pid"], signal.SIGKILL)
        worker.wait_for("worker.ready", 2)
        moves_on(tables)

        assert tables.workers() == ["dead", "running"]
        assert worker.logged("worker.lost", worker_id=first["worker_id"])
        assert worker.stop() == 0


def test_children_that_die_before_they_are_ready_end_the_worker(tables: Tables) -> None:
    with standins(tables.url, "dies at start") as worker:
        assert worker.ended() == 1

        (line,) = worker.logged("worker.cannot_start")
        assert "exit code 7" in line["reason"]
    assert tables.workers() == ["dead"] * 5


def test_a_child_that_finds_the_settings_wrong_ends_the_worker_with_code_2(
    tables: Tables,
) -> None:
    with standins(tables.url, "finds settings wrong") as worker:
        assert worker.ended() == 2

        assert worker.logged("worker.settings", error="COPPICE_TOY=1 must be 2")


def test_a_second_signal_gives_up_what_runs(tables: Tables) -> None:
    with standins(tables.url, "is deaf") as worker:
        worker.wait_for("worker.ready")
        worker.signal(signal.SIGTERM)
        worker.wait_for("standin.heard", order="drain")
        worker.signal(signal.SIGTERM)
        worker.wait_for("standin.heard", order="abandon")
        worker.signal(signal.SIGTERM)  # and a third does not wait for the child

        assert worker.ended() == 1
        assert worker.logged("worker.ended")[0]["how"].startswith("killed by its supervisor")


def test_after_the_graceful_timeout_the_worker_gives_up(tables: Tables) -> None:
    with standins(tables.url, "is deaf", "--graceful-timeout", "0.3") as worker:
        worker.wait_for("worker.ready")
        worker.signal(signal.SIGINT)
        worker.wait_for("standin.heard", order="abandon")

        assert worker.ended() == 1
    assert tables.workers() == ["dead"]


def test_a_child_without_a_pulse_is_killed_and_replaced(tables: Tables) -> None:
    with standins(tables.url, "has no pulse", COPPICE_HUNG_SECONDS="3") as worker:
        worker.wait_for("worker.hung", 2)
        worker.wait_for("worker.ready", 2)


def test_a_child_may_ask_to_be_replaced_and_go_when_it_is_done(tables: Tables) -> None:
    with standins(tables.url, "asks to be replaced") as worker:
        worker.wait_for("worker.ready", 2)
        eventually(lambda: tables.workers() == ["draining", "running"], "both rows")

        assert worker.stop() == 0


def test_a_child_that_closes_its_pipe_does_not_make_the_supervisor_spin(tables: Tables) -> None:
    with standins(tables.url, "hangs up") as worker:
        worker.wait_for("worker.ready")
        process = psutil.Process(worker.process.pid)
        moves_on(tables)
        before = process.cpu_times().user
        for _ in range(4):
            moves_on(tables)

        assert process.cpu_times().user - before < 1.0
        assert worker.stop() == 0


def test_a_worker_declared_dead_is_told_and_starts_anew(tables: Tables) -> None:
    with standins(tables.url, "is fine") as worker:
        worker.wait_for("worker.ready")
        tables.rows("UPDATE jobs_worker SET state = 'dead'")
        worker.wait_for("standin.heard", order="renew")
        worker.wait_for("worker.ready", 2)
        moves_on(tables)

        assert tables.workers() == ["dead", "running"]


def test_a_worker_whose_row_was_deleted_starts_anew(tables: Tables) -> None:
    with standins(tables.url, "is fine") as worker:
        worker.wait_for("worker.ready")
        tables.rows("DELETE FROM jobs_worker")
        worker.wait_for("worker.ready", 2)

        eventually(lambda: tables.workers() == ["running"], "the new row")


def test_a_stopped_child_gets_no_beats_and_is_renewed_when_it_goes_on(tables: Tables) -> None:
    with standins(tables.url, "is fine") as worker:
        (line,) = worker.wait_for("worker.ready")
        os.kill(line["pid"], signal.SIGSTOP)
        worker.wait_for("worker.lost", worker_id=line["worker_id"])
        assert psutil.pid_exists(line["pid"])
        os.kill(line["pid"], signal.SIGCONT)

        worker.wait_for("standin.heard", order="renew")
        worker.wait_for("worker.ready", 2)


def test_a_workers_row_that_somebody_keeps_locked_silences_no_other_child(tables: Tables) -> None:
    with (
        standins(tables.url, "is fine", "--processes", "2") as worker,
        standins(tables.url, "is fine") as other,
    ):
        held, sibling = (line["worker_id"] for line in worker.wait_for("worker.ready", 2))
        other.wait_for("worker.ready")
        moves_on(tables)

        def beats_of_the_sibling() -> int:
            return int(tables.one("SELECT beats FROM jobs_worker WHERE id = %s", sibling))

        with psycopg.connect(tables.url) as holder:
            holder.execute("SELECT FROM jobs_worker WHERE id = %s FOR UPDATE", (held,))
            before = beats_of_the_sibling()
            # For longer than a silent worker lives.
            eventually(
                lambda: beats_of_the_sibling() > before + 15 or other.logged("worker.lost"), "beats"
            )
            assert not other.logged("worker.lost")


def test_a_listener_that_takes_long_silences_no_child(tables: Tables) -> None:
    with (
        standins(tables.url, "is fine") as other,
        standins(tables.url, "is fine", SLOW_LISTENER="600") as worker,
    ):
        other.wait_for("worker.ready")
        (line,) = worker.wait_for("worker.ready")

        def beats_of_it() -> int:
            return int(tables.one("SELECT beats FROM jobs_worker WHERE id = %s", line["worker_id"]))

        # For longer than a silent worker lives.
        eventually(lambda: beats_of_it() > 15 or other.logged("worker.lost"), "beats")
        assert not other.logged("worker.lost")
        assert worker.stop() == 0


def test_after_the_beats_session_was_ended_the_lock_is_taken_again(tables: Tables) -> None:
    locked = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()"
    )
    with standins(tables.url, "is fine") as worker:
        worker.wait_for("worker.ready")
        eventually(lambda: tables.one(locked) == 2, "its own lock, and the leader's")
        tables.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'coppice beats' AND datname = current_database()"
        )
        moves_on(tables)
        eventually(lambda: tables.one(locked) == 2, "both locks again")

        assert tables.workers() == ["running"]
        assert worker.stop() == 0


def test_when_a_whole_worker_is_killed_another_takes_over(tables: Tables) -> None:
    with standins(tables.url, "is fine") as doomed, standins(tables.url, "is fine") as other:
        (line,) = doomed.wait_for("worker.ready")
        other.wait_for("worker.ready")
        moves_on(tables)
        doomed.process.kill()

        other.wait_for("worker.lost", worker_id=line["worker_id"])
        assert "session is gone" in other.logged("worker.lost")[0]["reason"]
        other.wait_for("leader.elected")
        eventually(lambda: not psutil.pid_exists(line["pid"]), "the child dies as well")


def test_without_a_database_the_worker_gives_up_in_the_end(tmp_path: Path) -> None:
    url = f"postgresql://nobody@/nothing?host={tmp_path}"
    with standins(url, "is fine", START_SECONDS="1") as worker:
        assert worker.ended() == 3

        assert worker.logged("worker.no_database")
        assert len(worker.logged("database.away")) == 1


def test_a_signal_while_waiting_for_the_database_ends_the_worker(tmp_path: Path) -> None:
    with standins(f"postgresql://nobody@/nothing?host={tmp_path}", "is fine") as worker:
        worker.wait_for("database.away")

        assert worker.stop() == 0


def test_a_database_without_tables_is_said_at_once(database_url: str) -> None:
    with standins(database_url, "is fine") as worker:
        assert worker.ended() == 2

        assert "migrate" in worker.logged("worker.refused")[0]["hint"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--concurrency", "0"], "--concurrency"),
        (["--processes", "many"], "--processes"),
        (["--queues", "a b"], "--queues"),
        (["--scheduler", "tree"], "--scheduler"),
        (["--graceful-timeout", "-1"], "--graceful-timeout"),
    ],
)
def test_wrong_options_are_named_and_end_with_code_2(
    tables: Tables, options: list[str], word: str
) -> None:
    with runworker(tables.url, *options) as worker:
        assert worker.ended() == 2
    assert word in "".join(worker.other_output)


def test_wrong_settings_are_named_and_end_with_code_2(tables: Tables) -> None:
    with runworker(tables.url, COPPICE_BEAT_SECONDS="10") as worker:
        assert worker.ended() == 2
    assert "COPPICE_DEAD_AFTER_SECONDS=3 must be at least 30" in "".join(worker.other_output)


def test_a_database_that_restarts_or_stays_away_for_a_while_kills_nobody(
    own_postgres: Postgres,
) -> None:
    tables = Tables(own_postgres.url("coppice"))
    with standins(tables.url, "is fine") as worker, standins(tables.url, "is fine") as other:
        for each in (worker, other):
            each.wait_for("worker.ready")
        moves_on(tables)
        own_postgres.stop()
        for each in (worker, other):
            each.wait_for("database.away")
        own_postgres.start()
        for each in (worker, other):
            each.wait_for("database.back")
        moves_on(tables)

        assert tables.workers() == ["running", "running"]
        for each in (worker, other):
            assert outage_lines(each) <= 4
            assert each.stop() == 0
    assert tables.workers() == ["stopped", "stopped"]


def outage_lines(worker: Running) -> int:
    return sum(line["level"] in ("warning", "error") for line in worker.lines if "level" in line)
