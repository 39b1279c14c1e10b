"""How large the tables are. Sizes are of the files, rows are the server's estimate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.database import DjangoDatabase
from jobs.limits import limited

# A partition counts for the table that it is a part of. As many rows as there are tables, and none of
# the tables is read.
SIZES = """
SELECT coalesce(parent.relname, c.relname) AS name, count(*) FILTER (WHERE c.relispartition),
    sum(pg_table_size(c.oid))::bigint, sum(pg_indexes_size(c.oid))::bigint,
    sum(greatest(c.reltuples, 0))::bigint, bool_or(c.reltuples < 0)
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
    AND (coalesce(parent.relname, c.relname) LIKE 'jobs\\_%%'
        OR coalesce(parent.relname, c.relname) LIKE 'ranges\\_%%')
GROUP BY 1 ORDER BY 3 + 4 DESC, 1 LIMIT 100
"""
SERVER = """
SELECT current_setting('server_version'), pg_database_size(current_database()),
    current_setting('TimeZone'), clock_timestamp()
"""
SECONDS = 3.0
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str
    partitions: int
    bytes: int
    index_bytes: int
    rows: int
    is_guess: bool
    """Some part of it has never been analysed."""

    @property
    def size(self) -> str:
        return sized(self.bytes + self.index_bytes)

    @property
    def index_size(self) -> str:
        return sized(self.index_bytes)


@dataclass(frozen=True, kw_only=True)
class Stored:
    tables: list[Table]
    version: str
    time_zone: str
    whole: str
    """The size of the database, with what is not Coppice's."""
    at: datetime
    """When this was read, by the database's clock."""

    @property
    def ours(self) -> str:
        return sized(sum(table.bytes + table.index_bytes for table in self.tables))


def read() -> Stored:
    """Raises TooBroad."""
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        rows = database.rows(SIZES, {})
        version, whole, time_zone, at = database.rows(SERVER, {})[0]
    tables = [
        Table(
            name=row[0],
            partitions=row[1],
            bytes=row[2],
            index_bytes=row[3],
            rows=row[4],
            is_guess=row[5],
        )
        for row in rows
    ]
    return Stored(tables=tables, version=version, time_zone=time_zone, whole=sized(whole), at=at)


def sized(number: int) -> str:
    """ "12.4 GB": in steps of 1,024, as PostgreSQL itself writes sizes."""
    size = float(number)
    for unit in UNITS:
        if size < 1_024 or unit == UNITS[-1]:
            break
        size /= 1_024
    return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
