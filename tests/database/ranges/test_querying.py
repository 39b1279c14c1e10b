"""A queryset as the source of a range: every row that needs work is met, once, whatever its key."""

from __future__ import annotations

import random
import unicodedata
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.test.utils import CaptureQueriesContext

from jobs.errors import InvalidInput
from ranges import statistics
from ranges.axes import DateTimeAxis
from ranges.keyed import WALK
from ranges.positions import Position
from ranges.querying import ENDS, LAST_END, QuerySource
from ranges.sources import ProbeTimeout
from tests.database.ranges.keyed import (
    Code,
    Dated,
    Line,
    Marked,
    Measured,
    Named,
    Numbered,
    Small,
    Table,
    Unindexed,
    language_collation,
)
from tests.plans import explain, rows_read, scans

pytestmark = pytest.mark.usefixtures("keyed_tables")


def walk(source: QuerySource, size: int, **options: Any) -> list[tuple[Position, Position]]:
    """The leaves from end to end, each bound checked on the way."""
    limits = source.limits()
    if limits is None:
        return []
    cur, hi = limits
    leaves = []
    while cur < hi:  # type: ignore[operator]
        found = source.next_leaf(cur, hi, size, **options)
        if found is None:
            break
        assert cur <= found.first < found.upto <= hi  # type: ignore[operator]
        leaves.append((found.first, found.upto))
        cur = found.upto
    return leaves


def met(source: QuerySource, leaves: Sequence[tuple[Position, Position]]) -> list[Any]:
    """The primary keys of the rows of all leaves, repeats included."""
    return [
        pk for lo, hi in leaves for pk in source.leaf_queryset(lo, hi).values_list("pk", flat=True)
    ]


def numbered(ids: Sequence[int], done: Sequence[int] = ()) -> None:
    finished = set(done)
    Numbered.objects.bulk_create(Numbered(id=id, done=id in finished) for id in ids)


def fill(count: int, *, done: str = "false", step: str = "n") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO keyed_numbered (id, done) SELECT {step}, {done} "
            "FROM generate_series(1, %s) n",
            [count],
        )
        cursor.execute("ANALYZE keyed_numbered")


# --- Nothing left out, nothing twice --------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 10, 1_000])
@pytest.mark.parametrize("probing", ["witness", "filter"])
def test_sparse_clustered_and_partly_finished_ids_are_each_met_once(
    size: int, probing: Any
) -> None:
    chance = random.Random(7)
    ids = sorted({*range(-50, 20), *range(10_000, 10_040), *chance.sample(range(10**12), 60)})
    done = chance.sample(ids, len(ids) // 2)
    numbered(ids, done)
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing=probing)
    assert met(source, walk(source, size)) == [id for id in ids if id not in set(done)]


def test_leaves_are_exact_in_rows_that_need_work_whatever_the_gaps_between_keys() -> None:
    ids = [*range(100), *range(2 * 10**15, 2 * 10**15 + 10**9, 10**7)]
    numbered(ids, ids[20:60])
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    leaves = walk(source, 20)
    sizes = [source.leaf_queryset(lo, hi).count() for lo, hi in leaves]
    assert sizes == [20] * 8


def test_finished_first_and_last_keys_say_nothing_about_those_between() -> None:
    numbered(range(1_000), [*range(10), *range(990, 1_000)])
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    assert met(source, walk(source, 100)) == list(range(10, 990))


def test_all_finished_is_one_question() -> None:
    numbered(range(1_000), range(1_000))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert source.next_leaf(0, 1_000, 10) is None
    assert sum("keyed_numbered" in one["sql"] for one in asked) == 1


def test_an_empty_table_has_no_limits_and_an_empty_condition_no_rows() -> None:
    assert QuerySource(Numbered.objects.all()).limits() is None
    numbered(range(5))
    nothing = QuerySource(Numbered.objects.none())
    assert nothing.limits() is None
    assert nothing.next_leaf(0, 10, 1) is None
    assert nothing.estimate(0, 10) == 0
    assert nothing.median(0, 10) is None
    assert nothing.keys(0, 10, 5) == []


