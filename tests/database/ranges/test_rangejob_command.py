"""`manage.py rangejob`."""

from __future__ import annotations

import io
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Q
from django.db.models.functions import Now

from jobs.ids import new_uuid
from jobs.models import Job
from jobs.testing import run_due_jobs
from ranges.axes import DateRange, IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.management.rangejob_cli import following
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.progress import progress
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus
from tests.commanding import Command
from tests.database.ranges.keyed import Dated, Numbered

pytestmark = pytest.mark.django_db


class Sifting(RangeJob):
    """Fails at the keys that its parameter names."""

    name = "shop.Sifting"
    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=100)
    concurrency = 2
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        for key in leaf:
            if key in context.params.get("bad", ()):
                raise ValueError(f"bad key {key}\x1b[31m")


class Daily(RangeJob):
    name = "shop.Daily"
    over = DateRange("2024-01-01", "2025-01-01")

    def process(self, leaf: LeafRange, context: Any) -> None: ...


class Finishing(RangeJob):
    name = "shop.Finishing"
    over = Numbered
    todo = Q(done=False)

    def process(self, leaf: LeafRange, context: Any) -> int:
        return int(leaf.queryset.update(done=True))


class Renewing(RangeJob):
    name = "shop.Renewing"
    over = Dated
    key = "day"
    todo = Q(at__lt=datetime(2000, 1, 1, tzinfo=UTC))

    def process(self, leaf: LeafRange, context: Any) -> None: ...


COMMAND = Command("rangejob")
run, answer, refused = COMMAND.run, COMMAND.answer, COMMAND.refused


def found_something(*arguments: str) -> str:
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("rangejob", *arguments, stdout=out)
    assert left.value.code == 1
    return out.getvalue()


def started(*arguments: str) -> str:
    return run("start", "shop.Sifting", *arguments).strip()


def ended(*arguments: str) -> str:
    id = started(*arguments)
    run_due_jobs(retries=True)
    return id


def the(id: str) -> RangeRun:
    return RangeRun.objects.get(id=id)


class TestStart:
    def test_it_prints_the_id_of_a_run_with_all_that_was_given(self) -> None:
        parent = str(Job.objects.create(type="test").id)
        found = answer(
            "start", "shop.Sifting", "--start=-0", "--end", "900", "--concurrency=5",
            "--priority=1", "--queue=nightly", '--metadata={"for": "anna"}', "--param=bad=[7, 8]",
            "--param", "who=anna=b", "--max-range-size=50", "--failure-threshold=2.5",
            "--max-depth=9", "--at=2031-01-01T00:00:00Z", f"--depends-on={parent}",
        )  # fmt: skip
        made = the(found["id"])
        assert made.params == {"bad": [7, 8], "who": "anna=b"}
        assert made.metadata == {"for": "anna"}
        assert (made.concurrency, made.priority, made.queue) == (5, 1, "nightly")
        assert (made.failure_threshold, made.max_depth) == (2.5, 9)
        assert (found["lo"], found["hi"], found["leaf"]) == (0, 900, {"max_size": 50})
        assert made.job_id is not None
        job = Job.objects.get(id=made.job_id)
        assert (job.unmet_dependencies, job.scheduled_at.year) == (1, 2031)
        assert "params" not in found

    def test_a_run_can_be_made_first_and_started_later(self) -> None:
        id = run("create", "shop.Sifting", "--start=5").strip()
        assert the(id).status == RunStatus.CREATED
        assert "options are given when" in refused("start", id, "--start=7")
        assert run("start", id[:13]).strip() == id
        assert the(id).status == RunStatus.RUNNING
        assert "started already" in refused("start", id)

    def test_bounds_are_text_of_the_key_type(self) -> None:
        found = answer("create", "shop.Daily", "--start=2024-02-29", "--end=2024-03-01")
        assert (found["lo"], found["hi"]) == ("2024-02-29", "2024-03-01")
        assert "--start: must be a date such as" in refused("start", "shop.Daily", "--start=3")
        assert "--end: lies outside" in refused("start", "shop.Daily", "--end=2025-01-02")

    @pytest.mark.parametrize(
        ("option", "words"),
        [
            ("--start=x", "--start: must be a whole number"),
            ("--end=-1", "--end: "),
            ("--concurrency=0", "--concurrency: must be a whole number from 1 to 1,000"),
            ("--max-range-size=0", "--max-range-size: must be a whole number from 1"),
            ("--failure-threshold=101", "--failure-threshold: must be from 0 to 100"),
            ("--max-depth=-1", "--max-depth: "),
            ("--priority=9", "--priority: "),
            ("--queue=", "--queue: "),
            ("--param=x", "--param: must be NAME=VALUE"),
            ("--metadata={", "--metadata: is not JSON"),
            ("--at=soon", "--at: "),
            ("--depends-on=x", "--depends-on: "),
        ],
    )
    def test_a_value_that_is_refused_is_named(self, option: str, words: str) -> None:
        assert words in refused("start", "shop.Sifting", option)
        assert not RangeRun.objects.exists()

    def test_an_unknown_name_is_answered_with_the_known_ones(self) -> None:
        text = refused("start", "shop.Nothing")
        assert "no range job 'shop.Nothing'" in text
        assert "shop.Sifting" in text
        assert "does not exist" in refused("start", "0123")

    def test_wrong_usage_is_told_from_a_value_that_is_refused(self) -> None:
        with pytest.raises(CommandError) as caught:
            run("retune", "x")
        assert "--concurrency" in str(caught.value)


