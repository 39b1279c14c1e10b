from __future__ import annotations

from django.contrib import admin

from examples.geonames.models import City, CountrySummary


@admin.register(City)
class CityAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["name", "country", "population", "utc_offset_minutes", "geohash", "cell"]
    list_filter = ["country"]
    search_fields = ["name__startswith"]
    ordering = ["id"]
    show_full_result_count = False


@admin.register(CountrySummary)
class CountrySummaryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["code", "cities", "population", "geohash_prefix"]
    ordering = ["code"]
