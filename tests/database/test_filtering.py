"""Filters as they are stored, read back and said."""

from __future__ import annotations

import json
import uuid
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.errors import InvalidInput
from jobs.filtering import NUMBERS, TIMES, Filters, id_at
from jobs.ids import new_uuid
from jobs.models import Job
from jobs.states import State, Status

MOMENT = datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "status": Status.FAILED,
    "state": State.DEAD,
    "type": "resize",
    "queue": "mail",
    "priority": 1,
    "recur_interval": "every_5_minutes",
    "schedule": uuid.UUID("0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21"),
    "error_fingerprint": "abc",
    "internal": False,
    "id_prefix": "0199a1f0",
    "worker": uuid.UUID("0199a1e8-02aa-7c10-b7f3-5d0c9e8a4b16"),
    "recurring": True,
    "depends_on": uuid.UUID("0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e22"),
    "error": "ValueError",
    "payload": {"user": {"id": 42}},
    **{f"{name}_{side}": MOMENT for name in TIMES for side in ("after", "before")},
    **{f"{side}_{name}": 3 for name in NUMBERS for side in ("min", "max")},
}


def test_every_filter_survives_being_stored() -> None:
    assert set(VALUES) == {field.name for field in fields(Filters)}
    for name, value in VALUES.items():
        filters = Filters(**{name: value})
        assert Filters.from_json(json.loads(json.dumps(filters.as_json()))) == filters
    filters = Filters(**VALUES)
    assert Filters.from_json(json.loads(json.dumps(filters.as_json()))) == filters


def test_what_is_not_set_is_not_stored() -> None:
    assert Filters().as_json() == {}
    assert Filters.from_json({"status": None, "queue": None}) == Filters()
    assert Filters(internal=False).as_json() == {"internal": False}


def test_every_time_and_number_is_a_column() -> None:
    columns = {field.name for field in Job._meta.get_fields()}
    assert {*TIMES.values(), *NUMBERS.values()} <= columns


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ([], "filters"),
        ("status", "filters"),
        (None, "filters"),
        ({"colour": "red"}, "colour"),
        ({1: 2}, "1"),
        ({"x" * 500: 1}, "x" * 60),
        ({"status": "dead"}, "status"),
        ({"status": []}, "status"),
        ({"state": "failed"}, "state"),
        ({"type": ""}, "type"),
        ({"type": 1}, "type"),
        ({"type": "a\x00"}, "type"),
        ({"queue": "q" * 201}, "queue"),
        ({"priority": "1"}, "priority"),
        ({"priority": 4}, "priority"),
        ({"priority": True}, "priority"),
        ({"recur_interval": "sometimes"}, "recur_interval"),
        ({"schedule": "x"}, "schedule"),
        ({"schedule": {}}, "schedule"),
        ({"internal": "false"}, "internal"),
        ({"internal": 0}, "internal"),
        ({"id_prefix": "xyz"}, "id_prefix"),
        ({"worker": 7}, "worker"),
        ({"recurring": "yes"}, "recurring"),
        ({"error": " "}, "error"),
        ({"payload": "x"}, "payload"),
        ({"payload": {}}, "payload"),
        ({"payload": {"a": "x" * 3_000}}, "payload"),
        ({"created_before": "2026-01-01"}, "created_before"),
        ({"created_before": {}}, "created_before"),
        ({"updated_after": 10**30}, "updated_after"),
        ({"min_attempt_count": -1}, "min_attempt_count"),
        ({"min_attempt_count": "3"}, "min_attempt_count"),
        ({"max_max_retries": 2**31}, "max_max_retries"),
        ({"max_max_retries": 1.5}, "max_max_retries"),
    ],
)
def test_what_is_no_filter_is_refused_by_name(stored: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Filters.from_json(stored)
    assert refused.value.field == field


def test_filters_are_said_in_words() -> None:
    assert Filters().in_words() == "all jobs"
    assert (
        Filters(
            status=Status.FAILED, type="resize", created_before=MOMENT, min_attempt_count=2
        ).in_words()
        == "status failed, type resize, created before 2026-01-31 10:00:00 UTC, "
        "attempt count at least 2"
    )
    assert Filters(internal=True, max_max_retries=3).in_words() == (
        "internal jobs only, max retries at most 3"
    )
    assert Filters(id_prefix="0199").in_words() == "id begins with 0199"


def test_ids_begin_with_the_time_at_which_they_are_made() -> None:
    before = datetime.now(tz=UTC)
    id = new_uuid()
    after = datetime.now(tz=UTC)
    assert id_at(before, later=timedelta(milliseconds=-1)) <= id
    assert id < id_at(after, later=timedelta(milliseconds=1))
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert isinstance(id_at(moment, later=timedelta(days=1)), uuid.UUID)
