"""Decide what an ended attempt means for its job. Pure: values in, a value out.

`decide_return` and `decide_raise` take what the handler returned or raised; `decide_timed_out`,
`decide_lost` and `hand_back` take jobs whose handler never came to an end here. Writing the
decision is `complete.py`'s task.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from jobs.answers import Discard, Hold, JobCancelled, JobTimeout, Retry, Snooze, WaitFor
from jobs.claimed import Claimed
from jobs.endings import Ending
from jobs.errors import InvalidInput
from jobs.masking import scrubbed
from jobs.moments import parse_duration
from jobs.payloads import check_json
from jobs.retry import Backoff, backoff_seconds
from jobs.states import Outcome, Status
from jobs.texts import clean, describe_error, fingerprint, format_traceback

ERROR_LENGTH = 5_000
TRACEBACK_LENGTH = 50_000
REASON_LENGTH = 1_000


class RetryRules(Protocol):
    """The part of a handler's options that decides what an error means, and what may be told."""

    @property
    def retry_on(self) -> tuple[type[BaseException], ...]: ...
    @property
    def discard_on(self) -> tuple[type[BaseException], ...]: ...
    @property
    def backoff(self) -> Backoff | None: ...
    @property
    def mask(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a handler, measured: seconds from claim to start, and from start to end."""

    wait: float
    run: float


def decide_return(
    job: Claimed,
    value: object,
    run: Run,
    rules: RetryRules,
    *,
    max_wait_rounds: int = 1_000,
    max_bytes: int = 1_048_576,
) -> Ending:
    """What a returned value means; a value that cannot be stored is that attempt's failure."""
    try:
        match value:
            case Snooze(delay=delay, quiet=quiet):
                return Ending(
                    job=job,
                    status=Status.PENDING,
                    outcome=Outcome.SNOOZED,
                    event="snoozed",
                    quiet=bool(quiet),
                    delay=parse_duration(delay, "delay"),
                    wait=run.wait,
                    run=run.run,
                )
            case Hold(reason=reason):
                return Ending(
                    job=job,
                    status=Status.PENDING,
                    outcome=Outcome.SNOOZED,
                    event="held",
                    held=True,
                    hold_reason=scrubbed(
                        clean(str(reason), REASON_LENGTH), rules.mask, job.payload
                    ),
                    wait=run.wait,
                    run=run.run,
                )
            case WaitFor(jobs=waited):
                if job.wait_count >= max_wait_rounds:
                    raise InvalidInput(
                        f"the job has waited {max_wait_rounds:,} rounds", field="WaitFor"
                    )
                if not waited:
                    raise InvalidInput("there is nothing to wait for", field="WaitFor")
                return Ending(
                    job=job,
                    status=Status.PENDING,
                    outcome=Outcome.WAITED,
                    event="waiting",
                    wait_for=value,
                    wait=run.wait,
                    run=run.run,
                )
            case _:
                result = check_json(value, "result", max_bytes=max_bytes)
    except InvalidInput as error:
        return decide_raise(job, error, run, rules)
    return Ending(
        job=job,
        status=Status.COMPLETED,
        outcome=Outcome.SUCCEEDED,
        event="completed",
        result=result,
        wait=run.wait,
        run=run.run,
    )


def decide_raise(
    job: Claimed,
    error: BaseException,
    run: Run,
    rules: RetryRules | None,
    *,
    traceback: str | None = None,
    uniform: Callable[[], float] = random.random,
) -> Ending:
    """What a raised error means: another attempt, the dead-letter queue, or a cancel."""
    mask = rules.mask if rules is not None else ()
    if isinstance(error, JobCancelled):
        return _ended(job, Status.CANCELLED, Outcome.CANCELLED, "cancelled", run, error, "", mask)
    outcome = Outcome.TIMED_OUT if isinstance(error, JobTimeout) else Outcome.FAILED
    trace = format_traceback(error, TRACEBACK_LENGTH) if traceback is None else traceback
    if _is_final(job, error, rules):
        return _ended(job, Status.FAILED, outcome, "dead_lettered", run, error, trace, mask)
    ending = _ended(job, Status.PENDING, outcome, "retry_scheduled", run, error, trace, mask)
    ending.delay = _delay(job, error, rules, uniform)
    return ending


def decide_lost(job: Claimed, reason: str, *, ran: float = 0.0) -> Ending:
    """What the death of the worker means for a job that it had started.

    The attempt is spent, so that a job which kills its worker ends in the dead-letter queue. It is
    due again at once: the death says nothing about the job.
    """
    ending = Ending(
        job=job,
        status=Status.PENDING,
        outcome=Outcome.LOST,
        event="lost",
        delay=0.0,
        run=ran,
        error=clean(reason, ERROR_LENGTH),
        fingerprint=fingerprint("Lost", reason),
        losses=1,
        level="warning",
    )
    if job.attempt >= job.max_attempts:
        ending.status, ending.event, ending.delay = Status.FAILED, "dead_lettered", None
        ending.level = "error"
    return ending


def decide_timed_out(
    job: Claimed, seconds: float, run: Run, rules: RetryRules | None, reason: str = ""
) -> Ending:
    """What passing the deadline means when the handler itself never raised."""
    message = reason or f"the attempt took longer than {seconds:g} s"
    return decide_raise(job, JobTimeout(message), run, rules, traceback="")


def hand_back(job: Claimed, reason: str, *, run: Run | None = None) -> Ending:
    """Give a job back unspent: it had not started here, or the worker must stop."""
    return Ending(
        job=job,
        status=Status.PENDING,
        outcome=Outcome.HANDED_BACK,
        event="handed_back",
        hold_reason=reason,
        wait=run.wait if run else 0.0,
        run=run.run if run else 0.0,
    )


def unstorable(job: Claimed, error: BaseException, run: Run) -> Ending:
    """The end of a job whose outcome the database itself refused."""
    return _ended(
        job,
        Status.FAILED,
        Outcome.FAILED,
        "dead_lettered",
        run,
        error,
        format_traceback(error, 5_000),
    )


def _is_final(job: Claimed, error: BaseException, rules: RetryRules | None) -> bool:
    if isinstance(error, Discard) or job.attempt >= job.max_attempts:
        return True
    if rules is None or isinstance(error, (Retry, JobTimeout)):
        return False
    if rules.discard_on and isinstance(error, rules.discard_on):
        return True
    return bool(rules.retry_on) and not isinstance(error, rules.retry_on)


def _delay(
    job: Claimed, error: BaseException, rules: RetryRules | None, uniform: Callable[[], float]
) -> float:
    if isinstance(error, Retry) and error.delay is not None:
        try:
            return parse_duration(error.delay, "delay")
        except InvalidInput:
            pass  # a senseless delay must not turn a retry into a crash; the backoff decides
    if rules is not None and rules.backoff is not None:
        return rules.backoff.seconds(job.attempt, random=uniform)
    return backoff_seconds(job.attempt, random=uniform)


def _ended(
    job: Claimed,
    status: Status,
    outcome: Outcome,
    event: str,
    run: Run,
    error: BaseException,
    trace: str,
    mask: tuple[str, ...] = (),
) -> Ending:
    message = scrubbed(clean(describe_error(error), ERROR_LENGTH), mask, job.payload)
    return Ending(
        job=job,
        status=status,
        outcome=outcome,
        event=event,
        wait=run.wait,
        run=run.run,
        error=message,
        traceback=scrubbed(trace, mask, job.payload),
        fingerprint=fingerprint(job.type, message),
        level={Status.FAILED: "error", Status.PENDING: "warning"}.get(status, "info"),
    )
