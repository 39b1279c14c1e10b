"""Workers killed and frozen at random while they work on a range: each key is done exactly once.

Ten million keys, two hundred kills and a hundred freezes past the time-out:

COPPICE_CHAOS_KEYS=10000000 COPPICE_CHAOS_KILLS=200 COPPICE_CHAOS_FREEZES=100 \
    pytest tests/processes/test_ranges_chaos.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from threading import Thread

import pytest

from tests.processes.ranging import Runs, runs_on
from tests.processes.running import eventually, runworker

KEYS = int(os.environ.get("COPPICE_CHAOS_KEYS", "100000"))
KILLS = int(os.environ.get("COPPICE_CHAOS_KILLS", "8"))
FREEZES = int(os.environ.get("COPPICE_CHAOS_FREEZES", "3"))
LEAF = 60 * KEYS // (KILLS + FREEZES) // 2_500
"""So that there is work for as long as somebody strikes."""
FROZEN_SECONDS = 5.0  # past dead_after of the tests' settings
LONGEST_SECONDS = 240.0


@pytest.fixture
def runs(project_database: str) -> Iterator[Runs]:
    with runs_on(project_database) as runs:
        yield runs


def strike(runs: Runs, run: str, seed: int) -> tuple[int, int]:
    """Kill and freeze children at random until all strikes are done or the run has ended.

    Only those that are at work: a supervisor whose children keep dying as they start gives up.
    """
    chance = random.Random(seed)
    kills = freezes = 0
    thawing: list[Thread] = []
    strikes = ["kill"] * KILLS + ["freeze"] * FREEZES
    chance.shuffle(strikes)
    for what in strikes:
        time.sleep(chance.uniform(0.1, 0.6))
        pids = eventually(lambda: at_work(runs) or runs.status(run) != "running", "somebody works")
        if runs.status(run) != "running":
            break
        pid = chance.choice(pids)
        with suppress(ProcessLookupError):
            if what == "kill":
                os.kill(pid, signal.SIGKILL)
                kills += 1
            else:
                os.kill(pid, signal.SIGSTOP)
                freezes += 1
                thawing.append(Thread(target=thaw, args=(pid,), daemon=True))
                thawing[-1].start()
    for thread in thawing:
        thread.join()
    return kills, freezes


def at_work(runs: Runs) -> list[int]:
    """Children that hold a lane."""
    rows = runs.tables.rows(
        "SELECT DISTINCT w.pid FROM jobs_worker w JOIN jobs_job j ON j.worker_id = w.id"
        " WHERE j.status = 'processing' AND w.state = 'running' AND j.type = 'ranges.lane'"
    )
    return [pid for (pid,) in rows]


def thaw(pid: int) -> None:
    time.sleep(FROZEN_SECONDS)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def test_with_workers_killed_and_frozen_at_random_each_undone_key_is_done_exactly_once(
    runs: Runs,
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    runs.tables.rows(
        "INSERT INTO toy_key (todo, hits)"
        f" SELECT mod(n, 10) < 7, 0 FROM generate_series(1, {KEYS}) n"
    )
    runs.tables.rows("ANALYZE toy_key")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(
                runworker(runs.tables.url, "--processes", "4", "--concurrency", "3")
            )
        eventually(lambda: len(runs.tables.child_pids()) == 8, "eight children")
        run = runs.start(
            "toys.Touch",
            concurrency=16,
            max_range_size=LEAF,
            params={"seconds": 0.15},
        )
        kills, freezes = strike(runs, run, seed)
        eventually(
            lambda: runs.status(run) not in ("running", "created"),
            lambda: f"the end; {runs.status(run)} {runs.reason(run)}",
            LONGEST_SECONDS,
        )

    assert (runs.status(run), runs.reason(run)) == ("completed", "")
    done = KEYS * 7 // 10
    assert runs.tables.rows(
        "SELECT todo, hits, count(*) FROM toy_key GROUP BY 1, 2 ORDER BY 2"
    ) == [
        (False, 0, KEYS - done),
        (False, 1, done),
    ]
    verdict = runs.call("verify", run)
    assert (verdict["chain"], verdict["multirange"], verdict["ledger"]) == (True, True, True)
    assert (verdict["rows_ok"], verdict["unfinished"]) == (done, 0)
    print(f"{kills} kills, {freezes} freezes, {verdict['nodes']} nodes")
    assert kills + freezes >= (KILLS + FREEZES) // 2
