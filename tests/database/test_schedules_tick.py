"""The tick against a real database: slots, rivals, downtime, clock changes, bad schedules."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from django.db import OperationalError
from rest_framework import serializers

from jobs import enqueue, events, lifecycle, registry, schedules
from jobs.claim import Lane, claim
from jobs.complete import complete
from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from jobs.ids import new_uuid
from jobs.models import Job, Schedule, Worker
from jobs.outcomes import Run, decide_lost, decide_raise, decide_return, decide_timed_out
from jobs.schedules import ticking
from jobs.states import Status
from tests.factories import ago
from tests.rivals import other_session

pytestmark = pytest.mark.django_db

NOON = datetime(2031, 3, 3, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def make_schedule(**columns: Any) -> Schedule:
    """Each minute from NOON on, unless told otherwise."""
    given = {
        "name": str(new_uuid()),
        "type": "test",
        "recur_interval": "every_1_minute",
        "interval_seconds": 60,
        "anchor_at": NOON,
        "next_slot": NOON,
        "allow_overlap": True,
    }
    return Schedule.objects.create(**given | columns)


def make_worker(**columns: Any) -> Worker:
    given = {"id": new_uuid(), "name": "w", "host": "h", "pid": 1, "concurrency": 1}
    return Worker.objects.create(**given | columns)


def tick(now: datetime) -> list[schedules.Fired]:
    return schedules.tick(DjangoDatabase(), now=now)


def slots_of(schedule: Schedule) -> list[datetime]:
    found = Job.objects.filter(schedule=schedule).order_by("schedule_slot")
    return [slot for slot in found.values_list("schedule_slot", flat=True) if slot is not None]


def end_all(status: Status = Status.COMPLETED) -> None:
    now = NOON
    Job.objects.filter(status__in=["pending", "processing"]).update(
        status=status, completed_at=now, failed_at=now, cancelled_at=now
    )


@pytest.fixture
def told() -> Iterator[list[events.Event]]:
    heard: list[events.Event] = []
    stop = events.on("schedule.*", heard.append)
    yield heard
    stop()


class EvenPayload(serializers.Serializer[Any]):
    n = serializers.IntegerField()

    def validate_n(self, value: int) -> int:
        if value % 2:
            raise serializers.ValidationError("must be even")
        return value


@pytest.fixture
def handled() -> Iterator[None]:
    @registry.handler("even", payload=EvenPayload)
    def even(payload: Any) -> None: ...

    @registry.handler("plain")
    def plain(payload: Any) -> None: ...

    yield
    registry.remove("even")
    registry.remove("plain")


# Slots


def test_a_due_slot_becomes_a_job_that_is_due_at_its_nominal_time() -> None:
    schedule = make_schedule(
        type="report",
        queue="mail",
        payload={"n": 2},
        metadata={"who": "night"},
        priority=1,
        max_attempts=7,
        on_parent_failure="run",
    )
    (fired,) = tick(NOON + SECOND)
    job = Job.objects.get()
    assert fired == schedules.Fired(
        id=str(job.id), type="report", queue="mail", schedule_id=str(schedule.id), slot=NOON
    )
    assert (job.type, job.queue, job.payload, job.metadata) == (
        "report",
        "mail",
        {"n": 2},
        {"who": "night"},
    )
    assert (job.priority, job.max_attempts, job.on_parent_failure) == (1, 7, "run")
    assert job.schedule_slot == job.scheduled_at == job.due_at == NOON
    schedule.refresh_from_db()
    assert schedule.last_slot == NOON
    assert schedule.next_slot == NOON + MINUTE
    assert schedule.last_job_id == job.id
    assert schedule.missed_count == 0


def test_nothing_happens_before_the_slot_and_nothing_twice() -> None:
    make_schedule()
    assert tick(NOON - SECOND) == []
    assert len(tick(NOON)) == 1
    assert tick(NOON + SECOND) == []


def test_without_a_moment_the_database_clock_decides() -> None:
    past = make_schedule(anchor_at=datetime(2026, 1, 1, tzinfo=UTC))
    Schedule.objects.filter(id=past.id).update(next_slot=datetime(2026, 1, 1, tzinfo=UTC))
    make_schedule(next_slot=datetime(2199, 1, 1, tzinfo=UTC))
    (fired,) = schedules.tick(DjangoDatabase())
    assert fired.schedule_id == str(past.id)
    assert fired.slot is not None
    assert fired.slot.second == 0


def test_nominal_times_stay_on_the_grid_however_late_the_tick() -> None:
    schedule = make_schedule()
    for late in (0, 0.4, 1.2, 2.9, 4.8, 0.1):
        slot = schedule.next_slot
        assert slot is not None
        tick(slot + timedelta(seconds=late))
        schedule.refresh_from_db()
    assert slots_of(schedule) == [NOON + n * MINUTE for n in range(6)]


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("every_1_minute", timedelta(minutes=1)),
        ("every_5_minutes", timedelta(minutes=5)),
        ("every_1_hour", timedelta(hours=1)),
    ],
)
@pytest.mark.usefixtures("handled")
def test_the_three_named_intervals_fire_at_their_rate(name: str, length: timedelta) -> None:
    schedule = schedules.create("named", "plain", recur_interval=name, anchor_at=NOON)
    for n in range(4):
        tick(NOON + n * length - SECOND)
        tick(NOON + n * length + SECOND)
        end_all()
    assert slots_of(schedule) == [NOON + n * length for n in range(4)]


def test_a_slot_whose_job_was_deleted_does_not_fire_again() -> None:
    schedule = make_schedule()
    tick(NOON)
    Job.objects.all().delete()
    assert tick(NOON + SECOND) == []
    tick(NOON + MINUTE)
    assert slots_of(schedule) == [NOON + MINUTE]


def test_a_slot_that_has_its_job_is_passed_over_when_the_schedule_is_set_back() -> None:
    schedule = make_schedule()
    tick(NOON)
    Schedule.objects.update(next_slot=NOON)
    assert tick(NOON + SECOND) == []
    schedule.refresh_from_db()
    assert schedule.next_slot == NOON + MINUTE
    assert schedule.last_job_id == Job.objects.get().id


def test_a_disabled_schedule_makes_no_job() -> None:
    schedule = make_schedule()
    schedules.disable(schedule)
    assert tick(NOON + 5 * MINUTE) == []


def test_many_schedules_are_served_in_one_tick_and_not_more_than_asked() -> None:
    for _ in range(230):
        make_schedule()
    assert len(schedules.tick(DjangoDatabase(), now=NOON, limit=205)) == 205
    assert len(tick(NOON)) == 25


def test_a_type_unknown_here_is_fired_all_the_same() -> None:
    schedule = make_schedule(type="only.known.elsewhere")
    tick(NOON)
    assert slots_of(schedule) == [NOON]


@pytest.mark.django_db(transaction=True)
def test_an_idle_worker_is_woken_through_its_own_connection() -> None:
    worker = make_worker(waiting=True)
    listener = DirectDatabase(direct_conninfo())
    ticker = DirectDatabase(direct_conninfo())
    try:
        listener.connection.execute(f"LISTEN coppice_{worker.id.hex}".encode())
        make_schedule()
        assert len(schedules.tick(ticker, now=NOON)) == 1
        assert len(list(listener.connection.notifies(timeout=60, stop_after=1))) == 1
    finally:
        listener.close()
        ticker.close()


# Missed slots


@pytest.mark.parametrize(
    ("misfire", "minutes"), [("once", [10]), ("skip", []), ("each", list(range(11)))]
)
def test_after_downtime_the_misfire_policy_decides(
    misfire: str, minutes: list[int], told: list[events.Event]
) -> None:
    schedule = make_schedule(misfire=misfire)
    tick(NOON + 10 * MINUTE + 30 * SECOND)
    assert slots_of(schedule) == [NOON + n * MINUTE for n in minutes]
    schedule.refresh_from_db()
    assert schedule.missed_count == 11 - len(minutes)
    assert schedule.next_slot == NOON + 11 * MINUTE


@pytest.mark.django_db(transaction=True)
def test_missed_slots_are_told(told: list[events.Event]) -> None:
    schedule = make_schedule()
    tick(NOON + 10 * MINUTE)
    (event,) = told
    assert event.name == "schedule.missed"
    assert event.facts["schedule_id"] == str(schedule.id)
    assert (event.facts["late"], event.facts["overlapped"]) == (10, 0)


def test_years_of_downtime_cost_one_catch_up_and_little_time() -> None:
    cron = {"interval_seconds": None, "recur_interval": "", "cron": "* * * * *"}
    schedule = make_schedule(**cron, time_zone="Europe/Berlin")
    tick(NOON + timedelta(days=1_000, seconds=30))
    assert slots_of(schedule) == [NOON + timedelta(days=1_000)]
    schedule.refresh_from_db()
    assert schedule.missed_count == 1_000 * 24 * 60


# Overlap


@pytest.mark.parametrize("trait", ["pending", "processing"])
def test_a_slot_is_dropped_while_the_last_slots_job_is_live(trait: str) -> None:
    schedule = make_schedule(allow_overlap=False)
    tick(NOON)
    worker = {"worker_id": schedule.id} if trait == "processing" else {}
    Job.objects.update(status=trait, **worker)
    assert tick(NOON + MINUTE) == []
    schedule.refresh_from_db()
    assert (schedule.missed_count, schedule.next_slot) == (1, NOON + 2 * MINUTE)
    end_all()
    assert len(tick(NOON + 2 * MINUTE)) == 1
    assert slots_of(schedule) == [NOON, NOON + 2 * MINUTE]


def test_a_job_between_two_attempts_is_live() -> None:
    schedule = make_schedule(allow_overlap=False)
    tick(NOON)
    later = NOON + timedelta(hours=1)
    Job.objects.update(attempt_count=1, next_retry_at=later, due_at=later)
    tick(NOON + MINUTE)
    assert slots_of(schedule) == [NOON]


def test_each_without_overlap_runs_the_slots_one_after_the_other() -> None:
    schedule = make_schedule(misfire="each", allow_overlap=False)
    other = make_schedule(next_slot=NOON + 3 * MINUTE)
    now = NOON + 3 * MINUTE + 30 * SECOND
    for n in range(4):
        tick(now)
        assert tick(now) == []
        assert slots_of(schedule) == [NOON + m * MINUTE for m in range(n + 1)]
        end_all()
    schedule.refresh_from_db()
    assert schedule.missed_count == 0
    assert len(slots_of(other)) == 1


def test_an_extra_run_takes_no_slot_and_no_slot_waits_for_it() -> None:
    schedule = make_schedule(allow_overlap=False)
    extra = schedules.run_now(schedule, by="anna")
    assert extra.schedule_slot is None
    assert extra.due_at is not None
    assert extra.logs.get().message == f"{schedule.name} run now by anna"
    schedules.run_now(schedule)
    tick(NOON)
    assert slots_of(schedule) == [NOON]
    assert Job.objects.filter(schedule=schedule).count() == 3


# Whatever becomes of a job, the series goes on


def ends_in_the_dead_letter_queue(job: Any) -> Any:
    return decide_raise(job, ValueError("bad"), Run(wait=0, run=1), None)


def times_out(job: Any) -> Any:
    return decide_timed_out(job, 1, Run(wait=0, run=1), None)


def kills_its_worker(job: Any) -> Any:
    return decide_lost(job, "the worker died")


def succeeds(job: Any) -> Any:
    return decide_return(job, None, Run(wait=0, run=1), registry.get("plain"))


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ends_in_the_dead_letter_queue, Status.FAILED),
        (times_out, Status.FAILED),
        (kills_its_worker, Status.FAILED),
        (succeeds, Status.COMPLETED),
    ],
)
@pytest.mark.usefixtures("handled")
def test_the_series_goes_on_whatever_an_attempt_comes_to(end: Any, status: Status) -> None:
    start = ago(seconds=30)
    first = enqueue("plain", recur_interval="every_1_minute", scheduled_at=start, max_attempts=1)
    worker = make_worker()
    (claimed,) = claim(
        DjangoDatabase(),
        worker_id=str(worker.id),
        lanes=[Lane("default", "plain", 2)],
        limit=1,
        aging_minutes=10,
        aging_step=0.5,
    )
    complete(DjangoDatabase(), worker_id=str(worker.id), endings=[end(claimed)])
    assert Job.objects.get(id=first.id).status == status
    slot = start + MINUTE
    (fired,) = tick(slot)
    assert fired.slot == slot


@pytest.mark.usefixtures("handled")
def test_the_series_goes_on_when_one_job_is_cancelled_and_ends_when_the_schedule_is() -> None:
    first = enqueue("plain", recur_interval="every_1_minute")
    lifecycle.cancel(first.id)
    (fired,) = tick(first.scheduled_at + MINUTE)
    lifecycle.cancel(fired.id)
    assert len(tick(first.scheduled_at + 2 * MINUTE)) == 1
    schedules.delete(str(Schedule.objects.get().id))
    assert tick(first.scheduled_at + 3 * MINUTE) == []
    assert Job.objects.count() == 3


# Clock changes, with real zones


def fire_through(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    """Tick at each slot from start to end; the slots that got a job."""
    Schedule.objects.filter(id=schedule.id).update(next_slot=start)
    while True:
        schedule.refresh_from_db()
        assert schedule.next_slot is not None
        if schedule.next_slot >= end:
            return slots_of(schedule)
        tick(schedule.next_slot + SECOND)


def local_day(year: int, month: int, day: int, zone: str) -> tuple[datetime, datetime]:
    midnight = datetime(year, month, day, tzinfo=ZoneInfo(zone))
    return midnight.astimezone(UTC), (midnight + timedelta(days=1)).astimezone(UTC)


def cron_schedule(cron: str, zone: str) -> Schedule:
    return make_schedule(interval_seconds=None, recur_interval="", cron=cron, time_zone=zone)


@pytest.mark.parametrize(
    ("zone", "date", "hours"),
    [
        ("Europe/Berlin", (2031, 10, 26), 25),
        ("America/New_York", (2031, 11, 2), 25),
        ("Europe/Berlin", (2031, 3, 30), 23),
    ],
)
def test_an_hourly_cron_fires_once_per_real_hour(
    zone: str, date: tuple[int, int, int], hours: int
) -> None:
    slots = fire_through(cron_schedule("0 * * * *", zone), *local_day(*date, zone))
    assert len(slots) == len(set(slots)) == hours


@pytest.mark.parametrize(
    ("cron", "date", "utc"),
    [
        ("30 2 * * *", (2031, 10, 26), "00:30"),  # occurs twice: the first time
        ("30 2 * * *", (2031, 3, 30), "01:00"),  # does not exist: right after the gap
        ("0 12 * * *", (2031, 3, 30), "10:00"),
    ],
)
def test_a_daily_cron_fires_once_on_the_day_of_a_clock_change(
    cron: str, date: tuple[int, int, int], utc: str
) -> None:
    zone = "Europe/Berlin"
    slots = fire_through(cron_schedule(cron, zone), *local_day(*date, zone))
    assert [f"{slot:%H:%M}" for slot in slots] == [utc]


@pytest.mark.django_db(transaction=True)
def test_the_time_zone_of_the_session_changes_nothing() -> None:
    schedule = make_schedule(next_slot=datetime(2031, 10, 26, 0, 30, tzinfo=UTC))
    database = DirectDatabase(direct_conninfo(), session=("SET TIME ZONE 'Europe/Berlin'",))
    try:
        schedules.tick(database, now=datetime(2031, 10, 26, 1, 30, tzinfo=UTC))
    finally:
        database.close()
    schedule.refresh_from_db()
    assert slots_of(schedule) == [datetime(2031, 10, 26, 1, 30, tzinfo=UTC)]
    assert schedule.next_slot == datetime(2031, 10, 26, 1, 31, tzinfo=UTC)
    assert schedule.missed_count == 60


# Bad schedules


@pytest.mark.usefixtures("handled")
def test_a_payload_that_its_handler_no_longer_takes_is_told_and_hurts_no_other() -> None:
    bad = make_schedule(type="even", payload={"n": 3})
    good = make_schedule(type="even", payload={"n": 4})
    tick(NOON)
    assert slots_of(good) == [NOON]
    assert slots_of(bad) == []
    bad.refresh_from_db()
    assert bad.last_error == "InvalidInput: payload.n: must be even"
    assert (bad.next_slot, bad.missed_count) == (NOON + MINUTE, 1)
    schedules.change(bad, payload={"n": 6})
    tick(NOON + MINUTE)
    bad.refresh_from_db()
    assert bad.last_error == ""
    assert slots_of(bad) == [NOON + MINUTE]


def test_a_check_that_cannot_be_made_now_costs_no_slot_and_hurts_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its serializer asks through a pooler that is down, say."""

    def ask(_self: object, value: int) -> int:
        try:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        except psycopg.OperationalError as error:
            raise OperationalError(str(error)) from error

    asking = make_schedule(type="even", payload={"n": 4})
    good = make_schedule()
    registry.handler("even", payload=EvenPayload)(lambda payload: None)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(EvenPayload, "validate_n", ask)
            tick(NOON)
        tick(NOON)  # not asked again at once
        asking.refresh_from_db()
        assert (slots_of(asking), slots_of(good)) == ([], [NOON])
        assert "server closed the connection" in asking.last_error
        assert (asking.next_slot, asking.missed_count) == (NOON, 0)
        ticking._pause.until = 0.0
        tick(NOON + SECOND)
    finally:
        registry.remove("even")
    asking.refresh_from_db()
    assert (slots_of(asking), asking.last_error) == ([NOON], "")


