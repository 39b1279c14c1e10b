"""`manage.py jobs`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import registry
from jobs.masking import MASKED
from jobs.models import Job
from jobs.states import Status
from tests.commanding import Command
from tests.factories import ago, make_edge, make_history, make_job, make_queue, make_worker

CHECKOUT = Path(__file__).resolve().parents[2]


COMMAND = Command("jobs")
run, answer, refused = COMMAND.run, COMMAND.answer, COMMAND.refused


@pytest.mark.django_db
class TestList:
    def test_filters_choose_and_pages_go_on(self) -> None:
        dead = [make_job("dead", type="a", failed_at=ago(hours=n)) for n in range(3)]
        make_job(type="a")
        first = answer("list", "--status=failed", "--limit=2")
        assert [job["id"] for job in first["jobs"]] == [str(dead[0].id), str(dead[1].id)]
        second = answer("list", "--status=failed", f"--after={first['next']}")
        assert [job["id"] for job in second["jobs"]] == [str(dead[2].id)]
        assert second["next"] is None
        assert "payload" not in first["jobs"][0]

    def test_the_table_says_the_state_and_the_time_that_matters(self) -> None:
        job = make_job("scheduled", queue="mail")
        text = run("list", "--state=scheduled", "--queue=mail")
        assert str(job.id) in text
        assert "due in 59 min" in text or "due in 1 h" in text
        assert run("list", "--type=nobody").strip() == "There are no such jobs."

    def test_markup_and_control_characters_are_shown_as_text(self) -> None:
        make_job("dead", last_error="[red]x[/red] \x1b[31m")
        text = run("list", "--status=failed")
        assert "[red]x[/red]" in text
        assert "\x1b" not in text

    def test_a_bad_value_is_named(self) -> None:
        assert "limit" in refused("list", "--limit=0")
        assert "after" in refused("list", "--after=x")


@pytest.mark.django_db
class TestShow:
    @pytest.fixture(autouse=True)
    def handled(self) -> Iterator[None]:
        registry.handler("test", mask=("secret",))(lambda payload: None)
        yield
        registry.remove("test")

    def test_it_shows_attempts_errors_and_log_and_masks_what_the_handler_masks(self) -> None:
        job = make_job("dead", payload={"n": 1, "in": [{"secret": "hush"}]})
        make_history(job, attempts=2, error="ValueError: bad")
        found = answer("show", str(job.id))
        assert found["state"] == "dead"
        assert found["payload"] == {"n": 1, "in": [{"secret": MASKED}]}
        assert [a["error"] for a in found["attempts"]] == ["ValueError: bad"] * 2
        assert [log["event"] for log in found["logs"]] == ["started", "started"]
        text = run("show", str(job.id), "--tracebacks")
        assert "ValueError: bad" in text
        assert "Traceback" in text
        assert "hush" not in text

    def reasons(self, job: Job) -> list[str]:
        return list(answer("show", str(job.id))["reasons"])

    def test_it_says_why_the_job_is_not_running(self) -> None:
        job = make_job()
        assert self.reasons(job) == ["no worker is alive"]
        worker = make_worker(types=["other"])
        assert self.reasons(job) == ["no live worker knows the type test"]
        worker.types, worker.queues = ["test"], ["mail"]
        worker.save()
        (reason,) = self.reasons(job)
        assert reason == "no live worker that knows the type serves the queue default"
        worker.queues = []
        worker.save()
        assert self.reasons(job) == ["waits for a free slot"]
        make_queue(name="default", paused=True, reason="provider down", changed_by="anna")
        assert self.reasons(job) == ["queue default is paused: provider down, by anna"]

    def test_it_says_what_a_waiting_job_waits_for(self) -> None:
        make_worker()
        parent, child = make_job("dead"), make_job()
        make_edge(child, parent)
        (reason,) = self.reasons(child)
        assert reason == (
            f"waits for test {parent.id}, which is failed: it must be retried or this job cancelled"
        )
        assert self.reasons(make_job("held")) == ["held: waits for a person"]
        assert self.reasons(make_job("scheduled"))[0].startswith("not due until ")
        assert self.reasons(make_job("retrying"))[0].startswith("runs again at ")

    def test_it_says_when_the_worker_of_a_running_job_is_gone(self) -> None:
        alive = make_worker()
        assert self.reasons(make_job("processing", worker_id=alive.id)) == []
        (reason,) = self.reasons(make_job("processing"))
        assert "no sign of life" in reason

    @pytest.mark.parametrize("bad", ["nonsense", "01a22984-0000-7000-8000-000000000000", "a\x00"])
    def test_no_such_job(self, bad: str) -> None:
        assert "does not exist" in refused("show", bad)


@pytest.mark.django_db
class TestStats:
    def test_numbers_as_table_and_as_json(self) -> None:
        make_job()
        make_job("dead")
        found = answer("stats")
        assert (found["pending"], found["dlq"], found["states"]["ready"]) == (1, 1, 1)
        text = run("stats")
        assert "dead letters" in text
        assert "default" in text


@pytest.mark.django_db
def test_dead_letters_are_grouped_by_type_and_error() -> None:
    assert run("groups").strip() == "There are no dead letters."
    for _ in range(2):
        make_job("dead", type="a", error_fingerprint="f1", last_error="E: [red]one")
    make_job("dead", type="b")
    found = answer("groups")
    assert [(group["type"], group["count"]) for group in found["groups"]] == [("a", 2), ("b", 1)]
    assert "E: [red]one" in run("groups")


@pytest.mark.django_db
class TestActions:
    def test_retry_by_ids_says_what_was_done_and_what_was_not(self) -> None:
        dead = [make_job("dead") for _ in range(3)]
        alive = make_job()
        text = run("retry", *[str(job.id) for job in [*dead, alive]], "--yes")
        assert text.strip() == "3 retried, 1 skipped (no longer dead: pending)"
        assert Job.objects.dead().count() == 0

    def test_retry_by_filter(self) -> None:
        mail, other = make_job("dead", type="mail"), make_job("dead")
        found = answer("retry", "--type=mail", "--yes")
        assert found == {"retried": [str(mail.id)], "requested": [], "skipped": []}
        assert Job.objects.get(id=other.id).status == Status.FAILED

    def test_cancel_by_filter_takes_pending_and_running_ones(self) -> None:
        make_job(queue="mail")
        make_job("processing", queue="mail")
        done = make_job("completed", queue="mail")
        text = run("cancel", "--queue=mail", "--yes", "--reason=provider down")
        assert text.strip() == "2 cancelled (1 still running: asked to stop)"
        assert Job.objects.get(id=done.id).status == Status.COMPLETED
        assert run("cancel", "--all", "--status=pending", "--yes").strip() == "0 cancelled"

    def test_purge_takes_dead_letters_only(self) -> None:
        make_job("dead")
        alive = make_job()
        assert run("purge", "--all", "--yes").strip() == "1 purged"
        assert list(Job.objects.values_list("id", flat=True)) == [alive.id]

    def test_more_than_a_page_is_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from jobs.management.jobs_cli import acting

        monkeypatch.setattr(acting, "AT_ONCE", 3)
        for n in range(10):
            make_job("dead", failed_at=ago(minutes=n))
        assert run("retry", "--all", "--yes").strip() == "10 retried"

    def test_nothing_happens_without_a_yes_or_a_choice(self) -> None:
        job = make_job("dead")
        assert "--yes" in refused("purge", str(job.id))
        assert "either ids" in refused("purge", "--yes")
        assert "either ids" in refused("purge", str(job.id), "--all", "--yes")
        assert Job.objects.filter(id=job.id).exists()

    def test_ids_that_do_nothing_are_a_failure(self) -> None:
        assert "nothing was retried" in refused("retry", str(make_job().id), "nonsense", "--yes")

    def test_each_that_can_is_made_due_released_or_marked_lost(self) -> None:
        later, runs = make_job("scheduled"), make_job("processing")
        answered = answer("run-now", str(later.id), str(runs.id), "--reason=now")
        assert answered["done"] == [str(later.id)]
        assert [each["id"] for each in answered["skipped"]] == [str(runs.id)]
        held = make_job(due_at=None, hold_reason="a look")
        assert run("release", str(held.id)).strip() == "1 released"
        assert "1 marked lost" in run("mark-lost", str(runs.id))  # its worker is gone
        assert Status(Job.objects.get(id=runs.id).status) is Status.PENDING
        for action in ("run-now", "release", "mark-lost"):
            assert "nothing was" in refused(action, str(make_job("completed").id), "x")

    def test_a_pending_job_is_moved_and_a_dead_letter_given_another_payload(self) -> None:
        job, dead = make_job(), make_job("dead")
        found = answer("change", str(job.id), "--priority=1", "--queue=mail")
        assert found == {"id": str(job.id), "changed": ["priority", "queue"]}
        assert "so before" in run("change", str(job.id), "--priority=1")
        assert "scheduled_at" in run("change", str(job.id), "--at=2031-01-01T00:00:00Z")
        assert "payload" in run("change", str(dead.id), '--payload={"n": 2}')
        job.refresh_from_db()
        dead.refresh_from_db()
        assert (job.priority, job.queue, dead.payload) == (1, "mail", {"n": 2})
        assert "give --payload" in refused("change", str(job.id))
        assert "give --payload" in refused("change", str(job.id), "--payload={}", "--priority=1")
        assert "--at: " in refused("change", str(job.id), "--at=noon")
        assert "pending" in refused("change", str(dead.id), "--priority=1")

    def test_prune_deletes_what_retention_would(self) -> None:
        make_job("completed", created_at=ago(days=3), completed_at=ago(days=2))
        dead = make_job("dead", created_at=ago(days=3), failed_at=ago(days=2))
        assert answer("prune")["jobs"] == 0
        assert answer("prune", "--days=1")["jobs"] == 1
        assert list(Job.objects.values_list("id", flat=True)) == [dead.id]
        assert "days" in refused("prune", "--days=0")


@pytest.mark.django_db(transaction=True)
class TestProcess:
    """Exit codes, as a shell sees them."""

    def code(self, url: str, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "manage.py", "jobs", *arguments],
            cwd=CHECKOUT,
            env={**os.environ, "DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_exit_codes(self, project_database: str) -> None:
        code, text = self.code(project_database, "list")
        assert (code, text.strip()) == (0, "There are no such jobs.")
        assert self.code(project_database, "show", "nonsense")[0] == 1
        assert self.code(project_database, "nonsense")[0] == 2
        assert self.code(project_database, "list", "--status=nonsense")[0] == 2
        code, text = self.code(project_database, "doctor")
        assert code == 0, text
