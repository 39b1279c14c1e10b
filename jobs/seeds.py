"""E-mail to look at. Offered only where the mail backend does not really send."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

from django.conf import settings

from jobs.seeding import Kind, Seed

HARMLESS = ("console", "dummy", "filebased", "locmem")


def kinds() -> Sequence[Kind]:
    if not mail_is_harmless():
        return ()
    return (
        Kind(make=_fresh, weight=6),
        Kind(make=_waiting_for_long, weight=5),
        Kind(make=_in_a_moment, weight=3),
        Kind(make=_in_hours, weight=2),
        Kind(make=_order, size=3, weight=2),
        Kind(make=_digest, once=True),
    )


def mail_is_harmless() -> bool:
    mailers: dict[str, dict[str, Any]] = getattr(settings, "MAILERS", {})
    backend = mailers.get("default", {}).get("BACKEND") or settings.EMAIL_BACKEND
    return backend in {f"django.core.mail.backends.{name}.EmailBackend" for name in HARMLESS}


def _mail(random: Random, subject: str) -> dict[str, Any]:
    return {
        "to": f"reader{random.randrange(1, 1_000)}@example.org",
        "subject": subject,
        "text": "Made by seed_jobs.",
    }


def _fresh(random: Random) -> list[Seed]:
    return [
        Seed(
            type="send_email",
            payload=_mail(random, "Welcome"),
            shows="an e-mail",
            priority=random.randint(1, 3),
        )
    ]


def _waiting_for_long(random: Random) -> list[Seed]:
    minutes = random.randrange(5, 90)
    return [
        Seed(
            type="send_email",
            payload=_mail(random, "Newsletter"),
            shows=f"due {minutes} minutes ago: aging has made it more urgent",
            priority=3,
            due_in=timedelta(minutes=-minutes),
        )
    ]


def _in_a_moment(random: Random) -> list[Seed]:
    return [
        Seed(
            type="send_email",
            payload=_mail(random, "Reminder"),
            shows="due in a few seconds",
            due_in=timedelta(seconds=random.randrange(2, 15)),
        )
    ]


def _in_hours(random: Random) -> list[Seed]:
    return [
        Seed(
            type="send_email",
            payload=_mail(random, "Your appointment"),
            shows="due much later",
            expected="pending",
            priority=random.randint(1, 3),
            due_in=timedelta(hours=random.randrange(2, 72)),
        )
    ]


def _order(random: Random) -> list[Seed]:
    """Three in a row."""
    subjects = ("Order received", "Order packed", "Order sent")
    return [
        Seed(
            type="send_email",
            payload=_mail(random, subject),
            shows="the first of a chain" if index == 0 else "waits for the one before",
            key=str(index),
            depends_on=(str(index - 1),) if index else (),
            priority=1,
        )
        for index, subject in enumerate(subjects)
    ]


def _digest(random: Random) -> list[Seed]:
    return [
        Seed(
            type="send_email",
            payload=_mail(random, "Digest"),
            shows="the first of a series, one every five minutes",
            recur_interval="every_5_minutes",
        )
    ]
