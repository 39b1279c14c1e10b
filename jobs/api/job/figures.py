"""How many jobs there are, for the API."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from rest_framework import serializers

from jobs import conf
from jobs.database import DjangoDatabase
from jobs.stats import Counts, counts

SECONDS = 1
KEY = "coppice:job-stats"


class StatsSerializer(serializers.Serializer[Counts]):
    pending = serializers.IntegerField()
    processing = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    dlq = serializers.IntegerField(help_text="Dead letters: the same jobs as `failed`.")
    total = serializers.IntegerField()
    estimated = serializers.ListField(
        child=serializers.CharField(), help_text="Those of the above that are not exact."
    )


def figures() -> dict[str, Any]:
    """Counted now where all is exact, and so few. Estimates of a large table are shared for a
    second by all who ask, in all processes: what they cost does not grow with who looks on.
    """
    shared = cache.get(conf.key(KEY))
    if isinstance(shared, dict):
        return shared
    found = dict(StatsSerializer(counts(DjangoDatabase())).data)
    if found["estimated"]:
        cache.set(conf.key(KEY), found, SECONDS)
    return found
