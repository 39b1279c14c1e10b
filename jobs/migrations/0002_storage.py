"""How PostgreSQL stores and vacuums the busy tables.

Every job row is rewritten at its claim and at its end, so pages keep room for that, and vacuum
starts after a fixed number of dead rows: a fraction of a large table would let the claim index
fill with dead entries first.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

BUSY = """
ALTER TABLE jobs_job SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE jobs_worker SET (fillfactor = 50, autovacuum_vacuum_threshold = 200);
ALTER TABLE jobs_rollup SET (autovacuum_vacuum_scale_factor = 0.05);
"""
USUAL = """
ALTER TABLE jobs_job RESET (
    fillfactor,
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_analyze_scale_factor, autovacuum_analyze_threshold,
    autovacuum_vacuum_cost_delay
);
ALTER TABLE jobs_worker RESET (fillfactor, autovacuum_vacuum_threshold);
ALTER TABLE jobs_rollup RESET (autovacuum_vacuum_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0001_initial")]
    operations: ClassVar = [migrations.RunSQL(BUSY, USUAL)]
