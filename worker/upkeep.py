"""The thread that looks after what others left: dead workers' jobs, due schedules, the lead.

Every supervisor does this. What only one needs to do is in `leader.py`, in a thread of its own, so
that a long retention never delays a rescue.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from jobs import schedules
from jobs.conf import Settings
from jobs.database import DirectDatabase, direct_conninfo, is_away
from jobs.rescue import each_of, release_child, rescue_worker
from worker.leadership import Leadership
from worker.observation import Observer, Sighting
from worker.outage import Outages
from worker.places import Held

log = structlog.get_logger("coppice.worker")

TICK_SECONDS = 1.0

# One look: who should live, how far the beats are, and whose session lock is free. The first
# columns name the server's incarnation; they come even when there is no worker.
LOOK = """
WITH held AS MATERIALIZED (
    SELECT l.classid::bigint << 32 | l.objid::bigint AS key FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT pg_postmaster_start_time()::text || ' ' || coalesce(host(inet_server_addr()), '') || ' '
        || coalesce(inet_server_port()::text, '') AS server,
    pg_is_in_recovery() AS is_standby, w.id::text, w.beats,
    w.lock_key IS NOT NULL AND w.lock_key NOT IN (SELECT held.key FROM held) AS lock_is_free
FROM (SELECT 1) AS always
LEFT JOIN jobs_worker w ON w.state IN ('running', 'draining')
"""

# Small tables and index walks only; a row that somebody has locked must not stop the thread.
SESSION = (
    "SET lock_timeout = '2s'",
    "SET statement_timeout = '30s'",
    "SET enable_seqscan = off",
    "SET jit = off",
)


@dataclass(frozen=True, kw_only=True)
class Farewell:
    """A child that is dead, and what it held."""

    worker_id: str
    held: Sequence[Held]
    reason: str
    ended_well: bool
    is_forced: bool
    overdue_at: float | None


class Upkeep:
    def __init__(self, settings: Settings, outages: Outages, *, tell: Callable[[], None]) -> None:
        """`tell` wakes the main thread: a dead child's jobs are released."""
        self.settings = settings
        self.outages = outages
        self.tell = tell
        self.database = DirectDatabase(direct_conninfo(), name="upkeep", session=SESSION)
        self.leadership = Leadership(self.database)
        self.look_seconds = min(0.5, settings.lock_free_seconds / 4)
        self.observer = Observer(
            dead_after=settings.dead_after_seconds,
            lock_free=settings.lock_free_seconds,
            longest_gap=2 * self.look_seconds,
        )
        self._dead: queue.SimpleQueue[Farewell] = queue.SimpleQueue()
        self._unreleased: list[Farewell] = []
        # Two counts, each written by one thread only.
        self._given = 0
        self._released = 0
        self._next_tick = 0.0
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    # Called by the main thread

    def start(self) -> None:
        self._thread.start()

    def release(self, farewell: Farewell) -> None:
        """Give back what a dead child held, as soon as the database answers."""
        self._given += 1
        self._dead.put(farewell)
        self._wake.set()

    @property
    def owes(self) -> bool:
        """Whether some dead child's jobs are not given back yet."""
        return self._released < self._given

    def finish(self, seconds: float) -> None:
        self._stop = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    # The thread

    def _run(self) -> None:
        while not self._stop:
            delay = self.look_seconds
            for step in (self._release, self._rescue, self._tick, self.leadership.seek):
                pause = self._try(step)
                delay = max(delay, pause)
                if pause:
                    break  # the next step would fail as well
            self._wake.wait(delay)
            self._wake.clear()
        self._try(self._release)
        self._try(self.leadership.give_up)
        self.database.close()

    def _try(self, step: Callable[[], object]) -> float:
        """One step, whose failure stops no other; returns how long to wait for the database."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread must go on, whatever happens
            if not is_away(error):
                # Tried again in the rhythm that the others need.
                self.outages.failed(step.__name__, error)
                return 0.0
            self.database.close()
            self.leadership.lose()
            self.observer.begin_anew()
            return self.outages.failed("upkeep", error)
        self.outages.over(step.__name__)
        self.outages.over("upkeep")
        return 0.0

    def _release(self) -> None:
        while not self._dead.empty():
            self._unreleased.append(self._dead.get())
        # Kept until it is written; a second try finds what the first one left.
        each_of(list(self._unreleased), self._release_one)

    def _release_one(self, farewell: Farewell) -> None:
        release_child(
            self.database,
            farewell.worker_id,
            farewell.held,
            reason=farewell.reason,
            ended_well=farewell.ended_well,
            is_forced=farewell.is_forced,
            overdue_at=farewell.overdue_at,
        )
        self._unreleased.remove(farewell)
        self._released += 1
        self.tell()

    def _rescue(self) -> None:
        rows = self.database.rows(LOOK, {})
        _, is_standby, *_ = rows[0]
        server = f"{rows[0][0]} {is_standby}"
        sightings = [
            Sighting(worker_id=id, beats=beats, lock_is_free=free)
            for _, _, id, beats, free in rows
            if id is not None
        ]
        if is_standby:
            self.observer.begin_anew()
            return
        each_of(
            self.observer.look(time.monotonic(), server, sightings),
            lambda dead: rescue_worker(
                self.database, dead.worker_id, dead.reason, beats=dead.beats
            ),
        )

    def _tick(self) -> None:
        now = time.monotonic()
        if now < self._next_tick:
            return
        # Spread, so that many supervisors do not all ask in the same moment.
        self._next_tick = now + TICK_SECONDS * random.uniform(0.9, 1.1)
        schedules.tick(self.database)
