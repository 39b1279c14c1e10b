"""What people and programs do to schedules, each in one transaction that holds the row."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack, cast

import structlog
from django.db import IntegrityError, transaction

from jobs import conf, registry
from jobs.database import DjangoDatabase
from jobs.drafts import (
    check_max_attempts,
    check_metadata,
    check_on_parent_failure,
    check_options,
    check_payload,
    check_priority,
    check_queue,
)
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.misfires import Misfire
from jobs.models import Job, JobLog, Schedule
from jobs.moments import parse_moment
from jobs.payloads import check_text
from jobs.schedules.auditing import audit, audit_change, facts
from jobs.schedules.deciding import first_slot
from jobs.schedules.ticking import announce, insert
from jobs.states import OnParentFailure, Status
from jobs.texts import clean
from jobs.timing import Rule, parse_rule, rule_from_columns

type Key = Schedule | uuid.UUID | str
"""A schedule, its id or its name."""

_log = structlog.get_logger("coppice.schedules")


class Changes(TypedDict, total=False):
    """What `change` can change; the meaning is that of `create`."""

    name: str
    type: str
    payload: Any
    recur_interval: str | None
    cron: str | None
    time_zone: str | None
    anchor_at: datetime | str | int
    queue: str
    priority: int
    max_attempts: int
    metadata: Mapping[str, Any]
    misfire: str
    allow_overlap: bool
    on_parent_failure: str


_TIMING = frozenset({"recur_interval", "cron", "time_zone", "anchor_at"})


def create(
    name: str,
    type: str,
    payload: Any = None,
    *,
    recur_interval: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    misfire: str = Misfire.ONCE,
    allow_overlap: bool = False,
    anchor_at: datetime | str | int | None = None,
    enabled: bool = True,
    on_parent_failure: str = OnParentFailure.WAIT,
    by: str = "",
) -> Schedule:
    """Store a schedule under a name of its own.

    An interval counts from `anchor_at`, which is then the first slot; without it from now, and the
    first slot is one interval away. With cron no slot lies before `anchor_at`. Raises InvalidInput
    naming the field, UnknownType for the type.
    """
    options = check_options(
        type,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        metadata=metadata,
        on_parent_failure=on_parent_failure,
    )
    now = database_now()
    anchor = now if anchor_at is None else parse_moment(anchor_at, "anchor_at")
    rule = _rule(recur_interval, cron, time_zone, anchor)
    schedule = Schedule(
        name=check_text(name, "name", max_length=200),
        type=type,
        payload=_stored(check_payload(options.handler, {} if payload is None else payload)),
        queue=options.queue,
        priority=options.priority,
        max_attempts=options.max_attempts,
        metadata=_stored(options.metadata),
        on_parent_failure=options.on_parent_failure,
        misfire=_misfire(misfire),
        allow_overlap=_flag(allow_overlap, "allow_overlap"),
        enabled=_flag(enabled, "enabled"),
        created_at=now,
    )
    _set_rule(schedule, rule, recur_interval, anchor, now)
    with transaction.atomic(using=conf.get().database):
        _save(schedule, force_insert=True)
        audit("schedule.create", schedule, by, after=facts(schedule))
    _note(schedule, "schedule created", by)
    return schedule


def get(key: Key) -> Schedule:
    """The stored schedule. Raises NotFound."""
    return _find(key, lock=False)


def change(key: Key, *, by: str = "", **changes: Unpack[Changes]) -> Schedule:
    """Change some fields. A new rule or anchor takes effect with its first slot after now."""
    for field in changes.keys() - Changes.__annotations__.keys():
        raise InvalidInput("cannot be changed", field=field)
    with _locked(key) as schedule:
        before = facts(schedule)
        _set_job_fields(schedule, changes)
        if "name" in changes:
            schedule.name = check_text(changes["name"], "name", max_length=200)
        if "misfire" in changes:
            schedule.misfire = _misfire(changes["misfire"])
        if "allow_overlap" in changes:
            schedule.allow_overlap = _flag(changes["allow_overlap"], "allow_overlap")
        if _TIMING & changes.keys():
            _change_rule(schedule, changes)
        # What was wrong may be mended; the next slot will tell.
        schedule.last_error = ""
        _save(schedule)
        audit_change(schedule, before, changes, by)
    _note(schedule, "schedule changed", by, fields=sorted(changes))
    return schedule


def enable(key: Key, *, by: str = "") -> Schedule:
    """Go on with the first slot after now; those of the time in between are not missed."""
    with _locked(key) as schedule:
        if schedule.enabled and schedule.next_slot is not None:
            return schedule
        schedule.enabled = True
        schedule.last_error = ""
        schedule.next_slot = _first_to_come(schedule, rule_of(schedule), database_now())
        _save(schedule)
        audit("schedule.enable", schedule, by)
    _note(schedule, "schedule enabled", by)
    return schedule


def disable(key: Key, *, by: str = "") -> Schedule:
    """Make no more jobs. Those that exist stay as they are."""
    with _locked(key) as schedule:
        if not schedule.enabled:
            return schedule
        schedule.enabled = False
        schedule.next_slot = None
        _save(schedule)
        audit("schedule.disable", schedule, by)
    _note(schedule, "schedule disabled", by)
    return schedule


def skip_next(key: Key, *, slot: datetime | str | int | None = None, by: str = "") -> Schedule:
    """Pass over the next slot: no job is made for it, and it does not count as missed.

    `slot` is the one that is meant: Conflict if another one is the next by now, or there is none.
    """
    asked = None if slot is None else parse_moment(slot, "slot")
    with _locked(key) as schedule:
        skipped = schedule.next_slot
        if skipped is None:
            raise Conflict(f"schedule {schedule.name} has no next run: it is disabled")
        if asked is not None and asked != skipped:
            raise Conflict(f"another run of schedule {schedule.name} is the next by now")
        schedule.next_slot = rule_of(schedule).next_after(skipped.astimezone(UTC))
        _save(schedule)
        audit("schedule.skip_next", schedule, by, slot=skipped, next_slot=schedule.next_slot)
    _note(schedule, "schedule slot skipped", by, slot=skipped.isoformat())
    return schedule


def delete(key: Key, *, by: str = "") -> None:
    """Delete the schedule. Its jobs stay as they are."""
    with _locked(key) as schedule:
        Schedule.objects.using(conf.get().database).filter(id=schedule.id).delete()
        audit("schedule.delete", schedule, by, before=facts(schedule))
    _note(schedule, "schedule deleted", by)


def run_now(key: Key, *, by: str = "") -> Job:
    """An extra job at once, outside the grid: it takes no slot, and no slot waits for it.

    Works for a disabled schedule too. Raises InvalidInput when the handler refuses the payload.
    """
    database = DjangoDatabase()
    with _locked(key) as schedule:
        handler = registry.find(schedule.type)
        if handler is not None:
            check_payload(handler, schedule.payload)
        fired = insert(database, [(str(schedule.id), None)])
        made = Job.objects.using(database.alias).get(id=fired[0].id)
        JobLog.objects.using(database.alias).create(
            job_id=made.id,
            event="created",
            to_status=Status.PENDING,
            message=f"{schedule.name} run now" + (f" by {clean(by, 150)}" if by else ""),
            data={"by": clean(by, 150)} if by else None,
        )
        announce(database, fired)
        audit("schedule.run_now", schedule, by, job_id=str(made.id))
    _note(schedule, "schedule run now", by, job_id=str(made.id))
    return made


def next_runs(schedule: Schedule, count: int = 5) -> list[datetime]:
    """The slots to come, in UTC; of a disabled schedule those it would have if enabled now."""
    if not 1 <= count <= 1_000:
        raise InvalidInput("must be from 1 to 1,000", field="count")
    rule = rule_of(schedule)
    first = _first_to_come(schedule, rule, database_now())
    if schedule.next_slot is not None:
        first = max(first, schedule.next_slot.astimezone(UTC))  # some may have been skipped
    return [first, *rule.upcoming(first, count - 1)]


def unsaved(
    *,
    recur_interval: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    anchor_at: datetime | str | int | None = None,
) -> Schedule:
    """A schedule with this rule that is not stored, to describe it and look at its next runs."""
    now = database_now()
    anchor = now if anchor_at is None else parse_moment(anchor_at, "anchor_at")
    schedule = Schedule(name="")
    _set_rule(schedule, _rule(recur_interval, cron, time_zone, anchor), recur_interval, anchor, now)
    return schedule


def rule_of(schedule: Schedule) -> Rule:
    """The rule that the columns make. Raises InvalidInput when they no longer do."""
    return rule_from_columns(
        interval_seconds=schedule.interval_seconds,
        anchor_at=schedule.anchor_at,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
    )


def describe(schedule: Schedule) -> str:
    """The rule in words."""
    try:
        return rule_of(schedule).describe()
    except InvalidInput as error:
        return f"bad rule: {error}"


def database_now() -> datetime:
    moment: datetime = DjangoDatabase().rows("SELECT statement_timestamp()", {})[0][0]
    return moment.astimezone(UTC)


def _set_job_fields(schedule: Schedule, changes: Changes) -> None:
    if "type" in changes or "payload" in changes:
        handler = registry.get(
            check_text(changes.get("type", schedule.type), "type", max_length=100)
        )
        payload = changes.get("payload", schedule.payload)
        schedule.payload = _stored(check_payload(handler, {} if payload is None else payload))
        schedule.type = handler.type
    if "queue" in changes:
        schedule.queue = check_queue(changes["queue"])
    if "priority" in changes:
        schedule.priority = check_priority(changes["priority"])
    if "max_attempts" in changes:
        schedule.max_attempts = check_max_attempts(changes["max_attempts"])
    if "metadata" in changes:
        schedule.metadata = _stored(check_metadata(changes["metadata"]))
    if "on_parent_failure" in changes:
        schedule.on_parent_failure = check_on_parent_failure(changes["on_parent_failure"])


def _change_rule(schedule: Schedule, changes: Changes) -> None:
    recur_interval, cron = changes.get("recur_interval"), changes.get("cron")
    time_zone = changes.get("time_zone")
    if recur_interval is None and cron is None:
        recur_interval, cron = schedule.recur_interval or None, schedule.cron or None
    if cron is not None and "time_zone" not in changes and schedule.cron:
        time_zone = schedule.time_zone
    anchor = schedule.anchor_at
    if "anchor_at" in changes:
        anchor = parse_moment(changes["anchor_at"], "anchor_at")
    rule = _rule(recur_interval, cron, time_zone, anchor)
    _set_rule(schedule, rule, recur_interval, anchor, database_now())


def _rule(
    recur_interval: str | None, cron: str | None, time_zone: str | None, anchor: datetime
) -> Rule:
    rule = parse_rule(recur_interval, cron, time_zone, anchor=anchor)
    if rule is None:
        raise InvalidInput("give recur_interval or cron", field="recur_interval")
    return rule


def _set_rule(
    schedule: Schedule, rule: Rule, recur_interval: str | None, anchor: datetime, now: datetime
) -> None:
    schedule.anchor_at = anchor
    for column, value in rule.to_columns().items():
        setattr(schedule, column, value)
    schedule.recur_interval = recur_interval or ""
    first = _first_to_come(schedule, rule, now)
    schedule.next_slot = first if schedule.enabled else None


def _first_to_come(schedule: Schedule, rule: Rule, now: datetime) -> datetime:
    after = now if schedule.last_slot is None else max(now, schedule.last_slot)
    return first_slot(rule, anchor=schedule.anchor_at, after=after)


def _misfire(value: Any) -> str:
    try:
        return Misfire(value)
    except ValueError:
        raise InvalidInput("must be skip, once or each", field="misfire") from None


def _flag(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("must be true or false", field=field)
    return value


def _stored(text: str) -> Any:
    """Checked JSON text as the value that the model's field encodes again."""
    return json.loads(text)


