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
    for _ in range(looks):
        for name, path in pages.items():
            started = time.perf_counter()
            _open(client, path)
            found[name].append((time.perf_counter() - started) * 1000)
    json.dump(found, sys.stdout)


def _open(client: Any, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code, response.content[:500])
    assert b"took longer than 3 s" not in response.content, path


def _pages() -> dict[str, str]:
    """Every entry of the navigation, every tab of the list, and the pages behind them."""
    from django.contrib import admin
    from django.urls import reverse

    from jobs.admin.ledger.tabs import TABS
    from jobs.console import navigation
    from jobs.filtering import id_at
    from jobs.models import Job

    ledger = reverse("admin:jobs_job_changelist")
    pages = {}
    for entry in navigation.entries():
        if entry.section != navigation.SITE and (url := navigation.address(admin.site, entry)):
            pages[entry.label.lower()] = url
    for name in TABS:
        pages[f"jobs, {name}"] = f"{ledger}?state={name}"
    first, last = Job.objects.order_by("id")[0], Job.objects.order_by("-id")[0]
    far_down = first.created_at + (last.created_at - first.created_at) / 10
    deep = Job.objects.filter(id__gt=id_at(far_down)).order_by("id")[0]
    pages |= {
        "jobs, far down": f"{ledger}?state=all&after={deep.id}",
        "jobs, of a type and queue": f"{ledger}?state=all&type=type_3&queue=mail",
        "jobs, an error among the dead": f"{ledger}?state=dead&q=error:order",
        "a dead letter": f"{ledger}{Job.objects.dead().first().id}/",  # type: ignore[union-attr]
        "a completed job": f"{ledger}{deep.id}/",
        "overview, its parts": reverse("admin:overview_parts"),
        "overview, seven days": f"{reverse('admin:index')}?span=7d",
        "a queue": reverse("admin:jobs_queue_change", args=["mail"]),
        "before retrying all that match": f"{ledger}bulk/?action=retry&state=dead",
    }
    return pages


if __name__ == "__main__":
    main(int(sys.argv[1]))
