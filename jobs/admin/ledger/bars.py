"""What stands above the list: tabs with counts, and the fields of the filter bar."""

from __future__ import annotations

from typing import Any

from jobs import registry
from jobs.admin.ledger import asking
from jobs.admin.ledger.asking import LAST, TIME_WORDS, Ask
from jobs.admin.ledger.tabs import TABS, Tab
from jobs.console import sample
from jobs.console.words import PRIORITIES, count
from jobs.states import State, Status

MORE = ("min_attempt_count", "worker", "recurring", "depends_on", "internal", "from", "to")
"""Fields that are folded away while none of them is used."""
FIELDS = ("q", "queue", "type", "priority", "time", "last", *MORE)


def tabs(ask: Ask, total: str) -> list[dict[str, Any]]:
    """The tabs with their counts: of everything, from the sample; of a filtered list its own only."""
    found = sample.current().get("jobs", {})
    kept = {
        name: value
        for name, value in ask.params.items()
        if name not in ("state", "status") and (name, value) != ("last", asking.ALL_TIMES)
    }
    shown: list[dict[str, Any]] = []
    for tab in TABS.values():
        number, is_least, is_about = _counted(tab, found) if found else (None, False, False)
        text = f"{'≈' if is_about else ''}{count(number, is_least=is_least)}"
        if ask.is_narrowed:
            text = total if tab is ask.tab else ""
        shown.append(
            {
                "tab": tab,
                "url": asking.query_of({"state": tab.name, **kept}),
                "count": text if number is not None or ask.is_narrowed else "",
                "is_current": tab is ask.tab,
                "is_live": not ask.is_narrowed,
            }
        )
    return shown


def _counted(tab: Tab, found: dict[str, Any]) -> tuple[int | None, bool, bool]:
    """A number, whether it is a least one, and whether it is estimated."""
    states, estimated, at_least = found["states"], found["estimated"], found["at_least"]
    if tab.name in states:
        return states[tab.name], tab.name in at_least, False
    statuses = {
        "active": (Status.PENDING, Status.PROCESSING),
        "running": (Status.PROCESSING,),
        "completed": (Status.COMPLETED,),
        State.DEAD: (Status.FAILED,),
        "cancelled": (Status.CANCELLED,),
        "all": tuple(Status),
    }[tab.name]
    number = sum(found[status] for status in statuses)
    return number, False, any(status in estimated for status in statuses)


def bar(ask: Ask, *, may_read: bool) -> dict[str, Any]:
    """What the fields of the filter bar hold and offer."""
    found = sample.current().get("jobs", {})
    given = ask.params
    return {
        "given": given,
        "types": registry.types(),
        "queues": [queue["name"] for queue in found.get("queues", [])],
        "workers": [(worker["id"], worker["name"]) for worker in found.get("workers", [])],
        "other_worker": _other_worker(given.get("worker", ""), found),
        "priorities": [(str(number), word) for number, word in PRIORITIES.items()],
        "times": list(TIME_WORDS.items()),
        "lasts": [(key, words) for key, (_, words) in LAST.items()],
        "last": given.get("last") or ask.window,
        "from": asking.moment_for_input(given.get("from", "")),
        "to": asking.moment_for_input(given.get("to", "")),
        "kept": [(name, value) for name, value in given.items() if name not in FIELDS],
        "is_more": any(given.get(name) for name in MORE),
        "hint": "an id, type:… queue:… priority:high"
        + (' error:"…" payload.name:…' if may_read else ""),
    }


def _other_worker(chosen: str, found: dict[str, Any]) -> str:
    """The chosen worker if it is not among those that live."""
    known = {worker["id"] for worker in found.get("workers", [])}
    return "" if chosen in known else chosen
