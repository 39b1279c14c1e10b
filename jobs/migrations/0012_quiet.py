"""A worker can be told to claim nothing for a while."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0011_loud_lines")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="worker",
            name="quiet_requested_at",
            field=models.DateTimeField(
                blank=True, help_text="Asked to claim nothing until it is resumed.", null=True
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="quiet_at",
            field=models.DateTimeField(
                blank=True, help_text="Since when it does so; NULL: it claims.", null=True
            ),
        ),
    ]
