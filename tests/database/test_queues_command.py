"""`manage.py queues`."""

from __future__ import annotations

import pytest

from jobs.models import AuditEntry, Queue
from tests.commanding import Command
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db

COMMAND = Command("queues")
run, answer, refused = COMMAND.run, COMMAND.answer, COMMAND.refused


def test_the_list_says_how_each_stands_and_who_paused_it() -> None:
    assert run("list").strip() == "No queue holds anything."
    for _ in range(2):
        make_job(queue="mail", due_at=ago(minutes=2))
    run("pause", "files", "--reason=[b]the disk")
    found = {row["name"]: row for row in answer("list")}
    assert (found["mail"]["depth"], found["mail"]["paused"]) == (2, False)
    assert (found["files"]["paused"], found["files"]["reason"]) == (True, "[b]the disk")
    assert "paused by manage.py: [b]the disk" in run("list")


def test_a_queue_is_paused_and_resumed_each_once() -> None:
    assert run("pause", "mail", "--reason=down").startswith("Paused mail.")
    assert "was paused before" in run("pause", "mail", "--reason=other")
    assert Queue.objects.get().reason == "down"
    assert answer("resume", "mail")["paused"] is False
    assert "was not paused" in run("resume", "mail")
    assert list(AuditEntry.objects.order_by("id").values_list("action", "actor")) == [
        ("queue.pause", "manage.py"), ("queue.resume", "manage.py"),
    ]  # fmt: skip


def test_a_queue_is_paused_until_a_moment() -> None:
    run("pause", "mail", "--until=2031-01-01T06:00:00Z")
    assert answer("list")[0]["paused_until"] == "2031-01-01T06:00:00+00:00"
    assert "paused until 2031-01-01 06:00:00" in run("list")
    for bad in ("noon", "2020-01-01T00:00:00Z"):
        assert "--until: " in refused("pause", "mail", f"--until={bad}")


def test_a_name_that_no_queue_can_have_is_refused() -> None:
    for action in ("pause", "resume"):
        assert "NAME: " in refused(action, "no such name!")
