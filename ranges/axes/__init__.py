"""The arithmetic of key types: where a key lies, what is halfway, how large a range is."""

from ranges.axes.base import Axis, OrdinalAxis
from ranges.axes.data import DataAxis
from ranges.axes.days import DateAxis
from ranges.axes.decimals import DecimalAxis
from ranges.axes.fields import axis_for_field
from ranges.axes.floats import FloatAxis
from ranges.axes.instants import DateTimeAxis
from ranges.axes.integers import IntAxis
from ranges.axes.spans import (
    DateRange,
    DateTimeRange,
    DecimalRange,
    FloatRange,
    IntRange,
    Span,
    TextRange,
    UUIDRange,
    check_bounds,
)
from ranges.axes.stored import describe, restore
from ranges.axes.texts import TextAxis
from ranges.axes.uuids import UUIDAxis

__all__ = [
    "Axis",
    "DataAxis",
    "DateAxis",
    "DateRange",
    "DateTimeAxis",
    "DateTimeRange",
    "DecimalAxis",
    "DecimalRange",
    "FloatAxis",
    "FloatRange",
    "IntAxis",
    "IntRange",
    "OrdinalAxis",
    "Span",
    "TextAxis",
    "TextRange",
    "UUIDAxis",
    "UUIDRange",
    "axis_for_field",
    "check_bounds",
    "describe",
    "restore",
]
