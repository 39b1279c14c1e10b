"""What an application imports: `from ranges import RangeJob, Leaf, IntRange, ...`.

Names are loaded on first use, so that the pure modules can be imported without Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranges.axes import Axis as Axis
    from ranges.axes import DateRange as DateRange
    from ranges.axes import DateTimeRange as DateTimeRange
    from ranges.axes import DecimalRange as DecimalRange
    from ranges.axes import FloatRange as FloatRange
    from ranges.axes import IntRange as IntRange
    from ranges.axes import OrdinalAxis as OrdinalAxis
    from ranges.axes import Span as Span
    from ranges.axes import TextRange as TextRange
    from ranges.axes import UUIDRange as UUIDRange
    from ranges.blocks import Block as Block
    from ranges.declaring import RangeJob as RangeJob
    from ranges.leaf_range import HandBack as HandBack
    from ranges.leaf_range import LeafContext as LeafContext
    from ranges.leaf_range import LeafRange as LeafRange
    from ranges.memory import MemoryRun as MemoryRun
    from ranges.reports import Statistics as Statistics
    from ranges.retrying import RetryPolicy as RetryPolicy
    from ranges.retrying import exponential as exponential
    from ranges.retrying import fixed as fixed
    from ranges.retrying import linear as linear
    from ranges.sizing import Leaf as Leaf
    from ranges.sources import ProbeTimeout as ProbeTimeout
    from ranges.sources import Source as Source

_HOMES = {
    "Axis": "ranges.axes",
    "Block": "ranges.blocks",
    "DateRange": "ranges.axes",
    "DateTimeRange": "ranges.axes",
    "DecimalRange": "ranges.axes",
    "FloatRange": "ranges.axes",
    "HandBack": "ranges.leaf_range",
    "IntRange": "ranges.axes",
    "Leaf": "ranges.sizing",
    "LeafContext": "ranges.leaf_range",
    "LeafRange": "ranges.leaf_range",
    "MemoryRun": "ranges.memory",
    "OrdinalAxis": "ranges.axes",
    "ProbeTimeout": "ranges.sources",
    "RangeJob": "ranges.declaring",
    "RetryPolicy": "ranges.retrying",
    "Source": "ranges.sources",
    "Span": "ranges.axes",
    "Statistics": "ranges.reports",
    "TextRange": "ranges.axes",
    "UUIDRange": "ranges.axes",
    "exponential": "ranges.retrying",
    "fixed": "ranges.retrying",
    "linear": "ranges.retrying",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ranges' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
