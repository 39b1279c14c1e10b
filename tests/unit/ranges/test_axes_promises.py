"""What every axis promises, tried on each of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from ranges.axes import Axis, describe, restore
from tests.axes import CASES, ORDINAL, Case, many

every_axis = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_ordinal_axis = pytest.mark.parametrize("case", ORDINAL, ids=lambda case: case.id)


def check_midpoint(axis: Axis[Any], lo: Any, hi: Any) -> None:
    middle = axis.midpoint(lo, hi)
    if middle is None:
        assert axis.successor(lo) == hi
    else:
        assert lo < middle
        assert hi is None or middle < hi


@every_axis
@many
@given(data=st.data())
def test_a_midpoint_lies_strictly_between_or_nothing_does(case: Case, data: st.DataObject) -> None:
    lo, hi = data.draw(case.bounds)

    check_midpoint(case.axis, lo, hi)


@every_axis
def test_a_midpoint_lies_strictly_between_any_two_extremes(case: Case) -> None:
    assert list(case.extremes) == sorted(case.extremes)
    for lo, hi in itertools.combinations(case.extremes, 2):
        check_midpoint(case.axis, lo, hi)
    for lo in case.extremes:
        check_midpoint(case.axis, lo, None)


@every_axis
@many
@given(data=st.data())
def test_an_empty_range_and_one_of_a_single_key_have_no_midpoint(
    case: Case, data: st.DataObject
) -> None:
    key = data.draw(case.any_key)

    assert case.axis.midpoint(key, key) is None
    assert case.axis.midpoint(key, case.axis.successor(key)) is None


@every_ordinal_axis
@many
@given(data=st.data())
def test_encoding_and_decoding_give_the_key_back(case: Case, data: st.DataObject) -> None:
    key = data.draw(case.any_key)

    assert case.axis.decode(case.axis.encode(key)) == key


@every_ordinal_axis
@many
@given(data=st.data())
def test_the_order_of_ordinals_is_the_order_of_keys(case: Case, data: st.DataObject) -> None:
    one, other = data.draw(case.any_key), data.draw(case.any_key)
    first, second = case.axis.encode(one), case.axis.encode(other)

    assert (first < second, first == second) == (one < other, one == other)


@every_axis
@many
@given(data=st.data())
def test_a_key_comes_back_from_its_json_and_its_command_line_form(
    case: Case, data: st.DataObject
) -> None:
    key = data.draw(case.any_key)
    written = case.axis.to_json(key)

    assert case.axis.from_json(written) == key
    assert case.axis.validate(str(written), "start") == key
    assert case.axis.validate(key, "start") == key


@every_axis
@many
@given(data=st.data())
def test_the_successor_is_the_least_bound_that_lets_the_key_in(
    case: Case, data: st.DataObject
) -> None:
    key = data.draw(case.any_key)
    bound = case.axis.successor(key)

    if bound is None:
        assert key == max(case.extremes)
    else:
        assert key < bound
        assert case.axis.midpoint(key, bound) is None
    if case.axis.is_ordinal:
        assert case.axis.width(key, bound) == 1


@every_axis
@many
@given(data=st.data())
def test_a_width_is_zero_only_for_an_empty_range_and_negative_only_for_an_inverted_one(
    case: Case, data: st.DataObject
) -> None:
    lo, hi = data.draw(case.any_key), data.draw(case.any_key)
    width = case.axis.width(lo, hi)

    assert (width > 0, width == 0, width < 0) == (lo < hi, lo == hi, hi < lo)


@every_axis
@many
@given(data=st.data())
def test_splitting_again_and_again_ends_in_pieces_that_touch_and_cover_all(
    case: Case, data: st.DataObject
) -> None:
    lo, hi = data.draw(case.bounds)
    if case.axis.is_ordinal:
        size = max(case.axis.width(lo, hi) // 20, 1)
        pieces = split(case.axis, lo, hi, size=size, depth=64)
        assert all(case.axis.width(*piece) <= size for piece in pieces)
        assert sum(case.axis.width(*piece) for piece in pieces) == case.axis.width(lo, hi)
    else:
        pieces = split(case.axis, lo, hi, size=1, depth=5)

    assert pieces[0][0] == lo
    assert pieces[-1][1] == hi
    assert all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
    assert all(piece[0] < piece[1] for piece in pieces)


def split(axis: Axis[Any], lo: Any, hi: Any, *, size: int, depth: int) -> list[tuple[Any, Any]]:
    middle = axis.midpoint(lo, hi) if depth and axis.width(lo, hi) > size else None
    if middle is None:
        return [(lo, hi)]
    return [
        *split(axis, lo, middle, size=size, depth=depth - 1),
        *split(axis, middle, hi, size=size, depth=depth - 1),
    ]


@every_ordinal_axis
def test_a_small_range_is_split_down_to_single_keys(case: Case) -> None:
    for lo in case.extremes[:-1]:
        start = case.axis.encode(lo)
        hi = case.axis.decode(min(start + 7, case.axis.encode(case.extremes[-1])))

        pieces = split(case.axis, lo, hi, size=1, depth=4)

        assert [case.axis.width(*piece) for piece in pieces] == [1] * case.axis.width(lo, hi)


@pytest.mark.parametrize("case", [c for c in ORDINAL if c.id != "decimal"], ids=lambda c: c.id)
def test_the_last_key_of_a_type_can_be_let_in(case: Case) -> None:
    axis, first, last = case.axis, case.extremes[0], case.extremes[-1]

    assert axis.successor(last) is None
    assert axis.width(last, None) == 1
    assert axis.midpoint(last, None) is None
    assert axis.decode_end(axis.encode_end(None)) is None
    assert axis.decode_end(axis.encode(last)) == last
    for outside in (axis.encode(first) - 1, axis.encode_end(None)):
        with pytest.raises(InvalidInput):
            axis.decode(outside)


@every_axis
def test_what_is_no_key_is_refused_by_the_name_of_its_field(case: Case) -> None:
    for stranger in (None, True, False, [], {}, b"1", object()):
        with pytest.raises(InvalidInput) as refusal:
            case.axis.validate(stranger, "start")
        assert refusal.value.field == "start"


@every_axis
def test_keys_of_other_types_are_refused(case: Case) -> None:
    kinds = {type(key) for key in case.extremes}
    allowed = {"float": {int}, "decimal": {int}}.get(case.id, set())
    for other in CASES:
        key = other.extremes[0]
        if type(key) in kinds | allowed:
            continue
        if isinstance(key, str):
            key = "no key at all"
        with pytest.raises(InvalidInput, match=r"^end: "):
            case.axis.validate(key, "end")


@every_axis
def test_an_axis_can_be_stored_and_restored(case: Case) -> None:
    assert restore(describe(case.axis)) == case.axis
