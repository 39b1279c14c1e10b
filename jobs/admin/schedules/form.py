"""The form of a schedule: texts as they were typed, and what they ask for.

Of a schedule that exists only those fields are changed that the person has changed: what somebody
else changed meanwhile stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import schedules
from jobs.admin.page.editing import parse, text_of
from jobs.errors import CoppiceError, InvalidInput
from jobs.masking import Reader, restored
from jobs.models import Schedule
from jobs.schedules import Run

PREVIEWED = 10
UNITS = ("seconds", "minutes", "hours", "days")
TIMING = ("how", "every", "unit", "cron", "time_zone", "anchor_at")
PLAIN = ("name", "type", "queue", "misfire", "on_parent_failure")
NUMBERS = ("priority", "max_attempts")
FIELDS = (*PLAIN, *NUMBERS, *TIMING, "overlap", "payload")
DEFAULTS = {
    "name": "", "type": "", "queue": "", "misfire": "once", "on_parent_failure": "wait",
    "priority": "", "max_attempts": "", "how": "interval", "every": "1", "unit": "hours",
    "cron": "", "time_zone": "UTC", "anchor_at": "", "overlap": "", "payload": "{}",
}  # fmt: skip
LABELS = {"recur_interval": "every", "allow_overlap": "overlap"}
"""Fields of the product, by the name of the form's field that stands for them."""
WAS = "was"


@dataclass
class Form:
    texts: dict[str, str]
    was: dict[str, str] = field(default_factory=dict)
    """What the fields held when the page was made; empty for a new schedule."""
    problems: dict[str, str] = field(default_factory=dict)
    """By the form's field; "" for what belongs to none."""
    reads: bool = True
    """Whether there is a payload field."""
    schedule: Schedule | None = None
    """The one that is changed."""
    source: Schedule | None = None
    """The one whose payload is meant where the text has masks."""

    @property
    def seen(self) -> str:
        """`was` for the page."""
        return json.dumps({name: _mark(name, self.texts[name]) for name in FIELDS})

    @property
    def was_text(self) -> str:
        return json.dumps(self.was)

    def refuse(self, error: CoppiceError) -> None:
        name = getattr(error, "field", "").partition(".")[0].partition("[")[0]
        name = LABELS.get(name, name)
        known = name if name in FIELDS else ""
        self.problems[known] = getattr(error, "message", str(error)) if known else str(error)

    # What it asks for. Each raises InvalidInput.

    def rule(self) -> dict[str, Any]:
        """The arguments of `schedules.create` and `unsaved` that are about time."""
        texts = self.texts
        found: dict[str, Any] = {"recur_interval": None, "cron": None}
        if texts["how"] == "cron":
            found["cron"] = texts["cron"].strip()
            found["time_zone"] = texts["time_zone"].strip() or "UTC"
        else:
            found["recur_interval"] = _interval(texts["every"], texts["unit"])
        if texts["anchor_at"]:
            found["anchor_at"] = _moment(texts["anchor_at"])
        return found

    def preview(self) -> list[Run]:
        rule = self.rule()
        if self.schedule is not None:
            rule.setdefault("anchor_at", self.schedule.anchor_at)
        return schedules.preview(schedules.unsaved(**rule), PREVIEWED)

    def new(self) -> dict[str, Any]:
        """The arguments of `schedules.create`."""
        texts = self.texts
        found: dict[str, Any] = {name: texts[name].strip() for name in PLAIN}
        found["queue"] = found["queue"] or None
        for name in NUMBERS:
            found[name] = _number(texts[name], name) if texts[name].strip() else None
        found["allow_overlap"] = bool(texts["overlap"])
        return {**found, "payload": self._payload(), **self.rule()}

    def changes(self) -> dict[str, Any]:
        """The arguments of `schedules.change`: of the fields that differ from what they were."""
        texts = self.texts
        differs = {name for name in FIELDS if _mark(name, texts[name]) != self.was.get(name)}
        found: dict[str, Any] = {name: texts[name].strip() for name in PLAIN if name in differs}
        for name in NUMBERS:
            if name in differs:
                found[name] = _number(texts[name], name)
        if "overlap" in differs:
            found["allow_overlap"] = bool(texts["overlap"])
        if differs & set(TIMING):
            found |= self.rule()
        if "payload" in differs and self.reads:
            found["payload"] = self._payload()
        return found

    def _payload(self) -> Any:
        stored = self.source.payload if self.source else None
        if not self.reads:
            return stored if self.source else {}
        return restored(self.texts["type"].strip(), parse(self.texts["payload"]), stored)


def blank(*, reads: bool) -> Form:
    return Form(texts=dict(DEFAULTS), reads=reads)


def of_schedule(schedule: Schedule, reader: Reader, *, is_copy: bool = False) -> Form:
    """The form of one that exists, or of a new one like it."""
    texts = {
        **DEFAULTS,
        **{name: str(getattr(schedule, name)) for name in (*PLAIN, *NUMBERS)},
        "how": "cron" if schedule.cron else "interval",
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "overlap": "yes" if schedule.allow_overlap else "",
        "payload": "",
    }
    if schedule.interval_seconds:
        texts["every"], texts["unit"] = _parts(schedule.interval_seconds)
    if reader.reads:
        texts["payload"] = text_of(reader.value(schedule.type, schedule.payload))
    if is_copy:
        texts["name"] = f"{schedule.name[:193]} (copy)"
        return Form(texts=texts, reads=reader.reads, source=schedule)
    return Form(texts=texts, reads=reader.reads, schedule=schedule, source=schedule)


def given(
    post: Mapping[str, str], *, reads: bool, schedule: Schedule | None, source: Schedule | None
) -> Form:
    texts = {name: post.get(name, "") for name in FIELDS}
    try:
        was = json.loads(post.get(WAS, "") or "{}")
    except ValueError:
        was = {}
    was = was if isinstance(was, dict) else {}
    return Form(texts=texts, was=was, reads=reads, schedule=schedule, source=source or schedule)


def _mark(name: str, text: str) -> str:
    """Short, and blind to how the browser ends its lines."""
    plain = text.replace("\r\n", "\n")
    return hashlib.sha256(plain.encode()).hexdigest() if name == "payload" else plain


def _parts(seconds: int) -> tuple[str, str]:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds % size == 0:
            return str(seconds // size), unit
    return str(seconds), "seconds"


def _interval(every: str, unit: str) -> str:
    number = every.strip()
    if not number.isascii() or not number.isdecimal() or int(number[:18]) < 1:
        raise InvalidInput("must be a whole number, 1 or more", field="every")
    if unit not in UNITS:
        raise InvalidInput("must be seconds, minutes, hours or days", field="unit")
    return f"every_{int(number[:18])}_{unit[:-1] if int(number[:18]) == 1 else unit}"


def _number(text: str, name: str) -> int:
    plain = text.strip()
    if not plain.isascii() or not plain.isdecimal() or len(plain) > 9:
        raise InvalidInput("must be a whole number", field=name)
    return int(plain)


def _moment(text: str) -> Any:
    """A date-and-time field's value, in the zone that the page shows times in."""
    try:
        found = parse_datetime(text)
        if found is None:
            raise ValueError
        return found if found.tzinfo else timezone.make_aware(found)
    except (ValueError, OverflowError):
        raise InvalidInput("must be a date and time", field="anchor_at") from None
