"""What becomes of jobs whose worker is dead, and of those whose worker only looked so."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
import pytest
from django.db import connection

from jobs import conf, events, registry
from jobs.claimed import Claimed
from jobs.complete import complete
from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from jobs.endings import Success
from jobs.events import Event
from jobs.ids import new_uuid
from jobs.models import Attempt, Job, JobLog, Worker
from jobs.rescue import find_orphans, release_child, rescue_orphans, rescue_worker
from jobs.states import Status
from tests.factories import make_edge, make_job
from tests.rivals import Rival, other_session
from worker.notifying import people_told
from worker.observation import Observer
from worker.outage import Outages
from worker.upkeep import Farewell, Upkeep

pytestmark = pytest.mark.django_db

DATABASE = DjangoDatabase("default")
LOCK = "SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE"
LOCK_WORKER = "SELECT FROM jobs_worker WHERE id = %(id)s FOR UPDATE"


@dataclass(frozen=True, kw_only=True)
class Held:
    """An entry of the dead worker's shared memory."""

    job_id: str
    lease_epoch: int = 1
    started: bool = True
    deadline: float = 0.0


@pytest.fixture
def worker() -> Worker:
    return make_worker()


@pytest.fixture
def told() -> Iterator[list[Event]]:
    heard: list[Event] = []
    stop = events.on("*", heard.append)
    yield heard
    stop()


def make_worker(name: str = "host:1") -> Worker:
    return Worker.objects.create(
        id=new_uuid(), name=name, host="host", pid=1, concurrency=4, beats=7
    )


def running(worker: Worker, **columns: object) -> Job:
    return make_job("processing", worker_id=worker.id, **columns)


def rescue(worker: Worker, beats: int = 7) -> int:
    batches = rescue_worker(DATABASE, str(worker.id), "no beat for 15.0 s", beats=beats)
    return sum(len(batch.ended) for batch in batches)


def release(worker: Worker, *held: Held, **facts: object) -> None:
    release_child(DATABASE, str(worker.id), held, reason="killed by SIGKILL", **facts)  # type: ignore[arg-type]


def claimed(job: Job) -> Claimed:
    return Claimed(
        str(job.id), job.type, job.queue, "{}", job.priority, 0.0, job.attempt_count,
        job.max_attempts, job.lease_epoch, job.lost_count, job.wait_count, 0.0,
    )  # fmt: skip


def test_jobs_of_a_worker_declared_dead_are_due_again_with_the_attempt_spent(
    worker: Worker,
) -> None:
    job = running(worker)

    assert rescue(worker) == 1

    job.refresh_from_db()
    worker.refresh_from_db()
    assert (job.status, job.attempt_count, job.worker_id) == (Status.PENDING, 1, None)
    assert job.due_at is not None
    assert job.started_at is not None
    assert job.due_at - job.started_at < timedelta(minutes=1)
    assert job.lost_count == 1
    assert "no beat for 15.0 s" in job.last_error
    assert (worker.state, worker.waiting) == ("dead", False)
    assert worker.stopped_at is not None


def test_the_lost_attempt_is_recorded(worker: Worker) -> None:
    job = running(worker)

    rescue(worker)

    attempt = Attempt.objects.get(job=job)
    assert (attempt.number, attempt.outcome, attempt.worker_id) == (1, "lost", worker.id)
    assert attempt.finished_at >= attempt.started_at
    log = JobLog.objects.get(job=job)
    assert (log.event, log.from_status, log.to_status) == ("lost", "processing", "pending")


def test_a_worker_that_beat_again_is_not_dead_and_keeps_its_jobs(worker: Worker) -> None:
    job = running(worker)

    assert rescue(worker, beats=6) == 0

    job.refresh_from_db()
    worker.refresh_from_db()
    assert (job.status, worker.state) == (Status.PROCESSING, "running")


def test_a_job_out_of_attempts_is_dead_lettered_as_lost(worker: Worker) -> None:
    job = running(worker, attempt_count=3, max_attempts=3)

    rescue(worker)

    job.refresh_from_db()
    assert (job.status, job.failed_at is not None) == (Status.FAILED, True)
    assert Attempt.objects.get(job=job).outcome == "lost"


def test_a_cancelled_job_does_not_come_back_to_life(worker: Worker) -> None:
    job = running(worker, cancel_requested_at=database_now())

    rescue(worker)

    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_only_one_of_two_rescuers_takes_the_jobs(worker: Worker) -> None:
    job = running(worker)

    assert [rescue(worker), rescue(worker)] == [1, 0]

    assert Attempt.objects.filter(job=job).count() == 1


