"""`manage.py rangejob`: pause, force-pause, resume, cancel, retune, retry-failed, waive, again."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from jobs.management.arguments import print_json
from ranges import lifecycle
from ranges.facts import facts
from ranges.management.rangejob_cli.following import follow
from ranges.management.rangejob_cli.options import BY, find_run
from ranges.models import RangeFailure, RangeRun


@dataclass(frozen=True, kw_only=True)
class Act:
    HELP: str
    done: str
    call: Callable[[RangeRun, dict[str, Any]], Any]
    takes_reason: bool = False
    can_follow: bool = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="RUN", help="its id, or how that begins")
        if self.takes_reason:
            parser.add_argument("--reason", default="", metavar="TEXT", help="shown with the run")
        if self.can_follow:
            parser.add_argument(
                "--follow", action="store_true", help="show how it goes on, until Ctrl-C"
            )

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        run = find_run(options["id"])
        said = self.call(run, options)
        _tell(stdout, run, said or f"{self.done} {run.id}.", options)
        if self.can_follow and options["follow"]:
            follow(stdout, run, as_json=options["json"])


class _Retune(Act):
    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--concurrency", type=int, required=True, metavar="N", help="lanes")


class _Resume(Act):
    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--code-version",
            metavar="VERSION",
            help="go on with this version of the job's class; default: the one that it goes by",
        )


class _RetryFailed(Act):
    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--failure",
            type=int,
            action="append",
            metavar="FAILURE",
            help="this one alone; may be given again",
        )


class _Again:
    HELP = "make a new run over the same range with the same options, and print its id"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="RUN", help="its id, or how that begins")

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        made = lifecycle.again(find_run(options["id"]), by=BY)
        _tell(stdout, made, str(made.id), options)


class _Waive:
    HELP = "close failures by decision, with the reason"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids", nargs="*", type=int, metavar="FAILURE", help="numbers that `failures` lists"
        )
        parser.add_argument("--all-of", metavar="RUN", help="all open failures of a run instead")
        parser.add_argument("--reason", required=True, metavar="TEXT", help="kept with it")

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        if bool(options["ids"]) == (options["all_of"] is not None):
            raise CommandError("give either numbers of failures, or --all-of RUN")
        if options["all_of"] is not None:
            run = find_run(options["all_of"])
            count = lifecycle.waive_all(run, options["reason"], by=BY)
            _tell(stdout, run, f"Waived {_failures(count)} of {run.id}.", options)
            return
        waived = [lifecycle.waive(id, options["reason"], by=BY) for id in options["ids"]]
        if options["json"]:
            print_json(stdout, {"waived": [failure.id for failure in waived]})
        else:
            stdout.write(f"Waived {_failures(len(waived))}.")


def _pause(run: RangeRun, options: dict[str, Any]) -> None:
    lifecycle.pause(run, reason=options["reason"], by=BY)


def _force_pause(run: RangeRun, options: dict[str, Any]) -> str:
    taken = lifecycle.force_pause(run, reason=options["reason"], by=BY)
    jobs = "1 job" if taken == 1 else f"{taken:,} jobs"
    return f"Paused {run.id}, and took {jobs} from workers without a sign of life."


def _resume(run: RangeRun, options: dict[str, Any]) -> None:
    lifecycle.resume(run, code_version=options["code_version"], by=BY)


def _cancel(run: RangeRun, options: dict[str, Any]) -> None:
    lifecycle.cancel(run, reason=options["reason"], by=BY)


def _retune(run: RangeRun, options: dict[str, Any]) -> str:
    lifecycle.retune(run, concurrency=options["concurrency"], by=BY)
    lanes = "1 lane" if run.concurrency == 1 else f"{run.concurrency:,} lanes"
    return f"{run.id} has {lanes}."


def _retry_failed(run: RangeRun, options: dict[str, Any]) -> str:
    if not RangeFailure.objects.using(run._state.db).filter(run=run, state="open").exists():  # noqa: SLF001
        raise CommandError("the run has no open failures")
    count = lifecycle.retry_failed(run, failures=options["failure"], by=BY)
    return f"Retrying {_failures(count)} of {run.id}."


def _failures(count: int) -> str:
    return "1 failure" if count == 1 else f"{count:,} failures"


def _tell(stdout: OutputWrapper, run: RangeRun, said: str, options: dict[str, Any]) -> None:
    if options["json"]:
        print_json(stdout, facts(run))
    else:
        stdout.write(said)


PAUSE = Act(
    HELP="begin no leaf more; those at work go on to their end",
    done="Paused",
    call=_pause,
    takes_reason=True,
)
FORCE_PAUSE = Act(
    HELP="pause it, and take its jobs from workers without a sign of life",
    done="Paused",
    call=_force_pause,
    takes_reason=True,
)
RESUME = _Resume(HELP="go on where it stopped", done="Resumed", call=_resume, can_follow=True)
CANCEL = Act(HELP="end it for good", done="Cancelled", call=_cancel, takes_reason=True)
RETUNE = _Retune(HELP="give it more lanes, or fewer", done="Retuned", call=_retune)
RETRY_FAILED = _RetryFailed(
    HELP="work at the open failures again", done="Retrying", call=_retry_failed, can_follow=True
)
WAIVE = _Waive()
AGAIN = _Again()
