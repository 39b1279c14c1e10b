"""Runs as lanes would have left them: half done, pruned, failing."""

from __future__ import annotations

from random import Random
from typing import Any

from django.utils import timezone

from ranges.axes import IntAxis
from ranges.cells import Cells
from ranges.models import RangeFailure, RangeNode, RangeRun, RangeSample
from ranges.states import CELL_PROCESSED, CELL_SKIPPED
from tests.factories import ago, make_job, make_worker

SIZE = 50_000_000


def make_run(**values: Any) -> RangeRun:
    usual: dict[str, Any] = {
        "name": "shop.BackfillUsers",
        "axis": {"type": "int"},
        "lo": 0,
        "hi": SIZE,
        "status": "running",
        "planned": True,
        "probing": "blocks",
        "concurrency": 8,
        "started_at": ago(seconds=1_200),
        "resumed_at": ago(seconds=1_200),
        "created_at": ago(seconds=1_300),
        "leaf": {"max_size": 1_000},
    }
    return RangeRun.objects.create(**usual | values)


def make_node(run: RangeRun, lo: int, hi: int, *steps: tuple[int, str], **values: Any) -> RangeNode:
    """A piece that went as the steps say: (up to, "processed" or "skipped")."""
    cells = Cells(IntAxis(), int(run.lo), int(run.hi))
    marks, cur = cells.blank(lo, hi), lo
    width = {"processed": 0, "skipped": 0}
    for upto, kind in steps:
        cells.mark(marks, lo, cur, upto, CELL_PROCESSED if kind == "processed" else CELL_SKIPPED)
        width[kind] += upto - cur
        cur = upto
    leaves = max(1, width["processed"] // 1_000) if width["processed"] else 0
    usual: dict[str, Any] = {
        "kind": "strand",
        "state": "done" if cur == hi else "pending",
        "lo": lo,
        "hi": hi,
        "cur": cur,
        "resv": min(hi, cur + 1_000) if values.get("state") == "running" else cur,
        "width_ok": width["processed"],
        "width_skipped": width["skipped"],
        "rows_ok": width["processed"],
        "leaves": leaves,
        "retries": leaves // 150,
        "busy_seconds": leaves * 0.4,
        "leaf_seconds": {"20": leaves} if leaves else {},
        "cells": bytes(marks),
        "progress_at": timezone.now(),
    }
    return RangeNode.objects.create(run=run, **usual | values)


def failed(
    run: RangeRun, key: int, error: str = "ValueError: no such country", size: int = 1
) -> RangeFailure:
    node = RangeNode.objects.create(
        run=run, kind="bisect", state="error", lo=key, hi=key + size, cur=key + size,
        resv=key + size, width_failed=size, rows_failed=size, retries=2, error=error,
    )  # fmt: skip
    return RangeFailure.objects.create(
        run=run, node=node, key=str(key), upto="" if size == 1 else str(key + size), items=size,
        attempts=3, error=error, traceback=f"Traceback (most recent call last):\n  ...\n{error}",
    )  # fmt: skip


def busy(**values: Any) -> RangeRun:
    """Fifty million keys, half of them behind it, much of it pruned, a few that failed."""
    random = Random(5)
    job = make_job("processing", type="ranges.run", metadata={"internal": True})
    run = make_run(job_id=job.id, **values)
    worker = make_worker()
    strands = 16
    bad = [int(SIZE * share) for share in (0.031, 0.0735, 0.182, 0.2105, 0.44, 0.702, 0.703)]
    for number in range(strands):
        lo, hi = SIZE * number // strands, SIZE * (number + 1) // strands
        share = max(0.06, min(1.0, random.gauss(0.62, 0.24))) if number % 5 else 1.0
        end = lo + int((hi - lo) * share)
        cur, steps = lo, []
        holes = sorted(each for each in bad if lo <= each < end)
        pieces: list[tuple[int, int, list[tuple[int, str]]]] = []
        begin = lo
        while cur < end:
            kind = "skipped" if random.random() < 0.36 else "processed"
            upto = min(end, cur + int((hi - lo) * random.uniform(0.03, 0.2)))
            if holes and upto > holes[0]:
                steps.append((holes[0], kind))
                pieces.append((begin, holes[0], steps))
                begin = cur = holes.pop(0) + 1
                steps = []
                continue
            steps.append((upto, kind))
            cur = upto
        for start, stop, done in pieces:
            make_node(run, start, stop, *done)
        is_done = end == hi
        lane = (
            make_job(
                "processing" if not is_done and number % 2 else "pending",
                type="ranges.lane",
                payload={"run": str(run.id), "index": number},
                parent_id=job.id,
                child_key=f"lane-{number}",
                metadata={"internal": True},
                **({"worker_id": worker.id} if not is_done and number % 2 else {}),
            )
            if not is_done and number % 2
            else None
        )
        extra = {"state": "running", "owner_job": lane.id} if lane else {}
        make_node(run, begin, hi, *steps, **extra)
    for key in bad:
        failed(run, key)
    for number in range(20):
        RangeSample.objects.create(
            run=run, at=ago(seconds=400 - 20 * number), rows_ok=9_000_000 + number * 190_000,
            rows_failed=number // 3, width_done=20_000_000 + number * 300_000,
            leaves=9_000 + number * 190, active_seconds=800 + 20 * number, lanes=8,
        )  # fmt: skip
    return run
