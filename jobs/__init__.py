"""What an application imports: `from jobs import handler, enqueue, ...`.

Names are loaded on first use, so that the pure modules can be imported without Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.answers import Discard as Discard
    from jobs.answers import Hold as Hold
    from jobs.answers import Retry as Retry
    from jobs.answers import Snooze as Snooze
    from jobs.answers import WaitFor as WaitFor
    from jobs.answers import child as child
    from jobs.context import Context as Context
    from jobs.enqueueing import enqueue as enqueue
    from jobs.enqueueing import enqueue_jobs as enqueue_jobs
    from jobs.enqueueing import enqueue_many as enqueue_many
    from jobs.events import on as on
    from jobs.registry import handler as handler
    from jobs.specs import JobSpec as JobSpec

_HOMES = {
    "Context": "jobs.context",
    "Discard": "jobs.answers",
    "Hold": "jobs.answers",
    "JobSpec": "jobs.specs",
    "Retry": "jobs.answers",
    "Snooze": "jobs.answers",
    "WaitFor": "jobs.answers",
    "child": "jobs.answers",
    "enqueue": "jobs.enqueueing",
    "enqueue_jobs": "jobs.enqueueing",
    "enqueue_many": "jobs.enqueueing",
    "handler": "jobs.registry",
    "on": "jobs.events",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'jobs' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
