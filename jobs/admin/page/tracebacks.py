"""A traceback with the frames of libraries folded away. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

_FRAME = re.compile(r'\s*(?:\|\s*)?File "([^"]*)", line \d+')
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python3")
_OURS = tuple(
    f"{Path(__file__).resolve().parents[3] / name}/" for name in ("jobs", "worker", "ranges")
)
LONGEST = 200_000


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Consecutive frames of one kind, or what stands around frames."""

    text: str
    frames: int = 0
    is_library: bool = False


def pieces(traceback: str) -> list[Piece]:
    """The text, whole and in order, in pieces."""
    blocks = list(_blocks(traceback[:LONGEST]))
    found = []
    for is_library, group in groupby(blocks, key=lambda block: block[0]):
        parts = [text for _, text in group]
        found.append(
            Piece(
                text="\n".join(parts),
                frames=len(parts) if is_library else 0,
                is_library=is_library,
            )
        )
    return found


def _blocks(traceback: str) -> Iterator[tuple[bool, str]]:
    """(is it a library's frame, text) for each frame, and for each line outside of frames."""
    frame: list[str] = []
    for line in traceback.rstrip("\n").split("\n"):
        starts = _FRAME.match(line)
        inside = bool(frame) and not starts and line.startswith((" " * 4, "  |     "))
        if inside:
            frame.append(line)
            continue
        if frame:
            yield _is_library(frame[0]), "\n".join(frame)
            frame = []
        if starts:
            frame = [line]
        else:
            yield False, line
    if frame:
        yield _is_library(frame[0]), "\n".join(frame)


def _is_library(line: str) -> bool:
    found = _FRAME.match(line)
    path = found[1] if found else ""
    return any(each in path for each in _LIBRARIES) or path.startswith(_OURS)
