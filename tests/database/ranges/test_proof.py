"""Coverage is proved by the database: any gap, overlap or sum that is wrong is found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q

from jobs.errors import NotFound
from jobs.ids import new_id
from ranges import proof
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.proof import NotCovered, assert_complete, sweep_probe, verify
from ranges.querying import QuerySource
from ranges.states import FailureState, NodeState
from tests.database.ranges.keyed import Named, Numbered
from tests.plans import explain, rows_read, scans

pytestmark = pytest.mark.django_db

type Piece = tuple[int, int]


def make_run(lo: int = 0, hi: int = 100) -> RangeRun:
    return RangeRun.objects.create(name="t.Job", axis={"type": "int"}, lo=lo, hi=hi)


def make_nodes(run: RangeRun, pieces: Sequence[Piece], *, done: bool = True) -> list[RangeNode]:
    return RangeNode.objects.bulk_create(
        RangeNode(
            run=run, kind="strand", state=NodeState.DONE if done else NodeState.PENDING,
            lo=lo, hi=hi, cur=hi if done else lo, resv=hi if done else lo,
            width_ok=hi - lo if done else 0, rows_ok=min(hi - lo, 1_000) if done else 0,
        )
        for lo, hi in pieces
    )  # fmt: skip


def test_nodes_that_follow_one_another_cover_the_run() -> None:
    run = make_run()
    make_nodes(run, [(60, 100), (0, 10), (10, 60), (60, 60)])
    make_nodes(make_run(), [(5, 6)])
    verdict = verify(run)
    assert verdict.ok
    assert verdict.is_complete
    assert verdict.problems == ()
    assert (verdict.nodes, verdict.width_ok, verdict.width_left, verdict.rows_ok) == (
        3,
        100,
        0,
        100,
    )


@pytest.mark.parametrize(
    ("pieces", "example"),
    [
        ([(0, 10), (11, 100)], "(10,11)"),
        ([(0, 10), (9, 100)], "(10,9)"),
        ([(0, 100), (0, 100)], "(100,0)"),
        ([(0, 100), (20, 30)], "(100,20)"),
        ([(1, 100)], "(0,1)"),
        ([(-1, 100)], "(0,-1)"),
        ([(0, 99)], None),
        ([(0, 101)], None),
        ([], None),
        # A gap and an overlap of the same width: the sums alone would not notice.
        ([(0, 40), (50, 70), (60, 100)], "(40,50)"),
    ],
)
def test_a_gap_or_an_overlap_of_one_position_is_found(
    pieces: list[Piece], example: str | None
) -> None:
    run = make_run()
    make_nodes(run, pieces)
    verdict = verify(run)
    assert not verdict.chain
    assert verdict.multirange is False
    assert not verdict.ok
    assert example is None or verdict.first_break == example
    with pytest.raises(NotCovered):
        assert_complete(run)


def test_widths_beyond_every_integer_type_add_up() -> None:
    run = make_run(-(10**300), 10**300)
    make_nodes(run, [(-(10**300), 7), (7, 10**300)])
    assert verify(run).is_complete
    assert verify(run).width == 2 * 10**300
    assert verify(run).as_json()["width"] == str(2 * 10**300)


def test_an_empty_run_needs_no_nodes() -> None:
    assert verify(make_run(5, 5)).is_complete
    run = make_run(5, 5)
    make_nodes(run, [(5, 5)])
    assert verify(run).is_complete
    wrong = make_run(5, 5)
    make_nodes(wrong, [(5, 6)])
    assert not verify(wrong).ok


def test_a_run_that_has_no_bounds_yet_is_not_complete() -> None:
    run = RangeRun.objects.create(name="t.Job", axis={"type": "int"})
    verdict = verify(run)
    assert not verdict.ok
    assert verdict.problems == ("nothing was planned yet",)
    with pytest.raises(NotCovered, match="nothing was planned yet"):
        assert_complete(run, QuerySource(Numbered.objects.all()))


def test_what_is_left_is_counted_and_is_no_fault_of_coverage() -> None:
    run = make_run()
    make_nodes(run, [(0, 50)])
    make_nodes(run, [(50, 100)], done=False)
    verdict = verify(run)
    assert verdict.ok
    assert not verdict.is_complete
    assert (verdict.unfinished, verdict.width_left) == (1, 50)


def test_a_node_whose_widths_do_not_add_up_is_found_even_when_the_sums_do() -> None:
    run = make_run()
    first, second = make_nodes(run, [(0, 50), (50, 100)])
    RangeNode.objects.filter(pk=first.pk).update(width_ok=49)
    RangeNode.objects.filter(pk=second.pk).update(width_ok=51)
    verdict = verify(run)
    assert verdict.chain
    assert verdict.multirange
    assert verdict.ledger is False
    assert (verdict.ok, verdict.unbalanced) == (False, 2)


def test_open_failures_keep_a_run_from_being_complete_and_waived_ones_do_not() -> None:
    run = make_run()
    make_nodes(run, [(0, 99)])
    RangeNode.objects.create(
        run=run, kind="bisect", state=NodeState.ERROR, lo=99, hi=100, cur=100, resv=100,
        width_failed=1, rows_failed=1,
    )  # fmt: skip
    failure = RangeFailure.objects.create(run=run, key="99", attempts=3, error="no")
    verdict = verify(run)
    assert verdict.ok
    assert not verdict.is_complete
    assert (verdict.width_failed, verdict.rows_failed, verdict.open_failures) == (1, 1, 1)
    failure.state = FailureState.WAIVED
    failure.save()
    assert verify(run).is_complete


def test_text_is_proved_by_the_chain_in_the_order_of_code_points() -> None:
    edges = ["", "B", "Z", "a", "b", "é", "中", "😀"]
    run = RangeRun.objects.create(name="t.Job", axis={"type": "text"}, lo_key="", hi_key="😀")
    for lo, hi in pairwise(edges):
        RangeNode.objects.create(
            run=run, kind="strand", state=NodeState.DONE, lo_key=lo, hi_key=hi, cur_key=hi,
            resv_key=hi,
        )  # fmt: skip
    verdict = verify(run)
    assert verdict.is_complete
    assert (verdict.multirange, verdict.ledger, verdict.width) == (None, None, None)
    RangeNode.objects.filter(lo_key="a").update(hi_key="b ", cur_key="b ", resv_key="b ")
    assert verify(run).first_break == '("b ",b)'


def test_a_run_that_is_gone_is_told() -> None:
    with pytest.raises(NotFound):
        verify(new_id())


@pytest.mark.usefixtures("keyed_tables")
def test_one_witness_over_the_whole_range_finds_rows_behind_the_cursors() -> None:
    Numbered.objects.bulk_create(Numbered(id=id, done=True) for id in range(100))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    run = make_run()
    make_nodes(run, [(0, 100)])
    assert sweep_probe(run, source) is None
    assert assert_complete(run, source).is_complete
    Numbered.objects.filter(id=42).update(done=False)
    assert sweep_probe(run, source) == 42
    with pytest.raises(NotCovered, match="42"):
        assert_complete(run, source)


@pytest.mark.usefixtures("keyed_tables")
def test_keys_that_are_known_to_have_failed_are_no_news() -> None:
    Numbered.objects.bulk_create(Numbered(id=id, done=id not in {7, 8, 50}) for id in range(100))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False))
    run = make_run()
    make_nodes(run, [(0, 7), (9, 50), (51, 100)])
    for lo, hi in ((7, 9), (50, 51)):
        RangeNode.objects.create(
            run=run, kind="bisect", state=NodeState.ERROR, lo=lo, hi=hi, cur=hi, resv=hi,
            width_failed=hi - lo,
        )  # fmt: skip
    RangeFailure.objects.create(run=run, key="7", attempts=3, error="no", state=FailureState.WAIVED)
    assert sweep_probe(run, source) is None
    assert assert_complete(run, source).is_complete
    Numbered.objects.filter(id=9).update(done=False)
    assert sweep_probe(run, source) == 9


@pytest.mark.usefixtures("keyed_tables")
def test_without_an_index_only_who_can_wait_is_told_what_needs_work() -> None:
    Numbered.objects.bulk_create(Numbered(id=id, done=id != 5) for id in range(100))
    source = QuerySource(Numbered.objects.all(), todo=Q(done=False), probing="filter")
    run = make_run()
    make_nodes(run, [(0, 100)])
    assert sweep_probe(run, source) is None
    with pytest.raises(NotCovered, match="the key 5 needs work"):
        assert_complete(run, source)


@pytest.mark.usefixtures("keyed_tables")
def test_a_source_that_cannot_tell_has_nothing_to_sweep() -> None:
    Named.objects.create(name="a", code="a", word="a")
    run = RangeRun.objects.create(name="t.Job", axis={"type": "text"}, lo_key="", hi_key="b")
    assert sweep_probe(run, QuerySource(Named.objects.all(), key="name")) is None


def test_the_proofs_read_the_nodes_of_their_run_alone_and_once() -> None:
    run, other = make_run(0, 20_000), make_run(0, 20_000)
    for each in (run, other, *(make_run(0, 20_000) for _ in range(30))):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO ranges_rangenode (run_id, kind, state, lo, hi, cur, resv, width_ok) "
                "SELECT %s, 'strand', 'done', n, n + 10, n + 10, n + 10, 10 "
                "FROM generate_series(0, 19990, 10) n",
                [each.id],
            )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ranges_rangenode")
    verdict = verify(run)
    assert verdict.is_complete
    assert verdict.nodes == 2_000
    chain = proof.CHAIN.format(lo="lo", hi="hi", cur="cur", cast="::numeric")
    params: dict[str, Any] = {"run": str(run.id), "lo": 0, "hi": 20_000}
    for statement in (chain, proof.MULTIRANGE, proof.LEDGER):
        plan = explain(statement, params)
        assert rows_read(plan, "ranges_rangenode") <= 2 * 2_000, scans(plan)
        assert not any("Seq Scan ranges_rangenode" in scan for scan in scans(plan))
