"""Facts about jobs, told after they are committed: to listeners here, and to the live feed.

    stop = on("job.*", listener)         # or @on("job.failed")
    emit("job.cancelled", job_id=id, type=type, queue=queue, by="operator")
    emit_on_commit("job.created", job_id=id, type=type, queue=queue)

An event never reports what a transaction may still take back: inside one use `emit_on_commit`.
A listener runs in the process where the thing happened, right where it was emitted; what it raises
is logged and goes no further. The live feed (`publishing.py`) gets the same events through a queue.

Facts are ids, types, statuses, times and cut errors. Never a value of a payload or a result.

Tens of thousands of events a second pass here, so that nobody listening must cost next to nothing:
ask `wanted` before putting facts together, and use `emit_jobs` for batches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from threading import Lock
from typing import Any, Protocol, overload

import structlog

from jobs.errors import RegistrationError

PUBLIC_NAMES: dict[str, tuple[str, ...]] = {
    "created": ("job.created",),
    "started": ("job.started",),
    "completed": ("job.completed",),
    "retry_scheduled": ("job.failed", "job.retry_scheduled"),
    "lost": ("job.failed", "job.retry_scheduled"),
    "dead_lettered": ("job.failed", "job.dlq_entry"),
    "cancelled": ("job.cancelled",),
    "snoozed": ("job.snoozed",),
    "waiting": ("job.waiting",),
    "held": ("job.held",),
    "handed_back": ("job.handed_back",),
    "released": ("job.released",),
    "retried": ("job.retried",),
    "purged": ("job.purged",),
}
"""What the log calls it (`states.ARROWS` and actions), and the events that it sends.

Each failed attempt sends `job.failed`; the second event tells what follows from it.
"""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    job_id: str | None = None
    type: str = ""
    queue: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


type Listener = Callable[[Event], object]


class JobFacts(Protocol):
    """What a batch knows of each job: a claimed job, or a row."""

    @property
    def id(self) -> Any: ...
    @property
    def type(self) -> str: ...
    @property
    def queue(self) -> str: ...


class Sink(Protocol):
    """Where events go beside the listeners. Must neither block nor raise."""

    def room(self, name: str, count: int) -> int:
        """How many of `count` events to send singly; the rest is taken note of as a number."""
        ...

    def put(self, events: Sequence[Event]) -> None: ...

    def flush(self, seconds: float) -> bool: ...


class _Audience:
    """Who listens in this process. Tuples are replaced, never changed: readers need no lock."""

    __slots__ = ("listeners", "lock", "matching", "sink")

    def __init__(self) -> None:
        self.listeners: tuple[tuple[str, Listener], ...] = ()
        self.matching: dict[str, tuple[Listener, ...]] = {}
        self.sink: Sink | None = None
        self.lock = Lock()

    def add(self, entry: tuple[str, Listener]) -> None:
        with self.lock:
            self.listeners = (*self.listeners, entry)
            self.matching = {}

    def remove(self, entry: tuple[str, Listener]) -> None:
        # By identity: the same function may listen twice.
        with self.lock:
            self.listeners = tuple(each for each in self.listeners if each is not entry)
            self.matching = {}

    def of(self, name: str) -> tuple[Listener, ...]:
        matching = self.matching
        found = matching.get(name)
        if found is None:
            found = tuple(call for pattern, call in self.listeners if fnmatchcase(name, pattern))
            if len(matching) < _NAMES_KEPT:
                matching[name] = found
        return found


_NAMES_KEPT = 1_000
_audience = _Audience()
_log = structlog.get_logger("coppice.events")


# Listening


@overload
def on(pattern: str) -> Callable[[Listener], Listener]: ...
@overload
def on(pattern: str, listener: Listener) -> Callable[[], None]: ...
def on(pattern: str, listener: Listener | None = None) -> Any:
    """Call `listener(event)` for each event whose name matches, say "job.*" or "queue.paused".

    Returns a function that ends it. Without a listener: a decorator.
    """
    if listener is None:

        def decorate(function: Listener) -> Listener:
            on(pattern, function)
            return function

        return decorate
    if inspect.iscoroutinefunction(listener):
        raise RegistrationError(f"a listener for {pattern!r} must be a plain function, not async")
    entry = (pattern, listener)
    _audience.add(entry)
    return partial(_audience.remove, entry)


def wanted(name: str) -> bool:
    """Whether anybody would notice an event of this name. Next to free."""
    audience = _audience
    return audience.sink is not None or (bool(audience.listeners) and bool(audience.of(name)))


def heard(name: str) -> bool:
    """Whether a listener of this process would notice an event of this name. Next to free."""
    audience = _audience
    return bool(audience.listeners) and bool(audience.of(name))


def active() -> bool:
    """Whether anybody listens to anything. Next to free."""
    return _audience.sink is not None or bool(_audience.listeners)


# Telling


def emit(
    name: str, /, *, job_id: Any = None, type: str = "", queue: str = "", **facts: Any
) -> None:
    """Tell what is committed already, now, in this thread. Never raises."""
    if wanted(name):
        _tell(Event(name, None if job_id is None else str(job_id), type, queue, facts))


def emit_on_commit(
    name: str, /, *, job_id: Any = None, type: str = "", queue: str = "", **facts: Any
) -> None:
    """Tell it when the caller's Django transaction commits: at once if there is none."""
    if wanted(name):
        _on_commit(partial(emit, name, job_id=job_id, type=type, queue=queue, **facts))


