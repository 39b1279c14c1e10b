"""The job type that works on bulk operations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobs.answers import Snooze
from jobs.bulk.operating import ATTEMPTS, TYPE
from jobs.bulk.running import Run
from jobs.context import Context
from jobs.registry import OWN_QUEUE, handler
from jobs.retry import Backoff

LONGEST = timedelta(days=31)
"""The work is done in slices: a time-out would strike only a batch that hangs."""


@handler(
    TYPE,
    queue=OWN_QUEUE,
    priority=1,
    max_attempts=ATTEMPTS,
    timeout=LONGEST,
    backoff=Backoff.fixed(2),
    internal=True,
)
def work(payload: dict[str, Any], context: Context) -> Snooze | None:
    return Run(str(payload["operation"]), context).work()
