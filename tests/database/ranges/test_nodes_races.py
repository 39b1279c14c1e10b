"""Two thieves, a victim that commits, and a lease that ends, all at once on one strand.

In the suite some hundred rounds; a hundred thousand take an hour or two:

COPPICE_PROPERTY_EXAMPLES=100000 pytest tests/database/ranges/test_nodes_races.py
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jobs.database import DirectDatabase, direct_conninfo
from ranges.held import Fenced, Node
from ranges.nodes import Nodes
from ranges.proof import verify
from ranges.walking import Step
from tests.database.ranges.test_nodes import lane, make_run
from tests.factories import make_job

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = max(300, int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300")))
WIDTH = 500
END_OF_LEASE = "UPDATE jobs_job SET lease_epoch = lease_epoch + 1 WHERE id = %(id)s::uuid"


class Racers:
    """Calls that start at one moment, each in a thread and on a connection of its own."""

    def __init__(self, acts: list[Callable[[DirectDatabase], None]]) -> None:
        self._gate = threading.Barrier(len(acts) + 1)
        self._over = False
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(act,)) for act in acts]

    def _run(self, act: Callable[[DirectDatabase], None]) -> None:
        database = DirectDatabase(direct_conninfo(), name="racer")
        try:
            while True:
                self._gate.wait(60)
                if self._over:
                    return
                try:
                    act(database)
                except BaseException as error:  # noqa: BLE001 - raised by the test
                    self.errors.append(error)
                self._gate.wait(60)
        finally:
            database.close()

    @contextmanager
    def ready(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over = True
            self._gate.wait(60)
            for thread in self._threads:
                thread.join(60)

    def race(self) -> None:
        self._gate.wait(60)
        self._gate.wait(60)
        if self.errors:
            raise self.errors[0]


class Lane:
    """One side of the race. Whoever finds itself fenced begins anew."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.job = make_job("processing")
        self.node: Node | None = None

    def work(self, database: DirectDatabase) -> None:
        """Commit the leaf at work, or take a strand."""
        nodes = lane(self.race.run, self.job, database)
        try:
            if self.node is None:
                self.node = self.take(nodes)
                goes_on = self.node is not None and self.begin(nodes, self.node)
            else:
                goes_on = self.commit(nodes, self.node)
        except Fenced:
            self.race.outcomes["fenced"] += 1
            goes_on = False
        if not goes_on:
            self.node = None

    def take(self, nodes: Nodes) -> Node | None:
        return nodes.claim()

    def begin(self, nodes: Nodes, node: Node) -> bool:
        end = min(int(node.hi), int(node.cur) + self.race.chance.randint(1, 5))
        return not nodes.reserve(node, Step(node.cur, end)).is_done

    def commit(self, nodes: Nodes, node: Node) -> bool:
        lo, hi = int(node.cur), int(node.resv)
        end = min(int(node.hi), hi + self.race.chance.randint(1, 5))
        step = Step(hi, end) if hi < int(node.hi) else Step(None, node.hi)
        standing = nodes.commit(node, step, items=hi - lo, seconds=0.01, pace=0.01)
        self.race.done.update(range(lo, hi))
        return not standing.is_done

    def lose_the_lease(self, database: DirectDatabase) -> None:
        """The owner hears of it at its next commit, which may be at this moment."""
        database.run(END_OF_LEASE, {"id": str(self.job.id)})


class Thief(Lane):
    def take(self, nodes: Nodes) -> Node | None:
        busy = [one for one in nodes.victims() if int(one.hi) - int(one.resv) > 1]
        if not busy:
            return None
        one = self.race.chance.choice(busy)
        cut = self.race.chance.randrange(int(one.resv) + 1, int(one.hi))
        made = nodes.steal(one, cut)
        self.race.outcomes["too late" if made is None else "stolen"] += 1
        return None if made is None else nodes.stolen(made, cut, one.hi, one.seconds_per_row)


class Heir(Lane):
    """Ends a lease now and then, and takes what is free by it."""

    def work(self, database: DirectDatabase) -> None:
        chance = self.race.chance
        if chance.random() < 0.4:
            chance.choice(self.race.lanes).lose_the_lease(database)
        super().work(database)

    def take(self, nodes: Nodes) -> Node | None:
        node = nodes.claim()
        if node is not None and node.was != node.cur:
            self.race.outcomes["taken over"] += 1
        return node


class Race:
    def __init__(self) -> None:
        self.chance = random.Random()
        self.outcomes: Counter[str] = Counter()
        self.lanes: list[Lane] = []
        self.begin()
        self.lanes = [Lane(self), Thief(self), Thief(self), Heir(self)]

    def begin(self) -> None:
        self.run = make_run(WIDTH)
        self.done: Counter[int] = Counter()
        for each in self.lanes:
            each.node = None

    def check(self) -> None:
        verdict = verify(self.run)
        assert verdict.ok, verdict.problems
        assert verdict.rows_ok == self.done.total()
        assert set(self.done.values()) <= {1}
        for each in self.lanes:
            each.job.refresh_from_db()  # what was rescued works under its new epoch
        if not verdict.unfinished:
            self.outcomes["runs"] += 1
            self.begin()


def test_thieves_a_committing_victim_and_a_lost_lease_never_overlap() -> None:
    race = Race()
    racers = Racers([each.work for each in race.lanes])
    with racers.ready():
        for _ in range(ROUNDS):
            racers.race()
            race.check()

    # Else nothing was raced.
    assert race.outcomes["runs"]
    assert min(race.outcomes[what] for what in ("stolen", "too late", "fenced", "taken over")) > 0
