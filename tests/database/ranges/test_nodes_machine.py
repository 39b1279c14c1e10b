"""Nodes under any sequence of what lanes, sweeps, retries and deaths do still tile the run.

In the suite a few short games; ten thousand of two hundred moves take some hours:

COPPICE_PROPERTY_EXAMPLES=200000 COPPICE_PROPERTY_STEPS=200 pytest tests/database/ranges/test_nodes_machine.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job
from ranges import planting
from ranges.held import Fenced, Node, Segment
from ranges.models import RangeRun
from ranges.nodes import Nodes
from ranges.proof import verify
from ranges.rewriting import rewrite
from ranges.states import NodeState
from ranges.walking import Step
from tests.database.ranges.test_nodes import WIDTH, lane, make_run
from tests.factories import make_job

pytestmark = pytest.mark.django_db

ROUNDS = max(10, int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300")) // 20)
STEPS = int(os.environ.get("COPPICE_PROPERTY_STEPS", "60"))
MOST_LANES = 12

# Whoever holds a node that is at work holds it alone, and only what is at work is held.
HELD_WRONGLY = """
SELECT count(*) FROM ranges_rangenode
WHERE (state = 'running') <> (owner_job IS NOT NULL) OR (owner_job IS NULL) <> (owner_epoch IS NULL)
"""


def test_random_work_thefts_failures_and_deaths_never_break_the_chain_or_the_ledger() -> None:
    for _ in range(ROUNDS):
        seed = random.randrange(10**9)
        try:
            Game(random.Random(seed)).play(STEPS)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@dataclass
class Hand:
    """A lane, as it knows itself; perhaps it is dead and does not know."""

    job: Job
    nodes: Nodes
    node: Node | None = None


class Game:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.run: RangeRun = make_run(chance.choice([1, 7, 100, WIDTH]))
        self.hands: list[Hand] = []
        self.done: Counter[int] = Counter()
        self.may_be_done: Counter[int] = Counter()
        """How often more than once, since a row needed work again."""
        self.desk = lane(self.run)

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.move()
            verdict = verify(self.run)
            assert verdict.ok, verdict.problems
            assert verdict.rows_ok == self.done.total()
            with connection.cursor() as cursor:
                cursor.execute(HELD_WRONGLY)
                assert cursor.fetchone() == (0,)
        assert not [key for key, n in self.done.items() if n > 1 + self.may_be_done[key]]

    def move(self) -> None:
        if self.chance.random() < 0.1:
            self.from_outside()
            return
        index = self.chance.randrange(5)
        if index >= len(self.hands):
            self.hands.append(self.new_hand())
            return
        hand = self.hands[index]
        try:
            hand.node = self.act(hand.nodes, hand.node)
        except Fenced:
            hand.node = None
        if self.chance.random() < 0.1:
            self.die(index)

    def new_hand(self) -> Hand:
        job = make_job("processing")
        return Hand(job, lane(self.run, job))

    def die(self, index: int) -> None:
        """It comes back under another epoch; its old hands may still move."""
        stale = self.hands[index]
        Job.objects.filter(id=stale.job.id).update(lease_epoch=stale.job.lease_epoch + 1)
        job = Job.objects.get(id=stale.job.id)
        self.hands[index] = Hand(job, lane(self.run, job))
        if len(self.hands) < MOST_LANES:
            self.hands.append(stale)

    def from_outside(self) -> None:
        """What a pause, a person or a sweep does."""
        match self.chance.choice(["rest", "retry", "relapse"]):
            case "rest":
                self.desk.release_orphans()
            case "retry":
                failed = planting.in_state(self.desk, NodeState.ERROR)
                if failed:
                    assert planting.revive(self.desk, self.chance.choice(failed)[0])
            case "relapse":
                ended = planting.in_state(self.desk, NodeState.DONE, NodeState.SKIPPED)
                ended = [each for each in ended if int(each[2]) < int(each[3])]
                if ended:
                    id, _, lo, hi = self.chance.choice(ended)
                    at = self.chance.randrange(int(lo), int(hi))
                    planting.reopen(self.desk, id, lo, hi, at)
                    self.may_be_done.update(range(at, int(hi)))

    def act(self, nodes: Nodes, node: Node | None) -> Node | None:
        if node is None:
            node = nodes.claim() or self.steal(nodes)
            return None if node is None else self.reserve(nodes, node)
        if not node.has_leaf:
            return self.reserve(nodes, node)
        match self.chance.choices(["commit", "checkpoint", "release", "cut up"], [60, 10, 8, 22])[
            0
        ]:
            case "commit":
                return self.commit(nodes, node)
            case "checkpoint":
                at, upto = int(node.cur), self.chance.randint(int(node.cur) + 1, int(node.resv))
                nodes.checkpoint(node, upto, items=upto - at)
                self.done.update(range(at, upto))
                return node
            case "release":
                nodes.release(node, delay=0)
                return None
            case _:
                pieces = self.cut_up(int(node.cur), int(node.resv))
                _, rest = rewrite(nodes, node, pieces)
                for piece in pieces:
                    if piece.state == NodeState.DONE:
                        self.done.update(range(int(piece.lo), int(piece.hi)))
                return rest

    def steal(self, nodes: Nodes) -> Node | None:
        victims = [v for v in nodes.victims() if int(v.hi) - int(v.resv) > 1]
        if not victims:
            return None
        victim = self.chance.choice(victims)
        cut = self.chance.randrange(int(victim.resv) + 1, int(victim.hi))
        made = nodes.steal(victim, cut)
        if made is None:
            return None
        return nodes.stolen(made, cut, victim.hi, victim.seconds_per_row)

    def reserve(self, nodes: Nodes, node: Node) -> Node | None:
        standing = nodes.reserve(node, self.next_step(node.cur, node.hi))
        return None if standing.is_done else node

    def commit(self, nodes: Nodes, node: Node) -> Node | None:
        lo, hi = int(node.cur), int(node.resv)
        step = self.next_step(hi, node.hi)
        standing = nodes.commit(node, step, items=hi - lo, seconds=0.01, pace=0.01)
        self.done.update(range(lo, hi))
        return None if standing.is_done else node

    def next_step(self, cur: Any, hi: Any) -> Step:
        chance = self.chance
        if cur >= hi:
            return Step(None, hi)
        start = chance.randint(cur, min(hi, cur + 5))
        if start >= hi or chance.random() < 0.05:
            return Step(None, chance.randint(cur + 1, hi))
        return Step(start, chance.randint(start + 1, min(hi, start + 50)))

    def cut_up(self, lo: int, hi: int) -> list[Segment]:
        chance = self.chance
        cuts = sorted(chance.sample(range(lo + 1, hi), min(hi - lo - 1, chance.randrange(3))))
        return [
            Segment(
                lo=one,
                hi=other,
                state=state,
                items=0 if state == NodeState.PENDING else other - one,
                attempts=1,
            )
            for one, other in pairwise([lo, *cuts, hi])
            for state in [chance.choice([NodeState.DONE, NodeState.ERROR, NodeState.PENDING])]
        ]
