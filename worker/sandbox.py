"""Runs one attempt in a process that can be killed.

The processes come from multiprocessing's fork server: a small process that has loaded Django once,
runs no threads and holds no connection, so each fork costs milliseconds and inherits nothing. The
attempt's process sends log lines, progress and at last its outcome through a pipe, and hears of a
cancel the same way.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from threading import Lock
from typing import Any

from jobs.claimed import Claimed
from jobs.complete import Written
from jobs.context import Context, Desk, Line
from jobs.endings import Ending, Success
from jobs.outcomes import Run, decide_lost, decide_timed_out
from jobs.registry import Handler
from worker.completer import Committed

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Said:
    """One message from the attempt's process."""

    line: Line | None = None
    progress: tuple[int, int | None] | None = None
    outcome: Success | Ending | None = None
    written: Written | None = None


class Sandbox:
    """Starts killable attempts; used by many threads at once."""

    def __init__(self, worker_id: str, desk: Desk) -> None:
        self._worker_id = worker_id
        self._desk = desk
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["worker.undisturbed", "worker.sandboxed"])
        # Starting a process also looks after those of all other threads, whose descriptors must not
        # be closed meanwhile: what reads an exit code or closes a process holds this lock too.
        self._lock = Lock()

    def run(self, handler: Handler, job: Claimed, context: Context) -> Success | Ending | Committed:
        """Run the attempt and wait for its end; kills its process at the deadline."""
        from worker.sandboxed import attempt

        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=attempt, args=(theirs, self._worker_id, job), daemon=True
        )
        with self._lock:
            process.start()
        theirs.close()
        started = time.monotonic()
        try:
            return self._follow(process, ours, handler, job, context, started)
        finally:
            ours.close()
            with self._lock:
                if process.is_alive():
                    _kill(process)
                process.join()
                process.close()

    def _follow(
        self,
        process: Any,
        pipe: Connection,
        handler: Handler,
        job: Claimed,
        context: Context,
        started: float,
    ) -> Success | Ending | Committed:
        told = False
        while True:
            if context.cancelled and not told and context.stop_reason != "timeout":
                told = True
                with contextlib.suppress(OSError):
                    pipe.send(context.stop_reason)
            try:
                # Its end is told by the sentinel: a child of its own may keep the pipe open.
                ready = wait([pipe, process.sentinel], _LOOK_SECONDS)
                if ready and not pipe.poll():
                    return self._died(process, job, started)
                if ready:
                    said: Said = pipe.recv()
                    if said.line is not None:
                        said.line.at = time.monotonic()
                        self._desk.log(said.line)
                    if said.progress is not None:
                        self._desk.progress(job, *said.progress)
                    if said.written is not None:
                        return Committed(job, _ours(said.written, job))
                    if said.outcome is not None:
                        said.outcome.job = job
                        return said.outcome
            except (EOFError, OSError):
                return self._died(process, job, started)
            deadline = context.deadline
            if deadline is not None and time.monotonic() >= deadline:
                _kill(process)
                run = Run(wait=started - job.received, run=time.monotonic() - started)
                return decide_timed_out(
                    job,
                    deadline - started,
                    run,
                    handler,
                    f"killed at its time-out of {deadline - started:.3g} s",
                )

    def _died(self, process: Any, job: Claimed, started: float) -> Ending:
        wait([process.sentinel], 5)
        with self._lock:
            code = process.exitcode
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {_name(-code)}"
        return decide_lost(
            job, f"the attempt's process ended with {how}", ran=time.monotonic() - started
        )


def _kill(process: Any) -> None:
    """End an attempt together with the programs that it started; it leads a group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _ours(written: Written, job: Claimed) -> Written:
    """The answer of another process, about our own object."""
    return replace(
        written,
        ended=[replace(one, job=job) for one in written.ended],
        stale=[job for _ in written.stale],
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
