"""What the commands share: JSON from the command line, and refusals that name the option."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.db import InterfaceError, OperationalError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.errors import CoppiceError, InvalidInput

OPTIONS = {
    "type": "TYPE",
    "name": "NAME",
    "payload": "--payload",
    "metadata": "--metadata",
    "priority": "--priority",
    "scheduled_at": "--at",
    "anchor_at": "--from",
    "queue": "--queue",
    "depends_on": "--depends-on",
    "unique_key": "--unique-key",
    "recur_interval": "--every",
    "cron": "--cron",
    "time_zone": "--tz",
    "max_attempts": "--max-attempts",
    "on_parent_failure": "--on-parent-failure",
    "misfire": "--misfire",
    "count": "--count",
}
"""The option, or the positional argument, behind a field that an error names."""

_MILLISECONDS = re.compile(r"-?[0-9]{1,30}")

PAYLOAD_HELP = "JSON; @FILE reads it from a file, - from standard input"


@contextmanager
def refusals(names: Mapping[str, str] = OPTIONS) -> Iterator[None]:
    """Turn what a caller can mend into a CommandError (exit code 1) that names the option."""
    try:
        yield
    except InvalidInput as error:
        raise CommandError(_worded(error, names)) from error
    except CoppiceError as error:
        raise CommandError(str(error)) from error
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"the database cannot be reached: {error}") from error


def read_json(text: str | None, option: str) -> Any:
    """The value of a JSON option: the text itself, `@file`, or `-` for standard input."""
    if text is None:
        return None
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise CommandError(f"{option}: {error.filename} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{option}: is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CommandError(f"{option}: is not JSON: {error.msg} ({where})") from None
    except (RecursionError, ValueError):
        # Too deep, or an integer with thousands of digits.
        raise CommandError(f"{option}: is nested too deep or has a number too long") from None


def as_moment(text: str | None) -> str | int | None:
    """A time as `parse_moment` takes it: whole Unix milliseconds, or ISO 8601 text."""
    if text is not None and _MILLISECONDS.fullmatch(text):
        return int(text)
    return text


def given(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The options that were given, under their fields' names: `{"recur_interval": "every"}`."""
    return {field: options[name] for field, name in names.items() if options[name] is not None}


def print_json(stdout: OutputWrapper, value: Any) -> None:
    stdout.write(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(stdout: OutputWrapper, table: Table) -> None:
    """The table as wide as it needs to be, unless a terminal says how much room there is."""
    console = Console(width=None if stdout.isatty() else 240, force_terminal=stdout.isatty())
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    stdout.write("\n".join(lines))


def shown(value: object, style: str = "") -> Text:
    """Text for a cell: no markup is read from it, and no control character gets through."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return Text(text, style=style)


def _worded(error: InvalidInput, names: Mapping[str, str]) -> str:
    base = error.field.replace("[", ".").partition(".")[0]
    option = names.get(base, base)
    return f"{option}: {error.message}" if base == error.field else f"{option}: {error}"
