"""Geohashes: a place as short text, where near places tend to begin alike.

The earth is halved again and again, by longitude and latitude in turn; each half is one bit, and
five bits are one character. Pure.
"""

from __future__ import annotations

ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
LENGTH = 9
"""Enough for about five metres."""


def encode(latitude: float, longitude: float, length: int = LENGTH) -> str:
    """The cell of the place, as `length` characters. Raises ValueError off the globe."""
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ValueError(f"{latitude}, {longitude} is not on the globe")
    bits = 5 * length
    east = _steps(longitude, 180, (bits + 1) // 2)
    north = _steps(latitude, 90, bits // 2)
    interleaved = 0
    for bit in range(bits):
        # Longitude has the first bit, so counted from the last, its turn depends on the length.
        from_east = (bits - bit) % 2 == 1
        source = east if from_east else north
        interleaved |= (source & 1) << bit
        if from_east:
            east >>= 1
        else:
            north >>= 1
    return "".join(ALPHABET[interleaved >> 5 * place & 31] for place in reversed(range(length)))


def shared_prefix(first: str, last: str) -> str:
    """The cell that holds all places, given the first and the last of their sorted geohashes."""
    length = 0
    while first[length : length + 1] == last[length : length + 1] != "":
        length += 1
    return first[:length]


def _steps(value: float, limit: float, bits: int) -> int:
    """How many of 2 ** bits equal steps lie below the value; the upper edge is in the last."""
    return min(int((value + limit) / (2 * limit) * (1 << bits)), (1 << bits) - 1)
