"""Pictures of a run come from its nodes alone, and their numbers add up."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.errors import InvalidInput
from ranges.axes import IntAxis, TextAxis
from ranges.cells import Cells
from ranges.drawing import coverage, lineage, tree
from ranges.models import RangeNode, RangeRun
from ranges.states import CELL_PROCESSED, CELL_SKIPPED

pytestmark = pytest.mark.django_db

NUMBERS = ("processed", "skipped", "failed", "left")


def make_run(lo: int, hi: int) -> RangeRun:
    return RangeRun.objects.create(name="t.Job", axis={"type": "int"}, lo=lo, hi=hi)


def make_node(
    run: RangeRun, lo: int, hi: int, *steps: tuple[int, str], state: str | None = None
) -> RangeNode:
    """A node that went as the steps say: (up to, "processed" or "skipped")."""
    cells = Cells(IntAxis(), int(run.lo), int(run.hi))
    marks, cur = cells.blank(lo, hi), lo
    width = {"processed": 0, "skipped": 0}
    for upto, kind in steps:
        flag = CELL_PROCESSED if kind == "processed" else CELL_SKIPPED
        cells.mark(marks, lo, cur, upto, flag)
        width[kind] += upto - cur
        cur = upto
    return RangeNode.objects.create(
        run=run, kind="strand", state=state or ("done" if cur == hi else "pending"), lo=lo, hi=hi,
        cur=cur, resv=cur, width_ok=width["processed"], width_skipped=width["skipped"],
        cells=bytes(marks),
    )  # fmt: skip


def numbers(block: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(block[name]) for name in NUMBERS)


def blocks(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from blocks(child)


def test_a_run_that_has_not_begun_is_one_pending_block() -> None:
    root = tree(make_run(0, 100), 3)
    assert root == {
        "path": "", "lo": 0, "hi": 100, "state": "pending", "processed": 0, "skipped": 0,
        "failed": 0, "left": 100,
    }  # fmt: skip


def test_blocks_show_what_happened_in_them() -> None:
    run = make_run(0, 1_024)
    make_node(run, 0, 512, (256, "skipped"), (512, "processed"))
    make_node(run, 512, 768, (600, "processed"), state="running")
    RangeNode.objects.create(run=run, kind="bisect", state="error", lo=768, hi=770, cur=770,
                             resv=770, width_failed=2)  # fmt: skip
    make_node(run, 770, 1_024)
    root = tree(run, 2)
    assert numbers(root) == (256 + 88, 256, 2, 168 + 254)
    assert root["state"] == "running"
    found = {block["path"]: block for block in blocks(root)}
    assert found["00"]["state"] == "skipped"
    assert found["01"]["state"] == "done"
    assert found["0"]["state"] == "done"
    assert found["10"]["state"] == "running"
    assert numbers(found["10"]) == (88, 0, 0, 168)
    assert found["11"]["state"] == "pending"
    assert numbers(found["11"]) == (0, 0, 2, 254)
    deep = {block["path"]: block for block in blocks(tree(run, 10, path="11"))}
    assert deep["1100000000"[:9]]["lo"] == 768
    assert any(block["state"] == "error" for block in deep.values())


def test_children_add_up_to_their_parents_and_the_root_to_the_run() -> None:
    chance = random.Random(3)
    run = make_run(-5_000, 10**9 + 7)
    cuts = sorted(chance.sample(range(-4_999, 10**9), 60))
    edges = [-5_000, *cuts, 10**9 + 7]
    for lo, hi in pairwise(edges):
        stop = chance.randint(lo, hi)
        places = sorted(chance.randint(lo, stop) for _ in range(6))
        steps = [(place, chance.choice(("processed", "skipped"))) for place in [*places, stop]]
        make_node(run, lo, hi, *steps)
    root = tree(run, 9)
    sums = [0, 0, 0, 0]
    for node in RangeNode.objects.filter(run=run):
        parts = (node.width_ok, node.width_skipped, 0, node.hi - node.cur)
        sums = [one + int(part) for one, part in zip(sums, parts, strict=True)]
    assert list(numbers(root)) == sums
    for block in blocks(root):
        assert sum(numbers(block)) == block["hi"] - block["lo"]
        if "children" in block:
            left, right = block["children"]
            assert (left["lo"], left["hi"], right["hi"]) == (block["lo"], right["lo"], block["hi"])
            assert [a + b for a, b in zip(numbers(left), numbers(right), strict=True)] == list(
                numbers(block)
            )
    strip = coverage(run, width=137)["buckets"]
    assert [sum(numbers(bucket)[place] for bucket in strip) for place in range(4)] == sums


def test_a_tree_has_five_hundred_blocks_at_most_and_goes_on_at_any_path() -> None:
    run = make_run(0, 2**20)
    for lo in range(0, 2**20, 2**10):
        make_node(run, lo, lo + 2**10, (lo + 2**9, "processed"))
    root = tree(run, 10)
    assert 400 < len(list(blocks(root))) <= 500
    below = tree(run, 4, path="0110110101")
    assert below["path"] == "0110110101"
    assert below["hi"] - below["lo"] == 2**10
    assert numbers(below) == (2**9, 0, 0, 2**9)
    with pytest.raises(InvalidInput) as caught:
        tree(run, 4, path="01x")
    assert caught.value.field == "path"
    with pytest.raises(InvalidInput):
        tree(run, 4, path="0" * 21)
    with pytest.raises(InvalidInput) as caught:
        tree(run, 11)
    assert caught.value.field == "depth"


def test_a_theft_leaves_no_trace_of_what_was_stolen_in_the_victims_cells() -> None:
    run = make_run(0, 2_048)
    victim = make_node(run, 0, 2_048, (512, "processed"))
    RangeNode.objects.filter(pk=victim.pk).update(hi=1_024)
    make_node(run, 1_024, 2_048, (1_536, "skipped"))
    found = {block["path"]: block["state"] for block in blocks(tree(run, 2))}
    assert found["00"] == "done"
    assert found["01"] == "pending"
    assert found["10"] == "skipped"
    assert found["11"] == "pending"


def test_the_strip_of_a_part_is_the_strip_of_these_keys() -> None:
    run = make_run(0, 1_000)
    make_node(run, 0, 1_000, (300, "processed"), (600, "skipped"))
    found = coverage(run, lo=250, hi="350", width=4)
    assert (found["lo"], found["hi"]) == (250, 350)
    assert [bucket["lo"] for bucket in found["buckets"]] == [250, 275, 300, 325]
    assert [bucket["state"] for bucket in found["buckets"]] == [
        "done",
        "done",
        "skipped",
        "skipped",
    ]
    assert len(coverage(run, lo=1, hi=4)["buckets"]) == 3
    assert coverage(run, lo=4, hi=4)["buckets"] == []
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"lo": -1}, "from"),
        ({"hi": 1_001}, "to"),
        ({"width": 0}, "width"),
        ({"lo": 5, "hi": 4}, "to"),
    )
    for options, field in wrong:
        with pytest.raises(InvalidInput) as caught:
            coverage(run, **options)
        assert caught.value.field == field


def test_keys_are_in_their_json_form_also_behind_the_last_one() -> None:
    run = RangeRun.objects.create(
        name="t.Job", axis={"type": "datetime", "align": None, "tz": None},
        lo=0, hi=1_000_000 * 86_400,
    )  # fmt: skip
    assert tree(run)["lo"] == datetime(1970, 1, 1, tzinfo=UTC).isoformat()
    big = RangeRun.objects.create(
        name="t.Job", axis={"type": "int", "sql_type": "bigint"}, lo=0, hi=2**63
    )
    root = tree(big)
    assert (root["lo"], root["hi"], root["left"]) == (0, None, str(2**63))
    assert json.loads(json.dumps(coverage(big)))["hi"] is None


def test_text_is_drawn_on_its_projection() -> None:
    run = RangeRun.objects.create(name="t.Job", axis={"type": "text"}, lo_key="a", hi_key="i")
    cells = Cells(TextAxis(), "a", "i")
    marks = cells.blank("a", "i")
    cells.mark(marks, "a", "a", "c", CELL_PROCESSED)
    cells.mark(marks, "a", "c", "e", CELL_SKIPPED)
    RangeNode.objects.create(run=run, kind="strand", state="running", lo_key="a", hi_key="i",
                             cur_key="e", resv_key="e", cells=bytes(marks))  # fmt: skip
    root = tree(run, 2)
    assert (root["lo"], root["hi"], root["state"]) == ("a", "i", "running")
    total = sum(numbers(root))
    assert numbers(root)[0] == pytest.approx(total / 4, rel=0.02)
    assert numbers(root)[3] == pytest.approx(total / 2, rel=0.02)
    buckets = coverage(run, width=4)["buckets"]
    assert [bucket["state"] for bucket in buckets] == ["done", "skipped", "running", "pending"]


def test_texts_that_begin_alike_are_one_block() -> None:
    same = "x" * 40
    run = RangeRun.objects.create(
        name="t.Job", axis={"type": "text"}, lo_key=same + "a", hi_key=same + "b"
    )
    assert tree(run)["state"] == "pending"
    RangeNode.objects.create(run=run, kind="strand", state="done", lo_key=same + "a",
                             hi_key=same + "b", cur_key=same + "b", resv_key=same + "b")  # fmt: skip
    assert tree(run)["state"] == "done"


def test_the_lineage_names_parents_and_comes_in_pages() -> None:
    run = make_run(0, 100)
    first = make_node(run, 0, 50, (50, "processed"))
    second = make_node(run, 50, 100)
    RangeNode.objects.filter(pk=second.pk).update(parent=first.pk)
    rows = lineage(run)
    assert [(row["id"], row["parent"], row["lo"], row["hi"]) for row in rows] == [
        (first.pk, None, 0, 50),
        (second.pk, first.pk, 50, 100),
    ]
    assert [row["id"] for row in lineage(run, after=first.pk)] == [second.pk]
    assert [row["id"] for row in lineage(run, limit=1)] == [first.pk]
    json.dumps(rows)


def test_a_billion_keys_are_drawn_from_a_few_hundred_rows() -> None:
    run = make_run(0, 10**9)
    edges = [10**9 * part // 300 for part in range(301)]
    for lo, hi in pairwise(edges):
        steps = [(lo + (hi - lo) * part // 20, "processed" if part % 2 else "skipped")
                 for part in range(1, 15)]  # fmt: skip
        make_node(run, lo, hi, *steps)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ranges_rangenode")
    with CaptureQueriesContext(connection) as asked:
        root = tree(run, 10)
        strip = coverage(run)
    assert len(asked) == 2
    assert sum(numbers(root)) == 10**9
    assert len(strip["buckets"]) == 200
