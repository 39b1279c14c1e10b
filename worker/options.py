"""What `runworker` is told on its command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from jobs.registry import OWN_QUEUE, QUEUE_NAME

SCHEDULERS = ("heap", "skiplist")
MOST_THREADS = 1_000
MOST_PROCESSES = 256
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Options:
    queues: tuple[str, ...] = ()
    """Empty: all queues."""
    concurrency: int = 16
    """Jobs that one child process runs at a time."""
    processes: int = 1
    scheduler: str = "heap"
    burst: bool = False
    """End when nothing is due and nothing runs here."""
    graceful_timeout: float = 30.0
    """Seconds that running jobs get to finish after the first signal."""
    autoreload: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--queues",
        type=_queues,
        default=(),
        metavar="A,B",
        help=f"serve only these queues, and {OWN_QUEUE} (default: all)",
    )
    parser.add_argument(
        "--concurrency",
        type=_whole(1, MOST_THREADS),
        default=Options.concurrency,
        metavar="N",
        help="jobs that each process runs at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--processes",
        type=_whole(1, MOST_PROCESSES),
        default=Options.processes,
        metavar="N",
        help="child processes (default: %(default)s)",
    )
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        default=Options.scheduler,
        help="order of claimed jobs in memory (default: %(default)s)",
    )
    parser.add_argument(
        "--burst", action="store_true", help="end when nothing is due and nothing runs here"
    )
    parser.add_argument(
        "--graceful-timeout",
        type=_seconds,
        default=Options.graceful_timeout,
        metavar="SECONDS",
        help="how long running jobs may go on after the first signal (default: %(default)g)",
    )
    parser.add_argument(
        "--autoreload", action="store_true", help="start anew when a Python file changes"
    )


def from_arguments(given: dict[str, Any]) -> Options:
    names = Options.__dataclass_fields__
    return Options(**{name: given[name] for name in names})


def _queues(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("must name at least one queue")
    for name in names:
        if not QUEUE_NAME.match(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is no queue name: 1 to 60 letters, digits or _.:-"
            )
    return names if OWN_QUEUE in names else (*names, OWN_QUEUE)


def _whole(least: int, most: int) -> Any:
    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} must be a whole number from {least} to {most:,}"
            )
        return number

    return convert


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= DAY:
        raise argparse.ArgumentTypeError(f"{text!r} must be seconds from 0 to {DAY:,.0f}")
    return seconds
