"""What a person or program may do: every permission by name, and the groups that are shipped.

Only these are ever asked for. All lie in the app `jobs`, also those about workers and ranges.
`change_job`, `delete_job` and the like, which Django makes for each table, grant nothing.
"""

from __future__ import annotations

VIEW = "jobs.view_job"
"""See jobs, queues, workers, schedules and range runs, without what is in a payload or an error."""
VIEW_PAYLOAD = "jobs.view_payload"
CREATE = "jobs.add_job"
RETRY = "jobs.retry_job"
CANCEL = "jobs.cancel_job"
EDIT = "jobs.edit_job"
PURGE = "jobs.purge_job"
PURGE_ALL = "jobs.purge_all_dead"
PAUSE_QUEUE = "jobs.pause_queue"
TUNE_QUEUE = "jobs.tune_queue"
CONTROL_WORKER = "jobs.control_worker"
EDIT_SCHEDULE = "jobs.edit_schedule"
RUN_SCHEDULE = "jobs.run_schedule"
CONTROL_RUN = "jobs.control_run"
MANAGE_ALERTS = "jobs.manage_alerts"
VIEW_AUDIT = "jobs.view_audit"

VIEWER = (VIEW,)
OPERATOR = (
    *VIEWER,
    VIEW_PAYLOAD,
    CREATE,
    RETRY,
    CANCEL,
    EDIT,
    PAUSE_QUEUE,
    CONTROL_WORKER,
    EDIT_SCHEDULE,
    RUN_SCHEDULE,
    CONTROL_RUN,
)
SUPERVISOR = (*OPERATOR, PURGE, PURGE_ALL, TUNE_QUEUE, MANAGE_ALERTS, VIEW_AUDIT)
GROUPS = {"Viewer": VIEWER, "Operator": OPERATOR, "Supervisor": SUPERVISOR}

ALL = SUPERVISOR
