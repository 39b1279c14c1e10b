"""Which jobs are meant: the filters of every list, of bulk operations and of the command line.

A filter is stored with a bulk operation, so it can be written as JSON, read back, and said in
words.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from jobs.drafts import check_priority
from jobs.errors import InvalidInput
from jobs.masking import masked
from jobs.moments import parse_moment
from jobs.payloads import check_json, check_text
from jobs.states import State, Status
from jobs.timing import IntervalRule, parse_rule

TIMES = {
    "created": "created_at",
    "scheduled": "scheduled_at",
    "started": "started_at",
    "completed": "completed_at",
    "failed": "failed_at",
    "cancelled": "cancelled_at",
    "next_retry": "next_retry_at",
    "updated": "updated_at",
}
"""Each has `<name>_after` (at that moment or later) and `<name>_before` (earlier than that)."""

NUMBERS = {"attempt_count": "attempt_count", "max_retries": "max_attempts"}
"""Each has `min_<name>` and `max_<name>`, both with the number itself."""

LARGEST = 2**31 - 1
LARGEST_SAMPLE = 2_000
"""The most bytes of what a payload is asked to hold."""

_HEX = re.compile(r"[0-9a-f]{1,32}\Z")


@dataclass(frozen=True, kw_only=True)
class Filters:
    """None lets everything through."""

    status: Status | None = None
    state: State | None = None
    type: str | None = None
    queue: str | None = None
    priority: int | None = None
    recur_interval: str | None = None
    """Jobs of schedules with this interval, however it was written."""
    schedule: uuid.UUID | None = None
    error_fingerprint: str | None = None
    internal: bool | None = None
    """Jobs that the product makes for itself, such as the lanes of a range run: only, or none."""
    id_prefix: str | None = None
    """The first characters of an id, dashes or not."""
    worker: uuid.UUID | None = None
    """The worker that runs a job, or ran it last."""
    recurring: bool | None = None
    """Jobs that a schedule made: only, or none."""
    depends_on: uuid.UUID | None = None
    """Jobs that wait for this one, or did."""
    error: str | None = None
    """A part of the last error, in any case."""
    payload: Mapping[str, Any] | None = None
    """What the payload must hold, at least."""

    created_after: datetime | None = None
    created_before: datetime | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None
    started_after: datetime | None = None
    started_before: datetime | None = None
    completed_after: datetime | None = None
    completed_before: datetime | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None
    cancelled_after: datetime | None = None
    cancelled_before: datetime | None = None
    next_retry_after: datetime | None = None
    next_retry_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None

    min_attempt_count: int | None = None
    max_attempt_count: int | None = None
    min_max_retries: int | None = None
    max_max_retries: int | None = None

    @property
    def is_of_dead_letters(self) -> bool:
        return self.status is Status.FAILED or self.state is State.DEAD

    @property
    def given(self) -> dict[str, Any]:
        """The filters that are set, in the order of the fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def as_json(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in self.given.items()}

    @classmethod
    def from_json(cls, stored: object) -> Filters:
        """What `as_json` gave, or a stranger sent. Raises InvalidInput naming the field."""
        if not isinstance(stored, Mapping):
            raise InvalidInput("must be an object", field="filters")
        values: dict[str, Any] = {}
        for name, value in stored.items():
            if name not in _READERS:
                raise InvalidInput("is not a filter", field=str(name)[:60])
            if value is not None:
                values[name] = _READERS[name](value, name)
        return cls(**values)

    def in_words(self) -> str:
        """For people: "status failed, type resize, created before 2026-01-31 10:00:00 UTC"."""
        words = [_words(name, value) for name, value in self.given.items()]
        return ", ".join(words) or "all jobs"


def range_of(prefix: str) -> tuple[uuid.UUID, uuid.UUID]:
    """The first and the last id that begin so. Raises InvalidInput."""
    digits = prefix.replace("-", "").lower()
    if not _HEX.match(digits):
        raise InvalidInput("must be the first characters of an id", field="id")
    return uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))


