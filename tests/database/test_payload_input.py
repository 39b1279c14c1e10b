"""Bad input on every way in: a clear refusal that names the field, and nothing is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from rest_framework import serializers

from jobs import JobSpec, child, conf, enqueue, enqueue_jobs, enqueue_many, lifecycle, registry
from jobs.answers import WaitFor
from jobs.claim import Lane, claim
from jobs.complete import complete
from jobs.database import DjangoDatabase
from jobs.drafts import child_drafts
from jobs.errors import CoppiceError, InvalidInput
from jobs.ids import new_id
from jobs.models import Job, JobDependency, Schedule
from jobs.outcomes import Run, decide_return
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db

DATABASE = DjangoDatabase("default")
TYPE = "input.note"
STRICT = "input.strict"


class Note(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=10)
    lines = serializers.ListField(child=serializers.IntegerField(), required=False)


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    registry.handler(TYPE)(_do_nothing)
    registry.handler(STRICT, payload=Note)(_do_nothing)
    yield
    registry.remove(TYPE)
    registry.remove(STRICT)


def _do_nothing() -> None:
    pass


def wait_for(payload: Any, type: str = TYPE) -> None:
    """A child that a handler asks for."""
    parent = make_job(type=TYPE, due_at=ago(minutes=5), queue="parents")
    lanes = [Lane("parents", TYPE, 2)]
    worker_id = new_id()
    [claimed] = claim(
        DATABASE, worker_id=worker_id, lanes=lanes, limit=1, aging_minutes=10, aging_step=0.5
    )
    ending = decide_return(
        claimed,
        WaitFor([child(type, payload, key="a")]),
        Run(wait=0.0, run=0.0),
        registry.get(TYPE),
    )
    try:
        complete(DATABASE, worker_id=worker_id, endings=[ending])
    finally:
        Job.objects.filter(id=parent.id).delete()


def edit(payload: Any, type: str = TYPE) -> None:
    dead = make_job("dead", type=type)
    try:
        lifecycle.edit_payload(dead.id, payload)
    finally:
        assert Job.objects.get(id=dead.id).payload == {"n": 1}
        dead.delete()


def schedule(payload: Any, type: str = TYPE) -> None:
    from jobs import schedules

    schedules.create("nightly", type=type, payload=payload, cron="0 3 * * *")


WAYS: dict[str, Callable[..., object]] = {
    "enqueue": lambda payload, type=TYPE: enqueue(type, payload),
    "enqueue, recurring": lambda payload, type=TYPE: enqueue(
        type, payload, recur_interval="every_1_hour"
    ),
    "enqueue_many": lambda payload, type=TYPE: enqueue_many(type, [{"text": "fine"}, payload]),
    "enqueue_many with keys": lambda payload, type=TYPE: enqueue_many(
        type, [{"text": "fine"}, payload], unique_keys=["a", "b"]
    ),
    "enqueue_jobs": lambda payload, type=TYPE: enqueue_jobs(
        [JobSpec(type=TYPE), JobSpec(type=type, payload=payload)]
    ),
    "child": wait_for,
    "edit": edit,
    "schedule": schedule,
}

HOSTILE: dict[str, tuple[Any, str]] = {
    "NUL": ({"a": "x\x00y"}, "payload.a"),
    "NUL in a key": ({"a": {"x\x00": 1}}, "payload.a"),
    "NUL deep inside": ({"a": [{"b": ["\x00"]}]}, "payload.a[0].b[0]"),
    "NaN": ({"a": math.nan}, "payload.a"),
    "infinity": ({"a": [1, -math.inf]}, "payload.a[1]"),
    "half a pair": ({"a": "\ud800"}, "payload.a"),
    "bytes": ({"a": b"x"}, "payload.a"),
    "a date": ({"a": date(2030, 1, 1)}, "payload.a"),
    "a decimal": ({"a": Decimal(1)}, "payload.a"),
    "a set": ({"a": {1}}, "payload.a"),
    "a number as key": ({1: "a"}, "payload"),
    "a number too long": ({"a": 10**1_000}, "payload.a"),
    "too deep": ({"a": json.loads("[" * 100 + "]" * 100)}, "payload"),
}


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_what_cannot_be_stored_is_refused_by_the_name_of_its_place_and_nothing_is_stored(
    way: str, kind: str
) -> None:
    payload, field = HOSTILE[kind]

    with pytest.raises(InvalidInput) as refused:
        WAYS[way](payload)

    assert refused.value.field.startswith(field)
    str(refused.value).encode()
    assert not Job.objects.exists()
    assert not Schedule.objects.exists()
    # The caller's transaction, here the test's, goes on.
    assert enqueue(TYPE, {"fine": True}).id


@pytest.mark.parametrize("way", sorted(WAYS))
def test_what_is_too_large_is_refused(way: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        WAYS[way]({"text": "x" * conf.get().max_payload_bytes})

    assert refused.value.field == "payload"
    assert not Job.objects.exists()


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "payload.text"),
        ({"text": "much too long a text"}, "payload.text"),
        ({"text": "fine", "lines": [1, "two"]}, "payload.lines.1"),
        (["no", "object"], "payload"),
        ("text", "payload"),
    ],
)
def test_the_handlers_serializer_is_asked_on_every_way_in(
    way: str, payload: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        WAYS[way](payload, STRICT)

    assert refused.value.field == field
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "x\\u0000y"}',
        '{"x\\u0000": 1}',
        '{"a": NaN}',
        '{"a": [Infinity]}',
        '{"a": "\\ud800"}',
        '{"a": ' + "9" * 1_001 + "}",
        '{"a": ' + "[" * 100 + "]" * 100 + "}",
        "[" * 100_000,
        '{"a": 1',
        "",
    ],
)
def test_the_command_refuses_the_same(text: str) -> None:
    with pytest.raises(CommandError, match="payload"):
        call_command("enqueue", TYPE, "--payload", text)

    assert not Job.objects.exists()


GOOD: list[Any] = [
    {"text": 'tab\t newline\n return\r backslash\\ quote" slash/ \\N \\. \\x41 \\u0041'},
    {"text": "\x01\x1f\x7f\x85\u2028\u2029\ufeff\uffff\U0010ffff"},
    {"\\N": "\\N", "": "", " ": " ", "a\tb\nc\\": "key"},
    {"big": 2**63, "negative": -(2**200), "tiny": 5e-324, "exact": 0.1},
    {"nothing": None, "yes": True, "no": False, "empty": [{}, [], ""]},
    [],
    "text alone",
    3,
    None,
    {"deep": json.loads("[" * 98 + "]" * 98)},
]


@pytest.mark.parametrize("payload", GOOD, ids=range(len(GOOD)))
def test_whatever_is_taken_is_stored_as_it_was_given_on_every_way_in(payload: Any) -> None:
    ids = [
        str(enqueue(TYPE, payload).id),
        *enqueue_many(TYPE, [payload]),
        *enqueue_many(TYPE, [payload], unique_keys=["a"]),
        *enqueue_jobs([JobSpec(type=TYPE, payload=payload)]),
        *enqueue_jobs([JobSpec(type=TYPE, payload=payload, unique_key="b")]),
    ]

    stored = [Job.objects.get(id=id).payload for id in ids]

    wanted = {} if payload is None else payload
    # In a list of payloads None is a value like others.
    assert stored == [wanted, payload, payload, wanted, wanted]


NASTY: list[Any] = ["", "\x00", "a\x00b", "\ud800", "x" * 5_000, "né w", 0, -1, 1.5, True, math.nan]
NASTY += [10**30, [], {}, [1], {"a": 1}, object(), b"x", set(), (), Decimal("NaN")]
TAKEN: dict[str, tuple[Any, ...]] = {
    "priority": (),
    "scheduled_at": (0, -1),
    "depends_on": ("", [], {}, set(), (), 0),
    "queue": (),
    "unique_key": ("né w",),
    "metadata": ({}, {"a": 1}),
    "max_attempts": (),
    "on_parent_failure": (),
    "recur_interval": (),
    "cron": (),
    "time_zone": (),
}


@pytest.mark.parametrize("option", sorted(TAKEN))
def test_a_nasty_value_of_any_option_is_refused_by_name_or_taken(option: str) -> None:
    for value in NASTY:
        for way in (_one, _many, _spec, _child):
            if way is not _one and option in ("recur_interval", "cron", "time_zone"):
                continue
            if (way, option) in (
                (_many, "unique_key"),
                (_child, "unique_key"),
                (_child, "depends_on"),
            ):
                continue
            taken = [v for v in TAKEN[option] if v == value and type(v) is type(value)]
            with nullcontext() if taken else pytest.raises(InvalidInput) as refused:
                way(option, value)
            if refused is not None:
                assert refused.value.field
                str(refused.value).encode()
    # Nothing of what was refused is there: each job is one that was taken.
    assert not JobDependency.objects.exists()
    assert not Schedule.objects.exists()


def _one(option: str, value: Any) -> object:
    return enqueue(TYPE, {}, **{option: value})


def _many(option: str, value: Any) -> object:
    return enqueue_many(TYPE, [{}], **{option: value})


def _spec(option: str, value: Any) -> object:
    return enqueue_jobs([JobSpec(type=TYPE, **{option: value})])


def _child(option: str, value: Any) -> object:
    return child_drafts(new_id(), [child(TYPE, {}, key="a", **{option: value})])


@pytest.mark.parametrize("type", ["", "stranger", "a\x00b", "x" * 5_000, None, 1, b"x", [], "né"])
def test_a_type_that_is_none_is_refused(type: Any) -> None:
    for way in (
        lambda: enqueue(type, {}),
        lambda: enqueue_many(type, [{}]),
        lambda: enqueue_jobs([JobSpec(type=type)]),
    ):
        with pytest.raises(InvalidInput) as refused:
            way()
        assert "type" in refused.value.field


@pytest.mark.parametrize("id", ["", "x", "\x00", None, 1, b"x", [], "0" * 33, math.nan, object()])
def test_an_id_that_is_none_is_a_clear_error_and_never_one_of_the_database(id: Any) -> None:
    for action in (
        lambda: lifecycle.cancel(id),
        lambda: lifecycle.retry(id),
        lambda: lifecycle.purge(id),
        lambda: lifecycle.run_now(id),
        lambda: lifecycle.release(id),
        lambda: lifecycle.change(id, priority=1),
        lambda: lifecycle.edit_payload(id, {}),
        lambda: lifecycle.add_dependency(id, [new_id()]),
    ):
        with pytest.raises(CoppiceError) as refused:
            action()
        str(refused.value).encode()


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "c"], [1, 2], [["a"], ["b"]], 5])
def test_keys_that_do_not_fit_their_payloads_are_refused(keys: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        enqueue_many(TYPE, [{}, {}], unique_keys=keys)

    assert refused.value.field == "unique_keys"
    assert not Job.objects.exists()


@pytest.mark.parametrize("key", ["a", "", "\x00", "\ud800", 1, [], {}, "x" * 201])
def test_a_key_that_is_used_twice_or_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        enqueue_jobs([JobSpec(type=TYPE, key="a"), JobSpec(type=TYPE, key=key)])

    assert (refused.value.field, refused.value.index) == ("key", 1)


def test_parents_may_be_named_in_any_form() -> None:
    parent = enqueue(TYPE, {})

    forms: list[Any] = [parent, parent.id, str(parent.id), [parent], (str(parent.id),)]
    for form in [*forms, iter([parent.id])]:
        [id] = enqueue_jobs([JobSpec(type=TYPE, depends_on=form)])
        assert Job.objects.get(id=id).unmet_dependencies == 1
