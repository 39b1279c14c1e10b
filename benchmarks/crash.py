"""Workers killed in the middle of their jobs, with all settings at their defaults.

SIGKILL to the whole process tree of `runworker`, and a new one at once; and SIGKILL to the child
alone, which its supervisor replaces. Beside the seconds until the interrupted jobs run again are
those until any job runs again: what starting a process takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import records
from benchmarks.draining import QUEUE, fill, numbered, wait_until_all_ended
from benchmarks.figures import Figure, Goal
from benchmarks.stage import CHECKOUT, Database, Scale, Stage, Worker, wait_until
from jobs import lifecycle

COUNTS = {Scale.FULL: 500, Scale.QUICK: 500, Scale.SMOKE: 200}
SECONDS = 0.02
KILL_AT = 0.3
"""The part of the jobs that has started when the kill comes."""
RECOVERY_SECONDS = 240.0

type Kill = Callable[[Database, Worker, Path], Worker]


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    interrupted: int
    lost: int
    run_again: int
    """Jobs that ran more than once."""
    attempts_lost: int
    """Attempts that were called lost, of jobs that waited in the worker's memory too."""
    others_after: float
    """Seconds from the kill to the first start of a job that was not interrupted."""
    interrupted_after: float
    """Seconds until the last interrupted job was running again."""


def measure(stage: Stage) -> list[Figure]:
    figures = []
    for name, kill in (("tree", _kill_tree), ("child", _kill_child)):
        found = [_crash(stage, kill) for _ in range(stage.repeat)]
        others = f"{name} killed: other jobs go on after"
        figures += [
            Figure(
                name=f"{name} killed: interrupted jobs",
                unit="jobs",
                samples=[each.interrupted for each in found],
            ),
            Figure(
                name=f"{name} killed: lost",
                unit="jobs",
                samples=[each.lost for each in found],
                goal=Goal(at_most=0),
            ),
            Figure(
                name=f"{name} killed: run more than once",
                unit="jobs",
                samples=[each.run_again for each in found],
                beside=f"{name} killed: interrupted jobs",
            ),
            Figure(
                name=f"{name} killed: attempts lost",
                unit="attempts",
                samples=[each.attempts_lost for each in found],
                beside=f"{name} killed: interrupted jobs",
            ),
            Figure(name=others, unit="s", samples=[each.others_after for each in found]),
            Figure(
                name=f"{name} killed: interrupted jobs run again after",
                unit="s",
                samples=[each.interrupted_after for each in found],
                beside=others,
                goal=Goal(at_most=5.0),
            ),
        ]
    return [*figures, *(_chaos(stage) if stage.kills else [])]


def _crash(stage: Stage, kill: Kill) -> Aftermath:
    count = COUNTS[stage.scale]
    path = stage.file("crash")
    with stage.database() as database:
        fill(database, "watched_sleep", numbered(count, seconds=SECONDS))
        worker = database.start_worker(records=path)
        try:
            database.wait_ready(worker, 1)
            lifecycle.resume_queue(QUEUE)
            wait_until(
                lambda: len(records.read(path).starts) >= KILL_AT * count,
                "enough jobs have started",
                RECOVERY_SECONDS,
                every=0.001,
            )
            killed_at = time.monotonic()
            worker = kill(database, worker, path)
            at_kill = records.read(path)
            wait_until_all_ended(database, worker, RECOVERY_SECONDS)
        finally:
            worker.stop()
        completed, attempts_lost = database.rows(
            "SELECT (SELECT count(completed_at) FROM jobs_job),"
            " (SELECT count(*) FROM jobs_attempt WHERE outcome = 'lost')"
        )[0]
    return replace(
        _aftermath(records.read(path), at_kill, killed_at),
        lost=count - completed,
        attempts_lost=attempts_lost,
    )


def _aftermath(after: records.Records, at_kill: records.Records, killed_at: float) -> Aftermath:
    # What the dead had started while they were being killed is not what came after.
    later = {n: times[len(at_kill.starts.get(n, ())) :] for n, times in after.starts.items()}
    again = [later[n][0] for n in at_kill.interrupted if later[n]]
    others = [at for n, times in later.items() if n not in at_kill.interrupted for at in times]
    return Aftermath(
        interrupted=len(at_kill.interrupted),
        lost=0,
        attempts_lost=0,
        run_again=sum(len(starts) > 1 for starts in after.starts.values()),
        others_after=min(others, default=killed_at) - killed_at,
        interrupted_after=max(again, default=killed_at) - killed_at,
    )


def _chaos(stage: Stage) -> list[Figure]:
    """Many kills at random moments, as the tests do few, with recovery's times made short."""
    from tests.processes.chaos import run_chaos
    from tests.processes.harness import World

    # What the project's settings ask for where a database is given.
    os.environ |= {"SECRET_KEY": "for a benchmark " * 4, "ALLOWED_HOSTS": "localhost"}
    url = stage.server.url("coppice")
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": url},
        check=True,
    )
    world = World(url)
    report = run_chaos(world.url, kills=stage.kills, seed=stage.kills)
    world.history_is_consistent()
    fates = report.fates
    created = sum(fate.created for fate in fates.values())
    never = Goal(at_most=0)
    found = {
        "kills": (report.kills, None),
        "seconds": (report.seconds, None),
        "jobs": (created, None),
        "attempts lost": (report.outcomes.get("lost", 0), None),
        "jobs lost": (created - sum(fate.completed for fate in fates.values()), never),
        "plain jobs run more than once": (fates["prove.effect"].with_repeated_effects, None),
        "atomic jobs with effects twice": (fates["prove.atomic"].with_repeated_effects, never),
        "jobs without effect": (sum(fate.without_effect for fate in fates.values()), never),
    }
    return [
        Figure(name=f"chaos: {name}", unit="count", samples=[value], goal=goal)
        for name, (value, goal) in found.items()
    ]


def _kill_tree(database: Database, worker: Worker, path: Path) -> Worker:
    worker.kill_tree()
    return database.start_worker(records=path)


def _kill_child(_: Database, worker: Worker, __: Path) -> Worker:
    for child in worker.children:
        child.kill()
    return worker
