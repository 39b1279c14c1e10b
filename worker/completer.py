"""Collects outcomes and writes them in batches: at most `batch_rows`, or `batch_seconds` old, and
not much more than `BATCH_BYTES` of them.

What must always be true:
1. An outcome leaves memory only when the database has it, or has said that the lease was lost.
2. A batch that the database refuses is halved until the culprit is alone; the culprit ends `failed`
   with that error, and everybody else's outcome is written.
3. While the database is away, or fails for reasons of its own, the batch is kept and tried again;
   nothing is thrown away. Only an error about the values themselves is held against an outcome.
4. A row that somebody keeps locked holds up its own outcome alone: that one is set aside, and tried
   again each second.
5. A place in the table shared with the supervisor is freed after the commit, never before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import structlog
from django.db import close_old_connections

from jobs import conf, edges, events
from jobs.claimed import Claimed
from jobs.complete import COMPLETE_SESSION, LOG_LINES, PROGRESS, Ended, Written, complete
from jobs.context import Line
from jobs.database import (
    DirectDatabase,
    cause,
    is_away,
    is_blocked,
    is_refusal,
    is_transient,
    without_values,
)
from jobs.endings import Ending, Success
from jobs.errors import InvalidInput
from jobs.insertion import wake
from jobs.outcomes import Run, decide_raise, unstorable
from jobs.registry import find
from jobs.telling import queues_to_wake, tell_released
from worker.journal import Journal
from worker.outage import Outages
from worker.places import Places

_log = structlog.get_logger("coppice.completer")

BATCH_BYTES = 4 * 1024 * 1024
"""Of results and errors; what the database makes of them takes it several times as much memory."""
PROGRESS_SECONDS = 1.0
AGAIN_SECONDS = 1.0
SESSION = (*COMPLETE_SESSION, "SET lock_timeout = '200ms'")


class Committed:
    """An `atomic` handler has written its own ending; only the bookkeeping is left."""

    __slots__ = ("job", "written")

    def __init__(self, job: Claimed, written: Written) -> None:
        self.job = job
        self.written = written


type Item = Success | Ending | Committed | Line | None


class Completer:
    def __init__(
        self,
        *,
        worker_id: str,
        database: DirectDatabase,
        places: Places,
        outages: Outages,
        journal: Journal,
        on_room: Callable[[], None],
        is_burst: bool = False,
    ) -> None:
        """`on_room` has the feeder look; in a burst after each batch, for it may have been the last."""
        self._worker_id = worker_id
        self._database = database
        self._places = places
        self._outages = outages
        self._journal = journal
        self._on_room = on_room
        self._is_burst = is_burst
        self._settings = conf.get()
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._progress: dict[str, tuple[Claimed, int, int | None]] = {}
        self._progress_at = 0.0
        self._aside: list[Any] = []
        self._aside_at = 0.0
        self._writing = 0
        self._discarding = False
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="completer", daemon=True)
        self.put = self._queue.put
        """Hand over an outcome or a log line; never blocks."""

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def backlog(self) -> int:
        """Outcomes that are not in the database yet."""
        return self._queue.qsize() + self._writing + len(self._aside)

    def report(self, job: Claimed, done: int, total: int | None) -> None:
        """Note a progress; the newest of each job is written about once a second."""
        self._progress[job.id] = (job, done, total)

    def discard(self) -> None:
        """This incarnation was declared dead: its leases are gone, and so is what it has to say."""
        self._discarding = True

    def stop(self, seconds: float | None = None) -> bool:
        """Write what is left and end; False if that took longer than allowed."""
        self._queue.put(None)
        return self._stopped.wait(seconds)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._database.close()
            self._stopped.set()

    def _turn(self) -> bool:
        """Collect one batch and write it; False at the end."""
        items, going_on = self._collect()
        self._writing = len(items)
        try:
            self._write_progress(finishing=not going_on)
            if items and not self._discarding:
                self._write([item for item in items if not isinstance(item, Line)])
                self._write_lines([item for item in items if isinstance(item, Line)])
            elif items:
                self._free(item for item in items if not isinstance(item, Line))
            self._write_aside(finishing=not going_on)
        finally:
            self._writing = 0
        return going_on

    def _write_aside(self, *, finishing: bool) -> None:
        """Try again what was set aside; at the end until it is written."""
        while self._aside and (finishing or time.monotonic() - self._aside_at >= AGAIN_SECONDS):
            items, self._aside = self._aside, []
            if self._discarding:
                self._free(items)
            else:
                self._write(items)

    def _collect(self) -> tuple[list[Any], bool]:
        queue, most = self._queue, self._settings.batch_rows
        items: list[Any] = []
        try:
            first = queue.get(timeout=PROGRESS_SECONDS if self._progress or self._aside else None)
        except Empty:
            return items, True
        deadline = time.monotonic() + self._settings.batch_seconds
        item: Item = first
        size = 0
        while True:
            if item is None:
                return items, False
            items.append(item)
            size += _size(item)
            if len(items) >= most or size >= BATCH_BYTES:
                return items, True
            try:
                item = queue.get_nowait()
            except Empty:
                left = deadline - time.monotonic()
                if left <= 0:
                    return items, True
                try:
                    item = queue.get(timeout=left)
                except Empty:
                    return items, True

    def _write(self, items: Sequence[Success | Ending | Committed]) -> None:
        """Write a batch, halving it when the database refuses it."""
        batches = [list(items)]
        while batches:
            batch = batches.pop()
            if not batch:
                continue
            try:
                self._write_batch(batch)
            except Exception as wrapped:  # noqa: BLE001 - sorted out below
                error = cause(wrapped)
                if self._discarding:
                    self._free(batch)
                elif is_blocked(error) and len(batch) == 1:
                    self._aside += batch
                    self._aside_at = time.monotonic()
                elif is_transient(error) and not is_blocked(error):
                    batches.append(batch)
                elif is_away(error) or not (is_refusal(error) or is_blocked(error)):
                    self._rest(error)
                    batches.append(batch)
                elif len(batch) > 1:
                    middle = len(batch) // 2
                    batches += [batch[middle:], batch[:middle]]
                else:
                    replacement = self._refused(batch[0], error)
                    if replacement is not None:
                        batches.append([replacement])
            else:
                self._outages.over("completer")

    def _write_batch(self, batch: list[Any]) -> None:
        successes = sorted(
            (item for item in batch if type(item) is Success), key=lambda item: item.job.id
        )
        endings = [item for item in batch if type(item) is Ending]
        written = Written()
        # Serializers of children, and listeners, may use Django's connection of this thread: not one
        # that the server has closed.
        close_old_connections()
        if successes or endings:
            written = complete(
                self._database,
                worker_id=self._worker_id,
                successes=successes,
                endings=endings,
            )
        self._free(batch)
        self._after_commit(written, [item for item in batch if type(item) is Committed])

    def _after_commit(self, written: Written, committed: list[Committed]) -> None:
        self._tell(written)
        for item in committed:
            self._tell(item.written)
        created = [*written.created, *(d for c in committed for d in c.written.created)]
        if created:
            events.emit_jobs("job.created", created)
            wake(self._database, {draft.queue for draft in created})
        to_settle = [*written.to_settle, *(i for c in committed for i in c.written.to_settle)]
        released = [*written.released, *(r for c in committed for r in c.written.released)]
        if to_settle:
            try:
                released += edges.settle(self._database, to_settle)
            except Exception as error:
                if not is_transient(error):
                    raise
                # The batch is written; what is left unsettled, the leader settles.
            self._on_room()  # children that were just made may be due here
        if released:
            tell_released(released)
            wake(self._database, queues_to_wake(released))
        if released or self._is_burst or any(one.status == "pending" for one in written.ended):
            self._on_room()  # something may be due now, or due soon, that was not before

    def _tell(self, written: Written) -> None:
        for job in written.stale:
            self._journal.stale(job)
        if written.ended:
            self._journal.ended(written.ended)
            tell_ended(written.ended)

    def _refused(self, item: Any, error: BaseException) -> Ending | None:
        """What becomes of the one outcome that the database will not take."""
        error = without_values(error)
        if isinstance(item, Committed):
            _log.error("bookkeeping.failed", job_id=item.job.id, exc_info=error)
            return None
        job = item.job
        run = Run(wait=item.wait, run=item.run)
        if (
            isinstance(item, Ending)
            and item.wait_for is not None
            and isinstance(error, InvalidInput)
        ):
            return decide_raise(job, error, run, find(job.type))
        if isinstance(item, Ending) and item.event == "dead_lettered" and item.wait_for is None:
            # Its replacement was refused as well: leave the job to the rescue, and say so. It keeps
            # its place, or it would be given back as one that this worker never heard of.
            _log.error("outcome.refused", job_id=job.id, exc_info=error)
            return None
        _log.error("outcome.refused", job_id=job.id, type=job.type, error=type(error).__name__)
        return unstorable(job, error, run)

    def _write_lines(self, lines: Sequence[Line]) -> None:
        if not lines:
            return
        now = time.monotonic()
        try:
            self._database.run(
                LOG_LINES,
                {
                    "ids": [line.job_id for line in lines],
                    "ages": [now - line.at for line in lines],
                    "attempts": [line.attempt for line in lines],
                    "levels": [line.level for line in lines],
                    "messages": [line.message for line in lines],
                    "data": [line.data for line in lines],
                    "worker": self._worker_id,
                },
            )
        except Exception as error:  # noqa: BLE001 - log lines are not worth a job's outcome
            if is_away(error) and not self._discarding:
                self._rest(error)
                for line in lines:
                    self._queue.put(line)
            else:
                _log.error("log.refused", lines=len(lines), exc_info=without_values(error))
            return
        for line in lines:
            events.emit("job.log", job_id=line.job_id, level=line.level)

    def _write_progress(self, *, finishing: bool) -> None:
        now = time.monotonic()
        if not self._progress or (now - self._progress_at < PROGRESS_SECONDS and not finishing):
            return
        self._progress_at = now
        reports, self._progress = self._progress, {}
        rows = [reports[id] for id in sorted(reports)]
        try:
            self._database.run(
                PROGRESS,
                {
                    "ids": [job.id for job, _, _ in rows],
                    "epochs": [job.lease_epoch for job, _, _ in rows],
                    "done": [done for _, done, _ in rows],
                    "total": [total for _, _, total in rows],
                    "worker": self._worker_id,
                },
            )
        except Exception as error:  # noqa: BLE001 - the next report comes soon
            if not (is_away(error) or is_transient(error)):
                _log.error("progress.refused", exc_info=without_values(error))
            return
        for job, done, total in rows:
            events.emit(
                "job.progress",
                job_id=job.id,
                type=job.type,
                queue=job.queue,
                done=done,
                total=total,
            )

    def _rest(self, error: BaseException) -> None:
        self._database.close()
        time.sleep(self._outages.failed("completer", error))

    def _free(self, items: Any) -> None:
        free = self._places.free
        for item in items:
            job = item.job
            if job.place >= 0:
                free(job.place)
                job.place = -1


def _size(item: Success | Ending | Committed | Line) -> int:
    if type(item) is Success:
        return len(item.result) if item.result is not None else 0
    if type(item) is Ending:
        return len(item.error) + len(item.traceback)
    return 0


def tell_ended(ended: Sequence[Ended]) -> None:
    """Tell listeners and the live feed what a committed batch did."""
    if not events.active():
        return
    plain = [one.job for one in ended if one.event == "completed"]
    events.emit_jobs("job.completed", plain)
    for one in ended:
        if one.event == "completed":
            continue
        for name in events.PUBLIC_NAMES.get(one.event, ()):
            events.emit(
                name,
                job_id=one.job.id,
                type=one.job.type,
                queue=one.job.queue,
                attempt=one.number,
                status=one.status,
                error=one.error[:300],
                next_retry_at=one.next_retry_at,
            )
