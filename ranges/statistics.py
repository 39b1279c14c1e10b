"""What the database already knows about the keys of a table, without reading the table.

Statistics come from ANALYZE. Where there are none, a few hundred pages are read at random: the cost
is bounded whatever the size of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.utils import DatabaseError

from ranges.positions import Position
from ranges.sources import ProbeTimeout

if TYPE_CHECKING:
    from ranges.keyed import Keyed

SAMPLED_PAGES = 500
SAMPLED_ROWS = 5_000
SAMPLE_MILLISECONDS = 5_000
"""A condition may look at other tables, so the pages alone do not bound the cost."""

# Bounds that part the rows equally, and the commonest values. The arrays are of the column's own
# type, which only the text form gets out of. A partitioned table has statistics of all partitions.
KNOWN = """
SELECT s.histogram_bounds::text::{type}[], s.most_common_vals::text::{type}[]
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_stats s
  ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = %s
WHERE c.oid = to_regclass(%s)
ORDER BY s.inherited DESC
LIMIT 1
"""

# The size on disk, which is right also where nothing was ever analysed.
PAGES = """
SELECT pg_catalog.pg_relation_size(oid) / current_setting('block_size')::int
FROM pg_catalog.pg_class
WHERE oid = to_regclass(%s) AND relkind IN ('r', 'm')
"""

# Pages come in the order of the table, often that of the keys: so every so-manieth row is taken, and
# not the first ones.
THINNED = """
SELECT key FROM (
    SELECT key, row_number() OVER () AS place, count(*) OVER () AS total
    FROM ({rows}) walked(key) WHERE key IS NOT NULL
) numbered
WHERE total <= {most} OR place %% (1 + total / {most}) = 0
"""


def known_keys(keyed: Keyed) -> list[Position]:
    """Keys from the statistics, ascending; empty if there are none."""
    quoted = keyed.connection.ops.quote_name(keyed.table)
    try:
        rows = keyed.ask(
            KNOWN.format(type=keyed.axis.sql_type), (keyed.field.column, quoted), settings={}
        )
        found = [key for keys in (rows[0] if rows else ()) for key in keys or ()]
        return sorted({keyed.position(key) for key in found})
    except (DatabaseError, ValueError):
        # Infinities and NaN have no place on an axis; cuts are possible without statistics too.
        return []


def sampled_keys(keyed: Keyed) -> list[Position]:
    """Keys of rows that need work, from pages taken at random, ascending, repeats included."""
    rows = keyed.rows_sql(todo=True)
    quoted = keyed.connection.ops.quote_name(keyed.table)
    if rows is None:
        return []
    try:
        pages = keyed.ask(PAGES, (quoted,), settings={})
        sql, params = rows
        clause = _sampled(sql, quoted, pages[0][0] if pages else 0)
        if clause is None:
            return []
        found = keyed.ask(
            THINNED.format(rows=clause, most=SAMPLED_ROWS),
            params,
            milliseconds=SAMPLE_MILLISECONDS,
            settings={},
        )
        return sorted(keyed.position(key) for (key,) in found)
    except (DatabaseError, ValueError, ProbeTimeout):
        return []


def sampled_share(keyed: Keyed) -> float | None:
    """The share of the rows of `over` that need work, seen on pages taken at random."""
    if keyed.todo is None:
        return 1.0
    quoted = keyed.connection.ops.quote_name(keyed.table)
    counts: list[int] = []
    try:
        pages = keyed.ask(PAGES, (quoted,), settings={})
        # The same pages for both, by the same seed.
        for todo in (True, False):
            rows = keyed.rows_sql(todo=todo)
            if rows is None:
                return 0.0 if todo else None
            sql, params = rows
            clause = _sampled(sql, quoted, pages[0][0] if pages else 0)
            if clause is None:
                return None
            counted = f"SELECT count(*) FROM ({clause}) few"
            counts += keyed.ask(counted, params, milliseconds=SAMPLE_MILLISECONDS, settings={})[0]
    except (DatabaseError, ProbeTimeout):
        return None
    return counts[0] / counts[1] if counts[1] else None


def _sampled(sql: str, quoted: str, pages: int) -> str | None:
    """The statement on about SAMPLED_PAGES pages of its table; None where that cannot be said."""
    if not pages or f" FROM {quoted}" not in sql:
        return None
    percent = min(100.0, 100.0 * SAMPLED_PAGES / pages)
    sample = f" FROM {quoted} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (1)"
    return sql.replace(f" FROM {quoted}", sample, 1)
