"""Who waits for whom: nobody is forgotten, released twice, or left waiting without a reason."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs import JobSpec, child, edges, enqueue, enqueue_jobs, enqueue_many, lifecycle, registry
from jobs.answers import WaitFor
from jobs.claim import Lane, claim
from jobs.claimed import Claimed
from jobs.complete import complete
from jobs.database import Database, DjangoDatabase, direct_conninfo
from jobs.endings import Ending, Success
from jobs.errors import DependencyCycle, InvalidInput
from jobs.ids import new_id
from jobs.insertion import wake
from jobs.models import Job, JobDependency, JobLog
from jobs.outcomes import Run, decide_raise, decide_return
from jobs.states import Status
from tests.factories import ago, make_edge, make_job, make_worker
from tests.rivals import Rival, other_session, wait_until_blocked

pytestmark = pytest.mark.django_db

DATABASE = DjangoDatabase("default")
WORKER = new_id()
RUN = Run(wait=0.0, run=0.0)
TYPE = "edges.step"


@pytest.fixture(autouse=True)
def _step() -> Iterator[None]:
    registry.handler(TYPE, max_attempts=1)(_do_nothing)
    yield
    registry.remove(TYPE)


def _do_nothing() -> None:
    pass


def step(*, parents: Any = (), **options: Any) -> Job:
    return enqueue(TYPE, {}, depends_on=parents, **options)


def run(job: Job, database: Database = DATABASE) -> Claimed:
    """Claim that job, however many are due."""
    Job.objects.filter(id=job.id).update(due_at=ago(minutes=5), queue=f"q{job.id}")
    lanes = [Lane(f"q{job.id}", job.type, job.priority)]
    [claimed] = claim(
        database, worker_id=WORKER, lanes=lanes, limit=1, aging_minutes=10, aging_step=0.5
    )
    return claimed


def succeed(job: Job, database: Database = DATABASE) -> list[edges.Released]:
    return finish(Success(run(job), 0.0, 0.0), database)


def fail(job: Job) -> list[edges.Released]:
    return finish(decide_raise(run(job), ValueError("bad"), RUN, None))


def finish(end: Success | Ending, database: Database = DATABASE) -> list[edges.Released]:
    successes, endings = ([end], []) if isinstance(end, Success) else ([], [end])
    return complete(database, worker_id=WORKER, successes=successes, endings=endings).released


def state(job: Job) -> tuple[str, int]:
    job.refresh_from_db()
    return job.status, job.unmet_dependencies


def counters_are_right() -> bool:
    """The promise that everything else rests on: the counter is the number of open edges."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM jobs_job c WHERE c.unmet_dependencies <> "
            "(SELECT count(*) FROM jobs_jobdependency d WHERE d.child_id = c.id AND state = 'open')"
        )
        return bool(cursor.fetchone()[0] == 0)


# Parents that end


@pytest.mark.django_db(transaction=True)
def test_a_job_waits_until_everything_it_depends_on_is_completed() -> None:
    first, second = step(), step()
    last = step(parents=[first, second])

    assert state(last) == ("pending", 2)
    assert succeed(first) == []
    assert state(last) == ("pending", 1)
    [released] = succeed(second)

    assert (released.job_id, released.event) == (str(last.id), "released")
    assert state(last) == ("pending", 0)
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["failed", "cancelled", "purged"])
@pytest.mark.parametrize(
    ("policy", "status", "unmet"),
    [("wait", "pending", 1), ("cancel", "cancelled", 1), ("run", "pending", 0)],
)
def test_what_becomes_of_a_dependent_is_stated_and_has_a_visible_reason(
    end: str, policy: str, status: str, unmet: int
) -> None:
    parent = step()
    dependent = step(parents=parent, on_parent_failure=policy)

    match end:
        case "failed":
            fail(parent)
        case "cancelled":
            lifecycle.cancel(parent.id)
        case "purged":
            fail(parent)
            lifecycle.purge(parent.id)

    if end == "purged" and policy == "wait":
        # It could never run: nobody can retry what is gone.
        status = "cancelled"
    assert state(dependent)[0] == status
    if status == "cancelled":
        verb = "was purged" if end == "purged" and policy == "wait" else ""
        dependent.refresh_from_db()
        assert dependent.last_error.startswith(f"dependency {parent.id}")
        assert verb in dependent.last_error
        line = JobLog.objects.filter(job=dependent).latest("id")
        assert (line.event, line.message) == ("cancelled", dependent.last_error)
    elif unmet:
        [blocker] = edges.blocked_by(DATABASE, [str(dependent.id)])[str(dependent.id)]
        assert (blocker.job_id, blocker.status) == (str(parent.id), end)
    else:
        assert state(dependent) == ("pending", 0)
    assert counters_are_right() or end == "purged"


