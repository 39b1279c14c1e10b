"""Rules and moments for tests of what is made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from jobs.timing import CronRule, IntervalRule, Rule

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, time_zone: str = "UTC") -> CronRule:
    return CronRule(cron=expression, time_zone=time_zone)


moments = st.datetimes(
    min_value=datetime(1980, 1, 1),  # noqa: DTZ001 - the zone is given beside it
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-9))]),
)
intervals = st.builds(
    IntervalRule,
    seconds=st.integers(1, 100_000) | st.sampled_from([60, 3600, 86_400]),
    anchor=moments,
)
crons = st.sampled_from(
    [
        cron("* * * * *", "Europe/Berlin"),
        cron("*/7 3-5 * * *", "America/New_York"),
        cron("30 2 * * *", "Europe/Berlin"),
        cron("0 0 1,15 * MON"),
        cron("0 0 29 2 *", "Asia/Kathmandu"),
    ]
)
rules: st.SearchStrategy[Rule] = intervals | crons