def test_a_job_claimed_again_is_not_touched_by_its_old_workers_completion(
    worker: Worker,
) -> None:
    job = running(worker)
    before = claimed(job)
    rescue(worker)

    written = complete(
        DATABASE, worker_id=str(worker.id), successes=[Success(before, 0.0, 1.0, None)]
    )

    job.refresh_from_db()
    assert written.stale == [before]
    assert job.status == Status.PENDING


def test_a_job_that_ended_before_the_rescue_stays_ended(worker: Worker) -> None:
    job = make_job("completed")
    other = running(worker)

    rescue(worker)

    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.status, other.status) == (Status.COMPLETED, Status.PENDING)


def test_a_worker_with_thousands_of_jobs_is_emptied_in_chunks(worker: Worker) -> None:
    Job.objects.bulk_create(
        Job(
            type="test",
            status=Status.PROCESSING,
            worker_id=worker.id,
            attempt_count=1,
            lease_epoch=1,
            started_at=database_now(),
        )
        for _ in range(1_203)
    )

    batches = rescue_worker(DATABASE, str(worker.id), "gone", beats=7)

    assert [len(batch.ended) for batch in batches] == [500, 500, 203]
    assert not Job.objects.processing().exists()


def test_the_rescue_of_the_last_attempt_frees_those_who_run_after_a_failure(
    worker: Worker,
) -> None:
    parent = running(worker, attempt_count=3, max_attempts=3)
    child = make_job(on_parent_failure="run")
    make_edge(child, parent)

    rescue(worker)

    child.refresh_from_db()
    assert child.unmet_dependencies == 0


def test_losses_are_told(worker: Worker, told: list[Event]) -> None:
    job = running(worker)
    dead = running(worker, attempt_count=3, max_attempts=3)

    rescue(worker)

    names = [(event.name, event.job_id) for event in told]
    assert names[0] == ("worker.lost", None)
    assert set(names[1:]) == {
        ("job.failed", str(job.id)),
        ("job.retry_scheduled", str(job.id)),
        ("job.failed", str(dead.id)),
        ("job.dlq_entry", str(dead.id)),
    }


# A child whose death its supervisor has seen


def test_a_job_that_had_not_started_is_handed_back_unspent(worker: Worker) -> None:
    waiting, unknown = running(worker), running(worker)

    release(worker, Held(job_id=str(waiting.id), started=False))

    for job in (waiting, unknown):
        job.refresh_from_db()
        assert (job.status, job.attempt_count, job.lost_count) == (Status.PENDING, 0, 0)
        assert Attempt.objects.get(job=job).outcome == "handed_back"


def test_a_job_that_had_started_has_spent_its_attempt(worker: Worker) -> None:
    job, bystander = running(worker), running(worker)

    release(worker, Held(job_id=str(job.id)), Held(job_id=str(bystander.id), started=False))

    job.refresh_from_db()
    bystander.refresh_from_db()
    worker.refresh_from_db()
    assert (job.attempt_count, job.lost_count) == (1, 1)
    assert (bystander.attempt_count, bystander.lost_count) == (0, 0)
    assert worker.state == "dead"


def test_an_entry_of_an_older_lease_says_nothing_about_the_new_one(worker: Worker) -> None:
    job = running(worker, lease_epoch=2)

    release(worker, Held(job_id=str(job.id), lease_epoch=1))

    job.refresh_from_db()
    assert job.attempt_count == 0


def test_after_a_forced_stop_started_jobs_are_handed_back_too(worker: Worker) -> None:
    job = running(worker)

    release(worker, Held(job_id=str(job.id)), is_forced=True)

    job.refresh_from_db()
    assert (job.status, job.attempt_count) == (Status.PENDING, 0)


def test_of_a_process_killed_for_hanging_only_the_overdue_job_has_timed_out(
    worker: Worker,
) -> None:
    overdue, other = running(worker), running(worker)

    release(
        worker,
        Held(job_id=str(overdue.id), deadline=90.0),
        Held(job_id=str(other.id), deadline=110.0),
        overdue_at=100.0,
    )

    outcomes = dict(Attempt.objects.values_list("job_id", "outcome"))
    assert outcomes == {overdue.id: "timed_out", other.id: "lost"}
    overdue.refresh_from_db()
    assert overdue.next_retry_at is not None
    assert "deadline" in overdue.last_error


