"""Handlers that work well, badly or not at all; what they did stands in a table of the test."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import time
from typing import Any

from django.db import connection, transaction
from rest_framework import serializers

from jobs import Context, Hold, Retry, Snooze, WaitFor, child, handler, on
from jobs.events import Event
from jobs.models import Job
from jobs.retry import Backoff


def leave_effect(context: Context, word: str = "ran") -> None:
    """Written in the handler's transaction if it has one, else at once."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effect (job_id, epoch, attempt, word, pid) VALUES (%s, %s, %s, %s, %s)",
            [context.job_id, context.lease_epoch, context.attempt, word, os.getpid()],
        )


def count_effects(word: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM effect WHERE word = %s", [word])
        return int(cursor.fetchone()[0])


def act(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context)
    time.sleep(payload.get("seconds", 0))
    if payload.get("fails", 0) >= context.attempt:
        raise ValueError("asked to fail")


@handler("prove.effect", max_attempts=1_000)
def effect(payload: dict[str, Any], context: Context) -> None:
    act(payload, context)


@handler("prove.heard")
def be_heard_of() -> None:
    """What is heard of it stands in the table, written by listeners."""


@on("job.started")
@on("job.completed")
def leave_what_was_heard(event: Event) -> None:
    if event.type == "prove.heard":
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO effect (job_id, epoch, attempt, word, pid) VALUES (%s, 0, 0, %s, %s)",
                [event.job_id, event.name, os.getpid()],
            )


@on("worker.started")
def take_long(_event: Event) -> None:
    time.sleep(float(os.environ.get("SLOW_LISTENER", "0")))


if os.environ.get("NEW_VERSION"):

    @handler("prove.new")
    def effect_of_a_new_type(payload: dict[str, Any], context: Context) -> None:
        act(payload, context)


@handler("prove.atomic", max_attempts=1_000, atomic=True)
def atomic_effect(payload: dict[str, Any], context: Context) -> None:
    act(payload, context)


@handler("prove.yields")
def yields(payload: dict[str, Any], context: Context) -> Snooze | None:
    """Works until somebody better waits for its slot, then gives it up and goes on later."""
    leave_effect(context)
    if payload.get("done_at_once_when", 0) and count_effects("urgent"):
        return None
    ends_at = time.monotonic() + 60
    while time.monotonic() < ends_at:
        if context.should_yield:
            leave_effect(context, "yielded")
            return Snooze(0)
        time.sleep(0.02)
    return None


@handler("prove.urgent")
def urgent(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context, "urgent")


@handler("prove.nothing")
def nothing() -> None:
    pass


@handler("prove.query")
def query(payload: dict[str, Any], context: Context) -> int:
    return Job.objects.filter(id=context.job_id).count()


@handler("prove.query_async")
async def query_async(payload: dict[str, Any], context: Context) -> int:
    await asyncio.sleep(0)
    return await Job.objects.filter(id=context.job_id).acount()


@handler("prove.leave_open", max_attempts=1)
def leave_transaction_open(payload: dict[str, Any], context: Context) -> None:
    """What careless code does: a transaction that nobody ends."""
    leave_effect(context, "before")
    if payload["then"] == "by hand":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
    else:
        transaction.atomic().__enter__()
    leave_effect(context, "inside")
    if payload["then"] == "break":
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1/0")
    if payload["then"] == "autocommit":
        transaction.get_connection().in_atomic_block = False
        transaction.set_autocommit(False)


@handler("prove.raise", max_attempts=1)
def raise_something(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context)
    match payload["what"]:
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "memory":
            raise MemoryError
        case "too much memory":
            bytearray(1 << 60)
        case "recursion":
            _deeper(0)
        case "generator exit":
            raise GeneratorExit
        case "stop":
            raise StopIteration
        case "cancelled":
            raise asyncio.CancelledError
        case "group":
            raise BaseExceptionGroup("many", [SystemExit(1), ValueError("x")])
        case "no words":
            raise Speechless


def _deeper(depth: int) -> int:
    return _deeper(depth + 1) + 1


