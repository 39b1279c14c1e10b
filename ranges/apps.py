"""The ranges app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class RangesConfig(AppConfig):
    name = "ranges"
    verbose_name = "Ranges"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import metrics

        metrics.read_from("ranges.metrics")
        autodiscover_modules("range_jobs")
