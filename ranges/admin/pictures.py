"""What the drawing of a run is made of: strips of coverage and the blocks of its tree, in shares.

`static/ranges/layout.js` makes rectangles of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jobs.errors import InvalidInput
from ranges.admin.scale import Scale, Window, written
from ranges.drawing import coverage, tree
from ranges.models import RangeRun

BUCKETS = 1_024
TABLE_ROWS = 20
DEPTH = 9
"""Levels that are drawn below a window's own."""
DEEPEST = 200
FINEST = 1 / 3_000
"""Of the window: what is narrower than that is not drawn as a block."""
PARTS = ("processed", "skipped", "failed", "left")


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A twentieth of the window, in words."""

    first: Any
    upto: Any
    begin: float
    end: float
    state: str
    processed: int
    skipped: int
    failed: int
    left: int

    @property
    def words(self) -> str:
        return written(self.first)


def picture(run: RangeRun, scale: Scale, window: Window) -> dict[str, Any]:
    whole = _strip(run, None)
    return {
        "begin": window.begin,
        "end": window.end,
        "from": window.first,
        "to": window.upto,
        "status": run.status,
        "whole": whole,
        "strip": whole if window.is_whole else _strip(run, window),
        "blocks": list(_blocks(run, scale, window)),
    }


def table(run: RangeRun, scale: Scale, window: Window) -> list[TableRow]:
    """The window in at most 20 equal rows, for who cannot see the drawing."""
    buckets = coverage(run, window.first, window.upto, TABLE_ROWS)["buckets"]
    width = window.end - window.begin
    edges = [window.begin + width * place / len(buckets) for place in range(len(buckets) + 1)]
    keys = [bucket["lo"] for bucket in buckets] + [window.upto]
    if buckets and keys[0] is None:  # text: keys are not cut evenly
        keys = [scale.key(scale.at(edge)) for edge in edges]
        keys[0], keys[-1] = window.first, window.upto
    return [
        TableRow(
            first=keys[place],
            upto=keys[place + 1],
            begin=edges[place],
            end=edges[place + 1],
            state=bucket["state"],
            **{name: int(bucket[name]) for name in PARTS},
        )
        for place, bucket in enumerate(buckets)
    ]


@dataclass(frozen=True, kw_only=True)
class Passed:
    """A part of the range that was passed over as a whole."""

    first: Any
    upto: Any
    begin: float
    end: float
    keys: int
    place: int
    """Its first part of 1,024."""

    @property
    def words(self) -> str:
        return f"{written(self.first)} to {'the end' if self.upto is None else written(self.upto)}"

    @property
    def percent(self) -> float:
        return 100 * (self.end - self.begin)


def skipped(run: RangeRun, scale: Scale) -> list[Passed]:
    """In the order of the keys, as fine as a run keeps it: to one part in 1,024."""
    buckets = coverage(run, None, None, BUCKETS)["buckets"]
    edges = [place / len(buckets) for place in range(len(buckets) + 1)]
    whole = scale.whole()
    found = []
    for is_skipped, group in groupby(
        enumerate(buckets), key=lambda each: each[1]["state"] == "skipped"
    ):
        if not is_skipped:
            continue
        places = [place for place, _ in group]
        first, last = places[0], places[-1] + 1
        found.append(
            Passed(
                first=_key_at(scale, buckets, edges, first),
                upto=whole.upto if last == len(buckets) else _key_at(scale, buckets, edges, last),
                begin=edges[first],
                end=edges[last],
                keys=sum(int(buckets[place]["skipped"]) for place in places),
                place=first,
            )
        )
    return found


def page_of(
    found: list[Passed], *, after: str, before: str, size: int
) -> tuple[list[Passed], bool, bool]:
    """At most `size` of them, and whether there are some before and behind. Raises InvalidInput."""
    if before:
        earlier = [each for each in found if each.place < _place(before)]
        return earlier[-size:], len(earlier) > size, True
    later = [each for each in found if each.place > _place(after)] if after else found
    return later[:size], bool(after), len(later) > size


def summary(rows: list[TableRow]) -> str:
    """The window in a sentence."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in PARTS}
    total = sum(sums.values())
    if not total:
        return "No keys."
    words = {"processed": "done", "skipped": "skipped", "failed": "failed", "left": "left"}
    parts = [f"{_percent(sums[name], total)} {word}" for name, word in words.items() if sums[name]]
    failing = sum(row.failed > 0 for row in rows)
    more = f" Failures in {failing} of {len(rows)} parts." if failing else ""
    return f"{', '.join(parts)}.{more}"


def _key_at(scale: Scale, buckets: list[dict[str, Any]], edges: list[float], place: int) -> Any:
    """Of text a bucket has no key: keys are not cut evenly."""
    key = buckets[place]["lo"]
    return scale.key(scale.at(edges[place])) if key is None else key


def _place(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise InvalidInput("is not the place of a page", field="after")
    return int(text)


def _strip(run: RangeRun, window: Window | None) -> list[list[Any]]:
    """Neighbours that look alike are one: [how many, state, done, skipped, failed, left].

    The last four are in thousandths of the bucket; what is there at all is at least one.
    """
    lo, hi = (None, None) if window is None else (window.first, window.upto)
    buckets = coverage(run, lo, hi, BUCKETS)["buckets"]
    looks = [(bucket["state"], *_thousandths(bucket)) for bucket in buckets]
    return [[len(list(group)), *look] for look, group in groupby(looks)]


def _thousandths(bucket: dict[str, Any]) -> list[int]:
    parts = [int(bucket[name]) for name in PARTS]
    total = sum(parts) or 1
    return [-(-1_000 * part // total) for part in parts]


def _blocks(run: RangeRun, scale: Scale, window: Window) -> Iterator[dict[str, Any]]:
    finest = (window.end - window.begin) * FINEST
    for root in _roots(run, window):
        waiting = [root]
        while waiting:
            block = waiting.pop()
            waiting += block.pop("children", [])
            lo = scale.lo if block["lo"] is None else scale.position(block["lo"], "lo")
            hi = scale.hi if block["hi"] is None else scale.position(block["hi"], "hi")
            block["begin"], block["end"] = scale.share(lo), scale.share(hi)
            is_seen = block["end"] > window.begin and block["begin"] < window.end
            if is_seen and block["end"] - block["begin"] >= finest:
                yield block


def _roots(run: RangeRun, window: Window) -> list[dict[str, Any]]:
    """The few blocks that the window lies in, as large as itself, with what is below each."""
    width = max(window.end - window.begin, 2.0**-DEEPEST)
    level = min(DEEPEST, max(0, math.floor(-math.log2(width))))
    while level > 0:
        first = math.floor(window.begin * 2**level)
        last = min(2**level - 1, math.ceil(window.end * 2**level) - 1)
        paths = [f"{place:0{level}b}" for place in range(first, max(first, last) + 1)]
        try:
            return [tree(run, DEPTH, path=path) for path in paths]
        except InvalidInput:  # no block lies so deep
            level -= 1
    return [tree(run, DEPTH)]


def _percent(part: int, total: int) -> str:
    share = 100 * part / total
    return (
        f"{share:.1f} %"
        if 0.1 <= share <= 99.9 or share == 100
        else ("under 0.1 %" if share < 1 else "over 99.9 %")
    )
