"""Webhooks and e-mails about what this supervisor's threads notice: see `jobs.webhooks`.

Each event is emitted in the one process that noticed it, so each is told once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections

from jobs import events, webhooks
from jobs.events import Event


@contextmanager
def people_told() -> Iterator[None]:
    """Inside, those who asked for it are told. What goes wrong is logged by `events`."""
    stops = [events.on(name, _tell) for name in webhooks.EVENTS]
    try:
        yield
    finally:
        for stop in stops:
            stop()


def _tell(event: Event) -> None:
    # The threads of the supervisor have connections of their own; Django's may have grown old.
    close_old_connections()
    try:
        webhooks.tell(event)
    finally:
        close_old_connections()
