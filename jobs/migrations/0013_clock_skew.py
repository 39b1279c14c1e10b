"""A worker says how far its machine's clock is from the database's."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0012_quiet")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="worker",
            name="clock_skew_seconds",
            field=models.FloatField(
                blank=True,
                help_text="How far its machine's clock is ahead of the database's; NULL: not measured.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="clock_skew_uncertainty_seconds",
            field=models.FloatField(
                blank=True, help_text="By how much that may be more or less.", null=True
            ),
        ),
    ]
