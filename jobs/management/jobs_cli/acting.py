"""`manage.py jobs cancel`, `retry` and `purge`: by ids or by filters, after a question."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from jobs import audit, lifecycle
from jobs.lifecycle import Changed
from jobs.listing import Filters, page
from jobs.management.arguments import print_json
from jobs.management.jobs_cli.filters import add_filters, are_given, filters
from jobs.states import Status

BY = "manage.py"
AT_ONCE = 500
COUNTED = 1_000


@dataclass(frozen=True, kw_only=True)
class Act:
    HELP: str
    verb: str
    done: str
    statuses: tuple[Status, ...]
    """What the filters choose from."""
    call: Callable[..., Changed]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID")
        add_filters(parser, status=False)
        if len(self.statuses) > 1:
            parser.add_argument(
                "--status", choices=[s.value for s in self.statuses], metavar="STATUS"
            )
        parser.add_argument("--all", action="store_true", help="all that can be")
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the log")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        by_filter = are_given(options) or options["all"]
        if bool(options["ids"]) == by_filter:
            raise CommandError("give either ids, or filters, or --all")
        if not options["yes"]:
            self._ask(options)
        changed = Changed()
        groups = [options["ids"]] if options["ids"] else self._chosen(options)
        with audit.as_one(scope="" if options["ids"] else self._scope(options)):
            for ids in groups:
                changed += self.call(ids, by=BY, reason=options["reason"])
        if options["json"]:
            print_json(
                stdout,
                {
                    self.done: list(changed.done),
                    "requested": list(changed.requested),
                    "skipped": [{"id": s.job_id, "reason": s.reason} for s in changed.skipped],
                },
            )
        else:
            stdout.write(changed.sentence(self.done))
        if options["ids"] and not changed.done:
            raise CommandError(f"nothing was {self.done}")

    def _ask(self, options: dict[str, Any]) -> None:
        if not sys.stdin.isatty():
            raise CommandError("nobody is here to be asked: say --yes")
        count = len(set(options["ids"])) if options["ids"] else self._count(options)
        some = f"{COUNTED:,} or more" if count >= COUNTED else f"{count:,}"
        answer = input(f"{self.verb.capitalize()} {some} jobs? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise CommandError("nothing was done")

    def _count(self, options: dict[str, Any]) -> int:
        chosen = self._each_filter(options)
        return sum(len(page(each, limit=COUNTED).jobs) for each in chosen)

    def _chosen(self, options: dict[str, Any]) -> Iterator[list[str]]:
        """Ids, page by page; jobs that come while this runs lie before the first page."""
        for each in self._each_filter(options):
            after: str | None = None
            while True:
                found = page(each, after=after, limit=AT_ONCE)
                if found.jobs:
                    yield [str(job.id) for job in found.jobs]
                after = found.next
                if after is None:
                    break

    def _scope(self, options: dict[str, Any]) -> str:
        return filters(options).in_words() if are_given(options) else f"all that can be {self.done}"

    def _each_filter(self, options: dict[str, Any]) -> list[Filters]:
        given = filters(options, internal=False)
        if given.status is not None:
            return [given]
        return [replace(given, status=status) for status in self.statuses]


CANCEL = Act(
    HELP="cancel pending jobs at once, and ask running ones to stop",
    verb="cancel",
    done="cancelled",
    statuses=(Status.PENDING, Status.PROCESSING),
    call=lifecycle.cancel_many,
)
RETRY = Act(
    HELP="run dead letters again, from their first attempt",
    verb="retry",
    done="retried",
    statuses=(Status.FAILED,),
    call=lifecycle.retry_many,
)
PURGE = Act(
    HELP="delete dead letters for good",
    verb="purge",
    done="purged",
    statuses=(Status.FAILED,),
    call=lifecycle.purge_many,
)
