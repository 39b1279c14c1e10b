"""Whatever the keys, what is done and how large the leaves: all that needs work is met, once.

`COPPICE_PROPERTY_EXAMPLES` sets how many examples are tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranges.positions import Position
from ranges.querying import QuerySource
from ranges.splitting import pieces
from tests.database.ranges.keyed import Line, Named, Numbered

pytestmark = pytest.mark.usefixtures("keyed_tables")

some = settings(
    max_examples=int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

ids = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-30, 30),
    st.sampled_from([-(2**63), 2**63 - 1]),
)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6
) | st.text("aAäÄbB", max_size=4)


@contextmanager
def undone() -> Iterator[None]:
    """What an example wrote must not be there for the next one."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def walked(source: QuerySource, parts: int, size: int) -> list[Any]:
    """The rows of all leaves of all strands, with the cuts that the source itself proposes."""
    limits = source.limits()
    if limits is None:
        return []
    lo, hi = limits
    rows: list[Any] = []
    for start, end in pieces(lo, hi, source.boundaries(lo, hi, parts)):
        cur: Position = start
        while found := source.next_leaf(cur, end, size):
            assert cur <= found.first < found.upto <= end  # type: ignore[operator]
            rows += source.leaf_queryset(found.first, found.upto)
            cur = found.upto
            if cur == end:
                break
    return rows


@some
@given(
    rows=st.dictionaries(ids, st.booleans(), max_size=40),
    size=st.integers(1, 12),
    count=st.integers(2, 9),
    probing=st.sampled_from(["witness", "filter"]),
)
def test_several_leaves_are_the_same_as_one_after_the_other(
    rows: dict[int, bool], size: int, count: int, probing: Any
) -> None:
    with undone():
        Numbered.objects.bulk_create(Numbered(id=id, done=done) for id, done in rows.items())
        source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing=probing)
        cur, hi = source.limits() or (0, 1)
        expected: list[Any] = []
        at: Position = cur
        while len(expected) < count and at != hi and (found := source.next_leaf(at, hi, size)):
            expected.append(found)
            at = found.upto
        assert source.next_leaves(cur, hi, size, count) == expected


@some
@given(
    rows=st.dictionaries(ids, st.booleans(), max_size=40),
    size=st.integers(1, 50),
    parts=st.integers(1, 9),
    probing=st.sampled_from(["witness", "filter"]),
)
def test_numbers(rows: dict[int, bool], size: int, parts: int, probing: Any) -> None:
    with undone():
        Numbered.objects.bulk_create(Numbered(id=id, done=done) for id, done in rows.items())
        source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing=probing)
        met = [row.id for row in walked(source, parts, size)]
        assert met == sorted(id for id, done in rows.items() if not done)


@some
@given(
    words=st.dictionaries(texts, st.booleans(), max_size=30),
    size=st.integers(1, 20),
    parts=st.integers(1, 6),
    key=st.sampled_from(["name", "code", "word"]),
)
def test_texts(words: dict[str, bool], size: int, parts: int, key: str) -> None:
    with undone():
        Named.objects.bulk_create(
            Named(name=word, code=word, word=word, done=done) for word, done in words.items()
        )
        source = QuerySource(Named.objects.all(), key=key, todo=Q(done=False))
        met = [getattr(row, key) for row in walked(source, parts, size)]
        assert met == sorted(word for word, done in words.items() if not done)


@some
@given(
    keys=st.lists(st.integers(0, 8), max_size=60),
    size=st.integers(1, 15),
    parts=st.integers(1, 5),
)
def test_keys_that_repeat(keys: list[int], size: int, parts: int) -> None:
    with undone():
        Numbered.objects.bulk_create(Numbered(id=id) for id in range(9))
        Line.objects.bulk_create(Line(number_id=number) for number in keys)
        source = QuerySource(Line.objects.all(), key="number")
        met = walked(source, parts, size)
        assert len({row.pk for row in met}) == len(met) == len(keys)
        assert [row.number_id for row in met] == sorted(keys)


@some
@given(keys=st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_medians_part_all_rows_down_to_single_keys(keys: list[int]) -> None:
    with undone():
        Numbered.objects.bulk_create(Numbered(id=id) for id in range(41))
        Line.objects.bulk_create(Line(number_id=number) for number in keys)
        source = QuerySource(Line.objects.all(), key="number")
        waiting: list[tuple[Position, Position]] = [(0, 41)]
        single = []
        while waiting:
            lo, hi = waiting.pop()
            cut = source.median(lo, hi)
            if cut is None:
                single += source.keys(lo, hi, 2)
                continue
            assert lo < cut < hi  # type: ignore[operator]
            for side in ((lo, cut), (cut, hi)):
                assert source.keys(*side, 1)
                waiting.append(side)
        assert sorted(single) == sorted(set(keys))