def test_rows_finished_meanwhile_are_not_in_the_leaf() -> None:
    numbered(range(10))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    found = source.next_leaf(0, 10, 5)
    assert found is not None
    assert found.items == 5
    Numbered.objects.filter(id=2).update(done=True)
    assert met(source, [(found.first, found.upto)]) == [0, 1, 3, 4]
    assert source.leaf_queryset(found.first, found.upto, todo=False).count() == 5


def test_a_leaf_can_be_updated_and_rows_that_do_not_match_over_are_left_alone() -> None:
    numbered(range(20))
    source = QuerySource(Numbered.objects.filter(id__lt=15), todo=Q(done=False))
    assert source.limits() == (0, 15)
    for lo, hi in walk(source, 4):
        source.leaf_queryset(lo, hi).update(done=True)
    assert Numbered.objects.filter(done=True).count() == 15


def test_rows_that_change_under_the_walk_are_still_met_once() -> None:
    chance = random.Random(11)
    ids = sorted(chance.sample(range(10_000), 400))
    numbered(ids, chance.sample(ids, 150))
    left = set(Numbered.objects.filter(done=False).values_list("id", flat=True))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    cur, hi, done, gone = 0, 10_000, list[int](), set[int]()
    while found := source.next_leaf(cur, hi, 7):
        rows = list(source.leaf_queryset(found.first, found.upto))
        done += [row.id for row in rows]
        Numbered.objects.filter(id__in=[row.id for row in rows]).update(done=True)
        # Others finish some, delete some and add some, before and behind the cursor.
        behind = [id for id in left if id not in done]
        for id in chance.sample(behind, min(3, len(behind))):
            gone.add(id)
            if chance.random() < 0.5:
                Numbered.objects.filter(id=id).update(done=True)
            else:
                Numbered.objects.filter(id=id).delete()
        assert isinstance(found.upto, int)
        cur = found.upto
    assert len(done) == len(set(done))
    assert left - gone <= set(done) <= left


def test_a_queryset_that_locks_its_rows_locks_none_while_probing() -> None:
    numbered(range(10))
    source = QuerySource(Numbered.objects.select_for_update(skip_locked=True), todo=Q(done=False))
    with CaptureQueriesContext(connection) as asked:
        found = source.next_leaf(0, 10, 5)
    assert found is not None
    assert not any("FOR UPDATE" in one["sql"] for one in asked)
    assert "FOR UPDATE" in str(source.leaf_queryset(0, 5).query)


# --- Keys of each type ----------------------------------------------------------------------------


def test_the_last_key_of_a_type_has_an_end_behind_it() -> None:
    numbered([-(2**63), 0, 2**63 - 1])
    source = QuerySource(Numbered.objects.all())
    assert source.limits() == (-(2**63), 2**63)
    assert met(source, walk(source, 1)) == [-(2**63), 0, 2**63 - 1]
    assert source.next_leaf(2**63, 2**63, 1) is None

    Small.objects.bulk_create(Small(id=id) for id in (-(2**31), 5, 2**31 - 1))
    small = QuerySource(Small.objects.all())
    assert met(small, walk(small, 1)) == [-(2**31), 5, 2**31 - 1]


def test_uuids() -> None:
    ids = [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), *(uuid.uuid4() for _ in range(50))]
    Marked.objects.bulk_create(Marked(id=id) for id in ids)
    source = QuerySource(Marked.objects.all())
    assert met(source, walk(source, 7)) == sorted(ids)
    assert source.median(*source.limits() or (0, 0)) == sorted(ids)[26].int


