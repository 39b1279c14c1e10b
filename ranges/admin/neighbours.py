"""What the rest of the console shows of runs: a badge, and the way from a job to its run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from jobs import conf
from jobs.console import links, sample
from jobs.console.links import Link
from jobs.console.navigation import Badge
from jobs.models import Job
from ranges.models import RangeRun
from ranges.run_jobs import LANE_TYPE, RUN_TYPE
from ranges.states import RunStatus

CAP = 100


@sample.part("runs")
def runs() -> dict[str, Any]:
    """Active runs: the index by status has them."""
    active = RangeRun.objects.using(conf.get().database).filter(status=RunStatus.RUNNING)
    return {"active": len(active.order_by("-id").values_list("id")[: CAP + 1])}


def active(found: dict[str, Any]) -> Badge | None:
    count = found.get("runs", {}).get("active", 0)
    if not count:
        return None
    text = f"{CAP}+" if count > CAP else str(count)
    are = "range run is" if count == 1 else "range runs are"
    return Badge(text=text, tone="busy", title=f"{text} {are} active")


@links.add
def run_of(job: Job, request: HttpRequest) -> Iterable[Link]:
    """Of a run's own job, and of its lanes."""
    if job.type not in (RUN_TYPE, LANE_TYPE) or not isinstance(job.payload, dict):
        return
    try:
        id = UUID(str(job.payload.get("run", "")))
    except ValueError:
        return
    run = RangeRun.objects.using(conf.get().database).only("name").filter(id=id).first()
    if run is not None:
        site = getattr(request, "current_app", None)
        url = reverse("admin:ranges_rangerun_change", args=[id], current_app=site)
        yield Link(label="Range run", text=run.name, url=url)
