"""What becomes of a leaf that failed: tried again, halved, done item by item, or recorded.

    leaf fails -> a node of its own, tried whole until its attempts are spent
               -> halved by rows, each half tried once
               -> below 33 keys: key by key
               -> the keys that fail are recorded; each has a node in state error

A leaf that was cut short by a death goes the same way, but never key by key, since the next death
would take the good keys' work with it: it is halved down to the key that kills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.database import Database
from jobs.errors import CoppiceError
from jobs.texts import clean, describe_error, fingerprint, format_traceback
from ranges.held import Node, Segment
from ranges.loading import Loaded
from ranges.models import RangeFailure
from ranges.positions import Position, end_key
from ranges.splitting import halve
from ranges.states import NodeState

ITEMWISE = 32
"""So few keys are done one by one."""

FAILURES = """
SELECT count(*) FROM (
    SELECT FROM ranges_rangefailure WHERE run_id = %(run)s::uuid LIMIT %(limit)s
) f
"""


class DiedAtWork(CoppiceError):
    """The worker died while it worked on this, or was kept from ending it."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An error as it is stored."""

    error: str
    traceback: str
    fingerprint: str

    @classmethod
    def of(cls, name: str, error: BaseException | str) -> Fault:
        if isinstance(error, str):
            text, trace = clean(error, 5_000), ""
        else:
            text, trace = clean(describe_error(error), 5_000), format_traceback(error)
        return cls(error=text, traceback=trace, fingerprint=fingerprint(name, text))


@dataclass(frozen=True, kw_only=True)
class Lost:
    """One key, or one range, that is recorded as failed."""

    lo: Position
    hi: Position
    items: int
    attempts: int
    fault: Fault
    is_key: bool


def is_over_budget(database: Database, loaded: Loaded) -> bool:
    """Whether the run has recorded so many failures that whole leaves are recorded from now on."""
    limit = loaded.options.retry.bisect_budget
    found = database.rows(FAILURES, {"run": loaded.run_id, "limit": limit})
    return bool(found[0][0] >= limit)


def again(node: Node, fault: Fault, *, attempts: int, delay: float) -> Segment:
    """The leaf as a node of its own, to be tried whole."""
    return Segment(
        lo=node.cur,
        hi=node.resv,
        state=NodeState.PENDING,
        attempts=attempts,
        delay=delay,
        error=fault.error,
        traceback=fault.traceback,
        fingerprint=fault.fingerprint,
        depth=node.depth,
    )


def halves(
    loaded: Loaded, node: Node, fault: Fault, *, attempts: int, kills: bool
) -> list[Segment] | None:
    """Two nodes, each to be tried once; None if the leaf cannot be cut."""
    cut = halve(loaded.source, node.cur, node.resv)
    if cut is None:
        return None
    return [
        Segment(
            lo=lo,
            hi=hi,
            state=NodeState.PENDING,
            attempts=attempts,
            interrupted=1 if kills else 0,
            error=fault.error,
            traceback=fault.traceback,
            fingerprint=fault.fingerprint,
            depth=node.depth + 1,
        )
        for lo, hi in ((node.cur, cut), (cut, node.resv))
    ]


def lost(one: Lost, *, depth: int) -> Segment:
    return Segment(
        lo=one.lo,
        hi=one.hi,
        state=NodeState.ERROR,
        items=one.items,
        attempts=one.attempts,
        error=one.fault.error,
        traceback=one.fault.traceback,
        fingerprint=one.fault.fingerprint,
        depth=depth,
        failures=[one],
    )


def record(loaded: Loaded, alias: str, ids: Sequence[int], segments: Sequence[Segment]) -> int:
    """Write the failures of these nodes; returns how many. In the caller's transaction."""
    rows = [
        RangeFailure(
            run_id=loaded.run.id,
            node_id=id,
            key=loaded.key_json(one.lo),
            upto="" if one.is_key else _end(loaded, one.hi),
            items=one.items,
            attempts=one.attempts,
            error=one.fault.error,
            traceback=one.fault.traceback,
            error_fingerprint=one.fault.fingerprint,
        )
        for id, segment in zip(ids, segments, strict=True)
        for one in segment.failures
    ]
    if rows:
        RangeFailure.objects.using(alias).bulk_create(rows)
    return len(rows)


def joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours that are done become one; failed keys stay by themselves."""
    found: list[Segment] = []
    for segment in segments:
        last = found[-1] if found else None
        if last is not None and last.state == segment.state == NodeState.DONE:
            found[-1] = Segment(
                lo=last.lo,
                hi=segment.hi,
                state=NodeState.DONE,
                items=last.items + segment.items,
                depth=last.depth,
            )
        else:
            found.append(segment)
    return found


def _end(loaded: Loaded, hi: Position) -> str:
    axis = loaded.source.axis
    key = end_key(axis, hi)
    return "end" if key is None else str(axis.to_json(key))
