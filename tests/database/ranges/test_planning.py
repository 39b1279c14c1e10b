"""A plan says what a run would do, and costs little whatever the table."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Q
from django.test.utils import CaptureQueriesContext

from jobs.errors import InvalidInput
from ranges import querying
from ranges.axes import IntRange, TextRange
from ranges.declaring import RangeJob
from ranges.models import RangeNode, RangeRun
from ranges.planning import plan
from ranges.sizing import Leaf
from tests.database.ranges.keyed import Numbered, Unindexed

pytestmark = pytest.mark.usefixtures("keyed_tables")


class Everything(RangeJob):
    over = Numbered
    todo = Q(done=False)
    leaf = Leaf(max_size=100)
    concurrency = 3

    def process(self, leaf: Any, context: Any) -> None: ...


class Plain(RangeJob):
    over = IntRange(0, 10**12)
    leaf = Leaf(max_size=10_000)
    concurrency = 64

    def process(self, leaf: Any, context: Any) -> None: ...


class ByRank(RangeJob):
    over = Unindexed
    key = "rank"

    def process(self, leaf: Any, context: Any) -> None: ...


def fill(count: int = 10_000, done: str = "n <= 4000") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO keyed_numbered (id, done) SELECT n * 7, {done} "
            f"FROM generate_series(1, {count}) n"
        )
        cursor.execute("ANALYZE keyed_numbered")


def test_a_table_is_measured_without_reading_it() -> None:
    fill()
    with CaptureQueriesContext(connection) as asked:
        found = plan(Everything)
    assert (found.job, found.counts, found.concurrency) == (Everything.name, "rows", 3)
    assert (found.lo, found.hi, found.width) == (7, 70_001, 69_994)
    assert found.items == pytest.approx(10_000, rel=0.05)
    assert found.share == pytest.approx(0.6, abs=0.2)
    assert found.items_left == pytest.approx(6_000, rel=0.4)
    assert found.null_keys == 0
    assert found.index is not None
    assert found.index.probing == "filter"
    assert found.index.ddl[0].startswith("CREATE INDEX CONCURRENTLY")
    # Without the index the finished rows are walked over too.
    assert found.leaves == pytest.approx(100, rel=0.05)
    assert found.strands == 6
    assert found.seconds is None
    assert found.warnings == (found.index.warning,)
    unbounded = [
        one["sql"] for one in asked
        if "keyed_numbered" in one["sql"]
        and not any(word in one["sql"] for word in ("LIMIT", "EXPLAIN", "TABLESAMPLE", "pg_catalog"))
    ]  # fmt: skip
    assert unbounded == []


def test_with_the_index_only_what_is_left_makes_leaves() -> None:
    fill()
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX left_rows ON keyed_numbered (id) WHERE NOT done")
    found = plan(Everything, Everything.options(concurrency=1))
    assert found.index is not None
    assert (found.index.probing, found.index.index) == ("witness", "left_rows")
    assert found.leaves == pytest.approx(60, rel=0.4)
    assert found.strands == 2
    assert found.warnings == ()


def test_bounds_narrow_the_plan_and_wrong_ones_are_refused() -> None:
    fill()
    found = plan(Everything, start=7, end=3_507)
    assert found.items == pytest.approx(500, rel=0.1)
    with pytest.raises(InvalidInput) as caught:
        plan(Everything, start=10, end=5)
    assert caught.value.field == "end"


def test_the_seconds_come_from_the_last_run_that_ended() -> None:
    fill(done="false")
    run = RangeRun.objects.create(
        name=Everything.name, axis={"type": "int"}, lo=0, hi=10, finished_at="2026-01-01T00:00:00Z"
    )
    RangeNode.objects.create(
        run=run, kind="strand", lo=0, hi=10, cur=10, resv=10, rows_ok=90, rows_failed=10,
        busy_seconds=2.0,
    )  # fmt: skip
    RangeRun.objects.create(name=Everything.name, axis={"type": "int"}, lo=0, hi=10)
    found = plan(Everything)
    assert found.seconds_per_item == pytest.approx(0.02)
    assert found.seconds == pytest.approx(10_000 * 0.02 / 3, rel=0.1)
    assert found.as_json()["seconds"] == found.seconds


def test_an_empty_table_has_nothing_to_do() -> None:
    found = plan(Everything)
    assert (found.items, found.leaves, found.strands, found.width) == (0, 0, 0, 0)


def test_a_plain_range_is_counted_in_width() -> None:
    found = plan(Plain)
    assert (found.counts, found.items, found.items_left) == ("width", 10**12, 10**12)
    assert (found.leaves, found.strands) == (10**8, 128)
    assert (found.lo, found.hi) == (0, 10**12)
    assert found.as_json()["width"] == "1000000000000"


def test_a_range_wider_than_any_float_has_a_plan_with_all_its_digits() -> None:
    class VastPlan(Plain):
        over = IntRange(-(10**400), 10**400 + 1)

    found = plan(VastPlan)
    assert found.items == found.items_left == 2 * 10**400 + 1
    assert found.strands == 128


def test_text_without_a_table_has_a_plan_too() -> None:
    class Words(RangeJob):
        over = TextRange("a", "z")

        def process(self, leaf: Any, context: Any) -> None: ...

    found = plan(Words)
    assert (found.lo, found.hi) == ("a", "z")
    # How many texts there are nobody can say.
    assert (found.width, found.items, found.leaves, found.seconds) == (None, None, None, None)
    assert found.strands == 2
    assert "2^10 leaves" in found.warnings[0]


def test_rows_without_a_key_are_told() -> None:
    class ByGroup(Everything):
        key = "group"

    fill(1_000)
    Numbered.objects.filter(id__lt=700).update(group=F("id"))
    found = plan(ByGroup)
    assert found.null_keys == 901
    assert any("901 rows have no group" in warning for warning in found.warnings)


def test_what_no_index_tells_in_time_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(querying, "LIMITS_MILLISECONDS", 1)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE keyed_unindexed")  # and the pages that other tests left empty
        cursor.execute(
            "INSERT INTO keyed_unindexed (rank, done) SELECT n, false FROM generate_series(1, 300000) n"
        )
    found = plan(ByRank)
    assert (found.lo, found.items, found.leaves, found.seconds) == (None, None, None, None)
    assert any("no index gives them" in warning for warning in found.warnings)
