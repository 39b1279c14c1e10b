"""Who gets which job, and in what order, when workers claim from the database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from jobs.claim import CLAIM_SESSION, Lane, Mark, claim, next_due, queues_with_work
from jobs.claimed import Claimed
from jobs.database import Database, DjangoDatabase
from jobs.ids import new_id
from jobs.models import Attempt, Job, JobLog, Queue
from jobs.order import order_key
from jobs.states import Status
from tests.factories import ago, make_edge, make_job, make_queue
from tests.rivals import Rival, other_session, wait_until_blocked

pytestmark = pytest.mark.django_db

DATABASE = DjangoDatabase("default")
LANES = [Lane("default", "test", priority) for priority in (1, 2, 3)]


def take(
    limit: int = 10,
    *,
    lanes: Sequence[Lane] = LANES,
    database: Database = DATABASE,
    worker_id: str = "",
    aging_minutes: float = 10.0,
    marks: dict[Lane, Mark] | None = None,
) -> list[Claimed]:
    return claim(
        database,
        worker_id=worker_id or new_id(),
        lanes=lanes,
        limit=limit,
        aging_minutes=aging_minutes,
        aging_step=0.5,
        marks=marks,
    )


def due_job(*traits: str, **columns: Any) -> Job:
    """Due for a minute: within a test's transaction, its now() stands still."""
    return make_job(*traits, **{"due_at": ago(minutes=1), **columns})


def ids(jobs: Sequence[Claimed]) -> set[str]:
    return {job.id for job in jobs}


def test_a_claim_counts_the_attempt_grows_the_lease_and_says_so_in_one_step() -> None:
    job = due_job(attempt_count=1, lease_epoch=7)
    worker_id = new_id()

    [claimed] = take(worker_id=worker_id)

    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.lease_epoch) == (Status.PROCESSING, 2, 8)
    assert str(job.worker_id) == worker_id
    assert (claimed.id, claimed.attempt, claimed.lease_epoch) == (str(job.id), 2, 8)
    [line] = JobLog.objects.filter(job=job)
    assert (line.event, line.from_status, line.to_status) == ("started", "pending", "processing")
    assert line.attempt == 2
    # A running attempt is shown from the job's row; its own row comes at its end.
    assert not Attempt.objects.filter(job=job).exists()


@pytest.mark.parametrize(
    ("traits", "columns"),
    [
        (("scheduled",), {}),
        (("retrying",), {}),
        (("held",), {}),
        (("processing",), {}),
        (("completed",), {}),
        (("dead",), {}),
        (("cancelled",), {}),
        ((), {"type": "stranger", "due_at": ago(minutes=1)}),
        ((), {"queue": "elsewhere", "due_at": ago(minutes=1)}),
        ((), {"unmet_dependencies": 1, "due_at": ago(minutes=1)}),
    ],
)
def test_what_may_not_run_is_never_claimed(
    traits: tuple[str, ...], columns: dict[str, Any]
) -> None:
    job = make_job(*traits, **columns)
    before = Job.objects.filter(id=job.id).values().get()

    assert take() == []

    assert Job.objects.filter(id=job.id).values().get() == before


def test_a_job_whose_edge_is_open_is_not_claimed_and_once_it_is_closed_it_is() -> None:
    parent, child = make_job("held"), due_job()
    make_edge(child, parent)

    assert take() == []
    Job.objects.filter(id=child.id).update(unmet_dependencies=0)

    assert ids(take()) == {str(child.id)}


def test_jobs_of_a_paused_queue_wait_until_its_pause_is_over() -> None:
    job = due_job(queue="mail")
    make_queue(name="mail", paused=True, paused_until=ago(hours=-1))
    lanes = [Lane("mail", "test", 2)]

    assert take(lanes=lanes) == []
    assert next_due(DATABASE, lanes) is None
    Queue.objects.update(paused_until=ago(seconds=1))

    assert next_due(DATABASE, lanes) is not None
    assert ids(take(lanes=lanes)) == {str(job.id)}


def test_jobs_of_a_paused_queue_wait_until_it_is_resumed() -> None:
    job = due_job(queue="mail")
    paused = make_queue(name="mail", paused=True)
    lanes = [Lane("mail", "test", 2)]

    assert take(lanes=lanes) == []
    assert next_due(DATABASE, lanes) is None
    paused.paused = False
    paused.save()

    assert ids(take(lanes=lanes)) == {str(job.id)}


