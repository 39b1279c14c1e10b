"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    WARNING = "warning"  # works, but not as well as it should, or not for long
    ERROR = "error"  # jobs do not run that should


@dataclass(frozen=True, kw_only=True)
class Finding:
    level: Level
    message: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Check:
    name: str
    findings: list[Finding]


def many(count: int, noun: str, *, most: int | None = None) -> str:
    """ "1 job", "3 jobs", "10,000 or more jobs"."""
    if most is not None and count > most:
        return f"{most:,} or more {noun}s"
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def age(seconds: float) -> str:
    """A length of time in its two largest useful units: "3 s", "5 min", "2 h 10 min", "4 d"."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        hours, minutes = divmod(whole // 60, 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(whole // 3_600, 24)
    return f"{days} d {hours} h" if hours and days < 10 else f"{days} d"
