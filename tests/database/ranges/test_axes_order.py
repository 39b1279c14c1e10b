"""PostgreSQL puts keys in the order of their axis, and takes every key as a parameter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from django.db import connection

from ranges.axes import Axis, TextAxis
from ranges.axes.fields import BY_CODE_POINT
from tests.axes import CASES, ORDINAL, TEXTS, Case

pytestmark = pytest.mark.django_db

ROUNDS = max(int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300")) // 1_000, 1)
KEYS = 4_000  # of one round, sorted by one query

every_axis = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def rows(statement: str, **values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[Any] = cursor.fetchall()
        return found


def in_the_order_of_the_database(
    axis: Axis[Any], keys: Sequence[Any], collation: str | None
) -> list[Any]:
    """The keys as PostgreSQL sorts them; equal ones stay as they are."""
    collate = f'COLLATE "{collation}"' if collation else ""
    [(places,)] = rows(
        f"""
        SELECT array_agg(place ORDER BY key {collate}, place)
        FROM unnest(%(keys)s::{axis.sql_type}[]) WITH ORDINALITY AS given (key, place)
        """,
        keys=list(keys),
    )
    return [keys[place - 1] for place in places]


def some_keys(case: Case, random: Random) -> list[Any]:
    """Extremes and keys of every magnitude, some of them twice, in no order."""
    found = list(case.extremes)
    while len(found) < KEYS:
        found.append(some_text(random) if case.id == "text" else some_key(case, random))
    found += random.sample(found, 100)
    random.shuffle(found)
    return found


def some_key(case: Case, random: Random) -> Any:
    axis = case.axis
    first, last = axis.encode(case.extremes[0]), axis.encode(case.extremes[-1])
    near = axis.encode(random.choice(case.extremes))
    distance = random.getrandbits(random.randrange(1, (last - first).bit_length()))
    return axis.decode(min(max(near + random.choice((-1, 1)) * distance, first), last))


ALPHABET = [
    *"\x01\x02\t 09AZaz-_'\\~\x7f",
    *"\x80éÉß\u017f\u0130\u0131ØøŁ",
    *"\ud7ff\ue000\ufffd\uffff",
]
ALPHABET += [*"e\u0301\u200d漢字かな\U00010000\U0001f600\U0010ffff"]


def some_text(random: Random) -> str:
    text = "".join(random.choices(ALPHABET, k=random.randrange(6)))
    return random.choice(TEXTS)[:20] + text if random.random() < 0.3 else text


def position(axis: Axis[Any], key: Any) -> Any:
    return axis.encode(key) if axis.is_ordinal else key


@every_axis
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_the_order_of_an_axis_is_the_order_of_the_database(case: Case, round_: int) -> None:
    keys = some_keys(case, Random(round_))

    ordered = in_the_order_of_the_database(case.axis, keys, case.axis.collation)

    assert ordered == sorted(keys, key=lambda key: position(case.axis, key))


@every_axis
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_the_database_finds_midpoints_strictly_between(case: Case, round_: int) -> None:
    axis, keys = case.axis, some_keys(case, Random(round_))
    pairs = [sorted(pair) for pair in zip(keys[::2], keys[1::2], strict=True)]
    split = [(lo, axis.midpoint(lo, hi), hi) for lo, hi in pairs]
    split = [three for three in split if three[1] is not None]
    lows, middles, highs = (list(column) for column in zip(*split, strict=True))
    collate = f'COLLATE "{axis.collation}"' if axis.collation else ""

    [(between, asked)] = rows(
        f"""
        SELECT count(*) FILTER (WHERE lo {collate} < middle AND middle {collate} < hi), count(*)
        FROM unnest(
            %(lows)s::{axis.sql_type}[], %(middles)s::{axis.sql_type}[], %(highs)s::{axis.sql_type}[]
        ) AS split (lo, middle, hi)
        """,
        lows=lows,
        middles=middles,
        highs=highs,
    )

    assert between == asked == len(split) > KEYS // 3


@every_axis
def test_keys_come_back_from_the_database_as_they_went(case: Case) -> None:
    keys = some_keys(case, Random(0))

    [(returned,)] = rows(f"SELECT %(keys)s::{case.axis.sql_type}[]", keys=keys)

    assert returned == keys
    if case.axis.is_ordinal:
        assert [case.axis.encode(key) for key in returned] == [*map(case.axis.encode, keys)]


@every_axis
def test_the_json_form_of_a_key_means_the_same_to_the_database(case: Case) -> None:
    keys = some_keys(case, Random(0))

    [(equal,)] = rows(
        f"""
        SELECT bool_and(key = written::{case.axis.sql_type})
        FROM unnest(%(keys)s::{case.axis.sql_type}[], %(written)s::text[]) AS given (key, written)
        """,
        keys=keys,
        written=[str(case.axis.to_json(key)) for key in keys],
    )

    assert equal


@pytest.mark.parametrize("case", ORDINAL, ids=lambda case: case.id)
def test_the_position_of_every_key_fits_its_column(case: Case) -> None:
    axis = case.axis
    ends = [axis.encode(case.extremes[0]), axis.encode(case.extremes[-1]), axis.encode_end(None)]

    [(returned,)] = rows("SELECT %(ends)s::numeric(1000)[]", ends=ends)

    assert [int(end) for end in returned] == ends


# Collations


def collations() -> list[str]:
    """Of the server's collations all that compare code points, and some of languages."""
    names = rows(
        """
        SELECT collname FROM pg_collation
        WHERE collencoding IN (-1, 6) AND collname <> 'default' AND collisdeterministic
            AND (collprovider <> 'i' OR collname ~ '^(und|de|sv|tr|ja|en-US)-')
            AND (collprovider <> 'c' OR collname ~* '^(C|POSIX|(de|en|sv|tr)_.*utf-?8)')
        """
    )
    return sorted(name for (name,) in names)


