"""Two schedulers, drop-in for each other: ``runworker --scheduler heap|skiplist``."""

from typing import Any

from worker.schedulers.base import Entry, LaneScheduler, Scheduler
from worker.schedulers.heap import HeapScheduler
from worker.schedulers.skiplist import SkipListScheduler

SCHEDULERS: dict[str, type[LaneScheduler[Any, Any]]] = {
    "heap": HeapScheduler,
    "skiplist": SkipListScheduler,
}

__all__ = ["SCHEDULERS", "Entry", "HeapScheduler", "Scheduler", "SkipListScheduler"]
