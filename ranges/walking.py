"""The walk: from a cursor to the next leaf. Both engines, in memory and on PostgreSQL, take it.

    step = walker.next(cur, hi)
    step.lo is None:  [cur, step.hi) needs no work; the walk goes on at step.hi, which may be `hi`
    else:             [cur, step.lo) needs no work; [step.lo, step.hi) is the next leaf

A skip is always an answer about exactly these keys: a witness ("the next key that needs work is
...") or a `should_process` that returned False. What times out or fails is processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from jobs.errors import CoppiceError
from ranges.ahead import Ahead
from ranges.blocks import Doubts, Pruner
from ranges.positions import Position, before, least, midpoint
from ranges.sources import FarSighted, Found, ProbeTimeout, Source

TIMEOUTS_IN_A_ROW = 3

# A walk over many small skipped blocks comes up for air: its cursor is worth storing.
_SKIPS_PER_STEP = 64


class Step(NamedTuple):
    lo: Position | None
    hi: Position
    items: int | None = None
    """How many rows, or how much width, the leaf holds, if the source said so."""


class Sizer(Protocol):
    def size(self) -> int:
        """How many rows (or how much width) the next leaf should hold."""
        ...


class BrokenSource(CoppiceError):
    """A source answered with bounds outside the question: trusting it would lose or repeat keys."""


@dataclass(slots=True)
class Tally:
    """What happened on the walk since the last `take_tally`."""

    questions: int = 0
    prune_errors: int = 0
    prune_timeouts: int = 0
    probe_timeouts: int = 0
    last_error: str = ""
    skipped: tuple[tuple[Position, Position, str], ...] = ()
    """Blocks that `should_process` skipped: lo, hi, path. At most a hundred."""

    def __bool__(self) -> bool:
        return bool(self.questions or self.probe_timeouts)


class Walker:
    """One per strand (or lane). Stateless but for what saves questions: any cursor may be given.

    `blind`: probing is off for the run, so all keys are walked and each leaf filters for itself.
    It turns on by itself after three probes in a row that took too long.
    """

    def __init__(
        self,
        source: Source,
        sizer: Sizer,
        pruner: Pruner | None = None,
        *,
        blind: bool = False,
    ) -> None:
        self.source = source
        self.sizer = sizer
        self.blind = blind
        self._pruner = pruner
        self._ahead = Ahead()
        self._far: FarSighted | None = source if hasattr(source, "next_leaves") else None  # type: ignore[assignment]
        self._timeouts_in_a_row = 0
        self._probe_timeouts = 0

    def next(self, cur: Position, hi: Position) -> Step:
        """The next step in [cur, hi), which must not be empty."""
        if self._pruner is None:
            found = self._find(cur, hi)
            return Step(None, hi) if found is None else Step(found[0], found[1], found[2])
        return self._between_blocks(cur, hi, self._pruner)

    @property
    def has_tally(self) -> bool:
        """Whether there is anything to take. Next to free."""
        if self._probe_timeouts:
            return True
        return self._pruner is not None and self._pruner.doubts.questions > 0

    def take_tally(self) -> Tally:
        tally = Tally(probe_timeouts=self._probe_timeouts)
        self._probe_timeouts = 0
        if self._pruner is not None and self._pruner.doubts.questions:
            doubts, self._pruner.doubts = self._pruner.doubts, Doubts()
            tally.questions = doubts.questions
            tally.prune_errors = doubts.errors
            tally.prune_timeouts = doubts.timeouts
            tally.last_error = doubts.last_error
            tally.skipped = tuple((lo, hi, block.path) for lo, hi, block in doubts.skipped)
        return tally

    def _between_blocks(self, cur: Position, hi: Position, pruner: Pruner) -> Step:
        at = cur
        for _ in range(_SKIPS_PER_STEP):
            found = self._find(at, hi)
            if found is None:
                return Step(None, hi)
            answer = pruner.look(found.first, hi, found.upto)
            if not answer.skip:
                items = found.items if answer.hi == found.upto else None
                return Step(found.first, answer.hi, items)
            at = answer.hi
            if not before(at, hi):
                break
        return Step(None, at)

    def _find(self, cur: Position, hi: Position) -> Found | None:
        size = self.sizer.size()
        found = self._ahead.take(cur, hi, size)
        if found is not None:
            return found
        try:
            found = self._ask(cur, hi, size)
            self._timeouts_in_a_row = 0
        except ProbeTimeout:
            self._note_timeout()
            found = self._unseen(cur, hi, size)
        if found is None:
            return None
        first, upto, _ = found
        # Bounds of one axis are of one type: int or str.
        if not cur <= first < upto <= hi:  # type: ignore[operator]
            raise BrokenSource(f"[{first!r}, {upto!r}) is no leaf of [{cur!r}, {hi!r})")
        return found

    def _ask(self, cur: Position, hi: Position, size: int) -> Found | None:
        count = self._ahead.wanted(size)
        if count > 1 and self._far is not None and not self.blind:
            try:
                leaves = self._far.next_leaves(cur, hi, size, count)
            except ProbeTimeout:
                self._ahead.took_too_long()
            else:
                self._ahead.keep(leaves[1:])
                return leaves[0] if leaves else None
        found = self.source.next_leaf(cur, hi, size, blind=self.blind)
        self._ahead.keep(())
        return found

    def _unseen(self, cur: Position, hi: Position, size: int) -> Found | None:
        """A leaf at the cursor though nothing is known of its keys."""
        if not self.blind:
            try:
                return self.source.next_leaf(cur, hi, size, blind=True)
            except ProbeTimeout:
                self._note_timeout()
        if isinstance(cur, int):
            # A range of so many places holds at most so many distinct keys.
            return Found(cur, least(cur + size, hi))
        for _ in range(10):
            middle = midpoint(self.source.axis, cur, hi)
            if middle is None:
                break
            hi = middle
        return Found(cur, hi)

    def _note_timeout(self) -> None:
        self._probe_timeouts += 1
        self._timeouts_in_a_row += 1
        if self._timeouts_in_a_row >= TIMEOUTS_IN_A_ROW:
            self.blind = True