def emit_many(events: Iterable[Event]) -> None:
    """Tell a mixed batch, in order."""
    for event in events:
        if wanted(event.name):
            _tell(event)


def tell_listeners(events: Iterable[Event]) -> None:
    """Tell this process alone, in order: of what no other process can look up."""
    for event in events:
        if _audience.listeners:
            _call(_audience.of(event.name), event)


def emit_jobs(name: str, jobs: Sequence[JobFacts], /, **facts: Any) -> None:
    """Tell the same of many jobs. In a flood the feed gets a number instead of each."""
    _tell_batch(name, jobs, lambda job: Event(name, str(job.id), job.type, job.queue, facts))


def emit_jobs_on_commit(name: str, jobs: Sequence[JobFacts], /, **facts: Any) -> None:
    if jobs and wanted(name):
        _on_commit(partial(emit_jobs, name, jobs, **facts))


def emit_alike(name: str, ids: Sequence[str], /, *, type: str, queue: str, **facts: Any) -> None:
    """Tell the same of many jobs of one type and queue."""
    _tell_batch(name, ids, lambda each: Event(name, each, type, queue, facts))


def emit_alike_on_commit(
    name: str, ids: Sequence[str], /, *, type: str, queue: str, **facts: Any
) -> None:
    if ids and wanted(name):
        _on_commit(partial(emit_alike, name, ids, type=type, queue=queue, **facts))


def flush(seconds: float = 2.0) -> bool:
    """Wait until the live feed has what was told so far; False if it took too long.

    Happens by itself at a normal exit. For processes that end by `os._exit`.
    """
    sink = _audience.sink
    return True if sink is None else sink.flush(seconds)


def send_to(sink: Sink | None) -> None:
    """Connect the live feed; None disconnects it."""
    _audience.sink = sink


def _tell(event: Event) -> None:
    sink = _audience.sink
    if sink is not None and sink.room(event.name, 1):
        sink.put((event,))
    if _audience.listeners:
        _call(_audience.of(event.name), event)


def _tell_batch[T](name: str, about: Sequence[T], event_of: Callable[[T], Event]) -> None:
    if not about or not wanted(name):
        return
    sink, listeners = _audience.sink, _audience.of(name)
    room = 0 if sink is None else sink.room(name, len(about))
    events = [event_of(each) for each in (about if listeners else about[:room])]
    if sink is not None and room:
        sink.put(events[:room])
    if listeners:
        for event in events:
            _call(listeners, event)


def _call(listeners: tuple[Listener, ...], event: Event) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:  # noqa: BLE001 - the work is done and committed; it cannot fail now
            _log.exception(
                "a listener failed",
                event_name=event.name,
                job_id=event.job_id,
                listener=getattr(listener, "__qualname__", type(listener).__name__),
            )


def _on_commit(call: Callable[[], None]) -> None:
    from django.db import transaction

    from jobs import conf

    transaction.on_commit(call, using=conf.get().database, robust=True)
