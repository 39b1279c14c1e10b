"""One packed array in place of two with a number for each bucket."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

from jobs.models.rollup import Timings


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0006_bulk_operations")]

    operations: ClassVar = [
        migrations.RemoveField(model_name="rollup", name="run_counts"),
        migrations.RemoveField(model_name="rollup", name="wait_counts"),
        migrations.RemoveField(model_name="total", name="run_counts"),
        migrations.RemoveField(model_name="total", name="wait_counts"),
        migrations.AddField(
            model_name="rollup", name="timings", field=Timings(editable=False, null=True)
        ),
        migrations.AddField(
            model_name="total", name="timings", field=Timings(editable=False, null=True)
        ),
    ]
