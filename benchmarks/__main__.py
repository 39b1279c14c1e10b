"""Measure what Coppice claims, always beside something else in the same run.

    python -m benchmarks [names ...] [--quick] [--json FILE] [--repeat 3]

Needs Linux and the demo's packages. PostgreSQL is the run's own, with its default durability, in a
temporary folder. Figures are medians; a ratio is to the figure named beside.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import django
import psycopg


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
    django.setup()
    from benchmarks import machine, showing, stage
    from benchmarks.catalogue import BENCHMARKS

    options = read_options({name: each.about for name, each in BENCHMARKS.items()})
    scale = stage.Scale(options.scale)
    signal.signal(signal.SIGTERM, _leave)
    report: dict[str, Any] = {
        "measured_at": machine.now(),
        "scale": scale.value,
        "repeat": options.repeat,
        "load_before": machine.load(),
        "benchmarks": {},
    }
    failures = 0
    with stage.set_up(
        scale=scale,
        repeat=options.repeat,
        kills=options.kills,
        say=showing.say,
        parent=options.folder,
    ) as ready:
        report["machine"] = machine.describe(ready.folder)
        with psycopg.connect(ready.server.url("postgres")) as connection:
            report["versions"] = machine.versions(connection)
            report["postgresql"] = machine.server_settings(connection)
        showing.heading(report)
        for name in options.names or BENCHMARKS:
            showing.say(f"{name}: {BENCHMARKS[name].about}")
            load, started = machine.load(), time.monotonic()
            found: dict[str, Any] = {"load_before": load}
            try:
                found["figures"] = showing.rows_of(name, BENCHMARKS[name].measure(ready))
            except Exception:  # noqa: BLE001 - the others are worth measuring all the same
                found["error"] = traceback.format_exc()
                showing.say(found["error"])
                failures += 1
            found["seconds"] = round(time.monotonic() - started, 1)
            report["benchmarks"][name] = found
            report["load_after"] = machine.load()
            if options.json:
                options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failures else 0


def read_options(about: dict[str, str]) -> argparse.Namespace:
    listed = "\n".join(f"  {name:13} {text}" for name, text in about.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=(__doc__ or "").splitlines()[0],
        epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", choices=[*about, []], metavar="name", help="which; default: all"
    )
    parser.add_argument(
        "--quick",
        dest="scale",
        action="store_const",
        const="quick",
        default="full",
        help="small sizes: a few minutes in all",
    )
    parser.add_argument(
        "--smoke",
        dest="scale",
        action="store_const",
        const="smoke",
        help="sizes that only show that all works; the figures mean nothing",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="samples per figure")
    parser.add_argument(
        "--kills",
        type=int,
        default=0,
        metavar="N",
        help="crash, ranges: also kill workers so often at random moments, while they work",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where the run makes its own folder (default: %(default)s)",
    )
    return parser.parse_args()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
