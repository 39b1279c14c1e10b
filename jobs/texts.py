"""Text from handlers and strangers, made safe to store, short enough to show, and groupable.

PostgreSQL refuses NUL and lone surrogates, and an error text can be of any size. Nothing here
raises, whatever the exception or the text is.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Iterator
from types import TracebackType

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ERROR_LIMIT = 2_000
TRACEBACK_LIMIT = 20_000

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str, limit: int, *, middle: bool = False) -> str:
    """At most `limit` characters that PostgreSQL can store.

    NUL and lone surrogates become U+FFFD. What is too long loses its end (or its middle) and
    gets a mark that says how much is missing.
    """
    if len(text) > limit:
        text = _cut(text, limit, middle)
    return _UNSTORABLE.sub(REPLACEMENT, text)


def _cut(text: str, limit: int, middle: bool) -> str:
    mark = f"… [{len(text) - limit:,} characters or more cut] …" if middle else "…"
    if len(mark) > limit:
        return "…"[: max(limit, 0)]
    kept = limit - len(mark)
    tail = kept // 2 if middle else 0
    return text[: kept - tail] + mark + text[len(text) - tail :]


# Errors


def describe_error(error: BaseException, limit: int = ERROR_LIMIT) -> str:
    """ "ValueError: message", also when the exception cannot tell its message."""
    name = type(error).__name__
    try:
        message = str.__str__(str(error))
    except Exception as second:  # noqa: BLE001 - a broken __str__ must not hide the failure
        message = f"<its message could not be read: {type(second).__name__}>"
    return clean(f"{name}: {message}" if message else name, limit)


_FIRST_FRAMES = 8
_LAST_FRAMES = 24
_CHAIN = 8
_GROUP_WIDTH = 8
_GROUP_DEPTH = 3
_NOTES = 8

_CAUSE = "The exception above was the direct cause of this one:"
_CONTEXT = "While the exception above was handled, this one was raised:"


def format_traceback(error: BaseException, limit: int = TRACEBACK_LIMIT) -> str:
    """The traceback with its causes, oldest first, in at most `limit` characters.

    Work is bounded before text is: of a deep stack, a long chain or a wide group only the two
    ends (or the first few) are read.
    """
    try:
        lines = list(_chain_lines(error, depth=0))
    except Exception as second:  # noqa: BLE001 - say a source file that cannot be read
        lines = [f"{describe_error(error)}", f"(no traceback: {type(second).__name__})"]
    return clean("\n".join(lines), limit, middle=True)


def _chain_lines(error: BaseException, depth: int) -> Iterator[str]:
    chain, more = _chain(error)
    if more:
        yield "(older exceptions of the chain are left out)"
        yield ""
    for current, link in reversed(chain):
        yield from _one_error(current, depth)
        if link:
            yield from ("", link, "")


def _chain(error: BaseException) -> tuple[list[tuple[BaseException, str]], bool]:
    """The newest errors of the chain, newest first, each with the line that follows it."""
    chain: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    current: BaseException | None = error
    link = ""
    while current is not None and id(current) not in seen:
        if len(chain) == _CHAIN:
            return chain, True
        chain.append((current, link))
        seen.add(id(current))
        if current.__cause__ is not None:
            current, link = current.__cause__, _CAUSE
        elif not current.__suppress_context__:
            current, link = current.__context__, _CONTEXT
        else:
            current = None
    return chain, False


def _one_error(error: BaseException, depth: int) -> Iterator[str]:
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        yield from _frames(error.__traceback__)
    yield describe_error(error)
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list | tuple):
        for note in notes[:_NOTES]:
            yield clean(note, ERROR_LIMIT) if isinstance(note, str) else "<a note that is no text>"
    if isinstance(error, BaseExceptionGroup):
        yield from _group(error, depth)


def _group(group: BaseExceptionGroup[BaseException], depth: int) -> Iterator[str]:
    if depth == _GROUP_DEPTH:
        yield f"  ({len(group.exceptions)} exceptions deeper in the group are left out)"
        return
    for number, member in enumerate(group.exceptions[:_GROUP_WIDTH], start=1):
        yield f"  --- {number} of {len(group.exceptions)} ---"
        for text in _chain_lines(member, depth + 1):
            yield "\n".join(f"  {line}" for line in text.split("\n"))
    if len(group.exceptions) > _GROUP_WIDTH:
        yield f"  ({len(group.exceptions) - _GROUP_WIDTH} more exceptions are left out)"


def _frames(top: TracebackType) -> Iterator[str]:
    count = sum(1 for _ in traceback.walk_tb(top))
    left_out = count - _FIRST_FRAMES - _LAST_FRAMES
    if left_out <= 0:
        yield from _frame_lines(top, count)
        return
    yield from _frame_lines(top, _FIRST_FRAMES)
    yield f"  ({left_out:,} frames are left out)"
    yield from _frame_lines(top, -_LAST_FRAMES)


def _frame_lines(top: TracebackType, limit: int) -> Iterator[str]:
    for text in traceback.format_tb(top, limit):
        yield text.rstrip("\n")


# Grouping

_READ = 2_000  # characters of a message that count for its group
_LIST = re.compile(r"(<[a-z]+>)(?:\s*,\s*\1)+")
_VARYING = re.compile(
    r"""
      (?P<uuid> \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b )
    | (?P<time> \b\d{4}-\d\d-\d\d
                (?: [T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)? (?:\ ?Z\b|\ ?[+-]\d\d:?\d\d)? )?
              | \b\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?\b )
    | (?P<text> (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*' | "[^"\n]*" | `[^`\n]*` )
    | (?P<path> (?<![\w<]) (?: [a-z][a-z+.-]{1,20}:// | ~?/ | \.{1,2}/ | [a-z]:\\ )
                [^\s'"`,;()<>]+ )
    | (?P<hex>  \b0x[0-9a-f]+\b | \b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b )
    | (?P<n>    \d+(?:[.,]\d+)*(?:e[+-]?\d+)? )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def normalise(message: str) -> str:
    """The message with everything that varies from case to case replaced by its kind.

    Numbers become <n>, and so on: <uuid>, <time>, <text> (quoted), <path>, <hex>. A list of equal
    kinds becomes one, so that its length does not matter. White space is folded.
    """
    folded = " ".join(clean(message[:_READ], _READ).split())
    return _LIST.sub(r"\1, …", _VARYING.sub(lambda found: f"<{found.lastgroup}>", folded))


def fingerprint(type_name: str, error: str) -> str:
    """Sixteen hex digits, equal for errors of one class whose messages differ only in values."""
    kind = f"{clean(type_name, 200)}\n{normalise(error)}"
    return hashlib.blake2b(kind.encode(), digest_size=8).hexdigest()
