"""A field of a form for each field of a payload serializer, and the way from one to the other.

The form proposes and the serializer decides: what cannot be read as a number is handed on as it was
typed, and is refused in the serializer's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.fields import empty

from jobs.admin.page import editing
from jobs.errors import InvalidInput
from jobs.registry import Handler

PREFIX = "payload."
LONG_TEXT = 200
MOST_CHOICES = 200

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")


@dataclass(kw_only=True)
class Input:
    name: str
    label: str
    kind: str
    """text, textarea, password, number, choice, choices, truth, moment, date, time, email, url,
    lines or json."""
    required: bool = False
    help: str = ""
    choices: list[tuple[str, str]] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    value: Any = ""
    """As typed: a text; of several choices a list of them."""
    errors: list[str] = field(default_factory=list)
    read: Callable[[str], Any] = str
    """From what was typed to what the payload holds. Raises InvalidInput."""

    @property
    def key(self) -> str:
        return PREFIX + self.name

    @property
    def id(self) -> str:
        return f"payload-{self.name}"


def inputs_of(handler: Handler) -> list[Input]:
    """The fields of the form; empty for a type that takes any JSON."""
    if handler.payload is None:
        return []
    masked = {key.casefold() for key in handler.mask}
    found = []
    for name, each in handler.payload().fields.items():
        if each.read_only or isinstance(each, serializers.HiddenField):
            continue
        made = _input(name, each)
        if name.casefold() in masked and made.kind in ("text", "textarea"):
            made.kind = "password"
        found.append(made)
    return found


def fill(inputs: list[Input], posted: QueryDict) -> None:
    """What was typed, back into the form."""
    for each in inputs:
        if each.key in posted:
            each.value = (
                posted.getlist(each.key) if each.kind == "choices" else posted.get(each.key, "")
            )
        elif each.kind == "choices":
            each.value = []


def payload_of(inputs: list[Input], zone: ZoneInfo) -> dict[str, Any]:
    """The payload that the form stands for; what cannot be read is an error of its field."""
    found: dict[str, Any] = {}
    for each in inputs:
        if each.kind == "choices":
            if each.value or each.required:
                found[each.name] = [each.read(value) for value in each.value]
            continue
        text = str(each.value)
        if not text.strip() and each.kind not in ("text", "textarea", "password"):
            continue
        if not text and not (each.required and each.kind in ("text", "textarea", "password")):
            continue
        try:
            found[each.name] = _aware(text, zone) if each.kind == "moment" else each.read(text)
        except InvalidInput as error:
            each.errors.append(error.message)
    return found


def show(inputs: list[Input], payload: Any, zone: ZoneInfo) -> str:
    """Put a payload into the form; returns why that cannot be done, or ""."""
    if not isinstance(payload, dict):
        return "The payload is not an object: it can only be written as JSON."
    unknown = sorted(payload.keys() - {each.name for each in inputs})
    if unknown:
        return f"The form has no field for {', '.join(unknown)[:200]}: go on in JSON."
    for each in inputs:
        if each.name in payload:
            shown = _typed(each, payload[each.name], zone)
            if shown is None:
                return f"The form cannot show {each.name}: go on in JSON."
            each.value = shown
    return ""


def _input(name: str, each: Any) -> Input:  # noqa: C901, PLR0912 - a case for each kind
    made = Input(
        name=name,
        label=str(each.label or name.replace("_", " ").capitalize()),
        kind="text",
        required=bool(each.required),
        help=_help(each),
        value=_default(each),
    )
    # The order matters: some of these classes are made from others.
    match each:
        case serializers.MultipleChoiceField():
            made.kind, made.choices, made.read = "choices", _choices(each), _choice(each)
        case serializers.ChoiceField() if len(each.choices) <= MOST_CHOICES:
            made.kind, made.choices, made.read = "choice", _choices(each), _choice(each)
        case serializers.BooleanField():
            made.kind, made.read = "truth", _truth
            made.choices = [("true", "yes"), ("false", "no")]
        case serializers.IntegerField():
            made.kind, made.read = "number", _integer
            made.attributes = _bounds(each) | {"step": "1"}
        case serializers.FloatField():
            made.kind, made.read = "number", _float
            made.attributes = _bounds(each) | {"step": "any"}
        case serializers.DecimalField():
            made.kind, made.attributes = "number", _bounds(each) | {"step": "any"}
        case serializers.DateTimeField():
            made.kind = "moment"
        case serializers.DateField():
            made.kind = "date"
        case serializers.TimeField():
            made.kind = "time"
        case serializers.EmailField():
            made.kind = "email"
        case serializers.URLField():
            made.kind = "url"
        case serializers.ListField() if _is_plain(each.child):
            made.kind, made.read = "lines", _lines(each.child)
            made.help = f"One on each line. {made.help}".strip()
        case serializers.ListField() | serializers.DictField() | serializers.JSONField():
            made.kind, made.read = "json", editing.parse
            made.help = f"As JSON. {made.help}".strip()
        case serializers.BaseSerializer():
            made.kind, made.read = "json", editing.parse
            made.help = f"As JSON. {made.help}".strip()
        case serializers.CharField():
            is_long = "textarea" in str(each.style.get("base_template", ""))
            if is_long or each.max_length is None or each.max_length > LONG_TEXT:
                made.kind = "textarea"
            if each.max_length is not None:
                made.attributes = {"maxlength": str(each.max_length)}
    return made


def _help(each: Any) -> str:
    parts = [str(each.help_text).rstrip(".") + "."] if each.help_text else []
    low, high = getattr(each, "min_value", None), getattr(each, "max_value", None)
    if low is not None and high is not None:
        parts.append(f"From {low} to {high}.")
    elif low is not None:
        parts.append(f"At least {low}.")
    elif high is not None:
        parts.append(f"At most {high}.")
    return " ".join(parts)


def _default(each: Any) -> Any:
    value = each.default
    if value is empty or callable(value) or value is None:
        return [] if isinstance(each, serializers.MultipleChoiceField) else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict | tuple):
        if isinstance(each, serializers.MultipleChoiceField):
            return [str(item) for item in value]
        if isinstance(each, serializers.ListField) and _is_plain(each.child):
            return "\n".join(str(item) for item in value)
        return editing.text_of(value)
    return str(value)


def _bounds(each: Any) -> dict[str, str]:
    found = {"min": each.min_value, "max": each.max_value}
    return {name: str(value) for name, value in found.items() if value is not None}


def _choices(each: Any) -> list[tuple[str, str]]:
    return [(str(value), str(label)) for value, label in each.choices.items()]


def _choice(each: Any) -> Callable[[str], Any]:
    known = {str(value): value for value in each.choices}
    return lambda text: known.get(text, text)


def _truth(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


def _integer(text: str) -> Any:
    return int(text) if _INTEGER.match(text.strip()) else text


def _float(text: str) -> Any:
    if _INTEGER.match(text.strip()):
        return int(text)
    return float(text) if _NUMBER.match(text.strip()) else text


def _is_plain(child: Any) -> bool:
    return isinstance(
        child,
        serializers.CharField
        | serializers.IntegerField
        | serializers.FloatField
        | serializers.UUIDField,
    )


def _lines(child: Any) -> Callable[[str], Any]:
    read: Callable[[str], Any] = str
    if isinstance(child, serializers.IntegerField):
        read = _integer
    elif isinstance(child, serializers.FloatField):
        read = _float
    return lambda text: [read(line.strip()) for line in text.splitlines() if line.strip()]


def _aware(text: str, zone: ZoneInfo) -> str:
    """With the zone's offset: what is stored must mean the same on every server."""
    try:
        at = parse_datetime(text)
    except ValueError:
        return text
    if at is None:
        return text
    return (at if at.tzinfo else at.replace(tzinfo=zone)).isoformat()


def _typed(each: Input, value: Any, zone: ZoneInfo) -> Any:
    """A value of the payload as one would type it; None if one could not."""
    match each.kind:
        case "json":
            return editing.text_of(value)
        case "choices":
            return [str(item) for item in value] if isinstance(value, list) else None
        case "lines":
            if not isinstance(value, list) or any(isinstance(v, dict | list) for v in value):
                return None
            return "\n".join(str(item) for item in value)
        case "truth":
            return {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
        case "choice":
            return str(value) if str(value) in dict(each.choices) else None
        case "moment":
            return _local(value, zone)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _local(value: Any, zone: ZoneInfo) -> str | None:
    """Only without seconds' fractions and zone can the browser's field show it."""
    if not isinstance(value, str):
        return None
    try:
        at = parse_datetime(value)
    except ValueError:
        at = None
    if at is None or at.microsecond:
        return None
    shown: datetime = at.astimezone(zone) if at.tzinfo else at
    return shown.replace(tzinfo=None).isoformat()
