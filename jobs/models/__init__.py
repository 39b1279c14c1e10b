"""The tables. Fields, constraints and properties of one row; nothing else."""

from jobs.models.audit import AuditEntry, BulkOperation
from jobs.models.history import Attempt, JobLog
from jobs.models.job import Job, JobDependency
from jobs.models.preferences import Preferences
from jobs.models.queue import Queue
from jobs.models.rollup import Rollup, Total
from jobs.models.schedule import Schedule
from jobs.models.token import ApiToken, IdempotencyKey, LoginFailure
from jobs.models.webhook import AlertRecipient, Webhook, WebhookDelivery
from jobs.models.worker import Leader, Worker

__all__ = [
    "AlertRecipient",
    "ApiToken",
    "Attempt",
    "AuditEntry",
    "BulkOperation",
    "IdempotencyKey",
    "Job",
    "JobDependency",
    "JobLog",
    "Leader",
    "LoginFailure",
    "Preferences",
    "Queue",
    "Rollup",
    "Schedule",
    "Total",
    "Webhook",
    "WebhookDelivery",
    "Worker",
]
