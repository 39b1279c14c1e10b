"""Puts the parts of a worker process together; who knows whom is all here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from django.db import connections

from jobs import conf, registry
from jobs.answers import JobCancelled
from jobs.claim import CLAIM_SESSION
from jobs.claimed import Claimed
from jobs.context import Line
from jobs.database import DirectDatabase, direct_conninfo
from jobs.outcomes import Run, decide_raise, hand_back
from worker.completer import SESSION as COMPLETER_SESSION
from worker.completer import Completer
from worker.coroutines import Loop
from worker.deadlines import Deadlines
from worker.executor import Executor
from worker.feeder import Feeder
from worker.journal import Journal
from worker.lanes import LaneBook
from worker.outage import Outages
from worker.places import Places
from worker.sandbox import Sandbox
from worker.schedulers import SCHEDULERS
from worker.seats import Seats
from worker.stock import Stock


class WorkerDesk:
    """What handlers' contexts talk to."""

    def __init__(self) -> None:
        self.draining = False
        self.completer: Completer
        self.stock: Stock

    def log(self, line: Line) -> None:
        self.completer.put(line)

    def progress(self, job: Claimed, done: int, total: int | None) -> None:
        self.completer.report(job, done, total)

    def should_yield(self, job: Claimed) -> bool:
        return self.draining or self.stock.has_better_waiting(job)


@dataclass(frozen=True, kw_only=True)
class Parts:
    stock: Stock
    feeder: Feeder
    executor: Executor
    completer: Completer
    deadlines: Deadlines
    seats: Seats
    desk: WorkerDesk
    journal: Journal
    idle: Event


def assemble(charge: dict[str, Any], places: Places, *, on_given_up: Callable[[], None]) -> Parts:
    keep_connections()
    settings = conf.get()
    worker_id: str = charge["worker_id"]
    outages = Outages()
    seats = Seats()
    idle = Event()
    journal = Journal(charge["name"])
    desk = WorkerDesk()
    conninfo = direct_conninfo()

    completer = Completer(
        worker_id=worker_id,
        database=DirectDatabase(conninfo, name="completer", session=COMPLETER_SESSION),
        places=places,
        outages=outages,
        journal=journal,
        on_room=lambda: feeder.kick(),  # noqa: PLW0108  made below
        is_burst=bool(charge["burst"]),
    )
    feeder = Feeder(
        worker_id=worker_id,
        database=DirectDatabase(conninfo, name="feeder", session=CLAIM_SESSION),
        lanes=LaneBook(registry.handlers(), charge["queues"]),
        places=places,
        outages=outages,
        journal=journal,
        backlog=lambda: completer.backlog,
        on_cancel=lambda leases: _cancel(stock, seats, completer, dict(leases)),
        give_back=lambda jobs, reason: _hand_back(completer, jobs, reason),
        on_idle=lambda is_idle: idle.set() if is_idle else idle.clear(),
    )
    sandbox = Sandbox(worker_id, desk)
    loop = Loop(
        seats=seats,
        places=places,
        desk=desk,
        put=completer.put,
        release=lambda: stock.release(),  # noqa: PLW0108  made below
        measured=lambda type, seconds: stock.measured(type, seconds),  # noqa: PLW0108
    )
    executor = Executor(
        worker_id=worker_id,
        completer=completer,
        places=places,
        seats=seats,
        desk=desk,
        loop=loop,
        sandbox=sandbox,
    )
    stock = Stock(
        SCHEDULERS[charge["scheduler"]](
            aging_minutes=settings.aging_minutes, aging_step=settings.aging_step
        ),
        charge["concurrency"],
        aging_minutes=settings.aging_minutes,
        aging_step=settings.aging_step,
        wants_more=feeder.kick,
        wants_thread=executor.start_thread,
    )
    feeder.stock = executor.stock = desk.stock = stock
    desk.completer = completer
    deadlines = Deadlines(
        seats,
        grace_seconds=settings.grace_seconds,
        put=completer.put,
        on_given_up=on_given_up,
    )
    return Parts(
        stock=stock,
        feeder=feeder,
        executor=executor,
        completer=completer,
        deadlines=deadlines,
        seats=seats,
        desk=desk,
        journal=journal,
        idle=idle,
    )


def keep_connections() -> None:
    """Keep handlers' connections from job to job, with a health check; opening one costs more than
    many a job. Django's default is to close them after each request.
    """
    for wrapper in connections.all():
        wrapper.settings_dict["CONN_MAX_AGE"] = None
        wrapper.settings_dict["CONN_HEALTH_CHECKS"] = True


def _hand_back(completer: Completer, jobs: list[Claimed], reason: str) -> None:
    for job in jobs:
        completer.put(hand_back(job, reason))


def _cancel(stock: Stock, seats: Seats, completer: Completer, leases: dict[str, int]) -> None:
    """Somebody asked to cancel jobs that this process holds."""
    seats.stop(leases, "cancel")
    for job_id in leases:
        job = stock.discard(job_id)
        if job is not None:
            error = JobCancelled("cancelled before it started")
            completer.put(decide_raise(job, error, Run(wait=0.0, run=0.0), None))
