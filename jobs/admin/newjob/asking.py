"""What the form says, as the API would be told it; and what is wrong with it, by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import registry
from jobs.admin.newjob import inputs as fields
from jobs.admin.newjob.inputs import Input
from jobs.admin.page import editing
from jobs.api.job.input import job_options
from jobs.drafts import check_options, check_payload
from jobs.errors import InvalidInput
from jobs.payloads import check_text
from jobs.registry import Handler
from jobs.schedules.editing import describe, unsaved
from jobs.schedules.previewing import Run, preview
from jobs.timing import CronRule

FORM, JSON = "form", "json"
RUNS = 5
PLAIN = ("queue", "priority", "at", "zone", "depends_on", "on_parent_failure", "max_attempts")
MORE = ("unique_key", "metadata", "every", "unit", "cron", "cron_zone")
DEFAULTS = {
    "start": "now",
    "recurs": "once",
    "unit": "minutes",
    "on_parent_failure": "wait",
    "cron_zone": CronRule.time_zone,
}
UNITS = ("seconds", "minutes", "hours", "days")

# Which field of the form an error of enqueue's belongs to.
PLACES = {"scheduled_at": "at", "recur_interval": "every", "time_zone": "cron_zone"}


@dataclass(kw_only=True)
class Form:
    type: str = ""
    handler: Handler | None = None
    mode: str = FORM
    """How the payload is given."""
    inputs: list[Input] = field(default_factory=list)
    text: str = "{}"
    """The payload as JSON, where it is given so."""
    values: dict[str, str] = field(default_factory=dict)
    """Everything else, as typed."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    """By field; "" is about the whole."""
    runs: list[Run] = field(default_factory=list)
    """The next ones."""
    rule: str = ""
    """The rule in words."""
    at: datetime | None = None
    """When it is to start, if later."""
    checked: bool = False

    @property
    def is_json(self) -> bool:
        return self.mode == JSON or not self.inputs

    @property
    def zone(self) -> ZoneInfo:
        name = self.values.get("zone", "")
        try:
            return ZoneInfo(name) if name else ZoneInfo(timezone.get_current_timezone_name())
        except (ValueError, OSError, KeyError):
            return ZoneInfo("UTC")

    @property
    def has_errors(self) -> bool:
        return bool(self.errors) or any(each.errors for each in self.inputs)

    def wrong(self, name: str, message: str) -> None:
        self.errors.setdefault(PLACES.get(name, name), []).append(message)


def blank(given: QueryDict) -> Form:
    """A form that was not sent yet; the address may fill in some of it."""
    return _form(
        given, {**DEFAULTS, **{name: str(given[name]) for name in _names() if name in given}}
    )


def sent(posted: QueryDict) -> Form:
    """A form as it was sent."""
    made = _form(posted, {name: posted.get(name, DEFAULTS.get(name, "")) for name in _names()})
    fields.fill(made.inputs, posted)
    return made


def types() -> list[str]:
    """Those that may be asked for by hand."""
    return [name for name in registry.types() if not registry.is_internal(name)]


def turn(form: Form, mode: str) -> None:
    """Give the payload the other way, with what was said so far."""
    if mode == JSON:
        payload = fields.payload_of(form.inputs, form.zone)
        for each in form.inputs:
            each.errors.clear()
        form.text, form.mode = editing.text_of(payload), JSON
        return
    try:
        payload = editing.parse(form.text)
    except InvalidInput as error:
        form.mode = JSON
        form.wrong("payload", error.message)
        return
    problem = fields.show(form.inputs, payload, form.zone)
    form.mode = JSON if problem else FORM
    if problem:
        form.wrong("payload", problem)


def options(form: Form) -> dict[str, Any]:
    """What `enqueue` is called with. All that is wrong is noted in the form, which then has errors."""
    form.checked = True
    asked: dict[str, Any] = {"type": form.type}
    if form.handler is None:
        form.wrong("type", "must be one of those that this server knows")
        return asked
    payload = _payload(form)
    asked |= _plain(form)
    try:
        asked = job_options(asked)
        chosen = {name: value for name, value in asked.items() if name in _OPTIONS}
        check_options(form.type, **chosen)
        if "unique_key" in asked:
            check_text(asked["unique_key"], "unique_key", max_length=200)
    except InvalidInput as error:
        form.wrong(_known(error.field), error.message)
    _preview(form, asked)
    return {**asked, "payload": payload}


_OPTIONS = (
    "queue", "priority", "max_attempts", "metadata", "scheduled_at", "on_parent_failure", "depends_on",
)  # fmt: skip


def refused(form: Form, error: InvalidInput) -> None:
    """Note what enqueue itself refused."""
    if error.field.startswith("payload.") and not form.is_json:
        name = error.field.split(".")[1]
        for each in form.inputs:
            if each.name == name:
                each.errors.append(error.message)
                return
    form.wrong(_known(error.field), _said(error))


def _said(error: InvalidInput) -> str:
    rest = error.field.removeprefix("payload").strip(".")
    return f"{rest}: {error.message}" if error.field.startswith("payload.") else error.message


def _known(name: str) -> str:
    name = PLACES.get(name, name).partition(".")[0]
    return name if name in {"type", "payload", *_names()} else ""


def _names() -> tuple[str, ...]:
    return (*PLAIN, *MORE, "start", "recurs")


def _form(given: QueryDict, values: dict[str, str]) -> Form:
    type = given.get("type", "")
    handler = registry.find(type) if type in types() else None
    made = Form(type=type[:100], handler=handler, values=values)
    if handler is not None:
        made.inputs = fields.inputs_of(handler)
        made.values["priority"] = values.get("priority") or str(handler.priority)
    made.mode = JSON if given.get("mode") == JSON else FORM
    made.text = given.get("payload", "{}")
    return made


def _payload(form: Form) -> Any:
    if not form.is_json:
        payload = fields.payload_of(form.inputs, form.zone)
        _ask_serializer(form, payload)
        return payload
    try:
        payload = editing.parse(form.text)
        assert form.handler is not None
        check_payload(form.handler, payload)
    except InvalidInput as error:
        form.wrong("payload", _said(error))
        return None
    return payload


def _ask_serializer(form: Form, payload: dict[str, Any]) -> None:
    """Every fault at once, each beside its field."""
    assert form.handler is not None
    serializer = form.handler.payload(data=payload)
    by_name = {each.name: each for each in form.inputs}
    if not serializer.is_valid():
        for name, errors in serializer.errors.items():
            words = _flat(errors)
            if name in by_name:
                if not by_name[name].errors:  # one that could not be read says why already
                    by_name[name].errors += words
            else:
                for word in words:
                    form.wrong("payload", word)
        return
    if not any(each.errors for each in form.inputs):
        try:
            check_payload(form.handler, payload)
        except InvalidInput as error:
            refused(form, error)


def _flat(errors: Any, place: str = "") -> list[str]:
    if isinstance(errors, dict):
        return [w for key, each in errors.items() for w in _flat(each, f"{place}{key}: ")]
    if isinstance(errors, list):
        nested = any(isinstance(each, dict | list) for each in errors)
        return [
            word
            for at, each in enumerate(errors)
            for word in _flat(each, f"{place}{at}: " if nested else place)
        ]
    return [f"{place}{errors}"]


def _plain(form: Form) -> dict[str, Any]:
    """The options that were given, with what could not be read noted."""
    values = {name: value.strip() for name, value in form.values.items()}
    found: dict[str, Any] = {}
    for name in ("queue", "unique_key"):
        if values.get(name):
            found[name] = values[name]
    for name in ("priority", "max_attempts"):
        if text := values.get(name):
            found[name] = int(text) if text.isdecimal() and len(text) < 19 else text
    if ids := values.get("depends_on", "").replace(",", " ").split():
        found["depends_on"] = ids
        found["on_parent_failure"] = values["on_parent_failure"]
    if text := values.get("metadata"):
        try:
            found["metadata"] = editing.parse(text)
        except InvalidInput as error:
            form.wrong("metadata", error.message)
    if values["start"] == "at":
        form.at = _moment(form, values.get("at", ""))
        if form.at is not None:
            found["scheduled_at"] = form.at.isoformat()
    return found | _rule(form, values)


def _rule(form: Form, values: dict[str, str]) -> dict[str, Any]:
    match values["recurs"]:
        case "every":
            number, unit = values.get("every", ""), values.get("unit", "")
            if not number.isdecimal() or unit not in UNITS:
                form.wrong("every", "must be a whole number from 1, and a unit")
                return {}
            return {"recur_interval": f"every_{number}_{unit}"}
        case "cron":
            if not values.get("cron"):
                form.wrong("cron", "must be given")
                return {}
            zone = values.get("cron_zone", "")
            return {"cron": values["cron"], **({"time_zone": zone} if zone else {})}
        case _:
            return {}


def _moment(form: Form, text: str) -> datetime | None:
    try:
        at = parse_datetime(text)
    except ValueError:
        at = None
    if at is None:
        form.wrong("at", "must be a date and a time")
        return None
    return at if at.tzinfo else at.replace(tzinfo=form.zone)


def _preview(form: Form, asked: dict[str, Any]) -> None:
    rule = {name: asked.get(name) for name in ("recur_interval", "cron", "time_zone")}
    if rule["recur_interval"] is None and rule["cron"] is None:
        return
    if asked.get("unique_key") is not None:
        form.wrong("unique_key", "cannot be given for a recurring job")
    try:
        schedule = unsaved(**rule, anchor_at=asked.get("scheduled_at"))
        form.runs = preview(schedule, RUNS)
        form.rule = describe(schedule)
    except InvalidInput as error:
        form.wrong(_known(error.field), error.message)
