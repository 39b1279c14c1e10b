"""What may be done to a run, and what becomes of it: driven in this process, without a worker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from django.db import transaction

from jobs import events
from jobs import lifecycle as jobs_lifecycle
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.models import Attempt, Job, JobLog
from jobs.testing import run_due_jobs
from ranges import declaring, lifecycle, run_jobs
from ranges.axes import IntRange, TextRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.proof import verify
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import FailureState, RunStatus

pytestmark = pytest.mark.django_db


class Scripted(RangeJob):
    """Does what the test says at each leaf."""

    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=10)
    concurrency = 2
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))

    leaves: ClassVar[list[tuple[int, int]]] = []
    at_leaf: ClassVar[Callable[[LeafRange, Any], None]] = lambda leaf, context: None

    def process(self, leaf: LeafRange, context: Any) -> None:
        type(self).at_leaf(leaf, context)
        self.leaves.append((leaf.lo, leaf.hi))


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    Scripted.leaves.clear()
    Scripted.at_leaf = lambda leaf, context: None


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def job_of(run: RangeRun) -> Job:
    assert run.job_id is not None
    return Job.objects.get(pk=run.job_id)


def at_leaf_number(number: int, act: Callable[[RangeRun], object], run: RangeRun) -> None:
    """Have it done within the n-th leaf."""

    def at_leaf(leaf: LeafRange, context: Any) -> None:
        if len(Scripted.leaves) == number:
            act(RangeRun.objects.get(id=run.id))

    Scripted.at_leaf = at_leaf


def is_tiled(lo: int = 0, hi: int = 1_000) -> bool:
    at = lo
    for start, end in sorted(Scripted.leaves):
        if start != at:
            return False
        at = end
    return at == hi


def test_a_created_run_does_nothing_before_it_is_started() -> None:
    run = Scripted.create()
    run_due_jobs()

    assert run.status == RunStatus.CREATED
    assert not Job.objects.exists()
    assert drive(run.start()).status == RunStatus.COMPLETED
    assert is_tiled()


def test_an_empty_range_completes_at_once_with_nothing_done() -> None:
    run = drive(Scripted.start(5, 5))

    assert run.status == RunStatus.COMPLETED
    assert job_of(run).result == {"run": str(run.id), "done": 0, "failed": 0}
    assert Scripted.leaves == []


def test_a_paused_run_begins_no_leaf_more_and_goes_on_where_it_stopped() -> None:
    run = Scripted.create().start()
    at_leaf_number(10, lambda run: run.pause(reason="lunch"), run)

    assert drive(run).status == RunStatus.PAUSED
    assert (run.reason, len(Scripted.leaves)) == ("lunch", 11)
    assert job_of(run).due_at is None
    assert not RangeNode.objects.filter(state="running").exists()

    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert is_tiled()


def test_a_pause_before_the_first_step_and_one_that_is_taken_back_lose_nothing() -> None:
    run = Scripted.create().start().pause()
    run.resume().pause()
    assert drive(run).status == RunStatus.PAUSED

    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert is_tiled()


def test_a_cancelled_run_stays_cancelled_with_its_job_and_lanes() -> None:
    run = Scripted.create().start()
    at_leaf_number(10, lambda run: run.cancel(reason="wrong table"), run)
    drive(run)

    assert (run.status, run.reason) == (RunStatus.CANCELLED, "wrong table")
    assert len(Scripted.leaves) == 11
    assert not Job.objects.live().exists()
    with pytest.raises(Conflict):
        run.resume()
    assert run.cancel().status == RunStatus.CANCELLED


def test_slices_of_lanes_leave_no_attempts() -> None:
    drive(Scripted.start())

    outcomes = set(Attempt.objects.values_list("outcome", flat=True))
    assert outcomes <= {"succeeded", "waited"}


def test_fewer_lanes_end_and_more_lanes_begin_while_it_runs() -> None:
    run = Scripted.create(concurrency=1).start()
    at_leaf_number(5, lambda run: run.retune(concurrency=3), run)
    drive(run)

    indices = Job.objects.filter(type="ranges.lane").values_list("payload__index", flat=True)
    assert sorted(indices) == [0, 1, 2]
    assert run.status == RunStatus.COMPLETED
    assert is_tiled()


def test_a_lane_above_the_new_concurrency_ends_with_its_leaf() -> None:
    run = Scripted.create(concurrency=4).start()
    at_leaf_number(5, lambda run: run.retune(concurrency=1), run)
    drive(run)

    assert run.status == RunStatus.COMPLETED
    assert run.concurrency == 1
    assert is_tiled()


def test_too_many_failures_stop_the_run_early_and_it_can_be_resumed() -> None:
    run = Scripted.create(failure_threshold=10.0, concurrency=1).start()

    def fail(leaf: LeafRange, context: Any) -> None:
        if leaf.lo >= 100:
            raise ValueError("broken")

    Scripted.at_leaf = fail
    assert drive(run).status == RunStatus.PAUSED
    assert run.reason == "failure threshold"
    failures = RangeFailure.objects.count()
    assert 0 < failures < 200

    Scripted.at_leaf = lambda leaf, context: None
    assert drive(run.resume()).status == RunStatus.PARTIALLY_FAILED
    assert run.retry_failed() == failures
    assert drive(run).status == RunStatus.COMPLETED
    assert is_tiled()
    assert verify(run).is_complete


def test_a_run_of_which_nothing_succeeded_has_failed_and_its_job_is_a_dead_letter() -> None:
    run = Scripted.create(0, 8, failure_threshold=None).start()

    def fail(leaf: LeafRange, context: Any) -> None:
        raise ValueError("broken")

    Scripted.at_leaf = fail
    drive(run)

    assert (run.status, run.reason) == (RunStatus.FAILED, "8 items failed")
    assert job_of(run).status == "failed"


def test_retrying_the_dead_letter_retries_what_failed() -> None:
    run = Scripted.create().start()
    Scripted.at_leaf = fail_at(555)
    assert drive(run).status == RunStatus.PARTIALLY_FAILED
    assert RangeFailure.objects.get().key == "555"

    Scripted.at_leaf = lambda leaf, context: None
    assert run.job_id is not None
    jobs_lifecycle.retry(run.job_id)

    assert drive(run).status == RunStatus.COMPLETED
    assert RangeFailure.objects.get().state == FailureState.RETRIED
    assert is_tiled()
    assert verify(run).is_complete


def test_a_dead_letter_that_still_fails_is_dead_again() -> None:
    run = Scripted.create().start()
    Scripted.at_leaf = fail_at(555)
    drive(run)
    run.retry_failed()

    assert drive(run).status == RunStatus.PARTIALLY_FAILED
    assert [f.state for f in RangeFailure.objects.order_by("id")] == ["retried", "open"]
    assert job_of(run).status == "failed"


def test_a_waived_failure_has_a_name_attached_and_the_last_one_completes_the_run() -> None:
    run = Scripted.create().start()
    Scripted.at_leaf = fail_at(555)
    drive(run)
    failure = RangeFailure.objects.get()
    with pytest.raises(InvalidInput):
        run.waive(failure, " ")

    run.waive(failure, "known duplicate", by="operator")
    drive(run)

    failure.refresh_from_db()
    assert (failure.state, failure.reason, failure.resolved_by) == (
        "waived", "known duplicate", "operator",
    )  # fmt: skip
    assert run.status == RunStatus.COMPLETED
    assert job_of(run).status == "completed"


def test_what_was_waived_is_not_counted_when_the_rest_fails_again() -> None:
    run = Scripted.create().start()
    Scripted.at_leaf = fail_at(555, 777)
    assert drive(run).reason == "2 items failed"

    run.waive(RangeFailure.objects.get(key="555"), "known duplicate")
    run.retry_failed()
    assert drive(run).reason == "1 item failed"


def test_one_failure_can_be_retried_while_the_others_stay_open() -> None:
    run = Scripted.create().start()
    bad = {555, 556, 700}

    def fail(leaf: LeafRange, context: Any) -> None:
        if hit := bad & set(range(leaf.lo, leaf.hi)):
            raise ValueError(f"bad key {min(hit)}")

    Scripted.at_leaf = fail
    drive(run)
    ids = {failure.key: failure.id for failure in RangeFailure.objects.all()}
    assert set(ids) == {"555", "556", "700"}

    bad.remove(556)
    assert run.retry_failed(failures=[ids["556"]], by="anna") == 1
    assert drive(run).status == RunStatus.PARTIALLY_FAILED
    states = dict(RangeFailure.objects.values_list("key", "state"))
    assert states == {"555": "open", "556": "retried", "700": "open"}
    assert (verify(run).ok, verify(run).rows_failed) == (True, 2)

    for wrong, refusal in ((ids["556"], Conflict), (0, NotFound), ("x", NotFound)):
        with pytest.raises(refusal):
            run.retry_failed(failures=[ids["555"], wrong])  # type: ignore[list-item]
        with pytest.raises(refusal):
            run.waive(wrong, "never mind")  # type: ignore[arg-type]
    assert RangeFailure.objects.filter(state="open").count() == 2

    bad.clear()
    assert run.retry_failed() == 2
    assert drive(run).status == RunStatus.COMPLETED
    assert is_tiled()


def test_an_item_that_process_names_as_failed_has_a_node_of_its_own() -> None:
    run = Scripted.create().start()

    def name_two(leaf: LeafRange, context: Any) -> None:
        for key in (123, 127, 990):
            if leaf.lo <= key < leaf.hi and context.attempt == 1:
                context.fail(key, "no such city")

    Scripted.at_leaf = name_two
    drive(run)

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert [(f.key, f.error) for f in RangeFailure.objects.order_by("id")].count(
        ("127", "no such city")
    )
    verdict = verify(run)
    assert (verdict.ok, verdict.rows_ok, verdict.rows_failed) == (True, 997, 3)
    assert is_tiled()


def test_a_class_that_is_gone_halts_the_run_with_that_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Scripted.create().start()
    monkeypatch.setattr(declaring, "_jobs", {})

    drive(run)
    assert run.status == RunStatus.PAUSED
    assert Scripted.name in run.reason

    monkeypatch.undo()
    assert drive(run.resume()).status == RunStatus.COMPLETED


def test_a_run_over_text_covers_it() -> None:
    class Words(RangeJob):
        over = TextRange("a", "c")
        concurrency = 2
        seen: ClassVar[list[tuple[str, str]]] = []

        def process(self, leaf: LeafRange, context: Any) -> None:
            self.seen.append((leaf.lo, leaf.hi))

    run = drive(Words.start())

    assert (run.status, run.reason) == (RunStatus.COMPLETED, "")
    assert verify(run).chain
    found = sorted(Words.seen)
    assert found[0][0] == "a"
    assert found[-1][1] == "c"
    assert all(one[1] == other[0] for one, other in pairwise(found))


def test_what_is_unknown_or_wrong_is_refused_by_name() -> None:
    with pytest.raises(NotFound):
        lifecycle.pause("0198c0de-0000-7000-8000-000000000000")
    with pytest.raises(InvalidInput) as refused:
        Scripted.create(params={"when": object()})
    assert refused.value.field == "params.when"
    with pytest.raises(Conflict):
        Scripted.create().pause()


def fail_at(*keys: int) -> Callable[[LeafRange, Any], None]:
    def fail(leaf: LeafRange, context: Any) -> None:
        for key in keys:
            if leaf.lo <= key < leaf.hi:
                raise ValueError(f"bad key {key}")

    return fail


@pytest.mark.django_db(transaction=True)
def test_cancelling_the_job_of_a_run_cancels_the_run() -> None:
    run = Scripted.create().start()
    assert run.job_id is not None
    jobs_lifecycle.cancel(run.job_id)

    run.refresh_from_db()
    assert (run.status, run.reason) == (RunStatus.CANCELLED, "its job was cancelled")


@pytest.mark.django_db(transaction=True)
def test_events_tell_the_life_of_a_run_and_of_its_nodes_after_the_commit() -> None:
    told: list[str] = []
    stop = events.on("*", lambda event: told.append(event.name))
    Scripted.at_leaf = fail_at(555)
    try:
        drive(Scripted.start(concurrency=1))
    finally:
        stop()

    mine = [name for name in told if name.startswith(("range.", "node."))]
    assert mine[:4] == ["range.created", "range.started", "node.split", "node.started"]
    assert mine[-1] == "range.partially_failed"
    assert {"node.completed", "node.retrying", "node.failed"} <= set(mine)


def test_a_run_that_goes_on_after_a_pause_has_all_its_lanes_though_one_was_at_work_throughout() -> (
    None
):
    run = Scripted.create(concurrency=3).start()

    def pause_and_resume(leaf: LeafRange, context: Any) -> None:
        Scripted.at_leaf = lambda leaf, context: None
        run.pause()
        run_due_jobs()  # the other lanes end
        assert Job.objects.live().filter(type="ranges.lane").count() == 1
        run.resume()
        lanes = Job.objects.live().filter(type="ranges.lane")
        assert sorted(lanes.values_list("payload__index", flat=True)) == [0, 1, 2]

    Scripted.at_leaf = pause_and_resume
    assert drive(run).status == RunStatus.COMPLETED
    assert is_tiled()


def test_lanes_that_are_missing_are_made_again_while_the_run_works() -> None:
    run = Scripted.create(concurrency=3).start()
    made = []

    def lose_lanes(leaf: LeafRange, context: Any) -> None:
        Scripted.at_leaf = lambda leaf, context: made.append(
            Job.objects.live().filter(type="ranges.lane").count()
        )
        for lane in Job.objects.filter(type="ranges.lane", status="pending"):
            jobs_lifecycle.cancel(lane.id)

    Scripted.at_leaf = lose_lanes
    assert drive(run).status == RunStatus.COMPLETED
    assert (made[0], made[1]) == (3, 3)  # with the sample that the first leaf took
    assert is_tiled()


def test_a_corrupt_run_that_is_retried_ends_as_corrupt_again() -> None:
    def lose_a_node(leaf: LeafRange, context: Any) -> None:
        if leaf.hi == 1_000:
            RangeNode.objects.filter(run=run, state="done").delete()

    run = Scripted.create().start()
    Scripted.at_leaf = lose_a_node
    assert drive(run).reason == "corrupt"

    run.retry_failed()
    run_due_jobs(retries=True, limit=10)
    run.refresh_from_db()
    assert (run.status, run.reason) == (RunStatus.FAILED, "corrupt")
    assert job_of(run).status == "failed"


class BadWord(RangeJob):
    """Fails wherever `bad` is."""

    over = TextRange("a", "c")
    retry = RetryPolicy(max_attempts=1)
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        if leaf.lo <= "bad" < leaf.hi:
            raise ValueError("broken")


def test_a_range_of_text_that_fails_is_halved_down_to_the_text_as_it_is_in_memory() -> None:
    run = drive(BadWord.start())
    failure = RangeFailure.objects.get()
    assert (failure.key, failure.upto, failure.items) == ("bad", "", 1)
    node = RangeNode.objects.get(state="error")
    assert (node.lo_key, node.hi_key) == ("bad", "bad\x01")
    assert verify(run).ok

    in_memory = BadWord.run_in_memory()
    (same,) = in_memory.failures
    assert (same.key, same.upto, same.items) == ("bad", None, 1)


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_job_is_dead_is_paused_with_that_reason_and_can_be_resumed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_jobs, "ATTEMPTS", 2)
    settings.COPPICE_MAX_WAIT_ROUNDS = 1
    run = Scripted.create().start()
    at_leaf_number(10, lambda run: run.pause(), run)
    assert drive(run).status == RunStatus.PAUSED

    drive(run.resume())
    assert job_of(run).status == "failed"
    # As the worker tells that had the last attempt.
    events.emit("job.dead_lettered", job_id=str(run.job_id), type="ranges.run", queue="default")
    run.refresh_from_db()
    assert run.status == RunStatus.PAUSED
    assert run.reason == f"its job has failed; see job {run.job_id}"

    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert is_tiled()


@pytest.mark.django_db(transaction=True)
def test_what_fails_on_commit_is_told_and_the_leaf_is_done_once() -> None:
    def hook() -> None:
        raise ValueError("no broker")

    def ask_for_it(leaf: LeafRange, context: Any) -> None:
        if leaf.lo == 100:
            transaction.on_commit(hook)

    run = Scripted.create().start()
    Scripted.at_leaf = ask_for_it
    assert drive(run).status == RunStatus.COMPLETED
    assert is_tiled()
    assert run.progress().fenced == 0
    told = JobLog.objects.get(message="what was to be done on commit has failed")
    assert "no broker" in str(told.data)


class Spelled(RangeJob):
    over = TextRange("a", "z")

    progress: ClassVar[list[Any]] = []

    def process(self, leaf: LeafRange, context: Any) -> None:
        RangeRun.objects.filter(id=context.run_id).update(active_seconds=10.0)
        self.progress.append(RangeRun.objects.get(id=context.run_id).progress())


def test_the_time_that_a_range_of_text_takes_is_told_by_the_share_that_is_done() -> None:
    assert drive(Spelled.start()).status == RunStatus.COMPLETED
    halfway = next(known for known in Spelled.progress if known.percent > 50)
    assert halfway.rows_left is None
    assert 1 < halfway.eta_seconds[0] < 60
