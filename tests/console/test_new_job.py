"""A new job by hand: the form of a type, the same by JSON, and one job however often it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from rest_framework import serializers

from jobs import registry
from jobs.models import AuditEntry, Job, Schedule
from tests.console.people import client_of, read
from tests.factories import make_job

pytestmark = pytest.mark.django_db

PAGE = "/admin/jobs/job/add/"
SCRIPT = "<script>alert(1)</script>"


class Address(serializers.Serializer[Any]):
    street = serializers.CharField()


class MailPayload(serializers.Serializer[Any]):
    to = serializers.EmailField(help_text="Whom it is for")
    count = serializers.IntegerField(min_value=1, max_value=9)
    size = serializers.ChoiceField(choices=[(1, "small"), (2, "large")], required=False)
    tags = serializers.MultipleChoiceField(choices=["a", "b", "c"], required=False)
    urgent = serializers.BooleanField(required=False)
    ids = serializers.ListField(child=serializers.IntegerField(), required=False)
    address = Address(required=False)
    at = serializers.DateTimeField(required=False)
    token = serializers.CharField(required=False, max_length=40)
    label = serializers.CharField(default="none", allow_blank=True, max_length=40)
    secret_of_ours = serializers.CharField(read_only=True)


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler(
        "mail", payload=MailPayload, queue="post", priority=1, max_attempts=7, mask=("token",)
    )(lambda payload: None)
    registry.handler("plain")(lambda payload: None)
    yield
    registry.remove("mail")
    registry.remove("plain")


def token_in(text: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', text)
    assert found
    return found[1]


def send(client: Client, step: str = "create", status: int | None = None, **data: Any) -> str:
    """Send the form of `mail`, or of the type given, with a token of its own."""
    given = {"type": "mail", "mode": "form", "start": "now", "recurs": "once", "step": step}
    fields = {name.replace("__", "."): value for name, value in data.items()}
    given["token"] = token_in(read(client, PAGE, type=fields.get("type", "mail")))
    response = client.post(PAGE, {**given, **fields})
    expected = status or (302 if step == "create" else 200)
    assert response.status_code == expected, response.content.decode()[-3000:]
    return response.content.decode()


GOOD: dict[str, Any] = {"payload__to": "a@example.org", "payload__count": "3"}


class TestTheForm:
    def test_it_has_a_field_for_each_of_the_serializer(self) -> None:
        text = read(client_of("Operator"), PAGE, type="mail")
        for name in ("to", "count", "size", "tags", "urgent", "ids", "address", "at", "label"):
            assert f'name="payload.{name}"' in text, name
        assert "secret_of_ours" not in text
        assert "Whom it is for." in text
        assert "From 1 to 9." in text
        assert re.search(r'name="payload.token" value="" type="password"', text)
        assert re.search(r'name="payload.label" value="none"', text)
        assert 'placeholder="post"' in text
        assert re.search(r'name="priority" value="1" checked', text)

    def test_what_is_given_becomes_a_payload_of_the_right_types(self) -> None:
        client = client_of("Operator")
        send(
            client, **GOOD, payload__size="2", payload__tags=["a", "c"], payload__urgent="true",
            payload__ids="1\n 2 \n\n3", payload__address='{"street": "Main"}',
            payload__at="2030-01-02T03:04:05", payload__label="", zone="Europe/Berlin",
        )  # fmt: skip
        job = Job.objects.get()
        assert job.payload == {
            "to": "a@example.org", "count": 3, "size": 2, "tags": ["a", "c"], "urgent": True,
            "ids": [1, 2, 3], "address": {"street": "Main"}, "at": "2030-01-02T03:04:05+01:00",
        }  # fmt: skip
        assert (job.queue, job.priority, job.max_attempts) == ("post", 1, 7)

    def test_every_fault_is_said_beside_its_field_and_nothing_is_made(self) -> None:
        text = send(client_of("Operator"), status=422, payload__to="x", payload__count="many",
                    payload__address="{", payload__ids="1\ntwo", queue="no such name!")  # fmt: skip
        assert "Enter a valid email address." in text
        assert text.count("A valid integer is required.") == 2
        assert re.search(r"is not JSON: .* in line 1, column 2", text)
        assert re.search(r'id="wrong-queue">Must be 1 to 60 letters', text)
        assert 'value="many"' in text
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("max_attempts", "0", "from 1 to 1,000"),
            ("max_attempts", "9" * 40, "from 1 to 1,000"),
            ("priority", "7", "must be 1"),
            ("depends_on", "nobody", "is not a job"),
            ("depends_on", "0198c0de-0000-7000-8000-000000000000", "no such job"),
            ("metadata", "[1]", "must be an object"),
            ("metadata", '{"internal": true}', "mark of Coppice"),
            ("unique_key", "x" * 201, "200"),
            ("on_parent_failure", "dance", "must be wait"),
        ],
    )
    def test_an_option_is_refused_as_everywhere(self, name: str, value: str, words: str) -> None:
        more: dict[str, Any] = (
            {"depends_on": str(make_job().id)} if name == "on_parent_failure" else {}
        )
        text = send(client_of("Operator"), status=422, **GOOD, **{**more, name: value})
        assert re.search(rf'id="wrong-{name}">[^<]*{re.escape(words)}', text, re.IGNORECASE), text
        assert Job.objects.filter(type="mail").count() == 0

    def test_hostile_text_is_text(self) -> None:
        text = send(client_of("Operator"), status=422, **{**GOOD, "payload__label": SCRIPT * 3},
                    queue=SCRIPT, unique_key=SCRIPT, metadata=SCRIPT, zone=SCRIPT, at=SCRIPT)  # fmt: skip
        assert SCRIPT not in text

    @pytest.mark.parametrize("type", ["nobody", "jobs.bulk_operation", "\x00", "x" * 500])
    def test_a_type_that_nobody_may_ask_for_is_refused(self, type: str) -> None:
        data = {"type": type, "mode": "json", "payload": "{}", "step": "create"}
        answer = client_of().post(PAGE, data)
        assert answer.status_code == 422
        assert not Job.objects.exists()


class TestJson:
    def test_the_two_ways_carry_over_what_was_said(self) -> None:
        client = client_of("Operator")
        text = send(client, "json", **GOOD, payload__urgent="false", queue="fast")
        assert "&quot;urgent&quot;: false" in text
        assert 'value="fast"' in text
        text = send(client, "form", mode="json", payload='{"to": "b@example.org", "ids": [4, 5]}')
        assert 'value="b@example.org"' in text
        assert re.search(r'name="payload.ids"[^>]*>\n4\n5</textarea>', text)

    def test_what_the_form_cannot_show_stays_json(self) -> None:
        client = client_of("Operator")
        for payload in ('{"other": 1}', "[1]", '{"to": {"a": 1}}', '{"at": "tomorrow"}', "{"):
            text = send(client, "form", mode="json", payload=payload)
            assert 'id="wrong-payload"' in text, payload
            assert 'name="payload"' in text

    def test_faults_have_a_line_and_a_column_or_a_path(self) -> None:
        client = client_of("Operator")
        text = send(client, status=422, mode="json", payload='{\n "to": }')
        assert "line 2, column 8" in text
        text = send(client, status=422, mode="json", payload='{"to": "a@b.example", "count": 99}')
        assert re.search(r'id="wrong-payload">Count: [^<]*less than or equal to 9', text)
        assert not Job.objects.exists()

    def test_a_type_without_a_serializer_takes_any_json(self) -> None:
        client = client_of("Operator")
        assert 'name="payload"' in read(client, PAGE, type="plain")
        send(client, type="plain", payload='[1, {"n": 123456789012345678901234567890}]')
        assert Job.objects.get().payload == [1, {"n": 123456789012345678901234567890}]


class TestWhen:
    def test_a_time_is_read_in_the_zone_that_is_shown(self) -> None:
        send(client_of("Operator"), **GOOD, start="at", at="2031-07-01T12:00", zone="Europe/Berlin")
        assert Job.objects.get().scheduled_at == datetime(2031, 7, 1, 10, tzinfo=UTC)

    def test_a_time_that_is_none_or_past_is_refused(self) -> None:
        past = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
        for at in ("", "soon", "2031-13-01T00:00", past):
            text = send(client_of("Operator"), status=422, **GOOD, start="at", at=at, zone="UTC")
            assert 'id="wrong-at"' in text, at
        assert not Job.objects.exists()

    def test_runs_to_come_are_shown_before_anything_is_made(self) -> None:
        client = client_of("Operator")
        rule: dict[str, Any] = {"recurs": "cron", "cron": "0 8 * * *", "cron_zone": "Europe/Berlin"}
        text = send(client, "check", **GOOD, **rule)
        assert text.count(" 08:00:00 CE") == 5
        text = send(client, "check", **GOOD, recurs="every", every="5", unit="minutes")
        assert text.partition('class="runs"')[2].partition("</ol>")[0].count("<li>") == 5
        assert not Job.objects.exists()
        send(client, **GOOD, recurs="every", every="5", unit="minutes")
        assert Schedule.objects.get().interval_seconds == 300

    def test_a_rule_that_is_none_is_refused_beside_its_field(self) -> None:
        client = client_of("Operator")
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("cron", {"recurs": "cron", "cron": "61 * * * *"}),
            ("cron", {"recurs": "cron", "cron": ""}),
            ("cron_zone", {"recurs": "cron", "cron": "0 8 * * *", "cron_zone": "Mars/Base"}),
            ("every", {"recurs": "every", "every": "-1", "unit": "minutes"}),
            ("every", {"recurs": "every", "every": "0", "unit": "hours"}),
            ("unique_key", {"recurs": "every", "every": "1", "unit": "hours", "unique_key": "x"}),
        ]
        for name, data in wrong:
            assert f'id="wrong-{name}"' in send(client, status=422, **GOOD, **data), data
        assert not Job.objects.exists()
        assert not Schedule.objects.exists()


class TestMaking:
    def test_it_leads_to_the_job_and_is_audited(self) -> None:
        parent = make_job()
        client = client_of("Operator")
        given = {"type": "mail", "step": "create", "start": "now", "recurs": "once"}
        given |= {"token": token_in(read(client, PAGE, type="mail"))}
        given |= {"payload.to": "a@example.org", "payload.count": "1"}
        given |= {"depends_on": str(parent.id), "on_parent_failure": "cancel", "queue": "fast"}
        response = client.post(PAGE, given)
        job = Job.objects.exclude(id=parent.id).get()
        assert response["Location"] == f"/admin/jobs/job/{job.id}/"
        assert (job.unmet_dependencies, job.on_parent_failure, job.queue) == (1, "cancel", "fast")
        entry = AuditEntry.objects.get(action="job.create")
        assert (entry.object_id, entry.changed) == (str(job.id), 1)
        assert "a@example.org" not in f"{entry.scope}{entry.data}"

    def test_a_form_that_is_sent_twice_makes_one_job(self) -> None:
        client = client_of("Operator")
        token = token_in(read(client, PAGE, type="mail"))
        for _ in range(2):
            send(client, **GOOD, token=token)
        assert Job.objects.count() == 1
        assert AuditEntry.objects.filter(action="job.create").count() == 1

    def test_a_form_that_was_refused_can_be_mended_and_sent_again(self) -> None:
        client = client_of("Operator")
        token = token_in(read(client, PAGE, type="mail"))
        unknown = "0198c0de-0000-7000-8000-000000000000"
        assert token in send(client, status=422, **GOOD, token=token, depends_on=unknown)
        send(client, **GOOD, token=token)
        assert Job.objects.count() == 1

    def test_another_keeps_what_was_typed_and_makes_a_second(self) -> None:
        client = client_of("Operator")
        token = token_in(read(client, PAGE, type="mail"))
        text = send(client, "another", **GOOD, token=token, queue="fast")
        assert "Created" in text
        assert 'value="a@example.org"' in text
        assert 'value="fast"' in text
        assert token_in(text) != token
        send(client, **GOOD, token=token_in(text))
        assert Job.objects.count() == 2

    def test_a_job_that_holds_the_key_stands_for_the_new_one(self) -> None:
        client = client_of("Operator")
        for _ in range(2):
            send(client, **GOOD, unique_key="k")
        assert Job.objects.count() == 1
        assert "Nothing was made" in read(client, "/admin/jobs/job/")

    @pytest.mark.parametrize("token", ["", "x", "\x00" * 36])
    def test_a_form_without_its_token_makes_nothing(self, token: str) -> None:
        text = send(client_of("Operator"), status=422, **GOOD, token=token)
        assert "open the page anew" in text
        assert not Job.objects.exists()

    def test_it_is_for_those_who_may_make_jobs(self) -> None:
        viewer = client_of("Viewer")
        assert viewer.get(PAGE).status_code == 403
        assert viewer.post(PAGE, {"type": "plain", "step": "create"}).status_code == 403
        assert PAGE not in read(viewer, "/admin/jobs/job/")
        assert PAGE in read(client_of("Operator"), "/admin/jobs/job/")
