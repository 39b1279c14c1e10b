"""What somebody sees of a line of the log: as on the page of its job.

Without the permission to read payloads, what a handler wrote and what quotes an error is hidden.
With it, masked keys of a handler's data stay masked; its message was scrubbed when it was stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from jobs.admin.events.asking import HANDLER
from jobs.admin.events.reading import Line
from jobs.admin.page.reading import ACTIONS
from jobs.masking import Reader
from jobs.templatetags.console import event_words

LONGEST = 300
"""Of one value of a handler's data."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    line: Line
    worker: str = ""
    actor: str = ""
    message: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """What a handler said beside the message."""
    is_hidden: bool = False
    """There is a message, for others."""

    @property
    def tone(self) -> str:
        match self.line.level:
            case "error" | "critical":
                return "error"
            case "warning":
                return "warning"
            case _:
                return ""

    @property
    def copy(self) -> str:
        """The line as text, to be pasted elsewhere."""
        line = self.line
        parts = (
            line.at.astimezone(UTC).isoformat(timespec="milliseconds"),
            line.level,
            event_words(line.event),
            line.type,
            str(line.job_id),
            f"queue={line.queue}" if line.queue else "",
            f"attempt={line.attempt}" if line.attempt is not None else "",
            f"worker={self.worker}" if self.worker else "",
            f"by={self.actor}" if self.actor else "",
            self.message,
            *(f"{name}={value}" for name, value in self.facts),
        )
        return " ".join(part for part in parts if part)


def shown(line: Line, reader: Reader, workers: Mapping[Any, str]) -> Shown:
    worker = workers.get(line.worker_id, "") if line.worker_id else ""
    if not reader.reads and line.event not in ACTIONS:
        return Shown(line=line, worker=worker, is_hidden=bool(line.message or line.data))
    data = data_of(line, reader)
    if line.event == HANDLER:
        facts = [(str(name), _text(value)) for name, value in data.items()]
        return Shown(line=line, worker=worker, message=line.message, facts=facts)
    actor = str(data.get("by") or "")
    return Shown(line=line, worker=worker, actor=actor, message=_without(line.message, actor))


def data_of(line: Line, reader: Reader) -> dict[str, Any]:
    """What the line holds beside its message, with the masks of this reader; {} for others."""
    if line.data is None or (not reader.reads and line.event not in ACTIONS):
        return {}
    found = json.loads(line.data)
    if line.event == HANDLER:
        found = reader.value(line.type, found)
    return found if isinstance(found, dict) else {}


def _without(message: str, actor: str) -> str:
    """The message without its beginning "by anna: ", where the actor stands beside it."""
    start = f"by {actor}"
    if not actor or not message.startswith(start):
        return message
    rest = message.removeprefix(start)
    return rest.removeprefix(": ") if rest.startswith(": ") or not rest else message


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
