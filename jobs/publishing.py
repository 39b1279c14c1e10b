"""Append events to the Redis stream `coppice:events`, from one thread per process. With
COPPICE_REDIS_PREFIX its name begins with that.

Redis may be away at any time without harm: the caller never waits and never sees an error, what
cannot be sent is dropped, and the stream is told how much that was as soon as it is there again.

What an entry of the stream looks like: one field, `event`, with this JSON object.

    {"name": "job.completed", "at": 1767225600.123, "job_id": "0198...", "type": "send_email",
     "queue": "mail", "facts": {"attempt": 1}}

`at` is the sender's clock, for people; the entry's id is what orders events. `job_id` is null,
`type` and `queue` are "" where an event is not about a job. A fact `error` may quote what a handler
worked on: readers pass it on only to those who may see payloads.

    {"name": "events.left_out", "at": ..., "counts": {"job.started": 4711, "job.completed": 4702}}

stands for events that are not in the stream: more than `SINGLES_PER_SECOND` came, or Redis was
away. What a reader shows of jobs is then out of date.

What must always be true:
1. `put` and `room` only touch memory, under a lock that is never held while waiting.
2. An event is sent at most once. A batch whose answer did not come counts as left out.
3. Waiting events are bounded by COPPICE_EVENT_QUEUE.
4. A forked child starts with nothing to send, and with a thread of its own at the first event.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import time
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from datetime import date
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import structlog
from django.core.signals import setting_changed

from jobs import conf, events
from jobs.errors import SettingsError
from jobs.events import Event
from jobs.texts import clean

if TYPE_CHECKING:
    import redis

STREAM = "coppice:events"
STREAM_LENGTH = 100_000
TOTALS = "coppice:events:left-out"
"""A hash: how many of each name were ever left out, by all processes together."""
LEFT_OUT = "events.left_out"

SINGLES_PER_SECOND = 1_000
SUMMARY_SECONDS = 0.5
BATCH = 500
GATHER_SECONDS = 0.02
"""How long the first event waits for others to share its round trip."""
REDIS_TIMEOUT_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 1.0
"""Between tries to reach Redis. Live pages are right again within two seconds of its return."""
FLUSH_SECONDS = 2.0
TEXT_LENGTH = 500

PLENTIFUL = frozenset(
    {"job.created", "job.started", "job.completed", "job.progress", "job.log", "job.released"}
)
"""Names that floods are made of. A part of the rate is kept for all others."""
RESERVED = 250

NEVER_SENT = frozenset({"payload", "params", "result", "metadata"})
_WORD = 2**63

_log = structlog.get_logger("coppice.events")


class Publisher:
    """The process's way to the stream. Safe to use from any thread, and after a fork."""

    def __init__(self, url: str, *, queue_length: int, prefix: str = "") -> None:
        # Only where there is one to talk to: a process starts the sooner. And not in the thread,
        # since a child forked while it imports could never import the same.
        import redis  # noqa: F401

        self.url = url
        self.queue_length = queue_length
        self.prefix = prefix
        self._become_new()
        _publishers.add(self)

    def room(self, name: str, count: int) -> int:
        """How many of `count` events may go singly now; the rest is counted as left out."""
        with self._changed:
            if self._closing:
                return 0
            now = time.monotonic()
            self._tokens = min(
                SINGLES_PER_SECOND, self._tokens + (now - self._filled_at) * SINGLES_PER_SECOND
            )
            self._filled_at = now
            spare = self._tokens - (RESERVED if name in PLENTIFUL else 0)
            room = max(0, min(count, int(spare), self.queue_length - len(self._waiting)))
            self._tokens -= room
            if room < count:
                if not self._left_out:
                    self._wake()
                self._left_out[name] += count - room
            return room

    def put(self, batch: Sequence[Event]) -> None:
        """Queue events for which `room` was given."""
        at = time.time()
        with self._changed:
            self._waiting.extend((at, event) for event in batch)
            self._wake()

    def flush(self, seconds: float) -> bool:
        """Wait until all is sent, also the counts. False: it took too long, or a try failed."""
        limit = time.monotonic() + seconds
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            failures = self._failures
            try:
                while self._waiting or self._left_out or self._sending:
                    left = limit - time.monotonic()
                    if left <= 0 or self._thread is None or self._failures > failures:
                        return False
                    self._changed.wait(left)
                return True
            finally:
                self._flushing -= 1

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send what waits, for at most so long, and end the thread."""
        limit = time.monotonic() + seconds
        self.flush(seconds)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, limit - time.monotonic()))

    @property
    def is_away(self) -> bool:
        """Whether the last try to reach Redis failed."""
        return self._failures > 0

    @property
    def is_closed(self) -> bool:
        return self._closing

    _tokens: float
    _filled_at: float

    def _become_new(self) -> None:
        """Nothing waits and nothing runs: at first, and in a forked child."""
        self._changed = Condition()
        self._waiting: deque[tuple[float, Event]] = deque()
        self._left_out: Counter[str] = Counter()
        self._sending = 0
        self._flushing = 0
        self._failures = 0
        self._closing = False
        self._thread: Thread | None = None
        self._tokens = float(SINGLES_PER_SECOND)
        self._filled_at = time.monotonic()
        self._summed_at = float("-inf")

    # Called with the lock held.

    def _wake(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = Thread(target=self._run, name="coppice-events", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is ending, or no thread can be had
                self._thread = None
                self._closing = True
        self._changed.notify_all()

    def _is_due(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._waiting) or (
            bool(self._left_out)
            and (
                self._flushing > 0
                or self._closing
                or time.monotonic() >= self._summed_at + SUMMARY_SECONDS
            )
        )

    # The thread

    def _run(self) -> None:
        changed = self._changed
        client: redis.Redis | None = None
        while True:
            with changed:
                while not self._is_due():
                    if self._closing:
                        return
                    changed.wait(SUMMARY_SECONDS if self._left_out else None)
                if len(self._waiting) < BATCH and not (self._flushing or self._closing):
                    changed.wait_for(self._is_in_a_hurry, GATHER_SECONDS)
                batch, counts = self._take()
            try:
                client = _sent(client, self.url, self.prefix, batch, counts)
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever it was
                _drop(client)
                client = None
                self._note_failure(error, batch, counts)
                if self._pause_or_close():
                    return
            else:
                self._note_success()

    def _is_in_a_hurry(self) -> bool:
        return len(self._waiting) >= BATCH or self._flushing > 0 or self._closing

    def _take(self) -> tuple[list[tuple[float, Event]], dict[str, int]]:
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        counts: dict[str, int] = {}
        hurry = self._flushing > 0 or self._closing
        if self._left_out and (hurry or time.monotonic() >= self._summed_at + SUMMARY_SECONDS):
            counts = dict(self._left_out)
            self._left_out.clear()
            self._summed_at = time.monotonic()
        self._sending = len(batch) + len(counts)
        return batch, counts

    def _note_success(self) -> None:
        with self._changed:
            failures, self._failures, self._sending = self._failures, 0, 0
            self._changed.notify_all()
        if failures:
            _log.info("live events flow again", failed_tries=failures)

    def _note_failure(
        self, error: Exception, batch: list[tuple[float, Event]], counts: dict[str, int]
    ) -> None:
        with self._changed:
            self._left_out.update(counts)
            self._left_out.update(event.name for _, event in batch)
            self._sending = 0
            self._failures += 1
            first = self._failures == 1
            self._changed.notify_all()
        if first:
            _log.warning("live events cannot be sent", error=type(error).__name__)

    def _pause_or_close(self) -> bool:
        """Wait before the next try, longer each time, unless somebody wants to know now.

        True: the process ends, give up.
        """
        longest = min(0.1 * 2 ** min(self._failures, 10), LONGEST_PAUSE_SECONDS)
        with self._changed:
            return (
                self._changed.wait_for(
                    lambda: self._closing or self._flushing > 0,
                    longest * (0.5 + random.random() / 2),
                )
                and self._closing
            )


# Talking to Redis


def _connect(url: str) -> redis.Redis:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # One try per call: the waiting between tries is ours.
    return redis.Redis.from_url(
        url,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _sent(
    client: redis.Redis | None,
    url: str,
    prefix: str,
    batch: Sequence[tuple[float, Event]],
    counts: dict[str, int],
) -> redis.Redis:
    """The connection by which it went. One that was cut while nothing was said costs no event."""
    import redis

    if client is not None:
        try:
            _send(client, prefix, batch, counts)
        except redis.ConnectionError:
            _drop(client)
        else:
            return client
    client = _connect(url)
    _send(client, prefix, batch, counts)
    return client


def _drop(client: redis.Redis | None) -> None:
    import redis

    if client is not None:
        try:
            client.close()
        except (redis.RedisError, OSError):
            return


def _send(
    client: redis.Redis,
    prefix: str,
    batch: Sequence[tuple[float, Event]],
    counts: dict[str, int],
) -> None:
    pipeline = client.pipeline(transaction=False)
    for at, event in batch:
        _append(pipeline, prefix, encode(at, event))
    if counts:
        text = json.dumps({"name": LEFT_OUT, "at": round(time.time(), 3), "counts": counts})
        _append(pipeline, prefix, text)
        for name, count in counts.items():
            pipeline.hincrby(prefix + TOTALS, name, count)
    pipeline.execute()


def _append(pipeline: Any, prefix: str, text: str) -> None:
    pipeline.xadd(prefix + STREAM, {"event": text}, maxlen=STREAM_LENGTH, approximate=True)


def encode(at: float, event: Event) -> str:
    """The JSON text of an entry. Whatever the facts are, this does not fail."""
    facts = {str(key): _plain(value) for key, value in event.facts.items() if key not in NEVER_SENT}
    return json.dumps(
        {
            "name": event.name,
            "at": round(at, 3),
            "job_id": event.job_id,
            "type": event.type,
            "queue": event.queue,
            "facts": facts,
        }
    )


def _plain(value: Any, depth: int = 3) -> Any:
    """The fact as JSON, bounded in length and depth."""
    match value:
        case None | bool():
            return value
        case int():
            return value if -_WORD <= value < _WORD else "<a large number>"
        case float():
            return value if value - value == 0 else None  # neither NaN nor infinite
        case str():
            return clean(value, TEXT_LENGTH)
        case date():
            return value.isoformat()
        case dict() if depth:
            return {
                clean(str(key), 60): _plain(each, depth - 1)
                for key, each in list(value.items())[:50]
            }
        case list() | tuple() | set() | frozenset() if depth:
            return [_plain(each, depth - 1) for each in list(value)[:50]]
        case BaseException():
            return type(value).__name__
        case _:
            try:
                return clean(str(value), TEXT_LENGTH)
            except Exception as error:  # noqa: BLE001 - a stranger's __str__
                return f"<{type(error).__name__}>"


# One per process


class _Current:
    publisher: Publisher | None = None


_publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()


def install() -> None:
    """Connect the events of this process to the stream that the settings name, if any."""
    try:
        settings = conf.get()
    except SettingsError:
        return  # the system checks say it better
    old = _Current.publisher
    wanted = (settings.redis_url, settings.event_queue, settings.redis_prefix)
    if old is not None and not old.is_closed and (old.url, old.queue_length, old.prefix) == wanted:
        events.send_to(old)
        return
    new = None
    if settings.redis_url:
        new = Publisher(
            settings.redis_url,
            queue_length=settings.event_queue,
            prefix=settings.redis_prefix,
        )
    _Current.publisher = new
    events.send_to(new)
    if old is not None:
        old.close(0.0)


def _at_exit() -> None:
    if _Current.publisher is not None:
        _Current.publisher.close()


def _after_fork() -> None:
    for publisher in list(_publishers):
        publisher._become_new()  # noqa: SLF001 - its own module


def _follow_settings(*, setting: str, **_: object) -> None:
    # Whichever: what another one made unreadable for a while is caught up with.
    if setting.startswith("COPPICE_"):
        install()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
setting_changed.connect(_follow_settings, dispatch_uid="coppice-publishing")
