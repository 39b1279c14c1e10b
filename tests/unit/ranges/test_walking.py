from __future__ import annotations

import math
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranges import Block, ProbeTimeout, ahead
from ranges.ahead import MOST_LEAVES
from ranges.axes import IntAxis, TextAxis
from ranges.blocks import TIMEOUTS_IN_A_ROW, Pruner
from ranges.positions import Position
from ranges.sizing import Leaf, LeafSizer
from ranges.sources import Found, PlainSource
from ranges.walking import BrokenSource, Walker

EXAMPLES = int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300"))
INTS = IntAxis()


@pytest.fixture(autouse=True, scope="module")
def _patience() -> Iterator[None]:
    """However slow the machine is, what is counted here does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "KEPT_SECONDS", math.inf)
        yield


class Rows(PlainSource):
    """A table in memory: its keys, and which of them still need work."""

    counts_rows = True

    def __init__(self, todo: set[int], lo: int, hi: int, timeouts: set[int] | None = None) -> None:
        super().__init__(INTS, lo, hi)
        self.todo = sorted(todo)
        self.timeouts = timeouts or set()
        self.calls = 0

    def next_leaf(
        self, cur: Position, hi: Position, size: int, *, blind: bool = False
    ) -> Found | None:
        self.calls += 1
        if not blind and self.calls in self.timeouts:
            raise ProbeTimeout
        assert isinstance(cur, int)
        assert isinstance(hi, int)
        if blind:
            return super().next_leaf(cur, hi, size)
        left = [key for key in self.todo if cur <= key < hi]
        if not left:
            return None
        return Found(left[0], left[size] if len(left) > size else hi)


class FarSighted(Rows):
    """Tells of several leaves at once; rows may be finished before their leaf is begun."""

    def next_leaves(self, cur: Position, hi: Position, size: int, count: int) -> list[Found]:
        leaves: list[Found] = []
        found = self.next_leaf(cur, hi, size)
        while found is not None:
            leaves.append(found)
            self.calls -= len(leaves) > 1
            if len(leaves) == count or found.upto == hi:
                break
            found = self.next_leaf(found.upto, hi, size)
        return leaves


def walk(walker: Walker, lo: int, hi: int) -> list[tuple[int, int]]:
    """All leaves; checks that steps go on from the cursor and stay inside."""
    leaves: list[tuple[int, int]] = []
    cur = lo
    for _ in range(10 * (hi - lo) + 10):
        if cur >= hi:
            return leaves
        step = walker.next(cur, hi)
        assert isinstance(step.hi, int)
        if step.lo is not None:
            assert isinstance(step.lo, int)
            assert cur <= step.lo < step.hi <= hi
            leaves.append((step.lo, step.hi))
        assert cur < step.hi <= hi
        cur = step.hi
    raise AssertionError("the walk does not end")


def sizer(size: int) -> LeafSizer:
    return LeafSizer(Leaf(max_size=size))


keys = st.sets(st.integers(0, 200), max_size=60)


@settings(max_examples=EXAMPLES, deadline=None)
@given(keys, st.integers(1, 50), st.sets(st.integers(1, 40)))
def test_every_key_that_needs_work_is_in_exactly_one_leaf_whatever_times_out(
    todo: set[int], size: int, timeouts: set[int]
) -> None:
    leaves = walk(Walker(Rows(todo, 0, 201, timeouts), sizer(size)), 0, 201)
    assert all(sum(lo <= key < hi for lo, hi in leaves) == 1 for key in todo)
    assert all(a[1] <= b[0] for a, b in pairwise(leaves))


@settings(max_examples=EXAMPLES, deadline=None)
@given(keys, st.integers(1, 50))
def test_with_a_witness_the_walk_takes_as_few_leaves_as_there_can_be(
    todo: set[int], size: int
) -> None:
    source = Rows(todo, 0, 201)
    leaves = walk(Walker(source, sizer(size)), 0, 201)
    assert len(leaves) == -(-len(todo) // size)
    assert source.calls <= len(leaves) + 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(keys, st.integers(1, 50), st.sets(st.integers(1, 40)))
def test_what_is_known_ahead_makes_the_same_leaves_with_fewer_questions(
    todo: set[int], size: int, timeouts: set[int]
) -> None:
    far, near = FarSighted(todo, 0, 201), Rows(todo, 0, 201)
    assert walk(Walker(far, sizer(size)), 0, 201) == walk(Walker(near, sizer(size)), 0, 201)
    assert far.calls <= near.calls
    slow = walk(Walker(FarSighted(todo, 0, 201, timeouts), sizer(size)), 0, 201)
    assert all(sum(lo <= key < hi for lo, hi in slow) == 1 for key in todo)
    assert all(a[1] <= b[0] for a, b in pairwise(slow))


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    keys,
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 3), st.sets(st.integers(0, 200), max_size=9)),
        min_size=1,
        max_size=8,
    ),
)
def test_leaves_known_ahead_do_not_outlive_another_size_a_stolen_end_or_what_was_done_meanwhile(
    todo: set[int], changes: list[tuple[int, int, set[int]]]
) -> None:
    """Between leaves the size changes, the strand is cut short, and rows are finished."""
    source, wish = FarSighted(todo, 0, 201), sizer(1)
    walker = Walker(source, wish)
    cur: Any = 0
    hi, met, done, turn = 201, [0] * 201, set[int](), 0
    while cur < hi:
        size, cut, finished = changes[turn % len(changes)]
        turn += 1
        wish._size = size
        if cut == 0:
            hi = max(cur + 1, hi - size)
        step = walker.next(cur, hi)
        assert cur < cast(int, step.hi) <= hi
        if step.lo is not None:
            for key in range(cast(int, step.lo), cast(int, step.hi)):
                met[key] += 1
        done |= {key for key in finished if not met[key]}
        source.todo = [key for key in source.todo if key not in finished]
        cur = step.hi
    missed = {key for key in todo - done if key < hi and met[key] != 1}
    assert not missed
    assert max(met, default=0) <= 1


def test_what_was_found_ahead_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "KEPT_SECONDS", -1.0)
    source = FarSighted(set(range(100)), 0, 200)
    walker = Walker(source, sizer(10))
    leaves: list[tuple[Any, Any]] = []
    cur: Any = 0
    while cur < 200:
        step = walker.next(cur, 200)
        if step.lo is not None:
            leaves.append((step.lo, step.hi))
        cur = step.hi
        source.todo = [key for key in source.todo if key >= cur + 10]  # the next ten are finished
    assert [lo for lo, _ in leaves] == [0, 20, 40, 60, 80]
    assert source.calls == len(leaves) + 1


def test_questions_for_several_leaves_grow_with_what_was_taken() -> None:
    source = FarSighted(set(range(10_000)), 0, 10_000)
    assert len(walk(Walker(source, sizer(10)), 0, 10_000)) == 1_000
    assert source.calls <= 3 + 1_000 / MOST_LEAVES


answers = st.sampled_from([True, False, None, "yes", 0, ValueError("broken"), ProbeTimeout()])


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.integers(-50, 50),
    st.integers(0, 150),
    st.integers(1, 40),
    st.none() | st.integers(0, 8),
    st.lists(answers, min_size=1, max_size=30),
)
def test_only_false_skips_and_only_what_was_asked_about(
    lo: int, width: int, size: int, depth: int | None, script: list[Any]
) -> None:
    hi = lo + width
    skipped: set[int] = set()
    asked = 0

    def ask(left: int, right: int, node: Block) -> object:
        nonlocal asked
        answer = script[asked % len(script)]
        asked += 1
        assert left < right
        assert len(node.path) == node.depth
        if isinstance(answer, Exception):
            raise answer
        if answer is False:
            skipped.update(range(left, right))
        return answer

    source = PlainSource(INTS, lo, hi)
    walker = Walker(source, sizer(size), Pruner(INTS, lo, hi, ask, max_depth=depth))
    done = {key for left, right in walk(walker, lo, hi) for key in range(left, right)}
    assert done == set(range(lo, hi)) - skipped


@settings(max_examples=EXAMPLES, deadline=None)
@given(keys, st.integers(1, 30), st.integers(0, 200), st.booleans())
def test_an_exact_answer_gives_exactly_the_needed_keys_at_leaves_of_one(
    todo: set[int], size: int, cursor: int, with_rows: bool
) -> None:
    """From any cursor, as after a theft or a crash, with or without a table."""

    def ask(left: int, right: int, node: Block) -> bool:
        return any(left <= key < right for key in todo)

    source = Rows(todo, 0, 201) if with_rows else PlainSource(INTS, 0, 201)
    for leaf_size in (1, size):
        walker = Walker(source, sizer(leaf_size), Pruner(INTS, 0, 201, ask))
        done = {k for lo, hi in walk(walker, cursor, 201) for k in range(lo, hi)}
        needed = {key for key in todo if key >= cursor}
        assert done >= needed
        if leaf_size == 1 and not with_rows:
            assert done == needed


def test_a_lost_memory_costs_at_most_a_question_a_level() -> None:
    def walker() -> tuple[Walker, list[Block]]:
        blocks: list[Block] = []

        def ask(lo: int, hi: int, node: Block) -> bool:
            blocks.append(node)
            return True

        pruner = Pruner(INTS, 0, 1024, ask)
        return Walker(PlainSource(INTS, 0, 1024), sizer(1), pruner), blocks

    whole, asked = walker()
    assert len(walk(whole, 0, 1024)) == 1024
    assert len(asked) == 2 * 1024 - 1
    again, asked = walker()
    again.next(777, 1024)
    assert len(asked) <= 11


def test_the_largest_block_at_the_cursor_is_asked_first_and_knows_its_place() -> None:
    asked: list[tuple[int, int, Block]] = []

    def ask(lo: int, hi: int, node: Block) -> bool:
        asked.append((lo, hi, node))
        return True

    walker = Walker(PlainSource(INTS, 0, 16), sizer(4), Pruner(INTS, 0, 16, ask))
    step = walker.next(8, 16)
    assert (step.lo, step.hi) == (8, 12)
    assert asked == [
        (8, 16, Block(1, "1", False)),
        (8, 12, Block(2, "10", True)),
    ]


def test_three_time_outs_in_a_row_end_the_questions() -> None:
    asked = 0

    def ask(lo: int, hi: int, node: Block) -> bool:
        nonlocal asked
        asked += 1
        raise TimeoutError

    walker = Walker(PlainSource(INTS, 0, 1024), sizer(1), Pruner(INTS, 0, 1024, ask))
    assert len(walk(walker, 0, 1024)) == 1024
    assert asked == TIMEOUTS_IN_A_ROW
    assert walker.take_tally().prune_timeouts == TIMEOUTS_IN_A_ROW


def test_three_probes_in_a_row_that_time_out_turn_probing_off() -> None:
    source = Rows({5, 150}, 0, 201, timeouts=set(range(1, 1000)))
    walker = Walker(source, sizer(50))
    leaves = walk(walker, 0, 201)
    assert walker.blind
    assert walker.take_tally().probe_timeouts == 3
    assert {lo for lo, _ in leaves} == {0, 50, 100, 150, 200}


def test_an_async_question_is_answered() -> None:
    async def ask(lo: int, hi: int, node: Block) -> bool:
        return lo >= 512

    walker = Walker(PlainSource(INTS, 0, 1024), sizer(1024), Pruner(INTS, 0, 1024, ask))
    assert walker.next(0, 512).lo is None
    assert walker.next(512, 1024).lo == 512


@pytest.mark.parametrize("answer", [Found(-1, 5), Found(5, 5), Found(6, 5), Found(0, 11)])
def test_a_source_that_answers_beside_the_question_is_not_trusted(answer: Found) -> None:
    class Broken(PlainSource):
        def next_leaf(self, *args: Any, **kwargs: Any) -> Found:
            return answer

    with pytest.raises(BrokenSource):
        Walker(Broken(INTS, 0, 10), sizer(1)).next(0, 10)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text(max_size=5), st.text(max_size=5), st.integers(1, 9), st.integers(0, 7))
def test_plain_text_is_tiled_and_ends(one: str, other: str, parts: int, depth: int) -> None:
    axis = TextAxis()
    lo, hi = sorted(
        text.encode("utf-8", "ignore").decode().replace("\0", "") for text in (one, other)
    )
    source = PlainSource(axis, lo, hi, depth=depth)
    if lo == hi:
        assert source.limits() is None
        return
    cuts = [lo, *source.boundaries(lo, hi, parts), hi]
    assert len(cuts) <= parts + 1
    assert cuts == sorted(set(cuts))
    walker = Walker(source, sizer(1))
    cur: Position = lo
    for _ in range(2**depth):
        step = walker.next(cur, hi)
        assert step.lo == cur
        cur = step.hi
        if cur == hi:
            break
    assert cur == hi


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(-(2**70), 2**70), st.integers(1, 10**6), st.integers(1, 70))
def test_boundaries_are_equal_shares(lo: int, width: int, parts: int) -> None:
    source = PlainSource(INTS, lo, lo + width)
    cuts = [lo, *source.boundaries(lo, lo + width, parts), lo + width]
    shares = [int(b) - int(a) for a, b in pairwise(cuts)]
    assert len(shares) == min(parts, width)
    assert max(shares) - min(shares) <= 1
