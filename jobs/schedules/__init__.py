"""Recurring jobs: a schedule's rule asks for slots, and each slot becomes one job at most.

- A slot is a nominal time on the rule's grid. Its job is due at that time, however late the tick.
- `misfire` says what becomes of slots that passed while nobody ticked: `once` (default) makes up
  for all of them with the latest, `skip` drops them, `each` runs every one.
- `allow_overlap=False` (default): a slot that is due while the job of the slot before is still
  pending or processing is dropped (with `each`: waits for its turn).
- How a job ends means nothing to its schedule. Only disabling or deleting the schedule ends it.
- Dropped slots are counted in `missed_count` and told by the event `schedule.missed`.

`deciding.py` has the rules, `ticking.py` acts on them, `editing.py` is for people and programs,
`series.py` serves `enqueue(recur_interval=)`, `previewing.py` shows the runs to come.
"""

from jobs.schedules.editing import (
    change,
    create,
    database_now,
    delete,
    describe,
    disable,
    enable,
    get,
    next_runs,
    rule_of,
    run_now,
    skip_next,
    unsaved,
)
from jobs.schedules.previewing import Run, preview
from jobs.schedules.series import FirstSlot, create_for_job
from jobs.schedules.ticking import Fired, tick

__all__ = [
    "Fired",
    "FirstSlot",
    "Run",
    "change",
    "create",
    "create_for_job",
    "database_now",
    "delete",
    "describe",
    "disable",
    "enable",
    "get",
    "next_runs",
    "preview",
    "rule_of",
    "run_now",
    "skip_next",
    "tick",
    "unsaved",
]
