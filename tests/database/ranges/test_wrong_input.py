"""Whatever is wrong about a run is refused by the name of its field, and nothing is half written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import models
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from jobs.errors import InvalidInput, NotFound
from jobs.models import Job, JobLog
from jobs.testing import run_due_jobs
from ranges import (
    DateRange,
    DateTimeRange,
    DecimalRange,
    FloatRange,
    IntRange,
    Leaf,
    LeafRange,
    RangeJob,
    RetryPolicy,
    TextRange,
    UUIDRange,
    fixed,
)
from ranges.models import RangeRun
from ranges.states import RunStatus
from tests.database.ranges.keyed import Dated, Line, Numbered, Unindexed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]

NAN, INFINITY = float("nan"), float("inf")
NOON = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - without a zone: that is what is wrong with it


class Plain(RangeJob):
    name = "shop.Plain"
    over: Any = IntRange(0, 100)
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None: ...


def job(**attributes: Any) -> type[Plain]:
    name = f"shop.Made{uuid.uuid4().hex}"
    return type("Made", (Plain,), {"name": name, "__module__": __name__, **attributes})


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"params": [1]}, "params"),
    ({"params": []}, "params"),
    ({"params": "x"}, "params"),
    ({"params": {"a": NAN}}, "params.a"),
    ({"params": {"a": "\x00"}}, "params.a"),
    ({"params": {"a": "\ud800"}}, "params.a"),
    ({"params": {1: 2}}, "params"),
    ({"metadata": 5}, "metadata"),
    ({"metadata": {"a": b"x"}}, "metadata.a"),
    ({"priority": 9}, "priority"),
    ({"priority": True}, "priority"),
    ({"queue": "a b"}, "queue"),
    ({"queue": ""}, "queue"),
    ({"scheduled_at": "tomorrow"}, "scheduled_at"),
    ({"scheduled_at": NOON}, "scheduled_at"),
    ({"depends_on": "abc"}, "depends_on"),
    ({"depends_on": [None]}, "depends_on"),
    ({"depends_on": [uuid.UUID(int=7)]}, "depends_on"),
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": 1_001}, "concurrency"),
    ({"concurrency": 2.0}, "concurrency"),
    ({"concurrency": "4"}, "concurrency"),
    ({"leaf": 5}, "leaf"),
    ({"max_range_size": 0}, "max_range_size"),
    ({"max_range_size": -3}, "max_range_size"),
    ({"max_range_size": 0.5}, "max_range_size"),
    ({"max_range_size": True}, "max_range_size"),
    ({"max_range_size": 10**30}, "max_range_size"),
    ({"max_range_size": timedelta(days=1)}, "leaf.max_size"),
    ({"failure_threshold": NAN}, "failure_threshold"),
    ({"failure_threshold": INFINITY}, "failure_threshold"),
    ({"failure_threshold": 100.5}, "failure_threshold"),
    ({"failure_threshold": "5"}, "failure_threshold"),
    ({"max_depth": -1}, "max_depth"),
    ({"max_depth": 1.5}, "max_depth"),
    ({"atomic": "yes"}, "atomic"),
    ({"nulls": "maybe"}, "nulls"),
    ({"retry": 5}, "retry"),
    ({"surprise": 1}, "surprise"),
]


@pytest.mark.parametrize(("options", "field"), OPTIONS, ids=lambda value: str(value)[:40])
def test_a_wrong_option_is_refused_and_leaves_nothing_behind(
    options: dict[str, Any], field: str
) -> None:
    for refuses in (Plain.create, Plain.start):
        with pytest.raises(InvalidInput) as refused:
            refuses(**options)
        assert refused.value.field == field
    assert not RangeRun.objects.exists()
    assert not Job.objects.exists()


def test_a_leaf_of_rows_has_no_length_of_time() -> None:
    class HourlyRows(RangeJob):
        over = Dated.objects.all()
        key = "at"
        leaf = Leaf(max_size=timedelta(hours=1))

        def process(self, leaf: LeafRange, context: Any) -> None: ...

    for refuses in (HourlyRows.create, HourlyRows.plan, HourlyRows.in_memory):
        with pytest.raises(InvalidInput) as refused:
            refuses()
        assert refused.value.field == "leaf.max_size"


HERE = datetime.fromisoformat("2024-01-01T00:00:00+00:00")
DAYS = DateRange("2024-01-01", "2025-01-01")
MOMENTS = DateTimeRange("2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z")
NUMBERS = DecimalRange("0.00", "99.99", 2)
FLOATS = FloatRange(0.0, 1.0)
BOUNDS: list[tuple[Any, Any, Any, str]] = [
    # Above the end, and outside.
    (IntRange(0, 100), 7, 3, "end"),
    (IntRange(0, 100), -1, None, "start"),
    (IntRange(0, 100), None, 101, "end"),
    (DAYS, "2024-06-01", "2024-05-31", "end"),
    (MOMENTS, "2024-06-01T00:00:00+02:00", "2024-05-31T00:00:00Z", "end"),
    (TextRange("a", "z"), "m", "l", "end"),
    (UUIDRange(uuid.UUID(int=0), uuid.UUID(int=9)), uuid.UUID(int=5), uuid.UUID(int=4), "end"),
    # Mixed types.
    (IntRange(0, 100), 5.0, None, "start"),
    (IntRange(0, 100), Decimal(5), None, "start"),
    (IntRange(0, 100), True, None, "start"),
    (IntRange(0, 100), "five", None, "start"),
    (IntRange(0, 100), "9" * 1_000, None, "start"),
    (IntRange(0, 100), 1, date(2024, 1, 1), "end"),
    (DAYS, 5, None, "start"),
    (DAYS, HERE, None, "start"),
    (DAYS, "2024-02-30", None, "start"),
    (MOMENTS, date(2024, 2, 1), None, "start"),
    (TextRange("a", "z"), 5, None, "start"),
    (TextRange("a", "z"), "m\x00", None, "start"),
    (UUIDRange(uuid.UUID(int=0), uuid.UUID(int=9)), "not one", None, "start"),
    # Naive, NaN, infinite.
    (MOMENTS, datetime(2024, 2, 1), None, "start"),  # noqa: DTZ001
    (MOMENTS, "2024-02-01T00:00:00", None, "start"),
    (MOMENTS, "infinity", None, "start"),
    (NUMBERS, Decimal("NaN"), None, "start"),
    (NUMBERS, Decimal("Infinity"), None, "start"),
    (NUMBERS, Decimal("1.001"), None, "start"),
    (NUMBERS, 0.5, None, "start"),
    (FLOATS, NAN, None, "start"),
    (FLOATS, None, INFINITY, "end"),
    (FLOATS, "nan", None, "start"),
]


@pytest.mark.parametrize(("over", "start", "end", "field"), BOUNDS)
def test_wrong_bounds_are_refused_by_every_way_in(
    over: Any, start: Any, end: Any, field: str
) -> None:
    made = job(over=over, leaf=Leaf())
    ways: list[Callable[[], Any]] = [
        lambda: made.create(start, end),
        lambda: made.start(start, end),
        lambda: made.plan(start, end),
        lambda: made.run_in_memory(start, end),
    ]
    for way in ways:
        with pytest.raises(InvalidInput) as refused:
            way()
        assert refused.value.field == field
    assert not RangeRun.objects.exists()


def test_a_tables_bounds_are_those_of_its_keys_type() -> None:
    for start, end, field in ((2**63, None, "start"), (None, -(2**63) - 1, "end"), (7, 3, "end")):
        with pytest.raises(InvalidInput) as refused:
            job(over=Numbered).start(start, end)
        assert refused.value.field == field
    with pytest.raises(InvalidInput) as refused:
        job(over=Dated, key="at").start(NOON)
    assert refused.value.field == "start"


class Pair(models.Model):
    pk = models.CompositePrimaryKey("one", "two")
    one = models.IntegerField()
    two = models.IntegerField()

    class Meta:
        app_label = "keyed"
        managed = False

    def __str__(self) -> str:
        return f"{self.one}, {self.two}"


NEWEST = Numbered.objects.annotate(
    place=Window(RowNumber(), partition_by="group", order_by=F("id").desc())
)


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ({"over": 5}, "over"),
        ({"over": [1, 2, 3]}, "over"),
        ({"over": range(5)}, "over"),
        ({"over": Numbered.objects.all()[:5]}, "over"),
        ({"over": Numbered.objects.distinct()}, "over"),
        ({"over": Numbered.objects.all().union(Numbered.objects.all())}, "over"),
        ({"over": Numbered.objects.extra(tables=["keyed_line"])}, "over"),
        ({"over": NEWEST.filter(place=1)}, "over"),
        ({"over": NEWEST, "todo": Q(place=1)}, "todo"),
        ({"over": lambda self: None}, "over"),
        ({"over": lambda self: [1, 2]}, "over"),
        ({"over": lambda self: len}, "over"),
        ({"over": Numbered, "key": "nosuch"}, "key"),
        ({"over": Line, "key": "number__done"}, "key"),
        ({"over": Pair}, "key"),
        ({"over": Numbered, "key": "done"}, "done"),
        ({"over": Numbered, "todo": 5}, "todo"),
        ({"over": Numbered, "todo": Q(nosuch=1)}, "todo"),
        ({"over": Numbered, "todo": Q(id="x")}, "todo"),
        ({"queue": "no queue!"}, "queue"),
    ],
)
def test_a_declaration_that_cannot_be_run_is_refused(
    attributes: dict[str, Any], field: str
) -> None:
    for way in (RangeJob.create, RangeJob.plan, RangeJob.run_in_memory):
        if field == "queue" and way is not RangeJob.create:
            continue
        with pytest.raises(InvalidInput) as refused:
            getattr(job(**attributes), way.__name__)()
        assert refused.value.field == field
    assert not RangeRun.objects.exists()


def test_a_method_may_say_what_to_run_over_in_each_way_that_an_attribute_may() -> None:
    for over in (Numbered, Numbered.objects, Numbered.objects.all(), NEWEST, IntRange(0, 9)):
        given: Any = over
        source: Any = job(over=lambda self, given=given: given)().source()
        assert source.axis.name == "int"


def test_one_part_of_a_composite_key_can_be_walked() -> None:
    made: Any = job(over=Pair, key="one")().source()
    assert made.axis.name == "int"
    assert not made.keyed.is_unique


def test_a_key_without_an_index_is_warned_about_with_the_index_that_would_help() -> None:
    Unindexed.objects.bulk_create(Unindexed(rank=n) for n in range(50))
    made = job(over=Unindexed, key="rank")
    assert made.plan().warnings
    run = made.start()
    run_due_jobs(retries=True)

    run.refresh_from_db()
    assert run.status == RunStatus.COMPLETED
    assert run.job_id is not None
    line = JobLog.objects.get(job_id=run.job_id, level="warning")
    assert "rank has no index" in line.message
    assert line.data is not None
    assert line.data["ddl"][0].startswith("CREATE INDEX CONCURRENTLY")


def test_rows_that_lose_their_key_before_the_run_is_planned_stop_it() -> None:
    made = job(over=Numbered, key="group")
    run = made.start()
    Numbered.objects.bulk_create([Numbered(id=1, group=1), Numbered(id=2)])
    run_due_jobs(retries=True)

    run.refresh_from_db()
    assert run.status == RunStatus.PAUSED
    assert run.reason.startswith("nulls: 1 rows have no group")
    Numbered.objects.filter(id=2).update(group=2)
    run.resume()
    run_due_jobs(retries=True)
    run.refresh_from_db()
    assert run.status == RunStatus.COMPLETED
    assert run.verify().rows_ok == 2


@pytest.mark.parametrize("reason", [5, None, ["x"]])
def test_a_reason_is_text(reason: Any) -> None:
    run = Plain.start()
    for act in (run.pause, run.cancel):
        with pytest.raises(InvalidInput) as refused:
            act(reason=reason)
        assert refused.value.field == "reason"
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING
    assert run.pause(reason="a\x00b" + "x" * 2_000).reason.startswith("a\ufffdb")
    assert len(run.reason) <= 1_000


@pytest.mark.parametrize("id", ["x", None, 5, "0198c0de-0000-7000-8000-000000000000"])
def test_a_run_that_does_not_exist_is_told(id: Any) -> None:
    from ranges import lifecycle

    for act in (lifecycle.start, lifecycle.pause, lifecycle.resume, lifecycle.cancel):
        with pytest.raises(NotFound):
            act(id)
    with pytest.raises(NotFound):
        lifecycle.retune(id, concurrency=2)
    with pytest.raises(NotFound):
        lifecycle.retry_failed(id)


@pytest.mark.parametrize("concurrency", [0, 1_001, 2.0, "4", True, None])
def test_a_wrong_number_of_lanes_is_refused(concurrency: Any) -> None:
    run = Plain.start()
    with pytest.raises(InvalidInput) as refused:
        run.retune(concurrency=concurrency)
    assert refused.value.field == "concurrency"
    run.refresh_from_db()
    assert run.concurrency == 1


def test_what_was_not_planned_yet_is_not_called_broken() -> None:
    run = Plain.create()
    with pytest.raises(AssertionError, match="nothing was planned yet"):
        run.assert_complete()
