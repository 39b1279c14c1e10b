"""What a reader of the audit asks for: the fields of the address, and the rows they mean.

The rows are walked by id, newest first. Ids rise with time, so a time is only looked at on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode

from jobs import clocks, conf
from jobs.console.lists import AFTER, BEFORE, ROWS
from jobs.database import DjangoDatabase
from jobs.models import AuditEntry
from jobs.texts import clean

FIELDS = ("actor", "action", "object", "from", "to")
WORDS = {"actor": "who"}
"""What the page calls a field, if something else."""
CHOICES = 100
"""The most actors and actions that the fields offer."""

# From one name to the next, each a descent of the index: however many entries a name has.
ACTIONS = """
WITH RECURSIVE known AS (
    (SELECT action AS name FROM jobs_auditentry ORDER BY action LIMIT 1)
    UNION ALL
    SELECT (SELECT e.action FROM jobs_auditentry e WHERE e.action > known.name
        ORDER BY e.action LIMIT 1) FROM known WHERE known.name IS NOT NULL
)
SELECT name FROM known WHERE name IS NOT NULL LIMIT %(limit)s
"""
ACTORS = ACTIONS.replace("action", "actor")


@dataclass(frozen=True)
class Ask:
    given: dict[str, str] = field(default_factory=dict)
    """The fields that say something, as they were given."""
    problems: dict[str, str] = field(default_factory=dict)
    begin: datetime | None = None
    end: datetime | None = None

    def rows(self) -> QuerySet[AuditEntry]:
        found = AuditEntry.objects.using(conf.get().database).all()
        if self.problems:
            return found.none()
        if actor := self.given.get("actor"):
            found = found.filter(actor=actor)
        if action := self.given.get("action"):
            found = found.filter(action=action)
        if object_id := self.given.get("object"):
            found = found.filter(object_id=object_id)
        if self.begin:
            found = found.filter(at__gte=self.begin)
        if self.end:
            found = found.filter(at__lt=self.end)
        return found

    def query(self, **more: str) -> str:
        """The address's query with these fields instead; an empty one is left out."""
        whole = {**self.given, **more}
        return "?" + urlencode({name: value for name, value in whole.items() if value})

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """What is in force, what is wrong with it, and the address without it."""
        return [
            (
                f"{WORDS.get(name, name)} {self._said(name)}",
                self.problems.get(name, ""),
                self.query(**{name: ""}),
            )
            for name in self.given
            if name in FIELDS
        ]

    def _said(self, name: str) -> str:
        at = {"from": self.begin, "to": self.end}.get(name)
        return clocks.said(at) if at else self.given[name]


def ask_of(params: Mapping[str, str]) -> Ask:
    given = {
        name: text for name in (*FIELDS, ROWS) if (text := clean(params.get(name, ""), 200).strip())
    }
    problems: dict[str, str] = {}
    moments: dict[str, datetime | None] = {}
    for name in ("from", "to"):
        moments[name] = _moment(given.get(name, ""))
        if name in given and moments[name] is None:
            problems[name] = "is not a date and time"
    return Ask(given, problems, moments["from"], moments["to"])


def place_of(params: Mapping[str, str]) -> tuple[str, str]:
    return clean(params.get(AFTER, ""), 40), clean(params.get(BEFORE, ""), 40)


def choices() -> dict[str, list[str]]:
    """The actors and actions that the audit knows, the first of each."""
    database, limit = DjangoDatabase(), {"limit": CHOICES}
    return {
        "actors": [row[0] for row in database.rows(ACTORS, limit)],
        "actions": [row[0] for row in database.rows(ACTIONS, limit)],
    }


def _moment(text: str) -> datetime | None:
    """A date-and-time field's value is meant in the zone that the page shows times in."""
    try:
        found = parse_datetime(text)
        if found is not None and found.tzinfo is None:
            found = timezone.make_aware(found)
        return found.astimezone(UTC) if found is not None else None
    except (ValueError, OverflowError):
        return None
