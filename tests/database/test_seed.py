"""`seed_jobs` and `reset_jobs`."""

import uuid
from collections import Counter
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from jobs import events, seeding
from jobs.models import Attempt, Job, JobDependency, JobLog, Schedule, Worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _mail_goes_nowhere(settings: Any) -> None:
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}}


def seed(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    call_command("seed_jobs", **options)
    return capsys.readouterr().out


def facts() -> Counter[tuple[Any, ...]]:
    return Counter(
        Job.objects.values_list("type", "priority", "payload__subject", "metadata__expected")
    )


def test_120_varied_jobs_are_made_and_told_about(capsys: pytest.CaptureFixture[str]) -> None:
    out = seed(capsys)
    assert "120 jobs" in out
    assert "send_email" in out
    assert Job.objects.count() == 120
    assert set(Job.objects.values_list("priority", flat=True)) == {1, 2, 3}
    assert Schedule.objects.exists()
    assert JobDependency.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE due_at < created_at - interval '1 minute'),"
            " count(*) FILTER (WHERE due_at > created_at + interval '1 minute') FROM jobs_job"
        )
        overdue, later = cursor.fetchone()
    assert overdue > 0
    assert later > 0


def test_the_same_number_makes_the_same_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    seed(capsys, random_seed=5)
    first = facts()
    call_command("reset_jobs", yes=True)
    seed(capsys, random_seed=5)
    assert facts() == first
    call_command("reset_jobs", yes=True)
    seed(capsys, random_seed=6)
    assert facts() != first


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_exactly_as_many_are_made_as_were_asked_for(
    capsys: pytest.CaptureFixture[str], count: int
) -> None:
    seed(capsys, count=count)
    assert Job.objects.count() == count


def test_all_or_none_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seed: seeding.Seed) -> str:
        raise LookupError

    seeds = seeding.plan(60, 1)
    monkeypatch.setattr(seeding, "_recurring", fail)
    with pytest.raises(LookupError):
        seeding.plant(seeds)
    assert Job.objects.count() == 0


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_a_senseless_number_is_refused(count: int) -> None:
    with pytest.raises(CommandError, match="--count"):
        call_command("seed_jobs", count=count)


def test_no_e_mail_is_made_where_it_would_be_sent(settings: Any) -> None:
    settings.MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "OPTIONS": {"host": "127.0.0.1"},
        }
    }
    with pytest.raises(CommandError, match="e-mail"):
        call_command("seed_jobs")
    assert Job.objects.count() == 0


def make_worker(*, state: str, beat_age: str) -> None:
    id = uuid.uuid4()
    Worker.objects.create(id=id, name="w", host="h", pid=1, concurrency=1, state=state)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_worker SET beat_at = now() - %s::interval WHERE id = %s", [beat_age, id]
        )


def test_reset_leaves_nothing_of_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    seed(capsys, count=40)
    make_worker(state="running", beat_age="1 hour")
    heard: list[events.Event] = []
    stop = events.on("jobs.reset", heard.append)
    call_command("reset_jobs", yes=True)
    stop()
    assert "Deleted 40 jobs" in capsys.readouterr().out
    for model in (Job, JobDependency, JobLog, Attempt, Schedule, Worker):
        assert not model._default_manager.exists()
    assert len(heard) == 1


def test_reset_needs_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    seed(capsys, count=1)
    with pytest.raises(CommandError, match="--yes"):
        call_command("reset_jobs")
    assert Job.objects.count() == 1


def test_reset_is_refused_while_workers_live_unless_forced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed(capsys, count=1)
    make_worker(state="running", beat_age="1 second")
    make_worker(state="stopped", beat_age="1 second")
    with pytest.raises(CommandError, match="1 worker running"):
        call_command("reset_jobs", yes=True)
    assert Job.objects.count() == 1
    call_command("reset_jobs", yes=True, force=True)
    assert Job.objects.count() == 0
