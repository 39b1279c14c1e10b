"""Tell what closing edges has done to dependents: one JSON line and one event each."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from jobs import events
from jobs.edges import Released
from jobs.states import Status

_log = structlog.get_logger("coppice.edges")


def tell_released(released: Sequence[Released]) -> None:
    """After the commit: dependents that were released, and those that were cancelled."""
    for one in released:
        name = f"job.{one.event}"
        target = Status.CANCELLED if one.event == "cancelled" else Status.PENDING
        _log.info(
            name,
            job_id=one.job_id,
            type=one.type,
            queue=one.queue,
            from_status=Status.PENDING.value,
            to_status=target.value,
            reason=one.reason,
        )
        events.emit(name, job_id=one.job_id, type=one.type, queue=one.queue, reason=one.reason)


def queues_to_wake(released: Sequence[Released]) -> set[str]:
    """The queues in which something has become due."""
    return {one.queue for one in released if one.event == "released" and one.is_due}
