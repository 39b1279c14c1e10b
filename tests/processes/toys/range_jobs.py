"""Range jobs that note in the database what they did, in the leaf's own transaction."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from django.db import connection
from django.db.models import F, Q

from ranges import IntRange, Leaf, LeafRange, RangeJob, RetryPolicy, fixed
from tests.processes.toys.models import Key

QUICK = RetryPolicy(max_attempts=2, backoff=fixed(0.2))


class Touch(RangeJob):
    """Each key that needs work gets one hit, and needs none any more."""

    over = Key.objects.all()
    todo = Q(todo=True)
    leaf = Leaf(max_size=500)
    concurrency = 8
    retry = QUICK

    def process(self, leaf: LeafRange, context: Any) -> int:
        time.sleep(context.params.get("seconds", 0))
        return int(leaf.queryset.update(hits=F("hits") + 1, todo=False))


class Note(RangeJob):
    """A plain range; each leaf is a row in `toy_note`, written with it."""

    over = IntRange(0, 100_000)
    leaf = Leaf(max_size=100)
    concurrency = 4
    retry = QUICK

    def process(self, leaf: LeafRange, context: Any) -> None:
        time.sleep(context.params.get("seconds", 0))
        if any(key in leaf_keys(leaf) for key in context.params.get("fatal", ())):
            os.kill(os.getpid(), signal.SIGKILL)
        if context.params.get("bad") is not None and context.params["bad"] in leaf_keys(leaf):
            raise ValueError(f"bad key {context.params['bad']}")
        write_note(leaf)


class NoteOutside(Note):
    """The same for effects that no transaction holds."""

    atomic = False


def leaf_keys(leaf: LeafRange) -> range:
    return range(leaf.lo, leaf.hi)


def write_note(leaf: LeafRange) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO toy_note (lo, hi, pid) VALUES (%s, %s, %s)",
            [leaf.lo, leaf.hi, os.getpid()],
        )
