"""How long leaves take, as counts in buckets: so percentiles need no row per leaf. Pure.

Bucket 0 holds up to a millisecond; each next one is half a power of two longer, so a percentile is
told within a fifth. Bucket 63 holds all that takes longer than about 35 days.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BUCKETS = 64
SHORTEST = 0.001


def bucket_of(seconds: float) -> int:
    if seconds <= SHORTEST:
        return 0
    return min(math.ceil(2 * math.log2(seconds / SHORTEST)), BUCKETS - 1)


def seconds_of(bucket: int) -> float:
    """The middle of a bucket, geometrically."""
    if bucket == 0:
        return SHORTEST / 2
    return float(SHORTEST * 2 ** ((bucket - 0.5) / 2))


def percentile(counts: Sequence[int | None], share: float) -> float | None:
    """The seconds that `share` (0 to 1) of the leaves did not exceed; None: there were none."""
    total = sum(count or 0 for count in counts)
    if not total:
        return None
    goal = share * total
    seen = 0
    for bucket, count in enumerate(counts):
        seen += count or 0
        if seen >= goal and count:
            return seconds_of(bucket)
    return seconds_of(len(counts) - 1)
