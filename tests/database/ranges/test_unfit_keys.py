"""A key that no range has room for is named, with its field; no row is passed over for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.db import connection, models
from django.db.models import Q

from jobs.errors import InvalidInput
from jobs.models import Attempt
from jobs.testing import run_due_jobs
from ranges import Leaf, LeafRange, RangeJob, RetryPolicy, fixed, querying
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.querying import QuerySource
from ranges.sources import ProbeTimeout
from ranges.states import RunStatus
from tests.database.ranges.keyed import Line, Numbered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]


class Loose(models.Model):
    """Columns as a database may have them, and what a model says about them."""

    day = models.DateField(null=True)
    at = models.DateTimeField(null=True)
    weight = models.FloatField(null=True, db_column="Weight in kg")
    amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    code = models.IntegerField(unique=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "keyed"
        managed = False
        db_table = "keyed_loose"

    def __str__(self) -> str:
        return str(self.pk)


@pytest.fixture(autouse=True)
def _table(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE keyed_loose (id bigserial PRIMARY KEY, day date, at timestamptz,"
            ' "Weight in kg" double precision, amount numeric, code integer) ON COMMIT DROP'
        )
        for column in ("day", "at", '"Weight in kg"', "amount", "code"):
            cursor.execute(f"CREATE INDEX ON keyed_loose ({column})")
    Walk.seen.clear()
    Walk.at_leaf = lambda leaf: None


class Walk(RangeJob):
    name = "shop.LooseWalk"
    over: Any = Loose.objects.all()
    leaf = Leaf(max_size=5)
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None
    nulls = "skip"

    seen: ClassVar[list[Any]] = []
    at_leaf: ClassVar[Callable[[LeafRange], object]] = lambda leaf: None

    def process(self, leaf: LeafRange, context: Any) -> None:
        self.seen.extend(leaf.queryset.values_list(self.key, flat=True))
        type(self).at_leaf(leaf)


def job(key: str, **attributes: Any) -> type[Walk]:
    name = f"shop.Loose{uuid.uuid4().hex}"
    return type("Made", (Walk,), {"key": key, "name": name, "__module__": __name__, **attributes})


def insert(column: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        for value in values:
            cursor.execute(f"INSERT INTO keyed_loose ({column}) VALUES (%s)", [value])


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


COLUMNS = {"day": "day", "at": "at", "weight": '"Weight in kg"', "amount": "amount"}
NAMES = {"weight": "keyed.Loose.weight (column Weight in kg)"}
DAYS = [f"2024-02-{n:02}" for n in range(1, 20)]
NUMBERS = [str(n) for n in range(1, 20)]
ENDS: list[tuple[str, list[str], str, str]] = [
    ("day", DAYS, "infinity", "infinity"),
    ("day", DAYS, "-infinity", "-infinity"),
    ("day", DAYS, "0044-03-15 BC", "0044-03-15 BC"),
    ("day", DAYS, "10000-01-01", "10000-01-01"),
    ("at", DAYS, "infinity", "infinity"),
    ("at", DAYS, "-infinity", "-infinity"),
    ("at", DAYS, "0044-03-15 BC", "0044-03-15 00:00:00+00 BC"),
    ("weight", NUMBERS, "NaN", "nan"),
    ("weight", NUMBERS, "infinity", "inf"),
    ("weight", NUMBERS, "-infinity", "-inf"),
    ("amount", NUMBERS, "NaN", "NaN"),
    ("amount", NUMBERS, "Infinity", "Infinity"),
    ("amount", NUMBERS, "0.001", "0.001"),
]


@pytest.mark.parametrize(("key", "values", "bad", "shown"), ENDS)
def test_a_key_without_a_place_is_named_before_the_first_leaf(
    key: str, values: list[str], bad: str, shown: str
) -> None:
    insert(COLUMNS[key], *values, bad)
    made = job(key)
    said = f"key: {NAMES.get(key, f'keyed.Loose.{key}')} holds {shown}, which has no place"
    for refuses in (made.plan, made.run_in_memory):
        with pytest.raises(InvalidInput) as refused:
            refuses()
        assert str(refused.value).startswith(said)

    run = drive(made.start())
    assert (run.status, run.planned, Walk.seen) == (RunStatus.PAUSED, False, [])
    assert run.reason.startswith(said)

    # What it says helps.
    with connection.cursor() as cursor:
        cast = "timestamptz" if key == "at" else "text"
        column = f"lower({COLUMNS[key]}::text)" if cast == "text" else COLUMNS[key]
        cursor.execute(f"DELETE FROM keyed_loose WHERE {column} = %s::{cast}", [bad.lower()])
        assert cursor.rowcount == 1
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert len(Walk.seen) == len(values)


@pytest.mark.parametrize(("key", "values", "bad", "shown"), ENDS)
def test_bounds_that_were_asked_for_leave_it_out(
    key: str, values: list[str], bad: str, shown: str
) -> None:
    insert(COLUMNS[key], *values, bad)
    past = "2024-03-01" if key == "day" else "2024-03-01T00:00Z" if key == "at" else "100"
    first = values[0] if key != "at" else "2024-01-01T00:00Z"
    run = drive(job(key).start(first, past))

    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert len(Walk.seen) == len(values)
    assert run.assert_complete().is_complete


@pytest.mark.parametrize(
    ("key", "last", "bad"),
    [
        ("day", "9999-12-31", "infinity"),
        ("at", "9999-12-31 23:59:59.999999+00", "infinity"),
        ("weight", "1.7976931348623157e308", "NaN"),
    ],
)
def test_past_the_last_key_of_a_type_lies_nothing_that_is_walked(
    key: str, last: str, bad: str
) -> None:
    """A cursor may stand there, but infinities that came later are no part of the range."""
    insert(COLUMNS[key], *(DAYS if key != "weight" else NUMBERS), last)
    Walk.at_leaf = lambda leaf: insert(COLUMNS[key], bad)
    run = drive(job(key).start())

    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert len(Walk.seen) == 20
    assert run.hi is not None


def test_a_condition_that_leaves_it_out_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the limits have to be those of the whole table."""
    insert("at", *DAYS, "infinity")
    over = Loose.objects.filter(at__lt="3000-01-01T00:00Z")
    source = QuerySource(over, key="at", nulls="skip")
    exact = source.limits()
    ends = QuerySource._ends
    asked: list[int | None] = []

    def slow(self: QuerySource, walk: Any, *, milliseconds: int | None) -> Any:
        asked.append(milliseconds)
        if len(asked) == 1:
            raise ProbeTimeout("no answer")
        return ends(self, walk, milliseconds=milliseconds)

    monkeypatch.setattr(QuerySource, "_ends", slow)
    assert source.limits() == exact
    assert asked == [querying.LIMITS_MILLISECONDS, None, None]