class TestFollow:
    def test_it_goes_on_until_the_run_is_completed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(following, "sleep", lambda _: run_due_jobs(retries=True))
        text = run("start", "shop.Sifting", "--follow")
        assert "all keys done" in text
        assert "1,000 rows in 12 leaves" in text

    def test_it_exits_with_1_when_the_run_ends_otherwise(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(following, "sleep", lambda _: run_due_jobs(retries=True))
        text = found_something("start", "shop.Sifting", "--follow", "--param=bad=[7]")
        assert "partially failed" in text
        assert "1 failure open" in text

    def test_ctrl_c_leaves_the_run_running(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        id = started()
        monkeypatch.setattr(following, "sleep", interrupt)
        out = io.StringIO()
        with pytest.raises(SystemExit) as left:
            call_command("rangejob", "status", id, "--follow", stdout=out)
        assert left.value.code == 130
        assert f"rangejob status {id} --follow" in out.getvalue()
        assert the(id).status == RunStatus.RUNNING

    def test_a_terminal_gets_a_bar_with_rows_rate_and_time(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr(following, "sleep", lambda _: run_due_jobs(retries=True))
        out = Terminal()
        call_command("rangejob", "start", "shop.Sifting", "--follow", stdout=out)
        shown = capsys.readouterr().out
        assert "shop.Sifting" in shown
        assert "100%" in shown
        assert "1,000 rows" in shown


class TestActing:
    def test_pause_resume_retune_and_cancel(self) -> None:
        id = started()
        assert run("pause", id, "--reason=lunch").strip() == f"Paused {id}."
        assert (the(id).status, the(id).reason) == (RunStatus.PAUSED, "lunch")
        assert answer("resume", id)["status"] == RunStatus.RUNNING
        assert "has 7 lanes" in run("retune", id, "--concurrency=7")
        assert the(id).concurrency == 7
        assert "--concurrency: must be" in refused("retune", id, "--concurrency=0")
        assert run("cancel", id).strip() == f"Cancelled {id}."
        assert the(id).status == RunStatus.CANCELLED
        assert "only a running run" in refused("pause", id)

    def test_a_run_is_taken_from_workers_that_say_nothing(self) -> None:
        id = started()
        assert "signs of life" in refused("force-pause", id)
        Job.objects.filter(type="ranges.run").update(
            status="processing", worker_id=new_uuid(), started_at=Now(), attempt_count=1,
            lease_epoch=1,
        )  # fmt: skip
        assert "took 1 job from workers" in run("force-pause", id, "--reason=gone")
        assert (the(id).status, the(id).reason) == (RunStatus.PAUSED, "gone")

    def test_a_range_is_run_again_as_a_new_run(self) -> None:
        id = ended("--param=bad=[7]")
        made = run("again", id).strip()
        assert made != id
        assert (the(made).status, the(made).params) == (RunStatus.CREATED, {"bad": [7]})
        assert answer("again", id)["id"] not in (id, made)

    def test_failures_are_retried_one_by_one_and_waived_together(self) -> None:
        id = ended("--param=bad=[7, 8, 700]")
        one, *_ = RangeFailure.objects.order_by("id")
        assert "1 failure of" in run("retry-failed", id, f"--failure={one.id}")
        run_due_jobs(retries=True)
        assert RangeFailure.objects.filter(state="open").count() == 3
        assert "either" in refused("waive", "--reason=x")
        assert "either" in refused("waive", str(one.id), f"--all-of={id}", "--reason=x")
        assert "Waived 3 failures of" in run("waive", f"--all-of={id}", "--reason=known")
        assert "no failure is open" in refused("waive", f"--all-of={id}", "--reason=known")

    def test_failures_are_listed_retried_and_waived(self) -> None:
        id = ended("--param=bad=[7, 8, 700]")
        text = run("failures", id)
        assert "bad key 700" in text
        assert "\x1b" not in text
        rows = answer("failures", id, "--state=open")["failures"]
        assert sorted(int(row["key"]) for row in rows) == [7, 8, 700]
        assert "traceback" not in rows[0]
        traced = run("failures", id, "--tracebacks")
        assert "ValueError" in traced
        assert "\x1b" not in traced

        assert "3 failures" in run("retry-failed", id)
        assert the(id).status == RunStatus.RUNNING
        run_due_jobs(retries=True)
        open_ones = [str(each.id) for each in RangeFailure.objects.filter(state="open")]
        assert len(open_ones) == 3
        assert "--reason" in refused("waive", open_ones[0], "--reason= ")
        assert run("waive", *open_ones, "--reason=known").strip() == "Waived 3 failures."
        run_due_jobs(retries=True)
        assert the(id).status == RunStatus.COMPLETED
        assert "no open failures" in refused("retry-failed", id)
        assert "no such failures" in run("failures", id, "--state=open")


class TestLooking:
    def test_list_shows_the_newest_runs_and_filters_them(self) -> None:
        first, second = ended(), started()
        found = answer("list")["runs"]
        assert [each["id"] for each in found] == [second, first]
        assert found[1]["progress"]["percent"] == 100
        assert [each["id"] for each in answer("list", "--status=completed")["runs"]] == [first]
        assert second in run("list", "--name=shop.Sifting", "--limit=1")
        assert "no such runs" in run("list", "--name=nobody")
        assert "shop.Sifting" in run("list", "--jobs").splitlines()
        assert "--limit" in refused("list", "--limit=0")

    def test_status_says_how_it_stands_and_why_nothing_happens(self) -> None:
        text = run("status", ended("--param=bad=[7]"))
        assert "all keys done" in text
        assert re.search(r"processed +999\n", text)
        assert "1 failure open" in text
        assert "█" in text
        fresh = started()
        assert "no worker is alive" in run("status", fresh)
        found = answer("status", fresh)
        assert found["reasons"] == ["no worker is alive"]
        assert found["params"] == {}

    def test_the_tree_is_drawn_to_any_depth(self) -> None:
        id = ended("--param=bad=[7]")
        root = answer("tree", id, "--depth=2")
        assert (root["lo"], root["hi"], root["state"]) == (0, 1_000, "error")
        assert len(root["children"]) == 2
        text = run("tree", id, "--depth=10")
        assert "[7, 8)  error" in text
        assert "[500, 1,000)  done" in text
        assert answer("tree", id, "--path=1")["lo"] == 500
        assert "--path: names no block" in refused("tree", id, "--path=12")
        assert "--depth: must be from 0 to 10" in refused("tree", id, "--depth=11")
        assert "bisect" in run("tree", id, "--nodes")
        assert len(answer("tree", id, "--nodes")["nodes"]) == RangeNode.objects.count()

    def test_the_tree_of_a_run_without_a_range_is_refused(self, keyed_tables: None) -> None:
        id = run("create", "shop.Finishing").strip()
        assert "no range yet" in refused("tree", id)
        assert re.search(r" 0\.0 %", run("list"))
        run("start", id)
        assert "all keys done" not in run("status", id)
        assert "from the first to before the end" in run("status", id)

    def test_a_run_is_found_by_how_its_id_begins_if_it_is_the_only_one(self) -> None:
        first, second = started(), started()
        assert first in run("status", first)
        shared = 0
        while first[shared] == second[shared]:
            shared += 1
        assert "several ids" in refused("status", first[:8])
        assert "RUN: must be the first characters" in refused("status", "xyz")
        assert "does not exist" in refused("status", "ffffffff")


class TestPlan:
    def test_it_says_what_would_be_done_and_which_index_would_help(
        self, keyed_tables: None
    ) -> None:
        Numbered.objects.bulk_create(Numbered(id=n, done=n < 400) for n in range(1_000))
        text = run("plan", "shop.Finishing")
        assert "Warning: no index of keyed_numbered" in text
        assert "CREATE INDEX CONCURRENTLY" in text
        assert "walked over" in text
        plan = answer("plan", "shop.Sifting", "--start=500", "--max-range-size=10")
        assert (plan["lo"], plan["hi"], plan["leaves"]) == (500, 1_000, 50)
        assert "--end: must not lie before start" in refused(
            "plan", "shop.Sifting", "--start=5", "--end=3"
        )
        assert not RangeRun.objects.exists()


class TestVerify:
    def test_a_sound_run_is_proved(self) -> None:
        id = ended()
        assert "All is as it should be." in run("verify", id)
        found = answer("verify", id)
        assert (found["ok"], found["findings"]) == (True, [])

    def test_what_is_left_is_a_finding_only_when_nothing_should_be(self) -> None:
        id = started()
        assert answer("verify", id)["findings"] == []
        assert "nothing was planned yet" in found_something("verify", id, "--complete")

    def test_a_gap_is_found(self) -> None:
        id = ended()
        node = RangeNode.objects.filter(run=the(id)).exclude(lo=0).order_by("lo")[0]
        RangeNode.objects.filter(id=node.id).delete()
        text = found_something("verify", id)
        assert "BROKEN" in text
        assert "Found: the nodes do not follow one another" in text

    def test_open_failures_of_a_run_that_ended_are_findings(self) -> None:
        id = ended("--param=bad=[7]")
        assert "1 failure is open" in found_something("verify", id)

    def test_rows_that_came_back_are_found(self, keyed_tables: None) -> None:
        Numbered.objects.bulk_create(Numbered(id=n) for n in range(100))
        id = run("start", "shop.Finishing").strip()
        run_due_jobs(retries=True)
        assert the(id).status == RunStatus.COMPLETED
        RangeRun.objects.filter(id=id).update(probing="witness")
        assert "All is as it should be." in run("verify", id)
        Numbered.objects.filter(id=42).update(done=False)
        assert "Found: the row at 42 needs work." in found_something("verify", id)
        assert progress(id).percent == 100

    def test_what_was_not_planned_yet_is_neither_broken_nor_complete(
        self, keyed_tables: None
    ) -> None:
        for job in (Renewing, Daily):
            made = str(job.create().id)
            assert run("verify", made).strip() == "Nothing was planned yet."
            assert "Found: nothing was planned yet." in found_something(
                "verify", made, "--complete"
            )

    def test_a_row_that_came_back_is_named_by_its_key(self, keyed_tables: None) -> None:
        moment = datetime(2000, 1, 1, tzinfo=UTC)
        for day in range(1, 4):
            Dated.objects.create(day=date(2024, 1, day), at=moment + timedelta(days=day))
        made = RangeRun.objects.create(
            name=Renewing.name, axis={"type": "date"}, probing="witness", planned=True,
            status=RunStatus.COMPLETED, lo=738886, hi=738889, leaf={"max_size": 10},
        )  # fmt: skip
        RangeNode.objects.create(
            run=made, kind="strand", state="done", lo=738886, hi=738889, cur=738889, resv=738889,
            width_ok=3,
        )  # fmt: skip
        assert "All is as it should be." in run("verify", str(made.id))
        Dated.objects.filter(day="2024-01-02").update(at=moment - timedelta(days=1))
        text = found_something("verify", str(made.id))
        assert "Found: the row at 2024-01-02 needs work." in text