def test_a_rule_gone_bad_is_told_and_tried_again_later() -> None:
    bad = make_schedule(interval_seconds=None, recur_interval="", cron="* * * * *")
    good = make_schedule()
    Schedule.objects.filter(id=bad.id).update(time_zone="Mars/Olympus")
    tick(NOON)
    assert slots_of(good) == [NOON]
    bad.refresh_from_db()
    assert "time_zone" in bad.last_error
    assert bad.next_slot == NOON + 5 * MINUTE
    Schedule.objects.filter(id=bad.id).update(time_zone="UTC")
    tick(NOON + 5 * MINUTE)
    assert slots_of(bad) == [NOON + 5 * MINUTE]


def test_a_schedule_that_the_database_refuses_is_found_and_hurts_no_other() -> None:
    bad = make_schedule(priority=9)
    good = [make_schedule() for _ in range(3)]
    assert len(tick(NOON)) == 3
    assert [slots_of(each) for each in good] == [[NOON]] * 3
    bad.refresh_from_db()
    assert "job_priority_known" in bad.last_error
    assert "\n" not in bad.last_error
    assert (bad.next_slot, bad.missed_count) == (NOON + MINUTE, 1)
    Schedule.objects.filter(id=bad.id).update(priority=1)
    tick(NOON + MINUTE)
    bad.refresh_from_db()
    assert (slots_of(bad), bad.last_error) == ([NOON + MINUTE], "")


