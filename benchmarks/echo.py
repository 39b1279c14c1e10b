"""`python -m benchmarks.echo URL`: the least that picks up work from PostgreSQL.

It LISTENs, and at each notification reads the rows that it has not seen and notes them.
"""

from __future__ import annotations

import sys

import psycopg

from benchmarks.records import START, note

TABLE = "CREATE TABLE benchmark_echo (n integer PRIMARY KEY)"
SEND = """
WITH made AS (INSERT INTO benchmark_echo VALUES (%s) RETURNING n)
SELECT pg_notify('benchmark_echo', '') FROM made
"""
UNSEEN = "SELECT n FROM benchmark_echo WHERE n > %s ORDER BY n"


def main(url: str) -> None:
    last = -1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN benchmark_echo")
        print("ready", flush=True)
        while True:
            for _ in connection.notifies(stop_after=1):
                pass  # nothing can be asked inside this loop: it holds the connection
            for (n,) in connection.execute(UNSEEN, [last], prepare=True).fetchall():
                note(n, START)
                last = n


if __name__ == "__main__":
    main(sys.argv[1])