def test_dates_and_instants_up_to_the_ends_of_the_calendar() -> None:
    days = [date.min, date(2024, 2, 29), date.max]
    moments = [
        datetime.min.replace(tzinfo=UTC) + timedelta(days=1),
        datetime(2024, 3, 31, 1, 59, 59, 999_999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    for day, at in zip(days, moments, strict=True):
        Dated.objects.create(day=day, at=at)
    for key in ("day", "at"):
        source = QuerySource(Dated.objects.all(), key=key)
        rows = [one for lo, hi in walk(source, 1) for one in source.leaf_queryset(lo, hi)]
        assert [getattr(one, key) for one in rows] == (days if key == "day" else moments)


def test_an_axis_can_be_chosen_for_its_midpoints() -> None:
    axis = DateTimeAxis(align="day", tz="Europe/Madrid")
    assert QuerySource(Dated.objects.all(), key="at", axis=axis).axis is axis


def test_decimals_and_floats() -> None:
    amounts = [
        Decimal("-9999999999.99"),
        Decimal("0.00"),
        Decimal("0.01"),
        Decimal("9999999999.99"),
    ]
    weights = [-1.7976931348623157e308, -5e-324, 0.0, 1.7976931348623157e308]
    for amount, weight in zip(amounts, weights, strict=True):
        Measured.objects.create(amount=amount, weight=weight)
    for key, values in (("amount", amounts), ("weight", weights)):
        source = QuerySource(Measured.objects.all(), key=key)
        rows = [one for lo, hi in walk(source, 1) for one in source.leaf_queryset(lo, hi)]
        assert [getattr(one, key) for one in rows] == values


# --- Text -----------------------------------------------------------------------------------------

# ruff: noqa: RUF001 - characters that look alike are the point.
WORDS = [
    "", " ", "a", "A", "b", "B", "Z", "z", "é", "É", "e", "E", "ä", "Ä", "ae", "az", "Az", "aZ",
    "straße", "strasse", "Straße", "zoë", "Zoe", "İ", "ı", "i", "I", "ñ", "n", "o", "ö", "Ø",
    "a b", "a-b", "ab", "a_b", "co-op", "coop", "10", "9", "ﬀ", "ff", "中", "😀", "a\x01", "\x01",
    unicodedata.normalize("NFD", "é"), unicodedata.normalize("NFD", "É") + "x",
]  # fmt: skip


@pytest.fixture(params=["name", "code", "word"])
def key(request: pytest.FixtureRequest) -> str:
    if request.param == "word" and language_collation() is None:
        pytest.skip("This PostgreSQL has no collation of a language.")
    return str(request.param)


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("probing", ["witness", "filter"])
def test_mixed_case_and_accents_are_covered_once_under_the_databases_and_a_languages_collation(
    key: str, size: int, probing: Any
) -> None:
    Named.objects.bulk_create(Named(name=word, code=word, word=word) for word in WORDS)
    Named.objects.filter(name__in=WORDS[::3]).update(done=True)
    source = QuerySource(Named.objects.all(), key=key, todo=Q(done=False), probing=probing)
    left = set(WORDS) - set(WORDS[::3])
    ids = met(source, walk(source, size))
    assert len(ids) == len(left)
    words = dict(Named.objects.values_list("pk", key))
    # In the one order that the program and the database share.
    assert [words[id] for id in ids] == sorted(left)


def test_any_cuts_of_a_text_range_part_it_without_loss(key: str) -> None:
    Named.objects.bulk_create(Named(name=word, code=word, word=word) for word in WORDS)
    source = QuerySource(Named.objects.all(), key=key)
    lo, hi = source.limits() or ("", "")
    for parts in (2, 5, 16):
        cuts = source.boundaries(lo, hi, parts)
        edges: list[Any] = [lo, *cuts, hi]
        assert edges == sorted(set(edges))
        ids = met(source, list(pairwise(edges)))
        assert len(ids) == len(set(ids)) == len(WORDS)
    assert source.median(lo, hi) == sorted(WORDS)[len(WORDS) // 2]


def test_text_walks_an_index_of_the_same_collation() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO keyed_code (code) SELECT md5(n::text) FROM generate_series(1, 20000) n"
        )
        cursor.execute("ANALYZE keyed_code")
    source = QuerySource(Code.objects.all())
    walked = source.keyed.walk_sql("5", "9", todo=False)
    assert walked is not None
    sql, params = walked
    plan = source.keyed.explain(f"{sql} ORDER BY key LIMIT 1", params)["Plans"][0]
    assert plan["Node Type"] in {"Index Only Scan", "Index Scan"}
    assert "Filter" not in plan


def test_the_ends_of_several_leaves_are_found_in_one_walk_of_the_index() -> None:
    fill(20_000, done="mod(n, 2) = 0")
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX keyed_undone ON keyed_numbered (id) WHERE NOT done")
        cursor.execute("ANALYZE keyed_numbered")
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    leaves = source.next_leaves(0, 30_000, 1_000, 5)
    assert [found.items for found in leaves] == [1_000] * 5
    assert [found.first for found in leaves] == [1, 2_001, 4_001, 6_001, 8_001]
    walk, behind = (
        source.keyed.walk_sql(0, 30_000, todo=True, start=start) for start in ("", LAST_END)
    )
    assert walk is not None
    assert behind is not None
    with transaction.atomic(), connection.cursor() as cursor:
        for name, value in WALK.items():
            cursor.execute(f"SET LOCAL {name} = {value}")
        sql = ENDS.format(walk=walk[0], behind=behind[0])
        plan = explain(sql, (*walk[1], *behind[1], 1_000, 5))
    assert all("keyed_undone" in scan for scan in scans(plan) if "WorkTable" not in scan)
    # The first key, then of each leaf all its keys and the one behind it.
    assert rows_read(plan, "keyed_numbered") == 1 + 5 * 1_001


def test_a_table_may_be_called_as_it_likes() -> None:
    class Ends(Table):
        class Meta(Table.Meta):
            db_table = "ends"

    with connection.schema_editor() as editor:
        editor.create_model(Ends)
    Ends.objects.bulk_create(Ends(id=n) for n in range(1, 31))
    leaves = QuerySource(Ends.objects.all()).next_leaves(0, 100, 10, 4)
    assert [(found.first, found.upto) for found in leaves] == [(1, 11), (11, 21), (21, 100)]
    with connection.schema_editor() as editor:
        editor.delete_model(Ends)


def test_ends_that_no_index_gives_in_time_are_found_one_by_one() -> None:
    fill(5_000)
    slow = Numbered.objects.extra(where=["pg_sleep(0.001) IS NOT NULL"])
    source = QuerySource(slow)
    with pytest.raises(ProbeTimeout):
        source.next_leaves(0, 30_000, 500, 8)
    assert source.next_leaf(0, 30_000, 5) is not None


# --- Keys that repeat, keys that are missing ------------------------------------------------------


def lines(counts: Sequence[int]) -> None:
    numbered(range(len(counts)))
    Line.objects.bulk_create(
        Line(number_id=number) for number, count in enumerate(counts) for _ in range(count)
    )


@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_rows_with_equal_keys_stay_in_one_leaf(size: int) -> None:
    counts = [3, 1, 12, 0, 5, 1, 1, 1, 20]
    lines(counts)
    source = QuerySource(Line.objects.all(), key="number", todo=Q(done=False))
    leaves = walk(source, size)
    assert len(met(source, leaves)) == len(set(met(source, leaves))) == sum(counts)
    for lo, hi in leaves:
        held = set(source.leaf_queryset(lo, hi).values_list("number_id", flat=True))
        rows = source.leaf_queryset(lo, hi).count()
        assert rows == sum(counts[number] for number in held)
        assert rows <= size or len(held) == 1


def test_a_median_leaves_rows_on_both_sides_and_one_key_cannot_be_cut() -> None:
    lines([9, 1, 1])
    source = QuerySource(Line.objects.all(), key="number_id")
    assert source.median(0, 3) == 1
    assert source.median(0, 1) is None
    assert source.median(1, 3) == 2
    assert source.median(3, 3) is None
    assert source.keys(0, 3, 10) == [0, 1, 2]
    assert source.keys(0, 3, 2) == [0, 1]


def test_a_text_foreign_key_is_walked_by_code_point() -> None:
    Code.objects.bulk_create(Code(code=word) for word in ("a", "B", "é"))
    numbered([1])
    Line.objects.bulk_create(Line(number_id=1, code_id=word) for word in ("a", "B", "é", "a"))
    source = QuerySource(Line.objects.all(), key="code", nulls="skip")
    rows = Line.objects.in_bulk(met(source, walk(source, 1)))
    assert [rows[id].code_id for id in met(source, walk(source, 1))] == ["B", "a", "a", "é"]


def test_rows_without_a_key_are_refused_unless_they_are_to_be_skipped() -> None:
    numbered(range(6))
    Numbered.objects.filter(id__gte=2).update(group=F("id"))
    with pytest.raises(InvalidInput, match="2 rows have no group") as caught:
        QuerySource(Numbered.objects.all(), key="group").check_nulls()
    assert caught.value.field == "nulls"
    source = QuerySource(Numbered.objects.all(), key="group", nulls="skip")
    source.check_nulls()
    assert source.count_nulls() == 2
    assert met(source, walk(source, 10)) == [2, 3, 4, 5]
    QuerySource(Numbered.objects.filter(group__isnull=False), key="group").check_nulls()


# --- Probes ---------------------------------------------------------------------------------------


def test_a_probe_that_takes_too_long_is_told_apart_from_nothing_left() -> None:
    numbered(range(50))
    # Each row costs time before it turns out not to match.
    slow = Numbered.objects.extra(where=["pg_sleep(0.02) IS NULL"])
    source = QuerySource(slow, todo=Q(done=False))
    with transaction.atomic():
        Numbered.objects.filter(id=1).update(group=99)
        with pytest.raises(ProbeTimeout):
            source.next_leaf(0, 50, 10)
        # The work of the transaction around it is untouched, and so are its settings.
        assert Numbered.objects.get(group=99).id == 1
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone()[0] == "0"
            cursor.execute("SHOW enable_seqscan")
            assert cursor.fetchone()[0] == "on"


def test_a_blind_leaf_walks_all_keys_and_its_queryset_filters() -> None:
    numbered(range(20), range(10))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    found = source.next_leaf(0, 20, 5, blind=True)
    assert found is not None
    assert (found.first, found.upto) == (0, 5)
    assert met(source, walk(source, 5, blind=True)) == list(range(10, 20))


def test_a_probe_sees_what_its_own_transaction_wrote() -> None:
    numbered(range(10))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    with transaction.atomic():
        source.leaf_queryset(0, 5).update(done=True)
        found = source.next_leaf(0, 10, 2)
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone()[0] == "0"
    assert found is not None
    assert found.first == 5
    assert Numbered.objects.filter(done=True).count() == 5


def test_a_condition_on_another_table_is_walked_with_exists() -> None:
    numbered(range(10))
    Line.objects.bulk_create(Line(number_id=id) for id in (2, 2, 5))
    with pytest.raises(InvalidInput, match="Exists"):
        QuerySource(Group.objects.all(), todo=Q(user__is_active=False))
    missing = ~Exists(Line.objects.filter(number=OuterRef("pk")))
    source = QuerySource(Numbered.objects.all(), todo=Q(missing))
    assert met(source, walk(source, 3)) == [0, 1, 3, 4, 6, 7, 8, 9]


# --- Cuts -----------------------------------------------------------------------------------------


def shares(source: QuerySource, parts: int, **options: Any) -> list[int]:
    lo, hi = source.limits() or (0, 0)
    cuts = source.boundaries(lo, hi, parts)
    edges: list[Any] = [lo, *cuts, hi]
    assert edges == sorted(set(edges))
    pairs = pairwise(edges)
    return [source.leaf_queryset(*pair, **options).count() for pair in pairs]


def test_boundaries_follow_the_rows_not_the_width_of_the_keys() -> None:
    fill(20_000, step="CASE WHEN n <= 18000 THEN n ELSE n * 100000000000 END")
    counts = shares(QuerySource(Numbered.objects.all()), 8)
    assert len(counts) == 8
    assert max(counts) < 1.3 * 20_000 / 8


def test_boundaries_follow_the_rows_that_need_work(monkeypatch: pytest.MonkeyPatch) -> None:
    # Fewer than the pages hold: the sample must not be of their beginning.
    monkeypatch.setattr(statistics, "SAMPLED_ROWS", 1_000)
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE keyed_numbered CASCADE"
        )  # and the pages that other tests left empty
    fill(40_000, done="n < 30000")
    counts = shares(QuerySource(Numbered.objects.all(), todo=Q(done=False)), 4)
    assert len(counts) == 4
    assert max(counts) < 1.3 * 10_000 / 4


def test_boundaries_without_statistics_are_sampled() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE keyed_unindexed")  # and the pages that other tests left empty
        cursor.execute(
            "INSERT INTO keyed_unindexed (rank, done) "
            "SELECT CASE WHEN n < 9000 THEN n ELSE n * 100000 END, false "
            "FROM generate_series(1, 10000) n"
        )
    counts = shares(QuerySource(Unindexed.objects.all(), key="rank"), 4)
    assert len(counts) == 4
    assert max(counts) < 1.3 * 10_000 / 4


def test_boundaries_of_an_empty_table_halve_the_axis() -> None:
    source = QuerySource(Numbered.objects.all())
    assert source.boundaries(0, 100, 4) == [25, 50, 75]
    assert source.boundaries(0, 1, 4) == []
    assert source.boundaries(5, 5, 4) == []
    assert source.boundaries(0, 100, 1) == []


def test_one_key_in_many_rows_does_not_confuse_the_cuts() -> None:
    lines([1, 2_000, 1, 1])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE keyed_line")
    source = QuerySource(Line.objects.all(), key="number")
    assert sum(shares(source, 8)) == 2_003


def test_a_median_of_many_rows_comes_from_statistics() -> None:
    fill(60_000)
    source = QuerySource(Numbered.objects.all())
    middle = source.median(1, 60_001)
    assert isinstance(middle, int)
    assert 24_000 < middle < 36_000
    assert source.median(1, 10_001) == 5_001


def test_an_estimate_reads_no_rows() -> None:
    fill(20_000)
    source = QuerySource(Numbered.objects.all())
    assert 8_000 < source.estimate(1, 10_001) < 12_000
    assert source.estimate(5, 5) == 0


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("over", "options", "field"),
    [
        (lambda: Numbered.objects.all()[:5], {}, "over"),
        (Numbered.objects.distinct, {}, "over"),
        (lambda: Numbered.objects.all().union(Numbered.objects.all()), {}, "over"),
        (lambda: Group.objects.filter(user__is_active=True), {}, "over"),
        (Group.objects.all, {"todo": Q(user__is_active=True)}, "todo"),
        (Numbered.objects.all, {"key": "colour"}, "key"),
        (Numbered.objects.all, {"key": "lines"}, "key"),
        (Numbered.objects.all, {"todo": Q(colour="red")}, "todo"),
        (Numbered.objects.all, {"nulls": "maybe"}, "nulls"),
        (Numbered.objects.all, {"key": "done"}, "done"),
    ],
)
def test_what_cannot_be_walked_is_refused_by_name(
    over: Any, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        QuerySource(over(), **options)
    assert caught.value.field == field