ID_SLACK = timedelta(minutes=10)
"""How far the clock that made an id may be off the database's. What is further off is missed where
jobs are asked for by time, as far as it is further off.
"""


def id_at(moment: datetime, *, later: timedelta = timedelta()) -> uuid.UUID:
    """The least id that can be made at a moment: ids begin with their time in milliseconds."""
    milliseconds = int((moment.timestamp() + later.total_seconds()) * 1_000)
    return uuid.UUID(int=min(max(milliseconds, 0), 2**48 - 1) << 80)


# Reading and writing each kind of value


def seconds_of(recur_interval: str) -> int:
    """The length of an interval such as every_5_minutes. Raises InvalidInput."""
    rule = parse_rule(recur_interval, None, None)
    assert isinstance(rule, IntervalRule)
    return rule.seconds


def _read_word[W: StrEnum](words: type[W]) -> Callable[[object, str], W]:
    def read(value: object, field: str) -> W:
        try:
            return words(str(value))
        except ValueError:
            known = ", ".join(word.value for word in words)
            raise InvalidInput(f"must be one of {known}", field=field) from None

    return read


def _read_text(value: object, field: str) -> str:
    return check_text(value, field, max_length=200)


def _read_interval(value: object, field: str) -> str:
    text = _read_text(value, field)
    seconds_of(text)
    return text


def _read_prefix(value: object, field: str) -> str:
    text = _read_text(value, field)
    try:
        range_of(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field) from None
    return text


def _read_id(value: object, field: str) -> uuid.UUID:
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise InvalidInput("is not an id", field=field) from None


def _read_number(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise InvalidInput(f"must be a whole number from 0 to {LARGEST:,}", field=field)
    return value


def _read_payload(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput("must be an object that is not empty", field=field)
    check_json(dict(value), field, max_bytes=LARGEST_SAMPLE)
    return dict(value)


def _read_truth(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("must be true or false", field=field)
    return value


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "status": _read_word(Status),
    "state": _read_word(State),
    "type": _read_text,
    "queue": _read_text,
    "priority": lambda value, _: check_priority(value),
    "recur_interval": _read_interval,
    "schedule": _read_id,
    "error_fingerprint": _read_text,
    "internal": _read_truth,
    "id_prefix": _read_prefix,
    "worker": _read_id,
    "recurring": _read_truth,
    "depends_on": _read_id,
    "error": _read_text,
    "payload": _read_payload,
    **{f"{name}_{side}": parse_moment for name in TIMES for side in ("after", "before")},
    **{f"{side}_{name}": _read_number for name in NUMBERS for side in ("min", "max")},
}


def _plain(value: Any) -> Any:
    match value:
        case StrEnum():
            return value.value
        case datetime():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case _:
            return value


def _words(name: str, value: Any) -> str:
    match name, value:
        case "internal", _:
            return "internal jobs only" if value else "no internal jobs"
        case "id_prefix", _:
            return f"id begins with {value}"
        case "recurring", _:
            return "made by a schedule" if value else "not made by a schedule"
        case "error", _:
            return f"error contains {value!r}"
        case "error_fingerprint", _:
            return f"errors of the kind {value}"
        case "payload", _:
            # With what is masked left out: the audit and the console show these words.
            return f"payload has {json.dumps(masked('', value), ensure_ascii=False)}"
        case _, datetime():
            return f"{name.replace('_', ' ')} {value:%Y-%m-%d %H:%M:%S %Z}".rstrip()
        case _, int() if name.startswith("min_"):
            return f"{name[4:].replace('_', ' ')} at least {value}"
        case _, int() if name.startswith("max_"):
            return f"{name[4:].replace('_', ' ')} at most {value}"
        case _:
            return f"{name.replace('_', ' ')} {_plain(value)}"
