"""A run meets its code again: what it has kept, what stops it, and who may read why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from jobs.errors import InvalidInput
from jobs.models import Job, JobLog
from jobs.testing import run_due_jobs
from ranges import declaring
from ranges.axes import DateRange, IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.loading import load, load_to_work
from ranges.models import RangeRun
from ranges.retrying import RetryPolicy, exponential, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus

pytestmark = pytest.mark.django_db

SECRET = "anna@example.org"


def longer(attempt: int) -> float:
    return 0.0 * attempt


class Kept(RangeJob):
    name = "shop.Kept"
    over: Any = IntRange(0, 100)
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=2, backoff=longer, transient=(KeyError,))
    version: ClassVar[str] = "1"

    done: ClassVar[list[int]] = []
    at_leaf: ClassVar[Callable[[LeafRange, Any], object]] = lambda leaf, context: None

    def process(self, leaf: LeafRange, context: Any) -> None:
        type(self).at_leaf(leaf, context)
        self.done.extend(leaf)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    Kept.done.clear()
    Kept.at_leaf = lambda leaf, context: None


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def half_done() -> RangeRun:
    """A run that somebody paused in its middle."""
    run = Kept.start()

    def pause(leaf: LeafRange, context: Any) -> None:
        if len(Kept.done) == 40:
            RangeRun.objects.get(id=run.id).pause(reason="a deploy")

    Kept.at_leaf = pause
    assert drive(run).status == RunStatus.PAUSED
    Kept.at_leaf = lambda leaf, context: None
    return run


def logged(run: RangeRun) -> str:
    lines = JobLog.objects.filter(job__in=Job.objects.filter(type__startswith="ranges."))
    return "\n".join(line.message for line in lines)


# What a run keeps


def test_a_policy_given_to_one_run_is_there_when_the_run_is_loaded_again() -> None:
    given = replace(
        Kept.retry, max_attempts=7, backoff=exponential(3), bisect=False, bisect_budget=5
    )
    run = RangeRun.objects.get(id=Kept.create(retry=given, nulls="skip").id)

    assert load(run).options.retry == given
    assert load(run).options.nulls == "skip"


def test_what_a_run_was_not_given_is_its_classs() -> None:
    run = RangeRun.objects.get(id=Kept.create().id)

    assert load(run).options.retry == Kept.retry
    assert load(run).options.nulls == "refuse"


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (replace(Kept.retry, backoff=lambda attempt: attempt), "retry.backoff"),
        (replace(Kept.retry, transient=()), "retry.transient"),
    ],
)
def test_code_that_no_run_can_keep_is_refused_when_it_is_made(
    policy: RetryPolicy, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Kept.create(retry=policy)
    assert refused.value.field == field
    assert not RangeRun.objects.exists()
    # In memory nothing has to be kept.
    assert Kept.run_in_memory(retry=policy).status == RunStatus.COMPLETED


def test_the_wait_that_one_run_was_given_is_the_one_that_is_kept_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ranges.lane.IDLE_SECONDS", 0.0)

    def fail_once(leaf: LeafRange, context: Any) -> None:
        if context.attempt == 1 and leaf.lo == 50:
            raise ValueError("once")

    Kept.at_leaf = fail_once
    run = Kept.start(retry=replace(Kept.retry, backoff=fixed(3_600)))
    run_due_jobs()

    assert run.nodes.get(state="pending").next_at is not None
    assert len(Kept.done) == 90


# What stops it


def test_a_class_that_was_renamed_meanwhile_stops_the_run_with_that_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = half_done()
    monkeypatch.setattr(declaring, "_jobs", {"shop.Better": Kept})
    assert drive(run.resume()).status == RunStatus.PAUSED
    assert run.reason == "no range job is called 'shop.Kept' in this worker's code"
    assert len(Kept.done) == 50

    monkeypatch.undo()
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert sorted(Kept.done) == list(range(100))


def test_new_code_goes_on_with_an_old_run_only_when_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = half_done()
    monkeypatch.setattr(Kept, "version", "2")
    assert drive(run.resume()).status == RunStatus.PAUSED
    assert "version '2' here" in run.reason
    assert "version '1'" in run.reason
    assert "code_version='2'" in run.reason
    assert len(Kept.done) == 50
    assert run.verify().ok  # to look at it no version is needed
    assert load(run).run_id == str(run.id)

    assert drive(run.resume(code_version="2")).status == RunStatus.COMPLETED
    assert run.code_version == "2"
    assert sorted(Kept.done) == list(range(100))
    assert run.assert_complete().is_complete


def test_code_of_a_new_version_that_comes_while_lanes_work_stops_them_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Kept.start()
    with pytest.MonkeyPatch.context() as later:
        later.setattr(Kept, "version", "2")
        drive(run)
    assert run.status == RunStatus.PAUSED
    assert Kept.done == []
    assert drive(run.resume()).status == RunStatus.COMPLETED


@pytest.mark.parametrize("version", [3, None, "x" * 101])
def test_a_version_is_a_short_text(version: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        type("Odd", (Kept,), {"version": version, "__module__": __name__})
    assert refused.value.field == "version"
    if version is not None:
        with pytest.raises(InvalidInput) as refused:
            Kept.create().resume(code_version=version)
        assert refused.value.field == "code_version"


def test_keys_of_another_type_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = half_done()
    monkeypatch.setattr(Kept, "over", DateRange("2024-01-01", "2024-02-01"))
    monkeypatch.setattr(Kept, "leaf", Leaf())

    assert drive(run.resume()).status == RunStatus.PAUSED
    assert "keys of another type" in run.reason


# Who may read why


def test_the_reason_of_a_stop_does_not_quote_an_error_and_the_log_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = half_done()

    def broken(self: Any) -> None:
        raise RuntimeError(f"no such customer: {SECRET}")

    monkeypatch.setattr(Kept, "over", broken)
    drive(run.resume())

    assert (run.status, run.reason) == (
        RunStatus.PAUSED, "shop.Kept cannot be loaded: RuntimeError",
    )  # fmt: skip
    assert f"RuntimeError: no such customer: {SECRET}" in logged(run)


def test_lanes_that_all_fail_stop_the_run_and_say_where_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ranges.lane import Lane

    def fail(self: Any) -> None:
        raise RuntimeError(f"no such customer: {SECRET}")

    monkeypatch.setattr(Lane, "work", fail)
    monkeypatch.setattr("ranges.run_jobs.ATTEMPTS", 2)
    run = drive(Kept.start(concurrency=2))

    assert run.status == RunStatus.PAUSED
    lane = Job.objects.get(id=run.reason.removeprefix("no lane could work; see job "))
    assert SECRET in (lane.last_error or "")
    assert SECRET in logged(run)


def test_only_who_works_needs_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Kept.create()
    monkeypatch.setattr(Kept, "version", "2")
    load(run)
    with pytest.raises(Exception, match="code_version='2'"):
        load_to_work(run)
