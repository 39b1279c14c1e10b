"""Range runs in the console: their list, the page of each, what its drawing is made of, what may be done."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.console import sample
from jobs.models import AuditEntry
from ranges.admin.pictures import picture
from ranges.admin.scale import Scale
from ranges.declaring import RangeJob
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.states import RunStatus
from tests.console.people import client_of, read
from tests.console.run_scenery import SIZE, busy, failed, make_node, make_run
from tests.factories import make_job

pytestmark = pytest.mark.django_db

LIST = "/admin/ranges/rangerun/"
FAILURES = "/admin/ranges/rangefailure/"
SCRIPT = "<script>alert(1)</script>"
MOST_QUERIES = 13
"""Five of them say who is asking, and how they like it."""


def page_of(run: RangeRun) -> str:
    return f"{LIST}{run.id}/"


def between(lo: str, hi: str) -> dict[str, Any]:
    return {"from": lo, "to": hi}


def press(client: Client, run: RangeRun, action: str, status: int = 200, **form: Any) -> str:
    answer = client.post(f"{page_of(run)}act/", {"action": action, **form}, follow=True)
    assert answer.status_code == status
    return answer.content.decode()


def get_picture(client: Client, run: RangeRun, status: int = 200, **query: Any) -> Any:
    answer = client.get(f"{page_of(run)}picture.json", query)
    assert answer.status_code == status
    return answer.json()


class TestList:
    def test_a_line_says_how_far_a_run_is(self) -> None:
        run = make_run(lo=0, hi=1_000)
        make_node(run, 0, 600, (200, "skipped"), (500, "processed"))
        make_node(run, 600, 990)
        failed(run, 990, size=10)
        text = read(client_of("Viewer"), LIST)
        assert "shop.BackfillUsers" in text
        assert "whole number, 0 to 1,000" in text
        assert "51.0 %" in text
        for part in ("done", "skipped", "failed"):
            assert f'class="part-{part}"' in text
        assert "of 5 %" in text

    def test_states_and_jobs_narrow_it(self) -> None:
        make_run(name="shop.One")
        make_run(name="shop.Two", status="paused", resumed_at=None)
        client = client_of("Viewer")
        text = read(client, LIST, state="paused")
        assert ">shop.Two</a>" in text
        assert ">shop.One</a>" not in text
        text = read(client, LIST, job="shop.One")
        assert ">shop.One</a>" in text
        assert ">shop.Two</a>" not in text
        assert "No run matches" in read(client, LIST, state="failed", job="shop.One")

    def test_it_turns_pages_without_losing_a_run(self) -> None:
        made = [make_run(name=f"shop.Number{number:02}") for number in range(60)]
        client, url, seen = client_of("Viewer"), LIST, []
        while url:
            answer = client.get(url)
            shown = answer.context["rows"]
            seen += [row.run.id for row in shown]
            url = f"{LIST}{answer.context['older']}" if answer.context["older"] else ""
        assert seen == [run.id for run in reversed(made)]

    def test_an_empty_one_says_how_a_run_is_started(self) -> None:
        assert "manage.py rangejob start" in read(client_of("Viewer"), LIST)

    @pytest.mark.usefixtures("frozen")
    def test_it_asks_the_same_number_of_questions_whatever_it_holds(self) -> None:
        client = client_of("Operator")
        counts = []
        for _ in range(2):
            busy()
            make_run()
            read(client, LIST)
            with CaptureQueriesContext(
                connection,
            ) as found:
                read(client, LIST)
            counts.append(len(found))
            assert not [each for each in found if "OFFSET" in each["sql"]]
        assert counts[0] == counts[1] <= MOST_QUERIES

    def test_no_actions_are_shown_or_done_without_the_permission(self) -> None:
        run = make_run()
        client = client_of("Viewer")
        assert "_selected_action" not in read(client, LIST)
        form = {"action": "pause_runs", "_selected_action": [str(run.id)]}
        assert client.post(LIST, form).status_code == 403

    def test_nonsense_in_a_form_changes_nothing(self) -> None:
        run = make_run()
        client = client_of("Operator")
        for form in ({}, {"action": "boom", "_selected_action": [str(run.id)]},
                     {"action": "pause_runs", "_selected_action": ["x", ""]}):  # fmt: skip
            answer = client.post(LIST, form, follow=True)
            assert "Nothing was changed" in answer.content.decode()
        assert RangeRun.objects.get().status == "running"


class TestPage:
    def test_it_says_how_far_it_is_and_where(self) -> None:
        run = make_run(lo=0, hi=1_000)
        make_node(run, 0, 600, (200, "skipped"), (500, "processed"))
        make_node(run, 600, 990)
        failed(run, 990, size=10)
        text = read(client_of("Viewer"), page_of(run))
        assert "30.0 % done, 20.0 % skipped, 1.0 % failed, 49.0 % left" in text
        assert "Failures in 1 of 20 parts" in text
        assert "3.23 % of 5 % allowed (10 of 310 attempted): it pauses beyond 5 %" in text
        assert text.count("data-zoom=") == 22, "20 rows of the table, a failure and its link"

    def test_what_waits_for_people_is_said_on_top(self) -> None:
        client = client_of("Viewer")
        created = make_run(status="created", planned=False, lo=None, hi=None, resumed_at=None)
        text = read(client, page_of(created))
        assert "Not started" in text
        assert "it is drawn from then on" in text
        bad = make_run(status="partially_failed", lo=0, hi=100, resumed_at=None)
        make_node(bad, 0, 99, (99, "processed"))
        failed(bad, 99)
        assert "1 failure open" in read(client, page_of(bad))
        verdict = {"ok": False, "chain": False, "breaks": 3, "multirange": True, "ledger": True}
        corrupt = make_run(status="partially_failed", lo=0, hi=0, verdict=verdict, resumed_at=None)
        assert "Corrupt" in read(client, page_of(corrupt))
        halted = make_run(status="paused", reason="failure threshold", resumed_at=None)
        assert "More failed than is allowed" in read(client, page_of(halted))

    def test_a_window_is_asked_for_by_keys(self) -> None:
        run = make_run(lo=0, hi=1_000)
        make_node(run, 0, 1_000, (1_000, "processed"))
        client = client_of("Viewer")
        text = read(client, page_of(run), **between("100", "200"))
        assert "100 to 200" in text
        assert "Whole range" in text
        wrongs: tuple[dict[str, Any], ...] = (
            between("x", ""), between("200", "100"), {"a": "7"}, {"a": "nan"},
        )  # fmt: skip
        for wrong in wrongs:
            assert "The whole range is shown" in read(client, page_of(run), **wrong)

    def test_both_proofs_are_made_when_asked_for(self) -> None:
        run = make_run(status="completed", lo=0, hi=100, resumed_at=None)
        make_node(run, 0, 50, (50, "processed"))
        node = make_node(run, 50, 100, (100, "skipped"))
        client = client_of("Viewer")
        text = read(client, page_of(run), proof="1")
        assert "Both proofs hold" in text
        assert "2 pieces follow one another" in text
        assert "none of it twice" in text
        RangeNode.objects.filter(id=node.id).update(lo=60, width_skipped=40)
        text = read(client, page_of(run), proof="1")
        assert "It does not hold" in text
        assert "1 breaks" in text

    def test_params_and_errors_are_for_who_may_read_them(self) -> None:
        run = make_run(lo=0, hi=100, params={"word": "hush"})
        make_node(run, 0, 99)
        failed(run, 99, "ValueError: the secret of 99")
        text = read(client_of("", "jobs.view_job"), page_of(run))
        assert "hush" not in text
        assert "secret" not in text
        text = read(client_of("Operator"), page_of(run))
        assert "hush" in text
        assert "secret" in text

    def test_hostile_text_is_text(self) -> None:
        run = make_run(
            name=SCRIPT, reason=SCRIPT, status="paused", params={SCRIPT: SCRIPT}, queue=SCRIPT[:60],
            axis={"type": "text"}, lo=None, hi=None, lo_key=SCRIPT, hi_key=SCRIPT + "z",
        )  # fmt: skip
        RangeFailure.objects.create(
            run=run, key=SCRIPT, upto=SCRIPT, attempts=1, error=SCRIPT, traceback=SCRIPT
        )
        client = client_of(None)
        failure = RangeFailure.objects.get()
        for url in (LIST, page_of(run), FAILURES, f"{FAILURES}{failure.id}/change/"):
            text = read(client, url)
            assert SCRIPT not in text
            assert "&lt;script&gt;" in text

    @pytest.mark.usefixtures("frozen")
    def test_its_questions_are_few_and_do_not_grow_with_it(self) -> None:
        client = client_of("Operator")
        run = busy()
        read(client, page_of(run))
        with CaptureQueriesContext(connection) as found:
            read(client, page_of(run))
        assert len(found) <= MOST_QUERIES, [each["sql"][:90] for each in found]

    def test_what_is_not_there_is_not_found(self) -> None:
        client = client_of("Operator")
        nowhere = f"{LIST}{'0' * 8}-0000-7000-8000-{'0' * 12}/"
        read(client, nowhere, status=404)
        read(client, f"{nowhere}picture.json", status=404)


class TestPicture:
    def test_strips_and_blocks_tell_the_same_as_the_run(self) -> None:
        run = busy()
        found = get_picture(client_of("Viewer"), run)
        assert (found["begin"], found["end"], found["from"], found["to"]) == (0, 1, 0, SIZE)
        assert sum(count for count, *_ in found["whole"]) == 1_024
        root = next(block for block in found["blocks"] if block["path"] == "")
        parts = [int(root[name]) for name in ("processed", "skipped", "failed", "left")]
        assert sum(parts) == SIZE
        assert parts[2] == 7
        assert sum(each[4] > 0 for each in found["whole"]) >= 6

    def test_one_failed_key_in_a_billion_is_seen(self) -> None:
        run = make_run(lo=0, hi=10**9)
        make_node(run, 0, 123_456_789, (123_456_789, "processed"))
        failed(run, 123_456_789)
        make_node(run, 123_456_790, 10**9, (10**9, "processed"))
        assert any(
            failing for _, _, _, _, failing, _ in get_picture(client_of("Viewer"), run)["whole"]
        )

    def test_a_window_shows_blocks_of_its_own_size(self) -> None:
        run = busy()
        client = client_of("Viewer")
        found = get_picture(client, run, **between("8000000", "12000000"))
        assert found["begin"] == pytest.approx(0.16)
        assert found["end"] == pytest.approx(0.24)
        widths = [block["end"] - block["begin"] for block in found["blocks"]]
        assert max(widths) <= 0.16
        assert all(block["end"] > 0.16 and block["begin"] < 0.24 for block in found["blocks"])

    def test_as_deep_as_one_key(self) -> None:
        run = make_run(lo=0, hi=60)
        make_node(run, 0, 60, (7, "processed"), (60, "skipped"))
        found = get_picture(client_of("Viewer"), run, a="0.1000001", b="0.1000002")
        assert found["to"] - found["from"] == 1

    def test_text_is_drawn_too(self) -> None:
        run = make_run(axis={"type": "text"}, lo=None, hi=None, lo_key="a", hi_key="zz")
        RangeNode.objects.create(
            run=run,
            kind="strand",
            state="pending",
            lo_key="a",
            cur_key="m",
            resv_key="m",
            hi_key="zz",
        )
        client = client_of("Viewer")
        whole = get_picture(client, run)
        assert whole["from"] == "a"
        part = get_picture(client, run, a="0.25", b="0.5")
        assert "a" < part["from"] < part["to"] < "zz"
        assert part["begin"] == pytest.approx(0.25, abs=0.001)
        again = get_picture(client, run, **{"from": part["from"], "to": part["to"]})
        assert (again["begin"], again["end"]) == (part["begin"], part["end"])
        assert "left" in read(client, page_of(run))

    def test_keys_beyond_what_floats_hold_come_back_as_they_were(self) -> None:
        run = make_run(lo=-(2**120), hi=2**120)
        make_node(run, -(2**120), 2**120)
        scale = Scale(RangeRun.objects.get(id=run.id))
        assert scale.at(0.5) == 0
        window = scale.window(5, 17)
        found = picture(run, scale, window)
        assert (found["from"], found["to"]) == (5, 17)

    def test_nothing_is_drawn_before_there_is_a_range(self) -> None:
        run = make_run(status="created", planned=False, lo=None, hi=None, resumed_at=None)
        assert "drawn from then on" in get_picture(client_of("Viewer"), run, 409)["detail"]

    def test_a_wrong_window_is_a_wrong_request(self) -> None:
        run = busy()
        get_picture(client_of("Viewer"), run, 400, **{"from": "x"})
        get_picture(client_of("Viewer"), run, 400, a="2")

    def test_nobody_sees_it_without_the_permission(self) -> None:
        run = busy()
        for client in (client_of(""), Client()):
            assert client.get(f"{page_of(run)}picture.json").status_code in (302, 403)


class Counting(RangeJob):
    from ranges.axes import IntRange

    over = IntRange(0, 100)

    def process(self, leaf: Any, context: Any) -> None: ...


class TestActing:
    def test_a_run_is_started_paused_resumed_retuned_and_cancelled(self) -> None:
        run = Counting.create()
        client = client_of("Operator")
        for action, status, said in (
            ("start", "running", "The run is started."),
            ("pause", "paused", "Leaves at work go on to their end."),
            ("resume", "running", "goes on where it stopped"),
        ):
            assert f'value="{action}"' in read(client, page_of(run))
            assert said in press(client, run, action, reason="a look")
            run.refresh_from_db()
            assert run.status == status
        assert "Up to 3 lanes" in press(client, run, "retune", concurrency="3")
        assert "for good" in press(client, run, "cancel")
        run.refresh_from_db()
        assert (run.status, run.concurrency) == ("running", 3)
        assert "cancelled for good" in press(client, run, "cancel", confirmed="yes")
        run.refresh_from_db()
        assert run.status == RunStatus.CANCELLED
        assert AuditEntry.objects.filter(object_id=str(run.id), actor=client.username).count() >= 5  # type: ignore[attr-defined]

    def test_what_came_too_late_or_makes_no_sense_changes_nothing(self) -> None:
        run = make_run(status="completed", resumed_at=None)
        client = client_of("Operator")
        late: tuple[tuple[str, dict[str, Any]], ...] = (
            ("pause", {}), ("resume", {}), ("start", {}), ("cancel", {"confirmed": "yes"}),
            ("retry_failed", {"confirmed": "yes"}), ("retune", {"concurrency": "0"}),
            ("retune", {"concurrency": "x"}), ("retune", {"concurrency": "9" * 30}),
            ("waive", {"failure": "1"}), ("boom", {}), ("", {}),
        )  # fmt: skip
        for action, form in late:
            assert "Nothing was changed" in press(client, run, action, **form), action
        run.refresh_from_db()
        assert run.status == "completed"

    def test_nobody_acts_or_sees_buttons_without_the_permission(self) -> None:
        run = busy()
        client = client_of("Viewer")
        text = read(client, page_of(run))
        assert 'name="action"' not in text
        for action in ("pause", "cancel", "retry_failed", "retune", "waive"):
            assert client.post(f"{page_of(run)}act/", {"action": action}).status_code == 403
        run.refresh_from_db()
        assert run.status == "running"

    def test_a_failure_is_waived_with_a_reason_and_only_in_its_run(self) -> None:
        run, other = make_run(lo=0, hi=100), make_run(lo=0, hi=100)
        make_node(run, 0, 99)
        failure = failed(run, 99)
        client = client_of("Operator")
        assert "must say why" in press(client, run, "waive", failure=failure.id)
        text = press(client, other, "waive", failure=failure.id, reason="a test row")
        assert "not a failure of this run" in text
        assert "is waived" in press(client, run, "waive", failure=failure.id, reason="a test row")
        failure.refresh_from_db()
        assert (failure.state, failure.reason) == ("waived", "a test row")
        text = read(client, page_of(run), work="waived")
        assert "a test row" in text

    def test_the_way_back_is_only_to_this_site(self) -> None:
        run = make_run()
        client = client_of("Operator")
        for wanted in ("https://evil.example/", "//evil.example/"):
            answer = client.post(f"{page_of(run)}act/", {"action": "pause", "next": wanted})
            assert answer["Location"] == page_of(run)


class TestFailures:
    def test_chosen_ones_are_waived_after_a_reason(self) -> None:
        run = make_run(lo=0, hi=100)
        one, two = failed(run, 3), failed(run, 4)
        client = client_of("Operator")
        form = {"action": "waive", "_selected_action": [one.id, two.id]}
        assert "Waive 2 failures?" in client.post(FAILURES, form).content.decode()
        form["confirmed"] = "yes"
        assert "Say why" in client.post(FAILURES, form).content.decode()
        form["reason"] = "rows of a test"
        answer = client.post(FAILURES, form, follow=True)
        assert "2 failures were waived" in answer.content.decode()
        assert set(RangeFailure.objects.values_list("state", "reason")) == {
            ("waived", "rows of a test")
        }

    def test_their_runs_are_retried(self) -> None:
        run = make_run(lo=0, hi=100)
        make_node(run, 0, 99, (99, "processed"))
        failure = failed(run, 99)
        failed(run, 98)
        form = {"action": "retry", "_selected_action": [failure.id]}
        client = client_of("Operator")
        assert "Works at 2 open failures of 1 run again" in client.post(FAILURES, form).text
        failure.refresh_from_db()
        assert failure.state == "open"
        answer = client.post(FAILURES, form | {"confirmed": "yes"}, follow=True)
        assert "2 failures are worked at again in 1 run" in answer.content.decode()
        failure.refresh_from_db()
        assert failure.state == "retried"

    def test_nothing_is_offered_or_done_without_the_permission(self) -> None:
        failure = failed(make_run(lo=0, hi=100), 3)
        client = client_of("Viewer")
        assert "_selected_action" not in read(client, FAILURES)
        client.post(FAILURES, {"action": "waive", "_selected_action": [failure.id],
                               "confirmed": "yes", "reason": "x"})  # fmt: skip
        failure.refresh_from_db()
        assert failure.state == "open"

    def test_those_of_a_run_turn_pages(self) -> None:
        run, other = make_run(lo=0, hi=1_000), make_run(lo=0, hi=1_000)
        for key in range(45):
            failed(run, key)
            failed(other, key)
        client, seen = client_of("Viewer"), []
        url = f"{page_of(run)}?work=failed"
        while url:
            found = client.get(url).context["work"]
            seen += [row.failure.key for row in found.rows]
            url = f"{page_of(run)}{found.older.partition('#')[0]}" if found.older else ""
        assert seen == [str(key) for key in range(44, -1, -1)]

    def test_an_index_has_them_in_their_order(self) -> None:
        run = make_run(lo=0, hi=1_000)
        failed(run, 3)
        client = client_of("Viewer")
        with CaptureQueriesContext(connection) as found:
            read(client, page_of(run), work="waived")
        asked = next(
            each["sql"] for each in found if each["sql"].startswith('SELECT "ranges_rangefailure"')
        )
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            cursor.execute(f"EXPLAIN {asked}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "failure_run" in plan
        assert "Sort" not in plan


class TestNeighbours:
    def test_active_runs_are_counted_in_the_navigation(self) -> None:
        make_run(status="paused", resumed_at=None)
        client = client_of("Viewer")
        assert "is active" not in read(client, LIST)
        make_run()
        sample.forget()
        assert "1 range run is active" in read(client, LIST)

    def test_the_job_of_a_run_and_its_lanes_lead_to_it(self) -> None:
        run = make_run()
        client = client_of("Viewer")
        for type in ("ranges.run", "ranges.lane"):
            job = make_job(type=type, payload={"run": str(run.id)})
            assert page_of(run) in read(client, f"/admin/jobs/job/{job.id}/")
        for payload in ({"run": SCRIPT}, {}, {"run": None}):
            job = make_job(type="ranges.run", payload=payload)
            assert "Belongs to" not in read(client, f"/admin/jobs/job/{job.id}/")


def test_the_names_are_those_of_the_admin() -> None:
    run = make_run()
    assert reverse("admin:ranges_rangerun_change", args=[run.id]) == page_of(run)
    assert client_of("Viewer").get(f"{page_of(run)}change/")["Location"] == page_of(run)
