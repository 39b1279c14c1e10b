"""What an ended attempt may write: all of it under its own lease, nothing under another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.answers import Discard, Hold, JobCancelled, Retry, Snooze, WaitFor
from jobs.claim import Lane, claim
from jobs.claimed import Claimed
from jobs.complete import PROGRESS, Written, complete
from jobs.database import Database, DjangoDatabase
from jobs.endings import Ending, Success
from jobs.errors import InvalidInput
from jobs.ids import new_id
from jobs.models import Attempt, Job, JobDependency, JobLog, Rollup
from jobs.outcomes import (
    Run,
    decide_lost,
    decide_raise,
    decide_return,
    decide_timed_out,
    hand_back,
    unstorable,
)
from jobs.states import Status, may_move
from tests.factories import ago, make_edge, make_job
from tests.rivals import Rival, other_session, wait_until_blocked

pytestmark = pytest.mark.django_db

DATABASE = DjangoDatabase("default")
WORKER = new_id()
RUN = Run(wait=0.25, run=0.5)


class Rules:
    retry_on: tuple[type[BaseException], ...] = ()
    discard_on: tuple[type[BaseException], ...] = ()
    backoff = None
    mask: tuple[str, ...] = ()


def take(job: Job, worker_id: str = WORKER, database: Database = DATABASE) -> Claimed:
    """Claim that very job."""
    lanes = [Lane(job.queue, job.type, job.priority)]
    [claimed] = claim(
        database, worker_id=worker_id, lanes=lanes, limit=1, aging_minutes=10, aging_step=0.5
    )
    assert claimed.id == str(job.id)
    return claimed


@pytest.fixture
def job() -> Job:
    return make_job(due_at=ago(minutes=1))


def write(
    *items: Success | Ending, database: Database = DATABASE, worker_id: str = WORKER
) -> Written:
    return complete(
        database,
        worker_id=worker_id,
        successes=[item for item in items if isinstance(item, Success)],
        endings=[item for item in items if isinstance(item, Ending)],
    )


def failed(job: Claimed, error: BaseException | None = None) -> Ending:
    return decide_raise(job, error or ValueError("bad"), RUN, Rules())


def returned(job: Claimed, value: object) -> Ending:
    return decide_return(job, value, RUN, Rules())


def everything() -> dict[str, Any]:
    """All rows that a completion may touch, to be compared before and after."""
    return {
        model.__name__: sorted(map(repr, model.objects.order_by().values()))
        for model in (Job, Attempt, JobLog, Rollup, JobDependency)
    }


WAYS: dict[str, Callable[[Claimed], Success | Ending]] = {
    "completed": lambda job: Success(job, 0.25, 0.5, '{"n":1}'),
    "completed without a result": lambda job: Success(job, 0.25, 0.5),
    "failed": failed,
    "discarded": lambda job: failed(job, Discard("no")),
    "retried": lambda job: failed(job, Retry(delay=60)),
    "timed out": lambda job: decide_timed_out(job, 5.0, RUN, Rules()),
    "cancelled": lambda job: failed(job, JobCancelled("stop")),
    "snoozed": lambda job: returned(job, Snooze(30)),
    "held": lambda job: returned(job, Hold("ask Anna")),
    "handed back": lambda job: hand_back(job, "the worker stops"),
    "lost": lambda job: decide_lost(job, "it died"),
    "unstorable": lambda job: unstorable(job, ValueError("no"), RUN),
}


def test_a_success_writes_the_job_its_attempt_its_log_and_its_count(job: Job) -> None:
    claimed = take(job)

    written = write(Success(claimed, 0.0, 0.0, '{"n":1}'))

    job.refresh_from_db()
    assert (job.status, job.worker_id, job.result) == (Status.COMPLETED, None, {"n": 1})
    assert job.completed_at is not None
    attempt = Attempt.objects.get(job=job)
    assert (attempt.number, attempt.lease_epoch, attempt.outcome) == (1, 1, "succeeded")
    assert attempt.started_at == job.started_at
    assert attempt.finished_at is not None
    assert attempt.started_at <= attempt.finished_at <= job.completed_at
    assert [line.event for line in JobLog.objects.filter(job=job).order_by("id")] == [
        "started",
        "completed",
    ]
    [count] = Rollup.objects.filter(type="test")
    assert (count.outcome, count.jobs) == ("succeeded", 1)
    assert [one.job.id for one in written.ended] == [str(job.id)]
    assert not written.stale


@pytest.mark.parametrize(
    ("way", "status", "attempts", "outcome", "event"),
    [
        ("completed", "completed", 1, "succeeded", "completed"),
        ("failed", "pending", 1, "failed", "retry_scheduled"),
        ("discarded", "failed", 1, "failed", "dead_lettered"),
        ("retried", "pending", 1, "failed", "retry_scheduled"),
        ("timed out", "pending", 1, "timed_out", "retry_scheduled"),
        ("cancelled", "cancelled", 1, "cancelled", "cancelled"),
        ("snoozed", "pending", 0, "snoozed", "snoozed"),
        ("held", "pending", 0, "snoozed", "held"),
        ("handed back", "pending", 0, "handed_back", "handed_back"),
        ("lost", "pending", 1, "lost", "lost"),
        ("unstorable", "failed", 1, "failed", "dead_lettered"),
    ],
)
def test_each_end_leads_where_the_table_says_and_counts_what_was_spent(
    job: Job, way: str, status: str, attempts: int, outcome: str, event: str
) -> None:
    write(WAYS[way](take(job)))

    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.worker_id) == (status, attempts, None)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.number, attempt.lease_epoch) == (outcome, 1, 1)
    line = JobLog.objects.filter(job=job).latest("id")
    assert (line.event, line.from_status, line.to_status) == (event, "processing", status)
    assert may_move(Status.PROCESSING, Status(status))
    assert Rollup.objects.get().outcome == outcome


def test_only_what_is_to_run_again_gets_a_time(job: Job) -> None:
    write(WAYS["retried"](take(job)))

    job.refresh_from_db()
    assert job.next_retry_at is not None
    assert job.due_at is not None
    assert timedelta(0) <= job.due_at - job.next_retry_at < timedelta(milliseconds=5)
    assert timedelta(seconds=59) < job.next_retry_at - job.updated_at <= timedelta(seconds=60)


def test_a_job_handed_back_keeps_its_place_in_the_order(job: Job) -> None:
    due_at = job.due_at

    write(WAYS["handed back"](take(job)))

    job.refresh_from_db()
    assert (job.due_at, job.next_retry_at) == (due_at, None)


def test_a_retry_never_comes_before_the_time_the_job_was_scheduled_for() -> None:
    job = make_job(due_at=ago(minutes=1))
    claimed = take(job)
    Job.objects.filter(id=job.id).update(scheduled_at=ago(hours=-1))

    write(failed(claimed))

    job.refresh_from_db()
    assert job.due_at == job.scheduled_at


def test_a_held_job_has_no_time_and_says_why(job: Job) -> None:
    write(WAYS["held"](take(job)))

    job.refresh_from_db()
    assert (job.due_at, job.hold_reason) == (None, "ask Anna")


def test_the_last_attempt_is_a_dead_letter_and_names_its_error() -> None:
    job = make_job(attempt_count=2, max_attempts=3, due_at=ago(minutes=1))

    write(failed(take(job), RuntimeError("out of paper")))

    job.refresh_from_db()
    assert (job.status, job.attempt_count) == (Status.FAILED, 3)
    assert "out of paper" in job.last_error
    assert job.failed_at is not None
    assert job.error_fingerprint


def test_an_unspent_attempt_has_its_row_and_the_next_one_has_its_number(job: Job) -> None:
    write(WAYS["handed back"](take(job)))
    write(Success(take(job), 0.0, 0.1))

    assert list(
        Attempt.objects.filter(job=job)
        .order_by("lease_epoch")
        .values_list("lease_epoch", "number", "outcome")
    ) == [(1, 1, "handed_back"), (2, 1, "succeeded")]


# Leases


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("now", ["claimed again", "claimed again here", "rescued", "completed"])
def test_a_stale_worker_cannot_end_a_job_that_it_no_longer_holds(
    job: Job, way: str, now: str
) -> None:
    old = take(job)
    write(WAYS["lost"](old))
    Job.objects.filter(id=job.id).update(due_at=ago(minutes=1))
    match now:
        case "claimed again":
            take(job, new_id())
        case "claimed again here":
            take(job)
        case "completed":
            write(Success(take(job), 0.0, 0.1))
    before = everything()

    written = write(WAYS[way](old))

    assert everything() == before
    assert written.ended == []
    assert written.stale == [old]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_of_a_mixed_batch_the_good_are_written_and_the_stale_are_named(way: str) -> None:
    good, stale = (make_job(due_at=ago(minutes=1), queue=queue) for queue in ("a", "b"))
    mine, old = take(good), take(stale)
    write(decide_lost(old, "gone"))

    written = write(WAYS[way](mine), WAYS[way](old))

    assert [one.job for one in written.ended] == [mine]
    assert written.stale == [old]
    stale.refresh_from_db()
    assert (stale.status, Attempt.objects.get(job=stale).outcome) == (Status.PENDING, "lost")


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_batch_written_again_because_its_commit_was_not_answered_changes_nothing(
    job: Job, way: str
) -> None:
    item = WAYS[way](take(job))
    write(item)
    before = everything()

    written = write(item)

    assert everything() == before
    # Only a rescuer writes "lost"; a worker that repeats itself has lost no lease.
    assert written.stale == ([item.job] if way == "lost" else [])


def test_progress_told_under_an_old_lease_changes_nothing(job: Job) -> None:
    old = take(job)
    write(hand_back(old, "no"))
    take(job)

    DATABASE.run(
        PROGRESS,
        {
            "ids": [old.id],
            "epochs": [old.lease_epoch],
            "done": [5],
            "total": [9],
            "worker": WORKER,
        },
    )

    job.refresh_from_db()
    assert (job.progress_done, job.progress_total) == (None, None)


def test_the_lease_grows_with_every_claim_and_never_falls(job: Job) -> None:
    epochs = []
    for way in ("handed back", "snoozed", "failed", "lost", "retried"):
        claimed = take(job)
        epochs.append(claimed.lease_epoch)
        write(WAYS[way](claimed))
        Job.objects.filter(id=job.id).update(due_at=ago(minutes=1), max_attempts=99)

    assert epochs == [1, 2, 3, 4, 5]
    assert Attempt.objects.filter(job=job).count() == 5


# A rescue racing a finisher: whoever holds the row first decides, the other changes nothing


@pytest.fixture
def running() -> tuple[Job, Claimed]:
    job = make_job()
    return job, take(job)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_finisher_that_waited_for_a_rescue_is_refused(
    running: tuple[Job, Claimed], way: str
) -> None:
    job, claimed = running
    with other_session() as rescuer:
        with rescuer.transaction():
            assert write(decide_lost(claimed, "dead"), database=rescuer).ended
            finisher = Rival(lambda database: write(WAYS[way](claimed), database=database))
            wait_until_blocked()
        assert finisher.result().stale == [claimed]

    job.refresh_from_db()
    assert (job.status, job.lost_count, job.attempt_count) == (Status.PENDING, 1, 1)
    assert [attempt.outcome for attempt in Attempt.objects.filter(job=job)] == ["lost"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_rescue_that_waited_for_a_finisher_takes_nothing_back(
    running: tuple[Job, Claimed], way: str
) -> None:
    job, claimed = running
    with other_session() as finisher:
        with finisher.transaction():
            assert write(WAYS[way](claimed), database=finisher).ended
            rescuer = Rival(lambda database: write(decide_lost(claimed, "dead"), database=database))
            wait_until_blocked()
        assert rescuer.result().ended == []

    attempts = [attempt.outcome for attempt in Attempt.objects.filter(job=job)]
    assert len(attempts) == 1
    job.refresh_from_db()
    assert job.lost_count == (1 if way == "lost" else 0)


@pytest.mark.django_db(transaction=True)
def test_a_finisher_that_meets_a_rescue_and_a_new_claim_is_refused(
    running: tuple[Job, Claimed],
) -> None:
    job, claimed = running
    other_worker = new_id()
    with other_session() as rescuer:
        with rescuer.transaction():
            write(decide_lost(claimed, "dead"), database=rescuer)
            rescuer.run("UPDATE jobs_job SET due_at = now()", {})
            again = take(job, other_worker, rescuer)
            finisher = Rival(lambda database: write(Success(claimed, 0, 0.1), database=database))
            wait_until_blocked()
        assert finisher.result().stale == [claimed]

    job.refresh_from_db()
    assert (str(job.worker_id), job.lease_epoch) == (other_worker, again.lease_epoch)
    assert job.status == Status.PROCESSING


@pytest.mark.django_db(transaction=True)
def test_batches_in_opposite_order_never_wait_in_a_circle() -> None:
    amount = 200
    Job.objects.bulk_create(Job(type="test", payload={}) for _ in range(amount))
    lanes = [Lane("default", "test", 2)]
    jobs = claim(
        DATABASE, worker_id=WORKER, lanes=lanes, limit=amount, aging_minutes=10, aging_step=0.5
    )

    def finish(database: Database) -> int:
        return len(write(*(failed(job) for job in jobs), database=database).ended)

    def rescue(database: Database) -> int:
        return len(write(*(decide_lost(j, "x") for j in reversed(jobs)), database=database).ended)

    rivals = [Rival(finish), Rival(rescue), Rival(finish), Rival(rescue)]

    assert sorted(rival.result() for rival in rivals) == [0, 0, 0, amount]
    assert Attempt.objects.count() == amount


# A cancel that was asked for


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_cancel_that_was_asked_for_sticks_unless_the_handler_returned(job: Job, way: str) -> None:
    claimed = take(job)
    Job.objects.filter(id=job.id).update(cancel_requested_at=ago())

    write(WAYS[way](claimed))

    job.refresh_from_db()
    line = JobLog.objects.filter(job=job).latest("id")
    if way.startswith("completed"):
        assert (job.status, line.message) == (Status.COMPLETED, "completed before the cancel")
    else:
        assert (job.status, line.event) == (Status.CANCELLED, "cancelled")
        assert job.next_retry_at is None
        assert job.cancelled_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_cancel_request_that_commits_while_the_end_is_written_is_heeded(
    running: tuple[Job, Claimed],
) -> None:
    job, claimed = running
    with other_session() as person:
        with person.transaction():
            person.run("UPDATE jobs_job SET cancel_requested_at = now()", {})
            finisher = Rival(lambda database: write(failed(claimed), database=database))
            wait_until_blocked()
        finisher.result()

    job.refresh_from_db()
    assert (job.status, job.next_retry_at) == (Status.CANCELLED, None)


# All or nothing


def test_a_batch_with_one_refused_row_writes_nothing_of_the_others() -> None:
    first, second = (make_job(due_at=ago(minutes=1), queue=queue) for queue in ("a", "b"))
    good, bad = take(first), take(second)
    circle = returned(bad, WaitFor([second]))
    before = everything()

    with pytest.raises(InvalidInput, match="itself"):
        write(Success(good, 0.0, 0.1), circle)

    assert everything() == before


def test_a_batch_is_gone_when_its_transaction_is(job: Job) -> None:
    claimed = take(job)
    before = everything()

    def fail_after_writing() -> None:
        with DATABASE.transaction():
            write(Success(claimed, 0.0, 0.1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_writing()

    assert everything() == before


def test_an_end_releases_those_who_wait_for_it_in_the_same_transaction(job: Job) -> None:
    child = make_job(due_at=ago(minutes=1), queue="later")
    make_edge(child, job)

    written = write(Success(take(job), 0.0, 0.1))

    child.refresh_from_db()
    assert child.unmet_dependencies == 0
    assert [(one.job_id, one.event) for one in written.released] == [(str(child.id), "released")]


def test_errors_of_any_length_are_cut_before_they_are_stored(job: Job) -> None:
    write(failed(take(job), ValueError("x" * 3_000_000)))

    job.refresh_from_db()
    attempt = Attempt.objects.get(job=job)
    assert len(job.last_error) <= 5_000
    assert len(attempt.error) <= 5_000
    assert len(attempt.traceback) <= 50_000


def test_texts_that_postgresql_cannot_store_are_cleaned(job: Job) -> None:
    write(failed(take(job), ValueError("nul \x00, half \ud800 a pair")))

    job.refresh_from_db()
    assert "nul" in job.last_error
    assert "\x00" not in job.last_error


def test_a_quiet_snooze_leaves_no_trace_but_the_job_runs_again(job: Job) -> None:
    ending = decide_return(take(job), Snooze(60, quiet=True), RUN, Rules())
    before = JobLog.objects.count()

    written = complete(DATABASE, worker_id=WORKER, endings=[ending])

    job.refresh_from_db()
    assert [one.event for one in written.ended] == ["snoozed"]
    assert (job.status, job.attempt_count, job.snooze_count) == (Status.PENDING, 0, 1)
    assert not Attempt.objects.exists()
    assert JobLog.objects.count() == before


def test_a_quiet_snooze_of_a_job_asked_to_cancel_is_told_as_a_cancel(job: Job) -> None:
    claimed = take(job)
    Job.objects.update(cancel_requested_at=ago(seconds=1))

    complete(
        DATABASE,
        worker_id=WORKER,
        endings=[decide_return(claimed, Snooze(60, quiet=True), RUN, Rules())],
    )

    job.refresh_from_db()
    assert job.status == Status.CANCELLED
    assert Attempt.objects.get().outcome == "cancelled"