def test_a_handlers_own_rules_hold_for_a_job_killed_at_its_deadline(worker: Worker) -> None:
    registry.handler("test_rescue.slow", timeout=5, max_attempts=1)(_slow)
    try:
        job = running(worker, type="test_rescue.slow", max_attempts=1)
        release(worker, Held(job_id=str(job.id), deadline=90.0), overdue_at=100.0)
    finally:
        registry.remove("test_rescue.slow")

    job.refresh_from_db()
    assert job.status == Status.FAILED


def test_a_child_that_ended_well_is_stopped_and_not_lost(worker: Worker, told: list[Event]) -> None:
    release(worker, ended_well=True)

    worker.refresh_from_db()
    assert worker.state == "stopped"
    assert told == []


def test_a_second_release_changes_nothing(worker: Worker) -> None:
    job = running(worker)
    release(worker, Held(job_id=str(job.id)))
    release(worker, Held(job_id=str(job.id)))

    assert Attempt.objects.filter(job=job).count() == 1


# Jobs without an owner


@pytest.mark.parametrize("state", ["dead", "stopped", None])
def test_jobs_whose_owner_has_no_live_row_are_orphans(worker: Worker, state: str | None) -> None:
    job, kept = running(worker), running(make_worker())
    if state is None:
        worker.delete()
    else:
        Worker.objects.filter(id=worker.id).update(state=state)
    owner = str(job.worker_id)

    assert find_orphans(DATABASE) == [owner]
    rescue_orphans(DATABASE, owner, "gone")

    job.refresh_from_db()
    kept.refresh_from_db()
    assert (job.status, job.attempt_count) == (Status.PENDING, 1)
    assert kept.status == Status.PROCESSING
    assert find_orphans(DATABASE) == []


def test_a_new_worker_of_the_same_name_does_not_hide_orphans(worker: Worker) -> None:
    running(worker)
    name = worker.name
    worker.delete()
    make_worker(name=name)

    assert len(find_orphans(DATABASE)) == 1


def test_a_job_that_kills_its_worker_each_time_ends_in_the_dead_letter_queue() -> None:
    job = make_job(max_attempts=3)
    for attempt in (1, 2, 3):
        worker = make_worker()
        Job.objects.filter(id=job.id).update(
            status=Status.PROCESSING,
            worker_id=worker.id,
            attempt_count=attempt,
            lease_epoch=attempt,
            started_at=database_now(),
        )
        release(worker, Held(job_id=str(job.id), lease_epoch=attempt))
        job.refresh_from_db()

    assert (job.status, job.attempt_count, job.lost_count) == (Status.FAILED, 3, 3)


@pytest.mark.django_db(transaction=True)
def test_of_a_rescue_and_a_late_completion_exactly_one_wins() -> None:
    worker = make_worker()
    jobs = [running(worker) for _ in range(40)]
    successes = [Success(claimed(job), 0.0, 0.1, None) for job in jobs]
    together = threading.Barrier(2)
    written: dict[str, int] = {}

    def finish() -> None:
        database = DirectDatabase(direct_conninfo())
        together.wait()
        count = 0
        for success in successes:
            count += len(complete(database, worker_id=str(worker.id), successes=[success]).ended)
        written["completed"] = count
        database.close()

    def take_back() -> None:
        database = DirectDatabase(direct_conninfo())
        together.wait()
        batches = rescue_worker(database, str(worker.id), "looked dead", beats=7)
        written["rescued"] = sum(len(batch.ended) for batch in batches)
        database.close()

    threads = [threading.Thread(target=finish), threading.Thread(target=take_back)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)

    assert written["completed"] == Job.objects.filter(status=Status.COMPLETED).count()
    assert written["rescued"] == Job.objects.filter(status=Status.PENDING).count()
    assert written["completed"] + written["rescued"] == 40
    assert Attempt.objects.count() == 40


# Rows that somebody keeps locked, as a long transaction does that has cancelled or changed them

QUICK = ("SET lock_timeout = '100ms'",)


@pytest.fixture
def rescuer() -> Iterator[DirectDatabase]:
    database = DirectDatabase(direct_conninfo(), session=QUICK)
    yield database
    database.close()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_keeps_locked_holds_up_the_rescue_of_its_own_job_alone(
    rescuer: DirectDatabase,
) -> None:
    worker = make_worker()
    jobs = [running(worker) for _ in range(5)]
    held, *others = jobs

    with other_session() as holder, holder.transaction():
        holder.rows(LOCK, {"id": held.id})
        with pytest.raises(psycopg.errors.LockNotAvailable):
            rescue_worker(rescuer, str(worker.id), "gone", beats=7)

        assert set(Job.objects.pending()) == set(others)
        assert find_orphans(rescuer) == [str(worker.id)]
    rescue_orphans(rescuer, str(worker.id), "gone")

    assert set(Job.objects.pending()) == set(jobs)
    assert Attempt.objects.count() == len(jobs)


