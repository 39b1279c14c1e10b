from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Q

import ranges
from jobs.errors import InvalidInput, NotFound, RegistrationError
from ranges import IntRange, Leaf, LeafRange, RangeJob, RetryPolicy, bounding, declaring
from ranges.axes import DateAxis, IntAxis
from ranges.sources import PlainSource


class Doubles(RangeJob):
    over: Any = IntRange(0, 100)

    def process(self, leaf: LeafRange, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("attribute", "value", "field"),
    [
        ("concurrency", 0, "concurrency"),
        ("concurrency", True, "concurrency"),
        ("failure_threshold", 100.5, "failure_threshold"),
        ("failure_threshold", "5", "failure_threshold"),
        ("max_depth", -1, "max_depth"),
        ("leaf", 1000, "leaf"),
        ("retry", 3, "retry"),
        ("nulls", "maybe", "nulls"),
        ("atomic", None, "atomic"),
        ("key", "", "key"),
        ("should_process", False, "should_process"),
        ("queue", "not one", "queue"),
        ("over", 50_000_000, "over"),
        ("todo", "done = false", "todo"),
        ("todo", Q(done=False), "todo"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_is_written(
    attribute: str, value: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        type("Wrong", (Doubles,), {attribute: value})
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_size": 0}, "leaf.max_size"),
        ({"max_size": True}, "leaf.max_size"),
        ({"max_size": 1.5}, "leaf.max_size"),
        ({"max_size": timedelta(0)}, "leaf.max_size"),
        ({"max_size": 5, "target_seconds": 1}, "leaf.max_size"),
        ({"target_seconds": 0}, "leaf.target_seconds"),
        ({"rows": (5, 1)}, "leaf.rows"),
        ({"rows": (0, 1)}, "leaf.rows"),
        ({"rows": 5}, "leaf.rows"),
        ({"max_size": 5, "rows": (1, 9)}, "leaf.rows"),
        ({"hard_timeout": 0}, "leaf.hard_timeout"),
    ],
)
def test_a_wrong_leaf_is_refused_by_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Leaf(**options)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"backoff": 5}, "retry.backoff"),
        ({"bisect": 1}, "retry.bisect"),
        ({"transient": (int,)}, "retry.transient"),
    ],
)
def test_a_wrong_retry_policy_is_refused_by_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        RetryPolicy(**options)
    assert refusal.value.field == field


def test_a_leaf_comes_back_from_its_json() -> None:
    for leaf in (Leaf(), Leaf(max_size=7, hard_timeout=3), Leaf(target_seconds=2, rows=(5, 9))):
        assert Leaf.from_json(leaf.to_json()) == leaf
    assert Leaf(max_size=timedelta(days=2)).on(DateAxis()).to_json() == {"max_size": 2}
    with pytest.raises(InvalidInput):
        Leaf(max_size=timedelta(hours=2)).on(DateAxis())
    with pytest.raises(InvalidInput):
        Leaf(max_size=timedelta(days=2)).on(IntAxis())
    with pytest.raises(InvalidInput):
        Leaf.from_json({"size": 3})


def test_an_option_of_a_run_leaves_the_class_as_it_is() -> None:
    options = Doubles.options(max_range_size=5, concurrency=3, failure_threshold=None)
    assert (options.leaf.max_size, options.concurrency) == (5, 3)
    assert options.failure_threshold is None
    assert Doubles.options().failure_threshold == 5.0
    assert Doubles.options(concurrency=None).concurrency == 1


def test_a_job_is_found_by_its_name_and_a_missing_one_is_named() -> None:
    assert declaring.get(Doubles.name) is Doubles
    assert Doubles.name in declaring.names()
    assert declaring.find("shop.Gone") is None
    with pytest.raises(NotFound, match=r"range job shop\.Gone"):
        declaring.get("shop.Gone")


def test_a_process_that_yields_is_refused_since_nobody_would_run_it() -> None:
    def process(self: Any, leaf: LeafRange, context: Any) -> Any:
        yield from leaf

    async def process_async(self: Any, leaf: LeafRange, context: Any) -> Any:
        yield 1

    for one in (process, process_async):
        with pytest.raises(InvalidInput) as refusal:
            type("Yielding", (Doubles,), {"process": one})
        assert refusal.value.field == "process"


def test_two_classes_of_one_name_are_refused_and_a_base_is_no_job() -> None:
    body: dict[str, Any] = {"over": IntRange(0, 1), "process": Doubles.process, "name": "a.Same"}
    type("Same", (RangeJob,), {**body, "__qualname__": "Same"})
    with pytest.raises(RegistrationError):
        type("Other", (RangeJob,), {**body, "__qualname__": "Other"})

    class Base(RangeJob):
        def process(self, leaf: LeafRange, context: Any) -> None: ...

    assert Base.name not in declaring.names()


def test_what_to_run_over_may_be_computed_or_an_axis_alone() -> None:
    class Computed(Doubles):
        def over(self) -> Any:
            return IntRange(5, 8)

    assert bounding.bounds_of(Computed().source(), None, None) == (5, 8)

    class Open(Doubles):
        over = IntAxis()

    source = Open().source()
    with pytest.raises(InvalidInput) as refusal:
        bounding.bounds_of(source, 1, None)
    assert refusal.value.field == "end"
    assert bounding.bounds_of(source, 1, 3) == (1, 3)
    assert Open.run_in_memory(1, 3).processed == 2

    class Wrong(Doubles):
        def over(self) -> Any:
            return "cities"

    with pytest.raises(InvalidInput) as refusal:
        Wrong().source()
    assert refusal.value.field == "over"


def test_the_end_of_a_table_may_lie_before_the_start_that_was_asked_for() -> None:
    class Table(PlainSource):
        counts_rows = True

    table = Table(IntAxis(), 10, 20)
    assert bounding.bounds_of(table, None, None) == (10, 20)
    assert bounding.bounds_of(table, 15, None) == (15, 20)
    assert bounding.bounds_of(table, 30, None) == (30, 30)
    assert bounding.bounds_of(table, None, 5) == (5, 5)
    assert bounding.bounds_of(Table(IntAxis(), 0, 0), None, None) == (0, 0)


def test_every_public_name_can_be_had_and_no_module_hides_one() -> None:
    for name in ranges.__all__:
        value = getattr(ranges, name)
        assert not isinstance(value, type(sys)), name
    with pytest.raises(AttributeError):
        ranges.nothing  # noqa: B018


def test_a_plain_range_runs_without_django() -> None:
    program = (
        "import sys\n"
        "from ranges import IntRange, Leaf, RangeJob\n"
        "class Job(RangeJob):\n"
        "    over = IntRange(0, 100)\n"
        "    leaf = Leaf(max_size=7)\n"
        "    def process(self, leaf, context): pass\n"
        "assert Job.run_in_memory(concurrency=2).processed == 100\n"
        "assert 'django' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
