"""The worklist of a run, its charts, and what its page offers beside the usual."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from jobs.models import AuditEntry, Job
from ranges import declaring
from ranges.admin.listing import WALK
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.models import RangeFailure, RangeNode, RangeRun, RangeSample
from tests.console.people import client_of, read
from tests.console.run_scenery import SIZE, busy, failed, make_node, make_run
from tests.factories import ago, make_job, make_worker
from tests.plans import explain, scans

pytestmark = pytest.mark.django_db

LIST = "/admin/ranges/rangerun/"


def page_of(run: RangeRun) -> str:
    return f"{LIST}{run.id}/"


def press(client: Client, run: RangeRun, action: str, **form: Any) -> str:
    answer = client.post(f"{page_of(run)}act/", {"action": action, **form}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def walked(client: Client, run: RangeRun, tab: str) -> list[Any]:
    """All rows of a tab, page by page, there and back."""
    pages, url, back = [], f"{page_of(run)}?work={tab}", ""
    while url:
        found = client.get(url).context["work"]
        pages.append(found.rows)
        url = f"{page_of(run)}{found.older.partition('#')[0]}" if found.older else ""
        back = found.newer
    if back:
        before = client.get(f"{page_of(run)}{back.partition('#')[0]}").context["work"]
        assert before.rows == pages[-2]
    return [row for rows in pages for row in rows]


def with_lanes(count: int) -> RangeRun:
    """Each lane's leaf began a second after that of the one before; the last waits for a slot."""
    worker = make_worker(name="web-7:1")
    driver = make_job("processing", type="ranges.run", worker_id=worker.id)
    run = make_run(job_id=driver.id, lo=0, hi=1_000 * count, concurrency=count)
    for index in range(count):
        waits = index == count - 1
        lane = make_job(
            *([] if waits else ["processing"]),
            type="ranges.lane",
            payload={"run": str(run.id), "index": index},
            parent_id=driver.id,
            child_key=f"1:{index}",
            **({} if waits else {"worker_id": worker.id}),
        )
        lo = 1_000 * index
        state = {} if waits else {"state": "running", "owner_job": lane.id}
        make_node(
            run, lo, lo + 1_000, (lo + 100, "processed"), progress_at=ago(seconds=500 - index),
            **state,
        )  # fmt: skip
    return run


class TestRunning:
    def test_the_leaf_at_work_longest_comes_first_and_who_waits_comes_last(self) -> None:
        run = with_lanes(45)
        rows = walked(client_of("Viewer"), run, "running")
        assert [row.index for row in rows] == list(range(45))
        assert (rows[0].leaf, rows[0].upto) == ("100 to 1,000", "1,000")
        assert rows[1].begin == pytest.approx((1_100) / 45_000)
        assert rows[-1].since is None

    def test_it_is_what_one_sees_first_while_nothing_has_failed(self) -> None:
        run = with_lanes(3)
        text = read(client_of("Viewer"), page_of(run))
        assert "web-7:1" in text
        assert "waits for a slot" in text
        failed(run, 2_999)
        assert client_of("Viewer").get(page_of(run)).context["work"].tab == "failed"

    def test_a_lane_whose_worker_is_silent_says_so(self) -> None:
        run = with_lanes(2)
        assert "no sign of life" not in read(client_of("Viewer"), page_of(run), work="running")
        type(make_worker()).objects.update(beat_at=ago(minutes=5))
        assert "no sign of life" in read(client_of("Viewer"), page_of(run), work="running")

    def test_text_keys_have_their_part_of_the_drawing_too(self) -> None:
        driver = make_job("processing", type="ranges.run")
        run = make_run(
            job_id=driver.id, axis={"type": "text"}, lo=None, hi=None, lo_key="a", hi_key="z"
        )
        lane = make_job("processing", type="ranges.lane", parent_id=driver.id, child_key="1:0",
                        payload={"run": str(run.id), "index": 0})  # fmt: skip
        RangeNode.objects.create(
            run=run, kind="strand", state="running", lo_key="a", cur_key="f", resv_key="g",
            hi_key="z", owner_job=lane.id,
        )  # fmt: skip
        [row] = client_of("Viewer").get(page_of(run), {"work": "running"}).context["work"].rows
        assert (row.leaf, row.upto) == ("f to g", "z")
        assert 0 < row.begin < row.end <= 1


