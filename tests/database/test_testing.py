"""`jobs.testing`: applications can test what they enqueue, inside their own transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from jobs import Context, WaitFor, child, enqueue, enqueue_many, registry, testing
from jobs.models import Attempt, Job, JobLog

pytestmark = pytest.mark.django_db


@pytest.fixture
def ran() -> Iterator[list[Any]]:
    seen: list[Any] = []
    made: list[str] = []

    def handle(type: str, **options: Any) -> Any:
        made.append(type)
        return registry.handler(type, **options)

    @handle("t.note")
    def note(payload: Any, context: Context) -> Any:
        context.log("noted", n=payload.get("n"))
        seen.append(payload.get("n"))
        return payload.get("n")

    @handle("t.async")
    async def coroutine(payload: Any) -> str:
        seen.append("async")
        return "done"

    @handle("t.fail", max_attempts=3)
    def fail(payload: Any) -> None:
        seen.append("fail")
        raise ValueError("no")

    @handle("t.parent")
    def parent(payload: Any, context: Context) -> Any:
        if context.children:
            return [one.result for one in context.children]
        return WaitFor([child("t.note", {"n": n}, key=str(n)) for n in (1, 2)])

    @handle("t.chain")
    def chain(payload: Any) -> None:
        seen.append("chain")
        enqueue("t.note", {"n": 7})

    yield seen
    for type in made:
        registry.remove(type)


def test_run_due_jobs_runs_what_was_enqueued_in_this_very_transaction(ran: list[Any]) -> None:
    job = enqueue("t.note", {"n": 1})
    assert testing.run_due_jobs() == {"succeeded": 1}
    job = Job.objects.get(id=job.id)
    assert (job.status, job.result, ran) == ("completed", 1, [1])
    assert Attempt.objects.filter(job=job, outcome="succeeded").count() == 1
    assert JobLog.objects.get(job=job, event="log").message == "noted"


def test_async_handlers_run_too(ran: list[Any]) -> None:
    job = enqueue("t.async")
    assert testing.run_due_jobs() == {"succeeded": 1}
    assert Job.objects.get(id=job.id).result == "done"


def test_retries_wait_unless_they_are_asked_for(ran: list[Any]) -> None:
    job = enqueue("t.fail")
    assert testing.run_due_jobs() == {"failed": 1}
    assert Job.objects.get(id=job.id).status == "pending"
    assert testing.run_due_jobs(retries=True) == {"failed": 2}
    job = Job.objects.get(id=job.id)
    assert (job.status, job.attempt_count, job.last_error) == ("failed", 3, "ValueError: no")


def test_a_job_that_waits_for_children_runs_again_with_their_results(ran: list[Any]) -> None:
    job = enqueue("t.parent")
    assert testing.run_due_jobs() == {"waited": 1, "succeeded": 3}
    job = Job.objects.get(id=job.id)
    assert (job.status, sorted(job.result or []), job.attempt_count) == ("completed", [1, 2], 1)


def test_dependents_follow_their_parents(ran: list[Any]) -> None:
    parent = enqueue("t.note", {"n": 1})
    enqueue("t.note", {"n": 2}, depends_on=parent)
    assert testing.run_due_jobs() == {"succeeded": 2}
    assert ran == [1, 2]


def test_inline_runs_each_job_where_it_is_enqueued(ran: list[Any]) -> None:
    with testing.inline():
        enqueue("t.chain")
        assert ran == ["chain", 7]
        enqueue_many("t.note", [{"n": 8}, {"n": 9}])
        assert ran == ["chain", 7, 8, 9]
    enqueue("t.note", {"n": 10})
    assert 10 not in ran


def test_assert_enqueued_finds_by_type_and_payload_and_says_what_is_there(ran: list[Any]) -> None:
    enqueue("t.note", {"n": 1, "m": 2})
    assert testing.assert_enqueued("t.note", n=1).payload == {"n": 1, "m": 2}
    testing.assert_not_enqueued("t.note", n=3)
    with pytest.raises(AssertionError, match=r"expected a live job of t.note with \{'n': 3\}"):
        testing.assert_enqueued("t.note", n=3)
    with pytest.raises(AssertionError, match="1 live jobs of"):
        testing.assert_not_enqueued("t.note")


@pytest.mark.parametrize("broken", ["by the database", "by Django"])
def test_a_handler_whose_statement_fails_breaks_its_attempt_and_not_the_test(
    ran: list[Any], broken: str
) -> None:
    def clash(payload: Any) -> None:
        if broken == "by the database":
            Job.objects.filter(type="t.clash").update(priority=9)
        with transaction.atomic(savepoint=False):
            raise ValueError("the outer block is to be rolled back")

    registry.handler("t.clash", max_attempts=1)(clash)
    try:
        job = enqueue("t.clash", {})
        enqueue("t.note", {"n": 1})
        assert testing.run_due_jobs() == {"failed": 1, "succeeded": 1}
    finally:
        registry.remove("t.clash")

    job.refresh_from_db()
    assert job.status == "failed"
    assert job.last_error.startswith("IntegrityError" if "database" in broken else "ValueError")
