"""Every key type on lanes: each key once, the bad one found, the proofs true."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest

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
from ranges.models import RangeFailure, RangeRun
from ranges.states import RunStatus
from tests.database.ranges.keyed import Code, Dated, Line, Marked, Measured, Named, Numbered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]

ROWS = 80
BERLIN = ZoneInfo("Europe/Berlin")


class Typed(RangeJob):
    name = "shop.Typed"
    over: Any = IntRange(0, 1)
    leaf = Leaf(max_size=7)
    concurrency = 3
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    seen: ClassVar[list[Any]] = []
    bad: ClassVar[Any] = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        keys = [self.key_of(row) for row in leaf]
        if self.bad in keys:
            raise ValueError(f"bad key {self.bad}")
        self.seen.extend((key, context.item_key(key)) for key in keys)

    def key_of(self, row: Any) -> Any:
        return row if isinstance(row, KEYS) else getattr(row, row._meta.get_field(self.key).attname)


KEYS = (int, float, str, date, datetime, Decimal, uuid.UUID)


def job(over: Any, key: str = "id", **attributes: Any) -> type[Typed]:
    name = f"shop.Typed{uuid.uuid4().hex}"
    members = {"over": over, "key": key, "name": name, "__module__": __name__, **attributes}
    return type("Made", (Typed,), members)


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def filled(chance: random.Random) -> dict[str, tuple[Any, str]]:
    """Tables with their keys all over the place."""
    numbers = sorted({chance.randrange(-(2**63) + 1, 2**63 - 1) for _ in range(ROWS)})
    Numbered.objects.bulk_create(Numbered(id=n) for n in [*numbers[2:], -(2**63), 2**63 - 1])
    Marked.objects.bulk_create(Marked(id=uuid.UUID(int=chance.getrandbits(128))) for _ in numbers)
    days = [date.min, date.max, *(date(1900, 1, 1) + timedelta(days=37 * n) for n in range(78))]
    moments = [datetime(2024, 10, 27, tzinfo=UTC) + timedelta(minutes=13 * n) for n in range(ROWS)]
    Dated.objects.bulk_create(Dated(day=day, at=at) for day, at in zip(days, moments, strict=True))
    Measured.objects.bulk_create(
        Measured(amount=Decimal(n - 40) / 8 * 100 // 1 / 100, weight=(n - 40) * 1e300 / 3)
        for n in range(ROWS)
    )
    letters = "aAbBäÄßzZ éΩ𝄞\U0010ffff"
    words = {f"{''.join(chance.choices(letters, k=4))}{n}" for n in range(ROWS)}
    Named.objects.bulk_create(Named(name=word, code=word, word=word) for word in words)
    Code.objects.bulk_create(Code(code=word) for word in words)
    some = sorted(Numbered.objects.values_list("id", flat=True))[:20]
    Line.objects.bulk_create(Line(number_id=chance.choice(some)) for _ in range(ROWS))
    return {
        "bigint": (Numbered, "id"),
        "uuid": (Marked, "id"),
        "date": (Dated, "day"),
        "datetime": (Dated, "at"),
        "decimal": (Measured, "amount"),
        "float": (Measured, "weight"),
        "text": (Named, "name"),
        "text by code point": (Code, "code"),
        "foreign key": (Line, "number"),
    }


TABLES = (
    "bigint", "uuid", "date", "datetime", "decimal", "float", "text", "text by code point",
    "foreign key",
)  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_rows_with_keys_of_every_type_are_each_done_once(kind: str) -> None:
    chance = random.Random(5)
    model, key = filled(chance)[kind]
    attribute = model._meta.get_field(key).attname
    keys = list(model.objects.values_list(attribute, flat=True))
    made = job(model, key)
    made.bad = chance.choice(sorted(keys))
    made.seen = []
    run = drive(made.start())

    assert run.status == RunStatus.PARTIALLY_FAILED
    failure = RangeFailure.objects.get()
    axis = made().source().axis
    assert failure.key == str(axis.to_json(made.bad))
    assert axis.from_json(failure.key) == made.bad
    assert sorted(k for k, _ in made.seen) == sorted(k for k in keys if k != made.bad)
    verdict = run.verify()
    assert (verdict.ok, verdict.unfinished) == (True, 0)

    made.bad = None
    made.seen.clear()
    run.retry_failed()
    assert drive(run).status == RunStatus.COMPLETED
    assert {k for k, _ in made.seen} == {axis.from_json(failure.key)}
    assert run.assert_complete().is_complete


HUGE = 10**40
PLAIN: list[tuple[Any, list[Any]]] = [
    (IntRange(-30, 31), list(range(-30, 31))),
    (IntRange(HUGE, HUGE + 50), list(range(HUGE, HUGE + 50))),
    (IntRange(-(10**999) + 1, -(10**999) + 21), [-(10**999) + n for n in range(1, 21)]),
    (IntRange(2**63 - 5, 2**63 + 5), list(range(2**63 - 5, 2**63 + 5))),
    (
        DateRange("2024-02-20", "2024-03-10"),
        [date(2024, 2, 20) + timedelta(days=n) for n in range(19)],
    ),
    (
        DateRange("9999-12-20", "9999-12-31", inclusive=True),
        [date(9999, 12, n) for n in range(20, 32)],
    ),
    (
        UUIDRange(uuid.UUID(int=2**128 - 20), uuid.UUID(int=2**128 - 1), inclusive=True),
        [uuid.UUID(int=2**128 - n) for n in range(20, 0, -1)],
    ),
    (DecimalRange("-0.05", "0.05", 2), [Decimal(n) / 100 for n in range(-5, 5)]),
    (FloatRange(-1e-323, 1e-323), [-1e-323, -5e-324, 0.0, 5e-324]),
]


@pytest.mark.parametrize(("over", "keys"), PLAIN, ids=lambda value: str(value)[:30])
def test_keys_of_a_plain_range_are_each_done_once(over: Any, keys: list[Any]) -> None:
    made = job(over)
    made.seen = []
    run = drive(made.start())

    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert sorted(key for key, _ in made.seen) == keys
    assert len({item for _, item in made.seen}) == len(keys)
    assert run.assert_complete().width == len(keys)
    assert run.tree(depth=3)["processed"] == len(keys)


def test_leaves_of_moments_are_whole_local_days_across_both_changes_of_the_clock() -> None:
    leaves: list[tuple[datetime, datetime]] = []

    class Days(Typed):
        name = "shop.TypedDays"
        over = DateTimeRange(
            "2024-01-01T00:00:00+01:00", "2025-01-01T00:00:00+01:00", align="day", tz=BERLIN
        )
        leaf = Leaf(max_size=timedelta(days=1))

        def process(self, leaf: LeafRange, context: Any) -> None:
            leaves.append((leaf.lo, leaf.hi))

    run = drive(Days.start())

    assert run.status == RunStatus.COMPLETED
    leaves.sort()
    assert all(one[1] == other[0] for one, other in pairwise(leaves))
    assert all((at.hour, at.minute) == (0, 0) for lo, _ in leaves for at in [lo.astimezone(BERLIN)])
    days = [lo.astimezone(BERLIN).date() for lo, _ in leaves]
    assert days == [date(2024, 1, 1) + timedelta(days=n) for n in range(366)]
    lengths = {(hi - lo) / timedelta(hours=1) for lo, hi in leaves}
    assert lengths == {23.0, 24.0, 25.0}


def test_a_range_of_text_is_covered_without_a_list_of_its_keys() -> None:
    pieces: list[tuple[str, str]] = []

    class Words(Typed):
        name = "shop.TypedWords"
        over = TextRange("", "\U0010ffff" * 3)
        max_depth = 5

        def process(self, leaf: LeafRange, context: Any) -> None:
            pieces.append((leaf.lo, leaf.hi))

    run = drive(Words.start())

    assert run.status == RunStatus.COMPLETED
    pieces.sort(key=lambda piece: piece[0].encode())
    assert (pieces[0][0], pieces[-1][1]) == ("", "\U0010ffff" * 3)
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    assert run.verify().chain
