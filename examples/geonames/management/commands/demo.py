"""`manage.py demo`: the whole product at work on real data, then a proof that it was done right."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from examples.geonames import loading
from examples.geonames.demo.account import NAME, password_of_admin
from examples.geonames.demo.cells import Cells
from examples.geonames.demo.countries import Countries
from examples.geonames.demo.display import Display
from examples.geonames.demo.processes import (
    HOST,
    Part,
    PartFailed,
    free_port,
    start_web,
    start_worker,
    wait_until_served,
)
from examples.geonames.demo.seeded import Seeded
from examples.geonames.demo.workload import Workload
from jobs.database import DjangoDatabase
from jobs.stats import stats

LOOK_SECONDS = 0.25
STUCK_SECONDS = 120
"""How long nothing may move before the demo gives up."""


class Stopped(BaseException):
    """SIGTERM or Ctrl-C."""


class Command(BaseCommand):
    help = "Try everything: console, worker, varied jobs, all cities of the world."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="end when all is done")
        parser.add_argument(
            "--port", type=int, default=8000, help="of the console, or the next free one"
        )
        parser.add_argument(
            "--limit", type=int, metavar="N", help="only the N most populous cities"
        )

    def handle(
        self, *_args: Any, once: bool, port: int, limit: int | None, **_options: Any
    ) -> None:
        if not settings.DEBUG:
            raise CommandError("The demo makes an account and shows errors: it needs DEBUG=true.")
        self.console = Console(file=self.stdout)  # type: ignore[arg-type]
        self.folder = Path(settings.BASE_DIR)
        self.data = self.folder / ".data"
        self.parts: list[Part] = []
        with stopping_on_signals(), ExitStack() as running:
            try:
                sound = self._run(running, port, limit)
                if not once:
                    self._serve()
            except PartFailed as error:
                raise CommandError(str(error)) from error
            except Stopped:
                self._say("Stopping ...")
                sound = not once
        if not sound:
            sys.exit(1)

    def _run(self, running: ExitStack, port: int, limit: int | None) -> bool:
        started = time.monotonic()
        self._say("Preparing the database")
        call_command("migrate", verbosity=0)
        password = password_of_admin(self.data / "admin-password")
        self._say("Loading the cities of the world")
        loading.load(limit)

        # All that the demo has Coppice do.
        workloads: list[Workload] = [Countries(), Cells(), Seeded()]
        for workload in workloads:
            workload.start()

        port = free_port(port)
        running.callback(self._stop_parts)
        self.parts.append(web := start_web(self.folder, self.data, port))
        self.parts.append(start_worker(self.folder, self.data))
        address = f"http://{HOST}:{port}/admin/"
        wait_until_served(web, address)
        shown = password or "(the password that you chose)"
        self._say(
            f"The console: [bold]{address}[/]  user [bold]{NAME}[/]  password [bold]{shown}[/]"
        )
        self._watch(workloads)
        return self._report(workloads, time.monotonic() - started)

    def _watch(self, workloads: Sequence[Workload]) -> None:
        """Return when all is done, or when nothing has moved for long."""
        last: Any = None
        moved_at = time.monotonic()
        with Display(self.console, [workload.title for workload in workloads]) as display:
            while True:
                for part in self.parts:
                    part.check()
                progress = [workload.progress() for workload in workloads]
                jobs = count_jobs()
                display.show(progress, jobs)
                if all(each.is_complete for each in progress):
                    return
                if (progress, jobs) != last:
                    last, moved_at = (progress, jobs), time.monotonic()
                elif time.monotonic() > moved_at + STUCK_SECONDS:
                    self._say(f"[red]Nothing has moved for {STUCK_SECONDS} seconds.[/]")
                    return
                time.sleep(LOOK_SECONDS)

    def _report(self, workloads: Sequence[Workload], seconds: float) -> bool:
        self._say("Comparing what was written with a plain computation")
        findings = [finding for workload in workloads for finding in workload.findings()]
        for workload in workloads:
            progress = workload.progress()
            if not progress.is_complete:
                findings.append(
                    f"{workload.title}: {progress.done:,} of {progress.total:,} were done."
                )
        for finding in findings:
            self.console.print(f"[red]WRONG[/] {finding}", soft_wrap=True)
        jobs = ", ".join(f"{count:,} {status}" for status, count in count_jobs().items())
        verdict = "[red]Something is wrong.[/]" if findings else "[green]All is as it should be.[/]"
        self._say(f"{verdict} {jobs}; {seconds:.0f} seconds.")
        return not findings

    def _serve(self) -> None:
        self._say("The console and the worker keep running. Ctrl-C ends both.")
        while True:
            for part in self.parts:
                part.check()
            time.sleep(1)

    def _stop_parts(self) -> None:
        # The worker first: while it drains, the console can still be looked at.
        for part in reversed(self.parts):
            code = part.stop()
            if part.name == "worker" and code:
                self._say(f"[yellow]The worker ended with code {code}; see {part.log}[/]")

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)


def count_jobs() -> dict[str, int]:
    """By status; those that there are none of are left out."""
    found = stats(DjangoDatabase())
    counts = {
        status: int(getattr(found, status))
        for status in ("pending", "processing", "completed", "failed", "cancelled")
    }
    return {status: count for status, count in counts.items() if count}


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        # Stopping takes its time; a second signal must not interrupt it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
