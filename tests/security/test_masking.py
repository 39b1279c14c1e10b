"""What a handler masks is read by superusers only, whichever way it comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from jobs import Context, Discard, Hold, Retry, enqueue, events, masking, registry, tokens
from jobs.filtering import Filters
from jobs.masking import MASKED, Reader, masked, reader, scrubbed
from jobs.models import Attempt, Job, JobLog
from jobs.testing import run_due_jobs
from tests.security.people import person

SECRET = "hunter2-correct-horse"
LONG = f"-----BEGIN {'k' * 30_000} END-----"
PAYLOAD = {"user": "anna", "password": SECRET, "deep": [{"Password": SECRET}, {"pin": 471147}]}
MASK = ("password", "pin")
TYPE = "masking.secret"


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    def work(payload: dict[str, Any], context: Context) -> Any:
        context.log(f"got {payload}", password=payload["password"], note=f"it is {SECRET}")
        match payload.get("then"):
            case "raise":
                raise ValueError(f"cannot use {payload}")
            case "chain":
                try:
                    raise ValueError(SECRET)
                except ValueError as error:
                    raise RuntimeError("outer") from error
            case "discard":
                raise Discard(f"never with {SECRET} and {payload['deep'][1]['pin']}")
            case "retry":
                raise Retry(f"later: {SECRET}")
            case "hold":
                return Hold(f"who is {SECRET}?")
        return payload

    registry.handler(TYPE, mask=MASK, max_attempts=1)(work)
    yield
    registry.remove(TYPE)


class TestValues:
    def test_masked_keys_show_no_value_at_any_depth_in_any_case(self) -> None:
        assert masked(TYPE, PAYLOAD) == {
            "user": "anna",
            "password": MASKED,
            "deep": [{"Password": MASKED}, {"pin": MASKED}],
        }
        assert masked(TYPE, {"password": {"a": [SECRET]}}) == {"password": MASKED}
        assert masked(TYPE, "text") == "text"

    def test_of_an_unknown_type_everything_that_anybody_masks_is_masked(self) -> None:
        found = masked("nobody.knows", {**PAYLOAD, "api_token": SECRET, "city": "Oslo"})
        assert SECRET not in str(found)
        assert found["pin" if "pin" in found else "city"] == "Oslo"
        assert found["deep"][1] == {"pin": MASKED}

    @pytest.mark.django_db
    @pytest.mark.parametrize(
        ("who", "expected"),
        [
            ("Viewer", Reader(reads=False)),
            ("Operator", Reader(reads=True)),
            ("superuser", Reader(reads=True, sees_masked=True)),
            ("nobody", Reader(reads=False)),
        ],
    )
    def test_who_sees_how_much(self, who: str, expected: Reader) -> None:
        if who == "nobody":
            user: Any = AnonymousUser()
        elif who == "superuser":
            user = person(superuser=True)
        else:
            user = person(who)
        assert reader(user) == expected
        user.is_active = False
        assert reader(user) == Reader(reads=False)

    def test_a_reader_gets_all_masked_or_nothing(self) -> None:
        assert Reader(reads=False).value(TYPE, PAYLOAD) is None
        assert Reader(reads=False).text("error") is None
        assert Reader(reads=True).value(TYPE, PAYLOAD) == masked(TYPE, PAYLOAD)
        assert Reader(reads=True).text("error") == "error"
        assert Reader(reads=True, sees_masked=True).value(TYPE, PAYLOAD) == PAYLOAD


class TestSearch:
    """What a search finds tells as much as what is shown."""

    @pytest.mark.parametrize(
        ("asked", "viewer", "operator"),
        [
            ({}, True, True),
            ({"error": "timeout"}, False, True),
            ({"payload": {"user": "anna"}}, False, True),
            ({"payload": {"password": SECRET}}, False, False),
            ({"payload": {"deep": [{"PIN": 471147}]}}, False, False),
            ({"payload": {"user": {"api_token": "x"}}}, False, False),
            ({"payload": {"user": "anna"}, "error": "timeout"}, False, True),
        ],
    )
    def test_nobody_asks_for_what_they_may_not_read(
        self, asked: dict[str, Any], viewer: bool, operator: bool
    ) -> None:
        assert (not Reader(reads=False).refusal(**asked)) is viewer
        assert (not Reader(reads=True).refusal(**asked)) is operator
        assert not Reader(reads=True, sees_masked=True).refusal(**asked)

    def test_its_words_hold_no_masked_value(self) -> None:
        filters = Filters.from_json({"payload": {"user": "anna", "deep": [{"pin": 471147}]}})
        assert (
            filters.in_words() == f'payload has {{"user": "anna", "deep": [{{"pin": "{MASKED}"}}]}}'
        )


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "left"),
        [
            (f"bad {SECRET}!", f"bad {MASKED}!"),
            (f"{SECRET}{SECRET}", MASKED * 2),
            ("pin 471147", f"pin {MASKED}"),
            ("user anna", "user anna"),
            ("", ""),
        ],
    )
    def test_values_of_masked_keys_are_left_out(self, text: str, left: str) -> None:
        assert scrubbed(text, MASK, json.dumps(PAYLOAD)) == left

    def test_however_the_value_is_written(self) -> None:
        value = 'tab\t"quoted" \\ ü\nend'
        payload = json.dumps({"password": value})
        for text in (value, repr(value), json.dumps(value), str({"password": value})):
            found = scrubbed(f"<{text}>", MASK, payload)
            assert "quoted" not in found
            assert MASKED in found

    def test_also_what_is_left_of_it_by_a_cut(self) -> None:
        payload = json.dumps({"password": LONG})
        for text in (
            f"bad {LONG[:2_000]}…",
            f"…{LONG[-2_000:]} is bad",
            f"{LONG[:50]}…{LONG[-50:]}",
        ):
            found = scrubbed(text, MASK, payload)
            assert "kkk" not in found
            assert MASKED in found

    def test_short_values_and_words_do_not_make_it_unreadable(self) -> None:
        payload = json.dumps({"password": "a", "pin": True})
        assert scrubbed("a True story", MASK, payload) == "a True story"

    def test_with_very_many_values_nothing_is_left(self) -> None:
        payload = json.dumps({"password": [f"value{n}" for n in range(2_000)]})
        assert scrubbed("value1 is bad", MASK, payload) == MASKED


def everything(job: Job) -> str:
    """What is stored about the job, but for its payload and result."""
    job.refresh_from_db()
    parts: list[Any] = [job.last_error, job.hold_reason]
    parts += Attempt.objects.filter(job=job).values_list("error", "traceback")
    parts += JobLog.objects.filter(job=job).values_list("message", "data")
    return str(parts)


@pytest.mark.django_db
@pytest.mark.parametrize("then", ["raise", "chain", "discard", "retry", "hold", "return"])
def test_nothing_that_is_stored_or_told_quotes_a_masked_value(then: str) -> None:
    heard: list[Any] = []
    stop = events.on("job.*", heard.append)
    try:
        job = enqueue(TYPE, {**PAYLOAD, "then": then})
        run_due_jobs()
    finally:
        stop()
    found = everything(job)
    assert MASKED in found
    for text in (found, str(heard)):
        assert SECRET not in text
        assert "471147" not in text


@pytest.mark.django_db(transaction=True)
class TestWaysOut:
    """The same job, dead with an error and a result that repeat its payload, every way out."""

    @pytest.fixture
    def job(self) -> Job:
        job = enqueue(TYPE, {**PAYLOAD, "then": "raise"}, metadata={"password": SECRET})
        run_due_jobs()
        Job.objects.filter(id=job.id).update(result={"password": SECRET})
        job.refresh_from_db()
        return job

    def test_command_line(self, job: Job) -> None:
        said = StringIO()
        call_command("jobs", "show", str(job.id), "--tracebacks", stdout=said)
        call_command("jobs", "show", str(job.id), "--json", stdout=said)
        call_command("jobs", "list", stdout=said)
        call_command("jobs", "list", "--json", stdout=said)
        assert "anna" in said.getvalue()
        assert MASKED in said.getvalue()
        assert SECRET not in said.getvalue()

    @pytest.mark.parametrize("who", ["Viewer", "Operator", "superuser"])
    def test_admin_and_rest(self, job: Job, who: str) -> None:
        user = person(superuser=True) if who == "superuser" else person(who)
        browser = Client()
        browser.force_login(user)
        _, key = tokens.create(user, "test")
        program = APIClient(headers={"Authorization": f"Token {key}"})
        paths = [f"/admin/jobs/job/{job.id}/change/", "/admin/jobs/job/?status=failed"]
        found = [browser.get(path, follow=True) for path in paths]
        base = f"/api/v1/jobs/{job.id}"
        paths = [base, f"{base}/attempts", f"{base}/logs", "/api/v1/jobs", "/api/v1/jobs/dlq"]
        found += [program.get(path) for path in paths]
        assert [response.status_code for response in found] == [200] * len(found)
        text = "".join(response.content.decode() for response in found)
        assert ("anna" in text) is (who != "Viewer")
        assert (SECRET in text) is (who == "superuser")
        assert (MASKED in text) is (who != "Viewer")


def test_the_command_line_reads_what_an_operator_reads() -> None:
    assert Reader(reads=True) == masking.COMMAND_LINE