@pytest.mark.parametrize("limit", [1, 2, 5, 11, 29, 60])
@pytest.mark.parametrize("aging_minutes", [0.0, 10.0])
def test_the_best_effective_score_goes_first_across_all_lanes(
    limit: int, aging_minutes: float
) -> None:
    lanes = [
        Lane(queue, type, priority)
        for queue in ("a", "b")
        for type in ("x", "y")
        for priority in (1, 2, 3)
    ]
    made = [
        make_job(
            queue=lane.queue, type=lane.type, priority=lane.priority, due_at=ago(minutes=minutes)
        )
        for number, lane in enumerate(lanes)
        # Away from the multiples of ten, where a second more or less would change the score.
        for minutes in (3 + number, 12 + number * 9.3, 34, 47.5 + number, 95)
    ]
    now = ago().timestamp()
    best = sorted(
        made,
        key=lambda job: order_key(
            job.priority,
            job.due_at.timestamp() if job.due_at else 0.0,
            str(job.id),
            now,
            aging_minutes=aging_minutes,
        ),
    )

    assert ids(take(limit, lanes=lanes, aging_minutes=aging_minutes)) == {
        str(job.id) for job in best[:limit]
    }


def test_a_low_job_that_waited_forty_minutes_goes_before_a_fresh_high_one() -> None:
    low = make_job(priority=3, due_at=ago(minutes=40, seconds=5))
    due_job(priority=1)

    assert ids(take(1)) == {str(low.id)}


def test_a_claim_takes_no_more_than_it_was_asked_for() -> None:
    for _ in range(7):
        due_job()

    assert [len(take(3)), len(take(3)), len(take(3)), len(take(3))] == [3, 3, 1, 0]
    assert take(0) == []
    assert take(5, lanes=[]) == []


def test_a_mark_skips_what_lies_before_it_and_a_look_without_marks_finds_it() -> None:
    early, late = make_job(due_at=ago(minutes=5)), make_job(due_at=ago(minutes=3))
    lane = Lane("default", "test", 2)
    mark = Mark(ago(minutes=4).timestamp(), "00000000-0000-0000-0000-000000000000")

    assert ids(take(marks={lane: mark})) == {str(late.id)}
    assert ids(take()) == {str(early.id)}


def test_a_mark_does_not_hide_a_job_of_its_very_moment() -> None:
    moment = ago(minutes=1)
    first, second = sorted(
        (make_job(due_at=moment), make_job(due_at=moment)), key=lambda job: job.id
    )
    [taken] = take(1)
    assert taken.id == str(first.id)

    marks = {Lane("default", "test", 2): Mark(taken.due_at, taken.id)}

    assert ids(take(marks=marks)) == {str(second.id)}


def test_the_next_due_time_is_told_in_seconds() -> None:
    assert next_due(DATABASE, LANES) is None
    assert next_due(DATABASE, []) is None
    soon = make_job("scheduled", due_at=ago(seconds=-60))
    make_job("scheduled", priority=1)

    seconds = next_due(DATABASE, LANES)

    assert seconds is not None
    assert 30 < seconds < 61
    Job.objects.filter(id=soon.id).update(due_at=ago(minutes=1))
    assert next_due(DATABASE, LANES) == 0.0


def test_queues_that_hold_work_are_found_whatever_their_number() -> None:
    for name in ("a", "b", "b", "c"):
        make_job(queue=name)
    make_job("scheduled", queue="later")
    make_job("completed", queue="done")
    make_job("held", queue="held")

    assert queues_with_work(DATABASE) == ["a", "b", "c", "later"]


# Rivals


@pytest.mark.django_db(transaction=True)
def test_of_two_claims_for_one_row_exactly_one_gets_it() -> None:
    job = make_job()

    with other_session() as first:
        with first.transaction():
            [mine] = take(database=first)
            rival = Rival(lambda database: take(database=database))
            assert rival.result() == []  # it does not even wait
        assert mine.id == str(job.id)

    job.refresh_from_db()
    assert (job.attempt_count, job.lease_epoch) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_many_workers_at_once_claim_each_job_exactly_once() -> None:
    workers, amount = 6, 300
    Job.objects.bulk_create(
        Job(type="test", priority=1 + number % 3, payload={}) for number in range(amount)
    )
    together = threading.Barrier(workers)

    def drain(database: Any) -> list[str]:
        for statement in CLAIM_SESSION:
            database.run(statement, {})
        together.wait()
        got: list[str] = []
        # A short answer is not an empty queue: it is empty when an unlocked look agrees.
        while True:
            jobs = take(7, database=database)
            got += [job.id for job in jobs]
            if not jobs and next_due(database, LANES) is None:
                return got

    rivals = [Rival(drain) for _ in range(workers)]
    claimed = [id for rival in rivals for id in rival.result()]

    assert len(claimed) == len(set(claimed)) == amount
    assert set(Job.objects.values_list("attempt_count", "lease_epoch")) == {(1, 1)}
    assert JobLog.objects.filter(event="started").count() == amount


