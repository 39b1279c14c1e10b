"""The page of a job: who sees what of it, what may be done, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from jobs import lifecycle, registry
from jobs.admin.page import graph, timeline, tracebacks, trees
from jobs.console import sample
from jobs.ids import new_uuid
from jobs.masking import MASKED
from jobs.models import AuditEntry, Job
from jobs.states import State, Status
from tests.console.people import client_of, read
from tests.factories import ago, make_edge, make_history, make_job, make_schedule, make_worker

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/job/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test", mask=("token",))(lambda payload: None)
    yield
    registry.remove("test")


def page_of(job: Job) -> str:
    return f"{LIST}{job.id}/"


def act(client: Client, job: Job, action: str, **more: str) -> str:
    response = client.post(f"{page_of(job)}act/", {"action": action, **more}, follow=True)
    assert response.status_code in (200, 404)
    return response.content.decode()


def dead(**columns: Any) -> Job:
    job = make_job(
        "dead",
        payload={"note": "the payload", "in": {"token": "hush"}},
        last_error="ValueError: the error",
        **columns,
    )
    make_history(job, attempts=2, error="ValueError: the error")
    return job


class TestReading:
    def test_jobs_that_it_made_are_in_the_states_that_people_know(self) -> None:
        parent = make_job(unmet_dependencies=1, wait_count=1)
        for trait, state in (("dead", "dead"), ("processing", "running"), ("retrying", "retrying")):
            made = make_job(trait, parent=parent, child_key=trait)
            text = read(client_of("Viewer"), page_of(parent)).partition("Jobs that it made")[2]
            row = text.partition(page_of(made))[0].rpartition("<li>")[2]
            assert f"state-{state}" in row

    def test_content_is_hidden_without_the_permission(self) -> None:
        job = dead()
        text = read(client_of("Viewer"), page_of(job))
        assert "started" in text
        for hidden in ("the payload", "the error", "Traceback", "hush"):
            assert hidden not in text
        for name in ("payload", "result", "metadata"):
            read(client_of("Viewer"), f"{page_of(job)}{name}.json", 403)

    def test_masked_keys_are_shown_to_superusers_only(self) -> None:
        job = dead()
        text = read(client_of("Operator"), page_of(job))
        assert "the payload" in text
        assert "Traceback" in text
        assert MASKED in text
        for path in ("", "payload.json", "payload/"):
            assert "hush" not in read(client_of("Operator"), page_of(job) + path)
            assert "hush" in read(client_of(), page_of(job) + path)

    def test_it_says_why_a_job_is_not_running_and_what_it_waits_for(self) -> None:
        parent, child = make_job("dead"), make_job()
        make_edge(child, parent)
        text = read(client_of("Viewer"), page_of(child))
        assert f"waits for test {parent.id}, which is failed" in text
        assert f'href="{page_of(parent)}"' in text
        text = read(client_of("Viewer"), page_of(parent))
        assert "Jobs that wait for it" in text
        assert f'href="{page_of(child)}"' in text

    def test_the_reason_of_a_hold_is_for_those_who_may_read(self) -> None:
        job = make_job("held", hold_reason="about Anna")
        assert "about Anna" not in read(client_of("Viewer"), page_of(job))
        assert "about Anna" in read(client_of("Operator"), page_of(job))

    @pytest.mark.parametrize(
        "trait", ["held", "scheduled", "retrying", "processing", "completed", "cancelled"]
    )
    def test_each_state_has_its_page(self, trait: str) -> None:
        read(client_of("Supervisor"), page_of(make_job(trait)))

    @pytest.mark.usefixtures("frozen")
    def test_it_costs_a_bounded_number_of_statements(self) -> None:
        job = dead(schedule=make_schedule(), worker_id=make_worker().id)
        for _ in range(5):
            make_edge(make_job(), job)
        client = client_of("Supervisor")
        read(client, page_of(job))
        sample.current()
        with CaptureQueriesContext(connection) as captured:
            read(client, page_of(job))
        asked = [q["sql"] for q in captured.captured_queries]
        selects = [sql for sql in asked if sql.lstrip().upper().startswith(("SELECT", "WITH"))]
        assert len(selects) <= 16, selects
        assert not [sql for sql in selects if "OFFSET" in sql or "COUNT(*)" in sql]

    def test_the_log_goes_on_in_pages(self) -> None:
        job = make_job()
        for n in range(60):
            job.logs.create(event="log", message=f"line {n:03}")
        text = read(client_of("Operator"), page_of(job))
        assert "line 059" in text
        assert "line 009" not in text
        older = text.split("?log_before=")[1].split('"')[0].split("#")[0]
        assert "line 009" in read(client_of("Operator"), page_of(job), log_before=older)

    def test_markup_is_text(self) -> None:
        job = make_job(
            "dead",
            type=SCRIPT,
            queue=SCRIPT,
            payload={SCRIPT: SCRIPT},
            metadata={"a": SCRIPT},
            result=SCRIPT,
            last_error=SCRIPT,
            unique_key=SCRIPT,
        )
        make_history(job, error=SCRIPT)
        job.logs.create(event="log", message=SCRIPT)
        AuditEntry.objects.create(
            actor=SCRIPT, action="job.retry", object_id=str(job.id), reason=SCRIPT
        )
        for path in ("", "payload/"):
            assert SCRIPT not in read(client_of(), page_of(job) + path)

    def test_a_file_holds_what_the_page_shows_and_large_numbers_whole(self) -> None:
        job = make_job("completed", result={"n": 2**70 + 1}, payload={"big": 12345678901234567890})
        client = client_of("Operator")
        assert json.loads(read(client, f"{page_of(job)}result.json")) == {"n": 2**70 + 1}
        text = read(client, page_of(job))
        assert str(2**70 + 1) in text
        assert "12345678901234567890" in text
        read(client, f"{page_of(job)}status.json", 404)


class TestMissing:
    def test_it_says_who_purged_it(self) -> None:
        one, many = make_job("dead"), make_job("dead")
        lifecycle.purge(one, by="anna")
        lifecycle.purge_many([many.id], by="berta")
        assert "It was purged on" in (text := read(client_of("Viewer"), page_of(one), 404))
        assert "by anna" in text
        assert "by berta" in read(client_of("Viewer"), page_of(many), 404)

    def test_it_says_who_may_have_purged_it(self) -> None:
        lost = make_job()
        Job.objects.all().delete()
        AuditEntry.objects.create(actor="carla", action="job.purge_all", changed=300)
        text = read(client_of("Viewer"), page_of(lost), 404)
        assert "It may have been purged on" in text
        assert "by carla" in text

    def test_it_says_when_nobody_purged_it(self) -> None:
        text = read(client_of("Viewer"), f"{LIST}{new_uuid()}/", 404)
        assert "knows of no purge" in text
        read(client_of("Viewer"), f"{LIST}nonsense/", 404)
        read(client_of("Viewer"), f"{LIST}00000000-0000-0000-0000-000000000000/", 404)
        read(client_of("Viewer"), f"{LIST}ffffffff-ffff-ffff-ffff-ffffffffffff/", 404)


class TestActing:
    BUTTONS = {
        "dead": {"retry", "copy", "purge"},
        "held": {"release", "cancel"},
        "scheduled": {"run_now", "cancel"},
        "retrying": {"run_now", "cancel"},
        "processing": {"cancel"},
        "completed": {"copy"},
        "cancelled": {"copy"},
    }

    @pytest.mark.parametrize("trait", list(BUTTONS))
    def test_a_state_offers_what_can_be_done_in_it(self, trait: str) -> None:
        text = read(client_of("Supervisor"), page_of(make_job(trait)))
        names = {"retry", "copy", "purge", "release", "cancel", "run_now"}
        assert {name for name in names if f'value="{name}"' in text} == self.BUTTONS[trait]
        text = read(client_of("Viewer"), page_of(make_job(trait)))
        assert not [name for name in names if f'value="{name}"' in text]

    def test_what_one_may_not_do_is_refused(self) -> None:
        job = dead()
        for action in ("retry", "copy", "purge", "cancel", "release", "run_now", "change", "x"):
            response = client_of("Viewer").post(
                f"{page_of(job)}act/", {"action": action, "confirmed": "yes"}
            )
            assert response.status_code == 403, action
        assert (
            client_of("Operator")
            .post(f"{page_of(job)}act/", {"action": "purge", "confirmed": "yes"})
            .status_code
            == 403
        )
        read(client_of("Viewer"), f"{page_of(job)}payload/", 403)
        assert Job.objects.dead().count() == 1

    def test_each_does_what_it_says_and_is_audited(self) -> None:
        client = client_of("Supervisor")
        for trait, action, status in (
            ("dead", "retry", Status.PENDING),
            ("held", "release", Status.PENDING),
            ("scheduled", "run_now", Status.PENDING),
            ("scheduled", "cancel", Status.CANCELLED),
            ("processing", "cancel", Status.PROCESSING),
        ):
            job = make_job(trait)
            act(client, job, action, confirmed="yes")
            job.refresh_from_db()
            assert job.status == status, action
            assert AuditEntry.objects.filter(object_id=str(job.id)).count() == 1, action

    def test_what_is_for_good_is_asked_about_without_script(self) -> None:
        client = client_of("Supervisor")
        job = dead()
        text = act(client, job, "purge")
        assert "Delete it with 2 attempts and 2 log lines?" in text
        assert Job.objects.filter(id=job.id).exists()
        back = act(client, job, "purge", confirmed="yes", list="state=dead&queue=mail")
        assert "Purged test" in back
        assert 'value="mail"' in back

    def test_coppices_own_jobs_are_not_offered_as_copies(self) -> None:
        own = next(name for name in registry.types() if registry.is_internal(name))
        client = client_of("Supervisor")
        assert 'value="copy"' not in read(client, page_of(make_job("completed", type=own)))
        assert 'value="copy"' in read(client, page_of(make_job("completed")))

    def test_what_goes_with_it_is_said_as_one_says_it(self) -> None:
        job = make_job("dead")
        make_history(job)
        make_edge(make_job(), job)
        words = "Delete it with 1 attempt and 1 log line, and cancel 1 job that waits for it?"
        assert words in read(client_of("Supervisor"), page_of(job))

    def test_a_copy_is_a_new_job_that_says_of_what(self) -> None:
        client = client_of("Operator")
        job = make_job("cancelled", payload={"token": "hush"}, queue="mail", metadata={"a": 1})
        act(client, job, "copy", confirmed="yes")
        made = Job.objects.exclude(id=job.id).get()
        assert (made.payload, made.queue, made.status) == ({"token": "hush"}, "mail", "pending")
        assert made.metadata == {"a": 1, "copy_of": str(job.id)}
        assert AuditEntry.objects.get().action == "job.copy"
        assert page_of(job) in read(client, page_of(made))

    def test_a_row_that_has_changed_is_left_alone(self) -> None:
        client = client_of("Operator")
        job = make_job("dead")
        lifecycle.retry(job, by="anna")
        text = act(client, job, "cancel", confirmed="yes", seen="2026-01-01~1~failed")
        assert "the job was changed" in text
        assert "retried by anna" in text
        job.refresh_from_db()
        assert job.status == Status.PENDING

    def test_another_place_is_checked_like_a_new_one(self) -> None:
        client = client_of("Operator")
        job = make_job()
        text = act(
            client, job, "change", priority="1", queue="mail", scheduled_at="2030-01-01T10:00"
        )
        assert "Changed: priority, queue, scheduled." in text
        job.refresh_from_db()
        assert (job.priority, job.queue) == (1, "mail")
        assert job.state_at(ago().timestamp()) is State.SCHEDULED
        for bad in ({"priority": "9"}, {"queue": "no name!"}, {"scheduled_at": "soon"}):
            assert "Nothing was changed" in act(client, job, "change", **bad)

    def test_nothing_is_done_by_get_or_without_a_token(self) -> None:
        job = make_job("dead")
        client = client_of("Operator")
        client.get(f"{page_of(job)}act/", {"action": "retry"})
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        assert strict.post(f"{page_of(job)}act/", {"action": "retry"}).status_code == 403
        assert Job.objects.dead().count() == 1


class TestForcing:
    def asked(self, seconds: float, **worker: Any) -> Job:
        owner = make_worker(name="web-1:7/1", **worker)
        return make_job("processing", worker_id=owner.id, cancel_requested_at=ago(seconds=seconds))

    def test_a_job_that_goes_on_after_its_grace_time_can_be_taken_away(self) -> None:
        job, operator = self.asked(60), client_of("Operator")
        text = read(operator, page_of(job))
        assert "Asked to stop" in text
        assert "Force: mark lost" in text
        asked = act(operator, job, "mark_lost")
        assert "nothing that it writes about this job counts" in asked
        assert "web-1:7/1" in asked
        job.refresh_from_db()
        assert job.status == Status.PROCESSING
        told = act(operator, job, "mark_lost", confirmed="yes", reason="it hangs")
        assert "it is cancelled" in told
        job.refresh_from_db()
        assert job.status == Status.CANCELLED
        assert AuditEntry.objects.get().reason == "it hangs"

    def test_before_it_is_not_offered_and_the_page_knows_when_it_will_be(self) -> None:
        job, operator = self.asked(1), client_of("Operator")
        text = read(operator, page_of(job))
        assert "Force: mark lost" not in text
        assert "data-again-in" in text
        told = act(operator, job, "mark_lost", confirmed="yes")
        assert "its handler has 5 s for it" in told
        job.refresh_from_db()
        assert job.status == Status.PROCESSING

    def test_a_job_that_runs_on_a_worker_that_lives_is_cancelled_first(self) -> None:
        job = make_job("processing", worker_id=make_worker().id)
        operator = client_of("Operator")
        assert "Force: mark lost" not in read(operator, page_of(job))
        assert "cancel it first" in act(operator, job, "mark_lost", confirmed="yes")

    def test_one_whose_worker_is_silent_is_due_again(self) -> None:
        job = make_job("processing", worker_id=make_worker(beat_at=ago(minutes=3)).id)
        operator = client_of("Operator")
        assert "Force: mark lost" in read(operator, page_of(job))
        assert "Taken away from its worker" in act(operator, job, "mark_lost", confirmed="yes")
        job.refresh_from_db()
        assert job.status == Status.PENDING

    def test_nobody_sees_or_does_it_without_the_permission(self) -> None:
        job, viewer = self.asked(60), client_of("Viewer")
        assert "Force: mark lost" not in read(viewer, page_of(job))
        form = {"action": "mark_lost", "confirmed": "yes"}
        assert viewer.post(f"{page_of(job)}act/", form).status_code == 403

    def test_one_that_ended_meanwhile_is_left_alone_and_it_says_what_happened(self) -> None:
        job, operator = self.asked(60), client_of("Operator")
        seen = operator.get(page_of(job)).context["page"].seen
        lifecycle.mark_lost(job, by="bo")
        told = act(operator, job, "mark_lost", confirmed="yes", seen=seen)
        assert "Nothing was done" in told
        assert "web-1:7/1" in told


class TestEditing:
    def save(self, client: Client, job: Job, text: str, action: str = "retry") -> Any:
        return client.post(f"{page_of(job)}payload/", {"payload": text, "action": action})

    def test_the_payload_is_changed_and_the_job_retried_in_one(self) -> None:
        job = dead()
        client = client_of("Operator")
        edited = {"note": "better", "in": {"token": MASKED, "new": 2**70}}
        assert self.save(client, job, json.dumps(edited)).status_code == 302
        job.refresh_from_db()
        assert job.payload == {"note": "better", "in": {"token": "hush", "new": 2**70}}
        assert job.status == Status.PENDING
        actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
        assert list(actions) == ["job.edit_payload", "job.retry"]

    def test_it_may_be_saved_only(self) -> None:
        job = dead()
        assert self.save(client_of("Operator"), job, '{"a": 1}', "save").status_code == 302
        job.refresh_from_db()
        assert (job.payload, job.status) == ({"a": 1}, Status.FAILED)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('{"a": }', "line 1, column 7"),
            ("", "is not JSON"),
            ('{"a": NaN}', "NaN is no value"),
            ("[" * 100_000, "is nested too deeply"),
            ('{"a": "\\u0000"}', "payload"),
            (f'{{"other": "{MASKED}"}}', "holds a mask that stands for no value"),
        ],
    )
    def test_what_is_wrong_is_said_and_the_text_kept(self, text: str, problem: str) -> None:
        job = dead()
        response = self.save(client_of("Operator"), job, text)
        assert response.status_code == 422
        assert problem in response.content.decode()
        job.refresh_from_db()
        assert job.payload["note"] == "the payload"
        assert job.status == Status.FAILED

    def test_only_dead_letters_have_it(self) -> None:
        response = client_of("Operator").get(f"{page_of(make_job())}payload/")
        assert response.status_code == 302


def test_library_frames_are_folded_and_nothing_of_a_traceback_is_lost() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/x/lib/python3.13/site-packages/django/a.py", line 1, in f\n    a()\n    ^^^\n'
        '  File "/x/lib/python3.13/site-packages/django/b.py", line 2, in g\n    b()\n'
        '  File "/srv/app/handlers.py", line 3, in mine\n    c()\n'
        "ValueError: bad\n\n"
        "During handling of the above exception, another exception occurred:\n"
    )
    found = tracebacks.pieces(text)
    assert [(piece.is_library, piece.frames) for piece in found] == [
        (False, 0),
        (True, 2),
        (False, 0),
    ]
    assert "\n".join(piece.text for piece in found) == text.rstrip("\n")


@given(st.text(max_size=300))
def test_any_text_is_a_traceback(text: str) -> None:
    assert "\n".join(piece.text for piece in tracebacks.pieces(text)) == text.rstrip("\n")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_value_has_a_tree_without_markup_of_its_own(value: Any) -> None:
    html, is_whole = trees.tree({"<b>": value, "s": SCRIPT})
    assert is_whole
    assert "<script" not in html
    assert "<b>" not in html


def test_a_large_value_is_cut_and_says_so() -> None:
    html, is_whole = trees.tree([[n] for n in range(10_000)], nodes=100)
    assert not is_whole
    assert "more" in html
    assert html.count("<li>") < 150


def test_the_life_of_a_job_adds_up() -> None:
    job = make_job("dead", created_at=ago(minutes=10), scheduled_at=ago(minutes=10))
    make_history(job, attempts=9, error="x")
    attempts = list(job.attempts.order_by("lease_epoch"))
    steps = timeline.steps(job, attempts, State.DEAD, ago())
    assert [steps[0].name, steps[1].name, steps[-1].name] == ["created", "ready", "dead"]
    assert any(step.label == "3 more attempts" for step in steps)
    assert all(step.lasted is None or step.lasted >= 0 for step in steps)


def test_the_drawing_shows_each_job_once_with_parents_before_children() -> None:
    from jobs.database import DjangoDatabase

    top, other, middle, last = (make_job(type=name) for name in ("top", "other", "middle", "last"))
    make_edge(middle, top)
    make_edge(middle, other)
    make_edge(last, middle)
    found = graph.read(DjangoDatabase(), str(middle.id))
    drawing = graph.draw(found, str(middle.id))
    assert drawing is not None
    places = {box.node.id: box.x for box in drawing.boxes}
    assert len(places) == 4
    assert (
        places[str(top.id)] == places[str(other.id)] < places[str(middle.id)] < places[str(last.id)]
    )
    assert len(drawing.lines) == 3


def test_many_dependencies_are_cut() -> None:
    from jobs.database import DjangoDatabase

    job = make_job()
    for _ in range(60):
        make_edge(job, make_job("completed"), state="satisfied")
    found = graph.read(DjangoDatabase(), str(job.id))
    assert found.is_cut
    assert len(found.edges) == graph.MOST
    assert "nearest 50" in read(client_of("Viewer"), page_of(job))
