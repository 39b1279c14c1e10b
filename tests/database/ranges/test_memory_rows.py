"""Runs in memory over the rows of a table: the same walk, one transaction a leaf."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from django.db import transaction
from django.db.models import Q

from jobs.errors import InvalidInput
from ranges import Block, Leaf, LeafRange, RangeJob, RetryPolicy, fixed
from ranges.states import RunStatus
from tests.database.ranges.keyed import Named, Numbered

pytestmark = pytest.mark.usefixtures("keyed_tables")


class Finish(RangeJob):
    over = Numbered.objects.all()
    todo = Q(done=False)
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None

    bad: frozenset[int] = frozenset()

    def process(self, leaf: LeafRange, context: Any) -> int:
        rows = list(leaf.queryset.values_list("pk", flat=True))
        count: int = leaf.queryset.update(done=True)
        if self.bad.intersection(rows):
            raise ValueError("a bad row")
        return count


def fill(ids: list[int], done: set[int]) -> None:
    Numbered.objects.bulk_create(Numbered(id=id, done=id in done) for id in ids)


def test_sparse_half_finished_rows_are_each_done_once_in_as_few_leaves_as_possible() -> None:
    ids = [*range(-50, 50), *range(10**15, 10**15 + 55)]
    done = set(range(-20, 20))
    fill(ids, done)
    run = Finish.in_memory()
    statistics = run.run()
    assert statistics.status is RunStatus.COMPLETED
    assert statistics.rows == len(ids) - len(done)
    assert statistics.leaves <= -(-statistics.rows // 10) + len(run.nodes)
    assert not Numbered.objects.filter(done=False).exists()
    assert run.verify()
    assert Finish.run_in_memory().attempts == 0


def test_a_leaf_that_fails_leaves_nothing_behind_but_what_its_halves_did() -> None:
    fill(list(range(0, 300, 3)), set())

    class Poison(Finish):
        bad = frozenset({150, 153, 297})

    statistics = Poison.run_in_memory()
    assert statistics.status is RunStatus.PARTIALLY_FAILED
    assert set(Numbered.objects.filter(done=False).values_list("pk", flat=True)) == Poison.bad
    assert statistics.rows == 97
    assert statistics.rows_failed == 3


def test_a_question_is_only_asked_where_rows_are_left() -> None:
    fill(list(range(0, 1000, 10)), set(range(500)))
    asked: list[tuple[int, int]] = []

    class Asks(Finish):
        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            asked.append((lo, hi))
            return lo < 900

    assert Asks.run_in_memory().status is RunStatus.COMPLETED
    assert min(lo for lo, _ in asked) == 500
    assert set(Numbered.objects.filter(done=False).values_list("pk", flat=True)) >= {980, 990}


def test_rows_that_failed_alone_are_named_by_their_key() -> None:
    fill(list(range(20)), set())

    class Fails(Finish):
        def process(self, leaf: LeafRange, context: Any) -> int:
            for row in leaf:
                if row.pk == 7:
                    context.fail(row, ValueError("seven"))
            return int(leaf.queryset.update(done=True))

    statistics = Fails.run_in_memory()
    assert [failure.key for failure in statistics.failures] == [7]
    assert statistics.rows == 19


def test_an_empty_table_and_a_range_without_rows_complete_at_once() -> None:
    assert Finish.run_in_memory().status is RunStatus.COMPLETED
    fill([1, 2, 3], set())
    for bounds in ((10, 20), (None, -5), (10, None), (2, 2)):
        statistics = Finish.run_in_memory(*bounds)
        assert (statistics.status, statistics.attempts) == (RunStatus.COMPLETED, 0)
    assert Finish.run_in_memory(2, 3).rows == 1


def test_text_keys_of_mixed_case_and_accents_are_each_done_once() -> None:
    words = ["a", "B", "ä", "Z", "z", "é", "E", "aa", "aB", "A", "b", "ß", "10", "9", "😀", "À"]
    Named.objects.bulk_create(Named(name=w, code=w, word=w) for w in words)
    for key in ("name", "code", "word"):
        seen: list[str] = []

        class Words(RangeJob):
            over = Named.objects.all()
            leaf = Leaf(max_size=3)

            def process(self, leaf: LeafRange, context: Any) -> None:
                seen.extend(leaf.queryset.values_list(self.key, flat=True))  # noqa: B023

        Words.key = key
        assert Words.run_in_memory().status is RunStatus.COMPLETED
        assert sorted(seen) == sorted(words)


def test_rows_without_a_key_are_refused_unless_they_are_to_be_skipped() -> None:
    fill([1, 2], set())
    Numbered.objects.filter(pk=1).update(group=5)

    class ByGroup(Finish):
        key = "group"

    with pytest.raises(InvalidInput) as refusal:
        ByGroup.in_memory()
    assert refusal.value.field == "nulls"
    assert ByGroup.run_in_memory(nulls="skip").rows == 1


class Hooked(RangeJob):
    """What it asks for on commit fails."""

    over = Numbered.objects.all()
    todo = Q(done=False)
    leaf = Leaf(max_size=10)

    calls: ClassVar[list[Any]] = []

    def process(self, leaf: LeafRange, context: Any) -> None:
        self.calls.append(leaf.lo)
        leaf.queryset.update(done=True)
        transaction.on_commit(lambda: self.calls[0].gone)


@pytest.mark.django_db(transaction=True)
def test_a_leaf_is_done_though_what_was_asked_for_on_commit_fails() -> None:
    fill(list(range(30)), set())
    statistics = Hooked.run_in_memory()
    assert (statistics.status, statistics.rows, statistics.failures) == ("completed", 30, ())
    assert Hooked.calls == [0, 10, 20]


class Counts(RangeJob):
    """Async, over rows: the event loop itself never asks the database."""

    over = Numbered.objects.all()
    leaf = Leaf(max_size=10)
    concurrency = 3
    atomic = False

    counts: ClassVar[list[int]] = []

    async def process(self, leaf: LeafRange, context: Any) -> None:
        self.counts.append(await leaf.queryset.acount())


@pytest.mark.django_db(transaction=True)
def test_an_async_job_over_rows_runs_in_memory_in_each_way() -> None:
    fill(list(range(50)), set())
    assert Counts.run_in_memory().status is RunStatus.COMPLETED
    made = Counts.in_memory()
    assert asyncio.run(made.arun()).status is RunStatus.COMPLETED
    background = Counts.in_memory().start()
    assert background.wait(30).status is RunStatus.COMPLETED
    assert sum(Counts.counts) == 150
