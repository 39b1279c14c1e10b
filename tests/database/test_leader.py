"""Who leads, and what the leader does and says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from jobs import conf, events
from jobs.conf import Settings
from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from jobs.events import Event
from jobs.ids import new_uuid
from jobs.models import Attempt, Job, JobLog, Leader, Worker
from jobs.states import Status
from tests.factories import ScheduleFactory, make_edge, make_job
from worker import alerts
from worker.alerts import DeadLetters, OverdueSchedules, UnknownTypes, dead_letter_unknown
from worker.leader import Duty
from worker.leader import Leader as Duties
from worker.leadership import Leadership
from worker.outage import Outages

DATABASE = DjangoDatabase("default")


@pytest.fixture
def told() -> Iterator[list[Event]]:
    heard: list[Event] = []
    stop = events.on("*", heard.append)
    yield heard
    stop()


@pytest.fixture
def connect() -> Iterator[Callable[[], DirectDatabase]]:
    made: list[DirectDatabase] = []

    def new() -> DirectDatabase:
        made.append(DirectDatabase(direct_conninfo()))
        return made[-1]

    yield new
    for database in made:
        database.close()


def known_to_a_worker(*types: str, state: str = "running") -> Worker:
    return Worker.objects.create(
        id=new_uuid(), name="h:1", host="h", pid=1, concurrency=4, types=list(types), state=state
    )


def eventually(fact: Callable[[], bool], seconds: float = 90.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.02)


# Who leads


@pytest.mark.django_db(transaction=True)
def test_of_two_supervisors_one_leads(connect: Callable[[], DirectDatabase]) -> None:
    first, second = Leadership(connect()), Leadership(connect())

    assert [first.seek(), second.seek()] == [True, False]
    assert [first.seek(), second.seek()] == [True, False]


@pytest.mark.django_db(transaction=True)
def test_the_lead_passes_on_when_the_leaders_session_ends(
    connect: Callable[[], DirectDatabase],
) -> None:
    database = connect()
    first, second = Leadership(database), Leadership(connect())
    first.seek()
    database.close()

    def is_taken_over() -> bool:
        second.lose()  # so that it asks at once
        return second.seek()

    eventually(is_taken_over)


@pytest.mark.django_db(transaction=True)
def test_a_leader_whose_session_was_ended_by_the_server_knows_it(
    connect: Callable[[], DirectDatabase],
) -> None:
    database = connect()
    leadership = Leadership(database)
    leadership.seek()
    pid = database.connection.info.backend_pid
    connect().rows("SELECT pg_terminate_backend(%(pid)s)", {"pid": pid})

    with pytest.raises(psycopg.OperationalError):
        database.rows("SELECT 1", {})
    leadership.lose()

    assert not leadership.leads


@pytest.mark.django_db(transaction=True)
def test_through_a_pooler_a_row_with_a_term_says_who_leads(
    connect: Callable[[], DirectDatabase],
) -> None:
    first, second = Leadership(pooled(connect())), Leadership(pooled(connect()))

    assert [first.seek(), second.seek()] == [True, False]
    assert Leader.objects.get().term == 1


@pytest.mark.django_db(transaction=True)
def test_an_expired_term_is_taken_and_a_term_given_up_at_once(
    connect: Callable[[], DirectDatabase],
) -> None:
    first, second, third = (Leadership(pooled(connect())) for _ in range(3))
    first.seek()
    Leader.objects.update(until=timezone.now() - timedelta(seconds=1))

    assert second.seek()
    assert Leader.objects.get().term == 2
    second.give_up()
    assert third.seek()
    assert str(Leader.objects.get().holder) == third.holder


def pooled(database: DirectDatabase) -> DirectDatabase:
    """As if a pooler were found in between."""
    assert database.connection
    database.pooled = True
    return database


# Types that nobody knows


@pytest.mark.django_db
def test_due_jobs_of_a_type_that_no_live_worker_knows_raise_one_alert(told: list[Event]) -> None:
    known_to_a_worker("mail")
    known_to_a_worker("ghost", state="dead")
    for type in ("mail", "ghost"):
        for priority in (1, 2, 3):
            make_job(type=type, priority=priority, due_at=long_ago())
    watch = UnknownTypes(DATABASE, Settings(unknown_type_alert_seconds=0.0))

    for _ in range(3):
        watch.step()

    assert [(event.name, event.type) for event in told] == [("type.unknown", "ghost")]


@pytest.mark.django_db
def test_an_unknown_type_is_no_alarm_before_it_was_watched_long_enough(
    told: list[Event],
) -> None:
    make_job(type="ghost", due_at=long_ago())
    watch = UnknownTypes(DATABASE, Settings(unknown_type_alert_seconds=60.0))

    watch.step()
    watch.step()

    assert told == []


@pytest.mark.django_db
def test_jobs_that_are_not_due_are_no_alarm(told: list[Event]) -> None:
    make_job("scheduled", type="ghost")
    make_job("held", type="ghost")
    watch = UnknownTypes(DATABASE, Settings(unknown_type_alert_seconds=0.0))

    watch.step()

    assert told == []


@pytest.mark.django_db
def test_jobs_of_an_unknown_type_stay_pending_by_default() -> None:
    job = make_job(type="ghost", due_at=long_ago())
    watch = UnknownTypes(DATABASE, Settings(unknown_type_alert_seconds=0.0))

    watch.step()

    job.refresh_from_db()
    assert job.status == Status.PENDING


@pytest.mark.django_db
def test_jobs_of_an_unknown_type_are_dead_lettered_unspent_where_a_setting_says_so(
    told: list[Event],
) -> None:
    job = make_job(type="ghost", due_at=long_ago())
    young = make_job(type="ghost")
    watch = UnknownTypes(
        DATABASE, Settings(unknown_type_alert_seconds=0.0, unknown_type_after=60.0)
    )

    watch.step()

    job.refresh_from_db()
    young.refresh_from_db()
    assert (job.status, job.attempt_count) == (Status.FAILED, 0)
    assert job.last_error == "no worker knows the type 'ghost'"
    assert young.status == Status.PENDING
    log = JobLog.objects.get(job=job)
    assert (log.event, log.from_status, log.to_status) == ("dead_lettered", "pending", "failed")
    assert not Attempt.objects.exists()
    assert "job.dlq_entry" in {event.name for event in told}


@pytest.mark.django_db
def test_a_type_that_a_worker_has_just_learnt_is_not_dead_lettered() -> None:
    make_job(type="ghost", due_at=long_ago())
    known_to_a_worker("ghost")

    assert dead_letter_unknown(DATABASE, "default", "ghost", 60.0) == 0


@pytest.mark.django_db
def test_dependents_learn_that_their_parent_was_dead_lettered() -> None:
    parent = make_job(type="ghost", due_at=long_ago())
    child = make_job(on_parent_failure="cancel")
    make_edge(child, parent)

    dead_letter_unknown(DATABASE, "default", "ghost", 60.0)

    child.refresh_from_db()
    assert child.status == Status.CANCELLED


@pytest.mark.django_db
def test_looking_for_unknown_types_reads_few_rows_however_many_jobs_wait() -> None:
    from tests.plans import explain, rows_read

    known_to_a_worker("known")
    Job.objects.bulk_create(
        Job(type=type, due_at=long_ago()) for type in ("known", "ghost") for _ in range(10_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")

    assert rows_read(explain(alerts.UNKNOWN)) < 50


# Other alerts


@pytest.mark.django_db
def test_dead_letters_alert_once_per_crossing(told: list[Event]) -> None:
    watch = DeadLetters(DATABASE, Settings(dead_letter_alert=2))
    jobs = [make_job("dead")]
    watch.step()
    assert told == []

    jobs.append(make_job("dead"))
    watch.step()
    watch.step()
    assert [event.name for event in told] == ["alert.dead_letters"]

    jobs.pop().delete()
    watch.step()
    make_job("dead")
    watch.step()
    assert len(told) == 2


@pytest.mark.django_db
def test_an_overdue_schedule_raises_one_alert(told: list[Event]) -> None:
    ScheduleFactory(name="late", next_slot=long_ago())  # type: ignore[no-untyped-call]
    ScheduleFactory(name="off", next_slot=long_ago(), enabled=False)  # type: ignore[no-untyped-call]
    ScheduleFactory(name="fine", next_slot=timezone.now())  # type: ignore[no-untyped-call]
    watch = OverdueSchedules(DATABASE)

    watch.step()
    watch.step()

    assert [(event.name, event.facts["schedule"]) for event in told] == [
        ("alert.schedule_overdue", "late")
    ]


# The thread


@pytest.mark.django_db(transaction=True)
def test_the_leader_rescues_orphans_after_it_has_seen_them_twice() -> None:
    job = make_job("processing")
    duties = Duties(
        Settings(lock_free_seconds=0.3, beat_seconds=0.1), Outages(), leads=lambda: True
    )
    duties.start()
    try:
        eventually(lambda: Job.objects.get(id=job.id).status == Status.PENDING)
    finally:
        duties.finish(10)

    assert Attempt.objects.get(job=job).outcome == "lost"


@pytest.mark.django_db(transaction=True)
def test_a_duty_that_fails_stops_no_other() -> None:
    done = threading.Event()
    duties = Duties(conf.get(), Outages(), leads=lambda: True)

    def fail() -> bool:
        raise ZeroDivisionError

    def succeed() -> bool:
        done.set()
        return False

    duties.duties = [
        Duty(name="bad", every=0.1, step=fail),
        Duty(name="good", every=0.1, step=succeed),
    ]
    duties.start()
    try:
        assert done.wait(90)
    finally:
        duties.finish(10)


@pytest.mark.django_db(transaction=True)
def test_every_duty_works_on_a_database_without_anything_to_do() -> None:
    duties = Duties(conf.get(), Outages(), leads=lambda: True)
    try:
        for duty in duties.duties:
            assert duty.step() is False, duty.name
    finally:
        duties.database.close()


@pytest.mark.django_db(transaction=True)
def test_who_does_not_lead_does_nothing_and_holds_no_connection() -> None:
    duties = Duties(conf.get(), Outages(), leads=lambda: False)
    duties.start()
    duties.finish(10)

    assert not duties.database.is_open


def long_ago() -> datetime:
    return timezone.now() - timedelta(hours=1)
