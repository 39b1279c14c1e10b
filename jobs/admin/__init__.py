"""Jobs in Django's own admin: look, cancel, retry, purge. Nothing is added or edited here.

Everything that changes a job goes through `lifecycle`. Payloads, results and errors are shown to
those with `view_payload`; the keys that a handler masks stay masked, except for superusers.
"""

from jobs.admin import events, navigation, settings  # noqa: F401  they register themselves
from jobs.admin.alerting import WebhookAdmin
from jobs.admin.audit import AuditEntryAdmin
from jobs.admin.bulk import BulkOperationAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.overview import panels, parts  # noqa: F401  they register themselves too
from jobs.admin.queues import QueueAdmin
from jobs.admin.schedules import ScheduleAdmin
from jobs.admin.tokens import ApiTokenAdmin
from jobs.admin.workers import WorkerAdmin

__all__ = [
    "ApiTokenAdmin",
    "AuditEntryAdmin",
    "BulkOperationAdmin",
    "JobAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "WebhookAdmin",
    "WorkerAdmin",
]
