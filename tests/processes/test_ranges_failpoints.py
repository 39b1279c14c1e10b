"""A lane is killed before a statement, after it, or after its commit: nothing is lost or repeated.

Each case is a real SIGKILL of a real process; what follows is what a leader does about it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import product

import pytest

from tests.processes.failpoints import Failpoint
from tests.processes.ranging import Runs, runs_on

BAD = 33
SAMPLES = min(259, int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300")) // 50)
KEYS = range(60)
MOMENTS = ("before", "after", "committed")
LEAVES = [
    Failpoint(statement, moment, behind)
    for (statement, behind), moment in product(
        [
            ("insert", ""),  # the strands that the run begins with
            ("claim", ""),
            ("reserve", ""),
            ("effects", ""),
            ("commit", ""),
            ("release", ""),
            # A leaf that failed becomes a node of its own.
            ("hold", ""),
            ("rewrite", ""),
            ("insert", "hold"),
            ("failures", ""),
            # Finished neighbours become one.
            ("hold_run", ""),
            ("merge", ""),
            ("hand_children", ""),
            ("remove", ""),
        ],
        MOMENTS,
    )
    # A single statement is committed with it, and one that is rolled back never.
    if (statement, moment) not in {("claim", "after"), ("reserve", "after"), ("release", "after")}
]


@pytest.fixture(scope="module")
def runs(module_database: str) -> Iterator[Runs]:
    with runs_on(module_database) as runs:
        yield runs


def is_proved(runs: Runs, run: str) -> bool:
    verdict = runs.call("verify", run)
    return (verdict["chain"], verdict["multirange"], verdict["ledger"], verdict["unfinished"]) == (
        True, True, True, 0,
    )  # fmt: skip


def named(point: Failpoint) -> str:
    return f"{point.moment} {point.statement}{' of a piece' if point.behind else ''}"


@pytest.mark.parametrize("point", LEAVES, ids=named)
def test_a_lane_killed_at_any_statement_repeats_no_effect_and_loses_none(
    runs: Runs, point: Failpoint
) -> None:
    run = runs.start("toys.Effects", params={"bad": BAD})
    runs.killed_at(point)
    runs.work_off()

    assert (runs.status(run), runs.failed_keys(run)) == ("partially_failed", [BAD])
    assert runs.effects(run) == {key: 1 for key in KEYS if key != BAD}
    assert is_proved(runs, run)


def test_a_lane_killed_at_its_nth_statement_whichever_that_is_loses_and_repeats_nothing(
    runs: Runs,
) -> None:
    most = 260  # more than the whole run has
    for nth in random.sample(range(1, most), SAMPLES):
        run = runs.start("toys.Effects", params={"bad": BAD})
        killed = runs.fork(dies_at=Failpoint("any", random.choice(MOMENTS), nth=nth))
        killed.ended()
        killed.lose()
        runs.work_off()
        print(nth, runs.status(run))

        assert (runs.status(run), runs.failed_keys(run)) == ("partially_failed", [BAD])
        assert runs.effects(run) == {key: 1 for key in KEYS if key != BAD}
        assert is_proved(runs, run)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_thief_killed_at_its_theft_leaves_the_victims_strand_or_a_strand_of_its_own(
    runs: Runs, moment: str
) -> None:
    with runs.gate():
        run = runs.start("toys.Effects", concurrency=1, params={"waits": 7, "seconds": 0.3})
        victim = runs.fork()
        runs.wait_for_the_gate()
        runs.call("retune", run, concurrency=2)
        runs.killed_at(Failpoint("steal", moment))
        stolen = runs.tables.one(
            "SELECT count(*) FROM ranges_rangenode WHERE run_id = %s AND parent_id IS NOT NULL", run
        )
    assert victim.ended() == 0
    runs.work_off()

    assert stolen == (0 if moment == "before" else 1)
    assert runs.status(run) == "completed"
    assert runs.effects(run) == dict.fromkeys(KEYS, 1)
    assert is_proved(runs, run)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_sweep_killed_at_any_moment_finds_what_came_back_all_the_same(
    runs: Runs, moment: str
) -> None:
    runs.tables.rows("TRUNCATE toy_key RESTART IDENTITY")
    runs.tables.rows("INSERT INTO toy_key (todo, hits) SELECT true, 0 FROM generate_series(1, 60)")
    runs.tables.rows("ANALYZE toy_key")
    run = runs.start("toys.Relapse", params={"last": 60, "relapses": [7, 33]})
    runs.killed_at(Failpoint("reopen", moment))
    runs.work_off()

    assert runs.status(run) == "completed"
    hits = dict(runs.tables.rows("SELECT id, hits FROM toy_key"))
    assert hits == {id: 2 if id in (7, 33) else 1 for id in range(1, 61)}
    assert is_proved(runs, run)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_retry_of_what_failed_killed_at_any_moment_is_done_or_not(
    runs: Runs, moment: str
) -> None:
    run = runs.start("toys.Effects", params={"bad": BAD})
    runs.work_off()
    assert runs.failed_keys(run) == [BAD]
    runs.tables.rows("UPDATE ranges_rangerun SET params = '{}' WHERE id = %s", run)

    runs.killed_at(Failpoint("revive", moment), ["retry_failed", run])
    is_done = runs.status(run) == "running"
    assert is_done == (moment == "committed")
    if not is_done:
        assert (runs.status(run), runs.failed_keys(run)) == ("partially_failed", [BAD])
        assert runs.call("retry_failed", run) == 1
    runs.work_off()

    assert runs.status(run) == "completed"
    assert runs.effects(run) == dict.fromkeys(KEYS, 1)
    assert is_proved(runs, run)


# Not atomic: at least once


@pytest.mark.parametrize("statement", ["effects", "checkpoint", "commit"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_outside_a_transaction_a_kill_repeats_a_part_of_one_leaf_with_the_same_item_keys(
    runs: Runs, statement: str, moment: str
) -> None:
    run = runs.start("toys.EffectsOutside", concurrency=1)
    kills = 3
    for _ in range(kills):
        runs.killed_at(Failpoint(statement, moment))
    runs.work_off()

    effects = runs.effects(run)
    assert runs.status(run) == "completed"
    assert set(effects) == set(KEYS)
    assert sum(effects.values()) - len(KEYS) <= kills * 5
    if (statement, moment) == ("checkpoint", "before"):
        assert sum(effects.values()) > len(KEYS)  # else nothing was shown
    items = runs.tables.rows(
        "SELECT key, count(DISTINCT item) FROM toy_effect WHERE run = %s GROUP BY 1", run
    )
    assert {count for _, count in items} == {1}
    distinct = "SELECT count(DISTINCT item) FROM toy_effect WHERE run = %s"
    assert runs.tables.one(distinct, run) == len(KEYS)
    assert is_proved(runs, run)


# Dead, or only slow


def test_clocks_an_hour_off_change_nothing(runs: Runs) -> None:
    run = runs.start("toys.Effects", params={"bad": BAD})
    fast, slow = ["shift", 3_600], ["shift", -3_600]
    runs.killed_at(Failpoint("commit", "after"), fast, ["work"])
    runs.killed_at(Failpoint("hold", "committed"), slow, ["work"])
    with runs.gate():
        other = runs.start("toys.Effects", concurrency=1, params={"waits": 7})
        late = runs.fork(fast, ["work"])
        runs.wait_for_the_gate()
        assert runs.fork(slow, ["work"]).ended() == 0
    assert late.ended() == 0

    assert (runs.status(run), runs.status(other)) == ("partially_failed", "completed")
    assert runs.effects(run) == {key: 1 for key in KEYS if key != BAD}
    assert runs.effects(other) == dict.fromkeys(KEYS, 1)
    assert is_proved(runs, run)
    assert is_proved(runs, other)
    ago = "SELECT abs(extract(epoch FROM finished_at - clock_timestamp())) FROM ranges_rangerun"
    assert all(seconds < 600 for (seconds,) in runs.tables.rows(ago))


def test_a_lane_that_comes_back_after_its_strand_was_taken_over_is_rolled_back(runs: Runs) -> None:
    with runs.gate():
        run = runs.start("toys.Effects", concurrency=1, params={"waits": 22})
        zombie = runs.fork()
        runs.wait_for_the_gate()
        zombie.lose()
        runs.tables.rows("UPDATE ranges_rangerun SET params = '{}' WHERE id = %s", run)
        runs.work_off()
        assert runs.status(run) == "completed"
        assert runs.effects(run) == dict.fromkeys(KEYS, 1)
    assert zombie.ended() == 0  # it goes home

    assert runs.effects(run) == dict.fromkeys(KEYS, 1)
    fenced = "SELECT sum(fenced) FROM ranges_rangenode WHERE run_id = %s"
    assert runs.tables.one(fenced, run) == 1
    assert is_proved(runs, run)


@pytest.mark.parametrize("wish", ["pause", "cancel"])
@pytest.mark.parametrize("statement", ["claim", "effects", "hold"])
def test_a_run_whose_lanes_were_all_killed_comes_to_rest_when_it_is_told_to(
    runs: Runs, wish: str, statement: str
) -> None:
    run = runs.start("toys.Effects", params={"bad": BAD})
    killed = runs.fork(
        dies_at=Failpoint(statement, "after" if statement != "claim" else "committed")
    )
    assert killed.ended() == -9
    runs.call(wish, run)
    killed.lose()
    runs.work_off()

    assert runs.is_at_rest(run)
    if wish == "cancel":
        assert runs.status(run) == "cancelled"
        return
    assert runs.status(run) == "paused"
    done = runs.effects(run)
    runs.call("resume", run)
    runs.work_off()
    assert (runs.status(run), runs.failed_keys(run)) == ("partially_failed", [BAD])
    assert done.items() <= runs.effects(run).items()
    assert runs.effects(run) == {key: 1 for key in KEYS if key != BAD}
    assert is_proved(runs, run)
