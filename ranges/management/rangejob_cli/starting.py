"""`manage.py rangejob create` and `start`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from jobs.management.arguments import print_json
from ranges import declaring, lifecycle
from ranges.facts import facts
from ranges.management.rangejob_cli.following import follow
from ranges.management.rangejob_cli.options import (
    BY,
    add_create_options,
    create_options,
    find_run,
    job_class,
    were_given,
)
from ranges.models import RangeRun


class _Create:
    HELP = "a run that does nothing before it is started; prints its id"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="a range job, say geonames.BackfillCells")
        add_create_options(parser)

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        _tell(stdout, job_class(options["name"]).create(**create_options(options), by=BY), options)


class _Start:
    HELP = "make a run and start it, or start one that was created; prints its id"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME|RUN", help="a range job, or the id of a run")
        add_create_options(parser)
        parser.add_argument(
            "--follow", action="store_true", help="show how it goes on; Ctrl-C leaves it running"
        )

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        run = _the_run(options)
        _tell(stdout, run, options)
        if options["follow"]:
            stdout.flush()
            follow(stdout, run, as_json=options["json"])


CREATE, START = _Create(), _Start()


def _the_run(options: dict[str, Any]) -> RangeRun:
    name = options["name"]
    if declaring.find(name) is None and "." not in name:
        run = find_run(name)
        if were_given(options):
            raise CommandError("options are given when a run is made, not when it is started")
        return lifecycle.start(run, by=BY)
    return job_class(name).start(**create_options(options), by=BY)


def _tell(stdout: OutputWrapper, run: RangeRun, options: dict[str, Any]) -> None:
    if options["json"]:
        print_json(stdout, facts(run))
    else:
        stdout.write(str(run.id))
