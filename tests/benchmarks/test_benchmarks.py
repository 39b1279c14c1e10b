"""Benchmarks run, at a size at which their figures mean nothing.

A few do by default. With COPPICE_TEST_ALL_BENCHMARKS=1 all of them do, which takes minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.figures import Figure, Goal, percentile, rows
from tests.cluster import temporary_folder

CHECKOUT = Path(__file__).resolve().parents[2]
ALL = (
    "schedulers",
    "life",
    "enqueue",
    "latency",
    "sleeping",
    "many_workers",
    "snapshot",
    "crash",
    "full",
    "api",
    "console",
    "memory",
    "outage",
    "live",
    "ranges",
)
SOME = ("enqueue", "crash", "api")
WANTS_ALL = bool(os.environ.get("COPPICE_TEST_ALL_BENCHMARKS"))
NAMES = ALL if WANTS_ALL else SOME
LIMIT_SECONDS = 600
"""Far more than it takes, even on a machine that has other things to do."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the run's server and all that belongs to it lie."""
    # In /tmp, as the server's account cannot enter pytest's folders, and a socket's path is short.
    made = temporary_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    path = folder / "report.json"
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--repeat", "1", "--json", str(path)]
    command += [] if WANTS_ALL else SOME
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_report_says_when_where_and_with_what_it_was_measured(report: dict[str, Any]) -> None:
    assert report["measured_at"].endswith("Z")
    assert report["machine"]["cores"] >= 1
    assert report["machine"]["memory_gib"] > 0
    assert {"Python", "PostgreSQL", "Django", "psycopg"} <= report["versions"].keys()
    assert report["postgresql"].keys() >= {"fsync", "synchronous_commit"}
    assert len(report["load_before"]) == len(report["load_after"]) == 3


def test_those_benchmarks_run_that_are_named_or_else_all(report: dict[str, Any]) -> None:
    assert tuple(report["benchmarks"]) == NAMES
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(name in told for name in ALL)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_has_figures_and_something_beside_them(
    report: dict[str, Any], name: str
) -> None:
    found = report["benchmarks"][name]
    figures = {row["name"]: row for row in found["figures"]}

    assert len(figures) == len(found["figures"]) >= 2
    assert any(row["beside"] for row in figures.values())
    for row in figures.values():
        assert row.keys() == {
            "name",
            "unit",
            "median",
            "samples",
            "beside",
            "ratio",
            "goal",
            "met",
        }
        assert len(row["samples"]) >= 1
        assert row["median"] >= 0
        assert row["unit"]
        assert not row["beside"] or row["beside"] in figures
        assert (row["met"] is None) == (row["goal"] == "")


def test_nothing_is_lost_or_started_twice(report: dict[str, Any]) -> None:
    crash = {row["name"]: row["median"] for row in report["benchmarks"]["crash"]["figures"]}
    assert crash["tree killed: lost"] == crash["child killed: lost"] == 0
    if "outage" not in NAMES:
        return
    outage = {row["name"]: row["median"] for row in report["benchmarks"]["outage"]["figures"]}
    assert outage["lost"] == outage["started more than once"] == 0


def test_a_run_leaves_no_process_behind(report: dict[str, Any], folder: Path) -> None:
    assert report
    assert [words for words in everything_said_at_starts() if str(folder) in words] == []


def everything_said_at_starts() -> Iterator[str]:
    """The command lines of all processes, and their variables: the server's address is in one."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            yield " ".join([*process.cmdline(), *process.environ().values()])


def test_a_goal_is_judged_by_the_ratio_or_by_the_figure() -> None:
    half = Goal(at_least=0.5, of_ratio=True)
    found = rows(
        [
            Figure(name="floor", unit="jobs/s", samples=[90, 100, 500]),
            Figure(name="good", unit="jobs/s", samples=[60], beside="floor", goal=half),
            Figure(name="bad", unit="jobs/s", samples=[40], beside="floor", goal=half),
            Figure(name="slow", unit="ms", samples=[3], goal=Goal(at_most=2.5)),
        ]
    )

    assert [row["ratio"] for row in found] == [None, 0.6, 0.4, None]
    assert [row["met"] for row in found] == [None, True, False, False]


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (95, 95), (99, 99), (100, 100)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected
