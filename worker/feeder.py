"""Claims due jobs into the stock: as many as there are free slots, and a little ahead.

    feed --claims--> stock --take--> threads

One thread with a connection of its own, which also listens: the database wakes it when a job is
enqueued while this worker waits. A notification is only a hint; a look each second is the truth.
When the database is away the feeder waits and asks again, with growing pauses, and says so once.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

from django.db import close_old_connections

from jobs import claim, conf, events
from jobs.claimed import Claimed
from jobs.database import DirectDatabase, is_transient
from worker.journal import Journal
from worker.lanes import LaneBook
from worker.outage import Outages
from worker.places import Places
from worker.stock import Pace, Stock

# Says that enqueue may wake this worker. Losing it in a crash costs a poll, so it need not be durable.
SET_WAITING = """
UPDATE jobs_worker SET waiting = %(waiting)s WHERE id = %(worker)s::uuid AND waiting <> %(waiting)s
"""
CANCEL_REQUESTED = """
SELECT id::text, lease_epoch FROM jobs_job
WHERE status = 'processing' AND worker_id = %(worker)s::uuid AND cancel_requested_at IS NOT NULL
"""
PAUSED = f"SELECT q.name FROM jobs_queue q WHERE {claim.IS_PAUSED}"
QUIET = """
SELECT quiet_requested_at IS NOT NULL, quiet_at IS NOT NULL FROM jobs_worker
WHERE id = %(worker)s::uuid
"""
SAY_QUIET = """
UPDATE jobs_worker SET quiet_at = CASE WHEN %(quiet)s THEN clock_timestamp() END
WHERE id = %(worker)s::uuid
"""
HERE = """
SELECT id::text, lease_epoch FROM jobs_job
WHERE status = 'processing' AND worker_id = %(worker)s::uuid
"""
UNHEARD = """
SELECT id::text, type, queue, '' AS payload, priority, 0::float8 AS due_at, attempt_count,
    max_attempts, lease_epoch, lost_count, wait_count, 0::float8 AS claimed_at
FROM jobs_job
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'processing' AND worker_id = %(worker)s::uuid
"""

COUNT_SECONDS = 5.0
SHORTEST_PAUSE = 0.0025
BUSY_CLAIMS = 20
"""After so many claims in a row that found jobs, the worker no longer counts as waiting."""


class Feeder:
    def __init__(
        self,
        *,
        worker_id: str,
        database: DirectDatabase,
        lanes: LaneBook,
        places: Places,
        outages: Outages,
        journal: Journal,
        backlog: Callable[[], int],
        on_cancel: Callable[[list[tuple[str, int]]], None],
        give_back: Callable[[list[Claimed], str], None],
        on_idle: Callable[[bool], None],
    ) -> None:
        self.worker_id = worker_id
        self.stock: Stock
        self.settings = conf.get()
        self._database = database
        self._lanes = lanes
        self._places = places
        self._backlog = backlog
        self._on_cancel = on_cancel
        self._give_back = give_back
        self._on_idle = on_idle
        self._kick_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._outages = outages
        self._journal = journal
        self._thread = Thread(target=self._run, name="feeder", daemon=True)
        self._claiming = Lock()
        self._draining = False
        self._stopping = False
        self._quiet = False
        """A person wants it to claim nothing for a while."""
        self._taken_at_poll = -1
        self._waiting = False
        self._noted = False
        self._busy_claims = 0
        self._pace = Pace()
        self._boost = 1.0
        self._looked_at = 0.0
        self._polled_at = 0.0
        self._counted_at = time.monotonic()
        self._denied = SHORTEST_PAUSE

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def drain(self, seconds: float) -> bool:
        """Claim nothing more, but go on hearing of cancels; False if a claim is still under way."""
        self._draining = True
        self.kick()
        return self.is_quiet(seconds)

    def is_quiet(self, seconds: float = 0.0) -> bool:
        """Whether no claim is under way, and so, when draining, none will come in."""
        if self._claiming.acquire(timeout=seconds):
            self._claiming.release()
            return True
        return False

    def stop(self) -> None:
        """End; returns at once."""
        self._draining = self._stopping = True
        self.kick()

    def kick(self) -> None:
        """Look for work now; called by threads that found the stock low."""
        os.eventfd_write(self._kick_fd, 1)

    def _run(self) -> None:
        while not self._stopping:
            try:
                pause = self._feed()
            except Exception as error:  # noqa: BLE001 - it must outlive whatever the database says
                pause = self._outages.failed("feeder", error)
                if not is_transient(error):
                    self._lost_connection()
            else:
                self._outages.over("feeder")
            if pause > 0 and not self._stopping:
                self._wait(pause)
        self._database.close()

    def _feed(self) -> float:
        """One look and, if there is room, one claim; returns how long there is nothing to do."""
        if not self._database.is_open:
            self._connect()
        now = time.monotonic()
        if now - self._polled_at >= self.settings.poll_seconds:
            self._poll(now)
        if self._draining or self._quiet:
            return self.settings.poll_seconds
        if self._backlog() > 4 * self.settings.batch_rows:
            return 0.005  # outcomes that the database has not taken yet come first
        self.stock.expect_more()
        wanted = self._wanted(now)
        if wanted <= 0:
            return self.settings.poll_seconds
        with self._claiming:
            jobs = [] if self._draining else self._claim(wanted, now)
        if jobs:
            self._busy_claims += 1
            if self._waiting and self._busy_claims >= BUSY_CLAIMS:
                self._set_waiting(False)
            # A full answer that was gone before the next look: hold more next time.
            self._boost = min(8.0, self._boost * 1.5) if len(jobs) >= wanted else 1.0
            self._denied = SHORTEST_PAUSE
            return 0.0
        self._busy_claims = 0
        return self._rest()

    def _claim(self, wanted: int, now: float) -> list[Claimed]:
        fresh = now - self._looked_at < self.settings.poll_seconds
        jobs = self._ask(wanted, marked=fresh)
        if fresh and len(jobs) < wanted and now - self._looked_at > 0.05:
            self._take_in(jobs)
            jobs += self._ask(wanted - len(jobs), marked=False, into=jobs)
        else:
            self._take_in(jobs)
        return jobs

    def _ask(
        self, wanted: int, *, marked: bool, into: list[Claimed] | None = None
    ) -> list[Claimed]:
        """One claim: over the hot lanes from their marks, or over all lanes from the beginning."""
        if not marked:
            self._looked_at = time.monotonic()
        jobs = claim.claim(
            self._database,
            worker_id=self.worker_id,
            lanes=self._lanes.hot() if marked else self._lanes.all(),
            limit=wanted,
            aging_minutes=self.settings.aging_minutes,
            aging_step=self.settings.aging_step,
            marks=self._lanes.marks if marked else None,
        )
        if into is not None:
            self._take_in(jobs)
        return jobs

    def _take_in(self, jobs: list[Claimed]) -> None:
        if not jobs:
            return
        received = time.monotonic()
        take = self._places.take
        for job in jobs:
            job.received = received
            job.place = take(job.id, job.lease_epoch)
        self._lanes.took(jobs)
        self._on_idle(False)
        self.stock.put(jobs)
        self._journal.started(jobs)
        close_old_connections()  # listeners may use Django's connection of this thread
        events.emit_jobs("job.started", jobs)

    def _wanted(self, now: float) -> int:
        """Free slots, plus what the handlers are measured to finish in `prefetch_seconds`."""
        stock, settings = self.stock, self.settings
        self._pace.note(now, stock.taken_total)
        ahead = min(
            settings.prefetch_max,
            int(self._pace.per_second() * settings.prefetch_seconds * self._boost),
        )
        held = len(stock)
        stock.low_water = ahead // 2
        wanted = stock.free_slots + ahead - held
        if held > stock.low_water and stock.free_slots == 0:
            return 0
        room = self._places.room - 1
        return max(0, min(wanted, room, settings.prefetch_max))

    def _rest(self) -> float:
        """Nothing was found: see to it that enqueue wakes this worker, and look once more."""
        if not self._waiting:
            self._set_waiting(True)
            return 0.0  # what was enqueued before the flag was seen has woken nobody
        # An outcome that is still to be written may make a job due.
        holds_nothing = self._places.room == self._places.size
        due = claim.next_due(self._database, self._lanes.all())
        if due == 0.0:
            # Due, yet not claimed: rivals hold the rows, or it became due this instant. Somebody
            # may hold them for long, so each look in vain makes the pause longer.
            self._denied = min(2.0 * self._denied, self.settings.poll_seconds)
            return self._denied
        self._denied = SHORTEST_PAUSE
        self._on_idle(holds_nothing)
        poll = self.settings.poll_seconds
        return poll if due is None else min(poll, due + 0.001)

    def _poll(self, now: float) -> None:
        self._polled_at = now
        if self._lanes.serves_all_queues:
            self._lanes.saw_queues(claim.queues_with_work(self._database))
        self._heed_quiet()
        self._give_back_surplus()
        self._give_back_paused()
        self._look_outside()
        rows = self._database.rows(CANCEL_REQUESTED, {"worker": self.worker_id})
        if rows:
            self._on_cancel([(row[0], row[1]) for row in rows])
        if now - self._counted_at >= COUNT_SECONDS:
            self._give_back_unheard()
            self._counted_at = now

    def _heed_quiet(self) -> None:
        """Claim nothing while a person wants so, hand back what has not begun, and say that."""
        rows = self._database.rows(QUIET, {"worker": self.worker_id})
        if not rows:
            return
        wanted, is_said = rows[0]
        if wanted and not self._quiet:
            self._quiet = True
            self._set_waiting(False)
            with self._claiming:  # so that a drain waits for what is put back
                held = [] if self._draining else self.stock.take_back()
            self._give_back(held, "its worker was told to be quiet")
        self._quiet = wanted
        if wanted != is_said:
            self._database.run(SAY_QUIET, {"quiet": wanted, "worker": self.worker_id})

    def _give_back_unheard(self) -> None:
        """Hand back jobs that are this worker's, though no claim's answer brought them here.

        A connection that breaks between a claim's commit and its answer leaves such jobs: nobody
        would run them, and nobody rescue them, for their worker lives. Places are read first: what
        is claimed later is claimed by this thread, and what ends meanwhile is fenced.
        """
        known = {(held.job_id, held.lease_epoch) for held in self._places.held()}
        here = self._database.rows(HERE, {"worker": self.worker_id})
        unheard = [row[0] for row in here if tuple(row) not in known]
        if not unheard:
            return
        rows = self._database.rows(UNHEARD, {"ids": unheard, "worker": self.worker_id})
        self._give_back([Claimed(*row) for row in rows], "the answer to its claim was lost")

    def _give_back_surplus(self) -> None:
        """Give back jobs held ahead when no slot has come free since the last poll.

        They were claimed when jobs were short; now long ones hold all slots, and other workers may
        have room.
        """
        stuck = self.stock.taken_total == self._taken_at_poll
        self._taken_at_poll = self.stock.taken_total
        if stuck and len(self.stock) and not self.stock.free_slots:
            self._give_back(self.stock.take_back(), "no slot came free")

    def _give_back_paused(self) -> None:
        """Give back jobs held ahead whose queue somebody has paused since they were claimed."""
        if not len(self.stock):
            return
        paused = {row[0] for row in self._database.rows(PAUSED, {})}
        if not paused:
            return
        with self._claiming:  # so that a drain waits for what is put back
            held = [] if self._draining else self.stock.take_back()
            self.stock.put([job for job in held if job.queue not in paused])
        self._give_back([job for job in held if job.queue in paused], "its queue was paused")

    def _look_outside(self) -> None:
        """Tell long handlers, which ask `should_yield`, whether better work waits for their slot."""
        self.stock.best_outside = None
        if not self.stock.free_slots and not self._draining:
            self.stock.best_outside = claim.best_due(
                self._database,
                self._lanes.all(),
                aging_minutes=self.settings.aging_minutes,
                aging_step=self.settings.aging_step,
            )

    def _connect(self) -> None:
        connection = self._database.connection
        if not self._database.pooled:
            connection.add_notify_handler(self._note)
            connection.execute(f'LISTEN "coppice_{self.worker_id.replace("-", "")}"')
            connection.execute("SET idle_in_transaction_session_timeout = 60000")
        self._waiting = False
        self._polled_at = self._looked_at = 0.0

    def _lost_connection(self) -> None:
        self._database.close()
        self._waiting = False
        self._counted_at = -COUNT_SECONDS

    def _set_waiting(self, waiting: bool) -> None:
        if self._database.pooled and waiting:
            self._waiting = True  # nobody can be woken through a pooler; polling finds the work
            return
        self._database.run(SET_WAITING, {"waiting": waiting, "worker": self.worker_id})
        self._waiting = waiting

    def _wait(self, seconds: float) -> None:
        """Sleep until a kick, a notification or the time is up."""
        if self._noted:
            self._noted = False
            self._looked_at = 0.0
            return
        watched = select.poll()  # select() refuses numbers above 1,023
        watched.register(self._kick_fd, select.POLLIN)
        if self._database.is_open and not self._database.pooled:
            watched.register(self._database.connection.fileno(), select.POLLIN)
        readable = {number for number, _ in watched.poll(seconds * 1_000)}
        if self._kick_fd in readable:
            with suppress(BlockingIOError):
                os.eventfd_read(self._kick_fd)
        if readable - {self._kick_fd}:
            self._hear()

    def _note(self, _notification: object) -> None:
        """One that came with the answer to a question: nothing is left on the wire to wake anybody."""
        self._noted = True

    def _hear(self) -> None:
        """Take in notifications; all lanes are looked into, since any may have got work."""
        pgconn = self._database.connection.pgconn
        try:
            pgconn.consume_input()
        except Exception as error:  # noqa: BLE001 - the socket broke while nothing was asked
            self._outages.failed("feeder", error)
            self._lost_connection()
            return
        while pgconn.notifies() is not None:
            self._looked_at = 0.0
