"""Run the handler of one claimed job and decide what its end means; write nothing.

Used by the worker's threads, its event loop, its killable processes, and `jobs.testing`. Whatever a
handler raises is that job's failure: SystemExit, KeyboardInterrupt and RecursionError included.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog
from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections, transaction
from psycopg.pq import TransactionStatus

from jobs import conf
from jobs.answers import Discard, JobTimeout
from jobs.claimed import Claimed
from jobs.complete import Written, complete_here
from jobs.context import Context
from jobs.database import DjangoDatabase
from jobs.drafts import validate_payload
from jobs.endings import Ending, Success
from jobs.errors import InvalidInput, StaleLease
from jobs.outcomes import Run, decide_raise, decide_return, decide_timed_out
from jobs.registry import Handler
from jobs.states import Outcome, Status

type Clock = Callable[[], float]

_log = structlog.get_logger("coppice.jobs")


def timeout_of(handler: Handler) -> float | None:
    """Seconds that one attempt may take, or None."""
    return handler.timeout or conf.get().timeout_seconds or None


def arguments(handler: Handler, job: Claimed, context: Context) -> tuple[Any, ...]:
    """What the handler is called with. Raises Discard for a payload that it no longer accepts."""
    if not handler.wants_payload:
        return ()
    payload = json.loads(job.payload)
    if handler.payload is not None:
        try:
            payload = validate_payload(handler, payload)
        except InvalidInput as error:
            # Without the serializer's words, which may quote the value.
            raise Discard(f"{error.field}: the handler no longer accepts it") from None
    return (payload, context) if handler.wants_context else (payload,)


def run_sync(
    handler: Handler, job: Claimed, context: Context, clock: Clock = time.monotonic
) -> Success | Ending:
    """Run a plain handler in this thread."""
    started = clock()
    try:
        value = handler.function(*arguments(handler, job, context))
        return _returned(handler, job, value, started, clock())
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
        return _raised(handler, job, context, error, started, clock())


async def run_async(
    handler: Handler, job: Claimed, context: Context, clock: Clock = time.monotonic
) -> Success | Ending:
    """Run an async handler on this loop. A cancelled task is the caller's doing: time-out or stop."""
    started = clock()
    try:
        if job.wait_count and handler.wants_context:
            await sync_to_async(context.load_children)()  # a coroutine could not read them itself
        value = await handler.function(*arguments(handler, job, context))
        return _returned(handler, job, value, started, clock())
    except BaseException as error:  # noqa: BLE001
        return _raised(handler, job, context, error, started, clock())


def run_atomic(
    handler: Handler,
    job: Claimed,
    context: Context,
    worker_id: str,
    clock: Clock = time.monotonic,
) -> tuple[Success | Ending, Written | None]:
    """Run a handler in the transaction that also completes its job.

    A return commits both; a raise rolls the handler's writes back and leaves the ending to be
    written by the caller (Written is None). Effects and completion are one commit, so a worker
    that lost its lease (`StaleLease`) takes its effects with it.
    """
    started = clock()
    alias = conf.get().database
    committed: list[bool] = []
    ending: Success | Ending
    written: Written | None = None
    try:
        with transaction.atomic(using=alias):
            transaction.on_commit(lambda: committed.append(True), using=alias)  # the first of all
            value = handler.function(*arguments(handler, job, context))
            ending = _returned(handler, job, value, started, clock())
            if isinstance(ending, Ending) and ending.error:
                raise _Refused(ending)
            written = complete_here(
                DjangoDatabase(alias),
                worker_id=worker_id,
                successes=[ending] if isinstance(ending, Success) else [],
                endings=[ending] if isinstance(ending, Ending) else [],
            )
            if written.stale:
                raise StaleLease("the lease was lost; the attempt and its effects are void")
    except _Refused as refused:
        return refused.ending, None
    except BaseException as error:  # noqa: BLE001
        if not committed:
            return _raised(handler, job, context, error, started, clock()), None
        _log.error("handler.failed_after_commit", job_id=job.id, type=job.type, exc_info=error)
    return ending, written


def after_handler() -> None:
    """What Django does after a request: give up connections that the server has closed."""
    for wrapper in connections.all(initialized_only=True):
        if wrapper.in_atomic_block or wrapper.needs_rollback or _is_busy(wrapper.connection):
            # The handler left a transaction open; nothing of it may reach the next job. Inside an
            # atomic block Django would keep the closed connection and fail ever after.
            wrapper.in_atomic_block = wrapper.closed_in_transaction = False
            wrapper.close()
    close_old_connections()


def _is_busy(connection: Any) -> bool:
    """In a transaction that Django knows nothing of, or in the middle of a statement."""
    return (
        isinstance(connection, psycopg.Connection)
        and connection.pgconn.transaction_status != TransactionStatus.IDLE
    )


class _Refused(Exception):
    """Carries an ending out of the transaction that must be rolled back for it."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


def _returned(
    handler: Handler, job: Claimed, value: Any, started: float, ended: float
) -> Success | Ending:
    wait, run = max(0.0, started - job.received), ended - started
    if value is None:
        return Success(job, wait, run)
    settings = conf.get()
    ending = decide_return(
        job,
        value,
        Run(wait=wait, run=run),
        handler,
        max_wait_rounds=settings.max_wait_rounds,
        max_bytes=settings.max_payload_bytes,
    )
    if ending.status is Status.COMPLETED:
        return Success(job, wait, run, ending.result)
    return ending


def _raised(
    handler: Handler,
    job: Claimed,
    context: Context,
    error: BaseException,
    started: float,
    ended: float,
) -> Ending:
    run = Run(wait=max(0.0, started - job.received), run=ended - started)
    if context.stop_reason == "timeout":
        # However the handler reacted to being stopped, what happened is that time ran out.
        seconds = timeout_of(handler) or 0.0
        ending = decide_timed_out(job, seconds, run, handler)
        if not isinstance(error, JobTimeout):
            ending.traceback = decide_raise(job, error, run, handler).traceback
        return ending
    ending = decide_raise(job, error, run, handler)
    if context.stop_reason == "cancel":
        ending.status, ending.outcome = Status.CANCELLED, Outcome.CANCELLED
        ending.event, ending.delay, ending.level = "cancelled", None, "info"
    return ending
