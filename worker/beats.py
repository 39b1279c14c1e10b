"""The thread that says which children live, and the session that proves it.

It alone writes rows of workers that live: it enters a child before the child may claim, and moves
the beats of all children that the main thread knows to be alive and not stopped. Nothing slow
happens here, so that no retention, rescue or handler can silence a beat.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
import structlog

from jobs import events, registry, skew, version
from jobs.conf import Settings
from jobs.database import DirectDatabase, direct_conninfo
from jobs.skew import ClockSkew
from worker.offspring import Birth
from worker.outage import Outages
from worker.session import SessionLock, new_key

log = structlog.get_logger("coppice.worker")

ENTER = """
INSERT INTO jobs_worker (id, name, host, pid, queues, types, concurrency, version, state, lock_key)
VALUES (%(id)s::uuid, %(name)s, %(host)s, 0, %(queues)s::jsonb, %(types)s::jsonb, %(concurrency)s,
    %(version)s, 'running', %(lock_key)s::bigint)
ON CONFLICT (id) DO NOTHING
"""

# Who is not in the answer was declared dead, or its row is gone. A row that somebody keeps locked
# misses this beat, and holds up nobody else's. What the last answer said of the clocks is written
# with this one, so that measuring costs no question of its own.
BEAT = """
WITH free AS MATERIALIZED (
    SELECT w.id FROM jobs_worker w
    WHERE w.id = ANY(%(ids)s::uuid[]) AND w.state IN ('running', 'draining')
    FOR NO KEY UPDATE SKIP LOCKED
), beaten AS (
    UPDATE jobs_worker w SET beats = w.beats + 1, beat_at = now(), state = c.state, pid = c.pid,
        clock_skew_seconds = %(skew)s::float8,
        clock_skew_uncertainty_seconds = %(uncertainty)s::float8
    FROM free, unnest(%(ids)s::uuid[], %(states)s::text[], %(pids)s::integer[])
        AS c (id, state, pid)
    WHERE w.id = free.id AND c.id = free.id
)
SELECT w.id::text, w.stop_requested_at IS NOT NULL,
    extract(epoch FROM clock_timestamp())::float8
FROM jobs_worker w
WHERE w.id = ANY(%(ids)s::uuid[]) AND w.state IN ('running', 'draining')
"""

# A table that somebody has locked must delay a beat, not stop it.
SESSION = ("SET lock_timeout = '1s'", "SET statement_timeout = '5s'")


@dataclass(frozen=True, kw_only=True)
class Living:
    """One child that may have a beat."""

    worker_id: str
    state: str
    pid: int


class Beats:
    def __init__(self, settings: Settings, outages: Outages, *, tell: Callable[[], None]) -> None:
        """`tell` wakes the main thread: a child was entered, declared dead, or is to be stopped."""
        self.settings = settings
        self.outages = outages
        self.tell = tell
        self.database = DirectDatabase(direct_conninfo(), name="beats", session=SESSION)
        self.lock = SessionLock(self.database, new_key())
        self.connected = threading.Event()
        self.refused: BaseException | None = None
        """The database answered, but cannot be worked with (no tables, no right)."""
        self.entered: queue.SimpleQueue[Birth] = queue.SimpleQueue()
        self.declared_dead: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.to_be_stopped: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Children that a person asked to stop; each comes once."""

        self._asked_to_stop: set[str] = set()
        self._births: queue.SimpleQueue[Birth] = queue.SimpleQueue()
        self._unentered: list[Birth] = []
        self._roll: tuple[float, Sequence[Living]] = (0.0, ())
        self._skew: ClockSkew | None = None
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)

    @property
    def lock_key(self) -> int | None:
        """None through a pooler, where no session can be held."""
        return None if self.database.pooled else self.lock.key

    # Called by the main thread

    def start(self) -> None:
        self._thread.start()

    def enter(self, birth: Birth) -> None:
        self._births.put(birth)
        self._wake.set()

    def call_roll(self, living: Sequence[Living]) -> None:
        """Say who lives now; a roll that is not renewed soon counts for nothing."""
        known = self._roll[1]
        self._roll = (time.monotonic(), living)
        if living != known:
            self._wake.set()

    def finish(self, seconds: float) -> None:
        self._stop = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    # The thread

    def _run(self) -> None:
        while not self._stop:
            try:
                self._round()
            except Exception as error:  # noqa: BLE001 - the beats must go on, whatever happens
                self._refuse(error)
                self.database.close()
                # Back before any observer that returned earlier has waited for `lock_free_seconds`.
                delay = min(self.outages.failed("beats", error), self.settings.beat_seconds / 2)
            else:
                self.outages.over("beats")
                delay = self.settings.beat_seconds
            self._wake.wait(delay)
            self._wake.clear()
        self.database.close()

    def _round(self) -> None:
        self.lock.hold()
        self._beat()
        if not self.connected.is_set():
            self.connected.set()
            self.tell()
        self._enter()

    def _beat(self) -> None:
        called_at, living = self._roll
        # A main thread that stands still no longer knows who lives.
        if time.monotonic() - called_at > self.settings.dead_after_seconds / 2:
            living = ()
        sent_at = time.time()
        rows = self.database.rows(
            BEAT,
            {
                "ids": [child.worker_id for child in living],
                "states": [child.state for child in living],
                "pids": [child.pid for child in living],
                "skew": self._skew and self._skew.seconds,
                "uncertainty": self._skew and self._skew.uncertainty_seconds,
            },
        )
        if rows:
            self._skew = skew.measured(sent_at=sent_at, theirs=rows[-1][2], heard_at=time.time())
        missing = {child.worker_id for child in living} - {row[0] for row in rows}
        for worker_id in missing:
            self.declared_dead.put(worker_id)
        asked = {row[0] for row in rows if row[1]} - self._asked_to_stop
        for worker_id in asked:
            self.to_be_stopped.put(worker_id)
        self._asked_to_stop |= asked
        if missing or asked:
            self.tell()

    def _enter(self) -> None:
        while not self._births.empty():
            self._unentered.append(self._births.get())
        while self._unentered and not self._stop:
            birth = self._unentered[0]
            self.database.run(
                ENTER,
                {
                    "id": birth.worker_id,
                    "name": birth.name,
                    "host": birth.host,
                    "queues": json.dumps(birth.queues),
                    "types": json.dumps(registry.types()),
                    "concurrency": birth.concurrency,
                    "version": version.ours()[:40],
                    "lock_key": self.lock_key,
                },
            )
            self._unentered.pop(0)
            self.entered.put(birth)
            self.tell()
            # A listener of somebody's may take long, and no beat may wait for it.
            facts = {"worker_id": birth.worker_id, "name": birth.name}
            threading.Thread(
                target=events.emit, args=("worker.started",), kwargs=facts, daemon=True
            ).start()

    def _refuse(self, error: BaseException) -> None:
        permanent = (
            psycopg.errors.UndefinedTable,
            psycopg.errors.UndefinedColumn,
            psycopg.errors.InsufficientPrivilege,
        )
        if not self.connected.is_set() and isinstance(error, permanent):
            self.refused = error
            self.tell()
