"""A host whose clock is ten minutes off starts nothing early, and its jobs are not rescued.

The worker's processes live under a shifted clock; the database keeps the right one. For a worker
that is what a database with a wrong clock looks like, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.processes.harness import World
from tests.processes.running import CHECKOUT, Running, eventually, runworker

SHIFT = """
import datetime, os, time_machine
time_machine.travel(
    datetime.datetime.now(datetime.UTC)
    + datetime.timedelta(seconds=float(os.environ["SHIFTED_BY"]))
).start()
"""

type Start = Callable[[float], AbstractContextManager[Running]]


@pytest.fixture
def shifted(world: World, tmp_path: Path) -> Start:
    """A worker whose processes, all of them, have clocks that are so many seconds off."""
    (tmp_path / "sitecustomize.py").write_text(SHIFT)

    def start(seconds: float) -> AbstractContextManager[Running]:
        worker: AbstractContextManager[Running] = runworker(
            world.url,
            PYTHONPATH=f"{tmp_path}:{CHECKOUT}",
            SHIFTED_BY=str(seconds),
        )
        return worker

    return start


@pytest.mark.parametrize("seconds", [600.0, -600.0], ids=["host ahead", "server ahead"])
def test_nothing_starts_early_or_late_and_nobody_is_rescued(
    world: World, shifted: Start, seconds: float
) -> None:
    with shifted(seconds) as wrong, runworker(world.url, "--queues", "none") as right:
        for worker in (wrong, right):
            worker.wait_for("worker.ready")
        [(stamp, now)] = [
            (line["timestamp"], world.one("SELECT now()::text")) for line in wrong.lines[:1]
        ]
        assert stamp[:16] != now.replace(" ", "T")[:16]  # it does live at another time
        [soon] = world.enqueue_all(
            "prove.effect", 1, due_at=world.one("SELECT now() + interval '4 seconds'")
        )
        [far] = world.enqueue_all(
            "prove.effect", 1, due_at=world.one("SELECT now() + interval '9 minutes'")
        )
        # Longer than what calls a silent worker dead, and with a failure in between.
        [long] = world.enqueue_all("prove.effect", 1, payload={"seconds": 5})
        [retried] = world.enqueue_all("prove.effect", 1, payload={"fails": 1})
        [stuck] = world.enqueue_all("prove.regex_apart", 1, max_attempts=1)
        for job in (soon, long, retried):
            world.becomes(job, "completed")
        world.becomes(stuck, "failed")
        assert not right.logged("worker.lost")
        assert not wrong.logged("worker.lost")
        # Each has said how far off it is: not more than starting and asking took.
        eventually(
            lambda: (
                not world.one("SELECT count(*) FROM jobs_worker WHERE clock_skew_seconds IS NULL")
            ),
            "both skews",
        )
        skews = dict(
            world.rows(
                "SELECT queues = '[]', clock_skew_seconds FROM jobs_worker"
                " WHERE clock_skew_uncertainty_seconds < 5"
            )
        )
        assert abs(skews[True] - seconds) < 5
        assert abs(skews[False]) < 5
        assert (wrong.stop(), right.stop()) == (0, 0)

    assert world.status(far) == "pending"
    assert world.attempts(long) == ["succeeded"]
    assert world.attempts(stuck) == ["timed_out"]
    assert world.attempts(retried) == ["failed", "succeeded"]
    # By the clock of the database: started when due, and not before.
    assert world.one(
        "SELECT started_at >= due_at AND started_at < due_at + interval '5 minutes'"
        " FROM jobs_job WHERE id = %s",
        soon,
    )
    # The first retry comes after about a second, whatever the host believes.
    [(wait,)] = world.rows(
        "SELECT extract(epoch FROM b.started_at - a.finished_at)::float8 FROM jobs_attempt a"
        " JOIN jobs_attempt b ON b.job_id = a.job_id AND b.lease_epoch = 2"
        " WHERE a.job_id = %s AND a.lease_epoch = 1",
        retried,
    )
    assert 0.7 < wait < 300
    assert world.rows(
        "SELECT count(*) FROM jobs_job WHERE greatest(started_at, completed_at, updated_at)"
        " > clock_timestamp() OR started_at < created_at"
    ) == [(0,)]


def test_the_workers_clock_says_nothing_about_other_workers(world: World, shifted: Start) -> None:
    """Each with a clock of its own, they leave each other alone."""
    with shifted(600.0) as one, shifted(-600.0) as two, shifted(0.0) as three:
        for worker in (one, two, three):
            worker.wait_for("worker.ready")
        world.enqueue_all("prove.effect", 12, payload={"seconds": 4})
        eventually(lambda: world.effect_count() == 12, "all run")
        world.all_ended()
        assert [worker.stop() for worker in (one, two, three)] == [0, 0, 0]

    assert world.outcomes()["succeeded"] == world.effect_count() == 12
    assert "lost" not in world.outcomes()
