"""What a run in memory looks like at one moment: its sums, its pace, and its tree."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from ranges.positions import Position, before, key_at, midpoint, width
from ranges.rates import as_float
from ranges.reports import Failure, Statistics
from ranges.states import CELL_PROCESSED, CELL_SKIPPED, NodeState, RunStatus
from ranges.tiles import Tiles, json_end

SAMPLES = 20
SAMPLE_EVERY_SECONDS = 0.5
TELL_EVERY_SECONDS = 1.0


class Pace:
    """How fast keys are dealt with, over the last ten seconds of activity."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int, int]] = deque(maxlen=SAMPLES)
        self._sampled_at = 0.0
        self._told_at = 0.0

    def clear(self) -> None:
        """Activity starts anew; what lay before it says nothing about it."""
        self._samples.clear()

    def is_due(self, now: float) -> bool:
        return now >= self._sampled_at

    def sample(self, now: float, tiles: Tiles) -> bool:
        """Take note of the sums; whether it is time to tell them."""
        self._sampled_at = now + SAMPLE_EVERY_SECONDS
        keys = sum(node.width_ok for node in tiles.nodes)
        self._samples.append((now, keys, tiles.items_ok, tiles.left()))
        if now < self._told_at:
            return False
        self._told_at = now + TELL_EVERY_SECONDS
        return True

    def since(self, *, is_running: bool) -> tuple[float, int, int, int] | None:
        """The oldest sample: when, and the keys, rows and keys left then."""
        return self._samples[0] if is_running and self._samples else None


def statistics_of(
    tiles: Tiles,
    failures: Sequence[Failure],
    pace: Pace,
    status: RunStatus,
    reason: str,
    active_seconds: float,
) -> Statistics:
    states = dict.fromkeys((str(state) for state in NodeState), 0)
    processed = skipped = failed = rows = rows_failed = leaves = 0
    for node in tiles.nodes:
        states[str(node.state)] += 1
        processed += node.width_ok
        skipped += node.width_skipped
        failed += node.width_failed
        rows += node.rows_ok
        rows_failed += node.rows_failed
        leaves += node.leaves
    left = tiles.left()
    now = time.monotonic()
    began, keys_then, rows_then, left_then = pace.since(is_running=status is RunStatus.RUNNING) or (
        now - active_seconds,
        0,
        0,
        tiles.total,
    )
    seconds = now - began
    dealt_with = left_then - left
    eta = None
    if not left:
        eta = 0.0
    elif dealt_with > 0:
        eta = as_float(left) * seconds / as_float(dealt_with)
    return Statistics(
        run_id=tiles.run_id,
        job=tiles.job.name,
        status=status,
        reason=reason,
        total=tiles.total,
        processed=processed,
        skipped=skipped,
        failed=failed,
        left=left,
        rows=rows,
        rows_failed=rows_failed,
        leaves=leaves,
        attempts=tiles.attempts,
        retries=tiles.retries,
        nodes=states,
        failures=tuple(failures),
        leaf_seconds=tiles.durations.report(),
        active_seconds=active_seconds,
        keys_per_second=as_float(processed - keys_then) / seconds if seconds > 0 else None,
        rows_per_second=as_float(rows - rows_then) / seconds if seconds > 0 else None,
        eta_seconds=eta,
        questions=tiles.questions,
        prune_errors=tiles.prune_errors,
        probe_timeouts=tiles.probe_timeouts,
    )


def tree_of(tiles: Tiles, depth: int) -> dict[str, Any]:
    for node in tiles.open.values():
        tiles.draw(node)
    return _block(tiles, *tiles.bounds, "", depth)


def _block(tiles: Tiles, lo: Position, hi: Position, path: str, depth: int) -> dict[str, Any]:
    axis = tiles.source.axis
    total = width(axis, lo, hi)
    left = failed = 0
    running = False
    for node in tiles.nodes:
        if before(node.lo, hi) and before(lo, node.hi):
            if node.state is NodeState.ERROR:
                failed += _overlap(axis, lo, hi, node.lo, node.hi)
            else:
                left += _overlap(axis, lo, hi, node.cur, node.hi)
                running = running or (
                    node.state is NodeState.RUNNING
                    and _overlap(axis, lo, hi, node.cur, node.hi) > 0
                )
    if not tiles.nodes:
        left = tiles.left() and total
    done, skipped = _shares(tiles, lo, hi, total - left - failed)
    if left:
        state = NodeState.RUNNING if running or left < total else NodeState.PENDING
    elif failed:
        state = NodeState.ERROR
    else:
        state = NodeState.DONE if done or not total else NodeState.SKIPPED
    block: dict[str, Any] = {
        "path": path,
        "lo": axis.to_json(key_at(axis, lo)),
        "hi": json_end(axis, hi),
        "state": str(state),
        "processed": done,
        "skipped": skipped,
        "failed": failed,
        "left": left,
    }
    middle = midpoint(axis, lo, hi) if depth else None
    if middle is not None:
        block["children"] = [
            _block(tiles, lo, middle, path + "0", depth - 1),
            _block(tiles, middle, hi, path + "1", depth - 1),
        ]
    return block


def _shares(tiles: Tiles, lo: Position, hi: Position, dealt_with: int) -> tuple[int, int]:
    """How much of a block was processed, and how much skipped."""
    if dealt_with <= 0 or not before(lo, hi):
        return 0, 0
    cells = tiles.cells[tiles.grid.first(lo) : tiles.grid.last(lo, hi) + 1]
    worked = sum(1 for cell in cells if cell & CELL_PROCESSED)
    passed = sum(1 for cell in cells if cell & CELL_SKIPPED)
    if not worked:
        return 0, dealt_with
    if not passed:
        return dealt_with, 0
    skipped = dealt_with * passed // (worked + passed)
    return dealt_with - skipped, skipped


def _overlap(axis: Any, lo: Position, hi: Position, start: Position, end: Position) -> int:
    left = start if before(lo, start) else lo
    right = end if before(end, hi) else hi
    return width(axis, left, right) if before(left, right) else 0