@pytest.mark.django_db(transaction=True)
def test_a_failure_goes_down_the_whole_chain_in_the_transaction_that_ends_the_parent() -> None:
    parent = step()
    chain = [parent]
    for _ in range(6):
        chain.append(step(parents=chain[-1], on_parent_failure="cancel"))
    waiting = step(parents=chain[3])
    running = step(parents=chain[6], on_parent_failure="run")

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    released = fail(parent)

    assert [state(job)[0] for job in chain] == ["failed", *["cancelled"] * 6]
    assert {one.job_id for one in released if one.event == "cancelled"} == {
        str(job.id) for job in chain[1:]
    }
    assert state(waiting) == ("pending", 1)
    [blocker] = edges.blocked_by(DATABASE, [str(waiting.id)])[str(waiting.id)]
    assert (blocker.job_id, blocker.status) == (str(chain[3].id), "cancelled")
    assert state(running) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_a_dependent_revives_when_its_parent_is_retried_to_success() -> None:
    parent = step()
    dependent = step(parents=parent)
    after = step(parents=dependent)
    fail(parent)
    assert state(dependent) == ("pending", 1)

    lifecycle.retry(parent.id)
    succeed(parent)

    assert state(dependent) == ("pending", 0)
    succeed(dependent)
    assert state(after) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_one_failed_parent_of_several_is_enough_to_cancel_and_the_others_do_no_more_harm() -> None:
    first, second = step(), step()
    dependent = step(parents=[first, second], on_parent_failure="cancel")

    fail(first)
    succeed(second)

    assert state(dependent)[0] == "cancelled"
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_a_released_job_that_is_due_wakes_an_idle_worker_and_one_that_is_not_does_not() -> None:
    worker = make_worker(waiting=True)
    parent = step()
    step(parents=parent)
    step(parents=parent, scheduled_at=ago(hours=-1))

    released = succeed(parent)

    assert sorted(one.is_due for one in released) == [False, True]
    with psycopg.connect(direct_conninfo(), autocommit=True) as session:
        session.execute(f'LISTEN "coppice_{worker.id.hex}"'.encode())
        wake(DATABASE, {one.queue for one in released if one.is_due})
        assert [note.payload for note in session.notifies(timeout=60, stop_after=1)] == [""]


@pytest.mark.django_db(transaction=True)
def test_a_released_job_waits_from_the_moment_it_was_released() -> None:
    """Else a job that was blocked for a day would go before everything else."""
    parent = step()
    dependent = step(parents=parent, scheduled_at=ago(hours=20))

    succeed(parent)

    dependent.refresh_from_db()
    parent.refresh_from_db()
    assert dependent.due_at is not None
    assert parent.started_at is not None
    assert dependent.due_at >= parent.started_at


# Settling


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "purged"])
def test_a_parent_that_ended_before_the_enqueue_is_found_ended(end: str) -> None:
    parent = step()
    match end:
        case "completed":
            succeed(parent)
        case "cancelled":
            lifecycle.cancel(parent.id)
        case _:
            fail(parent)
    if end == "purged":
        lifecycle.purge(parent.id)
        with pytest.raises(InvalidInput, match="no such job"):
            step(parents=parent)
        return

    dependent = step(parents=parent)
    doomed = step(parents=parent, on_parent_failure="cancel")

    assert state(dependent) == ("pending", 0 if end == "completed" else 1)
    assert state(doomed)[0] == ("pending" if end == "completed" else "cancelled")
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_a_parent_that_ends_while_its_dependent_is_not_settled_forgets_nobody() -> None:
    parent = step()
    with other_session() as enqueuer:
        dependent = make_job(type=TYPE, unmet_dependencies=1)
        JobDependency.objects.create(child=dependent, parent=parent)
        # The parent does not know of it yet, so its end closes nothing.
        assert succeed(parent) == []
        assert state(dependent) == ("pending", 1)

        [released] = edges.settle(enqueuer, [str(dependent.id)])

    assert released.job_id == str(dependent.id)
    assert state(dependent) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_settling_waits_for_a_parent_that_is_ending_and_sees_its_end() -> None:
    parent = step()
    dependent = make_job(type=TYPE, unmet_dependencies=1)
    JobDependency.objects.create(child=dependent, parent=parent)
    claimed = run(parent)

    with other_session() as completer:
        with completer.transaction():
            finish(Success(claimed, 0.0, 0.0), completer)
            settler = Rival(lambda database: edges.settle(database, [str(dependent.id)]))
            wait_until_blocked()
        [released] = settler.result()

    assert released.job_id == str(dependent.id)
    assert state(dependent) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_a_parent_that_ends_while_it_is_told_of_a_dependent_closes_the_edge_itself() -> None:
    parent = step()
    dependent = make_job(type=TYPE, unmet_dependencies=1)
    JobDependency.objects.create(child=dependent, parent=parent)
    claimed = run(parent)

    with other_session() as settler:
        with settler.transaction():
            assert edges.settle(settler, [str(dependent.id)]) == []
            completer = Rival(lambda database: finish(Success(claimed, 0.0, 0.0), database))
            wait_until_blocked()
        [released] = completer.result()

    assert released.job_id == str(dependent.id)
    assert state(dependent) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_settling_leaves_alone_an_edge_that_was_added_meanwhile() -> None:
    """It was not among those whose parents were told, so it must not be marked as if it were."""
    first, second = step(), step()
    dependent = make_job(type=TYPE, unmet_dependencies=1)
    JobDependency.objects.create(child=dependent, parent=first)

    with other_session() as holder:
        with holder.transaction():
            holder.rows("SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE", {"id": first.id})
            settler = Rival(lambda database: edges.settle(database, [str(dependent.id)]))
            wait_until_blocked()
            # The settler has read which edges there are, and waits for the first parent.
            with DATABASE.transaction():
                edges.add(DATABASE, str(dependent.id), [str(second.id)])
        settler.result()
    edges.settle(DATABASE, [str(dependent.id)])
    succeed(first)
    succeed(second)

    assert state(dependent) == ("pending", 0)