class ChoicePayload(serializers.Serializer[Any]):
    colour = serializers.ChoiceField(choices=["red"])


def test_no_value_of_a_payload_gets_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry.handler("choosy", payload=ChoicePayload)(lambda payload: None)
    try:
        make_schedule(type="choosy", payload={"colour": "secret-1"})
        make_schedule(priority=9, payload={"colour": "secret-2"})
        with caplog.at_level("INFO"):
            tick(NOON)
    finally:
        registry.remove("choosy")
    assert caplog.text.count("schedule.cannot_fire") >= 2
    assert "secret" not in caplog.text


# Rivals


def run_in_threads(count: int, work: Any) -> None:
    """Run `work(database, barrier)` at the same time, each on a connection of its own."""
    barrier = threading.Barrier(count, timeout=60)
    failures: list[BaseException] = []

    def run() -> None:
        database = DirectDatabase(direct_conninfo())
        try:
            work(database, barrier)
        except BaseException as error:  # noqa: BLE001 - told below, in the test's own thread
            failures.append(error)
            barrier.abort()
        finally:
            database.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.django_db(transaction=True)
def test_three_tickers_an_outage_and_a_slow_tick_make_one_job_per_slot_at_most() -> None:
    eager = [make_schedule() for _ in range(5)]
    calm = [make_schedule(allow_overlap=False) for _ in range(5)]
    # Twelve good minutes, ten minutes of nothing, then a tick that is 4 s late, then good ones.
    moments = [NOON + n * 20 * SECOND for n in range(36)]
    moments += [NOON + 22 * MINUTE + 24 * SECOND, NOON + 23 * MINUTE + 4 * SECOND]
    moments += [NOON + 23 * MINUTE + n * 20 * SECOND for n in range(1, 10)]

    def work(database: DirectDatabase, barrier: threading.Barrier) -> None:
        for moment in moments:
            barrier.wait()
            schedules.tick(database, now=moment)
            if barrier.wait() == 0:
                database.run("UPDATE jobs_job SET status = 'completed', completed_at = now()", {})

    run_in_threads(3, work)
    before = [NOON + n * MINUTE for n in range(12)]
    catch_up = NOON + 22 * MINUTE
    after = [NOON + n * MINUTE for n in range(23, 27)]
    for schedule in eager + calm:
        assert slots_of(schedule) == [*before, catch_up, *after]
        schedule.refresh_from_db()
        assert schedule.missed_count == 10
        assert schedule.next_slot == after[-1] + MINUTE


