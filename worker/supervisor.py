"""The parent of a worker's processes: starts them, vouches for them, replaces and stops them.

The main thread is here. It alone starts and buries children, and never asks the database, so that
nothing but a signal can hold it up. Three threads with a connection each do that: `beats` says who
lives, `upkeep` gives back what the dead held, here and elsewhere, and `leader` tidies up.

A child is entered into the table of workers before it starts: what it claims is always owned by a
row that somebody watches.
"""

from __future__ import annotations

import os
import random
import selectors
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import structlog

from jobs import events
from jobs.conf import Settings
from worker.beats import Beats, Living
from worker.leader import Leader
from worker.notifying import people_told
from worker.offspring import PROGRAM, Birth, Offspring
from worker.options import Options
from worker.outage import Outages
from worker.upkeep import Farewell, Upkeep

log = structlog.get_logger("coppice.worker")

DRAINED, FORCED, BAD_SETTINGS, NO_DATABASE = 0, 1, 2, 3

TURN_SECONDS = 0.2
FROZEN_SECONDS = 2.0
"""A turn that took longer means that this process itself did not run."""
START_SECONDS = 60.0
ABANDON_SECONDS = 5.0
LAST_WRITES_SECONDS = 10.0
EARLY_DEATHS = 5
LONGEST_REPLACEMENT_DELAY = 30.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Supervisor:
    def __init__(
        self,
        options: Options,
        settings: Settings,
        *,
        program: Sequence[str] = PROGRAM,
        start_seconds: float = START_SECONDS,
    ) -> None:
        """`start_seconds`: how long to wait for a database at the start."""
        self.options = options
        self.settings = settings
        self.program = program
        self.start_seconds = start_seconds
        self.host = socket.gethostname()[:150]
        self.children: list[Offspring] = []
        self.exit_code = DRAINED
        self.wants_restart = False

        self._bell, self._rope = os.pipe()
        for end in (self._bell, self._rope):
            os.set_blocking(end, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

        outages = Outages()
        self.beats = Beats(settings, outages, tell=self._ring)
        self.upkeep = Upkeep(settings, outages, tell=self._ring)
        self.leader = Leader(settings, outages, leads=lambda: self.upkeep.leadership.leads)

        self._signals = 0
        self._obeyed = 0
        self._is_draining = False
        self._abandon_at: float | None = None
        self._is_abandoned = False
        self._wanted = options.processes
        """Child processes; fewer once people have asked some to stop."""
        self._awaited: dict[str, Birth] = {}
        self._born = 0
        self._early_deaths = 0
        self._next_birth_at = 0.0
        self._turned_at = time.monotonic()

    def run(self) -> int:
        """Serve until told to stop; returns the exit code."""
        with self._signals_heard(), people_told():
            try:
                self.beats.start()
                if not self._database_answers():
                    return self.exit_code
                self._say_start()
                self.upkeep.start()
                self.leader.start()
                self._fill_up(time.monotonic())
                while not self._is_done():
                    self._turn()
            finally:
                self._end()
        log.info("worker.stopped", exit_code=self.exit_code)
        return self.exit_code

    def restart(self) -> None:
        """Drain, and have the command start anew; from any thread."""
        self.wants_restart = True
        self._ring()

    # The start

    def _database_answers(self) -> bool:
        give_up_at = time.monotonic() + self.start_seconds
        while not self.beats.connected.is_set():
            self._rest(TURN_SECONDS)
            if self._signals:
                return False
            if self.beats.refused is not None:
                log.error(
                    "worker.refused",
                    error=str(self.beats.refused).split("\n")[0],
                    hint="the database answers, but is not ready for us: run 'manage.py migrate'",
                )
                self.exit_code = BAD_SETTINGS
                return False
            if time.monotonic() > give_up_at:
                log.error("worker.no_database", waited=round(self.start_seconds))
                self.exit_code = NO_DATABASE
                return False
        return True

    def _say_start(self) -> None:
        log.info(
            "worker.serving",
            pid=os.getpid(),
            queues=list(self.options.queues) or "all",
            processes=self.options.processes,
            concurrency=self.options.concurrency,
            scheduler=self.options.scheduler,
        )
        if self.beats.lock_key is None:
            log.warning(
                "worker.slow_recovery",
                reason=(
                    "no direct connection: crash recovery takes "
                    f"{self.settings.dead_after_seconds:g} s instead of "
                    f"{self.settings.lock_free_seconds:g} s"
                ),
                hint="set DATABASE_DIRECT_URL to the database behind the pooler",
            )

    # One turn

    def _turn(self) -> None:
        self._rest(TURN_SECONDS)
        now = time.monotonic()
        if now - self._turned_at > FROZEN_SECONDS:
            for child in self.children:
                child.forgive(now)
        self._turned_at = now
        self._obey_signals(now)
        for child in list(self.children):
            self._hear(child)
            if child.look_for_change(now):
                self._bury(child, now)
        self._heed_the_declared_dead(now)
        self._stop_those_asked(now)
        self._kill_what_hangs(now)
        self._keep_time(now)
        self._fill_up(now)
        self._end_burst()
        self._call_roll()

    def _is_done(self) -> bool:
        return self._is_draining and not self.children

    def _obey_signals(self, now: float) -> None:
        if self.wants_restart:
            self._drain(now, "a file has changed")
        while self._obeyed < self._signals:
            self._obeyed += 1
            if self._obeyed == 1:
                self._drain(now, "signal")
            elif self._obeyed == 2:
                self._abandon(now, "second signal")
            else:
                for child in self.children:
                    child.kill("third signal")

    def _drain(self, now: float, reason: str) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        self._abandon_at = now + self.options.graceful_timeout
        log.info("worker.draining", reason=reason, seconds=self.options.graceful_timeout)
        for child in self.children:
            child.drain()

    def _abandon(self, now: float, reason: str) -> None:
        if self._is_abandoned or not self.children:
            return
        self._is_abandoned = True
        self.exit_code = self.exit_code or FORCED
        log.warning("worker.abandoning", reason=reason)
        for child in self.children:
            child.abandon(kill_at=now + ABANDON_SECONDS + self.settings.grace_seconds)

    def _hear(self, child: Offspring) -> None:
        for report in child.read():
            match report.get("is"):
                case "ready":
                    child.is_ready = True
                    self._early_deaths = 0
                    log.info("worker.ready", worker_id=child.worker_id, pid=child.pid)
                case "busy":
                    child.is_idle = False
                case "burst done":
                    child.is_idle = True
                case "drained":
                    child.is_leaving = True
                case "replace me":
                    log.warning(
                        "worker.replacing",
                        worker_id=child.worker_id,
                        reason="a handler could not be stopped",
                    )
                    child.is_leaving = True
                case "crippled":
                    log.error(
                        "worker.crippled",
                        worker_id=child.worker_id,
                        reason="a thread that claims or completes jobs has died",
                    )
                case "settings":
                    log.error("worker.settings", error=str(report.get("error", "")))
                    self.exit_code = BAD_SETTINGS
                    self._drain(time.monotonic(), "settings")
                case other:
                    log.warning("worker.unknown_report", report=str(other)[:100])
        if child.is_silent:
            # A closed pipe is always readable, and would turn waiting into spinning.
            self._listen_no_more(child)

    def _listen_no_more(self, child: Offspring) -> None:
        with suppress(KeyError):
            self._selector.unregister(child.reports)

    def _bury(self, child: Offspring, now: float) -> None:
        self._hear(child)
        self.children.remove(child)
        self._listen_no_more(child)
        self.upkeep.release(
            Farewell(
                worker_id=child.worker_id,
                held=child.bury(),
                reason=child.last_words,
                ended_well=child.ended_well,
                is_forced=child.is_forced,
                overdue_at=child.hung_at,
            )
        )
        log.info(
            "worker.ended",
            worker_id=child.worker_id,
            pid=child.pid,
            how=child.last_words,
        )
        if not child.is_ready and not self._is_draining:
            self._count_early_death(child.last_words, now)

    def _count_early_death(self, how: str, now: float) -> None:
        self._early_deaths += 1
        if self._early_deaths >= EARLY_DEATHS:
            log.error(
                "worker.cannot_start",
                deaths=self._early_deaths,
                reason=f"child processes die before they are ready; the last: {how}",
            )
            self.exit_code = FORCED
            self._drain(now, "children cannot start")
            return
        delay = min(LONGEST_REPLACEMENT_DELAY, 0.25 * 2.0 ** (self._early_deaths - 1))
        self._next_birth_at = now + delay * random.uniform(0.75, 1.0)

    def _heed_the_declared_dead(self, now: float) -> None:
        while not self.beats.declared_dead.empty():
            worker_id = self.beats.declared_dead.get()
            for child in self.children:
                if child.worker_id == worker_id and not child.is_void:
                    log.warning("worker.declared_dead", worker_id=worker_id, pid=child.pid)
                    child.renew(kill_at=now + ABANDON_SECONDS + self.settings.grace_seconds)

    def _stop_those_asked(self, now: float) -> None:
        """Let a child drain that a person asked to stop, and none take its place."""
        while not self.beats.to_be_stopped.empty():
            worker_id = self.beats.to_be_stopped.get()
            for child in self.children:
                if child.worker_id == worker_id and not child.is_leaving:
                    log.info("worker.asked_to_stop", worker_id=worker_id, pid=child.pid)
                    self._wanted -= 1
                    child.abandon_at = now + self.options.graceful_timeout
                    child.drain()
        if self._wanted == 0:
            self._drain(now, "all its processes were asked to stop")

    def _kill_what_hangs(self, now: float) -> None:
        for child in self.children:
            reason = child.hangs(
                now,
                grace=self.settings.grace_seconds,
                hung_after=self.settings.hung_seconds,
            )
            if reason and not child.killed_for:
                log.error("worker.hung", worker_id=child.worker_id, pid=child.pid, reason=reason)
                child.hung_at = now
                child.kill(reason)

    def _keep_time(self, now: float) -> None:
        if self._abandon_at is not None and now >= self._abandon_at:
            self._abandon(now, "the graceful time-out has passed")
        for child in self.children:
            if child.abandon_at is not None and now >= child.abandon_at and not child.is_forced:
                log.warning("worker.abandoning", worker_id=child.worker_id, reason="asked to stop")
                self.exit_code = self.exit_code or FORCED
                child.abandon(kill_at=now + ABANDON_SECONDS + self.settings.grace_seconds)
            if child.kill_at is not None and now >= child.kill_at:
                child.kill("it did not stop in time")

    def _fill_up(self, now: float) -> None:
        """Start children that are entered, and enter those that are missing."""
        if self._is_draining:
            return
        while not self.beats.entered.empty():
            birth = self.beats.entered.get()
            del self._awaited[birth.worker_id]
            self._give_birth(birth, now)
        if now < self._next_birth_at:
            return
        if self.options.burst and self.upkeep.owes:
            # A child that finds nothing due must not end the burst while jobs are coming back.
            return
        here = sum(not child.is_leaving for child in self.children) + len(self._awaited)
        for _ in range(self._wanted - here):
            self._born += 1
            birth = Birth(
                worker_id=str(uuid.uuid4()),
                name=f"{self.host}:{os.getpid()}/{self._born}",
                host=self.host,
                queues=self.options.queues,
                concurrency=self.options.concurrency,
            )
            self._awaited[birth.worker_id] = birth
            self.beats.enter(birth)

    def _give_birth(self, birth: Birth, now: float) -> None:
        settings, options = self.settings, self.options
        charge: dict[str, Any] = {
            "scheduler": options.scheduler,
            "burst": options.burst,
            "graceful_timeout": options.graceful_timeout,
        }
        if self.beats.lock_key is not None:
            charge["lock_key"] = self.beats.lock_key
        try:
            child = Offspring(
                birth,
                charge=charge,
                places_size=(
                    options.concurrency + settings.prefetch_max + 4 * settings.batch_rows + 1_000
                ),
                now=now,
                program=self.program,
            )
        except OSError as error:
            # No memory, or no process left: the same as a child that dies at once.
            self.upkeep.release(_stillborn(birth))
            self._count_early_death(str(error), now)
            return
        self.children.append(child)
        self._selector.register(child.reports, selectors.EVENT_READ)
        log.info("worker.started", worker_id=child.worker_id, pid=child.pid, name=birth.name)

    def _end_burst(self) -> None:
        if not self.options.burst or self._is_draining:
            return
        if self._awaited or self.upkeep.owes or not self.children:
            return
        if all(child.is_idle for child in self.children):
            self._drain(time.monotonic(), "burst done")

    def _call_roll(self) -> None:
        self.beats.call_roll(
            tuple(
                Living(
                    worker_id=child.worker_id,
                    state="draining" if child.is_leaving else "running",
                    pid=child.pid,
                )
                for child in self.children
                if not child.is_stopped and not child.is_void
            )
        )

    # The end

    def _end(self) -> None:
        for child in self.children:
            # Only after an error of our own: nobody would watch over them any more.
            child.kill("its supervisor failed")
        self.leader.finish(0)
        self.beats.finish(LAST_WRITES_SECONDS / 2)
        while not self.beats.entered.empty():
            # Entered, but never born: the row must not stay as one that lives.
            self.upkeep.release(_stillborn(self.beats.entered.get()))
        give_up_at = time.monotonic() + LAST_WRITES_SECONDS
        while self.upkeep.owes and time.monotonic() < give_up_at:
            self._rest(TURN_SECONDS)
        if self.upkeep.owes:
            log.warning("worker.unreleased", hint="other workers will take back what is left")
        self.upkeep.finish(LAST_WRITES_SECONDS / 2)
        self.leader.finish(LAST_WRITES_SECONDS / 2)
        self._selector.close()
        events.flush()

    # Being woken

    def _ring(self) -> None:
        with suppress(OSError):
            os.write(self._rope, b"!")

    def _rest(self, seconds: float) -> None:
        """Wait for a signal, a report, a child's death or news of a thread; at most so long."""
        for key, _ in self._selector.select(seconds):
            if key.fd == self._bell:
                with suppress(BlockingIOError):
                    while os.read(self._bell, 4_096):
                        pass

    @contextmanager
    def _signals_heard(self) -> Iterator[None]:
        def count(_number: int, _frame: FrameType | None) -> None:
            self._signals += 1

        def nothing(_number: int, _frame: FrameType | None) -> None:
            pass  # SIGCHLD only has to end the rest

        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("a supervisor runs in the main thread: signals come there")
        before = {number: signal.signal(number, count) for number in SIGNALS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, nothing)
        rope = signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(rope)
            for number, handler in before.items():
                signal.signal(number, handler)


def _stillborn(birth: Birth) -> Farewell:
    return Farewell(
        worker_id=birth.worker_id,
        held=(),
        reason="not started",
        ended_well=True,
        is_forced=False,
        overdue_at=None,
    )
