"""What the actions read from the command line: the options of a run, and which run is meant."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from jobs import conf
from jobs.errors import NotFound
from jobs.listing import range_of
from jobs.management.arguments import OPTIONS, PAYLOAD_HELP, as_moment, given, read_json
from ranges import declaring
from ranges.declaring import RangeJob
from ranges.models import RangeRun

BY = "manage.py"

NAMES = OPTIONS | {
    "id": "RUN",
    "start": "--start",
    "end": "--end",
    "from": "--start",
    "to": "--end",
    "params": "--param",
    "concurrency": "--concurrency",
    "max_range_size": "--max-range-size",
    "failure_threshold": "--failure-threshold",
    "max_depth": "--max-depth",
    "depth": "--depth",
    "path": "--path",
    "reason": "--reason",
    "code_version": "--code-version",
}
"""The option, or the positional argument, behind a field that an error names."""

RUN_OPTIONS = ("concurrency", "max_range_size", "failure_threshold", "max_depth")
CREATE_OPTIONS = {"metadata", "priority", "queue", "at", "depends_on", "param"}


def add_bounds(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--start", metavar="KEY", help="the first key; default: the first that there is"
    )
    parser.add_argument(
        "--end", metavar="KEY", help="the key to stop before; default: behind the last one"
    )


def add_run_options(parser: ArgumentParser) -> None:
    parser.add_argument("--concurrency", type=int, metavar="N", help="lanes, 1 to 1,000")
    parser.add_argument(
        "--max-range-size", type=int, metavar="N", help="rows of a leaf, or keys of a plain range"
    )
    parser.add_argument(
        "--failure-threshold", type=float, metavar="PERCENT", help="of the items; then it pauses"
    )
    parser.add_argument("--max-depth", type=int, metavar="N", help="of the tree of halves")


def add_create_options(parser: ArgumentParser) -> None:
    add_bounds(parser)
    add_run_options(parser)
    parser.add_argument(
        "--param",
        action="append",
        metavar="NAME=VALUE",
        help="VALUE is JSON, or else text; may be given again",
    )
    parser.add_argument("--metadata", metavar="JSON", help=f"an object; {PAYLOAD_HELP}")
    parser.add_argument("--priority", type=int, metavar="N", help="1 high, 2 medium, 3 low")
    parser.add_argument("--queue", metavar="NAME", help="not the job's own queue")
    parser.add_argument(
        "--at", metavar="TIME", help="ISO 8601 with an offset, or Unix milliseconds"
    )
    parser.add_argument(
        "--depends-on",
        action="append",
        metavar="ID",
        help="wait until that job is completed; may be given again",
    )


def run_options(options: dict[str, Any]) -> dict[str, Any]:
    return given(options, {name: name for name in RUN_OPTIONS})


def create_options(options: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `RangeJob.create`."""
    found = given(options, {name: name for name in ("start", "end", "priority", "queue")})
    found |= run_options(options)
    if options["depends_on"]:
        found["depends_on"] = options["depends_on"]
    if options["param"]:
        found["params"] = _params(options["param"])
    if options["metadata"] is not None:
        found["metadata"] = read_json(options["metadata"], "--metadata")
    if options["at"] is not None:
        found["scheduled_at"] = as_moment(options["at"])
    return found


def were_given(options: dict[str, Any]) -> bool:
    """Whether any option of a new run was given."""
    return any(
        options[name] is not None for name in (*RUN_OPTIONS, "start", "end", *CREATE_OPTIONS)
    )


def job_class(name: str) -> type[RangeJob]:
    found = declaring.find(name)
    if found is None:
        known = ", ".join(declaring.names()) or "none"
        raise CommandError(f"NAME: there is no range job {name!r}; known are {known}")
    return found


def find_run(text: str) -> RangeRun:
    """The run with this id, or the only one whose id begins so."""
    first, last = range_of(text)
    found = RangeRun.objects.using(conf.get().database).filter(id__gte=first, id__lte=last)
    match list(found[:2]):
        case [run]:
            return run
        case []:
            raise NotFound("range run", text[:60])
        case _:
            raise CommandError(f"RUN: several ids begin with {text}")


def _params(pairs: list[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--param: must be NAME=VALUE, not {pair[:60]!r}")
        try:
            params[name] = json.loads(value)
        except (ValueError, RecursionError):
            params[name] = value
    return params
