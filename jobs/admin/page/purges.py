"""What the audit knows about a job that is gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from jobs import conf
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import ID_SLACK
from jobs.limits import limited
from jobs.models import AuditEntry

ACTIONS = ("job.purge", "job.purge_all", "bulk.purge")
NEWEST = 500
"""Purges that are looked through: those of many list only the first of their ids."""
SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Purge:
    at: datetime
    actor: str
    changed: int
    is_certain: bool
    """The entry names the job; else it is the newest that may have been about it."""


def of(id: UUID) -> Purge | None:
    """The purge that took this job, or may have; None if there was none since it was made."""
    entries = AuditEntry.objects.using(conf.get().database)
    try:
        with limited(DjangoDatabase(), seconds=SECONDS):
            named = entries.filter(object_id=str(id), action="job.purge").order_by("-id").first()
            if named is not None:
                return _purge(named, is_certain=True)
            recent = entries.filter(action__in=ACTIONS).order_by("-id")[:NEWEST]
            possible = None
            for entry in recent:
                if str(id) in entry.data.get("ids", []):
                    return _purge(entry, is_certain=True)
                is_of_many = not entry.object_id and entry.changed > len(entry.data.get("ids", []))
                if is_of_many and possible is None and entry.at > _made_at(id):
                    possible = entry
    except TooBroad:
        return None
    return None if possible is None else _purge(possible, is_certain=False)


def _purge(entry: AuditEntry, *, is_certain: bool) -> Purge:
    return Purge(at=entry.at, actor=entry.actor, changed=entry.changed, is_certain=is_certain)


def _made_at(id: UUID) -> datetime:
    """Not before this: an id begins with the time when it was made."""
    milliseconds = id.int >> 80
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) - ID_SLACK
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=UTC)
