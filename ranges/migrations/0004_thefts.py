"""A strand whose tail was stolen rests before the next theft."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ranges", "0003_permissions")]

    operations = [
        migrations.AddField(
            model_name="rangenode",
            name="thefts",
            field=models.IntegerField(
                db_default=0, default=0, help_text="How often it lost its tail."
            ),
        ),
        migrations.AddField(
            model_name="rangenode",
            name="cool_until",
            field=models.DateTimeField(
                blank=True, help_text="Until then it is not stolen from again.", null=True
            ),
        ),
    ]
