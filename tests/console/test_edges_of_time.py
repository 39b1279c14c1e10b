"""The first and the last of all years are moments too: no page breaks on them, whatever its reader's zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.console import preferences
from tests.console.people import client_of, read
from tests.factories import ago, make_job, make_schedule

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
BEYOND = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
"""In UTC these are no years."""
ASKS = {"action": "retry", "state": "dead"}
PAGES = (
    JOBS,
    f"{JOBS}dead-letters/",
    f"{JOBS}bulk/",
    "/admin/jobs/auditentry/",
)


@pytest.fixture(params=["America/Los_Angeles", "Asia/Tokyo"])
def client(request: pytest.FixtureRequest) -> Client:
    found = client_of()
    user = User.objects.get(username=found.username)  # type: ignore[attr-defined]
    preferences.save(user, time_zone=request.param)
    return found


@pytest.mark.parametrize("at", [FIRST, LAST, *BEYOND])
def test_an_address_may_name_any_moment(client: Client, at: str) -> None:
    make_job("dead", failed_at=ago(hours=1))
    for page in PAGES:
        for name in ("from", "to", "created_after", "failed_before"):
            assert client.get(page, {**ASKS, name: at}, follow=True).status_code == 200, (
                page,
                name,
            )


def test_a_job_may_be_due_on_the_last_day_of_all(client: Client) -> None:
    end = datetime.fromisoformat(LAST)
    job = make_job(scheduled_at=end, due_at=end)
    assert str(job.id) in read(client, JOBS, state="scheduled")
    assert "not due until" in read(client, f"{JOBS}{job.id}/")


def test_a_schedule_may_begin_then(client: Client) -> None:
    schedule = make_schedule(next_slot=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    read(client, "/admin/jobs/schedule/")
    read(client, f"/admin/jobs/schedule/{schedule.id}/")
