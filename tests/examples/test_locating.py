from datetime import UTC, datetime

import pytest

from examples.geonames.locating import Location, locate, utc_offset_minutes

SUMMER = datetime(2026, 7, 1, 12, tzinfo=UTC)
WINTER = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time_zone", "at", "minutes"),
    [
        ("Europe/Berlin", WINTER, 60),
        ("Europe/Berlin", SUMMER, 120),
        ("Asia/Kolkata", SUMMER, 330),
        ("Asia/Kathmandu", SUMMER, 345),
        ("America/St_Johns", WINTER, -210),
        ("Pacific/Kiritimati", WINTER, 840),
        ("UTC", WINTER, 0),
    ],
)
def test_the_offset_is_that_of_the_zone_at_that_moment(
    time_zone: str, at: datetime, minutes: int
) -> None:
    assert utc_offset_minutes(time_zone, at) == minutes


def test_the_offset_changes_at_the_moment_of_the_clock_change() -> None:
    change = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert utc_offset_minutes("Europe/Berlin", change.replace(hour=0, minute=59)) == 60
    assert utc_offset_minutes("Europe/Berlin", change) == 120


def test_a_location_is_the_offset_and_the_geohash() -> None:
    assert locate(57.64911, 10.40744, "Europe/Copenhagen", SUMMER) == Location(120, "u4pruydqq")
