"""What the page of dead letters shows above the list, read once for all who look."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from jobs import deadletters
from jobs.console.kept import kept
from jobs.console.words import count
from jobs.database import Database, DjangoDatabase
from jobs.deadletters import Group, Hour
from jobs.limits import limited

NAME, ALL_NAME = "dead_letters", "all_dead_letters"
FRESH_SECONDS, LONGEST_FRESH_SECONDS = 2.0, 15.0
SHARE = 0.1
"""Of the time, at most this is spent on reading: with very many dead letters it is read less often."""
SECONDS = 3.0
FEW, MOST = 15, 200
"""How many groups are shown, and how many to whom wants all."""
MOST_OF_AN_HOUR, FIRST_OF_AN_HOUR = 2_000, 200
"""How far an hour is counted where there is time for it, and at first."""
PATIENCE = 0.04

# A range of the index `job_dead` for each hour, counted as far as the cap.
BY_HOUR = """
SELECT hour.start, counted.n
FROM generate_series(
    date_trunc('hour', now()) - interval '23 hours', date_trunc('hour', now()), interval '1 hour'
) AS hour (start)
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM jobs_job j
        WHERE j.status = 'failed'
            AND j.failed_at >= hour.start AND j.failed_at < hour.start + interval '1 hour'
        ORDER BY j.failed_at, j.id LIMIT %(cap)s + 1
    ) entry
) counted
ORDER BY hour.start
"""

# Both ends of the same index.
ENDS = """
SELECT
    (SELECT failed_at FROM jobs_job WHERE status = 'failed' ORDER BY failed_at, id LIMIT 1),
    (SELECT failed_at FROM jobs_job WHERE status = 'failed'
     ORDER BY failed_at DESC, id DESC LIMIT 1)
"""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """An hour of the chart; the whole is 100 high."""

    start: datetime
    text: str
    """The count, "2,000+" when it is a least one."""
    x: int
    y: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Letters:
    groups: list[tuple[Group, list[int]]]
    """Each with its deaths by hour, this one last."""
    is_cut: bool
    """There are more groups."""
    bars: list[Bar]
    most: str
    """What the highest bar stands for."""
    this_hour: str
    hour_before: str
    oldest: datetime | None
    newest: datetime | None


class _Last:
    """How long the last reading of this process took."""

    seconds = 0.0


def letters(*, all_groups: bool = False) -> Letters:
    """Raises TooBroad after 3 s."""
    name, limit = (ALL_NAME, MOST) if all_groups else (NAME, FEW)
    return kept(name, fresh_seconds(_Last.seconds), lambda: _timed(limit))


def fresh_seconds(took: float) -> float:
    """For how long a reading is taken for new."""
    return min(LONGEST_FRESH_SECONDS, max(FRESH_SECONDS, took / SHARE))


def _timed(limit: int) -> Letters:
    began = time.monotonic()
    found = _read(limit)
    _Last.seconds = time.monotonic() - began
    return found


def _read(limit: int) -> Letters:
    database = DjangoDatabase()
    found = deadletters.groups(database, limit=limit)
    trends = deadletters.trends(database, [group.key for group in found.groups])
    with limited(database, seconds=SECONDS):
        hours = _hours(database, FIRST_OF_AN_HOUR)
        oldest, newest = database.rows(ENDS, {})[0]
    if any(hour.is_capped for hour in hours):
        rounds = deadletters.Rounds(database, seconds=PATIENCE)
        hours = rounds.read(partial(_hours, database, MOST_OF_AN_HOUR)) or hours
    bars = bars_of(hours)
    return Letters(
        groups=[
            (group, [hour.count for hour in trends.get(group.key, [])]) for group in found.groups
        ],
        is_cut=found.is_cut,
        bars=bars,
        most=max(bars, key=lambda bar: bar.height).text if bars else "0",
        this_hour=bars[-1].text if bars else "0",
        hour_before=bars[-2].text if len(bars) > 1 else "0",
        oldest=oldest,
        newest=newest,
    )


def _hours(database: Database, cap: int) -> list[Hour]:
    return [
        Hour(start=start, count=min(n, cap), is_capped=n > cap)
        for start, n in database.rows(BY_HOUR, {"cap": cap})
    ]


def bars_of(hours: list[Hour]) -> list[Bar]:
    """The highest is as high as the chart; what is not zero can be seen."""
    most = max((hour.count for hour in hours), default=0)
    found = []
    for place, hour in enumerate(hours):
        height = max(2.0, 100 * hour.count / most) if hour.count else 0.0
        text = count(hour.count, is_least=hour.is_capped)
        found.append(Bar(start=hour.start, text=text, x=place * 10, y=100 - height, height=height))
    return found