class Interrupted(DjangoDatabase):
    """Lets somebody else do something right before one statement."""

    def __init__(self, statement: str, meanwhile: Callable[[], object]) -> None:
        super().__init__("default")
        self.statement = statement
        self.meanwhile: Callable[[], object] | None = meanwhile

    def rows(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if sql == self.statement and self.meanwhile is not None:
            call, self.meanwhile = self.meanwhile, None
            call()
        return super().rows(sql, params)


@pytest.mark.django_db(transaction=True)
def test_two_who_settle_the_same_edges_do_not_take_a_living_parent_for_a_purged_one() -> None:
    parent = step()
    dependent = make_job(type=TYPE, unmet_dependencies=1)
    JobDependency.objects.create(child=dependent, parent=parent)

    with other_session() as leader:
        slow = Interrupted(edges.FLAG_PARENTS, lambda: edges.settle(leader, [str(dependent.id)]))
        assert edges.settle(slow, [str(dependent.id)]) == []

    assert state(dependent) == ("pending", 1)
    succeed(parent)
    assert state(dependent) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_what_an_enqueuer_left_unsettled_when_it_died_is_settled_later() -> None:
    parent = step()
    dependent = make_job(type=TYPE, unmet_dependencies=1)
    JobDependency.objects.create(child=dependent, parent=parent)
    succeed(parent)

    assert edges.settle_leftovers(DATABASE) == []  # its enqueuer may be about to
    Job.objects.filter(id=dependent.id).update(updated_at=ago(seconds=6))
    [released] = edges.settle_leftovers(DATABASE)

    assert released.job_id == str(dependent.id)
    assert state(dependent) == ("pending", 0)
    assert edges.settle_leftovers(DATABASE) == []


@pytest.mark.django_db(transaction=True)
def test_who_enqueues_does_not_wait_for_a_parent_that_somebody_keeps_locked() -> None:
    parent = step()
    with other_session() as holder, holder.transaction():
        holder.rows("SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE", {"id": parent.id})
        dependent = Rival(lambda _: step(parents=parent)).result()
        assert state(dependent) == ("pending", 1)
    succeed(parent)
    assert state(dependent) == ("pending", 1)

    [released] = edges.settle_leftovers(DATABASE, age=0)
    assert released.job_id == str(dependent.id)
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_many_dependents_settled_while_their_parents_end_are_each_released_once() -> None:
    parents = [step() for _ in range(12)]
    claims = [run(parent) for parent in parents]
    chosen = random.Random(7)
    together = threading.Barrier(3)

    def enqueue_some(_: Database) -> list[Job]:
        together.wait()
        return [step(parents=chosen.sample(parents, 3)) for _ in range(40)]

    def end_all(database: Database) -> list[str]:
        together.wait()
        return [
            one.job_id for claimed in claims for one in finish(Success(claimed, 0.0, 0.0), database)
        ]

    enqueuers = [Rival(enqueue_some), Rival(enqueue_some)]
    ender = Rival(end_all)
    dependents = [job for rival in enqueuers for job in rival.result()]
    released = ender.result()

    assert len(released) == len(set(released))
    assert [state(job) for job in dependents] == [("pending", 0)] * 80
    assert not JobDependency.objects.filter(state="open").exists()
    assert not JobDependency.objects.filter(settled=False).exists()


# Circles


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("length", [1, 2, 3, 7, 60])
def test_an_edge_that_would_close_a_circle_of_any_length_is_refused(length: int) -> None:
    chain = [step()]
    for _ in range(length - 1):
        chain.append(step(parents=chain[-1]))
    before = sorted(map(repr, JobDependency.objects.values()))

    with pytest.raises(DependencyCycle):
        lifecycle.add_dependency(chain[0].id, [chain[-1].id])

    assert sorted(map(repr, JobDependency.objects.values())) == before
    assert counters_are_right()


@pytest.mark.parametrize("length", [1, 2, 3, 40])
def test_a_circle_within_one_call_is_refused_and_nothing_is_stored(length: int) -> None:
    specs = [
        JobSpec(type=TYPE, key=str(number), depends_on=[str((number + 1) % length)])
        for number in range(length)
    ]

    with pytest.raises(DependencyCycle):
        enqueue_jobs([JobSpec(type=TYPE), *specs])

    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_writers_that_would_close_a_circle_together_one_is_refused() -> None:
    first, second = step(), step()

    with other_session() as one:
        with one.transaction():
            assert edges.add(one, str(first.id), [str(second.id)]) == 1
            other = Rival(lambda _: lifecycle.add_dependency(second.id, [first.id]))
            wait_until_blocked()
        with pytest.raises(DependencyCycle):
            other.result()

    assert (state(first), state(second)) == (("pending", 1), ("pending", 0))


@pytest.mark.django_db(transaction=True)
def test_many_writers_at_once_never_close_a_circle() -> None:
    jobs = [step() for _ in range(8)]
    chosen = random.Random(3)
    pairs = [chosen.sample(jobs, 2) for _ in range(60)]
    together = threading.Barrier(4)

    def add(mine: list[list[Job]]) -> int:
        together.wait()
        added = 0
        for dependent, parent in mine:
            try:
                lifecycle.add_dependency(dependent.id, [parent.id])
            except DependencyCycle:
                continue
            added += 1
        return added

    rivals = [Rival(lambda _, part=part: add(pairs[part::4])) for part in range(4)]  # type: ignore[misc]
    assert sum(rival.result() for rival in rivals) > 0

    # Whatever was let in has an order: the jobs can be run to the last one.
    left = {job.id: job for job in jobs}
    while left:
        free = [job for job in left.values() if state(job) == ("pending", 0)]
        assert free, "the jobs that are left wait in a circle"
        for job in free:
            succeed(left.pop(job.id))
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_an_unknown_parent_is_refused_on_every_way_in() -> None:
    stranger = new_id()
    job = step()
    ways: list[Callable[[], object]] = [
        lambda: step(parents=stranger),
        lambda: enqueue_many(TYPE, [{}], depends_on=[stranger]),
        lambda: enqueue_jobs([JobSpec(type=TYPE, depends_on=[stranger])]),
        lambda: enqueue_jobs([JobSpec(type=TYPE, depends_on=["no-such-key"])]),
        lambda: lifecycle.add_dependency(job.id, [stranger]),
    ]
    for way in ways:
        with pytest.raises(InvalidInput) as refused:
            way()
        assert "depends_on" in refused.value.field

    assert Job.objects.count() == 1
    assert not JobDependency.objects.exists()


# WaitFor


def wait_for(job: Job, *jobs: Any) -> list[str]:
    """Run the job to a WaitFor; returns what is to be settled, after settling it."""
    ending = decide_return(run(job), WaitFor(jobs), RUN, registry.get(TYPE))
    written = complete(DATABASE, worker_id=WORKER, endings=[ending])
    edges.settle(DATABASE, written.to_settle)
    return written.to_settle


@pytest.mark.django_db(transaction=True)
def test_children_are_made_with_the_wait_and_their_end_of_any_kind_frees_the_parent() -> None:
    parent = step()

    wait_for(parent, child(TYPE, {"n": 1}, key="a"), child(TYPE, {"n": 2}, key="b"))

    made = {job.child_key: job for job in Job.objects.filter(parent=parent)}
    assert set(made) == {"a", "b"}
    assert state(parent) == ("pending", 2)
    succeed(made["a"])
    fail(made["b"])
    assert state(parent) == ("pending", 0)
    parent.refresh_from_db()
    assert (parent.attempt_count, parent.wait_count) == (0, 1)


@pytest.mark.django_db(transaction=True)
def test_a_handler_that_runs_again_meets_the_same_children() -> None:
    parent = step()
    children = [child(TYPE, {"n": 1}, key="a"), child(TYPE, {"n": 2}, key="b")]
    wait_for(parent, *children)
    for job in Job.objects.filter(parent=parent):
        succeed(job)

    wait_for(parent, *children)

    assert Job.objects.filter(parent=parent).count() == 2
    assert state(parent) == ("pending", 0)  # they have ended already
    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_waiting_for_itself_for_its_dependents_or_for_strangers_is_that_attempts_failure() -> None:
    job = step()
    dependent = step(parents=job)
    for refused in (job, dependent, new_id()):
        claimed = run(job)
        ending = decide_return(claimed, WaitFor([refused]), RUN, registry.get(TYPE))
        with pytest.raises(InvalidInput):
            complete(DATABASE, worker_id=WORKER, endings=[ending])
        complete(
            DATABASE,
            worker_id=WORKER,
            endings=[decide_raise(claimed, ValueError("x"), RUN, None)],
        )
        lifecycle.retry(job.id)

    assert counters_are_right()


@pytest.mark.django_db(transaction=True)
def test_a_wait_and_an_edge_added_by_a_person_never_wait_in_a_circle() -> None:
    """The one holds a child and wants the right to add edges, the other has it and wants the child."""
    parent, waits = step(), step()
    dependent = step(parents=parent)
    ending = decide_return(run(waits), WaitFor([step()]), RUN, registry.get(TYPE))
    success = Success(run(parent), 0.0, 0.0)

    with other_session() as person:
        with person.transaction():
            person.rows("SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE", {"id": dependent.id})
            completer = Rival(
                lambda database: complete(
                    database, worker_id=WORKER, successes=[success], endings=[ending]
                )
            )
            wait_until_blocked()
            edges.add(person, str(dependent.id), [str(step().id)])
        completer.result()

    assert state(dependent) == ("pending", 1)
    assert state(waits) == ("pending", 1)
    assert counters_are_right()


def test_blockers_are_named_with_their_status() -> None:
    parent, dead = make_job(), make_job("dead")
    dependent = make_job()
    make_edge(dependent, parent)
    make_edge(dependent, dead, kind="ended")

    found = edges.blocked_by(DATABASE, [str(dependent.id)])[str(dependent.id)]

    assert {(one.job_id, one.kind, one.status) for one in found} == {
        (str(parent.id), "completed", Status.PENDING),
        (str(dead.id), "ended", Status.FAILED),
    }
