"""Cities of the world, and what jobs find out about them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class City(models.Model):
    """A populated place; its key is the one of geonames.org. Jobs fill in the last three fields."""

    id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=200)
    country = models.CharField(max_length=2, help_text="ISO 3166 code.")
    latitude = models.FloatField()
    longitude = models.FloatField()
    population = models.BigIntegerField()
    time_zone = models.CharField(max_length=64)

    utc_offset_minutes = models.SmallIntegerField(null=True, blank=True)
    geohash = models.CharField(
        max_length=12, blank=True, default="", db_default="", db_collation="C"
    )
    cell = models.CharField(
        max_length=5,
        blank=True,
        default="",
        db_default="",
        help_text="The geohash cell of about five kilometres; a range job fills it in.",
    )

    class Meta:
        verbose_name_plural = "cities"
        indexes: ClassVar = [
            models.Index(name="city_country", fields=["country", "id"]),
            models.Index(name="city_name", fields=["name"]),
            models.Index(name="city_unlocated", fields=["id"], condition=Q(geohash="")),
            models.Index(name="city_without_cell", fields=["id"], condition=Q(cell="")),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.country})"


class CountrySummary(models.Model):
    """What the cities of one country add up to."""

    code = models.CharField(primary_key=True, max_length=2)
    cities = models.IntegerField()
    population = models.BigIntegerField()
    geohash_prefix = models.CharField(
        max_length=12, blank=True, help_text="The smallest geohash cell that holds all its cities."
    )
    lowest_offset_minutes = models.SmallIntegerField()
    highest_offset_minutes = models.SmallIntegerField()
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "country summaries"

    def __str__(self) -> str:
        return self.code
