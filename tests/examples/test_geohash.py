"""Geohashes against published examples and against their own definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.geonames.geohash import ALPHABET, encode, shared_prefix

latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


def cell(geohash: str) -> tuple[float, float, float, float]:
    """South, north, west, east of a geohash, by halving the earth as the definition says."""
    south, north, west, east = -90.0, 90.0, -180.0, 180.0
    turn_of_longitude = True
    for character in geohash:
        for bit in format(ALPHABET.index(character), "05b"):
            if turn_of_longitude:
                middle = (west + east) / 2
                west, east = (middle, east) if bit == "1" else (west, middle)
            else:
                middle = (south + north) / 2
                south, north = (middle, north) if bit == "1" else (south, middle)
            turn_of_longitude = not turn_of_longitude
    return south, north, west, east


@pytest.mark.parametrize(
    ("latitude", "longitude", "geohash"),
    [
        (57.64911, 10.40744, "u4pruydqqvj"),
        (42.6, -5.6, "ezs42"),
        (-25.382708, -49.265506, "6gkzwgjz"),
        (0, 0, "s00000000"),
        (90, 180, "zzzzzzzzz"),
        (-90, -180, "000000000"),
    ],
)
def test_known_places(latitude: float, longitude: float, geohash: str) -> None:
    assert encode(latitude, longitude, len(geohash)) == geohash


@given(latitudes, longitudes, st.integers(1, 12))
def test_a_place_lies_in_its_cell(latitude: float, longitude: float, length: int) -> None:
    geohash = encode(latitude, longitude, length)
    south, north, west, east = cell(geohash)
    assert len(geohash) == length
    assert south - 1e-12 <= latitude <= north + 1e-12
    assert west - 1e-12 <= longitude <= east + 1e-12


@given(latitudes, longitudes, st.integers(1, 11))
def test_a_longer_geohash_lies_in_the_shorter(
    latitude: float, longitude: float, length: int
) -> None:
    assert encode(latitude, longitude, length + 1).startswith(encode(latitude, longitude, length))


@pytest.mark.parametrize(
    ("latitude", "longitude"), [(90.1, 0), (-91, 0), (0, 180.5), (0, -200), (float("nan"), 0)]
)
def test_what_is_not_on_the_globe_is_refused(latitude: float, longitude: float) -> None:
    with pytest.raises(ValueError, match="globe"):
        encode(latitude, longitude)


@given(st.lists(st.tuples(latitudes, longitudes), min_size=1))
def test_the_shared_prefix_begins_all_geohashes_and_no_longer_one_does(
    places: list[tuple[float, float]],
) -> None:
    geohashes = sorted(encode(*place) for place in places)
    prefix = shared_prefix(geohashes[0], geohashes[-1])
    assert all(geohash.startswith(prefix) for geohash in geohashes)
    assert len({geohash[: len(prefix) + 1] for geohash in geohashes}) > 1 or prefix == geohashes[0]
