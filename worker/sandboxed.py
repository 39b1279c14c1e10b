"""The inside of an attempt's own process. Imported by the fork server, before any fork.

Loading Django here, once, is what makes a fork cheap; no connection may be opened at import.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from multiprocessing.connection import Connection
from threading import Lock, Thread

import django
from django.apps import apps

if not apps.ready:
    # As in `child.py`: what is there by now no fork looks through, or copies.
    gc.disable()
    django.setup()
    gc.freeze()
    gc.enable()

from jobs import execution, registry
from jobs.claimed import Claimed
from jobs.complete import Written
from jobs.context import Context, Line
from jobs.outcomes import Run, decide_raise, hand_back
from worker.kernel import die_with_parent, end_if_forked
from worker.sandbox import Said


class PipeDesk:
    """Sends what the handler says to the worker that waits outside."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = Lock()

    def send(self, said: Said) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._pipe.send(said)

    def log(self, line: Line) -> None:
        self.send(Said(line=line))

    def progress(self, job: Claimed, done: int, total: int | None) -> None:  # noqa: ARG002
        self.send(Said(progress=(done, total)))

    def should_yield(self, job: Claimed) -> bool:  # noqa: ARG002
        return False


def attempt(pipe: Connection, worker_id: str, job: Claimed) -> None:
    """Run one attempt and send its outcome."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _nothing)
    die_with_parent()
    os.setpgid(0, 0)  # so that a kill reaches what the handler starts
    desk = PipeDesk(pipe)
    handler = registry.find(job.type)
    if handler is None:
        desk.send(Said(outcome=hand_back(job, "no handler is registered here")))
        return
    pid = os.getpid()
    context = Context(job, desk, timeout=execution.timeout_of(handler))
    Thread(target=_listen, args=(pipe, context), daemon=True).start()
    written: Written | None = None
    if handler.atomic:
        ending, written = execution.run_atomic(handler, job, context, worker_id)
    elif handler.is_async:
        ending = asyncio.run(execution.run_async(handler, job, context))
    else:
        ending = execution.run_sync(handler, job, context)
    end_if_forked(pid)
    try:
        desk.send(Said(written=written) if written else Said(outcome=ending))
    except Exception as error:  # noqa: BLE001 - a WaitFor may name things that no pipe can carry
        run = Run(wait=ending.wait, run=ending.run)
        desk.send(Said(outcome=decide_raise(job, error, run, handler)))


def _nothing(_number: int, _frame: object) -> None:
    """Not SIG_IGN, which the programs that the handler starts would inherit."""


def _listen(pipe: Connection, context: Context) -> None:
    """Hear of a cancel; leave at once when the worker outside is gone."""
    try:
        while True:
            context.stop(pipe.recv())
    except (EOFError, OSError):
        os._exit(1)
