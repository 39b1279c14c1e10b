"""A place in the stream: the milliseconds of an entry's id, and its number."""

from __future__ import annotations

import re

from jobs.errors import InvalidInput

type Position = tuple[int, int]

START: Position = (0, 0)

_FORM = re.compile(r"[0-9]{1,20}-[0-9]{1,20}", re.ASCII)
_MOST = 2**64 - 1


def parse(text: object, field: str = "after") -> Position:
    """Raises InvalidInput for what is no id of a stream."""
    if isinstance(text, str) and _FORM.fullmatch(text):
        first, _, second = text.partition("-")
        position = (int(first), int(second))
        if max(position) <= _MOST:
            return position
    raise InvalidInput("must be a position such as 1767225600123-0", field=field)


def write(position: Position) -> str:
    return f"{position[0]}-{position[1]}"
