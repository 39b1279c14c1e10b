"""The ranges app."""

from django.apps import AppConfig


class RangesConfig(AppConfig):
    name = "ranges"
    verbose_name = "Ranges"
