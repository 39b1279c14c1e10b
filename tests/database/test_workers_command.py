"""`manage.py workers`."""

from __future__ import annotations

import pytest

from jobs.models import AuditEntry, Worker
from tests.commanding import Command
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db

COMMAND = Command("workers")
run, answer, refused = COMMAND.run, COMMAND.answer, COMMAND.refused


def test_the_list_has_those_that_live_and_with_all_those_that_ended() -> None:
    busy = make_worker(name="a:1", concurrency=3, version="1.2", clock_skew_seconds=90.0)
    make_job("processing", worker_id=busy.id)
    make_worker(name="b:1", beat_at=ago(minutes=3), queues=["mail"])
    make_worker(name="c:1", state="dead")
    found = {row["name"]: row for row in answer("list")}
    assert {name: row["state"] for name, row in found.items()} == {"a:1": "running", "b:1": "stale"}
    assert (found["a:1"]["busy"], found["a:1"]["clock_skew_seconds"]) == (1, 90.0)
    text = run("list")
    assert "1/3" in text
    assert "1 min 30 s ahead of the database's" in text
    assert {row["name"] for row in answer("list", "--all")} == {"a:1", "b:1", "c:1"}
    Worker.objects.all().delete()
    assert run("list").strip() == "No worker is running."


def test_one_is_shown_with_what_it_holds_and_markup_stays_text() -> None:
    worker = make_worker(name="a:[red]1", queues=["mail"])
    job = make_job("processing", worker_id=worker.id, cancel_requested_at=ago(seconds=1))
    text = run("show", str(worker.id))
    assert "a:[red]1" in text
    assert f"test {job.id} in default" in text
    assert "asked to stop" in text
    assert answer("show", worker.name)["jobs"][0]["id"] == str(job.id)


def test_one_is_found_by_its_name_its_id_or_how_that_begins() -> None:
    make_worker(name="web:1", state="dead")
    lives = make_worker(name="web:1")
    other = make_worker(name="cafe")
    assert answer("show", "web:1")["id"] == str(lives.id)
    assert answer("show", str(other.id)[:-2].upper())["name"] == "cafe"
    assert answer("show", "cafe")["id"] == str(other.id)
    assert "WORKER: could be several" in refused("show", str(other.id)[:4])
    for nobody in ("nobody", "ffffffff", "%", ""):
        assert "does not exist" in refused("show", nobody)


def test_it_is_asked_to_be_quiet_to_go_on_and_to_stop_each_once() -> None:
    make_worker(name="a")
    assert run("quiet", "a", "--reason=a look").startswith("Asked to be quiet")
    assert "asked to be quiet before" in run("quiet", "a")
    assert "running, asked to be quiet" in run("show", "a")
    assert answer("resume", "a")["quiet_requested_at"] is None
    assert "not asked" in run("resume", "a")
    assert run("stop", "a").startswith("Asked to stop")
    assert "to stop" in refused("quiet", "a")
    assert list(AuditEntry.objects.order_by("id").values_list("action", "actor", "reason")) == [
        ("worker.quiet", "manage.py", "a look"),
        ("worker.resume", "manage.py", ""),
        ("worker.stop", "manage.py", ""),
    ]


def test_a_silent_one_is_recovered_and_forgotten_and_none_that_lives() -> None:
    make_worker(name="lives")
    silent = make_worker(name="silent", beat_at=ago(minutes=3))
    job = make_job("processing", worker_id=silent.id)
    for action in ("recover", "forget"):
        assert "worker lives is" in refused(action, "lives")
    assert "1 job taken back" in run("recover", "silent")
    job.refresh_from_db()
    assert job.status == "pending"
    assert answer("forget", "silent") == {"forgotten": str(silent.id)}
    assert [worker.name for worker in Worker.objects.all()] == ["lives"]
