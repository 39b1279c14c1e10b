"""Schedules as people and programs make, change and end them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from rest_framework import serializers

from jobs import enqueue, registry, schedules
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, InvalidInput, NotFound, UnknownType
from jobs.models import AuditEntry, Job, Schedule

pytestmark = pytest.mark.django_db

LATER = datetime(2031, 3, 3, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Payload(serializers.Serializer[Any]):
    n = serializers.IntegerField()


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    @registry.handler("plain", queue="slow", priority=3, max_attempts=9)
    def plain(payload: Any) -> None: ...

    @registry.handler("counted", payload=Payload)
    def counted(payload: Any) -> None: ...

    yield
    registry.remove("plain")
    registry.remove("counted")


def now() -> datetime:
    moment: datetime = DjangoDatabase().rows("SELECT statement_timestamp()", {})[0][0]
    return moment


def create(name: str = "nightly", type: str = "plain", **options: Any) -> Schedule:
    if not {"cron", "recur_interval", "time_zone"} & options.keys():
        options["recur_interval"] = "every_1_minute"
    return schedules.create(name, type, **options)


# Create


def test_a_schedule_takes_from_its_handler_what_is_not_said() -> None:
    made = create(payload={"a": [1, "ü"]}, metadata={"who": "ann"})
    stored = Schedule.objects.get()
    assert stored == made
    assert (stored.queue, stored.priority, stored.max_attempts) == ("slow", 3, 9)
    assert (stored.payload, stored.metadata) == ({"a": [1, "ü"]}, {"who": "ann"})
    assert (stored.misfire, stored.allow_overlap, stored.enabled) == ("once", False, True)


def test_an_interval_counts_from_now_or_from_its_anchor() -> None:
    made = create("a")
    assert made.next_slot == made.created_at + MINUTE
    assert create("b", anchor_at=LATER).next_slot == LATER
    moment = now()
    past = create("c", anchor_at=moment - timedelta(seconds=90)).next_slot
    assert past == moment + timedelta(seconds=30)


def test_no_cron_slot_lies_before_the_anchor() -> None:
    made = create(cron="0 9 * * *", time_zone="Asia/Tokyo", anchor_at="2031-03-03T00:00:00Z")
    assert made.next_slot == datetime(2031, 3, 3, tzinfo=UTC)
    assert schedules.describe(made) == "At 09:00 every day, Asia/Tokyo time"


def test_an_interval_is_kept_as_it_was_asked_for() -> None:
    made = create(recur_interval="every_60_minutes")
    assert (made.recur_interval, made.interval_seconds) == ("every_60_minutes", 3_600)


def test_a_disabled_schedule_has_no_next_slot_until_it_is_enabled() -> None:
    assert create(enabled=False, anchor_at=LATER).next_slot is None
    assert schedules.enable("nightly").next_slot == LATER


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "* * * * *", "time_zone": "Mars/Olympus"}, "time_zone"),
        ({"cron": "* * * * *", "recur_interval": "every_1_hour"}, "cron"),
        ({"recur_interval": "every_0_minutes"}, "recur_interval"),
        ({"recur_interval": "hourly"}, "recur_interval"),
        ({"recur_interval": None}, "recur_interval"),
        ({"time_zone": "UTC"}, "time_zone"),
        ({"anchor_at": datetime(2031, 1, 1)}, "anchor_at"),  # noqa: DTZ001
        ({"anchor_at": "2031-01-01T00:00:00"}, "anchor_at"),
        ({"anchor_at": 10**30}, "anchor_at"),
        ({"name": ""}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"payload": {"a": "\x00"}}, "payload.a"),
        ({"payload": {"a": float("nan")}}, "payload.a"),
        ({"type": "counted", "payload": {"n": "x"}}, "payload.n"),
        ({"type": "counted"}, "payload.n"),
        ({"metadata": []}, "metadata"),
        ({"priority": 4}, "priority"),
        ({"priority": True}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"queue": "a b"}, "queue"),
        ({"misfire": "never"}, "misfire"),
        ({"allow_overlap": "yes"}, "allow_overlap"),
        ({"enabled": None}, "enabled"),
        ({"on_parent_failure": "explode"}, "on_parent_failure"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        create(**options)
    assert caught.value.field == field
    assert not Schedule.objects.exists()


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownType):
        create(type="nobody.knows")


def test_a_name_is_used_once_and_the_callers_transaction_survives() -> None:
    create("twice")
    with transaction.atomic():
        with pytest.raises(InvalidInput) as caught:
            create("twice")
        create("other")
    assert caught.value.field == "name"
    assert Schedule.objects.count() == 2


# Find, change, end


def test_a_schedule_is_found_by_name_or_id() -> None:
    made = create()
    for key in (made, made.id, str(made.id), "nightly"):
        assert schedules.get(key) == made
    for unknown in ("none", "\x00", "5e7e4b5a-0000-7000-8000-000000000000"):
        with pytest.raises(NotFound):
            schedules.get(unknown)


def test_what_a_job_gets_can_be_changed_without_touching_the_slots() -> None:
    made = create(anchor_at=LATER)
    schedules.change(
        made,
        name="weekly",
        type="counted",
        payload={"n": 1},
        queue="fast",
        priority=1,
        max_attempts=2,
        metadata={"a": 1},
        misfire="each",
        allow_overlap=True,
        on_parent_failure="run",
    )
    stored = Schedule.objects.get()
    assert (stored.name, stored.type, stored.payload) == ("weekly", "counted", {"n": 1})
    assert (stored.queue, stored.priority, stored.max_attempts) == ("fast", 1, 2)
    assert (stored.metadata, stored.misfire, stored.allow_overlap) == ({"a": 1}, "each", True)
    assert stored.on_parent_failure == "run"
    assert stored.next_slot == LATER


def test_a_new_rule_starts_with_its_first_slot_from_now_on() -> None:
    made = create(cron="0 9 * * *", time_zone="Asia/Tokyo")
    changed = schedules.change(made, cron="30 9 * * *")
    assert changed.time_zone == "Asia/Tokyo"
    assert changed.next_slot is not None
    assert f"{changed.next_slot:%H:%M}" == "00:30"
    changed = schedules.change(made, time_zone="UTC")
    assert (changed.cron, changed.time_zone) == ("30 9 * * *", "UTC")
    changed = schedules.change(made, recur_interval="every_5_minutes", anchor_at=LATER)
    assert (changed.cron, changed.interval_seconds) == ("", 300)
    assert changed.next_slot == LATER
    changed = schedules.change(made, cron="@daily")
    assert (changed.recur_interval, changed.interval_seconds) == ("", None)
    assert changed.time_zone == "UTC"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"time_zone": "Europe/Berlin"}, "time_zone"),
        ({"payload": {"a": "\ud800"}}, "payload.a"),
        ({"type": "counted"}, "payload.n"),
        ({"name": "taken"}, "name"),
        ({"last_slot": None}, "last_slot"),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(changes: Any, field: str) -> None:
    create("taken")
    made = create()
    with pytest.raises(InvalidInput) as caught:
        schedules.change(made, queue="fast", **changes)
    assert caught.value.field == field
    assert Schedule.objects.get(id=made.id).queue == "slow"


def test_a_changed_rule_never_goes_back_behind_the_last_slot() -> None:
    made = create(anchor_at=LATER)
    schedules.tick(DjangoDatabase(), now=LATER)
    changed = schedules.change(made, recur_interval="every_1_second", anchor_at=LATER - MINUTE)
    assert changed.next_slot == LATER + timedelta(seconds=1)


def test_slots_of_the_time_while_disabled_are_not_missed() -> None:
    made = create(anchor_at=now() - timedelta(hours=1))
    schedules.disable(made)
    assert schedules.disable(made).enabled is False
    assert Schedule.objects.get().next_slot is None
    enabled = schedules.enable(made)
    assert enabled.next_slot is not None
    assert enabled.next_slot > now()
    assert enabled.missed_count == 0


def test_deleting_a_schedule_leaves_its_jobs() -> None:
    made = create()
    job = schedules.run_now(made)
    schedules.delete(made)
    assert not Schedule.objects.exists()
    assert Job.objects.get().id == job.id
    with pytest.raises(NotFound):
        schedules.delete("nightly")


def test_an_extra_run_has_the_schedules_payload_and_is_refused_with_it() -> None:
    made = create(type="counted", payload={"n": 5}, enabled=False)
    job = schedules.run_now(made)
    assert (job.type, job.payload, job.schedule_slot) == ("counted", {"n": 5}, None)
    assert job.due_at == job.scheduled_at
    Schedule.objects.update(payload={"n": "x"})
    with pytest.raises(InvalidInput) as caught:
        schedules.run_now(made)
    assert caught.value.field == "payload.n"


def test_a_slot_that_is_skipped_makes_no_job_and_is_not_missed() -> None:
    made = create(anchor_at=LATER)
    skipped = schedules.skip_next(made, slot=LATER, by="anna")
    assert skipped.next_slot == LATER + MINUTE
    assert schedules.next_runs(skipped, 2) == [LATER + MINUTE, LATER + 2 * MINUTE]
    schedules.tick(DjangoDatabase(), now=LATER)
    assert not Job.objects.exists()
    schedules.tick(DjangoDatabase(), now=LATER + MINUTE)
    assert Job.objects.get().schedule_slot == LATER + MINUTE
    assert Schedule.objects.get().missed_count == 0
    entry = AuditEntry.objects.get(action="schedule.skip_next")
    assert (entry.actor, entry.object_id) == ("anna", str(made.id))


def test_only_the_slot_that_was_meant_is_skipped() -> None:
    made = create(anchor_at=LATER)
    schedules.skip_next(made, slot=LATER.isoformat())
    with pytest.raises(Conflict, match="is the next by now"):
        schedules.skip_next(made, slot=LATER.isoformat())
    assert Schedule.objects.get().next_slot == LATER + MINUTE
    schedules.disable(made)
    with pytest.raises(Conflict, match="has no next run"):
        schedules.skip_next(made)


def test_the_slot_behind_a_change_of_the_clock_is_the_next_one() -> None:
    made = create(
        recur_interval=None, cron="30 2 * * *", time_zone="Europe/Berlin",
        anchor_at=datetime(2027, 3, 27, 1, 30, tzinfo=UTC),
    )  # fmt: skip
    assert made.next_slot == datetime(2027, 3, 27, 1, 30, tzinfo=UTC)
    # On the 28th there is no 2:30: it runs when the clock is back on its way, at 3:00 summer time.
    assert schedules.skip_next(made).next_slot == datetime(2027, 3, 28, 1, 0, tzinfo=UTC)


# Next runs


def test_the_next_runs_are_the_slots_that_will_fire() -> None:
    made = create(anchor_at=LATER)
    assert schedules.next_runs(made, 3) == [LATER + n * MINUTE for n in range(3)]
    assert schedules.next_runs(schedules.disable(made), 1) == [LATER]
    with pytest.raises(InvalidInput):
        schedules.next_runs(made, 0)


def test_a_rule_can_be_looked_at_before_a_schedule_is_made() -> None:
    rule = schedules.unsaved(cron="0 0 13 * 5", anchor_at="2031-03-01T00:00:00Z")
    # The 13th, and Fridays: either is enough.
    assert [run.day for run in schedules.next_runs(rule, 5)] == [7, 13, 14, 21, 28]
    assert not Schedule.objects.exists()
    with pytest.raises(InvalidInput):
        schedules.unsaved()


# enqueue(recur_interval=) and enqueue(cron=)


def test_a_recurring_job_is_the_first_slot_of_its_schedule() -> None:
    job = enqueue("plain", {"a": 1}, recur_interval="every_5_minutes", scheduled_at=LATER)
    schedule = Schedule.objects.get()
    stored = Job.objects.get()
    assert (stored.schedule_id, stored.schedule_slot) == (schedule.id, LATER)
    assert stored.scheduled_at == stored.due_at == LATER
    assert (schedule.last_job_id, schedule.last_slot) == (job.id, LATER)
    assert schedule.next_slot == LATER + 5 * MINUTE
    assert (schedule.payload, schedule.queue, schedule.priority) == ({"a": 1}, "slow", 3)
    assert (schedule.recur_interval, schedule.max_attempts) == ("every_5_minutes", 9)


def test_without_a_time_an_interval_starts_now_and_cron_with_its_next_slot() -> None:
    first = enqueue("plain", recur_interval="every_1_hour")
    assert first.scheduled_at == Schedule.objects.get().last_slot
    assert first.scheduled_at <= now()
    second = enqueue("plain", cron="0 9 * * *", time_zone="Asia/Tokyo")
    assert second.scheduled_at > now()
    assert f"{second.scheduled_at:%H:%M:%S}" == "00:00:00"


def test_cron_takes_the_first_slot_that_is_not_before_the_time_asked_for() -> None:
    job = enqueue("plain", cron="0 9 * * *", scheduled_at="2031-03-03T09:00:00+00:00")
    assert job.scheduled_at == datetime(2031, 3, 3, 9, tzinfo=UTC)
    job = enqueue("plain", cron="0 9 * * *", scheduled_at="2031-03-03T09:00:01+00:00")
    assert job.scheduled_at == datetime(2031, 3, 4, 9, tzinfo=UTC)


def test_a_series_that_begins_in_the_past_has_missed_nothing() -> None:
    start = now() - timedelta(days=1, seconds=30)
    enqueue("plain", recur_interval="every_1_minute", scheduled_at=start)
    schedule = Schedule.objects.get()
    assert schedule.next_slot == start + timedelta(days=1, seconds=60)
    assert schedules.tick(DjangoDatabase()) == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"recur_interval": "often"}, "recur_interval"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "@daily", "recur_interval": "every_1_hour"}, "cron"),
        ({"time_zone": "Europe/Berlin"}, "time_zone"),
        ({"cron": "@daily", "scheduled_at": datetime(2031, 1, 1)}, "scheduled_at"),  # noqa: DTZ001
    ],
)
def test_a_bad_recurrence_leaves_neither_job_nor_schedule(
    options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        enqueue("plain", **options)
    assert caught.value.field == field
    assert not Job.objects.exists()
    assert not Schedule.objects.exists()


def test_a_schedule_is_gone_after_the_rollback_of_its_enqueue() -> None:
    with transaction.atomic():
        enqueue("plain", recur_interval="every_1_minute")
        transaction.set_rollback(True)
    assert not Schedule.objects.exists()


def test_the_description_of_a_rule_gone_bad_says_so() -> None:
    broken = Schedule(name="broken", cron="* * * * *", time_zone="Mars/Olympus")
    assert schedules.describe(broken).startswith("bad rule: time_zone")
