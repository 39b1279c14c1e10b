"""How many rows a statement really reads, told by the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import connection


def explain(sql: str, params: Mapping[str, Any] | tuple[Any, ...] = ()) -> dict[str, Any]:
    """The plan of a statement, which is run."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        plan: dict[str, Any] = cursor.fetchone()[0][0]["Plan"]
    return plan


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def rows_read(plan: Mapping[str, Any], table: str = "jobs_job") -> int:
    """Rows and index entries of a table that were looked at, whether they were used or not."""
    read = 0.0
    for node in nodes(plan):
        if node.get("Relation Name") == table or node["Node Type"] == "Bitmap Index Scan":
            seen = node["Actual Rows"] + sum(
                node.get(f"Rows Removed by {reason}", 0) for reason in ("Filter", "Index Recheck")
            )
            read += seen * node["Actual Loops"]
    return round(read)


def scans(plan: Mapping[str, Any]) -> list[str]:
    """The kinds of scan and the indexes they use."""
    return [
        f"{node['Node Type']} {node.get('Index Name', node.get('Relation Name', ''))}"
        for node in nodes(plan)
        if "Scan" in node["Node Type"] and node["Node Type"] != "CTE Scan"
    ]
