"""Range runs in Django's admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from jobs.testing import run_due_jobs
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure, RangeRun
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus

pytestmark = pytest.mark.django_db


class Weighing(RangeJob):
    over = IntRange(0, 100)
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        if 7 in leaf:
            raise ValueError("a secret of key 7")


def person(*permissions: str) -> Client:
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def act(client: Client, action: str, *runs: RangeRun, **more: str) -> str:
    answer = client.post(
        reverse("admin:ranges_rangerun_changelist"),
        {"action": action, "_selected_action": [str(run.id) for run in runs], **more},
        follow=True,
    )
    assert answer.status_code == 200
    return answer.text


def test_runs_and_failures_are_listed_and_shown_to_who_may_view_them() -> None:
    run = Weighing.start(params={"word": "hush"})
    run_due_jobs(retries=True)
    failure = RangeFailure.objects.get()
    client = person("view_job")
    page = client.get(reverse("admin:ranges_rangerun_changelist")).text
    assert "partially failed, all keys done" in page
    assert client.get(reverse("admin:ranges_rangerun_change", args=[run.id])).status_code == 200
    for name, id in (("rangerun", run.id), ("rangefailure", failure.id)):
        for page in (
            client.get(reverse(f"admin:ranges_{name}_changelist")).text,
            client.get(reverse(f"admin:ranges_{name}_change", args=[id])).text,
        ):
            assert "secret" not in page
            assert "hush" not in page


def test_payloads_and_errors_are_shown_to_who_may_read_them() -> None:
    run = Weighing.start(params={"word": "hush"})
    run_due_jobs(retries=True)
    client = person("view_job", "view_payload")
    assert "hush" in client.get(reverse("admin:ranges_rangerun_change", args=[run.id])).text
    assert "secret" in client.get(reverse("admin:ranges_rangefailure_changelist")).text


def test_nobody_without_the_permission_controls_a_run() -> None:
    run = Weighing.start()
    page = reverse("admin:ranges_rangerun_changelist")
    form = {"action": "pause_runs", "_selected_action": [str(run.id)]}
    assert person("view_job").post(page, form).status_code == 403
    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING


def test_runs_are_paused_resumed_cancelled_and_retried_each_by_itself() -> None:
    client = person("view_job", "control_run")
    failed = Weighing.start()
    run_due_jobs(retries=True)
    run = Weighing.start()
    page = act(client, "pause_runs", run, failed)
    assert "1 run was paused." in page
    assert "only a running run can be paused" in page
    run.refresh_from_db()
    assert run.status == RunStatus.PAUSED
    assert "1 run was resumed." in act(client, "resume_runs", run)
    assert "for good" in act(client, "cancel_runs", run)
    assert "1 run was cancelled." in act(client, "cancel_runs", run, confirmed="yes")
    run.refresh_from_db()
    assert run.status == RunStatus.CANCELLED
    asked = act(client, "retry_failed", failed)
    assert "open failure" in asked
    assert "of 1 run again" in asked
    assert "set to retry what failed" in act(client, "retry_failed", failed, confirmed="yes")
    failed.refresh_from_db()
    assert failed.status == RunStatus.RUNNING
