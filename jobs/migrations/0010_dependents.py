"""What depends on a job can be asked for after it has ended, too: an index with all edges."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0009_preferences")]
    operations: ClassVar = [
        migrations.AddIndex(
            model_name="jobdependency",
            index=models.Index(fields=["parent", "child"], name="dependency_parent"),
        ),
    ]
