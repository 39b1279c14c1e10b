"""Handlers that do what a test needs: note that they ran, take their time, or do harm."""

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

from jobs import Context, handler


def note(payload: dict[str, Any], context: Context, word: str) -> None:
    """One line in a file that the test reads; a short append is atomic."""
    with Path(payload["notes"]).open("a") as file:
        file.write(f"{word} {context.job_id} {os.getpid()}\n")


@handler("toy.note")
def leave_note(payload: dict[str, Any], context: Context) -> None:
    note(payload, context, "ran")


@handler("toy.nap", max_attempts=3)
def nap(payload: dict[str, Any], context: Context) -> None:
    note(payload, context, "started")
    time.sleep(payload["seconds"])
    note(payload, context, "ended")


@handler("toy.kill", max_attempts=2)
def kill_own_process(payload: dict[str, Any], context: Context) -> None:
    note(payload, context, "started")
    os.kill(os.getpid(), signal.SIGKILL)


@handler("toy.hog", max_attempts=1)
def hold_the_interpreter(payload: dict[str, Any], context: Context) -> None:
    """Let no other thread of the process run for a while, as careless C code may."""
    note(payload, context, "started")
    ctypes.PyDLL(None).usleep(int(payload["seconds"] * 1_000_000))
    note(payload, context, "ended")


@handler("toy.overdue", max_attempts=1, timeout=0.5)
def hold_the_interpreter_past_the_deadline(payload: dict[str, Any], context: Context) -> None:
    note(payload, context, "started")
    ctypes.PyDLL(None).usleep(int(payload["seconds"] * 1_000_000))
