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

GATE = 3
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
        slow = leaf.lo < context.params.get("slow_below", 0)
        time.sleep(0.1 if slow else context.params.get("seconds", 0))
        if any(key in leaf_keys(leaf) for key in context.params.get("fatal", ())):
            os.kill(os.getpid(), signal.SIGKILL)
        if context.params.get("bad") is not None and context.params["bad"] in leaf_keys(leaf):
            raise ValueError(f"bad key {context.params['bad']}")
        write_note(leaf)


class NoteOutside(Note):
    """The same for effects that no transaction holds."""

    atomic = False


class Patient(Note):
    """Waits in each leaf until it is told to stop, and then leaves it undone."""

    concurrency = 2

    def process(self, leaf: LeafRange, context: Any) -> None:
        give_up_at = time.monotonic() + 60
        while not context.cancelled:
            if time.monotonic() > give_up_at:
                write_note(leaf)
                return
            time.sleep(0.02)
        raise RuntimeError("stopped")


class Stuck(Note):
    """Hangs at one leaf the first time, far longer than the leaf may take."""

    leaf = Leaf(max_size=10_000, hard_timeout=1.0)
    concurrency = 2

    def process(self, leaf: LeafRange, context: Any) -> None:
        if 50_000 in leaf_keys(leaf) and context.attempt == 1:
            time.sleep(4)
        write_note(leaf)


class Effects(RangeJob):
    """Each key's effect is a row, written with its leaf.

    Leaves with a `bad` key fail, those with a `waits` key wait until the test lets go of its lock;
    those before it take `seconds`.
    """

    over = IntRange(0, 60)
    leaf = Leaf(max_size=5)
    concurrency = 2
    retry = RetryPolicy(max_attempts=3, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        if leaf.hi <= context.params.get("waits", 0):
            time.sleep(context.params.get("seconds", 0))
        with connection.cursor() as cursor:
            for key in leaf:
                cursor.execute(
                    "INSERT INTO toy_effect (run, key, item, pid) VALUES (%s, %s, %s, %s)",
                    [context.run_id, key, context.item_key(key), os.getpid()],
                )
                self.after_key(key, context)
            if context.params.get("waits") in leaf_keys(leaf):
                cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [GATE])
        if context.params.get("bad") in leaf_keys(leaf):
            raise ValueError(f"bad key {context.params['bad']}")

    def after_key(self, key: int, context: Any) -> None: ...


class EffectsOutside(Effects):
    """The same for effects that no transaction holds, in parts of two keys."""

    atomic = False

    def after_key(self, key: int, context: Any) -> None:
        if key % 2:
            context.checkpoint(key + 1)


class Relapse(Touch):
    """The keys named in `relapses` need work once more after the last leaf was done."""

    leaf = Leaf(max_size=10)
    concurrency = 2

    def process(self, leaf: LeafRange, context: Any) -> int:
        count = super().process(leaf, context)
        if context.params["last"] in leaf_keys(leaf):
            Key.objects.filter(id__in=context.params["relapses"], hits=1).update(todo=True)
        return count


class Billion(RangeJob):
    """So many keys that need nothing."""

    over = IntRange(0, 10**9)
    leaf = Leaf(max_size=1_000_000)
    concurrency = 64

    def process(self, leaf: LeafRange, context: Any) -> None:
        pass


def leaf_keys(leaf: LeafRange) -> range:
    return range(leaf.lo, leaf.hi)


def write_note(leaf: LeafRange) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO toy_note (lo, hi, pid) VALUES (%s, %s, %s)",
            [leaf.lo, leaf.hi, os.getpid()],
        )
