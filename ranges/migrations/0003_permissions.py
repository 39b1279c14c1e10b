"""`jobs.control_run` is the permission for range runs; the one of this app granted nothing any more."""

from __future__ import annotations

from typing import Any

from django.db import migrations, router


def remove(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    if router.allow_migrate(alias, "auth", model_name="permission"):
        known = apps.get_model("auth", "Permission").objects.using(alias)
        known.filter(content_type__app_label="ranges", codename="control_run").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("ranges", "0002_storage"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.AlterModelOptions(name="rangerun", options={"ordering": ["-id"]}),
        migrations.RunPython(remove, migrations.RunPython.noop),
    ]