class TestSkipped:
    def test_blocks_are_listed_in_the_order_of_the_keys(self) -> None:
        run = make_run(lo=0, hi=10_240)
        make_node(
            run, 0, 10_240, (1_000, "processed"), (5_000, "skipped"), (6_000, "processed"),
            (10_240, "skipped"),
        )  # fmt: skip
        rows = walked(client_of("Viewer"), run, "skipped")
        assert [(row.first, row.upto, row.keys) for row in rows] == [
            (1_000, 5_000, 4_000), (6_000, 10_240, 4_240),
        ]  # fmt: skip
        assert rows[0].begin == pytest.approx(1_000 / 10_240)
        assert rows[1].end == 1

    def test_many_turn_pages_without_losing_one(self) -> None:
        run = make_run(lo=0, hi=10_240)
        steps = [(100 * n, "skipped" if n % 2 else "processed") for n in range(1, 102)]
        make_node(run, 0, 10_240, *steps, (10_240, "processed"))
        rows = walked(client_of("Viewer"), run, "skipped")
        assert [row.first for row in rows] == [200 * n for n in range(51)]

    def test_text_has_keys_and_no_numbers_of_them(self) -> None:
        run = make_run(axis={"type": "text"}, lo=None, hi=None, lo_key="a", hi_key="z")
        RangeNode.objects.create(
            run=run, kind="strand", state="skipped", lo_key="a", cur_key="z", resv_key="z",
            hi_key="z", cells=b"\x02" * 1_024,
        )  # fmt: skip
        text = read(client_of("Viewer"), page_of(run), work="skipped")
        assert "a to z" in text
        assert "How many" not in text


class TestEvery:
    def test_no_address_breaks_the_page(self) -> None:
        run = with_lanes(3)
        failed(run, 2_999)
        client = client_of("Viewer")
        for tab in ("failed", "running", "skipped", "boom"):
            for place in ("x", "~", "9" * 30, "2026-01-01T00:00:00~x", "\x00"):
                for name in ("after", "before"):
                    answer = client.get(page_of(run), {"work": tab, name: place})
                    assert answer.status_code == 200, (tab, name, place)

    @pytest.mark.usefixtures("frozen")
    def test_a_page_asks_no_more_than_it_may_on_any_tab(
        self, django_assert_max_num_queries: Any
    ) -> None:
        run = busy()
        client = client_of("Operator")
        for tab in ("failed", "running", "skipped"):
            read(client, page_of(run), work=tab)
            with django_assert_max_num_queries(13):
                read(client, page_of(run), work=tab)

    def test_lanes_are_found_by_an_index(self) -> None:
        from ranges.admin.lanes import LANES
        from ranges.stuck import STUCK

        run = with_lanes(3)
        given = {"run": str(run.id), "job": str(run.job_id), "most": 10, "dead_after": 15.0}
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        for statement in (LANES, STUCK):
            found = scans(explain(statement, given))
            assert found
            assert not [each for each in found if each.startswith("Seq Scan")], found


class TestRates:
    def rates(self, run: RangeRun, status: int = 200) -> Any:
        answer = client_of("Viewer").get(f"{page_of(run)}rates.json")
        assert answer.status_code == status
        return answer.json()

    def test_they_are_told_from_what_the_run_noted_and_how_it_stands(self) -> None:
        run = make_run(lo=0, hi=1_000, started_at=ago(seconds=30), resumed_at=ago(seconds=30))
        make_node(run, 0, 1_000, (300, "processed"), leaf_seconds={"20": 3})
        RangeSample.objects.create(
            run=run, at=ago(seconds=20), rows_ok=100, rows_failed=0, width_done=100, leaves=1,
            active_seconds=10, lanes=1, leaf_seconds={"20": 1},
        )  # fmt: skip
        found = self.rates(run)
        assert found["rows"] == [pytest.approx(10, rel=0.1), pytest.approx(10, rel=0.2)]
        assert found["p50"][0] == found["p95"][1] > 0

    def test_the_page_has_them_as_a_table_too(self) -> None:
        run = busy()
        text = read(client_of("Viewer"), page_of(run))
        assert 'id="rates-table"' in text
        assert "Leaf p95" in text

    def test_one_that_has_not_begun_says_so(self) -> None:
        run = make_run(status="created", planned=False, lo=None, hi=None, started_at=None,
                       resumed_at=None)  # fmt: skip
        assert self.rates(run) == {
            "begin": None, "times": [], "rows": [], "p50": [], "p95": [],
        }  # fmt: skip
        assert "It has not begun" in read(client_of("Viewer"), page_of(run))

    def test_nobody_sees_them_without_the_permission(self) -> None:
        run = busy()
        assert client_of("").get(f"{page_of(run)}rates.json").status_code == 403
        nowhere = f"{LIST}{'0' * 8}-0000-7000-8000-{'0' * 12}/rates.json"
        assert client_of("Viewer").get(nowhere).status_code == 404


class Versioned(RangeJob):
    over = IntRange(0, 100)
    version = "2"

    def process(self, leaf: Any, context: Any) -> None: ...


