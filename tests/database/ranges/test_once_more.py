"""A run is made once more, its failures are settled together, and a pause is forced."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from jobs.errors import Conflict, InvalidInput
from jobs.models import AuditEntry, Job
from jobs.testing import run_due_jobs
from ranges import lifecycle
from ranges.axes import DateRange, IntRange
from ranges.declaring import RangeJob
from ranges.loading import Halted
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus
from ranges.stuck import stuck
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db


class Picky(RangeJob):
    """Fails at the keys that its parameter names."""

    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=50)
    concurrency = 2
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold: ClassVar[float | None] = None

    def process(self, leaf: Any, context: Any) -> None:
        for key in leaf:
            if key in context.params.get("bad", ()):
                raise ValueError(f"bad key {key}")


def driven(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


class TestAgain:
    def test_it_has_the_same_range_and_options_and_waits_to_be_started(self) -> None:
        run = driven(
            Picky.create(
                100, 300, params={"bad": []}, metadata={"ticket": 7}, priority=1, queue="slow",
                concurrency=5, max_range_size=7, failure_threshold=2.5, max_depth=9,
                retry=RetryPolicy(max_attempts=4, backoff=fixed(3), bisect=False),
            ).start()
        )  # fmt: skip
        made = run.again(by="anna")
        assert (made.id != run.id, made.status, made.job_id) == (True, "created", None)
        kept = (
            "name", "lo", "hi", "params", "priority", "queue", "concurrency", "leaf", "max_depth",
            "max_attempts", "failure_threshold", "atomic",
        )  # fmt: skip
        assert {name: getattr(made, name) for name in kept} == {
            name: getattr(run, name) for name in kept
        }
        assert made.start_options["retry"] == run.start_options["retry"]
        assert made.metadata == {"ticket": 7, "again_of": str(run.id)}
        assert AuditEntry.objects.get(object_id=str(made.id)).action == "range.create"
        assert driven(made.start()).status == RunStatus.COMPLETED

    def test_keys_of_other_types_stay_what_they_were(self) -> None:
        class Days(RangeJob):
            over = DateRange("2024-01-01", "2025-01-01")

            def process(self, leaf: Any, context: Any) -> None: ...

        run = Days.create("2024-03-01", "2024-04-01").start()
        made = driven(run).again()
        assert (made.lo, made.hi) == (run.lo, run.hi)

    def test_without_its_code_there_is_none(self) -> None:
        run = Picky.create()
        RangeRun.objects.update(name="gone.Away")
        with pytest.raises(Halted):
            run.again()
        assert RangeRun.objects.count() == 1


class TestWaivingAll:
    def test_it_closes_what_is_open_and_the_run_is_judged_again(self) -> None:
        run = driven(Picky.create(params={"bad": [3, 400, 999]}).start())
        assert run.status == RunStatus.PARTIALLY_FAILED
        run.waive(RangeFailure.objects.get(key="3"), "known", by="bo")
        assert run.waive_all("rows of a test", by="anna") == 2
        assert driven(run).status == RunStatus.COMPLETED
        reasons = dict(RangeFailure.objects.values_list("key", "reason"))
        assert reasons == {"3": "known", "400": "rows of a test", "999": "rows of a test"}
        entry = AuditEntry.objects.filter(action="range.waive", actor="anna").get()
        assert (entry.changed, entry.reason) == (2, "rows of a test")

    def test_it_says_why_and_there_is_something_to_close(self) -> None:
        run = driven(Picky.create(params={"bad": [3]}).start())
        with pytest.raises(InvalidInput, match="why"):
            run.waive_all("  ")
        run.waive_all("known")
        with pytest.raises(Conflict, match="no failure is open"):
            run.waive_all("known")


class TestForcingAPause:
    def stalled(self, **worker: Any) -> tuple[RangeRun, Job]:
        """A run whose only lane is held by a worker that says nothing any more."""
        run = Picky.create().start()
        owner = make_worker(**{"beat_at": ago(minutes=5), **worker})
        lane = make_job(
            "processing",
            type="ranges.lane",
            payload={"run": str(run.id), "index": 0},
            parent_id=run.job_id,
            child_key="1:0",
            worker_id=owner.id,
        )
        RangeRun.objects.update(planned=True, lo=0, hi=1_000)
        RangeNode.objects.create(
            run=run, kind="strand", state="running", lo=0, hi=1_000, cur=100, resv=150,
            width_ok=100, rows_ok=100, leaves=2,
            owner_job=lane.id, owner_epoch=lane.lease_epoch,
        )  # fmt: skip
        run.refresh_from_db()
        return run, lane

    def test_it_takes_the_lane_away_and_frees_its_piece(self) -> None:
        run, lane = self.stalled()
        assert stuck(run) == [str(lane.id)]
        assert run.force_pause(reason="the host is gone", by="anna") == 1
        assert (run.status, run.reason) == ("paused", "the host is gone")
        lane.refresh_from_db()
        assert (lane.status, lane.worker_id) == ("pending", None)
        node = RangeNode.objects.get()
        assert (node.state, node.owner_job, int(node.cur)) == ("pending", None, 100)
        entry = AuditEntry.objects.get(actor="anna")
        assert (entry.action, entry.data["ids"]) == ("range.force_pause", [str(lane.id)])
        assert stuck(run) == []

    def test_a_run_that_is_paused_already_is_freed_all_the_same(self) -> None:
        run, _ = self.stalled()
        run.pause(reason="first")
        assert run.force_pause(by="anna") == 1
        assert (run.status, run.reason) == ("paused", "first")

    def test_while_its_workers_live_it_is_paused_as_usual(self) -> None:
        run, lane = self.stalled(beat_at=ago(seconds=0))
        assert stuck(run) == []
        with pytest.raises(Conflict, match="signs of life"):
            run.force_pause(by="anna")
        lane.refresh_from_db()
        run.refresh_from_db()
        assert (lane.status, run.status) == ("processing", "running")

    def test_it_goes_on_where_it_was_once_it_is_resumed(self) -> None:
        run, _ = self.stalled()
        run.force_pause()
        lifecycle.resume(run)
        assert driven(run).status == RunStatus.COMPLETED
        assert run.verify().is_complete

    @pytest.mark.parametrize("status", ["created", "completed", "cancelled"])
    def test_only_what_runs_or_is_paused(self, status: str) -> None:
        run, _ = self.stalled()
        RangeRun.objects.update(status=status)
        with pytest.raises(Conflict, match="nothing to be paused"):
            run.force_pause()
