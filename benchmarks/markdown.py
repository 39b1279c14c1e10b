"""`python -m benchmarks.markdown FILE`: the tables of a run, as docs/benchmarks.md shows them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.showing import number

MET = {True: "met", False: "**not met**", None: ""}


def main(path: Path) -> None:
    report = json.loads(path.read_text())
    print("\n\n".join([_heading(report), *(_section(*each) for each in _found(report))]))


def _heading(report: dict[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    server = ", ".join(f"{name} {value}" for name, value in report["postgresql"].items())
    facts = {
        "When": f"{report['measured_at']}, {report['repeat']} samples a figure",
        "Where": f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB,"
        f" {machine['system']}; writing and syncing 8 KiB took {machine['disk_sync_ms']} ms",
        "With": versions,
        "PostgreSQL's settings": server,
        "Load average": f"{report['load_before'][0]} before, {report['load_after'][0]} after",
    }
    return "\n".join(f"- {name}: {fact}." for name, fact in facts.items())


def _found(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, each) for name, each in report["benchmarks"].items() if "figures" in each]


def _section(name: str, found: dict[str, Any]) -> str:
    lines = ["| figure | median | unit | ratio | to | goal |", "|---|--:|---|--:|---|---|"]
    for row in found["figures"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        goal = f"{row['goal']}: {MET[row['met']]}" if row["goal"] else ""
        cells = [row["name"], number(row["median"]), row["unit"], ratio, row["beside"], goal]
        lines.append(f"| {' | '.join(cells)} |")
    return f"## {name}\n\nLoad average before: {found['load_before'][0]}.\n\n" + "\n".join(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
