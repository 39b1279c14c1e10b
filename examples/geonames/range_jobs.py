"""A column that came later, filled in for every city: the work of a range job."""

from __future__ import annotations

import time
from typing import Any

from django.db import connection
from django.db.models import Q

from examples.geonames import geohash
from examples.geonames.models import City
from ranges import Leaf, LeafContext, LeafRange, RangeJob

CELL = 5
"""Characters of a geohash: about five kilometres."""

# In key order, as all that writes cities does it: two of them cannot deadlock.
WRITE_CELLS = """
WITH locked AS MATERIALIZED (
    SELECT id FROM geonames_city WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
)
UPDATE geonames_city c SET cell = w.cell
FROM unnest(%(ids)s::bigint[], %(cells)s::text[]) AS w (id, cell), locked
WHERE c.id = w.id AND locked.id = w.id
"""


class BackfillCells(RangeJob):
    """Ids lie far apart, and some cities have their cell already: both are passed over.

    The parameter `seconds` makes each leaf slower, for those who want to watch.
    """

    over = City.objects.all()
    todo = Q(cell="")
    leaf = Leaf(target_seconds=0.25, rows=(50, 5_000))
    concurrency = 4

    def process(self, leaf: LeafRange, context: LeafContext) -> int:
        cells = {
            id: cell_of(latitude, longitude)
            for id, latitude, longitude in leaf.queryset.values_list("id", "latitude", "longitude")
        }
        write_cells(cells)
        time.sleep(float(context.params.get("seconds", 0)))
        return len(cells)


def cell_of(latitude: float, longitude: float) -> str:
    return geohash.encode(latitude, longitude, CELL)


def write_cells(cells: dict[int, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(WRITE_CELLS, {"ids": list(cells), "cells": list(cells.values())})
