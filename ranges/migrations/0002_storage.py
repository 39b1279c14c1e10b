"""Room on each page of nodes, so that the commit of a leaf touches no index."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ranges", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE ranges_rangenode SET (fillfactor = 50)",
            "ALTER TABLE ranges_rangenode RESET (fillfactor)",
        ),
        # One row for each run, written at each failure and read at each commit.
        migrations.RunSQL(
            "ALTER TABLE ranges_rangerun SET (fillfactor = 70)",
            "ALTER TABLE ranges_rangerun RESET (fillfactor)",
        ),
    ]
