"""What a worker process holds, in memory that outlives it.

The supervisor makes the table and reads it when a child is dead or hung; the child writes it with
single stores, no locks. So after a death the supervisor knows which jobs had started (their attempt
is spent) and which were only waiting in memory (handed back unspent).

Layout: a header of 64 bytes (pulse: u64, grows while the child's main thread lives), then entries of
40 bytes: job id (16), lease epoch (u64), deadline (f64, CLOCK_MONOTONIC seconds, 0 = none),
state (u8: 0 free, 1 claimed, 2 started), padding.

A place is taken at the claim and freed only after the outcome is in the database: a job that ran
but whose completion was not written counts as started.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = 64
ENTRY = 40
FREE, CLAIMED, STARTED = 0, 1, 2

_PULSE = struct.Struct("<Q")
_CLAIM = struct.Struct("<16sQdB")
_START = struct.Struct("<dB")
_START_OFFSET = 24
_STATE_OFFSET = 32


@dataclass(frozen=True, kw_only=True)
class Held:
    job_id: str
    lease_epoch: int
    started: bool
    deadline: float


class Places:
    """The table; one writer (the child), one reader (the supervisor)."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self._memory = mmap.mmap(descriptor, HEADER + size * ENTRY)
        self._free = list(range(size - 1, -1, -1))
        self._pulse = 0

    @classmethod
    def create(cls, size: int) -> Places:
        """A table in anonymous memory whose descriptor a child can inherit."""
        descriptor = os.memfd_create("coppice-places", 0)
        os.ftruncate(descriptor, HEADER + size * ENTRY)
        return cls(descriptor, size)

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)

    # The child's side

    @property
    def room(self) -> int:
        """How many places are free."""
        return len(self._free)

    def beat(self) -> None:
        self._pulse += 1
        _PULSE.pack_into(self._memory, 0, self._pulse)

    def take(self, job_id: str, lease_epoch: int) -> int:
        """Note a claimed job; returns its place. Raises IndexError when the table is full."""
        place = self._free.pop()
        _CLAIM.pack_into(
            self._memory,
            HEADER + place * ENTRY,
            bytes.fromhex(job_id.replace("-", "")),
            lease_epoch,
            0.0,
            CLAIMED,
        )
        return place

    def start(self, place: int, deadline: float = 0.0) -> None:
        """Note that the handler starts now; `deadline` in CLOCK_MONOTONIC seconds, 0 for none."""
        _START.pack_into(self._memory, HEADER + place * ENTRY + _START_OFFSET, deadline, STARTED)

    def free(self, place: int) -> None:
        self._memory[HEADER + place * ENTRY + _STATE_OFFSET] = FREE
        self._free.append(place)

    # The supervisor's side

    @property
    def pulse(self) -> int:
        return int(_PULSE.unpack_from(self._memory, 0)[0])

    def held(self) -> Iterator[Held]:
        for place in range(self.size):
            id, epoch, deadline, state = _CLAIM.unpack_from(self._memory, HEADER + place * ENTRY)
            if state != FREE:
                yield Held(
                    job_id=str(uuid.UUID(bytes=id)),
                    lease_epoch=epoch,
                    started=state == STARTED,
                    deadline=deadline,
                )
