"""PostgreSQL ends the sessions of lanes, or goes away, in the middle of a range run."""

from __future__ import annotations

from config.servers import Postgres
from tests.processes.harness import World, crash
from tests.processes.ranging import runs_on
from tests.processes.running import eventually, runworker

KEYS = 12_000
DONE = KEYS * 7 // 10
END_ALL_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_sessions_that_are_ended_and_a_server_that_crashes_repeat_no_key_and_lose_none(
    own_postgres: Postgres,
) -> None:
    world = World(own_postgres.url("coppice"))
    with (
        runs_on(world.url) as runs,
        runworker(world.url, "--processes", "2", "--concurrency", "4") as worker,
    ):
        runs.tables.rows(
            "INSERT INTO toy_key (todo, hits)"
            f" SELECT mod(n, 10) < 7, 0 FROM generate_series(1, {KEYS}) n"
        )
        runs.tables.rows("ANALYZE toy_key")
        worker.wait_for("worker.ready", 2)
        run = runs.start("toys.Touch", concurrency=8, max_range_size=100, params={"seconds": 0.15})

        def done_more(share: float) -> None:
            eventually(lambda: touched() > DONE * share, lambda: f"{share:.0%}; {touched()} done")

        def touched() -> int:
            return int(runs.tables.one("SELECT sum(hits) FROM toy_key") or 0)

        done_more(0.1)
        runs.tables.rows(END_ALL_SESSIONS)
        done_more(0.4)
        crash(own_postgres)
        own_postgres.start()
        eventually(
            lambda: runs.status(run) == "completed",
            lambda: f"the end; {runs.status(run)} {runs.reason(run)} {touched()}",
        )
        assert worker.stop() == 0

        assert runs.tables.rows(
            "SELECT todo, hits, count(*) FROM toy_key GROUP BY 1, 2 ORDER BY 2"
        ) == [(False, 0, KEYS - DONE), (False, 1, DONE)]
        verdict = runs.call("verify", run)
    assert (verdict["chain"], verdict["multirange"], verdict["ledger"]) == (True, True, True)
    assert (verdict["rows_ok"], verdict["unfinished"]) == (DONE, 0)
