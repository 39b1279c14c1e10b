"""The tables. Fields, constraints and properties of one row; nothing else."""

from jobs.models.history import Attempt, JobLog
from jobs.models.job import Job, JobDependency
from jobs.models.queue import Queue
from jobs.models.rollup import Rollup, Total
from jobs.models.schedule import Schedule
from jobs.models.worker import Leader, Worker

__all__ = [
    "Attempt",
    "Job",
    "JobDependency",
    "JobLog",
    "Leader",
    "Queue",
    "Rollup",
    "Schedule",
    "Total",
    "Worker",
]
