"""What people may do to jobs: one function per action, called by REST, console and command line.

Each locks the rows it is about, in id order, decides on what it then sees, and writes with the
state it expects in the WHERE: so a worker that completes the job at the same moment, or a second
person, can only make the action fail with `Conflict`, never be overwritten. Each returns what
really changed, writes a log row and an audit entry with the actor in the same transaction, and tells
events after the commit. `NotFound`, `Conflict` and `InvalidInput` (all in `jobs.errors`) leave
everything as it was.

`by` names the actor; empty means the program itself, which is logged but not audited.
"""

from jobs.lifecycle.cancelling import CancelResult, cancel, cancel_many
from jobs.lifecycle.changed import Changed, Skipped
from jobs.lifecycle.editing import add_dependency, change, change_many, edit_payload
from jobs.lifecycle.giving_up import mark_lost
from jobs.lifecycle.pausing import pause_queue, resume_queue
from jobs.lifecycle.purging import empty_dead_letters, purge, purge_many
from jobs.lifecycle.quieting import (
    forget_worker,
    quiet_worker,
    recover_worker,
    resume_worker,
)
from jobs.lifecycle.retrying import release, retry, retry_many, run_now, run_now_many
from jobs.lifecycle.stopping import stop_worker

__all__ = [
    "CancelResult",
    "Changed",
    "Skipped",
    "add_dependency",
    "cancel",
    "cancel_many",
    "change",
    "change_many",
    "edit_payload",
    "empty_dead_letters",
    "forget_worker",
    "mark_lost",
    "pause_queue",
    "purge",
    "purge_many",
    "quiet_worker",
    "recover_worker",
    "release",
    "resume_queue",
    "resume_worker",
    "retry",
    "retry_many",
    "run_now",
    "run_now_many",
    "stop_worker",
]
