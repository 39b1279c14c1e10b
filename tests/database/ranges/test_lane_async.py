"""Lanes run an async `process`: at least once, with the database at hand."""

from __future__ import annotations

import asyncio
from itertools import batched
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.db.models import Q

from jobs.errors import InvalidInput
from jobs.models import JobLog
from jobs.testing import run_due_jobs
from ranges import HandBack
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure, RangeRun
from ranges.proof import verify
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus
from tests.database.ranges.keyed import Numbered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]


class Calls(RangeJob):
    """Some calls at once for each leaf; the parameters say what goes wrong."""

    name = "shop.Calls"
    over = IntRange(0, 80)
    leaf = Leaf(max_size=10)
    concurrency = 2
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None

    called: ClassVar[list[tuple[int, str]]] = []

    async def process(self, leaf: LeafRange, context: Any) -> None:
        params = context.params
        for pair in batched(leaf, 2):
            await asyncio.gather(*(self.call(key, context) for key in pair))
            for key in pair:
                if key in params.get("named", ()):
                    context.fail(key, "no such customer")
            context.checkpoint(pair[-1] + 1)
            # Once each, as both keys are behind the checkpoint by then.
            if params.get("breaks_after") in pair:
                raise ConnectionResetError("gone")
            if params.get("hands_back_after") in pair:
                raise HandBack

    async def call(self, key: int, context: Any) -> None:
        await asyncio.sleep(0)
        if key == context.params.get("bad"):
            raise ValueError(f"bad key {key}")
        self.called.append((key, context.item_key(key)))


class Finish(RangeJob):
    """Rows, through Django's own async ways."""

    name = "shop.FinishAsync"
    over = Numbered.objects.all()
    todo = Q(done=False)
    leaf = Leaf(max_size=10)
    failure_threshold = None

    async def process(self, leaf: LeafRange, context: Any) -> int:
        ids = [row.id async for row in leaf.queryset]
        context.log("leaf", first=ids[0])
        return int(await Numbered.objects.filter(id__in=ids).aupdate(done=True))

    async def should_process(self, lo: int, hi: int | None, node: Any) -> bool:
        rows = Numbered.objects.filter(id__gte=lo, done=False)
        return await (rows if hi is None else rows.filter(id__lt=hi)).aexists()


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    Calls.called.clear()


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def failed() -> dict[int, str]:
    return {int(failure.key): failure.error for failure in RangeFailure.objects.all()}


def test_an_async_leaf_runs_and_fails_as_any_other() -> None:
    run = drive(Calls.start(params={"bad": 23}))

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert failed() == {23: "ValueError: bad key 23"}
    assert {key for key, _ in Calls.called} == set(range(80)) - {23}
    assert not run.atomic
    assert verify(run).ok


@pytest.mark.parametrize("after", [45, 59, 79])
def test_what_lies_before_a_checkpoint_is_not_done_again(after: int) -> None:
    """In the middle of a leaf, at its end, and at the end of the run."""
    run = drive(Calls.start(params={"breaks_after": after}))

    assert (run.status, failed()) == (RunStatus.COMPLETED, {})
    assert sorted(key for key, _ in Calls.called) == list(range(80))
    assert verify(run).rows_ok == 80


@pytest.mark.parametrize("after", [43, 49])
def test_what_a_leaf_hands_back_is_done_behind_its_checkpoint(after: int) -> None:
    run = drive(Calls.start(params={"hands_back_after": after}))

    assert run.status == RunStatus.COMPLETED
    assert sorted(key for key, _ in Calls.called) == list(range(80))
    assert verify(run).ok


def test_an_item_that_is_named_as_failed_before_a_checkpoint_stays_failed() -> None:
    run = drive(Calls.start(params={"named": [22, 23, 55]}))

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert failed() == dict.fromkeys((22, 23, 55), "no such customer")
    assert (verify(run).ok, verify(run).rows_ok, verify(run).rows_failed) == (True, 77, 3)


def test_it_stays_failed_when_the_leaf_breaks_off_behind_it() -> None:
    run = drive(Calls.start(params={"named": [22], "breaks_after": 27}))

    assert failed() == {22: "no such customer"}
    assert {key for key, _ in Calls.called} == set(range(80))
    assert verify(run).ok


def test_an_item_that_is_called_for_again_has_the_same_key() -> None:
    run = drive(Calls.start(params={"bad": 23}))
    keys: dict[int, set[str]] = {}
    for key, item in Calls.called:
        keys.setdefault(key, set()).add(item)

    assert len(Calls.called) > len(keys)  # 22 was called for with each attempt at 23
    assert {len(items) for items in keys.values()} == {1}
    assert keys[22] == {f"{run.id}:22"}


def test_django_is_asked_on_the_lanes_own_connection() -> None:
    Numbered.objects.bulk_create(Numbered(id=n, done=n % 3 == 0) for n in range(1, 101))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE keyed_numbered")
    run = drive(Finish.start())

    # In this test's own transaction: from another connection nothing would be seen.
    assert (run.status, run.prune_errors) == (RunStatus.COMPLETED, 0)
    assert not Numbered.objects.filter(done=False).exists()
    assert JobLog.objects.filter(event="log", message="leaf").exists()


def test_async_work_cannot_be_atomic() -> None:
    with pytest.raises(InvalidInput) as refused:
        Calls.create(atomic=True)
    assert refused.value.field == "atomic"
