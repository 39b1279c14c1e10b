"""The groups Viewer, Operator and Supervisor, for sites that have none of these names yet.

A group that exists already is a site's own, and is left as it is: also after the groups were made
here and a site has changed them. Django makes permissions after all migrations, so those that are
given here are made here first, as Django would.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, router

# As they were when this was written: later changes of `jobs.permissions` need migrations of their own.
VIEWER = ["view_job"]
OPERATOR = [
    *VIEWER,
    "view_payload",
    "add_job",
    "retry_job",
    "cancel_job",
    "edit_job",
    "pause_queue",
    "control_worker",
    "edit_schedule",
    "run_schedule",
    "control_run",
]
SUPERVISOR = [*OPERATOR, "purge_job", "purge_all_dead", "tune_queue", "manage_alerts", "view_audit"]
GROUPS = {"Viewer": VIEWER, "Operator": OPERATOR, "Supervisor": SUPERVISOR}

MODELS = {
    "pause_queue": "queue",
    "tune_queue": "queue",
    "control_worker": "worker",
    "edit_schedule": "schedule",
    "run_schedule": "schedule",
    "view_audit": "auditentry",
}
"""Where a permission is declared, if not at the model `job`."""

GONE = "create_job"
"""A permission of an earlier version, for which `add_job` stands now."""


def make_groups(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    if not router.allow_migrate(alias, "auth", model_name="group"):
        return
    groups = apps.get_model("auth", "Group").objects.using(alias)
    missing = [name for name in GROUPS if not groups.filter(name=name).exists()]
    permissions = _permissions(apps, alias) if missing else {}
    for name in missing:
        group = groups.create(name=name)
        group.permissions.set([permissions[codename] for codename in GROUPS[name]])
    known = apps.get_model("auth", "Permission").objects.using(alias)
    known.filter(content_type__app_label="jobs", codename=GONE).delete()


def remove_groups(apps: Any, schema_editor: Any) -> None:
    """Those that are still as they were made, and that nobody is in."""
    alias = schema_editor.connection.alias
    if not router.allow_migrate(alias, "auth", model_name="group"):
        return
    for name, codenames in GROUPS.items():
        group = apps.get_model("auth", "Group").objects.using(alias).filter(name=name).first()
        if group is None or group.user_set.exists():
            continue
        held = set(group.permissions.values_list("content_type__app_label", "codename"))
        if held == {("jobs", codename) for codename in codenames}:
            group.delete()


def _permissions(apps: Any, alias: str) -> dict[str, Any]:
    found = {}
    for codename in SUPERVISOR:
        model = apps.get_model("jobs", MODELS.get(codename, "job"))._meta  # noqa: SLF001
        words = dict(model.permissions)
        default = f"Can {codename.partition('_')[0]} {model.verbose_name_raw}"
        content_type, _ = (
            apps.get_model("contenttypes", "ContentType")
            .objects.using(alias)
            .get_or_create(app_label="jobs", model=model.model_name)
        )
        found[codename], _ = (
            apps.get_model("auth", "Permission")
            .objects.using(alias)
            .get_or_create(
                content_type=content_type,
                codename=codename,
                defaults={"name": words.get(codename, default)},
            )
        )
    return found


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_stops_and_histograms"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_groups, remove_groups, elidable=False)]
