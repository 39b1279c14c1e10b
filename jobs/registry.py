"""Handlers by type. `@handler` in any app's `handlers.py` is found at start."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobs.errors import RegistrationError, UnknownType

if TYPE_CHECKING:
    from jobs.retry import Backoff

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\Z")
QUEUE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,59}\Z")


OWN_QUEUE = "coppice"
"""The queue of what Coppice does for itself. Every worker serves it, whatever `--queues` says."""

type Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True, kw_only=True)
class Handler:
    """One registered handler and its options."""

    type: str
    function: Callable[..., Any]
    payload: Any
    """A DRF serializer class that validates the payload; None: any JSON value."""
    queue: str
    priority: int
    max_attempts: int | None
    timeout: float | None
    """Seconds an attempt may take; None: the setting's default."""
    retry_on: Errors
    """Only these errors are retried, others dead-letter the job; empty: all are retried."""
    discard_on: Errors
    """These errors dead-letter the job at once."""
    backoff: Backoff | None
    atomic: bool
    isolation: str
    """'thread', or 'process': a child process that is killed at the deadline."""
    mask: tuple[str, ...]
    """Payload keys that readers without permission see masked."""
    is_async: bool
    wants_context: bool
    wants_payload: bool
    internal: bool = False
    """A type of Coppice's own, which nobody may ask for from outside."""


_handlers: dict[str, Handler] = {}


def handler(
    type: str,
    *,
    payload: Any = None,
    queue: str = "default",
    priority: int = 2,
    max_attempts: int | None = None,
    timeout: float | timedelta | None = None,
    retry_on: Errors = (),
    discard_on: Errors = (),
    backoff: Backoff | None = None,
    atomic: bool = False,
    isolation: str = "thread",
    mask: tuple[str, ...] = (),
    internal: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the handler of a job type.

    The function takes `(payload, context)`, `(payload)` or nothing, and may be `async def`.
    Raises RegistrationError for a wrong option, or a type that another function already has.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        positional = _positional(function)
        add(
            Handler(
                type=type,
                function=function,
                payload=payload,
                queue=queue,
                priority=priority,
                max_attempts=max_attempts,
                timeout=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
                retry_on=tuple(retry_on),
                discard_on=tuple(discard_on),
                backoff=backoff,
                atomic=atomic,
                isolation=isolation,
                mask=tuple(mask),
                internal=internal,
                is_async=inspect.iscoroutinefunction(function),
                wants_payload=positional >= 1,
                wants_context=positional >= 2,
            )
        )
        return function

    return register


def add(entry: Handler) -> None:
    """Register a handler record; the same function may register again (a reload)."""
    _check(entry)
    known = _handlers.get(entry.type)
    if known is not None and _place(known.function) != _place(entry.function):
        raise RegistrationError(
            f"type {entry.type!r} is already handled by {'.'.join(_place(known.function))}"
        )
    _handlers[entry.type] = entry


def remove(type: str) -> None:
    _handlers.pop(type, None)


def get(type: str) -> Handler:
    """The handler of a type. Raises UnknownType."""
    found = _handlers.get(type)
    if found is None:
        raise UnknownType(f"no handler is registered for {type!r}", field="type")
    return found


def find(type: str) -> Handler | None:
    return _handlers.get(type)


def is_internal(type: object) -> bool:
    """Whether it is a type of Coppice's own."""
    found = _handlers.get(type) if isinstance(type, str) else None
    return found is not None and found.internal


def types() -> list[str]:
    return sorted(_handlers)


def handlers() -> Iterator[Handler]:
    return iter(list(_handlers.values()))


def _positional(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return 2
    positional = [p for p in parameters if p.kind in kinds]
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if len(required) > 2 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise RegistrationError(
            f"{'.'.join(_place(function))} must take (payload, context), (payload) or nothing"
        )
    return len(positional)


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return (
        getattr(function, "__module__", "") or "",
        getattr(function, "__qualname__", repr(function)),
    )


def _check(entry: Handler) -> None:
    problems = []
    if not isinstance(entry.type, str) or not NAME.match(entry.type):
        problems.append("type must be 1 to 100 letters, digits or _.:-")
    if not isinstance(entry.queue, str) or not QUEUE_NAME.match(entry.queue):
        problems.append("queue must be 1 to 60 letters, digits or _.:-")
    if entry.priority not in (1, 2, 3):
        problems.append("priority must be 1, 2 or 3")
    if entry.max_attempts is not None and not 1 <= entry.max_attempts <= 1_000:
        problems.append("max_attempts must be from 1 to 1,000")
    if entry.timeout is not None and not 0 < entry.timeout <= 31 * 86_400:
        problems.append("timeout must be more than 0 and at most 31 days")
    if entry.isolation not in ("thread", "process"):
        problems.append("isolation must be 'thread' or 'process'")
    if entry.atomic and entry.is_async:
        problems.append("atomic needs a plain function: a transaction cannot span an await")
    if problems:
        raise RegistrationError(f"handler {entry.type!r}: {'; '.join(problems)}")
