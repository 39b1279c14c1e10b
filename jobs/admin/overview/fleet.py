"""The workers that live, by host: how busy each is, with what, and when it was heard of last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs import workers
from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.limits import limited
from jobs.skew import ClockSkew
from jobs.workers import HeldJob, WorkerFacts, WorkerState

NAME = "fleet"
QUIET = "quiet"
FRESH_SECONDS = 1.0
SECONDS = 2.0
SLOTS_SHOWN = 64
"""The most slots of a worker that are drawn."""
MOST = 200

KNOWN = """
SELECT DISTINCT jsonb_array_elements_text(types) FROM jobs_worker WHERE id = ANY(%(ids)s::uuid[])
"""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A square: a job that runs there, or nothing."""

    job: HeldJob | None = None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A worker, as it is drawn."""

    worker: WorkerFacts
    slots: list[Slot]
    more_slots: int

    @property
    def state(self) -> str:
        """What it does; draining as soon as it was asked to stop, quiet once it says so."""
        worker = self.worker
        if worker.state is WorkerState.RUNNING:
            if worker.stop_requested_at is not None:
                return WorkerState.DRAINING.value
            if worker.quiet_requested_at is not None and worker.quiet_at is not None:
                return QUIET
        return worker.state.value

    @property
    def asked(self) -> str:
        """What it was asked and has not yet said that it does."""
        worker = self.worker
        if worker.state is not WorkerState.RUNNING:
            return ""
        if worker.stop_requested_at is not None:
            return "asked to stop"
        if (worker.quiet_requested_at is None) == (worker.quiet_at is None):
            return ""
        return "asked to go on" if worker.quiet_requested_at is None else "asked to be quiet"

    @property
    def asked_at(self) -> datetime | None:
        return self.worker.stop_requested_at or self.worker.quiet_requested_at

    @property
    def actions(self) -> list[str]:
        """What may be asked of it as it stands."""
        worker = self.worker
        match worker.state:
            case WorkerState.RUNNING if worker.stop_requested_at is None:
                return ["quiet" if worker.quiet_requested_at is None else "resume", "stop"]
            case WorkerState.STALE:
                return ["recover", *(["stop"] if worker.stop_requested_at is None else [])]
            case WorkerState.DEAD:
                return ["forget"]
            case _:
                return []


@dataclass(kw_only=True)
class Host:
    name: str
    workers: list[Shown] = field(default_factory=list)

    @property
    def slots(self) -> int:
        return sum(each.worker.concurrency for each in self.workers)

    @property
    def busy(self) -> int:
        return sum(each.worker.busy for each in self.workers)

    @property
    def stale(self) -> int:
        return sum(each.worker.state is WorkerState.STALE for each in self.workers)

    @property
    def skew(self) -> ClockSkew | None:
        """How far its clock is from the database's, if a worker that is heard of says so."""
        found = [
            each.worker.telling_skew
            for each in self.workers
            if each.worker.state is not WorkerState.STALE
        ]
        return max((skew for skew in found if skew), key=lambda s: abs(s.seconds), default=None)

    @property
    def versions(self) -> list[str]:
        return versions(each.worker for each in self.workers)


def living() -> list[WorkerFacts]:
    """At most a second old; those that are stale among them."""
    return kept(NAME, FRESH_SECONDS, _read)


def able(found: Iterable[WorkerFacts]) -> list[WorkerFacts]:
    """Those that are heard of, and take new work."""
    return [
        worker
        for worker in found
        if worker.state is WorkerState.RUNNING
        and worker.stop_requested_at is None
        and worker.quiet_requested_at is None
    ]


def serving(found: Iterable[WorkerFacts], queue: str) -> list[WorkerFacts]:
    return [worker for worker in found if not worker.queues or queue in worker.queues]


def versions(found: Iterable[WorkerFacts]) -> list[str]:
    return sorted({worker.version for worker in found if worker.version})


def by_host(found: Iterable[WorkerFacts]) -> list[Host]:
    hosts: dict[str, Host] = {}
    for worker in found:
        hosts.setdefault(worker.host, Host(name=worker.host)).workers.append(shown(worker))
    return list(hosts.values())


def shown(worker: WorkerFacts) -> Shown:
    count = min(worker.concurrency, SLOTS_SHOWN)
    jobs = worker.jobs[:count]
    slots = [Slot(job=job) for job in jobs]
    slots += [Slot()] * (count - len(slots))
    return Shown(worker=worker, slots=slots, more_slots=worker.concurrency - count)


def totals(found: list[WorkerFacts]) -> dict[str, Any]:
    heard = [worker for worker in found if worker.state is not WorkerState.STALE]
    return {
        "workers": len(heard),
        "stale": len(found) - len(heard),
        "slots": sum(worker.concurrency for worker in heard),
        "busy": sum(worker.busy for worker in heard),
    }


def _read() -> list[WorkerFacts]:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        return workers.living(database, limit=MOST, jobs_of_each=SLOTS_SHOWN)


def types_of(ids: list[str]) -> set[str]:
    """The types that any of these workers knows."""
    return {row[0] for row in DjangoDatabase().rows(KNOWN, {"ids": ids})} if ids else set()
