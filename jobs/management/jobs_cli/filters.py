"""The options that say which jobs are meant."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from jobs.listing import Filters
from jobs.states import State, Status


def add_filters(parser: ArgumentParser, *, status: bool = True) -> None:
    if status:
        parser.add_argument("--status", choices=[s.value for s in Status], metavar="STATUS")
        parser.add_argument("--state", choices=[s.value for s in State], metavar="STATE")
    parser.add_argument("--type", metavar="TYPE")
    parser.add_argument("--queue", metavar="QUEUE")
    parser.add_argument("--priority", type=int, choices=(1, 2, 3), metavar="1|2|3")


def filters(options: dict[str, Any], **fixed: Any) -> Filters:
    status, state = options.get("status"), options.get("state")
    values: dict[str, Any] = {
        "status": Status(status) if status else None,
        "state": State(state) if state else None,
        "type": options["type"],
        "queue": options["queue"],
        "priority": options["priority"],
        "id_prefix": options.get("id"),
    }
    return Filters(**{**values, **fixed})


def are_given(options: dict[str, Any]) -> bool:
    names = ("status", "state", "type", "queue", "priority")
    return any(options.get(name) is not None for name in names)
