"""Schedules, workers and queues in the console: who sees what. Jobs: tests/console."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.factories import make_queue, make_schedule, make_worker

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


def someone(*permissions: str, **columns: Any) -> Client:
    """A client signed in as staff with these permissions of jobs."""
    user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True, **columns)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="jobs", codename__in=permissions)
    )
    assert user.user_permissions.count() == len(permissions)
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response.content[:500]
    return response.content.decode()


def test_django_finds_nothing_wrong() -> None:
    call_command("check")


def test_schedules_workers_and_queues_are_shown() -> None:
    schedule = make_schedule(payload={"note": "the payload"}, last_error=SCRIPT)
    worker = make_worker(name=SCRIPT)
    queue = make_queue(paused=True, reason=SCRIPT)
    reader = someone("view_job")
    full = someone("view_job", "view_payload")
    for row, name in ((schedule, "schedule"), (worker, "worker"), (queue, "queue")):
        for url in (
            reverse(f"admin:jobs_{name}_changelist"),
            reverse(f"admin:jobs_{name}_change", args=[row.pk]),
        ):
            text = page(reader, url)
            assert SCRIPT not in text
            assert "the payload" not in text
        page(someone(), reverse(f"admin:jobs_{name}_changelist"), 403)
    assert "the payload" in page(full, reverse("admin:jobs_schedule_change", args=[schedule.pk]))
