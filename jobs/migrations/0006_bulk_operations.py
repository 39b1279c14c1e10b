from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_groups")]

    operations = [
        migrations.AddField(
            model_name="bulkoperation",
            name="audit_id",
            field=models.BigIntegerField(
                blank=True,
                help_text="The audit entry, whose count grows with each batch.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="bulkoperation",
            name="failed",
            field=models.BigIntegerField(
                default=0, help_text="Jobs that the database would not change."
            ),
        ),
        migrations.AddField(
            model_name="bulkoperation",
            name="failures",
            field=models.JSONField(default=list, help_text="The first of them, with their errors."),
        ),
        migrations.AddField(
            model_name="bulkoperation",
            name="worked_seconds",
            field=models.FloatField(default=0, help_text="Without pauses and waiting."),
        ),
        # Groups of dead letters are stepped through and walked in the order of their deaths.
        migrations.RemoveIndex(model_name="job", name="job_dead_group"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("status", "failed")),
                fields=["type", "error_fingerprint", "failed_at", "id"],
                include=("queue",),
                name="job_dead_group",
            ),
        ),
    ]
