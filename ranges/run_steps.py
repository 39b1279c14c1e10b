"""What becomes of a run, decided by its own job or by a person: each by who holds the run's row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Now

from jobs import conf
from jobs.texts import clean
from ranges import planting
from ranges.models import RangeFailure, RangeRun
from ranges.run_jobs import go_on
from ranges.run_rows import forgive, nodes_of, stop_clock, tell, write
from ranges.states import FailureState, RunStatus


def pause_held(run: RangeRun, reason: str, by: str = "") -> None:
    stop_clock(run)
    write(run, status=RunStatus.PAUSED, reason=clean(reason, 1_000))
    tell("range.paused", run, by=by, reason=reason)


def finish(run: RangeRun, status: RunStatus, *, reason: str = "", verdict: Any = None) -> None:
    """The run has ended. The caller holds its row."""
    stop_clock(run)
    write(run, status=status, reason=reason, verdict=verdict, finished_at=Now())
    tell(f"range.{status}", run, reason=reason)


def revive(run: RangeRun, *, failures: Sequence[int] | None = None, by: str = "") -> int:
    """Turn the open failures, or these of them, back into work. The caller holds the run's row."""
    alias = conf.get().database
    opened = RangeFailure.objects.using(alias).filter(run=run, state=FailureState.OPEN)
    if failures is not None:
        opened = opened.filter(id__in=failures)
    ids = sorted({id for id in opened.values_list("node_id", flat=True) if id is not None})
    nodes = nodes_of(run) if run.planned else None
    for id in ids:
        assert nodes is not None
        planting.revive(nodes, id)
    count = opened.update(state=FailureState.RETRIED, resolved_at=Now(), resolved_by=clean(by, 150))
    forgive(run)
    return count


def retry_held(run: RangeRun) -> None:
    """`retry_failed` for the run's own job, which was retried as a dead letter."""
    revive(run)
    forgive(run)
    write(run, status=RunStatus.RUNNING, reason="", finished_at=None, sweeps=0)
    tell("range.retried", run)


def reopen(run: RangeRun) -> None:
    """A run that has ended is to be judged again, after the work that there is by now."""
    write(run, sweeps=0)
    go_on(run)
