"""What one supervisor does for all: tidy up in small steps, and say what needs a person.

Each duty is one bounded step with a rhythm of its own. One that fails, or has much to do, stops no
other; one that found a full batch comes again soon. All of them bear being done by two leaders.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from jobs import bulk, edges, pruning, retention, rollups
from jobs.conf import Settings
from jobs.database import DirectDatabase, direct_conninfo, is_away
from jobs.insertion import wake
from jobs.lifecycle.pausing import end_pauses
from jobs.rescue import each_of, find_orphans, rescue_orphans
from jobs.telling import queues_to_wake, tell_released
from worker.alerts import DeadLetters, OverdueSchedules, PausedQueues, UnknownTypes
from worker.observation import OrphanWatch
from worker.outage import Outages

log = structlog.get_logger("coppice.worker")

STEP_SECONDS = 0.2
AGAIN_SECONDS = 0.5
SETTLE_AT_ONCE = 500

SESSION = ("SET lock_timeout = '2s'", "SET statement_timeout = '60s'", "SET jit = off")


@dataclass(slots=True, kw_only=True)
class Duty:
    name: str
    every: float
    step: Callable[[], bool]
    """Does a bounded amount; returns whether more is waiting."""
    due_at: float = field(default=0.0)


class Leader:
    """The thread that does the duties while its supervisor leads; without lead it holds nothing."""

    def __init__(self, settings: Settings, outages: Outages, *, leads: Callable[[], bool]) -> None:
        self.settings = settings
        self.outages = outages
        self.leads = leads
        self.database = DirectDatabase(direct_conninfo(), name="leader", session=SESSION)
        self.duties = self._duties()
        self._orphans = OrphanWatch(after=settings.lock_free_seconds)
        self._wake = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    def _duties(self) -> list[Duty]:
        unknown = UnknownTypes(self.database, self.settings)
        dead = DeadLetters(self.database, self.settings)
        overdue = OverdueSchedules(self.database)
        paused = PausedQueues(self.database)
        return [
            Duty(name="orphans", every=1.0, step=self.rescue_orphans),
            Duty(name="ends of pauses", every=1.0, step=self.end_pauses),
            Duty(name="settling", every=5.0, step=self.settle),
            Duty(name="bulk operations", every=5.0, step=self.mend_bulk_operations),
            Duty(name="unknown types", every=5.0, step=unknown.step),
            Duty(name="dead letters", every=10.0, step=dead.step),
            Duty(name="overdue schedules", every=30.0, step=overdue.step),
            Duty(name="paused queues", every=30.0, step=paused.step),
            Duty(name="folding", every=15.0, step=self.fold),
            Duty(name="retention", every=60.0, step=self.delete_old_jobs),
            Duty(name="old rows", every=600.0, step=self.prune),
        ]

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        self._stop = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        led = False
        while not self._stop:
            leads = self.leads()
            if leads and not led:
                log.info("leader.elected")
                self._stagger(time.monotonic())
            elif led and not leads:
                log.info("leader.resigned")
                self.database.close()
                self._orphans.begin_anew()
            led = leads
            delay = self._round() if leads else STEP_SECONDS
            self._wake.wait(delay)
        self.database.close()

    def _stagger(self, now: float) -> None:
        """Urgent duties at once, the others spread over their first interval."""
        for duty in self.duties:
            duty.due_at = now + (random.uniform(0, min(duty.every, 60.0)) if duty.every > 5 else 0)

    def _round(self) -> float:
        """Do each duty that is due; returns how long to wait before the next round."""
        for duty in self.duties:
            now = time.monotonic()
            if now < duty.due_at or self._stop or not self.leads():
                continue
            try:
                more = duty.step()
            except Exception as error:  # noqa: BLE001 - one duty's failure must not stop the others
                duty.due_at = now + duty.every
                if is_away(error):
                    self.database.close()
                    self._orphans.begin_anew()
                    return self.outages.failed("leader", error)
                self.outages.failed(f"leader {duty.name}", error)
            else:
                duty.due_at = now + (min(AGAIN_SECONDS, duty.every) if more else duty.every)
                self.outages.over("leader")
        return STEP_SECONDS

    def rescue_orphans(self) -> bool:
        each_of(
            self._orphans.look(time.monotonic(), find_orphans(self.database)),
            lambda id: rescue_orphans(self.database, id, "no live worker of that id exists"),
        )
        return False

    def end_pauses(self) -> bool:
        wake(self.database, end_pauses(self.database))
        return False

    def settle(self) -> bool:
        released = edges.settle_leftovers(self.database, SETTLE_AT_ONCE)
        tell_released(released)
        wake(self.database, queues_to_wake(released))
        return len(released) >= SETTLE_AT_ONCE

    def mend_bulk_operations(self) -> bool:
        bulk.mend(self.database)
        return False

    def fold(self) -> bool:
        return rollups.fold(self.database) >= rollups.BATCH

    def delete_old_jobs(self) -> bool:
        deleted = retention.run_batch(self.database, self.settings)
        return deleted >= self.settings.retention_batch

    def prune(self) -> bool:
        deleted = pruning.prune(self.database, self.settings)
        return max(deleted.values()) >= retention.ROWS_AT_ONCE
