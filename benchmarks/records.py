"""What handlers tell about their runs: one small record per event, in a file that all append to.

A single write to a file opened with O_APPEND is whole or absent, so nothing is lost or torn when
a worker is killed. The clock is CLOCK_MONOTONIC, the same for all processes of a machine.
"""

from __future__ import annotations

import os
import struct
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

PATH_VARIABLE = "BENCHMARK_RECORDS"
START, END = 1, 2

_RECORD = struct.Struct("<iid")
_descriptors: dict[str, int] = {}


def note(number: int, event: int) -> None:
    """Called by handlers: something happened to the job with this number, now."""
    path = os.environ[PATH_VARIABLE]
    descriptor = _descriptors.get(path)
    if descriptor is None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        _descriptors[path] = descriptor
    os.write(descriptor, _RECORD.pack(number, event, time.monotonic()))


@dataclass(frozen=True, kw_only=True)
class Records:
    """Times of CLOCK_MONOTONIC, by the jobs' numbers."""

    starts: dict[int, list[float]]
    ends: dict[int, list[float]]

    @property
    def interrupted(self) -> set[int]:
        """Jobs that have started and not ended."""
        return self.starts.keys() - self.ends.keys()


def read(path: Path) -> Records:
    starts: dict[int, list[float]] = defaultdict(list)
    ends: dict[int, list[float]] = defaultdict(list)
    content = path.read_bytes() if path.exists() else b""
    whole = len(content) - len(content) % _RECORD.size
    for number, event, at in _RECORD.iter_unpack(content[:whole]):
        (starts if event == START else ends)[number].append(at)
    return Records(starts=dict(starts), ends=dict(ends))
