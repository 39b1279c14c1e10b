"""Queues as they flow: what comes in, what goes out, how long it waits, and who serves it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs import queues
from jobs.admin.overview import fleet
from jobs.console.kept import kept
from jobs.console.words import duration
from jobs.database import Database, DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import id_at
from jobs.histograms import counts, packed, percentile
from jobs.limits import limited
from jobs.queues import QueueFacts

NAME = "flows"
FRESH_SECONDS = 1.0
SECONDS = 3.0
CAP = 10_000
MINUTES = 30
"""How far back the small chart of a queue goes."""
WAIT_MINUTES = 15
SHARE = 0.95
LATE_SECONDS = 300.0
"""A due job that waits longer is said to be late."""

# Ids begin with the time at which they were made.
ARRIVED = """
SELECT queue, count(*) FROM (
    SELECT queue FROM jobs_job WHERE id >= %(since)s::uuid ORDER BY id LIMIT %(most)s
) lately
GROUP BY queue
"""

ENDED = """
SELECT queue, floor(extract(epoch FROM date_trunc('minute', now()) - minute) / 60)::int, sum(jobs)
FROM jobs_rollup
WHERE minute >= date_trunc('minute', now()) - %(minutes)s * interval '1 minute'
    AND minute < date_trunc('minute', now())
    AND queue = ANY(%(names)s) AND outcome = 'succeeded'
GROUP BY 1, 2
"""

WAITED = f"""
WITH lately AS MATERIALIZED (
    SELECT queue, timings FROM jobs_rollup
    WHERE minute > now() - %(minutes)s * interval '1 minute' AND outcome <> 'handed_back'
        AND queue = ANY(%(names)s)
)
{packed("lately", "queue")}
"""

# The index holds the queue: no row is read.
DEAD = """
SELECT queue, count(*) FROM (
    SELECT queue FROM jobs_job WHERE status = 'failed'
    ORDER BY type, error_fingerprint, failed_at, id LIMIT %(most)s
) dead
GROUP BY queue
"""


@dataclass(frozen=True, kw_only=True)
class Flow:
    queue: QueueFacts
    arriving: int
    """Jobs made in the last minute."""
    arriving_is_capped: bool
    dead: int
    dead_is_capped: bool
    slots: int
    """Of the workers that serve it."""
    p95_wait: float | None
    ended: list[int] = field(default_factory=list)
    """Completed jobs in each of the last whole minutes."""

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def leaving(self) -> float:
        """Attempts that end a minute."""
        return self.queue.completed_per_minute + self.queue.failed_per_minute

    @property
    def is_late(self) -> bool:
        return not self.queue.paused and (self.queue.oldest_wait_seconds or 0) > LATE_SECONDS

    @property
    def is_unserved(self) -> bool:
        return not self.queue.workers and bool(self.queue.depth or self.queue.later)

    @property
    def drain_seconds(self) -> float | None:
        """Until nothing due is left, if it goes on like this; None: it does not get less."""
        net = self.queue.completed_per_minute - self.arriving
        if self.queue.paused or not self.queue.depth or net <= 0 or self.queue.depth_is_capped:
            return None
        return self.queue.depth / net * 60

    @property
    def drain_minutes(self) -> str:
        """The same in words, no finer than it is known."""
        seconds = self.drain_seconds
        if seconds is None:
            return ""
        return "a minute" if seconds < 60 else duration(round(seconds / 60) * 60)


def flows() -> list[Flow]:
    """The first hundred queues by name, and one more, at most a second old."""
    return kept(NAME, FRESH_SECONDS, lambda: read(limit=101))


def read(*, after: str = "", limit: int = 100) -> list[Flow]:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        names = queues.names(database, after=after, limit=limit)
        return _of(database, queues.facts(database, names))


def one(name: str) -> Flow:
    """As the list has it, if it does. Raises NotFound, and TooBroad after 3 s."""
    with suppress(TooBroad):  # of all queues; this one alone may be quick
        for flow in flows():
            if flow.name == name:
                return flow
    return of(queues.one(DjangoDatabase(), name))


def of(facts: QueueFacts) -> Flow:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        return _of(database, [facts])[0]


def _of(database: Database, found: Sequence[QueueFacts]) -> list[Flow]:
    names = [queue.name for queue in found]
    given: dict[str, Any] = {"names": names, "most": CAP + 1}
    since = id_at(datetime.now(UTC) - timedelta(minutes=1))
    arrived: dict[str, int] = dict(database.rows(ARRIVED, {**given, "since": str(since)}))
    dead: dict[str, int] = dict(database.rows(DEAD, given))
    ended: dict[str, list[int]] = defaultdict(lambda: [0] * MINUTES)
    for name, ago, completed in database.rows(ENDED, {**given, "minutes": MINUTES}):
        ended[name][MINUTES - ago] = int(completed)
    rows = database.rows(WAITED, {**given, "minutes": WAIT_MINUTES})
    waits = {name: percentile(counts([timings])[0], SHARE) for name, timings in rows}
    workers = fleet.able(fleet.living())
    arriving_is_capped = sum(arrived.values()) > CAP
    dead_is_capped = sum(dead.values()) > CAP
    return [
        Flow(
            queue=queue,
            arriving=arrived.get(queue.name, 0),
            arriving_is_capped=arriving_is_capped,
            dead=dead.get(queue.name, 0),
            dead_is_capped=dead_is_capped,
            slots=sum(worker.concurrency for worker in fleet.serving(workers, queue.name)),
            p95_wait=waits.get(queue.name),
            ended=ended[queue.name] if queue.name in ended else [0] * MINUTES,
        )
        for queue in found
    ]
