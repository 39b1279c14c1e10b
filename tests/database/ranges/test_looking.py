"""A run looks into the user's tables without holding its row: what a person does meanwhile wins.

The step is stopped in the middle of its look, in a thread of its own. Who acts then must not wait
for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from django.db import connection, connections
from django.db.models import Q

from jobs.models import Job
from jobs.testing import run_due_jobs
from ranges import Leaf, LeafRange, RangeJob, planting
from ranges.models import RangeNode, RangeRun
from ranges.querying import QuerySource
from ranges.run_rows import nodes_of
from ranges.states import RunStatus
from ranges.sweeping import Sweeper
from tests.database.ranges.keyed import Numbered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("_keyed_tables")]

LONGEST = 60


class Watched(RangeJob):
    name = "shop.Watched"
    over: Any = Numbered.objects.all()
    todo: ClassVar[Any] = Q(done=False)
    leaf = Leaf(max_size=20)
    concurrency = 2

    seen: ClassVar[list[int]] = []

    def process(self, leaf: LeafRange, context: Any) -> int:
        self.seen.extend(leaf.queryset.values_list("id", flat=True))
        return int(leaf.queryset.update(done=True))


class Look:
    """The next time that this is called it waits, once, until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.began, self.may_go_on = threading.Event(), threading.Event()
        call = getattr(owner, name)

        def waits(*given: Any, **named: Any) -> Any:
            found = call(*given, **named)
            if not self.began.is_set():
                self.began.set()
                assert self.may_go_on.wait(LONGEST)
            return found

        monkeypatch.setattr(owner, name, waits)


@pytest.fixture(params=[(QuerySource, "limits"), (Sweeper, "_look")], ids=["plan", "sweep"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Look:
    return Look(monkeypatch, *request.param)


@pytest.fixture
def run() -> RangeRun:
    Watched.seen.clear()
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(100))
    return Watched.start()


@pytest.fixture
def worker(run: RangeRun) -> Iterator[threading.Thread]:
    """Runs what is due, in a thread, until nothing is."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run_due_jobs(retries=True)
        except BaseException as error:  # noqa: BLE001 - raised by the test
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    yield thread
    thread.join(LONGEST)
    assert not thread.is_alive()
    assert errors == []


def meanwhile(look: Look, worker: threading.Thread, act: Callable[[], object]) -> None:
    worker.start()
    try:
        assert look.began.wait(LONGEST)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")  # that a row is held is an error here
        act()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
        look.may_go_on.set()
        worker.join(LONGEST)


def test_a_pause_meanwhile_is_not_kept_waiting_and_stands(
    run: RangeRun, look: Look, worker: threading.Thread
) -> None:
    meanwhile(look, worker, lambda: run.pause(reason="lunch"))
    run.refresh_from_db()
    assert (run.status, run.reason) == (RunStatus.PAUSED, "lunch")

    run.resume()
    run_due_jobs(retries=True)
    run.refresh_from_db()
    assert run.status == RunStatus.COMPLETED
    assert sorted(Watched.seen) == list(range(100))


def test_a_cancel_meanwhile_is_not_kept_waiting_and_stands(
    run: RangeRun, look: Look, worker: threading.Thread
) -> None:
    meanwhile(look, worker, lambda: run.cancel(reason="wrong table"))
    run.refresh_from_db()
    assert (run.status, run.reason) == (RunStatus.CANCELLED, "wrong table")
    assert not Job.objects.live().exists()
    assert run.planned == bool(Watched.seen)


def test_what_was_paused_and_resumed_meanwhile_goes_on_with_its_new_concurrency(
    run: RangeRun, look: Look, worker: threading.Thread
) -> None:
    def act() -> None:
        run.pause()
        run.retune(concurrency=5)
        run.resume()

    meanwhile(look, worker, act)
    run.refresh_from_db()
    assert (run.status, run.concurrency) == (RunStatus.COMPLETED, 5)
    assert sorted(Watched.seen) == list(range(100))
    assert run.assert_complete().is_complete


def test_a_node_that_changed_while_it_was_swept_is_looked_at_again(
    run: RangeRun, worker: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look(monkeypatch, Sweeper, "_look")

    def act() -> None:
        """As a lane does that was just on its way out."""
        run.refresh_from_db()
        first = RangeNode.objects.order_by("lo")[0]
        lo, hi = int(first.lo or 0), int(first.hi or 0)
        planting.reopen(nodes_of(run), first.id, lo, hi, lo)

    meanwhile(look, worker, act)
    run.refresh_from_db()
    assert run.status == RunStatus.COMPLETED
    assert run.assert_complete().is_complete


def test_a_new_run_of_one_that_is_looked_at_is_made_at_once(
    run: RangeRun, look: Look, worker: threading.Thread
) -> None:
    made: list[RangeRun] = []
    meanwhile(look, worker, lambda: made.append(run.again()))
    assert made[0].status == RunStatus.CREATED
