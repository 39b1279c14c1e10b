"""Whole runs over tables, driven in this process: what they did, proved and drew."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Q

from jobs.testing import run_due_jobs
from ranges.declaring import RangeJob
from ranges.drawing import coverage, lineage, tree
from ranges.guard import judge
from ranges.models import RangeFailure, RangeRun
from ranges.progress import progress
from ranges.querying import QuerySource
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus
from tests.database.ranges.keyed import Line, Named, Numbered

pytestmark = pytest.mark.usefixtures("keyed_tables")


class FinishRows(RangeJob):
    """Counts in `group` how often a row was done."""

    over = Numbered
    todo = Q(done=False)
    leaf = Leaf(max_size=50)
    concurrency = 2
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: Any, context: Any) -> int:
        bad = context.params.get("bad", ())
        if leaf.queryset.filter(id__in=bad).exists():
            raise ValueError("bad row")
        rows = leaf.queryset.update(done=True, group=F("group") + 1)
        return int(rows)


class FinishWords(RangeJob):
    over = Named
    key = "name"
    todo = Q(done=False)
    leaf = Leaf(max_size=3)

    def process(self, leaf: Any, context: Any) -> int:
        return int(leaf.queryset.update(done=True))


class FinishNumbers(RangeJob):
    """By a foreign key: rows with equal keys stay together."""

    over = Line
    key = "number"
    todo = Q(done=False)
    leaf = Leaf(max_size=3)

    def process(self, leaf: Any, context: Any) -> int:
        return int(leaf.queryset.update(done=True))


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def fill(count: int = 2_000) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO keyed_numbered (id, done, "group") SELECT n * n, n %% 5 = 0, 0 '
            "FROM generate_series(1, %s) n",
            [count],
        )
        cursor.execute("ANALYZE keyed_numbered")


def make_index() -> None:
    for statement in judge(QuerySource(Numbered.objects.all(), todo=FinishRows.todo)).ddl:
        with connection.cursor() as cursor:
            cursor.execute(statement.replace(" CONCURRENTLY", ""))


@pytest.mark.parametrize("indexed", [True, False])
def test_every_row_that_needs_work_is_done_once_with_and_without_the_index(indexed: bool) -> None:
    fill()
    if indexed:
        make_index()
    run = drive(FinishRows.start())
    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert run.probing == ("witness" if indexed else "filter")
    assert Numbered.objects.filter(group=1).count() == 1_600
    assert Numbered.objects.filter(group=0).count() == 400
    assert run.assert_complete().rows_ok == 1_600
    found = progress(run)
    assert (found.percent, found.left, found.rows, found.rows_failed) == (100.0, 0, 1_600, 0)
    assert found.leaves == sum(row["leaves"] for row in lineage(run))
    assert found.p95_seconds is not None
    root = tree(run, 6)
    assert (root["state"], root["left"], root["failed"]) == ("done", 0, 0)
    assert root["processed"] + root["skipped"] == root["hi"] - root["lo"]
    assert {bucket["state"] for bucket in coverage(run)["buckets"]} <= {"done", "skipped"}
    json.dumps([root, coverage(run), lineage(run), found.as_json(), run.verdict])


def test_leaves_are_no_more_than_the_rows_ask_for() -> None:
    fill()
    make_index()
    run = drive(FinishRows.start(concurrency=1))
    # 1,600 rows in leaves of 50, and at most one short leaf a strand.
    assert 32 <= progress(run).leaves <= 32 + len(lineage(run))


def test_bad_rows_are_found_and_all_others_are_done_once() -> None:
    fill(400)
    make_index()
    bad = [7 * 7, 123 * 123]
    run = drive(FinishRows.start(params={"bad": bad}))
    assert run.status == RunStatus.PARTIALLY_FAILED
    keys = RangeFailure.objects.filter(run=run).values_list("key", flat=True)
    assert sorted(int(key) for key in keys) == bad
    assert Numbered.objects.filter(group=1).count() == 320 - 2
    assert not Numbered.objects.filter(group__gt=1).exists()
    found = progress(run)
    assert (found.rows, found.rows_failed, found.open_failures) == (318, 2, 2)
    assert run.verify().ok
    for failure in RangeFailure.objects.filter(run=run):
        run.waive(failure, "known", by="an operator")
    assert run.assert_complete().ok


def test_nothing_to_do_is_done_at_once() -> None:
    run = drive(FinishRows.start())
    assert run.status == RunStatus.COMPLETED
    assert progress(run).percent == 100.0


def test_a_run_over_text_is_proved_and_drawn() -> None:
    words = ["a", "A", "b", "B", "é", "É", "ä", "Z", "z", "ß", "ss", "中", "😀", "", " "]
    Named.objects.bulk_create(Named(name=word, code=word, word=word) for word in words)
    run = drive(FinishWords.start())
    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert not Named.objects.filter(done=False).exists()
    assert run.verify().is_complete
    assert run.verify().rows_ok == len(words)
    assert tree(run, 3)["state"] in {"done", "skipped"}
    assert progress(run).percent == 100.0


def test_a_run_by_a_foreign_key_does_each_row() -> None:
    Numbered.objects.bulk_create(Numbered(id=id) for id in range(6))
    counts = [4, 0, 9, 1, 1, 2]
    Line.objects.bulk_create(
        Line(number_id=number) for number, count in enumerate(counts) for _ in range(count)
    )
    run = drive(FinishNumbers.start())
    assert run.status == RunStatus.COMPLETED
    assert run.assert_complete().rows_ok == sum(counts)
