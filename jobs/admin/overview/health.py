"""Is all well? If not, the worst first: each fact with where to go about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from jobs import clocks
from jobs.admin.overview import fleet
from jobs.admin.overview.flows import LATE_SECONDS
from jobs.admin.overview.numbers import Duties, Numbers
from jobs.console.sample import OLD_SECONDS
from jobs.console.words import count, duration, off
from jobs.live import stream
from jobs.workers import WorkerFacts

PAUSED_SECONDS = 900.0
RISING = 10
"""So many dead letters in an hour, and twice as many as in the hour before, are a rise."""
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Fact:
    level: Literal["bad", "warn"]
    text: str
    place: str = ""
    """The name of the page, such as "jobs_worker_changelist"."""
    argument: str = ""
    query: str = ""


def facts(
    sample: dict[str, Any], numbers: Numbers, duties: Duties, workers: list[WorkerFacts]
) -> list[Fact]:
    """In the order in which a person should look at them."""
    found = [
        *_workers(sample, workers),
        *_unknown(duties, workers),
        *_dead(numbers),
        *_late(sample),
        *_overdue(duties),
        *_paused(numbers),
        *_feed(sample),
        *_clocks(numbers, workers),
    ]
    return sorted(found, key=lambda fact: fact.level != "bad")


def _workers(sample: dict[str, Any], found: list[WorkerFacts]) -> Iterator[Fact]:
    totals = fleet.totals(found)
    place = "jobs_worker_changelist"
    if not totals["workers"]:
        waiting = sample.get("jobs", {}).get("states", {}).get("ready", 0)
        text = "No worker is running"
        if waiting:
            text += f": {_jobs(waiting)} {'waits' if waiting == 1 else 'wait'} for one"
        yield Fact(level="bad", text=text, place=place)
    if totals["stale"]:
        some = "1 worker shows" if totals["stale"] == 1 else f"{totals['stale']:,} workers show"
        yield Fact(level="bad", text=f"{some} no sign of life", place=place)


def _unknown(duties: Duties, workers: list[WorkerFacts]) -> Iterator[Fact]:
    if not fleet.able(workers):
        return  # then nobody knows any type: that is said already
    for message in duties.unknown[:SHOWN]:
        yield Fact(
            level="bad", text=_sentence(message), place="jobs_job_changelist", query="state=ready"
        )


def _dead(numbers: Numbers) -> Iterator[Fact]:
    lately, before = numbers.dead_lately, numbers.dead_before
    if lately >= RISING and lately >= 2 * before:
        number = count(lately, is_least=numbers.dead_is_capped)
        yield Fact(
            level="bad",
            text=f"Dead letters rise: {number} in the last hour, {before:,} in the one before",
            place="jobs_job_dead",
        )


def _late(sample: dict[str, Any]) -> Iterator[Fact]:
    queues = sample.get("jobs", {}).get("queues", [])
    late = [
        queue
        for queue in queues
        if not queue["paused"] and (queue["oldest_wait_seconds"] or 0) > LATE_SECONDS
    ]
    late.sort(key=lambda queue: queue["oldest_wait_seconds"], reverse=True)
    for queue in late[:SHOWN]:
        yield Fact(
            level="warn",
            text=f"Jobs in {queue['name']} wait for up to {duration(queue['oldest_wait_seconds'])}",
            place="jobs_queue_change",
            argument=queue["name"],
        )


def _overdue(duties: Duties) -> Iterator[Fact]:
    for name, seconds in duties.overdue[:SHOWN]:
        yield Fact(
            level="bad",
            text=f"Schedule {name} is overdue by {duration(round(seconds))}",
            place="jobs_schedule_changelist",
        )


def _paused(numbers: Numbers) -> Iterator[Fact]:
    for queue in numbers.paused:
        if queue.seconds > PAUSED_SECONDS:
            text = f"Queue {queue.name} has been paused for {duration(round(queue.seconds))}"
            text += f" by {queue.by}" if queue.by else ""
            text += f", until {clocks.said(queue.until)}" if queue.until else ""
            text += f": {queue.reason}" if queue.reason else ""
            yield Fact(
                level="warn", text=text[:300], place="jobs_queue_change", argument=queue.name
            )


def _feed(sample: dict[str, Any]) -> Iterator[Fact]:
    if not stream.is_configured():
        text = "No live events: COPPICE_REDIS_URL is empty, so open pages ask every few seconds"
        yield Fact(level="warn", text=text)
    elif not sample.get("feed", {}).get("seq"):
        text = "Redis cannot be reached: live events are dropped, jobs go on"
        yield Fact(level="warn", text=text)
    age = time.time() - sample.get("jobs", sample).get("at", 0)
    if age > OLD_SECONDS:
        yield Fact(level="warn", text=f"These numbers are {duration(round(age))} old")


def _clocks(numbers: Numbers, workers: list[WorkerFacts]) -> Iterator[Fact]:
    if numbers.skew.is_telling:
        yield Fact(level="warn", text=f"This host's clock is {off(numbers.skew)}")
    skews = [(host.name, skew) for host in fleet.by_host(workers) if (skew := host.skew)]
    for name, skew in skews[:SHOWN]:
        text = f"The clock of {name} is {off(skew)}"
        yield Fact(level="warn", text=text, place="jobs_worker_changelist")


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