class Speechless(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@handler("prove.raise_async", max_attempts=1)
async def raise_something_async(payload: dict[str, Any], context: Context) -> None:
    await asyncio.sleep(0)
    match payload["what"]:
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            _deeper(0)


@handler("prove.return", max_attempts=1)
def return_something(payload: dict[str, Any], context: Context) -> Any:
    match payload["what"]:
        case "an object":
            return object()
        case "a lock":
            return time.sleep
        case "too much":
            return "x" * 3_000_000
        case "NUL":
            return {"a": "\x00"}
        case "a circle":
            circle: list[Any] = []
            circle.append(circle)
            return circle
        case "snooze":
            return Snooze(float("nan"))
        case "hold":
            return Hold("\x00 and half a pair \ud800")
        case "a coroutine":
            return asyncio.sleep(0)
    return payload


@handler("prove.die", max_attempts=3)
def die(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context)
    match payload["how"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(payload.get("code", 7))
        case "crash":
            ctypes.string_at(0)


@handler("prove.die_apart", max_attempts=3, isolation="process")
def die_apart(payload: dict[str, Any], context: Context) -> None:
    die(payload, context)


@handler("prove.no_files", max_attempts=1)
def let_nobody_open_a_file(payload: dict[str, Any], context: Context) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        time.sleep(payload["seconds"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@handler(
    "prove.starts_a_program",
    isolation="process",
    timeout=10,
    max_attempts=1_000,
    backoff=Backoff(base=0.2, factor=1.0, cap=0.2),
)
def starts_a_program(payload: dict[str, Any], context: Context) -> None:
    program = subprocess.Popen(["sleep", "300"])
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effect (job_id, epoch, attempt, word, pid) VALUES (%s, %s, %s, %s, %s)",
            [context.job_id, context.lease_epoch, context.attempt, "program", program.pid],
        )
    program.wait()


@handler("prove.apart", isolation="process", backoff=Backoff(base=0.2, factor=1.0, cap=0.2))
def effect_apart(payload: dict[str, Any], context: Context) -> None:
    act(payload, context)


@handler("prove.regex", max_attempts=1, timeout=0.5)
def match_for_ever(payload: dict[str, Any], context: Context) -> None:
    """Catastrophic backtracking: the interpreter is held for longer than anybody will wait."""
    leave_effect(context)
    re.match(r"(a+)+$", "a" * 60 + "b")


@handler("prove.regex_apart", max_attempts=1, timeout=0.5, isolation="process")
def match_for_ever_apart(payload: dict[str, Any], context: Context) -> None:
    match_for_ever(payload, context)


@handler("prove.retry", backoff=Backoff(base=0.2, factor=1.0, cap=0.2))
def fail_at_first(payload: dict[str, Any], context: Context) -> None:
    act(payload, context)


@handler("prove.stubborn", max_attempts=5)
def heed_nothing(payload: dict[str, Any], context: Context) -> None:
    """Takes no notice of a cancel; ends as it was going to, once the test lets it go."""
    leave_effect(context, "started")
    with connection.cursor() as cursor:
        while cursor.rowcount < 1:
            time.sleep(0.05)
            cursor.execute("SELECT FROM effect WHERE word = 'let go'")
    leave_effect(context, "ended")
    match payload.get("then"):
        case "raise":
            raise ValueError("on its own account")
        case "retry":
            raise Retry(delay=0)


@handler("prove.snooze", max_attempts=2)
def snooze_for_ever(payload: dict[str, Any], context: Context) -> Snooze:
    leave_effect(context)
    time.sleep(payload["seconds"])
    return Snooze(0)


@handler("prove.secret", max_attempts=2, mask=("password",))
def hush(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    context.log("about to work", step=1)
    if payload["then"] == "fail":
        raise ValueError("the other side refused")
    if payload["then"] == "echo":
        return payload
    return {}


@handler("prove.again", max_attempts=5)
def again(payload: dict[str, Any], context: Context) -> Any:
    """Comes back at once, as often as it may; or has others made and waits for them."""
    leave_effect(context)
    if payload["how"] == "retry" and context.attempt < 5:
        raise Retry(delay=0)
    if payload["how"] == "wait" and not context.children:
        return WaitFor([child("prove.nothing", key=str(n)) for n in range(3)])
    return None


@handler("prove.reach", max_attempts=1)
def reach_for_what_is_the_process(payload: dict[str, Any], context: Context) -> Any:
    """What a handler does to the process that it shares with others."""
    leave_effect(context)
    match payload["what"]:
        case "read the input":
            return sys.stdin.read()
        case "a program reads the input":
            return subprocess.run(["cat"], stdout=subprocess.PIPE, text=True, check=True).stdout
        case "close the input":
            os.close(0)
        case "close the output":
            sys.stdout.close()
        case "close the outputs":
            os.close(1)
            os.close(2)
        case "fork":
            if os.fork() == 0:
                return None  # and so goes on as if it were the worker
        case "recursion limit":
            for limit in range(5, 200):
                try:
                    sys.setrecursionlimit(limit)
                except RecursionError:
                    continue
                break
        case "chdir":
            os.chdir("/")
    time.sleep(payload.get("seconds", 0))
    return None


@handler("prove.open_files", max_attempts=1)
def open_more_than_a_thousand_files(payload: dict[str, Any], context: Context) -> None:
    """And take for some seconds every small number that somebody else gives up."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for _ in range(1_100):
        os.dup(0)
    leave_effect(context)
    for _ in range(2_000):
        if os.dup(0) < 1_000:
            leave_effect(context, "a small one")
        time.sleep(0.001)


@handler("prove.reach_apart", max_attempts=1, isolation="process")
def leave_a_child_behind(payload: dict[str, Any], context: Context) -> Any:
    leave_effect(context)
    match payload["what"]:
        case "a child that lives on":
            left = os.fork()
            if left == 0:
                time.sleep(600)
                os._exit(0)
            leave_effect(context, f"left {left}")
            os._exit(3)
        case "look for garbage":
            return gc.isenabled()
        case "what cannot be sent":
            return WaitFor([child("prove.nothing", {"a": lambda: None}, key="a")])


@handler("prove.after_commit", max_attempts=1, atomic=True)
def fail_after_the_commit(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context)

    def fail() -> None:
        raise ValueError("too late to fail")

    transaction.on_commit(fail)


@handler("prove.return_async", max_attempts=1)
async def return_something_async(payload: dict[str, Any], context: Context) -> Any:
    await asyncio.sleep(0)
    match payload["what"]:
        case "speechless":
            return Hold(Speechless())  # type: ignore[arg-type]
        case "strange":
            return Strange(a=1)
        case "look for garbage":
            return gc.isenabled()
        case "a task that exits":
            asyncio.get_running_loop().call_soon(sys.exit)
            await asyncio.sleep(0.2)
    return None


class Strange(dict[str, Any]):
    def values(self) -> Any:
        raise OSError("nothing to see")

    items = values


class Strict(serializers.Serializer[Any]):
    choice = serializers.ChoiceField(choices=["a", "b"], required=False)
    number = serializers.IntegerField(required=False)


@handler("prove.strict", payload=Strict)
def accept_few(payload: dict[str, Any], context: Context) -> None:
    leave_effect(context)
