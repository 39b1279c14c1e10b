"""Where a worker looks for work, however many queues there are over time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs import registry
from jobs.claim import Lane, Mark
from jobs.claimed import Claimed
from jobs.registry import Handler
from worker.lanes import REMEMBERED_LOOKS, LaneBook


@pytest.fixture
def handlers() -> Iterator[list[Handler]]:
    for type in ("a", "b"):
        registry.handler(type, queue="mail")(lambda: None)
    yield [registry.get(type) for type in ("a", "b")]
    for type in ("a", "b"):
        registry.remove(type)


def claimed(queue: str, due_at: float = 1.0) -> Claimed:
    return Claimed("id", "a", queue, "{}", 2, due_at, 1, 3, 1, 0, 0, 0.0)


def queues(lanes: list[Lane]) -> set[str]:
    return {lane.queue for lane in lanes}


def test_a_queue_that_holds_work_is_looked_into_with_every_type_and_priority(
    handlers: list[Handler],
) -> None:
    book = LaneBook(handlers)
    book.saw_queues(["of a customer"])

    assert set(book.all()) == {
        Lane(queue, type, priority)
        for queue in ("mail", "of a customer")
        for type in ("a", "b")
        for priority in (1, 2, 3)
    }
    assert queues(book.hot()) == {"mail"}
    book.took([claimed("of a customer")])
    assert queues(book.hot()) == {"mail", "of a customer"}
    assert book.marks == {Lane("of a customer", "a", 2): Mark(1.0, "id")}


def test_queues_that_have_held_no_work_for_long_are_forgotten_and_those_of_handlers_never(
    handlers: list[Handler],
) -> None:
    book = LaneBook(handlers)
    for number in range(2_000):
        book.saw_queues([f"batch {number}", "busy"])
        book.took([claimed(f"batch {number}"), claimed("busy")])

    assert len(queues(book.all())) <= REMEMBERED_LOOKS + 3
    assert len(book.hot()) <= len(queues(book.all())) + 6
    assert len(book.marks) <= len(queues(book.all()))
    assert {"mail", "busy", "batch 1999"} <= queues(book.all())
    assert "batch 0" not in queues(book.all())

    book.saw_queues(["batch 0"])
    assert "batch 0" in queues(book.all())


def test_a_worker_of_some_queues_looks_into_those_whatever_else_there_is(
    handlers: list[Handler],
) -> None:
    book = LaneBook(handlers, ["mail", "other"])
    for _ in range(REMEMBERED_LOOKS + 2):
        book.saw_queues(["of a customer"])

    assert queues(book.all()) == {"mail", "other"}
