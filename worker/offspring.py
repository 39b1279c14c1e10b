"""One child process, as its supervisor sees it.

The child is `python -m worker.child`. They talk in lines of JSON: orders go through the child's
standard input (`{"do": "drain"}`), reports through a pipe of their own (`{"is": "ready"}`). What
the child holds stands in shared memory (`places.py`), readable also when it hangs or is dead.

PR_SET_PDEATHSIG, which the child asks for, is about the thread that started it: children must be
started by the supervisor's main thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.places import Held, Places

# The last word lets config/logging.py send a child's log where its supervisor's goes.
PROGRAM = (sys.executable, "-m", "worker.child", "runworker")
NO_PULSE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Birth:
    """A child to be: what the table of workers says before it may claim."""

    worker_id: str
    name: str
    host: str
    queues: tuple[str, ...]
    concurrency: int


class Offspring:
    def __init__(
        self,
        birth: Birth,
        *,
        charge: Mapping[str, Any],
        places_size: int,
        now: float,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """Start it; `charge` is what the child is told beside what this class adds."""
        self.birth = birth
        self.worker_id = birth.worker_id
        self.places = Places.create(places_size)
        self.is_ready = False
        self.is_idle = False
        """In a burst: nothing is due and nothing runs there."""
        self.is_leaving = False
        """It drains, or was told to; another takes its place."""
        self.is_stopped = False
        """By SIGSTOP or its like: it gets no beats."""
        self.is_forced = False
        """Told to give up what runs: what it leaves is handed back unspent."""
        self.is_void = False
        """Declared dead: its leases are gone, and it gets no beats."""
        self.is_silent = False
        """Its end of the report pipe is closed."""
        self.hung_at: float | None = None
        self.killed_for = ""
        self.abandon_at: float | None = None
        """Asked to stop by itself: when it must give up what runs."""
        self.kill_at: float | None = None
        self.exit_code: int | None = None

        self._received = b""
        self._pulse = 0
        self._pulse_at = now
        self._start(charge, places_size, program)

    def _start(self, charge: Mapping[str, Any], places_size: int, program: Sequence[str]) -> None:
        self.reports, report_end = os.pipe()
        os.set_blocking(self.reports, False)
        given = {
            **charge,
            "worker_id": self.worker_id,
            "name": self.birth.name,
            "queues": list(self.birth.queues),
            "concurrency": self.birth.concurrency,
            "report_fd": report_end,
            "places_fd": self.places.descriptor,
            "places_size": places_size,
            "supervisor_pid": os.getpid(),
        }
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        try:
            self.process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                pass_fds=[report_end, self.places.descriptor],
                env={**os.environ, "PYTHONPATH": path, "COPPICE_CHILD": json.dumps(given)},
                bufsize=0,
            )
        except BaseException:
            os.close(self.reports)
            self.places.close()
            raise
        finally:
            os.close(report_end)

    @property
    def pid(self) -> int:
        return self.process.pid

    # Orders

    def tell(self, order: str) -> None:
        """Send an order; a child that is gone does not mind."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps({"do": order}).encode() + b"\n")

    def drain(self) -> None:
        self.is_leaving = True
        self.tell("drain")

    def abandon(self, *, kill_at: float) -> None:
        self.is_leaving = self.is_forced = True
        self._kill_by(kill_at)
        self.tell("abandon")

    def renew(self, *, kill_at: float) -> None:
        """It was declared dead: whatever it still does is void."""
        self.is_leaving = self.is_void = True
        self._kill_by(kill_at)
        self.tell("renew")

    def kill(self, reason: str) -> None:
        if not self.killed_for and self.exit_code is None:
            self.killed_for = reason
            # Not reaped yet, so the id cannot belong to anybody else.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _kill_by(self, moment: float) -> None:
        self.kill_at = moment if self.kill_at is None else min(self.kill_at, moment)

    # What it says and shows

    def read(self) -> Iterator[dict[str, Any]]:
        """The reports that have come since the last call; never waits."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reports, 65_536):
                self._received += chunk
            self.is_silent = True
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                report = json.loads(line)
                if isinstance(report, dict):
                    yield report

    def look_for_change(self, now: float) -> bool:
        """Ask the system once; returns whether the process has ended."""
        if self.exit_code is not None:
            return True
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            self.is_stopped = True
        elif os.WIFCONTINUED(status):
            self.is_stopped = False
            self._pulse_at = now
        else:
            self.exit_code = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.is_stopped = False
            return True
        return self.look_for_change(now)

    def forgive(self, now: float) -> None:
        """Count the pulse from now: the supervisor itself has not looked for a while."""
        self._pulse_at = now

    def hangs(self, now: float, *, grace: float, hung_after: float) -> str:
        """Why the process must be killed; empty if it need not.

        No pulse means that its main thread does not run: some handler holds the interpreter. A
        process that somebody has stopped on purpose does not hang.
        """
        pulse = self.places.pulse
        if pulse != self._pulse or self.is_stopped:
            self._pulse, self._pulse_at = pulse, now
            return ""
        still = now - self._pulse_at
        if still > hung_after:
            return f"no pulse for {still:.1f} s"
        if still > NO_PULSE_SECONDS and any(
            held.started and 0 < held.deadline < now - grace for held in self.places.held()
        ):
            return f"no pulse for {still:.1f} s, and a job is past its deadline"
        return ""

    # The end

    @property
    def ended_well(self) -> bool:
        """By itself, and as told; a child that had to give up jobs says so by its exit code."""
        return not self.killed_for and (
            self.exit_code == 0 or (self.is_forced and self.exit_code == 1)
        )

    @property
    def last_words(self) -> str:
        """How it died, for people."""
        if self.killed_for:
            return f"killed by its supervisor: {self.killed_for}"
        if self.exit_code is None:
            return "it still runs"
        if self.exit_code < 0:
            try:
                name = signal.Signals(-self.exit_code).name
            except ValueError:
                name = f"signal {-self.exit_code}"
            return f"killed by {name}"
        return f"exit code {self.exit_code}"

    def bury(self) -> list[Held]:
        """Close all that is shared with the dead process; returns what it held."""
        held = list(self.places.held())
        self.places.close()
        os.close(self.reports)
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        return held