@pytest.mark.django_db(transaction=True)
def test_a_dependent_that_somebody_keeps_locked_holds_up_its_parent_alone(
    rescuer: DirectDatabase,
) -> None:
    worker = make_worker()
    parents = [running(worker, attempt_count=3, max_attempts=3) for _ in range(5)]
    children = [make_job(on_parent_failure="run") for _ in parents]
    for child, parent in zip(children, parents, strict=True):
        make_edge(child, parent)

    with other_session() as holder, holder.transaction():
        holder.rows(LOCK, {"id": children[2].id})
        with pytest.raises(psycopg.errors.LockNotAvailable):
            rescue_worker(rescuer, str(worker.id), "gone", beats=7)

        assert [job.id for job in Job.objects.processing()] == [parents[2].id]
    rescue_orphans(rescuer, str(worker.id), "gone")

    assert not Job.objects.processing().exists()
    assert not Job.objects.filter(unmet_dependencies__gt=0).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["a worker's row", "a job"])
def test_what_somebody_keeps_locked_holds_up_no_other_dead_worker(what: str) -> None:
    workers = [make_worker(f"host:{n}") for n in range(3)]
    jobs = [running(worker) for worker in workers]
    upkeep = Upkeep(conf.get(), Outages(), tell=lambda: None)
    upkeep.database = DirectDatabase(direct_conninfo(), session=QUICK)
    upkeep.observer = AllDead()

    try:
        with other_session() as holder, holder.transaction():
            if what == "a job":
                holder.rows(LOCK, {"id": jobs[0].id})
            else:
                holder.rows(LOCK_WORKER, {"id": workers[0].id})
            pauses = [upkeep._try(upkeep._rescue) for _ in range(2)]

            assert [job.id for job in Job.objects.processing()] == [jobs[0].id]
            assert pauses == [0, 0]  # the next look comes as soon as ever
    finally:
        upkeep.database.close()


@pytest.mark.django_db(transaction=True)
def test_a_child_whose_job_is_locked_holds_up_the_release_of_no_other() -> None:
    workers = [make_worker(f"host:{n}") for n in range(3)]
    jobs = [running(worker) for worker in workers]
    upkeep = Upkeep(conf.get(), Outages(), tell=lambda: None)
    upkeep.database = DirectDatabase(direct_conninfo(), session=QUICK)
    for worker in workers:
        upkeep.release(
            Farewell(
                worker_id=str(worker.id),
                held=(),
                reason="killed",
                ended_well=False,
                is_forced=False,
                overdue_at=None,
            )
        )

    try:
        with other_session() as holder, holder.transaction():
            holder.rows(LOCK, {"id": jobs[0].id})
            pauses = [upkeep._try(upkeep._release) for _ in range(2)]

            assert [job.id for job in Job.objects.processing()] == [jobs[0].id]
            assert upkeep.owes
            assert pauses == [0, 0]
        upkeep._release()
    finally:
        upkeep.database.close()

    assert not upkeep.owes
    # By what its supervisor knew, and not as an orphan: it had not started.
    assert {attempt.outcome for attempt in Attempt.objects.all()} == {"handed_back"}


@pytest.mark.django_db(transaction=True)
def test_a_rescue_does_not_wait_until_people_are_told_of_it() -> None:
    worker = make_worker()
    job = running(worker)

    def rescue_it(database: DirectDatabase) -> None:
        rescue_worker(database, str(worker.id), "gone", beats=7)

    with people_told(), other_session() as holder, holder.transaction():
        holder.run("LOCK TABLE jobs_webhook", {})
        Rival(rescue_it).result()

        job.refresh_from_db()
        assert job.status == Status.PENDING


class AllDead(Observer):
    def __init__(self) -> None:
        super().__init__(dead_after=0, lock_free=0, longest_gap=0)


def test_a_worker_id_that_nobody_knows_is_no_error() -> None:
    assert rescue_worker(DATABASE, str(uuid.uuid4()), "gone", beats=0) == []
    assert rescue_orphans(DATABASE, str(uuid.uuid4()), "gone") == []


def _slow() -> None:
    pass


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        moment = cursor.fetchone()[0]
    assert isinstance(moment, datetime)
    return moment
