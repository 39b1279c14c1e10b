"""Rows that need work again behind the cursors are found, whatever indexes there are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.db.models import Q

from jobs.testing import run_due_jobs
from ranges import lifecycle, planting, run_rows, running, sweeping
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeNode, RangeRun
from ranges.proof import verify
from ranges.querying import QuerySource
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.sources import ProbeTimeout
from ranges.states import RunStatus
from ranges.sweeping import Sweep, Sweeper
from tests.database.ranges.keyed import Line, Numbered, Unindexed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]

LAST = 600
FOREVER = 1e9


class Finish(RangeJob):
    """Numbers 1 to 600; before the last leaf ends, those that the test says are undone again."""

    name = "shop.FinishAgain"
    over: Any = Numbered.objects.all()
    todo: ClassVar[Any] = Q(done=False)
    leaf = Leaf(max_size=20)
    concurrency = 3
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    seen: ClassVar[list[int]] = []
    at_leaf: ClassVar[Callable[[list[int]], object]] = lambda keys: None

    def process(self, leaf: LeafRange, context: Any) -> int:
        keys = list(leaf.queryset.values_list(self.key, flat=True))
        self.seen.extend(keys)
        count = int(leaf.queryset.update(done=True))
        type(self).at_leaf(keys)
        return count


class FinishRanks(Finish):
    """The same along a column without any index."""

    name = "shop.FinishRanks"
    over: Any = Unindexed.objects.all()
    key = "rank"


class FinishLines(Finish):
    """The same along a column with many rows for each key, of which there is an index."""

    name = "shop.FinishLines"
    over: Any = Line.objects.all()
    key = "number"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Finish.seen.clear()
    Finish.at_leaf = lambda keys: None


@pytest.fixture(params=["indexed", "key indexed", "not indexed", "keys repeat"])
def job(request: pytest.FixtureRequest) -> type[Finish]:
    numbers = range(1, LAST + 1)
    Numbered.objects.bulk_create(Numbered(id=n) for n in numbers)
    match request.param:
        case "not indexed":
            Unindexed.objects.bulk_create(Unindexed(rank=n) for n in numbers)
            return FinishRanks
        case "keys repeat":
            Line.objects.bulk_create(Line(number_id=n // 3 + 1) for n in numbers)
            return FinishLines
        case "indexed":
            with connection.cursor() as cursor:
                cursor.execute("CREATE INDEX left_over ON keyed_numbered (id) WHERE NOT done")
    return Finish


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def come_back(job: type[Finish], keys: set[int]) -> Callable[[list[int]], None]:
    """Once, when all have been seen."""
    every = set(job.over.values_list(job.key, flat=True))

    def at_leaf(_: list[int]) -> None:
        if set(Finish.seen) == every:
            job.over.filter(**{f"{job.key}__in": keys}).update(done=False)
            Finish.at_leaf = lambda keys: None

    return at_leaf


def test_rows_that_come_back_are_done_again_and_no_others(job: type[Finish]) -> None:
    back = {1, 2, 57, 58, 130, LAST // 3}
    Finish.at_leaf = come_back(job, back)
    once = sorted(job.over.values_list(job.key, flat=True))
    run = drive(job.start())

    assert (run.status, run.reason, run.sweeps) == (RunStatus.COMPLETED, "", 1)
    again = sorted(job.over.filter(**{f"{job.key}__in": back}).values_list(job.key, flat=True))
    assert sorted(Finish.seen) == sorted(once + again)
    assert not job.over.filter(done=False).exists()
    assert verify(run).is_complete


def test_a_sweep_can_stop_anywhere_and_go_on(
    job: type[Finish], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "PIECE", 7)
    monkeypatch.setattr(sweeping, "MOST", 2)
    back = {1, 2, 57, 58, 130, LAST // 3}
    Finish.at_leaf = come_back(job, back)
    run = drive(job.start())

    assert (run.status, run.sweeps) == (RunStatus.COMPLETED, 1)
    assert not job.over.filter(done=False).exists()
    assert run.verdict is not None
    assert "sweep" not in run.verdict
    assert verify(run).is_complete


def test_a_run_that_is_paused_in_its_sweep_goes_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(1, LAST + 1))
    monkeypatch.setattr(running, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "PIECE", 50)
    run = Finish.start()
    looks: list[Any] = []
    look = Sweeper._look

    def watched(self: Sweeper, lo: Any, hi: Any) -> Any:
        looks.append(lo)
        if len(looks) == 4:
            lifecycle.pause(run.id, reason="lunch")
        return look(self, lo, hi)

    monkeypatch.setattr(Sweeper, "_look", watched)
    assert drive(run).status == RunStatus.PAUSED
    assert len(looks) == 4
    assert run.verdict is not None
    assert run.verdict["sweep"]["at"] == str(looks[3])

    assert drive(run.resume()).status == RunStatus.COMPLETED
    # What was seen while somebody paused it is looked at again, and nothing before that.
    assert looks[4:] == sorted(set(looks))[3:]


def test_rows_that_keep_coming_back_end_the_run_without_an_index_too() -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(1, LAST + 1))
    Finish.at_leaf = lambda keys: Numbered.objects.filter(id=5).update(done=False)
    run = drive(Finish.start())

    assert (run.status, run.reason) == (RunStatus.PARTIALLY_FAILED, "rows keep coming back")
    assert (run.probing, run.sweeps) == ("filter", 3)


def test_what_is_retried_during_a_sweep_is_done_before_the_run_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(1, 101))
    monkeypatch.setattr(running, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "PIECE", 10)

    def fail(keys: list[int]) -> None:
        if 50 in keys:
            raise ValueError("bad")

    Finish.at_leaf = fail
    run = Finish.start()
    look = Sweeper._look

    def retrying(self: Sweeper, lo: Any, hi: Any) -> Any:
        if Finish.at_leaf is fail:
            Finish.at_leaf = lambda keys: None
            assert lifecycle.retry_failed(run.id) == 1
        return look(self, lo, hi)

    monkeypatch.setattr(Sweeper, "_look", retrying)
    drive(run)

    assert run.status == RunStatus.COMPLETED
    assert max(Finish.seen) == 100
    assert not Numbered.objects.filter(done=False).exists()


def test_a_probe_that_takes_too_long_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    Numbered.objects.bulk_create(Numbered(id=n, done=n != 70) for n in range(1, 101))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing="witness")
    nodes = nodes_over([(1, 101)])

    def slow(self: QuerySource, cur: Any, hi: Any, size: int, *, blind: bool = False) -> Any:
        if not blind:
            raise ProbeTimeout("too slow")
        return walk(self, cur, hi, size, blind=True)

    walk = QuerySource.next_leaf
    monkeypatch.setattr(QuerySource, "next_leaf", slow)
    sweep = Sweep()
    Sweeper(source, nodes, sweep).go_on(reopen=True, seconds=FOREVER)
    assert sweep.write(nodes)

    assert (sweep.found, sweep.is_done) == (1, True)
    assert pending() == [(70, 101)]


def nodes_over(pieces: list[tuple[int, int]]) -> Any:
    run = RangeRun.objects.create(
        name="t.Job", axis={"type": "int"}, lo=pieces[0][0], hi=pieces[-1][1], planned=True
    )
    nodes = run_rows.nodes_of(run)
    planting.plant(nodes, pieces)
    done = RangeNode.objects.filter(run=run)
    for node in done:
        done.filter(id=node.id).update(
            state="done", cur=node.hi, resv=node.hi, width_ok=node.hi - node.lo
        )
    return nodes


def pending() -> list[tuple[int, int]]:
    rows = RangeNode.objects.filter(state="pending").order_by("lo")
    return [(int(lo or 0), int(hi or 0)) for lo, hi in rows.values_list("lo", "hi")]


@pytest.mark.parametrize("probing", ["witness", "filter"])
def test_each_node_with_work_is_opened_from_its_first_key_and_no_other(probing: Any) -> None:
    chance = random.Random(17)
    for _ in range(25):
        Numbered.objects.all().delete()
        RangeNode.objects.all().delete()
        left = {n for n in range(1, 301) if chance.random() < chance.choice([0.0, 0.02, 0.3])}
        ids = sorted(left | set(chance.sample(range(1, 301), 200)))
        Numbered.objects.bulk_create(Numbered(id=n, done=n not in left) for n in ids)
        cuts = sorted(chance.sample(range(2, 301), chance.randrange(12)))
        pieces = list(zip([1, *cuts], [*cuts, 301], strict=True))
        nodes = nodes_over(pieces)
        gone = chance.choice(pieces)  # its keys failed, so nobody looks there
        if len(pieces) > 1:
            RangeNode.objects.filter(lo=gone[0]).update(state="error")
        source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing=probing)
        sweep = Sweep()
        while not sweep.is_done:
            sweep = Sweep(at=sweep.at, found=sweep.found)
            Sweeper(source, nodes, sweep).go_on(reopen=True, seconds=0.0)
            assert sweep.write(nodes)

        firsts = [
            (min(keys), hi)
            for lo, hi in pieces
            if (keys := left & set(range(lo, hi))) and (len(pieces) == 1 or (lo, hi) != gone)
        ]
        assert pending() == firsts
        assert sweep.found == len(firsts)
