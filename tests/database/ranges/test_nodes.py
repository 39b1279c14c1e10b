"""Nodes under any sequence of claims, commits, thefts, failures and deaths still tile the run."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from jobs.database import DjangoDatabase
from jobs.models import Attempt, Job
from ranges.axes import IntAxis
from ranges.cells import Cells
from ranges.held import Fenced, Lease, Node, Segment
from ranges.models import RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.planting import plant
from ranges.proof import verify
from ranges.rewriting import rewrite
from ranges.statements import OPEN, ORDINAL
from ranges.states import NodeState
from ranges.walking import Step
from tests.factories import ago, make_job
from tests.plans import explain, rows_read, scans
from tests.rivals import Rival, other_session, wait_until_blocked

pytestmark = pytest.mark.django_db

WIDTH = 10_000


def make_run(width: int = WIDTH, *, strands: int = 1) -> RangeRun:
    run = RangeRun.objects.create(
        name="t.Job", axis={"type": "int"}, lo=0, hi=width, status="running", planned=True,
        concurrency=100,
    )  # fmt: skip
    size = width // strands
    plant(lane(run), ((n * size, (n + 1) * size) for n in range(strands)))
    return run


def lane(run: RangeRun, job: Job | None = None, database: Any = None) -> Nodes:
    owner = job or make_job("processing")
    return Nodes(
        database or DjangoDatabase("default"),
        str(run.id),
        Cells(IntAxis(), 0, int(run.hi)),
        Lease(job_id=str(owner.id), epoch=owner.lease_epoch),
        is_ordinal=True,
        hard_seconds=None,
    )


def die(job: Job, outcome: str = "lost") -> None:
    """What a rescue leaves behind: an attempt, and the job pending again."""
    Attempt.objects.create(
        job=job, lease_epoch=job.lease_epoch, number=1, started_at=ago(seconds=1), outcome=outcome
    )
    Job.objects.filter(id=job.id).update(status="pending", worker_id=None)


def commit(nodes: Nodes, node: Node, step: Step) -> Any:
    return nodes.commit(node, step, items=1, seconds=0.01, pace=0.01)


def test_a_strand_is_walked_from_its_cursor_and_ends_where_it_ends() -> None:
    run = make_run(100)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None

    assert not nodes.reserve(node, Step(10, 30)).is_done
    assert (node.cur, node.resv) == (10, 30)
    assert not commit(nodes, node, Step(30, 60)).is_done
    assert commit(nodes, node, Step(None, 100)).is_done

    row = RangeNode.objects.get()
    assert (row.state, row.owner_job, row.leaves, row.rows_ok) == ("done", None, 2, 2)
    assert (row.width_ok, row.width_skipped) == (50, 50)
    assert verify(run).is_complete


def test_a_strand_without_a_single_leaf_is_skipped() -> None:
    run = make_run(100)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None
    assert nodes.reserve(node, Step(None, 100)).is_done
    assert RangeNode.objects.get().state == "skipped"
    assert verify(run).is_complete


def test_a_strand_has_one_owner_until_that_owner_is_dead() -> None:
    run = make_run(100)
    job = make_job("processing")
    first, second = lane(run, job), lane(run)
    node = first.claim()
    assert node is not None
    first.reserve(node, Step(0, 10))
    assert second.claim() is None

    die(job)
    taken = second.claim()
    assert taken is not None
    assert (taken.id, taken.was, taken.struck, taken.interrupted) == (node.id, 10, True, 1)
    with pytest.raises(Fenced):
        commit(first, node, Step(10, 20))
    assert RangeNode.objects.get().cur == 0


def test_the_next_epoch_of_the_same_lane_fences_the_last_one() -> None:
    run = make_run(100)
    job = make_job("processing")
    stale = lane(run, job)
    node = stale.claim()
    assert node is not None
    Job.objects.filter(id=job.id).update(lease_epoch=2)
    job.refresh_from_db()

    assert lane(run, job).claim() is not None
    with pytest.raises(Fenced):
        stale.reserve(node, Step(0, 10))
    assert not stale.release(node)


@pytest.mark.parametrize(
    ("outcome", "charged"), [("lost", 1), ("timed_out", 1), ("handed_back", 0), ("succeeded", 0)]
)
def test_a_leaf_is_charged_for_a_death_but_not_for_a_worker_told_to_stop(
    outcome: str, charged: int
) -> None:
    run = make_run(100)
    job = make_job("processing")
    nodes = lane(run, job)
    node = nodes.claim()
    assert node is not None
    nodes.reserve(node, Step(0, 10))
    die(job, outcome)

    taken = lane(run).claim()
    assert taken is not None
    assert taken.interrupted == charged


def test_a_commit_answers_with_the_run_as_it_stands() -> None:
    run = make_run(100)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None
    nodes.reserve(node, Step(0, 10))
    RangeRun.objects.update(status="paused", concurrency=3)

    standing = commit(nodes, node, Step(10, 20))

    assert (standing.status, standing.concurrency, standing.is_done) == ("paused", 3, False)


def test_a_thief_takes_the_tail_and_the_victim_learns_it_from_its_next_commit() -> None:
    run = make_run(100)
    victim, thief = lane(run), lane(run)
    node = victim.claim()
    assert node is not None
    victim.reserve(node, Step(0, 10))
    commit(victim, node, Step(10, 20))
    [seen] = thief.victims()
    assert (seen.id, seen.hi, seen.resv) == (node.id, 100, 20)

    assert thief.steal(seen, 60) is not None
    assert thief.steal(seen, 60) is None  # what was seen is no longer so
    assert not commit(victim, node, Step(20, 90)).is_done
    assert (node.hi, node.resv) == (60, 60)
    assert commit(victim, node, Step(None, 100)).is_done
    assert verify(run).ok


def test_what_a_victim_has_reserved_is_not_stolen() -> None:
    run = make_run(100)
    victim, thief = lane(run), lane(run)
    node = victim.claim()
    assert node is not None
    victim.reserve(node, Step(0, 10))
    commit(victim, node, Step(10, 80))

    [seen] = thief.victims()
    assert thief.steal(seen, 60) is None
    assert thief.steal(seen, 81) is not None


def test_a_strand_rests_after_a_theft_and_longer_after_each() -> None:
    run = make_run(1_000)
    victim, thief = lane(run), lane(run)
    node = victim.claim()
    assert node is not None
    victim.reserve(node, Step(0, 10))
    commit(victim, node, Step(10, 20))
    rests = []
    for at in (800, 600, 400):
        [seen] = thief.victims()[:1]
        rests.append(seen.cool_seconds)
        assert thief.steal(seen, at) is not None
    [seen] = thief.victims()[:1]

    assert rests[0] == 0
    assert 0 < rests[1] <= 1 < rests[2] <= 2 < seen.cool_seconds <= 4
    assert seen.thefts == 3


def test_a_failed_leaf_becomes_a_node_and_the_strand_goes_on_behind_it() -> None:
    run = make_run(100)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None
    nodes.reserve(node, Step(20, 40))
    commit(nodes, node, Step(40, 60))

    ids, rest = rewrite(nodes, node, [Segment(lo=40, hi=60, state=NodeState.PENDING, attempts=1)])

    assert rest is not None
    assert (rest.lo, rest.cur, rest.hi) == (60, 60, 100)
    nodes.reserve(rest, Step(60, 100))
    assert commit(nodes, rest, Step(None, 100)).is_done
    assert verify(run).ok
    assert [(n.kind, n.state, n.lo, n.hi) for n in RangeNode.objects.order_by("lo")] == [
        ("strand", "done", 0, 40),
        ("bisect", "pending", 40, 60),
        ("strand", "done", 60, 100),
    ]
    assert ids == [RangeNode.objects.get(lo=40).id]


@pytest.mark.django_db(transaction=True)
def test_a_thief_waits_for_the_commit_of_its_victim_and_takes_nothing_that_it_reserved() -> None:
    run = make_run(100)
    nodes = lane(run)
    node = nodes.claim()
    assert node is not None
    nodes.reserve(node, Step(0, 10))
    commit(nodes, node, Step(10, 20))
    thief = make_job("processing")
    with other_session() as session:
        owner = lane(run, Job.objects.get(id=nodes.lease.job_id), session)
        [seen] = owner.victims()
        with session.transaction():
            owner.commit(node, Step(20, 90), items=1, seconds=0.01, pace=None)
            rival = Rival(lambda database: lane(run, thief, database).steal(seen, 50))
            wait_until_blocked()
        assert rival.result() is None
    assert verify(run).ok


@pytest.mark.django_db(transaction=True)
def test_of_two_lanes_that_claim_at_once_each_gets_another_strand() -> None:
    run = make_run(100, strands=2)
    jobs = [make_job("processing") for _ in range(2)]
    with other_session() as session, session.transaction():
        first = lane(run, jobs[0], session).claim()
        second = Rival(lambda database: lane(run, jobs[1], database).claim()).result()
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_claims_and_commits_read_a_bounded_number_of_rows_among_many_runs() -> None:
    run = make_run(1_000, strands=10)
    RangeNode.objects.bulk_create(
        RangeNode(
            run=other, kind="strand", state="done", lo=n, hi=n + 1, cur=n + 1, resv=n + 1,
            width_ok=1,
        )
        for other in [RangeRun.objects.create(name="t.Other", axis={"type": "int"}, lo=0, hi=2_000)]
        for n in range(2_000)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ranges_rangenode")
    job = make_job("processing")
    owner = {"job": str(job.id), "epoch": 1}
    for sql, params in (
        (ORDINAL.claim, {"run": str(run.id), "hard": None, **owner}),
        (OPEN, {"run": str(run.id)}),
        (ORDINAL.victims, {"run": str(run.id)}),
    ):
        plan = explain(sql, params)
        assert not [scan for scan in scans(plan) if scan == "Seq Scan ranges_rangenode"]
        assert rows_read(plan, "ranges_rangenode") < 200