@pytest.mark.django_db(transaction=True)
def test_rivals_never_let_two_slots_of_one_schedule_overlap() -> None:
    waiting = [make_schedule(misfire="each", allow_overlap=False) for _ in range(20)]

    def work(database: DirectDatabase, barrier: threading.Barrier) -> None:
        barrier.wait()
        for _ in range(10):
            schedules.tick(database, now=NOON + 30 * MINUTE)

    run_in_threads(3, work)
    assert [slots_of(each) for each in waiting] == [[NOON]] * 20


@pytest.mark.django_db(transaction=True)
def test_what_is_no_schedules_fault_costs_none_a_slot() -> None:
    """As when a migration holds the table of the jobs, or somebody cancels a statement."""
    made = [make_schedule(misfire=misfire) for misfire in ("each", "once", "skip")]
    ticker = DirectDatabase(direct_conninfo(), session=("SET lock_timeout = '100ms'",))
    try:
        with other_session() as holder, holder.transaction():
            holder.run("LOCK TABLE jobs_job IN SHARE MODE", {})
            with pytest.raises(psycopg.errors.LockNotAvailable):
                schedules.tick(ticker, now=NOON)
        schedules.tick(ticker, now=NOON + SECOND)
    finally:
        ticker.close()
    for schedule in made:
        schedule.refresh_from_db()
        assert slots_of(schedule) == [NOON]
        assert (schedule.last_error, schedule.missed_count) == ("", 0)


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_somebody_holds_is_passed_over_not_waited_for() -> None:
    held, free = make_schedule(), make_schedule()
    holder = DirectDatabase(direct_conninfo())
    ticker = DirectDatabase(direct_conninfo())
    try:
        with holder.transaction():
            holder.rows(
                "SELECT 1 FROM jobs_schedule WHERE id = %(id)s FOR NO KEY UPDATE", {"id": held.id}
            )
            ticker.connection.execute("SET statement_timeout = '10s'")
            schedules.tick(ticker, now=NOON)
            assert slots_of(held) == []
            assert slots_of(free) == [NOON]
        schedules.tick(ticker, now=NOON)
        assert slots_of(held) == [NOON]
    finally:
        holder.close()
        ticker.close()
