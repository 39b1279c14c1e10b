"""Samples keep how long leaves took; runs are found by their job."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ranges", "0004_thefts")]

    operations = [
        migrations.AddField(
            model_name="rangesample",
            name="leaf_seconds",
            field=models.JSONField(
                blank=True,
                help_text="How many leaves took how long, by the bucket of timings.py; NULL: not known.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="rangerun",
            index=models.Index(fields=["name", "-id"], name="run_name"),
        ),
    ]
