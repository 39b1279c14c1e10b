"""A queue can be paused until a time."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0013_clock_skew")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="queue",
            name="paused_until",
            field=models.DateTimeField(
                blank=True,
                help_text="When the pause is over by itself; NULL: when somebody resumes it.",
                null=True,
            ),
        ),
    ]
