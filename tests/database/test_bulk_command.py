"""`manage.py jobs bulk`."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import bulk
from jobs.models import AuditEntry, BulkOperation
from jobs.states import Status
from jobs.testing import run_due_jobs
from tests.database.test_jobs_command import answer, refused, run
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db


def test_it_starts_an_operation_that_a_worker_then_does() -> None:
    for _ in range(3):
        make_job("dead", queue="mail", type="nobody")
    young = make_job("dead", queue="mail", failed_at=ago(hours=-1))
    where = f"--where=failed_before={ago(hours=0).isoformat()}"
    found = answer("bulk", "start", "retry", "--queue=mail", where, "--reason=why", "--yes")
    assert (found["action"], found["status"], found["matched"]) == ("retry", "pending", 3)
    run_due_jobs()
    found = answer("bulk", "show", found["id"])
    assert (found["status"], found["changed"], found["reason"]) == ("completed", 3, "why")
    young.refresh_from_db()
    assert young.status == Status.FAILED
    assert AuditEntry.objects.get().actor == "manage.py"


def test_a_dry_run_shows_and_changes_nothing() -> None:
    job = make_job("dead", queue="mail")
    found = answer("bulk", "start", "purge", "--queue=mail", "--dry-run")
    assert (found["count"], found["is_capped"], found["in_words"]) == (1, False, "queue mail")
    assert [each["id"] for each in found["sample"]] == [str(job.id)]
    text = run("bulk", "start", "purge", "--dry-run")
    assert "purge would be done to 1 job: all dead letters." in text
    assert str(job.id) in text
    assert not BulkOperation.objects.exists()


def test_where_takes_every_filter_of_the_api() -> None:
    make_job("dead", payload={"user": 42}, attempt_count=3)
    make_job("dead", payload={"user": 7}, attempt_count=3)
    where = ['--where=payload={"user": 42}', "--where=min_attempt_count=2"]
    found = answer("bulk", "start", "retry", *where, "--where=recurring=false", "--dry-run")
    assert found["count"] == 1


def test_without_a_terminal_it_wants_to_be_told_yes() -> None:
    assert "say --yes" in refused("bulk", "start", "purge")
    assert not BulkOperation.objects.exists()


@pytest.mark.parametrize(("said", "count"), [("y", 1), ("n", 0)])
def test_a_person_is_asked_with_the_number(
    monkeypatch: pytest.MonkeyPatch, said: str, count: int
) -> None:
    make_job("dead")
    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return said

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    if count:
        run("bulk", "start", "purge")
    else:
        assert refused("bulk", "start", "purge") == "nothing was done"
    assert asked == ["purge: 1 job, all dead letters. Go on? [y/N] "]
    assert BulkOperation.objects.count() == count


def test_pause_resume_and_abort() -> None:
    operation = bulk.create("retry", bulk_filters())
    id = str(operation.id)
    for action, status in (("pause", "paused"), ("resume", "pending"), ("abort", "aborted")):
        assert answer("bulk", action, id, "--reason=so")["status"] == status
    assert "it has ended" in refused("bulk", "pause", id)
    assert "does not exist" in refused("bulk", "show", "nonsense")


def test_the_list_says_how_each_stands() -> None:
    assert run("bulk", "list").strip() == "There are no bulk operations."
    make_job("dead", type="nobody")
    first = bulk.create("retry", bulk_filters(), by="anna")
    run_due_jobs()
    second = bulk.create("purge", bulk_filters(), by="anna")
    text = run("bulk", "list")
    assert "1 changed of 1" in text
    assert "all dead letters" in text
    assert [row["id"] for row in answer("bulk", "list")] == [str(second.id), str(first.id)]
    assert [row["id"] for row in answer("bulk", "list", "--live")] == [str(second.id)]
    assert run("bulk", "show", str(second.id)).startswith("id")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("retry", "--status=pending"), "--status: must be failed for retry"),
        (("retry", "--where=colour=red"), "colour: is not a filter"),
        (("retry", "--where=colour"), "'colour' is not NAME=VALUE"),
        (("retry", "--where=failed_after=soon"), "failed_after: is not an ISO 8601 time"),
        (("retry", "--where=min_attempt_count=x"), "min_attempt_count: must be a whole number"),
        (("change_priority",), "arguments.priority: is required"),
        (("move_queue", "--to-queue=a b"), "arguments.queue: must be 1 to 60"),
        (("retry", "--most=0"), "--most: must be a whole number from 1"),
        (("retry", "--set-priority=1"), "is no argument of retry"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused("bulk", "start", *arguments, "--yes")
    assert not BulkOperation.objects.exists()


def test_following_ends_with_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    make_job("dead", type="nobody")

    def meanwhile(_: float) -> None:
        run_due_jobs()

    monkeypatch.setattr("jobs.management.jobs_cli.bulk.time.sleep", meanwhile)
    assert answer("bulk", "start", "retry", "--yes", "--follow")["status"] == "completed"


def bulk_filters() -> Any:
    from jobs.filtering import Filters

    return Filters()
