"""How the console looks to one person."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

THEMES = ("auto", "light", "dark")
DENSITIES = ("comfortable", "compact")
ROWS = (25, 50, 100)


class Preferences(models.Model):
    """What somebody has chosen; without a row, everything is as it is at first.

    `jobs.console.preferences` reads and writes it.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="coppice_preferences",
    )
    theme = models.CharField(
        max_length=5,
        blank=True,
        default="",
        choices=[(theme, theme) for theme in THEMES],
        help_text="Empty: never chosen; as the browser has it.",
    )
    density = models.CharField(
        max_length=11, default=DENSITIES[0], choices=[(each, each) for each in DENSITIES]
    )
    time_zone = models.CharField(
        max_length=64, blank=True, default="", help_text="An IANA name; empty: the server's."
    )
    reduced_colour = models.BooleanField(default=False)
    rows = models.SmallIntegerField(
        null=True, blank=True, help_text="On a page of a list; none: as each list has it."
    )
    live = models.BooleanField(default=True, help_text="Pages begin with live updates.")
    follow_log = models.BooleanField(default=True, help_text="New lines come by themselves.")
    shortcuts = models.BooleanField(default=True)
    hidden_columns = models.JSONField(default=list, blank=True, help_text="Of the list of jobs.")
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions: ClassVar = []
        verbose_name_plural = "preferences"
        constraints: ClassVar = [
            models.CheckConstraint(name="preferences_theme", condition=Q(theme__in=("", *THEMES))),
            models.CheckConstraint(name="preferences_density", condition=Q(density__in=DENSITIES)),
            models.CheckConstraint(
                name="preferences_rows", condition=Q(rows__isnull=True) | Q(rows__in=ROWS)
            ),
        ]

    def __str__(self) -> str:
        return f"of user {self.user_id}"
