"""A run of a billion keys as its readers see it, and runs whose workers are killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import psutil

from benchmarks.figures import Figure, Goal, percentile
from benchmarks.project.range_jobs import Mark, Nothing
from benchmarks.range_runs import new_notes, run_on_workers, wait_until_ended
from benchmarks.range_tables import TABLE
from benchmarks.stage import Database, Scale, Stage
from ranges import Leaf
from ranges.drawing import coverage, tree
from ranges.models import RangeRun
from ranges.progress import progress

KEYS = 10**9
LEAVES = {Scale.FULL: 100_000, Scale.QUICK: 4_000, Scale.SMOKE: 50}
LANES = {Scale.FULL: 64, Scale.QUICK: 16, Scale.SMOKE: 4}
LOOKS = {Scale.FULL: 100, Scale.QUICK: 30, Scale.SMOKE: 3}
KILLED_ROWS = 400_000
KILLED_LEAF = 200

READY = "SELECT pid FROM jobs_worker WHERE state = 'running'"
NOTE_TOUCHES = (
    "CREATE TABLE touched (id bigint)",
    """
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO touched VALUES (NEW.id); RETURN NEW; END $$
    """,
    "CREATE TRIGGER note BEFORE UPDATE ON benchmark_row FOR EACH ROW EXECUTE FUNCTION note()",
)


def measure(stage: Stage) -> list[Figure]:
    return [*_billion(stage), *(_killed(stage) if stage.kills else [])]


def _billion(stage: Stage) -> list[Figure]:
    leaves = LEAVES[stage.scale]
    with stage.database() as database:
        found = run_on_workers(
            database, Nothing, 0, KEYS, lanes=LANES[stage.scale], processes=stage.processes,
            leaf=Leaf(max_size=KEYS // leaves),
        )  # fmt: skip
        run = RangeRun.objects.get(id=found.run_id)
        nodes = database.one("SELECT count(*) FROM ranges_rangenode")
        looks = LOOKS[stage.scale]
        bare = _p95(looks, lambda: database.one("SELECT 1"))
        readers: dict[str, tuple[Callable[[], object], float]] = {
            "progress": (lambda: progress(run), 5),
            "tree, depth 4": (lambda: tree(run, 4), 50),
            "tree, depth 10": (lambda: tree(run, 10), 50),
            "coverage": (lambda: coverage(run), 50),
            "verify": (run.verify, 100),
        }
        times = {name: (_p95(looks, read), goal) for name, (read, goal) in readers.items()}
    beside = "a bare SELECT, p95"
    return [
        Figure(name="a billion keys: leaves", unit="leaves", samples=[found.leaves]),
        Figure(name="a billion keys: rate", unit="leaves/s",
               samples=[found.leaves / found.active_seconds]),
        Figure(name="a billion keys: rows stored", unit="rows", samples=[nodes],
               goal=Goal(at_most=300)),
        Figure(name=beside, unit="ms", samples=[bare]),
        *(
            Figure(name=f"a billion keys: {name}, p95", unit="ms", samples=[milliseconds],
                   beside=beside, goal=Goal(at_most=goal))
            for name, (milliseconds, goal) in times.items()
        ),
    ]  # fmt: skip


def _p95(count: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1_000)
    return percentile(times, 95)


def _killed(stage: Stage) -> list[Figure]:
    """Child processes killed at random moments while they work on rows."""
    with stage.database() as database:
        database.rows(TABLE)
        database.rows(
            "INSERT INTO benchmark_row SELECT n, false, false, false, false"
            f" FROM generate_series(1, {KILLED_ROWS}) n"
        )
        database.rows("CREATE INDEX ON benchmark_row (id) WHERE NOT a")
        for statement in NOTE_TOUCHES:
            database.rows(statement)
        database.tidy()
        kills, seconds, rounds, missed, again = 0, 0.0, 0, 0, 0
        while kills < stage.kills and not missed and not again:
            database.rows("TRUNCATE touched")
            database.rows("UPDATE benchmark_row SET a = false WHERE a")
            database.rows("TRUNCATE touched")
            done, took = _one_killed_run(database, stage.kills - kills)
            kills, seconds, rounds = kills + done, seconds + took, rounds + 1
            rows, distinct = database.rows("SELECT count(*), count(DISTINCT id) FROM touched")[0]
            missed, again = KILLED_ROWS - distinct, rows - distinct
    never = Goal(at_most=0)
    return [
        Figure(name="killed: kills", unit="count", samples=[kills]),
        Figure(name="killed: runs", unit="count", samples=[rounds]),
        Figure(name="killed: seconds", unit="s", samples=[seconds]),
        Figure(name="killed: rows missed", unit="rows", samples=[missed], goal=never),
        Figure(name="killed: rows done twice", unit="rows", samples=[again], goal=never),
    ]


def _one_killed_run(database: Database, most: int) -> tuple[int, float]:
    started, kills = time.monotonic(), 0
    notes = new_notes(database.stage)
    with database.workers(processes=2, concurrency=5, records=notes) as worker:
        run = Mark.start(concurrency=8, leaf=Leaf(max_size=KILLED_LEAF), failure_threshold=None)
        while kills < most:
            time.sleep(random.uniform(0.2, 1.5))
            run.refresh_from_db()
            if run.status != "running" or worker.process.poll() is not None:
                break
            # One that has just started holds nothing, and a worker whose children die again and
            # again before they are ready gives up.
            ready = {pid for (pid,) in database.rows(READY)}
            victims = [child for child in worker.children if child.pid in ready]
            if victims:
                try:
                    random.choice(victims).kill()
                except psutil.NoSuchProcess:
                    continue
                kills += 1
        wait_until_ended(database, run, worker)
    if not run.verify().is_complete:
        raise RuntimeError(f"the run did not cover its range: {run.verify().problems}")
    return kills, time.monotonic() - started
