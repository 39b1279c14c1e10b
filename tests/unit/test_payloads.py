from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.payloads import check_json, check_text

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=40
    )


@settings(deadline=None)
@given(nested(scalars))
def test_any_json_value_is_taken_and_means_the_same_when_read_back(value: Any) -> None:
    text = check_json(value)
    assert json.loads(text) == value
    text.encode()
    assert "\x00" not in text


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 1


class Point(NamedTuple):
    x: int
    y: int


def test_tuples_and_subclasses_of_json_types_are_taken_as_what_they_are() -> None:
    value = {Colour.RED: Colour.RED, "level": [Level.HIGH], "point": Point(1, 2), "t": (1, "a")}
    assert json.loads(check_json(value)) == {
        "red": "red",
        "level": [1],
        "point": [1, 2],
        "t": [1, "a"],
    }


class _Opaque:
    pass


BAD = [
    ("a\x00b", "NUL"),
    ("a\ud800b", "surrogate"),
    ("\ud83d\ude00", "surrogate"),
    (math.nan, "NaN"),
    (math.inf, "infinite"),
    (-math.inf, "infinite"),
    (10**1000, "1,000 digits"),
    (-(10**1000), "1,000 digits"),
    (10**5000, "1,000 digits"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
    (Decimal(1), "Decimal"),
    (UUID(int=1), "UUID"),
    (b"bytes", "bytes"),
    ({1}, "set"),
    (1j, "complex"),
    (_Opaque(), "_Opaque"),
    ({1: "a"}, "type int"),
    ({None: "a"}, "type NoneType"),
    ({True: "a"}, "type bool"),
    ({("a",): 1}, "type tuple"),
    ({"a\x00": 1}, "NUL"),
    ({"a\udfff": 1}, "surrogate"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=map(str, range(len(BAD))))
def test_what_postgresql_cannot_store_is_refused_with_its_path(bad: Any, message: str) -> None:
    for value, path in [
        (bad, "payload"),
        ({"name": bad}, "payload.name"),
        ({"items": [0, 1, 2, {"name": bad}]}, "payload.items[3].name"),
        ([[], ({"two words": bad},)], 'payload[1][0]["two words"]'),
    ]:
        with pytest.raises(InvalidInput, match=message) as refused:
            check_json(value)
        assert refused.value.field == path
        str(refused.value).encode()
        assert "\x00" not in str(refused.value)


@settings(deadline=None)
@given(nested(scalars), st.sampled_from([bad for bad, _ in BAD]), st.data())
def test_one_bad_value_anywhere_is_enough_for_a_refusal(
    value: Any, bad: Any, data: st.DataObject
) -> None:
    spoiled = _put(value, bad, data)
    with pytest.raises(InvalidInput) as refused:
        check_json(spoiled, "metadata")
    assert refused.value.field.startswith("metadata")


def _put(value: Any, bad: Any, data: st.DataObject) -> Any:
    """The value with the bad one at a place that hypothesis chooses."""
    if isinstance(value, list):
        place = data.draw(st.integers(0, len(value)))
        if place < len(value) and data.draw(st.booleans()):
            return [*value[:place], _put(value[place], bad, data), *value[place + 1 :]]
        return [*value[:place], bad, *value[place:]]
    if isinstance(value, dict):
        return {**value, data.draw(texts): bad}
    return bad


def test_a_backslash_escape_that_somebody_wrote_is_text_and_is_taken() -> None:
    for text in ["\\u0000", "\\ud800", "C:\\u0000dir"]:
        assert json.loads(check_json({"path": text})) == {"path": text}


def test_a_thousand_digits_are_taken_and_one_more_is_not() -> None:
    largest = 10**1000 - 1
    good: list[Any] = [largest, -largest, [largest], {"n": largest}]
    for value in good:
        assert json.loads(check_json(value)) == value
    bad: list[Any] = [largest + 1, [largest + 1], {"n": largest + 1, "text": "x" * 2000}]
    for value in bad:
        with pytest.raises(InvalidInput):
            check_json(value)


def deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_a_hundred_levels_are_taken_and_one_more_is_not() -> None:
    assert check_json(deep(100))
    with pytest.raises(InvalidInput, match="deeper than 100 levels") as refused:
        check_json(deep(101))
    assert refused.value.field == "payload"
    with pytest.raises(InvalidInput, match="deeper"):
        check_json(deep(100_000))


def test_the_bound_on_depth_is_the_callers() -> None:
    assert check_json(1, max_depth=0) == "1"
    assert check_json({"a": 1}, max_depth=1)
    for value, depth in [({}, 0), ([], 0), ({"a": {}}, 1)]:
        with pytest.raises(InvalidInput):
            check_json(value, max_depth=depth)


@settings(deadline=None)
@given(nested(scalars), st.integers(0, 200))
def test_the_size_is_that_of_the_text_in_utf8(value: Any, limit: int) -> None:
    size = len(check_json(value).encode())
    if size <= limit:
        assert check_json(value, max_bytes=limit)
    else:
        with pytest.raises(InvalidInput, match="larger than"):
            check_json(value, max_bytes=limit)


def test_a_payload_of_one_mebibyte_is_taken_and_one_byte_more_is_not() -> None:
    around = len('{"a":""}')
    assert check_json({"a": "x" * (1_048_576 - around)})
    with pytest.raises(InvalidInput, match="1,048,576 bytes"):
        check_json({"a": "x" * (1_048_577 - around)})
    with pytest.raises(InvalidInput, match="1,048,576 bytes"):
        check_json({"a": "ü" * 600_000})


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"big": "x" * 100_000}
    loop["list"] = [1, loop]
    with pytest.raises(InvalidInput, match="contains itself") as refused:
        check_json(loop, max_bytes=10**9)
    assert refused.value.field == "payload.list[1]"
    with pytest.raises(InvalidInput):
        check_json(loop)


def test_the_same_object_twice_is_no_loop() -> None:
    shared = {"a": [1]}
    assert json.loads(check_json([shared, shared])) == [shared, shared]


def test_a_small_value_that_would_unfold_without_end_is_refused_as_too_large() -> None:
    bomb: Any = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    texts_of_one = ["x" * 1_000_000] * 100_000
    keys_of_one = [{"x" * 1_000_000: 1}] * 100_000
    numbers_of_one = [10**900] * 100_000
    for value in (bomb, texts_of_one, keys_of_one, numbers_of_one):
        with pytest.raises(InvalidInput, match="larger than"):
            check_json(value)


def test_a_path_of_any_length_stays_readable() -> None:
    value: Any = math.nan
    for _ in range(90):
        value = {"k" * 5000: [value]}
    with pytest.raises(InvalidInput) as refused:
        check_json(value)
    assert len(refused.value.field) <= 300


@settings(deadline=None)
@given(st.text(), st.integers(1, 20))
def test_a_name_is_taken_exactly_if_it_is_storable_not_blank_and_short_enough(
    name: str, longest: int
) -> None:
    good = (
        bool(name.strip())
        and len(name) <= longest
        and not any(c == "\x00" or 0xD800 <= ord(c) <= 0xDFFF for c in name)
    )
    if good:
        assert check_text(name, "queue", max_length=longest) == name
    else:
        with pytest.raises(InvalidInput) as refused:
            check_text(name, "queue", max_length=longest)
        assert refused.value.field == "queue"


@pytest.mark.parametrize("value", [None, 1, b"mail", ["mail"], True, "", "   ", "a\x00", "\ud800"])
def test_a_name_that_is_no_text_or_not_storable_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        check_text(value, "type", max_length=100)
