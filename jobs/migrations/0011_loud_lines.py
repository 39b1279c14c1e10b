"""Warnings and errors are found in the whole log, however many lines lie between them."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0010_dependents")]
    operations: ClassVar = [
        migrations.AddIndex(
            model_name="joblog",
            index=models.Index(
                condition=models.Q(("level__in", ["warning", "error", "critical"])),
                fields=["id"],
                name="joblog_loud",
            ),
        ),
    ]
