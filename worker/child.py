"""One worker process: `python -m worker.child`, started and watched by the supervisor.

    feeder -> stock -> executor -> completer

The main thread only looks after things: it moves the pulse, obeys the supervisor, and stops what is
overdue. Orders and reports are lines of JSON (`offspring.py`). When the supervisor is gone, so is
this process, at once: nobody would beat for it, and its jobs are about to be taken over.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from typing import Any

from worker.kernel import die_with_parent

LOOK_SECONDS = 0.02
PULSE_SECONDS = 0.1
EXIT_DRAINED, EXIT_FORCED, EXIT_SETTINGS = 0, 1, 2


def main() -> int:
    charge = json.loads(os.environ["COPPICE_CHILD"])
    orders = take_orders_away()
    for descriptor in (charge["report_fd"], charge["places_fd"]):
        os.set_inheritable(descriptor, False)
    _die_with(charge["supervisor_pid"])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _the_supervisor_decides)
    report = Reporter(charge["report_fd"])
    # What is imported stays. To look through it for garbage again and again takes a third of the start,
    # and most of every full collection later.
    gc.disable()
    try:
        import django

        django.setup()
        from jobs import conf

        conf.get()
    except Exception as error:  # noqa: BLE001 - told to the supervisor, which ends with code 2
        report("settings", error=str(error))
        return EXIT_SETTINGS
    child = Child(charge, orders, report)
    gc.freeze()
    gc.enable()
    return child.run()


def take_orders_away() -> int:
    """Move the pipe of the orders out of reach: a handler that reads or closes standard input, or
    starts a program that does, must not swallow them. Both find it empty.
    """
    orders = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return orders


class Reporter:
    """Tells the supervisor, in lines of JSON."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, what: str, **facts: Any) -> None:
        try:
            os.write(self._descriptor, json.dumps({"is": what, **facts}).encode() + b"\n")
        except OSError:
            os._exit(EXIT_FORCED)  # nobody is there to hear: the supervisor is gone


class Child:
    def __init__(self, charge: dict[str, Any], orders: int, report: Reporter) -> None:
        from worker.assembly import assemble
        from worker.places import Places

        self._report = report
        self._burst = bool(charge["burst"])
        self._places = Places(charge["places_fd"], charge["places_size"])
        self._parts = assemble(charge, self._places, on_given_up=self._replace_me)
        self._draining = False
        self._forced = False
        self._given_up = 0
        self._said_idle = False
        self._unread = b""
        self._orders = orders

    def run(self) -> int:
        parts = self._parts
        parts.completer.start()
        parts.feeder.start()
        self._report("ready")
        pulse_at = 0.0
        while True:
            now = time.monotonic()
            if now - pulse_at >= PULSE_SECONDS:
                self._places.beat()
                pulse_at = now
            self._obey()
            parts.deadlines.look()
            parts.stock.nudge()
            if self._burst:
                self._tell_idle()
            if not parts.completer.is_alive or not (parts.feeder.is_alive or self._forced):
                # Nothing would come in or go out any more: the supervisor gives back what is here.
                self._report("crippled")
                os._exit(EXIT_FORCED)
            if self._draining and self._is_empty():
                return self._leave(EXIT_FORCED if self._forced else EXIT_DRAINED)

    def _obey(self) -> None:
        """Wait a moment for orders and carry them out."""
        readable, _, _ = select.select([self._orders], [], [], LOOK_SECONDS)
        if not readable:
            return
        chunk = os.read(self._orders, 65_536)
        if not chunk:
            os._exit(EXIT_FORCED)  # the supervisor's end of the pipe is closed: it is gone
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            match json.loads(line)["do"]:
                case "drain":
                    self._drain()
                case "abandon":
                    self._abandon()
                case "renew":
                    self._renew()

    def _drain(self) -> None:
        """Claim nothing more, hand back what has not started, finish what runs."""
        if self._draining:
            return
        self._draining = True
        self._parts.desk.draining = True
        self._parts.feeder.drain(5)
        self._hand_back_unstarted()

    def _abandon(self) -> None:
        """Hand back unspent what still runs, and leave."""
        from jobs.outcomes import Run, hand_back

        self._drain()
        self._forced = True
        now = time.monotonic()
        for seat in self._parts.seats.taken():
            with seat.lock:
                job, context = seat.job, seat.context
                if job is None or context is None or seat.abandoned:
                    continue
                context.stop("stop")
                seat.abandoned = True
                run = Run(wait=max(0.0, seat.started - job.received), run=now - seat.started)
            self._parts.completer.put(hand_back(job, "the worker was told to stop", run=run))
        self._parts.stock.close()

    def _renew(self) -> None:
        """Declared dead: every lease is gone, so nothing that happens here may be written."""
        self._draining = self._forced = True
        self._parts.completer.discard()
        self._parts.seats.stop_all("stale")
        self._parts.feeder.stop()
        self._parts.stock.take_back()
        self._parts.stock.close()

    def _replace_me(self) -> None:
        """A handler would not stop: finish the others, while another process takes the work."""
        self._given_up += 1  # and its slot with it
        self._report("replace me")
        self._drain()

    def _hand_back_unstarted(self) -> None:
        from jobs.outcomes import hand_back

        for job in self._parts.stock.take_back():
            self._parts.completer.put(hand_back(job, "the worker stops"))

    def _tell_idle(self) -> None:
        idle = self._parts.idle.is_set()
        if idle != self._said_idle:
            self._said_idle = idle
            self._report("burst done" if idle else "busy")

    def _is_empty(self) -> bool:
        """Nothing runs here any more but what was given up."""
        if self._forced:
            running = any(not seat.abandoned for seat in self._parts.seats.taken())
        else:
            # Not by the seats: a job that was just taken has none yet, and one that has just left
            # it may not have handed over its outcome.
            running = self._parts.stock.active > self._given_up
        if not self._forced and not running:
            # A claim that was under way when the drain began may have come in since.
            self._hand_back_unstarted()
        return not running and self._parts.feeder.is_quiet()

    def _leave(self, code: int) -> int:
        from jobs import events

        self._parts.feeder.stop()
        self._parts.stock.close()
        self._hand_back_unstarted()
        written = self._parts.completer.stop(None if not self._forced else 5)
        self._parts.journal.flush()
        events.flush()
        self._report("drained")
        sys.stdout.flush()
        # A thread that was given up, or a library's, must not keep the process.
        os._exit(code if written else EXIT_FORCED)


def _the_supervisor_decides(_number: int, _frame: object) -> None:
    """Not SIG_IGN, which the programs that handlers start would inherit."""


def _die_with(supervisor_pid: int) -> None:
    """Ask the kernel for SIGKILL when the supervisor dies, whatever holds this process then."""
    die_with_parent()
    if os.getppid() != supervisor_pid:
        os._exit(EXIT_FORCED)


if __name__ == "__main__":
    sys.exit(main())
