"""Create jobs, in the caller's transaction: unseen before its commit, gone after its rollback.

`enqueue` makes one job in one statement. `enqueue_many` makes jobs of one type that differ by
payload, by COPY. `enqueue_jobs` makes different jobs with dependencies among them. Each is all or
nothing: every value is checked before, and what is written is one transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import batched
from typing import Any

import psycopg
from django.db import DatabaseError, connections, transaction

from jobs import conf, edges, events
from jobs.database import DjangoDatabase, cause, is_transient
from jobs.drafts import (
    Draft,
    check_options,
    check_payload,
    draft,
)
from jobs.errors import Conflict, InvalidInput
from jobs.ids import new_id
from jobs.insertion import (
    INSERT_ONE,
    copy_alike,
    copy_edges,
    copy_jobs,
    insert,
    live_by_key,
    wake,
)
from jobs.models import Job
from jobs.payloads import check_text
from jobs.specs import JobSpec, drafts_of, listed
from jobs.states import OnParentFailure, Status
from jobs.telling import queues_to_wake, tell_released

_FIELDS = (
    "id",
    "type",
    "queue",
    "status",
    "priority",
    "attempt_count",
    "max_attempts",
    "scheduled_at",
    "due_at",
    "unmet_dependencies",
    "unique_key",
    "created_at",
)


PATIENCE = "SET LOCAL lock_timeout = '2s'"

after_enqueue: Callable[[], None] | None = None
"""Called after each enqueue; `jobs.testing` sets it to run jobs inline."""


def enqueue(
    type: str,
    payload: Any = None,
    *,
    priority: int | None = None,
    scheduled_at: datetime | str | int | None = None,
    depends_on: Any = (),
    recur_interval: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    queue: str | None = None,
    unique_key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    max_attempts: int | None = None,
    on_parent_failure: str = OnParentFailure.WAIT,
) -> Job:
    """Create one job and return it, or the live job that already holds `unique_key`.

    `scheduled_at` is an aware datetime, ISO 8601 text with an offset or Unix milliseconds; None is
    now. `recur_interval` or `cron` also makes a Schedule, whose first slot is this job. Columns
    that the call does not know are loaded when they are read. Raises InvalidInput, UnknownType.
    """
    options = check_options(
        type,
        priority=priority,
        scheduled_at=scheduled_at,
        depends_on=depends_on,
        queue=queue,
        metadata=metadata,
        max_attempts=max_attempts,
        on_parent_failure=on_parent_failure,
    )
    made = draft(options, {} if payload is None else payload)
    if unique_key is not None:
        made.unique_key = check_text(unique_key, "unique_key", max_length=200)
    recurs = recur_interval is not None or cron is not None or time_zone is not None
    if not recurs and not made.depends_on:
        job = _enqueue_one(made)
        _enqueued()
        return job
    with transaction.atomic(using=conf.get().database):
        if recurs:
            if made.unique_key is not None:
                raise InvalidInput("cannot be given for a recurring job", field="unique_key")
            _attach_schedule(made, recur_interval, cron, time_zone)
        if made.depends_on:
            edges.check_known(DjangoDatabase(), made.depends_on)
        job = _enqueue_one(made)
        if made.depends_on and str(job.id) == made.id:
            copy_edges(_connection(), ((made.id, p, False) for p in made.depends_on))
            settle_after_commit([made.id])
    _enqueued()
    return job


def enqueue_many(
    type: str,
    payloads: Iterable[Any],
    *,
    priority: int | None = None,
    scheduled_at: datetime | str | int | None = None,
    depends_on: Any = (),
    queue: str | None = None,
    unique_keys: Iterable[str | None] | None = None,
    metadata: Mapping[str, Any] | None = None,
    max_attempts: int | None = None,
    on_parent_failure: str = OnParentFailure.WAIT,
) -> list[str]:
    """Create a job per payload by COPY, all or none, and return their ids in that order.

    Takes any iterable of any length, also one that queries; memory holds the ids alone. A list is
    written fastest, by one COPY. With `unique_keys`, one per payload, the id of the live job that
    holds a key is returned in place of a new one.
    """
    options = check_options(
        type,
        priority=priority,
        scheduled_at=scheduled_at,
        depends_on=depends_on,
        queue=queue,
        metadata=metadata,
        max_attempts=max_attempts,
        on_parent_failure=on_parent_failure,
    )
    if unique_keys is not None:
        return _enqueue_keyed(options, payloads, unique_keys)
    like = Draft(
        type=type,
        payload="",
        queue=options.queue,
        metadata=options.metadata,
        priority=options.priority,
        max_attempts=options.max_attempts,
        scheduled_at=options.scheduled_at,
        on_parent_failure=options.on_parent_failure,
        depends_on=options.depends_on,
    )
    ids: list[str] = []

    def rows() -> Iterator[tuple[str, str]]:
        for index, payload in enumerate(payloads):
            try:
                text = check_payload(options.handler, payload)
            except InvalidInput as error:
                raise error.at(index) from None
            id = new_id()
            ids.append(id)
            yield id, text

    with transaction.atomic(using=conf.get().database):
        connection = _connection()
        if like.depends_on:
            edges.check_known(DjangoDatabase(), like.depends_on)
        asks_nobody = payloads.__class__ in (list, tuple) and options.handler.payload is None
        copy_alike(connection, rows(), like, are_known=asks_nobody)
        if like.depends_on:
            copy_edges(connection, ((id, p, False) for id in ids for p in like.depends_on))
            settle_after_commit(ids)
        elif ids:
            wake(DjangoDatabase(), [like.queue])
        events.emit_alike_on_commit("job.created", ids, type=like.type, queue=like.queue)
    _enqueued()
    return ids


def enqueue_jobs(specs: Iterable[JobSpec]) -> list[str]:
    """Create different jobs, with dependencies among them, all or none; ids in the given order.

    A spec whose `unique_key` is held by a live job stands for that job.
    """
    drafts, parents = drafts_of(list(specs))
    with transaction.atomic(using=conf.get().database):
        database = DjangoDatabase()
        outside = sorted({p for d in drafts for p in d.depends_on} - {d.id for d in drafts})
        edges.check_known(database, outside)
        existing = _insert_keyed(database, [d for d in drafts if d.unique_key is not None])
        for made in drafts:
            made.depends_on = tuple(sorted({existing.get(p, p) for p in made.depends_on}))
        fresh = [d for d in drafts if d.id not in existing]
        _write(database, fresh, {d.id for d in fresh} & parents)
    _enqueued()
    return [existing.get(made.id, made.id) for made in drafts]


def settle_after_commit(child_ids: Sequence[str]) -> None:
    """Settle new edges in short transactions of their own, once the caller has committed.

    Not if somebody keeps a parent locked: what is left then, the leader settles.
    """
    alias = conf.get().database

    def settle() -> None:
        for chunk in batched(child_ids, 1_000):
            database = DjangoDatabase(alias)
            try:
                with database.transaction():
                    database.run(PATIENCE, {})
                    released = edges.settle(database, chunk)
            except DatabaseError as error:
                if not is_transient(cause(error)):
                    raise
                return
            wake(database, queues_to_wake(released))
            tell_released(released)

    transaction.on_commit(settle, using=alias, robust=True)


def _enqueued() -> None:
    if after_enqueue is not None:
        after_enqueue()


def _enqueue_one(made: Draft) -> Job:
    alias = conf.get().database
    for _ in range(3):
        wrapper = connections[alias]
        connection = _connection()
        with wrapper.wrap_database_errors, psycopg.Cursor(connection) as cursor:
            cursor.execute(INSERT_ONE, _insert_params(made))
            row = cursor.fetchone()
        if row is not None:
            events.emit_on_commit("job.created", job_id=made.id, type=made.type, queue=made.queue)
            return _job(made, row[0], row[1], row[2])
        assert made.unique_key is not None
        held = live_by_key(DjangoDatabase(alias), [made.unique_key])
        if held:
            return Job.objects.using(alias).get(id=held[made.unique_key])
    raise Conflict(f"unique_key {made.unique_key!r} is taken and freed faster than can be followed")


def _insert_params(made: Draft) -> tuple[Any, ...]:
    return (
        made.id,
        made.type,
        made.queue,
        made.payload,
        made.metadata,
        made.priority,
        made.max_attempts,
        made.scheduled_at,
        made.scheduled_at,
        made.on_parent_failure,
        len(made.depends_on),
        made.unique_key,
        made.schedule_id,
        made.schedule_slot,
    )


def _job(made: Draft, scheduled_at: datetime, due_at: datetime, created_at: datetime) -> Job:
    return Job.from_db(
        conf.get().database,
        _FIELDS,
        (
            uuid.UUID(made.id),
            made.type,
            made.queue,
            Status.PENDING,
            made.priority,
            0,
            made.max_attempts,
            scheduled_at,
            due_at,
            len(made.depends_on),
            made.unique_key,
            created_at,
        ),
    )


def _attach_schedule(
    made: Draft, recur_interval: str | None, cron: str | None, time_zone: str | None
) -> None:
    from jobs import schedules

    first = schedules.create_for_job(
        DjangoDatabase(),
        job_id=made.id,
        type=made.type,
        payload_text=made.payload,
        metadata_text=made.metadata,
        queue=made.queue,
        priority=made.priority,
        max_attempts=made.max_attempts,
        on_parent_failure=made.on_parent_failure,
        recur_interval=recur_interval,
        cron=cron,
        time_zone=time_zone,
        first_at=made.scheduled_at,
    )
    made.schedule_id, made.schedule_slot = first.schedule_id, first.slot
    made.scheduled_at = first.slot


def _enqueue_keyed(
    options: Any, payloads: Iterable[Any], unique_keys: Iterable[str | None]
) -> list[str]:
    specs: list[Draft] = []
    given, keys = list(payloads), listed(unique_keys, "unique_keys")
    if len(given) != len(keys):
        raise InvalidInput(
            f"names {len(keys):,} keys for {len(given):,} payloads", field="unique_keys"
        )
    for index, (payload, key) in enumerate(zip(given, keys, strict=True)):
        try:
            checked = None if key is None else check_text(key, "unique_keys", max_length=200)
            specs.append(draft(options, payload, unique_key=checked))
        except InvalidInput as error:
            raise error.at(index) from None
    with transaction.atomic(using=conf.get().database):
        database = DjangoDatabase()
        edges.check_known(database, options.depends_on)
        existing = _insert_keyed(database, [d for d in specs if d.unique_key is not None])
        _write(database, [d for d in specs if d.id not in existing], set())
    _enqueued()
    return [existing.get(made.id, made.id) for made in specs]


def _insert_keyed(database: DjangoDatabase, drafts: list[Draft]) -> dict[str, str]:
    """INSERT drafts that have unique keys; answers which of their ids stand for a live job."""
    firsts: dict[str, Draft] = {}
    for made in drafts:
        firsts.setdefault(str(made.unique_key), made)
    existing: dict[str, str] = {}
    # In one order for all callers, that of INSERT_MANY, over all of its pieces: two who enqueue the
    # same keys would otherwise wait for each other in a circle.
    missing = [firsts[key] for key in sorted(firsts)]
    for _ in range(3):
        written = set(insert(database, missing))
        missing = [made for made in missing if made.id not in written]
        if not missing:
            break
        held = live_by_key(database, [str(made.unique_key) for made in missing])
        for made in missing:
            if str(made.unique_key) in held:
                existing[made.id] = held[str(made.unique_key)]
        missing = [made for made in missing if made.id not in existing]
    if missing:
        raise Conflict(f"unique_key {missing[0].unique_key!r} is taken and freed too fast")
    for made in drafts:
        first = firsts[str(made.unique_key)]
        if first is not made:
            existing[made.id] = existing.get(first.id, first.id)
    return existing


def _write(database: DjangoDatabase, fresh: list[Draft], parents: set[str]) -> None:
    """COPY what `_insert_keyed` has not written, then the edges of all."""
    connection = _connection()
    for made in fresh:
        made.has_dependents = made.id in parents and made.unique_key is None
    plain = [made for made in fresh if made.unique_key is None]
    if plain:
        now = str(database.rows("SELECT statement_timestamp()::text", {})[0][0])
        copy_jobs(connection, plain, now)
    flagged = {made.id for made in plain if made.has_dependents}
    waiting = [made for made in fresh if made.depends_on]
    if waiting:
        copy_edges(connection, ((d.id, p, p in flagged) for d in waiting for p in d.depends_on))
        unsettled = [d.id for d in waiting if not flagged.issuperset(d.depends_on)]
        if unsettled:
            settle_after_commit(unsettled)
    wake(database, {made.queue for made in fresh if not made.depends_on})
    events.emit_jobs_on_commit("job.created", fresh)


def _connection() -> psycopg.Connection[Any]:
    """The psycopg connection under Django's, in the transaction that Django has open."""
    wrapper = connections[conf.get().database]
    wrapper.ensure_connection()
    if wrapper.in_atomic_block:
        wrapper.validate_no_broken_transaction()
    connection = wrapper.connection
    assert isinstance(connection, psycopg.Connection)
    return connection
