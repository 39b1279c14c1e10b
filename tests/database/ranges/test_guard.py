"""The guard trusts only an index that holds nothing but what needs work, and says which one to make."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from django.db import connection, models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from ranges.guard import judge
from ranges.querying import QuerySource
from tests.database.ranges.keyed import Code, Dated, Line, Named, Numbered, Unindexed
from tests.plans import explain, rows_read, scans

pytestmark = pytest.mark.usefixtures("keyed_tables")

LEFT = Q(done=False)


def fill(table: str, columns: str, values: str, count: int = 5_000) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, {count}) n"
        )
        cursor.execute(f"ANALYZE {table}")


def run_ddl(statements: tuple[str, ...]) -> None:
    """Inside a transaction, so not concurrently; the rest is as given."""
    with connection.cursor() as cursor:
        for statement in statements:
            assert statement.startswith("CREATE INDEX CONCURRENTLY ")
            cursor.execute(statement.replace(" CONCURRENTLY", ""))


def test_all_keys_of_a_primary_key_are_walked_along_its_index() -> None:
    fill("keyed_numbered", "id, done", "n, false")
    verdict = judge(QuerySource(Numbered.objects.all()))
    assert verdict.probing == "none"
    assert verdict.index == "keyed_numbered_pkey"
    assert (verdict.ddl, verdict.warning) == ((), "")


@pytest.mark.parametrize("count", [20, 5_000])
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_without_an_index_of_what_is_left_all_keys_are_walked_and_the_index_that_would_do_is_given(
    count: int, share: float
) -> None:
    fill("keyed_numbered", "id, done", f"n, n > {count * share}", count)
    source = QuerySource(Numbered.objects.all(), todo=LEFT)
    verdict = judge(source)
    assert verdict.probing == "filter"
    assert verdict.index == "keyed_numbered_pkey"
    assert "holds just the rows that need work" in verdict.warning
    (ddl,) = verdict.ddl
    assert ddl.endswith('ON "keyed_numbered" ("id") WHERE NOT "keyed_numbered"."done"')

    run_ddl(verdict.ddl)
    better = judge(source, 1, count + 1)
    assert better.probing == "witness"
    assert better.index == ddl.split('"')[1]
    assert (better.ddl, better.warning) == ((), "")


def test_the_condition_of_over_belongs_into_the_index_too() -> None:
    fill("keyed_numbered", 'id, done, "group"', "n, n % 2 = 0, n % 3")
    source = QuerySource(Numbered.objects.filter(group=1), todo=LEFT)
    (ddl,) = judge(source).ddl
    assert '"group" = 1 AND NOT "keyed_numbered"."done"' in ddl
    run_ddl((ddl,))
    assert judge(source).probing == "witness"
    # Another group is not what this index holds.
    assert judge(QuerySource(Numbered.objects.filter(group=2), todo=LEFT)).probing == "filter"


@pytest.mark.parametrize(
    "todo",
    [
        Q(name='it\'s 100% "done" \\ %s'),
        Q(name__in=["a", "b"]),
        Q(name__startswith="x_%"),
        Q(done=False) | ~Q(name=""),
        Q(name__gt="m", done=True),
    ],
)
def test_any_condition_on_the_rows_own_columns_is_written_out(todo: Q) -> None:
    fill("keyed_named", "name, code, word, done", "n::text, n::text, n::text, n % 9 = 0")
    source = QuerySource(Named.objects.all(), todo=todo)
    verdict = judge(source)
    assert verdict.probing == "filter"
    run_ddl(verdict.ddl)
    assert judge(source).probing == "witness"


def test_moments_are_written_out_but_now_is_none() -> None:
    fill(
        "keyed_dated",
        "day, at",
        "'2000-01-01'::date + n, '2000-01-01'::timestamptz + n * interval '1 h'",
    )
    fixed = QuerySource(Dated.objects.all(), todo=Q(at__gt=datetime(2001, 1, 1, tzinfo=UTC)))
    run_ddl(judge(fixed).ddl)
    assert judge(fixed).probing == "witness"
    moving = judge(QuerySource(Dated.objects.all(), todo=Q(at__lt=Now())))
    assert (moving.probing, moving.ddl) == ("filter", ())
    assert "changes with time" in moving.warning


def test_a_condition_on_another_table_has_no_index() -> None:
    fill("keyed_numbered", "id, done", "n, false", 50)
    missing = Q(~Exists(Line.objects.filter(number=OuterRef("pk"))))
    verdict = judge(QuerySource(Numbered.objects.all(), todo=missing))
    assert (verdict.probing, verdict.ddl) == ("filter", ())
    assert "another table" in verdict.warning
    joined = judge(QuerySource(Line.objects.all(), todo=Q(number__done=False)))
    assert (joined.probing, joined.ddl) == ("filter", ())


def test_rows_that_are_looked_up_elsewhere_are_walked_along_the_keys_index() -> None:
    fill("keyed_numbered", "id, done", "n, false", 500)
    fill("keyed_line", "number_id, done", "1 + n % 500, n % 2 = 0")
    having = Numbered.objects.filter(Exists(Line.objects.filter(number=OuterRef("pk"), done=False)))
    lacking = Numbered.objects.filter(~Exists(Line.objects.filter(number=OuterRef("pk"))))
    for source in (
        QuerySource(having),
        QuerySource(lacking, todo=LEFT),
        QuerySource(Line.objects.filter(number__done=False), key="number"),
    ):
        verdict = judge(source)
        assert (verdict.index or "").startswith(("keyed_numbered_pkey", "keyed_line_number_id"))
        assert "reads the whole table" not in verdict.warning
        assert verdict.ddl == ()


def test_an_index_with_the_condition_in_front_will_do() -> None:
    fill("keyed_numbered", "id, done", "n, n <= 4900")
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX done_first ON keyed_numbered (done, id)")
    verdict = judge(QuerySource(Numbered.objects.all(), todo=LEFT))
    assert (verdict.probing, verdict.index) == ("witness", "done_first")


def test_text_needs_an_index_by_code_point() -> None:
    fill("keyed_named", "name, code, word, done", "md5(n::text), md5(n::text), md5(n::text), false")
    assert judge(QuerySource(Named.objects.all(), key="code")).ddl == ()
    source = QuerySource(Named.objects.all(), key="name")
    verdict = judge(source)
    assert verdict.probing == "none"
    assert 'no index in the order of COLLATE "C"' in verdict.warning
    assert '("name" COLLATE "C")' in verdict.ddl[0]
    run_ddl(verdict.ddl)
    assert judge(source).ddl == ()

    partial = QuerySource(Named.objects.all(), key="name", todo=LEFT)
    run_ddl(judge(partial).ddl)
    assert judge(partial).probing == "witness"


def test_a_key_without_any_index_is_warned_about() -> None:
    fill("keyed_unindexed", "rank, done", "n, n % 2 = 0")
    verdict = judge(QuerySource(Unindexed.objects.all(), key="rank", todo=LEFT))
    assert (verdict.probing, verdict.index) == ("filter", None)
    assert "reads the whole table" in verdict.warning
    partial, whole = verdict.ddl
    assert " WHERE " in partial
    assert " WHERE " not in whole
    run_ddl((whole,))
    assert judge(QuerySource(Unindexed.objects.all(), key="rank", todo=LEFT)).index is not None


class Part(models.Model):
    at = models.DateTimeField()
    done = models.BooleanField()

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "keyed"
        managed = False
        db_table = 'keyed Odd"."My Parts'

    def __str__(self) -> str:
        return str(self.pk)


def test_the_index_of_a_partitioned_table_in_another_schema_can_be_made_as_it_is_given() -> None:
    with connection.cursor() as cursor:
        cursor.execute('CREATE SCHEMA "keyed Odd"')
        cursor.execute(
            'CREATE TABLE "keyed Odd"."My Parts" (id bigint, at timestamptz, done boolean)'
            " PARTITION BY RANGE (id)"
        )
        cursor.execute('CREATE TABLE "keyed Odd".one PARTITION OF "keyed Odd"."My Parts" DEFAULT')
        cursor.execute(
            'INSERT INTO "keyed Odd"."My Parts" SELECT n, now(), n % 2 = 0'
            " FROM generate_series(1, 500) n"
        )
    source = QuerySource(Part.objects.all(), todo=LEFT)
    for statement in judge(source).ddl:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    assert judge(source).probing == "witness"
    assert judge(source).ddl == ()


def test_nothing_to_do_at_all_needs_no_index() -> None:
    verdict = judge(QuerySource(Numbered.objects.none(), todo=LEFT))
    assert verdict.ddl == ()


def test_a_probe_behind_the_guard_reads_no_finished_rows() -> None:
    fill("keyed_numbered", "id, done", "n, n <= 19000", 20_000)
    source = QuerySource(Numbered.objects.all(), todo=LEFT)
    run_ddl(judge(source).ddl)
    walked = source.keyed.walk_sql(1, 20_001, todo=True)
    assert walked is not None
    sql, params = walked
    plan = explain(
        f"SELECT ({sql} ORDER BY key LIMIT 1), ({sql} ORDER BY key LIMIT 1 OFFSET 100)",
        (*params, *params),
    )
    assert rows_read(plan, "keyed_numbered") <= 102, scans(plan)


def test_a_probe_walks_the_index_even_where_statistics_say_that_the_table_is_tiny() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE keyed_code")
        cursor.execute("INSERT INTO keyed_code SELECT md5(n::text) FROM generate_series(1, 9000) n")
    source = QuerySource(Code.objects.all())
    walked = source.keyed.walk_sql("5", "f", todo=False)
    assert walked is not None
    plan = source.keyed.explain(f"{walked[0]} ORDER BY key LIMIT 1", walked[1])
    assert "Index" in str(plan)


@pytest.fixture
def committed(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO keyed_numbered (id, done) SELECT n, n < 900 FROM generate_series(1, 1000) n"
        )
        yield
        cursor.execute("TRUNCATE keyed_numbered CASCADE")
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname ~ '^keyed_numbered_id_'")
        for (name,) in cursor.fetchall():
            cursor.execute(f'DROP INDEX "{name}"')


@pytest.mark.usefixtures("committed")
def test_the_definition_runs_as_it_is_written() -> None:
    source = QuerySource(Numbered.objects.all(), todo=LEFT)
    (ddl,) = judge(source).ddl
    with connection.cursor() as cursor:
        cursor.execute(ddl)
    assert judge(source).probing == "witness"
