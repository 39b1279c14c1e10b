"""A process that opens every page of the console, again and again, and says how long each took.

    python -m benchmarks.console_pages LOOKS

Its answer is one JSON object on stdout: the milliseconds of each look, by page. Started by
`console.py` with the settings of the console and the database in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any
from urllib.parse import urlencode

SLOW = (b"took longer than 3 s", b"could not be read within 3 s")
FIRST_LOOKS = ("overview", "dead letters", "dead letters, all groups", "queues", "workers")
"""Measured with nothing kept, too."""


def main(looks: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.console"
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    boss, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    client.force_login(boss)
    pages = _pages()
    for path in pages.values():
        _open(client, path)  # what a process does once
    found: dict[str, list[float]] = {name: [] for name in pages}
    found |= {f"{name}, first look": [] for name in FIRST_LOOKS}
    for _ in range(looks):
        for name, path in pages.items():
            found[name].append(_open(client, path))
        for name in FIRST_LOOKS:
            _forget()
            found[f"{name}, first look"].append(_open(client, pages[name]))
    json.dump(found, sys.stdout)


def _open(client: Any, path: str) -> float:
    started = time.perf_counter()
    response = client.get(path)
    taken = (time.perf_counter() - started) * 1_000
    assert response.status_code == 200, (path, response.status_code, response.content[:500])
    assert not any(words in response.content for words in SLOW), path
    return taken


def _forget() -> None:
    """What looks before have left in this process and its cache."""
    from django.core.cache import cache

    from jobs.console import kept, sample
    from jobs.live.sample import _Own

    cache.clear()
    kept.forget()
    sample.forget()
    _Own.counted_at = float("-inf")


def _pages() -> dict[str, str]:
    """Every entry of the navigation, every tab of the list, and the pages behind them."""
    from django.contrib import admin

    from jobs.console import navigation

    pages = {}
    for entry in navigation.entries():
        if entry.section != navigation.SITE and (url := navigation.address(admin.site, entry)):
            pages[entry.label.lower()] = url
    return pages | _ledger() | _letters() | _operating() | _log() | _managing() | _runs() | _parts()


def _url(name: str, *arguments: object, **query: object) -> str:
    from django.urls import reverse

    found = reverse(name if name.startswith("coppice") else f"admin:{name}", args=arguments)
    return f"{found}?{urlencode(query)}" if query else found


def _ledger() -> dict[str, str]:
    from jobs.admin.ledger.tabs import TABS
    from jobs.filtering import id_at
    from jobs.models import Job, JobDependency, Worker

    ledger = "jobs_job_changelist"
    first, last = Job.objects.order_by("id")[0], Job.objects.order_by("-id")[0]
    far_down = first.created_at + (last.created_at - first.created_at) / 10
    deep = Job.objects.filter(id__gt=id_at(far_down), status="completed").order_by("id")[0]
    worker = Worker.objects.filter(state="running")[0]
    parent = JobDependency.objects.all()[0].parent_id
    return {
        **{f"jobs, {name}": _url(ledger, state=name) for name in TABS},
        "jobs, far down": _url(ledger, state="all", after=deep.id),
        "jobs, of a type and queue": _url(ledger, state="all", type="type_3", queue="mail"),
        "jobs, an error among the dead": _url(ledger, state="dead", q="error:order"),
        "jobs, those of a worker": _url(ledger, state="running", worker=worker.id),
        "jobs, those after many attempts": _url(ledger, state="dead", min_attempt_count=3),
        "jobs, those of schedules": _url(ledger, state="completed", recurring="yes"),
        "jobs, those that depend on one": _url(ledger, state="all", depends_on=parent),
        "jobs, by priority": _url(ledger, state="dead", sort_by="priority"),
        "a completed job": _url("jobs_job_change", deep.id),
        "a job that ten thousand depended on": _url("jobs_job_change", parent),
        "new job": _url("jobs_job_add"),
        "new job, its form": _url("jobs_job_add", type="checked"),
    }


def _letters() -> dict[str, str]:
    from jobs.models import Job

    page, bulk = "jobs_job_dead", "jobs_job_bulk"
    newest = Job.objects.dead().order_by("-failed_at", "-id")[0]
    group = {"type": newest.type, "error_fingerprint": newest.error_fingerprint}
    whole = {
        "retry": {"state": "dead"},
        "purge": {"state": "dead"},
        "cancel": {"state": "active"},
        "run_now": {"state": "active"},
        "change_priority": {"state": "active"},
        "move_queue": {"state": "ready"},
    }
    return {
        "dead letters, all groups": _url(page, groups="all"),
        "dead letters, one group": _url(page, **group),
        "a dead letter": _url("jobs_job_change", newest.id),
        "a dead letter, its payload": _url("jobs_job_payload", newest.id),
        "before retrying a group": _url(bulk, action="retry", state="dead", **group),
        "before purging a group": _url(bulk, action="purge", state="dead", **group),
        **{
            f"before {name.replace('_', ' ')}, all that match": _url(bulk, action=name, **query)
            for name, query in whole.items()
        },
    }


def _operating() -> dict[str, str]:
    from jobs.models import Schedule, Worker

    schedule = Schedule.objects.all()[250 if Schedule.objects.count() > 250 else 0]
    return {
        "a queue": _url("jobs_queue_change", "mail"),
        "a worker": _url("jobs_worker_change", Worker.objects.filter(state="running")[0].id),
        "a worker that has ended": _url(
            "jobs_worker_change", Worker.objects.filter(state="stopped")[0].id
        ),
        "schedules, further on": _url("jobs_schedule_changelist", after=schedule.name),
        "a schedule": _url("jobs_schedule_change", schedule.id),
        "a schedule, its form": _url("jobs_schedule_edit", schedule.id),
        "new schedule": _url("jobs_schedule_add"),
    }


def _log() -> dict[str, str]:
    from jobs.models import JobLog

    newest = JobLog.objects.order_by("-id")[0]
    middle = JobLog.objects.filter(id__gt=newest.pk // 2).order_by("id")[0]
    return {
        "events, far down": _url("events", after=middle.pk),
        "events, from a time on": _url("events", at=middle.at.isoformat()),
        "events, warnings and errors": _url("events", level="warning"),
        "events, of a type": _url("events", type="type_3", after=middle.pk),
        "events, of a type that has none": _url("events", type="none"),
        "events, a text that is nowhere": _url("events", text="nowhere"),
        "events, what a page that follows asks": _url("events_lines", since=newest.pk - 1_000),
    }


def _managing() -> dict[str, str]:
    from jobs.models import AuditEntry, BulkOperation, Webhook

    operation = BulkOperation.objects.order_by("id")[0]
    entry = AuditEntry.objects.order_by("id")[10]
    hook = Webhook.objects.filter(webhookdelivery__isnull=False)[0]
    return {
        "bulk operations, far down": _url("jobs_bulkoperation_changelist", before=operation.id),
        "a bulk operation": _url("jobs_bulkoperation_change", operation.id),
        "audit, far down": _url("jobs_auditentry_changelist", before=entry.id),
        "audit, of a person": _url("jobs_auditentry_changelist", actor="person-7"),
        "audit, of an action": _url("jobs_auditentry_changelist", action="job.purge"),
        "a webhook": _url("jobs_webhook_change", hook.id),
    }


def _runs() -> dict[str, str]:
    from django.db.models import Count

    from ranges.models import RangeRun

    runs = "ranges_rangerun_changelist"
    big = RangeRun.objects.annotate(pieces=Count("nodes")).order_by("-pieces")[0]
    oldest = RangeRun.objects.order_by("id")[0]
    return {
        "range runs, far down": _url(runs, before=oldest.id),
        "range runs, that run": _url(runs, state="running"),
        "range runs, of a job": _url(runs, job="shop.Backfill3"),
        "a range run": _url("ranges_rangerun_change", big.id),
        "a range run, zoomed": _url("ranges_rangerun_change", big.id, a="0.3", b="0.301"),
        "a range run, its drawing": _url("ranges_rangerun_picture", big.id),
        "a range run, its coverage over REST": _url("coppice-range-coverage", big.id),
        "a range run, its tree over REST": _url("coppice-range-tree", big.id),
        "range failures": _url("ranges_rangefailure_changelist"),
    }


def _parts() -> dict[str, str]:
    return {
        "overview, its parts": _url("overview_parts"),
        "overview, seven days": _url("index", span="7d"),
        "figures": _url("figures", span="1h"),
        "badges": _url("badges"),
        "live, polled": _url("coppice-live", topics="overview"),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
