"""An axis as JSON, so that a run can be read where the code that declared it is missing."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from jobs.errors import InvalidInput
from ranges.axes.base import Axis
from ranges.axes.data import DataAxis
from ranges.axes.days import DateAxis
from ranges.axes.decimals import DecimalAxis
from ranges.axes.floats import FloatAxis
from ranges.axes.instants import DateTimeAxis
from ranges.axes.integers import IntAxis
from ranges.axes.texts import TextAxis
from ranges.axes.uuids import UUIDAxis

_KINDS: dict[str, Any] = {
    kind.name: kind
    for kind in (
        IntAxis, DateAxis, DateTimeAxis, UUIDAxis, DecimalAxis, FloatAxis, TextAxis, DataAxis,
    )
}  # fmt: skip


def describe(axis: Axis[Any]) -> dict[str, Any]:
    """The type and its options. Of an axis that is not one of ours, the name alone."""
    if type(axis) is not _KINDS.get(axis.name) or not is_dataclass(axis):
        return {"type": axis.name}
    options = {one.name: getattr(axis, one.name) for one in fields(axis) if one.init}
    return {"type": axis.name, **options}


def restore(description: dict[str, Any]) -> Axis[Any]:
    """The axis of a description; InvalidInput if it is none of ours."""
    options = dict(description)
    kind = _KINDS.get(options.pop("type", ""))
    if kind is None:
        raise InvalidInput(f"{description.get('type')!r} is not a known axis", field="axis")
    try:
        axis: Axis[Any] = kind(**options)
    except TypeError:
        raise InvalidInput("has options that this axis does not know", field="axis") from None
    return axis
