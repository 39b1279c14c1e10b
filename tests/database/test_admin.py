"""Jobs in Django's admin: who sees what, and what may be done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from jobs import registry
from jobs.admin import reading
from jobs.masking import MASKED
from jobs.models import Job
from jobs.states import Status
from tests.factories import (
    ago,
    make_edge,
    make_history,
    make_job,
    make_queue,
    make_schedule,
    make_worker,
)

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/job/"
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


def act(client: Client, action: str, *jobs: Job, **more: str) -> str:
    data = {"action": action, "_selected_action": [str(job.id) for job in jobs], **more}
    response = client.post(LIST, data, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def url_of(job: Job) -> str:
    return reverse("admin:jobs_job_change", args=[job.id])


def test_django_finds_nothing_wrong() -> None:
    call_command("check")


class TestList:
    def test_it_needs_the_permission_to_view(self) -> None:
        page(someone(), LIST, 403)
        page(someone("view_job"), LIST)

    def test_filters_and_search_choose(self) -> None:
        client = someone("view_job")
        job = make_job("dead", type="a.b", queue="mail", priority=1)
        other = make_job()
        for query in (
            "status=failed",
            "type=a.b",
            "queue=mail",
            "priority=1",
            f"q={str(job.id)[:36]}",
            "status=failed&type=a.b&queue=mail&priority=1",
        ):
            text = page(client, f"{LIST}?{query}")
            assert str(job.id) in text, query
            assert str(other.id) not in text, query

    @pytest.mark.parametrize(
        "query",
        ["status=x", "priority=9", "type=%00", "q=%00", "q=zz", "p=9999", "queue=" + "x" * 500],
    )
    def test_odd_values_are_no_error(self, query: str) -> None:
        make_job()
        response = someone("view_job").get(f"{LIST}?{query}")
        assert response.status_code in (200, 302)

    def test_states_are_shown_by_the_databases_clock(self) -> None:
        client = someone("view_job")
        for trait, word in (("held", "held"), ("scheduled", "scheduled"), ("dead", "dead")):
            job = make_job(trait)
            row = page(client, f"{LIST}?q={job.id}")
            assert f'<td class="field-state">{word}</td>' in row

    def test_errors_are_shown_to_those_who_may_read_them(self) -> None:
        make_job("dead", last_error="ValueError: secret thing")
        assert "secret thing" not in page(someone("view_job"), LIST)
        assert "secret thing" in page(someone("view_job", "view_payload"), LIST)

    def test_a_page_counts_no_further_than_it_pages(
        self, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
    ) -> None:
        monkeypatch.setattr(reading, "COUNTED", 60)
        for _ in range(70):
            make_job()
        client = someone("view_job")
        with django_assert_max_num_queries(12) as captured:
            page(client, f"{LIST}?_facets=True")
        assert not [q["sql"] for q in captured.captured_queries if "COUNT(" in q["sql"]]
        assert page(client, f"{LIST}?p=2").count("field-state") == 10

    def test_what_takes_too_long_is_said_and_the_list_still_opens(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from jobs.admin import job as job_admin

        make_job()
        client = someone("view_job")
        monkeypatch.setattr(job_admin, "SECONDS", 0.001)
        monkeypatch.setattr(
            job_admin.JobAdmin,
            "get_queryset",
            lambda *_: Job.objects.extra(where=["pg_sleep(0.1) IS NOT NULL"]),
        )
        response = client.get(f"{LIST}?type=nobody")
        assert (response.status_code, response["Location"]) == (302, LIST)


class TestPage:
    @pytest.fixture(autouse=True)
    def handled(self) -> Iterator[None]:
        registry.handler("test", mask=("token",))(lambda payload: None)
        yield
        registry.remove("test")

    def job(self) -> Job:
        job = make_job(
            "dead",
            payload={"note": "the payload", "in": {"token": "hush"}},
            last_error="ValueError: the error",
        )
        make_history(job, attempts=2, error="ValueError: the error")
        return job

    def test_content_is_hidden_without_the_permission(self) -> None:
        text = page(someone("view_job"), url_of(self.job()))
        assert "dead" in text
        assert "started" in text
        for hidden in ("the payload", "the error", "Traceback", "hush"):
            assert hidden not in text

    def test_masked_keys_are_shown_to_superusers_only(self) -> None:
        job = self.job()
        text = page(someone("view_job", "view_payload"), url_of(job))
        assert "the payload" in text
        assert "the error" in text
        assert "Traceback" in text
        assert MASKED in text
        assert "hush" not in text
        assert "hush" in page(someone(is_superuser=True), url_of(job))

    def test_it_says_why_the_job_is_not_running_and_what_it_waits_for(self) -> None:
        parent, child = make_job("dead"), make_job()
        make_edge(child, parent)
        text = page(someone("view_job"), url_of(child))
        assert f"waits for test {parent.id}, which is failed" in text
        assert f'href="{url_of(parent)}"' in text

    def test_markup_in_job_data_is_shown_as_text(self) -> None:
        job = make_job(
            "dead",
            type=SCRIPT,
            queue=SCRIPT,
            payload={SCRIPT: SCRIPT},
            metadata={"a": SCRIPT},
            result=SCRIPT,
            last_error=SCRIPT,
            hold_reason=SCRIPT,
            unique_key=SCRIPT,
        )
        make_history(job, error=SCRIPT)
        job.logs.create(event="log", message=SCRIPT)
        client = someone(is_superuser=True)
        pages = [LIST, f"{LIST}?type={SCRIPT}", f"{LIST}?queue={SCRIPT}", url_of(job)]
        for url in pages:
            assert SCRIPT not in page(client, url)
        assert SCRIPT not in act(client, "purge_jobs", job)

    @pytest.mark.parametrize(
        "trait", ["held", "scheduled", "retrying", "processing", "completed", "cancelled"]
    )
    def test_each_state_has_its_page(self, trait: str) -> None:
        page(someone("view_job", "view_payload"), url_of(make_job(trait)))

    def test_nothing_can_be_changed_added_or_deleted(self) -> None:
        client = someone(is_superuser=True)
        job = self.job()
        assert client.post(url_of(job), {"priority": 1}).status_code == 403
        assert client.get(f"{LIST}add/").status_code == 403
        assert client.post(f"{LIST}{job.id}/delete/", {"post": "yes"}).status_code == 403
        assert Job.objects.filter(id=job.id, priority=2).exists()

    def test_a_page_of_nobody_is_no_error(self) -> None:
        for key in ("nonsense", "01a22984-0000-7000-8000-000000000000"):
            assert someone("view_job").get(f"{LIST}{key}/change/").status_code == 302


class TestActions:
    def test_each_needs_its_permission(self) -> None:
        client = someone("view_job")
        dead, pending = make_job("dead"), make_job()
        for action in ("cancel_jobs", "retry_jobs", "purge_jobs"):
            act(client, action, dead, pending, confirmed="yes")
        assert Job.objects.filter(id=dead.id, status=Status.FAILED).exists()
        assert Job.objects.filter(id=pending.id, status=Status.PENDING).exists()

    def test_retry_says_what_was_done_and_what_was_not(self) -> None:
        client = someone("view_job", "retry_job")
        dead = [make_job("dead") for _ in range(3)]
        alive = make_job()
        text = act(client, "retry_jobs", *dead, alive)
        assert "3 retried, 1 skipped (no longer dead: pending)" in text
        assert Job.objects.dead().count() == 0
        assert dead[0].logs.get(event="retried").data == {"by": User.objects.get().get_username()}

    def test_cancel(self) -> None:
        client = someone("view_job", "cancel_job")
        text = act(client, "cancel_jobs", make_job(), make_job("processing"))
        assert "2 cancelled (1 still running: asked to stop)" in text

    def test_purge_asks_first(self) -> None:
        client = someone("view_job", "purge_job")
        dead, alive = make_job("dead"), make_job()
        text = act(client, "purge_jobs", dead, alive)
        assert "Purge 2 jobs?" in text
        assert Job.objects.count() == 2
        text = act(client, "purge_jobs", dead, alive, confirmed="yes")
        assert "1 purged, 1 skipped (no longer dead: pending)" in text
        assert list(Job.objects.all()) == [alive]

    def test_all_that_a_filter_shows_can_be_meant(self) -> None:
        client = someone("view_job", "retry_job")
        for n in range(60):
            make_job("dead", failed_at=ago(minutes=n))
        one = Job.objects.dead().first()
        data = {"action": "retry_jobs", "select_across": "1", "_selected_action": [str(one.id)]}  # type: ignore[union-attr]
        response = client.post(f"{LIST}?status=failed", data, follow=True)
        assert "60 retried" in response.content.decode()

    def test_the_page_of_a_job_offers_them_too(self) -> None:
        client = someone("view_job", "retry_job")
        job = make_job("dead")
        text = page(client, url_of(job))
        assert 'value="retry_jobs"' in text
        assert 'value="purge_jobs"' not in text

    def test_a_bad_id_is_a_bad_request(self) -> None:
        client = someone("view_job", "retry_job")
        data = {"action": "retry_jobs", "_selected_action": ["nonsense"]}
        assert client.post(LIST, data).status_code == 400

    def test_no_action_without_a_token_or_by_get(self) -> None:
        job = make_job("dead")
        client = someone("view_job", "retry_job")
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        data = {"action": "retry_jobs", "_selected_action": [str(job.id)]}
        assert strict.post(LIST, data).status_code == 403
        client.get(LIST, data)
        assert Job.objects.filter(id=job.id, status=Status.FAILED).exists()


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