class TestOffered:
    def test_a_run_that_ended_badly_offers_both_ways_on(self) -> None:
        run = make_run(status="partially_failed", lo=0, hi=100, resumed_at=None)
        make_node(run, 0, 98, (98, "processed"))
        failed(run, 98)
        failed(run, 99)
        client = client_of("Operator")
        text = read(client, page_of(run))
        assert "Retry all 2" in text
        assert "Waive all 2" in text
        assert "Waive all 2" not in read(client_of("Viewer"), page_of(run))
        assert "must say why" in press(client, run, "waive_all")
        assert "2 failures are waived" in press(client, run, "waive_all", reason="a test")
        assert set(RangeFailure.objects.values_list("state", flat=True)) == {"waived"}

    def test_one_failure_alone_is_retried(self) -> None:
        run = make_run(status="partially_failed", lo=0, hi=100, resumed_at=None)
        make_node(run, 0, 98, (98, "processed"))
        one, other = failed(run, 98), failed(run, 99)
        client = client_of("Operator")
        assert 'value="retry_one"' in read(client, page_of(run))
        assert "1 failure is worked at again" in press(client, run, "retry_one", failure=one.id)
        one.refresh_from_db()
        other.refresh_from_db()
        assert (one.state, other.state) == ("retried", "open")
        elsewhere = make_run(lo=0, hi=100)
        text = press(client, elsewhere, "retry_one", failure=other.id)
        assert "not a failure of this run" in text

    def test_a_run_of_another_version_is_resumed_with_the_one_that_is_chosen(self) -> None:
        run = Versioned.create()
        RangeRun.objects.update(status="paused", code_version="1")
        client = client_of("Operator")
        text = read(client, page_of(run))
        assert "the run goes by <b>1</b>" in text
        assert "goes on where it stopped" in press(client, run, "resume", code_version="2")
        run.refresh_from_db()
        assert (run.status, run.code_version) == ("running", "2")
        RangeRun.objects.update(status="paused")
        assert 'name="code_version"' not in read(client, page_of(run))

    def test_the_same_range_is_run_again_as_a_new_run(self) -> None:
        run = Versioned.create(20, 60, params={"a": 1})
        RangeRun.objects.update(status="completed")
        client = client_of("Operator")
        assert "Makes a new run of" in press(client, run, "again")
        assert RangeRun.objects.count() == 1
        assert "It is not started" in press(client, run, "again", confirmed="yes")
        made = RangeRun.objects.exclude(id=run.id).get()
        assert (int(made.lo), int(made.hi), made.params) == (20, 60, {"a": 1})

    def test_one_whose_code_is_gone_is_not_made_again(self) -> None:
        run = make_run(status="completed", resumed_at=None)
        assert declaring.find(run.name) is None
        text = press(client_of("Operator"), run, "again", confirmed="yes")
        assert "Nothing was changed" in text
        assert RangeRun.objects.count() == 1

    def test_a_pause_is_forced_only_where_a_worker_is_silent_and_after_a_page(self) -> None:
        run = with_lanes(3)
        client = client_of("Operator")
        assert "Force pause" not in read(client, page_of(run))
        type(make_worker()).objects.update(beat_at=ago(minutes=5))
        text = read(client, page_of(run))
        assert "Force pause" in text
        assert "Force pause" not in read(client_of("Viewer"), page_of(run))
        assert "what it writes is refused" in press(client, run, "force_pause")
        text = press(client, run, "force_pause", confirmed="yes", reason="the host burned")
        assert "3 jobs were taken from workers" in text
        run.refresh_from_db()
        assert (run.status, run.reason) == ("paused", "the host burned")
        assert not Job.objects.filter(status="processing").exists()
        assert AuditEntry.objects.get(action="range.force_pause").reason == "the host burned"

    def test_nothing_of_it_is_done_without_the_permission(self) -> None:
        run = busy()
        failure = RangeFailure.objects.first()
        assert failure is not None
        client = client_of("Viewer")
        for action in ("retry_one", "waive_all", "again", "force_pause"):
            form = {"action": action, "failure": failure.id, "reason": "x", "confirmed": "yes"}
            assert client.post(f"{page_of(run)}act/", form).status_code == 403
        assert RangeRun.objects.count() == 1


def test_a_sweep_under_way_is_no_broken_proof() -> None:
    run = make_run(lo=0, hi=100, verdict={"sweep": {"at": "50", "found": False}})
    assert "Corrupt" not in read(client_of("Viewer"), page_of(run))


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, "ranges_rangerun_pkey"),
        ({"status": "failed"}, "run_status"),
        ({"name": "shop.Rare"}, "run_name"),
        ({"status": "running", "name": "shop.Rare"}, "run_"),
    ],
)
def test_the_list_of_thousands_of_runs_walks_an_index(asked: dict[str, str], index: str) -> None:
    """No sort, no scan: each tab, and each job, has its runs in their order."""
    RangeRun.objects.bulk_create(
        RangeRun(
            name="shop.Rare" if number % 500 == 0 else "shop.BackfillUsers", axis={"type": "int"},
            lo=0, hi=SIZE, status="failed" if number % 300 == 0 else "completed",
        )
        for number in range(2_400)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ranges_rangerun")
    wanted = RangeRun.objects.filter(**asked)
    last = str(RangeRun.objects.order_by("-id")[1_200].id)
    for rows in (
        wanted.order_by(*WALK.order)[:26],
        wanted.filter(id__lt=last).order_by("-id")[:26],
    ):
        plan = rows.explain()
        assert index in plan, plan
        assert "Sort" not in plan
        assert "Seq Scan" not in plan
