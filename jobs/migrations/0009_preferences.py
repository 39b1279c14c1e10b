import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_webhooks"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Preferences",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="coppice_preferences",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "theme",
                    models.CharField(
                        blank=True,
                        choices=[("auto", "auto"), ("light", "light"), ("dark", "dark")],
                        default="",
                        help_text="Empty: never chosen; as the browser has it.",
                        max_length=5,
                    ),
                ),
                (
                    "density",
                    models.CharField(
                        choices=[("comfortable", "comfortable"), ("compact", "compact")],
                        default="comfortable",
                        max_length=11,
                    ),
                ),
                (
                    "time_zone",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="An IANA name; empty: the server's.",
                        max_length=64,
                    ),
                ),
                ("reduced_colour", models.BooleanField(default=False)),
                (
                    "rows",
                    models.SmallIntegerField(
                        blank=True,
                        help_text="On a page of a list; none: as each list has it.",
                        null=True,
                    ),
                ),
                (
                    "live",
                    models.BooleanField(default=True, help_text="Pages begin with live updates."),
                ),
                (
                    "follow_log",
                    models.BooleanField(default=True, help_text="New lines come by themselves."),
                ),
                ("shortcuts", models.BooleanField(default=True)),
                (
                    "hidden_columns",
                    models.JSONField(blank=True, default=list, help_text="Of the list of jobs."),
                ),
                (
                    "changed_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "preferences",
                "default_permissions": [],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("theme__in", ("", "auto", "light", "dark"))),
                        name="preferences_theme",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("density__in", ("comfortable", "compact"))),
                        name="preferences_density",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rows__isnull", True), ("rows__in", (25, 50, 100)), _connector="OR"
                        ),
                        name="preferences_rows",
                    ),
                ],
            },
        ),
    ]
