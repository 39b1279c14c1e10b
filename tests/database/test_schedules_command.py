"""`manage.py schedules`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jobs import registry, schedules
from jobs.models import Job, Schedule
from tests.commanding import Command

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    @registry.handler("plain")
    def plain(payload: Any) -> None: ...

    yield
    registry.remove("plain")


COMMAND = Command("schedules")
run, refused = COMMAND.run, COMMAND.refused


@pytest.mark.django_db
class TestActions:
    def test_a_schedule_is_added_with_every_option(self) -> None:
        printed = run(
            "add",
            "nightly",
            "plain",
            "--cron=30 2 * * *",
            "--tz=Europe/Berlin",
            "--from=2031-07-01T00:00:00Z",
            '--payload={"n": 1}',
            '--metadata={"who": "ann"}',
            "--queue=slow",
            "--priority=3",
            "--max-attempts=7",
            "--misfire=skip",
            "--overlap",
            "--on-parent-failure=cancel",
        )
        made = Schedule.objects.get()
        assert (made.name, made.type, made.payload) == ("nightly", "plain", {"n": 1})
        assert (made.cron, made.time_zone) == ("30 2 * * *", "Europe/Berlin")
        assert (made.metadata, made.queue, made.priority) == ({"who": "ann"}, "slow", 3)
        assert (made.max_attempts, made.misfire, made.allow_overlap) == (7, "skip", True)
        assert made.on_parent_failure == "cancel"
        assert made.next_slot == datetime(2031, 7, 1, 0, 30, tzinfo=UTC)
        assert printed == (
            "Added nightly: At 02:30 every day, Europe/Berlin time. "
            "Next run: Tue 2031-07-01 02:30:00 +0200.\n"
        )

    def test_the_list_shows_rules_in_words_times_in_their_zone_and_what_is_wrong(self) -> None:
        run("add", "a", "plain", "--every=every_5_minutes", "--disabled")
        run("add", "b [bold]", "plain", "--cron=0 9 * * *", "--tz=Asia/Tokyo")
        Schedule.objects.filter(name="a").update(last_error="payload: bad\x1b[31m", missed_count=5)
        lines = run("list").splitlines()
        assert lines[0].split("  ")[0] == "NAME"
        assert "every 5 minutes" in lines[1]
        assert "payload: bad\N{REPLACEMENT CHARACTER}[31m" in lines[1]
        assert "b [bold]" in lines[2]
        assert "09:00:00 +0900" in lines[2]
        assert "Asia/Tokyo" in lines[2]

    def test_the_list_can_be_read_by_programs_and_shows_no_payload(self) -> None:
        run("add", "a", "plain", "--every=every_5_minutes", '--payload={"secret": 1}')
        (row,) = json.loads(run("list", "--json"))
        assert (row["name"], row["rule"], row["enabled"]) == ("a", "every 5 minutes", True)
        assert "secret" not in json.dumps(row)
        assert json.loads(run("list", "--json", "--type=other")) == []

    def test_an_empty_list_says_so(self) -> None:
        assert run("list") == "There are no schedules.\n"

    def test_a_schedule_is_changed_disabled_enabled_and_deleted(self) -> None:
        run("add", "a", "plain", "--every=every_5_minutes", "--overlap")
        run("change", "a", "--rename=b", "--no-overlap", "--cron=@hourly", '--payload={"n": 2}')
        made = Schedule.objects.get()
        assert (made.name, made.allow_overlap, made.cron) == ("b", False, "0 * * * *")
        assert (made.payload, made.recur_interval) == ({"n": 2}, "")
        assert run("disable", "b").startswith("Disabled b: ")
        assert Schedule.objects.get().next_slot is None
        assert "Next run" in run("enable", str(made.id))
        assert json.loads(run("delete", "b", "--json")) == {"deleted": str(made.id), "name": "b"}
        assert not Schedule.objects.exists()

    def test_an_extra_run_prints_the_id_of_its_job(self) -> None:
        run("add", "a", "plain", "--every=every_5_minutes")
        printed = run("run-now", "a").strip()
        assert str(Job.objects.get().id) == printed

    def test_the_next_slot_is_skipped(self) -> None:
        run("add", "a", "plain", "--every=every_5_minutes")
        before = Schedule.objects.get().next_slot
        assert "Skipped a run of a" in run("skip-next", "a")
        after = Schedule.objects.get().next_slot
        assert before is not None
        assert after is not None
        assert (after - before).total_seconds() == 300
        run("disable", "a")
        assert "has no next run" in refused("skip-next", "a")

    def test_the_next_runs_show_the_offset_of_each_day(self) -> None:
        run("add", "a", "plain", "--cron=30 2 * * *", "--tz=Europe/Berlin", "--disabled")
        Schedule.objects.update(anchor_at=datetime(2031, 3, 28, 12, tzinfo=UTC))
        lines = run("next", "a", "--count=3").splitlines()
        assert lines[0] == "At 02:30 every day, Europe/Berlin time"
        assert "disabled" in lines[1]
        assert lines[2].split()[:2] == ["Europe/Berlin", "UTC"]
        assert [line[:31].strip() for line in lines[3:]] == [
            "Sat 2031-03-29 02:30:00 +0100",
            "Sun 2031-03-30 03:00:00 +0200",
            "Mon 2031-03-31 02:30:00 +0200",
        ]

    def test_a_rule_can_be_tried_without_storing_it(self) -> None:
        printed = json.loads(
            run("next", "--every=every_1_hour", "--from=2031-01-01T00:00:00Z", "--json")
        )
        assert printed["rule"] == "every hour"
        assert printed["next_runs"][1] == "2031-01-01T01:00:00+00:00"
        assert len(printed["next_runs"]) == 5
        assert not Schedule.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["add", "b", "nobody.knows", "--every=every_1_hour"], "TYPE: no handler"),
            (["add", "b", "plain"], "--every: give recur_interval or cron"),
            (["add", "b", "plain", "--cron=0 0 31 2 *"], "--cron: bad day-of-month"),
            (["add", "a", "plain", "--every=every_1_hour"], "NAME: is the name of another"),
            (["add", "b", "plain", "--every=every_1_hour", "--from=2031-01-01"], "--from: "),
            (["add", "b", "plain", "--every=every_1_hour", "--payload={"], "--payload: is not"),
            (["add", "b", "plain", "--every=every_1_hour", "--misfire=never"], "--misfire: "),
            (["change", "a"], "nothing to change"),
            (["change", "a", "--tz=Europe/Berlin"], "--tz: is only for a cron"),
            (["disable", "none"], "schedule none does not exist"),
            (["delete", "none"], "schedule none does not exist"),
            (["next", "none"], "schedule none does not exist"),
            (["next"], "--every: give"),
            (["next", "a", "--cron=@daily"], "give a NAME or a rule"),
            (["next", "a", "--count=0"], "--count: must be"),
        ],
    )
    def test_what_is_refused_names_its_option(self, arguments: list[str], message: str) -> None:
        schedules.create("a", "plain", recur_interval="every_1_hour")
        assert refused(*arguments).startswith(message)
        assert Schedule.objects.count() == 1


def test_a_process_ends_with_2_for_wrong_usage_and_1_for_a_refused_value(
    project_database: str,
) -> None:
    def exit_code(*arguments: str) -> int:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=CHECKOUT,
            env={**os.environ, "DATABASE_URL": project_database},
            capture_output=True,
            check=False,
        ).returncode

    assert exit_code("schedules", "list") == 0
    assert exit_code("schedules", "explode") == 2
    assert exit_code("enqueue", "nobody.knows", "--priority", "x") == 2
    assert exit_code("enqueue", "nobody.knows") == 1
