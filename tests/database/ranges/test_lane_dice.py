"""Lanes whose leaves do anything at all, by the dice: they end, and each key is done or has failed."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any, ClassVar

import pytest
from django.db import connection
from psycopg.errors import DeadlockDetected

from jobs.testing import run_due_jobs
from ranges import HandBack, IntRange, Leaf, LeafRange, RangeJob, RetryPolicy, fixed
from ranges.models import RangeFailure, RangeRun
from ranges.proof import verify
from ranges.states import ENDED

pytestmark = pytest.mark.django_db

ROUNDS = max(5, int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300")) // 30)
KEYS = range(60)


class Dice(RangeJob):
    """Notes each key in a table, within the leaf's transaction if it has one."""

    over = IntRange(0, len(KEYS))
    leaf = Leaf(max_size=7)
    concurrency = 2
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None

    chance: ClassVar[random.Random]
    bad: ClassVar[set[int]]
    stuck: ClassVar[set[int]]
    named: ClassVar[set[int]]

    def process(self, leaf: LeafRange, context: Any) -> None:
        roll = self.chance.random
        for key in leaf:
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO hits VALUES (%s)", [key])
            if key in self.bad or roll() < 0.01:
                raise ValueError(f"bad key {key}")
            if key in self.stuck or roll() < 0.01:
                raise DeadlockDetected("again")
            if key in self.named:
                context.fail(key, "named")
            if not context._loaded.options.atomic and roll() < 0.3:
                context.checkpoint(key + 1)
            if roll() < 0.01:
                raise HandBack


@pytest.fixture(autouse=True)
def hits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mending", "retrying"):
        monkeypatch.setattr(f"ranges.{module}.transient_seconds", lambda tries, random: 0.0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE hits (k bigint) ON COMMIT DROP")


@pytest.mark.parametrize("atomic", [True, False])
def test_whatever_leaves_do_the_run_ends_and_each_key_is_done_or_has_failed(atomic: bool) -> None:
    for _ in range(ROUNDS):
        seed = random.randrange(10**9)
        try:
            play(random.Random(seed), atomic=atomic)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def play(chance: random.Random, *, atomic: bool) -> None:
    Dice.chance = chance
    picked = chance.sample(KEYS, 6)
    Dice.bad, Dice.stuck, Dice.named = set(picked[:2]), {picked[2]}, set(picked[3:])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM hits")
    run = Dice.start(atomic=atomic)
    run_due_jobs(retries=True, limit=2_000)
    run = RangeRun.objects.get(id=run.id)

    assert run.status in ENDED
    verdict = verify(run)
    assert (verdict.ok, verdict.unfinished) == (True, 0)
    failed = {
        key
        for failure in RangeFailure.objects.filter(run=run)
        for key in range(int(failure.key), int(failure.upto or int(failure.key) + 1))
    }
    done = counted()
    assert failed | set(done) == set(KEYS)
    assert {*Dice.bad, *Dice.stuck, *Dice.named} <= failed
    if atomic:
        assert set(done.values()) <= {1}
        # What was named as failed was worked on, and its leaf committed.
        assert not (set(done) & failed) - Dice.named


def counted() -> Counter[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT k, count(*) FROM hits GROUP BY k")
        return Counter(dict(cursor.fetchall()))
