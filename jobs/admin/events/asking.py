"""What an address of the log asks for. What is wrong is said at its field; the rest still counts.

`at` is no filter but a place: the page begins there, and pages beside it do without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode
from uuid import UUID

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import clocks
from jobs.admin.page.reading import ACTIONS
from jobs.console.lists import AFTER, BEFORE, ROWS
from jobs.errors import InvalidInput
from jobs.filtering import Filters
from jobs.masking import Reader
from jobs.states import ARROWS
from jobs.templatetags.console import event_words
from jobs.texts import clean

LEVELS = ("debug", "info", "warning", "error", "critical")
CHOICES = {
    "info": "without debug",
    "warning": "warnings and errors",
    "error": "errors",
}
"""Levels to choose from: each means itself and what is graver."""
HANDLER = "log"
"""What the log calls a line that a handler wrote."""
EVENTS = tuple(sorted({"created", HANDLER, *ACTIONS, *(arrow.event for arrow in ARROWS)}))
ALWAYS_LOUD = frozenset({"dead_lettered", "lost", "retry_scheduled"})
"""Events that are never written with a level below warning."""

FIELDS = ("level", "event", "type", "queue", "job", "text", "at")
LENGTH = 200
WORDS = 8
TOLD = "job.*,jobs.*,queue.*,worker.*,schedule.*,bulk.*,range.*,type.*,alert.*"
"""What a page hears of that follows everything."""

_WORD = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(kw_only=True)
class Ask:
    given: dict[str, str] = field(default_factory=dict)
    """The fields that say something, as they were given; wrong ones too."""
    problems: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    levels: list[str] | None = None
    event: str | None = None
    type: str | None = None
    queue: str | None = None
    job: UUID | None = None
    patterns: list[str] | None = None
    """What the message must be like, all of them, in any case."""
    at: datetime | None = None
    after: int | None = None
    """Go on behind this line, towards older ones."""
    before: int | None = None
    size: int = 50

    @property
    def is_loud(self) -> bool:
        """Whether only warnings and what is graver is asked for: those have an index."""
        quiet = self.levels is None or not set(self.levels).isdisjoint(("debug", "info"))
        return self.event in ALWAYS_LOUD or not quiet

    @property
    def narrows(self) -> bool:
        """Whether lines are looked at that are not shown."""
        narrowed = (self.levels, self.event, self.type, self.queue, self.patterns)
        return any(each is not None for each in narrowed)

    @property
    def is_narrowed(self) -> bool:
        return self.narrows or self.job is not None

    @property
    def tells_all(self) -> bool:
        """Whether what happens to queues, workers, schedules and runs belongs here too, as it happens."""
        return all(each is None for each in (self.event, self.type, self.job, self.patterns))

    @property
    def is_newest(self) -> bool:
        """Whether the page begins with what was written last."""
        return self.after is None and self.before is None and self.at is None

    def query(self, **changes: str) -> str:
        """The address's query with other values; an empty one is left out. `at` is a place, and
        goes unless it is said.
        """
        whole = {**self.given, "at": "", **changes}
        return "?" + urlencode({name: value for name, value in whole.items() if value})

    @property
    def here(self) -> str:
        """The query of this very page."""
        place = {AFTER: self.after, BEFORE: self.before}
        said = {name: str(value) for name, value in place.items() if value is not None}
        return self.query(at=self.given.get("at", ""), **said)

    @property
    def chips(self) -> list[tuple[str, str]]:
        """What is in force, and the query without it."""
        return [
            (_said(name, self), self.query(**{name: ""}))
            for name in FIELDS
            if name in self.given and name not in self.problems
        ]


def parse(params: Mapping[str, str], reader: Reader, *, size: int = 50) -> Ask:
    """Read an address. Never raises."""
    cut = {name: clean(value, LENGTH + 1).strip() for name, value in params.items()}
    given = {name: cut[name] for name in (*FIELDS, ROWS) if cut.get(name)}
    ask = Ask(given=given, size=size)
    known = (*FIELDS, ROWS, AFTER, BEFORE)
    ask.unknown = [clean(name, 60) for name in params if name not in known]
    ask.after, ask.before = _place(cut.get(AFTER, "")), _place(cut.get(BEFORE, ""))
    for name, read in _READERS.items():
        if name in ask.given:
            try:
                read(ask, ask.given[name], reader)
            except InvalidInput as error:
                ask.problems[name] = error.message
    if ask.after is not None or ask.before is not None:
        ask.at = None
        ask.given.pop("at", None)
    return ask


# Each field


def _level(ask: Ask, text: str, _: Reader) -> None:
    if text not in LEVELS:
        raise InvalidInput(f"must be one of {', '.join(LEVELS)}", field="level")
    ask.levels = list(LEVELS[LEVELS.index(text) :]) if text != "debug" else None


def _event(ask: Ask, text: str, _: Reader) -> None:
    if text not in EVENTS:
        raise InvalidInput(f"“{clean(text, 40)}” is no event of the log", field="event")
    ask.event = text


def _type(ask: Ask, text: str, _: Reader) -> None:
    ask.type = Filters.from_json({"type": text}).type


def _queue(ask: Ask, text: str, _: Reader) -> None:
    ask.queue = Filters.from_json({"queue": text}).queue


def _job(ask: Ask, text: str, _: Reader) -> None:
    try:
        ask.job = UUID(text)
    except ValueError:
        raise InvalidInput("must be the whole id of a job", field="job") from None


def _text(ask: Ask, text: str, reader: Reader) -> None:
    """Words that all stand in the message; "in quotes" as one; with * at the end its beginning."""
    refused = reader.refusal(error=text)
    if refused:
        raise InvalidInput(refused, field="text")
    if len(text) > LENGTH:
        raise InvalidInput(f"must have at most {LENGTH} characters", field="text")
    if text.endswith("*"):
        ask.patterns = [f"{_escaped(text.removesuffix('*').strip('"'))}%"]
        return
    words = [found[1] or found[2] for found in _WORD.finditer(text) if found[1] or found[2]]
    if not words:
        raise InvalidInput("must have a word", field="text")
    if len(words) > WORDS:
        raise InvalidInput(f"must have at most {WORDS} words", field="text")
    ask.patterns = [f"%{_escaped(word)}%" for word in words]


def _at(ask: Ask, text: str, _: Reader) -> None:
    """A moment without a zone is meant in the zone that the page shows times in."""
    try:
        found = parse_datetime(text.replace(" ", "T", 1))
        if found is not None and found.tzinfo is None:
            found = timezone.make_aware(found)
        ask.at = found.astimezone(UTC) if found is not None else None
    except (ValueError, OverflowError):
        ask.at = None
    if ask.at is None or not 1 < ask.at.year < 9999:
        ask.at = None
        raise InvalidInput("must be a date and time", field="at")


_READERS: dict[str, Callable[[Ask, str, Reader], None]] = {
    "level": _level,
    "event": _event,
    "type": _type,
    "queue": _queue,
    "job": _job,
    "text": _text,
    "at": _at,
}


def _escaped(text: str) -> str:
    """For LIKE, as it stands."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def _place(text: str) -> int | None:
    """The id of a line; None for what is none: then the page begins at the newest."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) else None


def _said(name: str, ask: Ask) -> str:
    value = ask.given[name]
    match name:
        case "level":
            return CHOICES.get(value, f"level {value}")
        case "event":
            return f"event {event_words(value)}"
        case "at":
            assert ask.at is not None
            return f"from {clocks.said(ask.at)} back"
        case "job":
            return f"job {value[-8:]}"
        case _:
            return f"{name} {value}"


def choices() -> list[tuple[str, str]]:
    """The events to choose from, by the word that people read."""
    return sorted(((name, event_words(name)) for name in EVENTS), key=lambda pair: pair[1])


def moment_for_input(at: datetime | None) -> str:
    """A moment as a date-and-time field shows it."""
    return f"{clocks.local(at):%Y-%m-%dT%H:%M:%S}" if at is not None else ""


def topics(ask: Ask) -> list[str]:
    """What a page that follows listens to: hints that there are new lines, rather more than less.

    A handler's line is told without its type and queue.
    """
    narrow = {name: getattr(ask, name) for name in ("type", "queue", "job")}
    given = {
        name: str(value)
        for name, value in narrow.items()
        # Commas stand between values there.
        if value is not None and "," not in str(value)
    }
    found = [_topic(event=TOLD if ask.tells_all else "job.*", **given)]
    if "type" in given or "queue" in given:
        found.append(_topic(event="job.log", **{k: v for k, v in given.items() if k == "job"}))
    return found


def _topic(**given: str) -> str:
    return f"log?{urlencode(given)}"
