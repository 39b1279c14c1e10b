from __future__ import annotations

from django.apps import AppConfig


class GeonamesConfig(AppConfig):
    name = "examples.geonames"
    label = "geonames"
    verbose_name = "Cities of the world"
    default_auto_field = "django.db.models.BigAutoField"