def test_collations_that_compare_code_points_give_the_order_of_texts() -> None:
    [case] = [case for case in CASES if case.id == "text"]
    known = sorted(BY_CODE_POINT & set(collations()))
    assert known[:2] == ["C", "POSIX"]

    for collation in known:
        keys = some_keys(case, Random(1))
        axis = TextAxis(collation=collation)
        assert in_the_order_of_the_database(axis, keys, collation) == sorted(keys)


def test_a_column_in_any_collation_can_be_walked_by_code_point() -> None:
    [case] = [case for case in CASES if case.id == "text"]
    keys = sorted(set(some_keys(case, Random(2))))

    for number, collation in enumerate(["default", *collations()]):
        rows_of = f"walked_{number}"
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE TEMPORARY TABLE "{rows_of}" (key text COLLATE "{collation}")')
            cursor.execute(f'INSERT INTO "{rows_of}" SELECT unnest(%s::text[])', [keys])
        bounds = ["", *keys[:: len(keys) // 20][1:], keys[-1] + "\x01"]
        walked = [
            key
            for lo, hi in pairwise(bounds)
            for (key,) in rows(
                f"""
                SELECT key FROM "{rows_of}"
                WHERE key COLLATE "C" >= %(lo)s AND key COLLATE "C" < %(hi)s
                ORDER BY key COLLATE "C"
                """,
                lo=lo,
                hi=hi,
            )
        ]
        assert walked == keys, collation


def test_the_order_of_a_language_is_not_taken_for_that_of_code_points() -> None:
    languages = [name for name in collations() if name.startswith(("de", "sv"))]
    if not languages:
        pytest.skip("This PostgreSQL has no collation of a language.")
    for collation in languages:
        assert collation not in BY_CODE_POINT
        order = in_the_order_of_the_database(TextAxis(), ["B", "a"], collation)
        assert order == ["a", "B"]
