"""Webhooks and e-mails about what this supervisor's threads notice: see `jobs.webhooks`.

Each event is emitted in the one process that noticed it, so each is told once. It is told by a
thread of its own, through Django's connection: whatever that has to wait for, no beat, no rescue and
no schedule waits with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

import structlog
from django.db import close_old_connections, connections

from jobs import events, webhooks
from jobs.database import cause, without_values
from jobs.events import Event

LAST_WORDS_SECONDS = 5.0

_log = structlog.get_logger("coppice.worker")


@contextmanager
def people_told() -> Iterator[None]:
    """Inside, those who asked for it are told; at the end, of all that has happened by then."""
    noticed: SimpleQueue[Event | None] = SimpleQueue()
    thread = Thread(target=_tell_all, args=(noticed,), name="notices", daemon=True)
    thread.start()
    stops = [events.on(name, noticed.put) for name in webhooks.EVENTS]
    try:
        yield
    finally:
        for stop in stops:
            stop()
        noticed.put(None)
        thread.join(LAST_WORDS_SECONDS)


def _tell_all(noticed: SimpleQueue[Event | None]) -> None:
    for event in iter(noticed.get, None):
        close_old_connections()  # it may have grown old since the event before
        try:
            webhooks.tell(event)
        except Exception as error:  # noqa: BLE001 - the next one may be told
            _log.error("people.not_told", about=event.name, exc_info=without_values(cause(error)))
    connections.close_all()
