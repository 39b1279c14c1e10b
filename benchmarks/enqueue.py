"""Jobs made one by one and in bulk, beside plain INSERT and COPY of the same rows.

The plain rows are made ready before the clock runs; ours are checked, encoded and given ids on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psycopg

from benchmarks.figures import Figure, Goal
from benchmarks.stage import Database, Scale, Stage
from jobs import JobSpec, enqueue, enqueue_jobs, enqueue_many
from jobs.ids import new_id

CHAIN = 10
"""Jobs that wait for each other in turn."""
BLOCK = 500
"""Lines of a plain COPY that are written at once."""

INSERT = """
INSERT INTO jobs_job (id, type, payload, scheduled_at, due_at)
VALUES (%s::uuid, 'noop', %s::jsonb, statement_timestamp(), statement_timestamp())
RETURNING created_at
"""
COPY_JOBS = "COPY jobs_job (id, payload, type, unmet_dependencies) FROM STDIN"
COPY_EDGES = "COPY jobs_jobdependency (child_id, parent_id) FROM STDIN"


@dataclass(frozen=True, kw_only=True)
class Size:
    single: int
    bulk: int
    checked: int
    linked: int


SIZES = {
    Scale.FULL: Size(single=6_000, bulk=200_000, checked=20_000, linked=20_000),
    Scale.QUICK: Size(single=1_500, bulk=40_000, checked=4_000, linked=4_000),
    Scale.SMOKE: Size(single=20, bulk=200, checked=20, linked=40),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    ways: dict[str, tuple[Callable[[Database, int], float], int]] = {
        "INSERT, one by one": (_plain_single, size.single),
        "enqueue": (_single, size.single),
        "COPY": (_plain_bulk, size.bulk),
        "enqueue_many": (_bulk, size.bulk),
        "enqueue_many, a list": (_bulk_list, size.bulk),
        "enqueue_many, payload serializer": (_checked, size.checked),
        "COPY, with edges": (_plain_linked, size.linked),
        "enqueue_jobs, with dependencies": (_linked, size.linked),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with stage.database() as database:
        for _ in range(stage.repeat):
            for name, (way, count) in ways.items():
                database.rows("TRUNCATE jobs_job, jobs_jobdependency")
                database.rows("CHECKPOINT")
                rates[name].append(count / way(database, count))
                assert database.one("SELECT count(*) FROM jobs_job") == count
    beside = {
        "enqueue": "INSERT, one by one",
        "enqueue_many": "COPY",
        "enqueue_many, a list": "COPY",
        "enqueue_many, payload serializer": "COPY",
        "enqueue_jobs, with dependencies": "COPY, with edges",
    }
    goals = {
        "enqueue": Goal(at_least=3_500),
        "enqueue_many": Goal(at_least=100_000),
        "enqueue_many, payload serializer": Goal(at_least=15_000),
    }
    return [
        Figure(
            name=name,
            unit="jobs/s",
            samples=samples,
            beside=beside.get(name, ""),
            goal=goals.get(name),
        )
        for name, samples in rates.items()
    ]


def _single(_: Database, count: int) -> float:
    def work() -> None:
        for n in range(count):
            enqueue("noop", {"n": n})

    return _timed(work)


def _plain_single(database: Database, count: int) -> float:
    rows = [(new_id(), f'{{"n": {n}}}') for n in range(count)]

    def work() -> None:
        with psycopg.Cursor(database.connection) as cursor:
            for row in rows:
                cursor.execute(INSERT, row, prepare=True)
                cursor.fetchone()

    return _timed(work)


def _bulk(_: Database, count: int) -> float:
    return _timed(lambda: enqueue_many("noop", ({"n": n} for n in range(count))))


def _bulk_list(_: Database, count: int) -> float:
    payloads = [{"n": n} for n in range(count)]
    return _timed(lambda: enqueue_many("noop", payloads))


def _checked(_: Database, count: int) -> float:
    payloads = ({"number": n, "email": f"reader{n}@example.org"} for n in range(count))
    return _timed(lambda: enqueue_many("checked", payloads))


def _plain_bulk(database: Database, count: int) -> float:
    blocks = _blocks(f'{new_id()}\t{{"n": {n}}}\tnoop\t0\n' for n in range(count))

    def work() -> None:
        with database.connection.cursor().copy(COPY_JOBS) as copy:
            for block in blocks:
                copy.write(block)

    return _timed(work)


def _linked(_: Database, count: int) -> float:
    specs = [
        JobSpec(
            type="noop",
            payload={"n": n},
            key=str(n),
            depends_on=[str(n - 1)] if n % CHAIN else (),
        )
        for n in range(count)
    ]
    return _timed(lambda: enqueue_jobs(specs))


def _plain_linked(database: Database, count: int) -> float:
    ids = [new_id() for _ in range(count)]
    jobs = _blocks(f'{id}\t{{"n": {n}}}\tnoop\t{int(n % CHAIN > 0)}\n' for n, id in enumerate(ids))
    edges = _blocks(f"{ids[n]}\t{ids[n - 1]}\n" for n in range(count) if n % CHAIN)

    def work() -> None:
        with database.connection.transaction():
            for command, blocks in ((COPY_JOBS, jobs), (COPY_EDGES, edges)):
                with database.connection.cursor().copy(command) as copy:
                    for block in blocks:
                        copy.write(block)

    return _timed(work)


def _blocks(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    return ["".join(every[start : start + BLOCK]) for start in range(0, len(every), BLOCK)]


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