@contextmanager
def _locked(key: Key) -> Iterator[Schedule]:
    with transaction.atomic(using=conf.get().database):
        yield _find(key, lock=True)


def _find(key: Key, *, lock: bool) -> Schedule:
    schedules = Schedule.objects.using(conf.get().database)
    if lock:
        # As the tick does it: neither then waits for the other longer than one short transaction.
        schedules = schedules.select_for_update(no_key=True)
    try:
        if isinstance(key, str):
            return _find_by_text(key, schedules)
        return schedules.get(id=key.id if isinstance(key, Schedule) else key)
    except Schedule.DoesNotExist:
        shown = key.name if isinstance(key, Schedule) else clean(str(key), 200)
        raise NotFound("schedule", shown) from None


def _find_by_text(key: str, schedules: Any) -> Schedule:
    """A name comes first; a name that looks like another schedule's id is found by its own id."""
    found = schedules.filter(name=clean(key, 1_000)).first()
    if found is None:
        try:
            found = schedules.get(id=uuid.UUID(key))
        except ValueError:
            raise Schedule.DoesNotExist from None
    return cast("Schedule", found)


def _save(schedule: Schedule, *, force_insert: bool = False) -> None:
    alias = conf.get().database
    schedule.updated_at = database_now()
    try:
        with transaction.atomic(using=alias):
            schedule.save(using=alias, force_insert=force_insert)
    except IntegrityError as error:
        taken = Schedule.objects.using(alias).filter(name=schedule.name).exclude(id=schedule.id)
        if taken.exists():
            raise InvalidInput("is the name of another schedule", field="name") from error
        raise


def _note(schedule: Schedule, what: str, by: str, **facts: Any) -> None:
    _log.info(what, schedule_id=str(schedule.id), type=schedule.type, by=by, **facts)
