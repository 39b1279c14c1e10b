"""Tables that a test makes by itself: no migration, as no installation has them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Key(models.Model):
    """A key, whether it needs work, and how often it got some."""

    objects: ClassVar[models.Manager[Key]] = models.Manager()

    todo = models.BooleanField(default=True)
    hits = models.IntegerField(default=0)

    class Meta:
        managed = False
        db_table = "toy_key"

    def __str__(self) -> str:
        return str(self.pk)
