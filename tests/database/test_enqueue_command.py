"""`manage.py enqueue`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import registry
from jobs.models import Job, JobDependency, Schedule
from tests.commanding import Command

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    @registry.handler("plain")
    def plain(payload: Any) -> None: ...

    yield
    registry.remove("plain")


COMMAND = Command("enqueue")


def enqueue(*arguments: str) -> str:
    return COMMAND.run(*arguments).strip()


def refused(*arguments: str) -> str:
    said = COMMAND.refused(*arguments)
    assert not Job.objects.exists()
    return said


def test_a_job_is_created_and_its_id_printed() -> None:
    printed = enqueue("plain")
    job = Job.objects.get()
    assert printed == str(job.id)
    assert (job.type, job.payload, job.priority) == ("plain", {}, 2)


def test_every_option_reaches_the_job() -> None:
    parents = [enqueue("plain"), enqueue("plain")]
    printed = enqueue(
        "plain",
        '--payload={"n": [1, 2]}',
        '--metadata={"who": "ann"}',
        "--priority=1",
        "--at=2031-03-03T12:00:00+01:00",
        "--queue=mail",
        f"--depends-on={parents[0]}",
        f"--depends-on={parents[1]}",
        "--on-parent-failure=run",
        "--unique-key=a",
        "--max-attempts=7",
    )
    job = Job.objects.get(id=printed)
    assert (job.payload, job.metadata) == ({"n": [1, 2]}, {"who": "ann"})
    assert (job.priority, job.queue, job.max_attempts) == (1, "mail", 7)
    assert job.scheduled_at.isoformat() == "2031-03-03T11:00:00+00:00"
    assert (job.on_parent_failure, job.unique_key) == ("run", "a")
    assert JobDependency.objects.filter(child=job).count() == 2
    assert enqueue("plain", "--unique-key=a") == printed


def test_times_may_be_unix_milliseconds() -> None:
    enqueue("plain", "--at", "1930000000000")
    assert Job.objects.get().scheduled_at.timestamp() == 1_930_000_000


@pytest.mark.parametrize(
    "options", [("--every", "every_5_minutes"), ("--cron", "0 9 * * *", "--tz", "Asia/Tokyo")]
)
def test_a_recurring_job_gets_its_schedule(options: tuple[str, ...]) -> None:
    printed = enqueue("plain", *options)
    assert str(Schedule.objects.get().last_job_id) == printed


def test_json_tells_more_than_the_id() -> None:
    printed = json.loads(enqueue("plain", "--json", "--queue", "mail"))
    assert printed["id"] == str(Job.objects.get().id)
    assert (printed["queue"], printed["status"]) == ("mail", "pending")


def test_the_payload_may_come_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "Dateï"}', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "input"}'))
    first, second = enqueue("plain", "--payload", f"@{file}"), enqueue("plain", "--payload", "-")
    assert Job.objects.get(id=first).payload == {"from": "Dateï"}
    assert Job.objects.get(id=second).payload == {"from": "input"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody.knows"], "TYPE: no handler is registered for 'nobody.knows'"),
        (["plain", "--payload={"], "--payload: is not JSON"),
        (["plain", "--payload=@/does/not/exist"], "--payload: /does/not/exist cannot be read"),
        (["plain", "--payload=" + "[" * 100_000], "--payload: is nested too deep"),
        (["plain", "--payload=" + "9" * 5_000], "--payload: is nested too deep or has a number"),
        (["plain", '--payload={"a": [NaN]}'], "--payload: payload.a[0]: is NaN"),
        (["plain", '--payload={"a": "\\u0000"}'], "--payload: payload.a: contains a NUL"),
        (["plain", "--metadata=[]"], "--metadata: must be an object"),
        (["plain", "--priority=4"], "--priority: must be 1"),
        (["plain", "--at=2031-03-03T12:00:00"], "--at: has no time zone"),
        (["plain", "--at=soon"], "--at: is not an ISO 8601 time"),
        (["plain", "--at=" + "9" * 30], "--at: is outside the years"),
        (["plain", "--queue=a b"], "--queue: must be"),
        (["plain", "--depends-on=x"], "--depends-on: 'x' is not a job's id"),
        (
            ["plain", "--depends-on=5e7e4b5a-0000-7000-8000-000000000000"],
            "--depends-on: no such job",
        ),
        (["plain", "--max-attempts=0"], "--max-attempts: must be"),
        (["plain", "--on-parent-failure=explode"], "--on-parent-failure: must be"),
        (["plain", "--every=often"], "--every: must look like every_5_minutes"),
        (["plain", "--cron=0 0 30 2 *"], "--cron: bad day-of-month"),
        (["plain", "--cron=@daily", "--tz=Mars/Olympus"], "--tz: is not a known IANA"),
        (["plain", "--cron=@daily", "--every=every_1_hour"], "--cron: cannot be given"),
    ],
)
def test_what_is_refused_names_its_option_and_makes_no_job(
    arguments: list[str], message: str
) -> None:
    assert refused(*arguments).startswith(message)


def test_a_payload_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "payload.bin"
    file.write_bytes(b"\xff\xfe")
    assert refused("plain", "--payload", f"@{file}") == "--payload: is not UTF-8 text"