@pytest.mark.django_db(transaction=True)
def test_a_short_answer_does_not_mean_an_empty_queue() -> None:
    jobs = [make_job(due_at=ago(minutes=10 - number)) for number in range(4)]

    with other_session() as first, first.transaction():
        first.rows(
            "SELECT FROM jobs_job WHERE id = ANY(%(ids)s::uuid[]) FOR NO KEY UPDATE",
            {"ids": [str(job.id) for job in jobs[:3]]},
        )

        # It slides past what others hold instead of waiting for it.
        assert ids(take(4)) == {str(jobs[3].id)}
        assert take(4) == []
        assert next_due(DATABASE, LANES) == 0.0


@pytest.mark.django_db(transaction=True)
def test_a_row_that_a_foreign_key_check_holds_is_claimed_all_the_same() -> None:
    job = make_job()

    with other_session() as first, first.transaction():
        first.rows("SELECT FROM jobs_job WHERE id = %(id)s FOR KEY SHARE", {"id": job.id})

        assert ids(take()) == {str(job.id)}


@pytest.mark.django_db(transaction=True)
def test_a_job_is_not_claimed_before_its_transaction_commits_or_after_its_rollback() -> None:
    made = {"id": new_id(), "other": new_id()}
    insert = (
        "INSERT INTO jobs_job (id, type, payload, max_attempts) VALUES (%(id)s, 'test', '{}', 3)"
    )
    with other_session() as first:
        with first.transaction():
            first.run(insert, made)
            assert take() == []
        assert ids(take()) == {made["id"]}

        with first.transaction():
            first.run(insert, {"id": made["other"]})
            raise psycopg.Rollback
        assert take() == []


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_meets_a_cancel_leaves_the_job_alone() -> None:
    job = make_job()

    with other_session() as first:
        with first.transaction():
            first.run(
                "UPDATE jobs_job SET status = 'cancelled', cancelled_at = now() WHERE id = %(id)s",
                {"id": job.id},
            )
            assert take() == []
        assert take() == []

    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.lease_epoch) == (Status.CANCELLED, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_is_rolled_back_has_never_been() -> None:
    job = make_job()

    with other_session() as first, first.transaction():
        take(database=first)
        raise psycopg.Rollback

    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.lease_epoch) == (Status.PENDING, 0, 0)
    assert not JobLog.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_claims_stay_right_and_reads_stay_few_under_a_snapshot_that_is_held_for_long() -> None:
    """A REPEATABLE READ transaction keeps every dead version of 4,000 claimed rows."""
    amount, step = 4_000, 200
    Job.objects.bulk_create(
        Job(type="test", payload={}, due_at=ago(minutes=5) + timedelta(milliseconds=number))
        for number in range(amount)
    )
    lane = Lane("default", "test", 2)
    marks: dict[Lane, Mark] = {}
    reads: list[int] = []
    with other_session() as watcher, other_session() as worker:
        for statement in CLAIM_SESSION:
            worker.run(statement, {})
        watcher.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        watcher.rows("SELECT count(*) FROM jobs_job", {})
        seen: set[str] = set()
        for _ in range(amount // step):
            before = _blocks_of_this_session(worker)
            jobs = take(step, database=worker, lanes=[lane], marks=marks)
            reads.append(_blocks_of_this_session(worker) - before)
            last = max(jobs, key=lambda job: (job.due_at, job.id))
            marks[lane] = Mark(last.due_at, last.id)
            assert not seen & ids(jobs)
            seen |= ids(jobs)
        assert len(seen) == amount
        assert take(step, database=worker, lanes=[lane], marks=marks) == []
        watcher.connection.execute("ROLLBACK")

    # The last claims read about as much as the first: marks skip what was claimed before.
    assert sum(reads[-3:]) < 2 * sum(reads[1:4])


def _blocks_of_this_session(database: Any) -> int:
    """Index blocks of the job table touched so far; the session's own numbers, told at once."""
    database.rows("SELECT pg_stat_force_next_flush()", {})
    return int(
        database.rows(
            "SELECT sum(idx_blks_hit + idx_blks_read)::bigint FROM pg_statio_user_indexes "
            "WHERE relname = 'jobs_job'",
            {},
        )[0][0]
    )


@pytest.mark.django_db(transaction=True)
def test_a_claim_waits_for_nobody() -> None:
    """Somebody who holds a row, and somebody who waits for it, do not hold up a claim."""
    busy, free = make_job(), make_job()
    hold = "SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE"

    with other_session() as first, first.transaction():
        first.rows(hold, {"id": busy.id})
        second = Rival(lambda database: database.rows(hold, {"id": busy.id}))
        wait_until_blocked()

        assert ids(take()) == {str(free.id)}
        assert not second.is_done
    second.result()