def test_one_that_is_met_on_the_way_pauses_the_run_and_is_charged_to_no_leaf() -> None:
    insert("amount", *NUMBERS)
    made = job("amount")

    def spoil(leaf: LeafRange) -> None:
        Walk.at_leaf = lambda leaf: None
        insert("amount", "10.005")  # where a leaf would end

    Walk.at_leaf = spoil
    run = drive(made.start())

    assert (run.status, RangeFailure.objects.count()) == (RunStatus.PAUSED, 0)
    assert run.reason.startswith("key: keyed.Loose.amount holds 10.005, which has no place")
    assert set(RangeNode.objects.values_list("attempts", "interrupted", "kind")) == {
        (0, 0, "strand")
    }
    assert not Attempt.objects.filter(outcome="failed").exists()
    Loose.objects.filter(amount__gt="10", amount__lt="11").delete()
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert len(Walk.seen) == len(set(Walk.seen)) == 19


def test_whatever_is_wrong_with_the_walk_is_charged_to_no_leaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    insert("code", *range(60))
    find = QuerySource.next_leaf
    broken = True

    def breaks(self: QuerySource, cur: Any, hi: Any, size: int, *, blind: bool = False) -> Any:
        if broken and cur >= 20:
            raise LookupError("the walk is broken")
        return find(self, cur, hi, size, blind=blind)

    monkeypatch.setattr(QuerySource, "next_leaf", breaks)
    monkeypatch.setattr(QuerySource, "_knows_ends_ahead", False)
    run = drive(job("code").start())
    assert (run.status, Walk.seen) == (RunStatus.PAUSED, list(range(20)))
    assert set(RangeNode.objects.values_list("attempts", "kind")) == {(0, "strand")}

    broken = False
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert Walk.seen == list(range(60))


# Columns of another type than their field


class Legacy(models.Model):
    number = models.BigIntegerField()
    at = models.DateTimeField()
    mark = models.UUIDField()

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "keyed"
        managed = False
        db_table = "keyed_legacy"

    def __str__(self) -> str:
        return str(self.pk)


@pytest.fixture
def legacy() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE keyed_legacy (id bigserial PRIMARY KEY, number numeric(40),"
            " at timestamp, mark text) ON COMMIT DROP"
        )
        cursor.execute(
            "INSERT INTO keyed_legacy (number, at, mark) SELECT n * 3, '2024-01-01',"
            " md5(n::text) FROM generate_series(-20, 20) n"
        )


