"""Finished neighbours become one node, and nothing that was counted or drawn is lost."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from django.db.models import F, Max, Sum

from ranges import merging
from ranges.axes import IntAxis
from ranges.cells import Cells
from ranges.drawing import coverage
from ranges.held import Segment
from ranges.merging import Finished, merge, stretches
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.planting import plant
from ranges.progress import progress
from ranges.proof import verify
from ranges.rewriting import rewrite
from ranges.states import NodeState
from ranges.walking import Step
from tests.database.ranges.test_nodes import lane, make_run
from tests.database.ranges.test_nodes_machine import Game
from tests.rivals import other_session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_FINISHED", 1)


def known(run: RangeRun) -> dict[str, Any]:
    """All that a reader learns of a run, but for its rows."""
    now = progress(run)
    sums = RangeNode.objects.filter(run=run).aggregate(
        Sum("fenced"), Sum("thefts"), Sum("busy_seconds"), Max("finished_at")
    )
    facts = (now.processed, now.skipped, now.failed, now.left, now.rows, now.leaves, now.retries)
    return {
        "facts": facts,
        "sums": {**sums, "busy_seconds__sum": round(sums["busy_seconds__sum"], 9)},
        "p95": now.p95_seconds,
        "cells": flags(run),
    }


def flags(run: RangeRun) -> bytes:
    """The cells of all nodes, laid over one another."""
    grid = Cells(IntAxis(), 0, int(run.hi))
    joined = grid.blank(0, int(run.hi))
    for row in RangeNode.objects.filter(run=run):
        # A skip that a thief cut short may have left flags behind the end.
        own = len(grid.blank(int(row.lo), int(row.hi))) if row.lo != row.hi else 0
        for place, flag in enumerate(bytes(row.cells)[:own], grid.first(int(row.lo))):
            joined[place] |= flag
    return bytes(joined)


def test_what_ended_the_same_way_and_touches_is_a_stretch() -> None:
    def row(id: int, state: str, lo: int, hi: int) -> Finished:
        return Finished(id, state, lo, hi, b"")

    rows = [
        row(1, "done", 0, 5), row(2, "done", 5, 7), row(3, "skipped", 7, 8), row(4, "done", 8, 9),
        row(5, "done", 10, 12), row(6, "done", 12, 13), row(7, "done", 13, 20),
    ]  # fmt: skip
    assert [[each.id for each in one] for one in stretches(rows)] == [[1, 2], [5, 6, 7]]
    assert list(stretches([])) == []


def test_a_leaf_that_failed_for_a_while_leaves_one_node_in_the_end() -> None:
    run = make_run(1_000)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None
    nodes.reserve(node, Step(0, 100))
    nodes.commit(node, Step(100, 200), items=100, seconds=0.02, pace=0.01)
    _, rest = rewrite(nodes, node, [Segment(lo=100, hi=200, state=NodeState.PENDING)])
    assert rest is not None
    nodes.reserve(rest, Step(200, 1_000))
    nodes.commit(rest, Step(None, 1_000), items=800, seconds=0.5, pace=0.01)
    again = nodes.claim()
    assert again is not None
    nodes.reserve(again, Step(100, 200))
    nodes.commit(again, Step(None, 200), items=100, seconds=0.01, pace=0.01)
    before, picture = known(run), coverage(run, width=10)

    assert merge(nodes) == 2

    row = RangeNode.objects.get()
    assert (row.id, row.kind, row.lo, row.hi, row.cur) == (node.id, "strand", 0, 1_000, 1_000)
    assert (row.leaves, row.rows_ok, row.width_ok, row.retries) == (3, 1_000, 1_000, 1)
    assert (known(run), coverage(run, width=10)) == (before, picture)
    assert verify(run).is_complete


def test_failures_and_children_follow_the_nodes_that_are_merged() -> None:
    run = make_run(100, strands=4)
    nodes = lane(run)
    made = list(RangeNode.objects.order_by("lo"))
    for row in made[:3]:
        taken = nodes.claim()
        assert taken is not None
        assert taken.id == row.id
        nodes.reserve(taken, Step(taken.lo, taken.hi))
        nodes.commit(taken, Step(None, taken.hi), items=25, seconds=0.01, pace=0.01)
    RangeNode.objects.filter(id=made[3].id).update(parent=made[2])
    RangeNode.objects.filter(id=made[0].id).update(parent=made[1])
    RangeFailure.objects.create(
        run=run, node=made[1], key="30", attempts=1, error="E: it was", state="retried"
    )

    assert merge(nodes) == 2

    assert RangeFailure.objects.get().node_id == made[0].id
    assert RangeNode.objects.get(id=made[3].id).parent_id == made[0].id
    assert RangeNode.objects.get(id=made[0].id).parent_id is None


def test_merging_after_any_history_changes_no_sum_no_cell_and_no_proof() -> None:
    for _ in range(10):
        seed = random.randrange(10**9)
        try:
            game = Game(random.Random(seed))
            game.play(60)
            run = game.run
            before = known(run)
            merge(lane(run))
            assert known(run) == before
            assert verify(run).ok
            rows = list(RangeNode.objects.filter(run=run, state="done").order_by("lo", "hi"))
            assert not [1 for one, two in pairwise(rows) if one.hi == two.lo]
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_few_nodes_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_FINISHED", 4)
    run = make_run(100, strands=4)
    RangeNode.objects.update(state="done", cur=F("hi"), resv=F("hi"))
    assert merge(lane(run)) == 0
    assert RangeNode.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_nothing_is_merged_while_somebody_decides_about_the_run() -> None:
    run = make_run(100, strands=1)
    nodes: Nodes = lane(run)
    RangeNode.objects.all().delete()
    plant(nodes, [(0, 50), (50, 100)])
    RangeNode.objects.update(state="skipped", cur=F("hi"), resv=F("hi"))
    with other_session() as session, session.transaction():
        session.rows("SELECT id FROM ranges_rangerun FOR NO KEY UPDATE", {})
        assert merge(nodes) == 0
    assert merge(nodes) == 1
