"""What a client asks for: topics of the socket, and the parameters of server-sent events.

A topic says two things: whether an event of some name could be meant at all (`could_be`), which is
all that is known of events that were left out, and whether this event is meant (`matches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import parse_qsl
from uuid import UUID

from jobs.errors import InvalidInput
from jobs.live.entries import OTHER, TOUCHED, Entry
from jobs.states import State, Status

TOPICS = 50
FILTERED = 5
"""Of them with filters: only these cost a look at each event."""
TOPIC_LENGTH = 500
VALUES = 50
"""The most values of one filter."""

RESET = "jobs.reset"
"""Everything is gone: told to everybody."""
STATS = "stats.updated"

_PATTERN = re.compile(r"[a-z0-9_.*]{1,60}", re.ASCII)
_QUEUE_LENGTH = 200

STATUS_OF = {
    State.READY: Status.PENDING,
    State.SCHEDULED: Status.PENDING,
    State.RETRYING: Status.PENDING,
    State.BLOCKED: Status.PENDING,
    State.HELD: Status.PENDING,
    State.RUNNING: Status.PROCESSING,
    State.CANCELLING: Status.PROCESSING,
    State.COMPLETED: Status.COMPLETED,
    State.DEAD: Status.FAILED,
    State.CANCELLED: Status.CANCELLED,
}


@dataclass(frozen=True, kw_only=True)
class Filters:
    """All that are given must match; within one, any value."""

    types: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    events: tuple[str, ...] = ()
    statuses: frozenset[Status] = frozenset()

    def could_be(self, name: str) -> bool:
        if self.statuses and not self.statuses & TOUCHED.get(name, self.statuses):
            return False
        return not self.events or any(fnmatchcase(name, each) for each in self.events)

    def match(self, entry: Entry) -> bool:
        """Whether an event matches whose name could be."""
        return (
            (not self.types or entry.type in self.types)
            and (not self.queues or entry.queue in self.queues)
            and (not self.jobs or entry.job_id in self.jobs)
        )

    @property
    def wants_stats(self) -> bool:
        return not (self.types or self.queues or self.jobs) and self.could_be(STATS)


@dataclass(frozen=True, kw_only=True)
class Topic:
    text: str
    """In one form, however it was written: equal texts are equal topics."""
    kind: Kind
    filters: Filters = Filters()

    def could_be(self, name: str) -> bool:
        is_for_all = name in (RESET, OTHER)
        return is_for_all or (self.kind.names(name) and self.filters.could_be(name))

    def matches(self, entry: Entry) -> bool:
        """Whether an event is meant whose name could be."""
        if entry.name == RESET:
            return True
        if self.kind.key is not None:
            return self.text in keys(entry)
        return self.filters.match(entry) and (self.kind.also is None or self.kind.also(entry))

    @property
    def wants_stats(self) -> bool:
        return self.kind.has_stats

    @property
    def is_filtered(self) -> bool:
        return self.filters != Filters()


@dataclass(frozen=True, kw_only=True)
class Kind:
    names: Callable[[str], bool]
    """Whether events of this name can be meant."""
    key: str | None = None
    """The fact or field that must be what follows the colon; None: no colon."""
    also: Callable[[Entry], bool] | None = None
    filters: frozenset[str] = field(default_factory=frozenset)
    has_stats: bool = False


def _all_of(*starts: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(starts)


def _overview(name: str) -> bool:
    return name not in ("job.log", "job.progress") and not name.startswith("node.")


def _is_about_a_schedule(entry: Entry) -> bool:
    return entry.facts.get("schedule_id") is not None


WIDE = {
    "overview": Kind(names=_overview, has_stats=True),
    "jobs": Kind(names=_all_of("job."), filters=frozenset({"type", "queue", "state"})),
    "queues": Kind(names=_all_of("queue."), has_stats=True),
    "workers": Kind(names=_all_of("worker."), has_stats=True),
    "schedules": Kind(names=_all_of("schedule.", "job.created"), also=_is_about_a_schedule),
    "runs": Kind(names=_all_of("range.")),
    "bulk": Kind(names=_all_of("bulk.")),
    "log": Kind(names=lambda _: True, filters=frozenset({"type", "queue", "job", "event"})),
}
NARROW = {
    "job": Kind(names=_all_of("job.", "range.", "node."), key="job_id"),
    "queue": Kind(names=lambda _: True, key="queue"),
    "worker": Kind(names=_all_of("worker."), key="worker_id"),
    "schedule": Kind(names=_all_of("schedule.", "job.created"), key="schedule_id"),
    "run": Kind(names=_all_of("range.", "node."), key="run_id"),
    "bulk": Kind(names=_all_of("bulk."), key="id"),
}
_BY_FACT = tuple(
    (name, kind.key)
    for name, kind in NARROW.items()
    if kind.key is not None and kind.key not in ("job_id", "queue")
)


def keys(entry: Entry) -> list[str]:
    """The texts of the narrow topics that an event belongs to, if its name could."""
    found = [RESET] if entry.name == RESET else []
    if entry.job_id is not None:
        found.append(f"job:{entry.job_id}")
    if entry.queue:
        found.append(f"queue:{entry.queue}")
    facts = entry.facts
    if facts:
        found += [f"{name}:{facts[key]}" for name, key in _BY_FACT if facts.get(key) is not None]
    return found


# Reading what was asked for


def parse_all(given: object, field: str = "topics") -> frozenset[Topic]:
    """Raises InvalidInput naming what is wrong."""
    if not isinstance(given, list) or not given:
        raise InvalidInput("must be a list with at least one topic", field=field)
    if len(given) > TOPICS:
        raise InvalidInput(f"at most {TOPICS} topics", field=field)
    return frozenset(parse(each, field) for each in given)


def parse(given: object, field: str = "topics") -> Topic:
    if not isinstance(given, str) or not 0 < len(given) <= TOPIC_LENGTH:
        raise InvalidInput(f"a topic is a text of at most {TOPIC_LENGTH} characters", field=field)
    return _parse(given, field)


@lru_cache(maxsize=1_000)
def _parse(text: str, field: str) -> Topic:
    if text in WIDE:
        return Topic(text=text, kind=WIDE[text])
    name, colon, key = text.partition(":")
    if colon and name in NARROW:
        kind = NARROW[name]
        return Topic(text=f"{name}:{_key(name, key, field)}", kind=kind)
    name, mark, query = text.partition("?")
    if mark and name in WIDE and WIDE[name].filters:
        return _filtered(name, query, field)
    raise InvalidInput(f"there is no topic {text[:60]!r}", field=field)


def _filtered(name: str, query: str, field: str) -> Topic:
    given: dict[str, list[str]] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        given.setdefault(key, []).append(value)
    allowed = WIDE[name].filters
    for key in given:
        if key not in allowed:
            raise InvalidInput(f"{name} has no filter {key[:60]!r}", field=field)
    filters = parse_filters(given, place=lambda _: field)
    return Topic(text=f"{name}?{_written(given)}", kind=WIDE[name], filters=filters)


def _written(given: Mapping[str, list[str]]) -> str:
    return "&".join(f"{key}={','.join(sorted(set(_split(given[key]))))}" for key in sorted(given))


def _key(name: str, key: str, field: str) -> str:
    if name == "queue":
        if not key:
            raise InvalidInput("'queue:' lacks the name of a queue", field=field)
        return key
    try:
        return str(UUID(key))
    except ValueError:
        raise InvalidInput(f"{f'{name}:{key}'[:60]!r} is no id", field=field) from None


FILTERS = ("type", "queue", "job", "event", "state")


def parse_filters(
    given: Mapping[str, list[str]], place: Callable[[str], str] = lambda name: name
) -> Filters:
    """Filters from the values of each parameter; `place` says which field an error names."""
    values = {name: _values(given.get(name, ()), place(name)) for name in FILTERS}
    for pattern in values["event"]:
        if not _PATTERN.fullmatch(pattern):
            raise InvalidInput(
                f"{pattern[:60]!r} is no pattern such as job.*", field=place("event")
            )
    return Filters(
        types=frozenset(values["type"]),
        queues=frozenset(values["queue"]),
        jobs=frozenset(_id(each, place("job")) for each in values["job"]),
        events=tuple(sorted(set(values["event"]))),
        statuses=frozenset(_status(each, place("state")) for each in values["state"]),
    )


def _values(given: Iterable[str], field: str) -> list[str]:
    given = list(given)
    found = _split(given)
    if given and not found:
        raise InvalidInput("must not be empty", field=field)
    if len(found) > VALUES:
        raise InvalidInput(f"at most {VALUES} values", field=field)
    if any(len(each) > _QUEUE_LENGTH for each in found):
        raise InvalidInput(f"at most {_QUEUE_LENGTH} characters", field=field)
    return found


def _split(given: Iterable[str]) -> list[str]:
    return [part for each in given for part in (p.strip() for p in each.split(",")) if part]


def _id(text: str, field: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidInput(f"{text[:60]!r} is no id", field=field) from None


def _status(text: str, field: str) -> Status:
    try:
        return STATUS_OF[State(text)]
    except ValueError:
        raise InvalidInput(f"there is no state {text[:60]!r}", field=field) from None
