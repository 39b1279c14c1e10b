"""PostgreSQL goes away under four workers with jobs running, or Redis does."""

from __future__ import annotations

import signal
import time

import psutil
import psycopg

from config.servers import Postgres, Valkey
from tests.processes.harness import World, crash, noise, workers
from tests.processes.running import Running, eventually, runworker

WORKERS = 4
OPTIONS = ("--concurrency", "4")
AWAY_SECONDS = 6  # twice what calls a silent worker dead
LONG = {"seconds": AWAY_SECONDS + 3}
LINES_PER_WORKER = 12


def crash_and_come_back(server: Postgres) -> None:
    crash(server)
    server.start()


def stay_away(server: Postgres) -> None:
    """Longer than a worker may be silent before it is called dead."""
    server.stop()
    time.sleep(AWAY_SECONDS)
    server.start()


def hang(server: Postgres) -> None:
    """The server accepts nothing and answers nothing, as behind a broken network."""
    postmaster = psutil.Process(int((server.data / "postmaster.pid").read_text().split()[0]))
    stopped = [postmaster, *postmaster.children()]
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    time.sleep(AWAY_SECONDS)
    for process in stopped:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


def test_a_database_that_goes_away_and_comes_back_makes_no_job_run_twice(
    own_postgres: Postgres,
) -> None:
    world = World(own_postgres.url("coppice"))
    with workers(world.url, WORKERS, *OPTIONS) as running:
        for number, outage in enumerate((crash_and_come_back, stay_away, hang), start=1):
            long = world.enqueue_all("prove.effect", 8, payload=LONG)
            eventually(
                lambda long=long: [world.effects(job) for job in long] == [1] * 8,  # type: ignore[misc]
                "all long jobs run",
            )
            world.enqueue_all("prove.nothing", 2_000)
            outage(own_postgres)
            eventually(lambda: answers(world), "the database answers")
            world.enqueue_all("prove.effect", 20)
            world.all_ended()

            # Nobody's running job was started a second time, and nobody was called dead.
            assert [world.effects(job) for job in long] == [1] * 8
            assert [world.attempts(job)[-1] for job in long] == ["succeeded"] * 8
            assert len(noise(running)) <= number * LINES_PER_WORKER * WORKERS
        assert sum(len(worker.logged("worker.ready")) for worker in running) == WORKERS
        for worker in running:
            assert worker.stop() == 0
    assert world.counts() == {"completed": 3 * 2_028}
    assert "lost" not in world.outcomes()
    assert set(world.workers()) == {"stopped"}
    world.history_is_consistent()


def answers(world: World) -> bool:
    try:
        return bool(world.one("SELECT 1"))
    except psycopg.OperationalError:
        return False


def test_a_worker_told_to_stop_while_the_database_is_away_writes_its_outcomes_when_it_is_back(
    own_postgres: Postgres,
) -> None:
    world = World(own_postgres.url("coppice"))
    with runworker(world.url, *OPTIONS) as worker:
        worker.wait_for("worker.ready")
        ids = world.enqueue_all("prove.effect", 4, payload={"seconds": 3})
        eventually(lambda: world.effect_count() == 4, "all run")
        own_postgres.stop()
        worker.signal(signal.SIGTERM)
        worker.wait_for("worker.draining")
        time.sleep(4)  # the handlers end meanwhile
        own_postgres.start()

        assert worker.ended() == 0
    assert [world.attempts(job) for job in ids] == [["succeeded"]] * 4
    assert world.counts() == {"completed": 4}


def test_the_loss_of_redis_touches_no_job(world: World, own_valkey: Valkey) -> None:
    def run(worker: Running, amount: int) -> None:
        ids = world.enqueue_all("prove.effect", amount)
        eventually(lambda: {world.status(job) for job in ids} == {"completed"}, "all completed")
        assert len(worker.logged("worker.ready")) == 1

    with runworker(world.url, COPPICE_TEST_REDIS_URL=f"unix://{own_valkey.socket}") as worker:
        worker.wait_for("worker.ready")
        run(worker, 20)
        own_valkey.stop()
        run(worker, 50)
        own_valkey.start()
        run(worker, 20)
        assert len(noise([worker])) <= 4
        assert worker.stop() == 0
    assert world.outcomes() == {"succeeded": 90}