@pytest.mark.usefixtures("legacy")
def test_whole_numbers_in_a_numeric_column_are_walked() -> None:
    run = drive(job("number", over=Legacy).start())
    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert Walk.seen == [n * 3 for n in range(-20, 21)]

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE keyed_legacy ALTER number TYPE numeric")
        cursor.execute("UPDATE keyed_legacy SET number = 60.5 WHERE number = 60")
    with pytest.raises(InvalidInput, match=r"keyed.Legacy.number holds 60.5, .* no whole number"):
        job("number", over=Legacy).plan()


@pytest.mark.usefixtures("legacy")
@pytest.mark.parametrize(("key", "type"), [("at", "datetime"), ("mark", "uuid")])
def test_a_column_of_another_type_than_its_field_is_named(key: str, type: str) -> None:
    run = drive(job(key, over=Legacy).start())
    assert (run.status, run.planned) == (RunStatus.PAUSED, False)
    assert run.reason.startswith(f"key: keyed.Legacy.{key} holds ")
    assert f"its field has keys of type {type}, not " in run.reason


# Unique to the model alone


@pytest.mark.parametrize("ahead", [True, False])
def test_a_column_that_is_not_as_unique_as_its_model_says_is_named(
    ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert("code", *range(30), *[30] * 7, *range(31, 60))
    if not ahead:
        monkeypatch.setattr(QuerySource, "_knows_ends_ahead", False)
    said = "key: keyed.Loose.code is unique to its model, but more rows have 30 than a leaf may"
    run = drive(job("code").start())

    assert (run.status, RangeFailure.objects.count()) == (RunStatus.PAUSED, 0)
    assert run.reason.startswith(said)
    assert Walk.seen == list(range(len(Walk.seen)))
    memory = job("code").in_memory()
    assert memory.run().status == "paused"
    assert said in memory.reason


def test_where_more_rows_fit_into_a_leaf_than_have_the_key_nothing_is_lost_or_repeated() -> None:
    insert("code", *range(30), *[30] * 7, *range(31, 60))
    run = drive(job("code").start(max_range_size=8))

    assert run.status == RunStatus.COMPLETED
    assert sorted(Walk.seen) == sorted([*range(60), *[30] * 6])


# Whether there are rows without a key


@pytest.mark.usefixtures("legacy")
def test_rows_without_a_key_are_not_passed_over_because_their_model_knows_of_none() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE keyed_legacy SET number = NULL WHERE number > 30")
    made = job("number", over=Legacy, nulls="refuse")
    for refuses in (made.create, made.run_in_memory):
        with pytest.raises(InvalidInput, match="10 rows have no number"):
            refuses()
    assert drive(made.start(nulls="skip")).status == RunStatus.COMPLETED
    assert len(Walk.seen) == 31


def test_it_is_refused_when_no_index_tells_in_time_whether_rows_have_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(self: QuerySource, *, milliseconds: int | None = None) -> int:
        assert milliseconds == querying.LIMITS_MILLISECONDS
        raise ProbeTimeout("no answer")

    made = job("amount", nulls="refuse")
    insert("amount", *NUMBERS)
    run = made.start()
    monkeypatch.setattr(QuerySource, "count_nulls", slow)
    said = (
        "nulls: no index tells in time whether rows have no amount:"
        ' CREATE INDEX CONCURRENTLY "keyed_loose_amount_e3b0c442" ON "keyed_loose" ("amount");'
        ' or give nulls = "skip" to leave such rows out'
    )
    for refuses in (made.create, made.in_memory):
        with pytest.raises(InvalidInput) as refused:
            refuses()
        assert str(refused.value) == said

    assert (drive(run).status, run.reason, Walk.seen) == (RunStatus.PAUSED, said, [])
    assert drive(made.start(nulls="skip")).status == RunStatus.COMPLETED
    assert len(Walk.seen) == 19


def test_counting_rows_without_a_key_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO keyed_numbered (id, done, "group") SELECT n, false, n'
            " FROM generate_series(1, 200000) n"
        )
        cursor.execute("DROP INDEX keyed_numbered_group")
    monkeypatch.setattr(querying, "LIMITS_MILLISECONDS", 1)
    with pytest.raises(InvalidInput, match="no index tells in time"):
        QuerySource(Numbered.objects.all(), key="group").check_nulls()
    # With a condition, the index that helps holds what it leaves.
    with pytest.raises(InvalidInput, match=r'"group"\) WHERE NOT "keyed_numbered"."done"'):
        QuerySource(Numbered.objects.filter(Q(done=False)), key="group").check_nulls()
    QuerySource(Line.objects.all(), key="number").check_nulls()  # it cannot be null
