"""A table for ranges to walk over; the benchmarks make it, as no installation has it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

# ruff: noqa: DJ008 - nobody reads their names.


class Row(models.Model):
    """A row with four marks, which are done for different shares of the keys."""

    objects: ClassVar[models.Manager[Row]] = models.Manager()

    id = models.BigIntegerField(primary_key=True)
    a = models.BooleanField(default=False)
    b = models.BooleanField(default=False)
    c = models.BooleanField(default=False)
    d = models.BooleanField(default=False)

    class Meta:
        managed = False
        db_table = "benchmark_row"
