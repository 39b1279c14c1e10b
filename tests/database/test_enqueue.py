"""Jobs made in the caller's transaction: unseen before its commit, gone after its rollback."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from django.db import transaction
from rest_framework import serializers

from jobs import JobSpec, conf, enqueue, enqueue_jobs, enqueue_many, events, lifecycle, registry
from jobs.claim import Lane, claim
from jobs.complete import complete
from jobs.database import DjangoDatabase, direct_conninfo
from jobs.endings import Success
from jobs.errors import InvalidInput, UnknownType
from jobs.events import Event
from jobs.ids import new_id
from jobs.models import Job, JobDependency, Queue, Worker
from tests.factories import ago, make_queue, make_worker
from tests.rivals import Rival, other_session, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)

TYPE = "enqueue.note"
WAYS: dict[str, Callable[[], object]] = {
    "one": lambda: enqueue(TYPE, {"n": 1}),
    "one that waits": lambda: enqueue(TYPE, {"n": 1}, depends_on=enqueue(TYPE, {})),
    "many": lambda: enqueue_many(TYPE, [{"n": n} for n in range(5)]),
    "many with keys": lambda: enqueue_many(TYPE, [{}, {}], unique_keys=["a", "b"]),
    "different": lambda: enqueue_jobs(
        [JobSpec(type=TYPE, key="a"), JobSpec(type=TYPE, depends_on=["a"])]
    ),
    "recurring": lambda: enqueue(TYPE, {}, recur_interval="every_1_hour"),
}


@pytest.fixture(autouse=True)
def _note() -> Iterator[None]:
    registry.handler(TYPE)(_do_nothing)
    yield
    registry.remove(TYPE)


def _do_nothing() -> None:
    pass


def _take(payload: object) -> None:
    pass


@pytest.fixture
def told() -> Iterator[list[Event]]:
    heard: list[Event] = []
    stop = events.on("*", heard.append)
    yield heard
    stop()


@pytest.fixture
def worker() -> Worker:
    """An idle worker, as its row says."""
    return make_worker(waiting=True)


class Ear:
    """Listens as an idle worker does."""

    def __init__(self, worker: Worker) -> None:
        self.session = psycopg.connect(direct_conninfo(), autocommit=True)
        self.session.execute(f'LISTEN "coppice_{worker.id.hex}"'.encode())

    def heard(self, seconds: float) -> list[str]:
        return [note.payload for note in self.session.notifies(timeout=seconds, stop_after=1)]

    def sees(self) -> int:
        row = self.session.execute("SELECT count(*) FROM jobs_job").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def ear(worker: Worker) -> Iterator[Ear]:
    ear = Ear(worker)
    yield ear
    ear.session.close()


def claimable(limit: int = 100) -> list[str]:
    with other_session() as database:
        return [
            job.id
            for job in claim(
                database,
                worker_id=new_id(),
                lanes=[Lane("default", TYPE, 2)],
                limit=limit,
                aging_minutes=10,
                aging_step=0.5,
            )
        ]


# The caller's transaction


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_job_is_unseen_by_workers_notifications_and_events_until_the_commit(
    way: str, ear: Ear, told: list[Event]
) -> None:
    with transaction.atomic():
        WAYS[way]()
        assert ear.sees() == 0
        assert claimable() == []
        assert ear.heard(0.2) == []
        assert told == []

    assert ear.heard(10) == [""]
    assert ear.sees() > 0
    assert {event.name for event in told} >= {"job.created"}
    assert len(claimable()) > 0


@pytest.mark.parametrize("way", sorted(WAYS))
def test_after_a_rollback_there_is_no_row_no_notification_and_no_event(
    way: str, ear: Ear, told: list[Event]
) -> None:
    with transaction.atomic():
        WAYS[way]()
        transaction.set_rollback(True)

    assert ear.heard(0.2) == []
    assert (ear.sees(), told) == (0, [])
    assert not JobDependency.objects.exists()


def test_a_savepoint_takes_only_its_own_job_with_it(told: list[Event]) -> None:
    with transaction.atomic():
        kept = enqueue(TYPE, {})
        with transaction.atomic():
            enqueue(TYPE, {})
            transaction.set_rollback(True)

    assert claimable() == [str(kept.id)]
    assert [event.job_id for event in told] == [str(kept.id)]


def test_a_refused_job_leaves_the_callers_transaction_usable() -> None:
    with transaction.atomic():
        kept = enqueue(TYPE, {})
        for refused in (
            lambda: enqueue(TYPE, {"a": float("nan")}),
            lambda: enqueue(TYPE, {}, depends_on=new_id()),
            lambda: enqueue_many(TYPE, [{}, {"a": "\x00"}]),
            lambda: enqueue_jobs([JobSpec(type=TYPE), JobSpec(type="stranger")]),
            lambda: enqueue(TYPE, {}, cron="61 * * * *"),
        ):
            with pytest.raises(InvalidInput):
                refused()
        assert Job.objects.count() == 1

    assert claimable() == [str(kept.id)]


def test_a_transaction_of_the_caller_never_holds_up_the_end_of_a_parent() -> None:
    parent = enqueue(TYPE, {})
    worker_id = new_id()
    with other_session() as database:
        [claimed] = claim(
            database,
            worker_id=worker_id,
            lanes=[Lane("default", TYPE, 2)],
            limit=1,
            aging_minutes=10,
            aging_step=0.5,
        )
        with transaction.atomic():
            child = enqueue(TYPE, {}, depends_on=parent)
            # Would wait for ever if the caller held the parent.
            written = complete(
                database, worker_id=worker_id, successes=[Success(claimed, 0.0, 0.1)]
            )
            assert len(written.ended) == 1

    child.refresh_from_db()
    assert child.unmet_dependencies == 0


# Waking


def test_a_job_for_later_or_blocked_wakes_nobody(ear: Ear) -> None:
    enqueue(TYPE, {}, scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    parent = Job.objects.get()
    enqueue(TYPE, {}, depends_on=parent)

    assert ear.heard(0.2) == []


def test_only_workers_that_are_idle_and_serve_the_queue_are_woken() -> None:
    busy = Ear(make_worker(waiting=False))
    elsewhere = Ear(make_worker(waiting=True, queues=["mail"]))
    dead = Ear(make_worker(waiting=True, state="dead"))
    ignorant = Ear(make_worker(waiting=True, types=["other"]))
    here = Ear(make_worker(waiting=True, queues=["mail", "default"]))

    enqueue(TYPE, {})

    assert here.heard(10) == [""]
    assert [ear.heard(0.1) for ear in (busy, elsewhere, dead, ignorant)] == [[]] * 4
    for ear in (busy, elsewhere, dead, ignorant, here):
        ear.session.close()


def test_one_job_wakes_one_worker_and_many_wake_all() -> None:
    ears = [Ear(make_worker(waiting=True)) for _ in range(4)]

    enqueue(TYPE, {})
    assert sum(len(ear.heard(0.3)) for ear in ears) == 1

    enqueue_many(TYPE, [{}] * 50)
    assert [ear.heard(10) for ear in ears] == [[""]] * 4
    for ear in ears:
        ear.session.close()


@pytest.mark.parametrize("amount", [5_000, 20_000])
def test_any_number_of_jobs_in_one_call_is_stored_and_wakes_workers(amount: int, ear: Ear) -> None:
    ids = enqueue_many(TYPE, ({"n": n} for n in range(amount)))

    assert len(set(ids)) == amount
    assert Job.objects.count() == amount
    assert ear.heard(10) == [""]
    assert Job.objects.get(id=ids[-1]).payload == {"n": amount - 1}


def test_payloads_may_come_from_a_query_and_be_checked_by_another() -> None:
    """All on the one connection that writes the jobs, and more of them than one piece holds."""
    names = [make_queue().name for _ in range(3)]
    long = "x" * 500

    class Named(serializers.Serializer[Any]):
        queue = serializers.PrimaryKeyRelatedField(queryset=Queue.objects.all())
        text = serializers.CharField()

    def found() -> Iterator[dict[str, str]]:
        for _ in range(1_000):
            for queue in Queue.objects.order_by("name").iterator():
                yield {"queue": queue.pk, "text": long}

    registry.handler("enqueue.named", payload=Named)(_take)
    try:
        ids = enqueue_many("enqueue.named", found())
    finally:
        registry.remove("enqueue.named")

    stored = Job.objects.in_bulk(ids)
    assert [stored[uuid.UUID(id)].payload["queue"] for id in ids] == names * 1_000


def test_a_list_of_any_length_is_written_by_one_statement_or_not_at_all() -> None:
    payloads: list[Any] = [{"n": n, "text": "x" * 500} for n in range(3_000)]

    ids = enqueue_many(TYPE, payloads)

    assert [Job.objects.in_bulk(ids)[uuid.UUID(id)].payload for id in (ids[0], ids[-1])] == [
        payloads[0],
        payloads[-1],
    ]
    assert Job.objects.values("created_at").distinct().count() == 1
    payloads[-1] = {"n": float("nan")}
    with pytest.raises(InvalidInput, match="2999"):
        enqueue_many(TYPE, payloads)
    assert Job.objects.count() == 3_000


def test_twenty_thousand_different_jobs_with_keys_and_dependencies_are_one_call(ear: Ear) -> None:
    specs = [
        JobSpec(
            type=TYPE,
            key=str(n),
            unique_key=f"key {n}" if n % 4 == 0 else None,
            depends_on=[str(n - 1)] if n % 2 else [],
        )
        for n in range(20_000)
    ]

    ids = enqueue_jobs(specs)

    assert len(set(ids)) == 20_000
    assert ear.heard(10) == [""]
    assert JobDependency.objects.count() == 10_000
    assert not JobDependency.objects.filter(settled=False).exists()
    assert Job.objects.filter(unmet_dependencies=1).count() == 10_000


def test_the_largest_payload_is_stored_and_wakes_a_worker(ear: Ear) -> None:
    largest = {"text": "x" * (conf.get().max_payload_bytes - len('{"text":""}'))}

    job = enqueue(TYPE, largest)
    with pytest.raises(InvalidInput, match="bytes"):
        enqueue(TYPE, {"text": largest["text"] + "x"})

    assert ear.heard(10) == [""]
    assert Job.objects.get(id=job.id).payload == largest
    assert Job.objects.count() == 1


@pytest.mark.parametrize("place", [0, 777, 19_999])
def test_of_a_bulk_with_one_bad_job_nothing_is_stored_and_its_place_is_named(
    place: int, ear: Ear, told: list[Event]
) -> None:
    payloads: list[Any] = [{"n": n} for n in range(20_000)]
    payloads[place] = {"n": float("inf")}

    with pytest.raises(InvalidInput) as refused:
        enqueue_many(TYPE, payloads)

    assert (refused.value.index, refused.value.field) == (place, "payload.n")
    assert (ear.sees(), ear.heard(0.1), told) == (0, [], [])


# Unique keys


def test_a_unique_key_is_held_by_one_live_job() -> None:
    first = enqueue(TYPE, {"n": 1}, unique_key="report")

    assert enqueue(TYPE, {"n": 2}, unique_key="report").id == first.id
    assert enqueue_many(TYPE, [{}], unique_keys=["report"]) == [str(first.id)]
    assert enqueue_jobs([JobSpec(type=TYPE, unique_key="report")]) == [str(first.id)]
    assert Job.objects.get().payload == {"n": 1}

    lifecycle.cancel(first.id)

    assert enqueue(TYPE, {}, unique_key="report").id != first.id


def test_two_who_enqueue_one_key_at_once_get_the_same_job() -> None:
    with other_session() as first:
        with first.transaction():
            id = new_id()
            first.run(
                "INSERT INTO jobs_job (id, type, payload, max_attempts, unique_key) "
                "VALUES (%(id)s, %(type)s, '{}', 3, 'report')",
                {"id": id, "type": TYPE},
            )
            second = Rival(lambda _: enqueue(TYPE, {}, unique_key="report"))
            wait_until_blocked()
        assert str(second.result().id) == id

    assert Job.objects.count() == 1


@pytest.mark.parametrize("amount", [40, 2_500])
def test_many_who_enqueue_the_same_keys_at_once_make_each_job_once(amount: int) -> None:
    # Whatever order the database's language has for them.
    keys = [f"{'kK-_'[n % 4]} {n}" for n in range(amount)]
    together = threading.Barrier(4)

    def enqueue_all(order: list[str]) -> dict[str, str]:
        together.wait()
        ids = enqueue_many(TYPE, [{}] * len(order), unique_keys=order)
        return dict(zip(order, ids, strict=True))

    rivals = [
        Rival(lambda _, order=order: enqueue_all(order))  # type: ignore[misc]
        for order in (keys, keys[::-1], keys[amount // 2 :] + keys[: amount // 2], keys)
    ]
    answers = [rival.result() for rival in rivals]

    assert all(answer == answers[0] for answer in answers)
    assert Job.objects.count() == amount


def test_the_same_key_twice_in_one_call_is_one_job() -> None:
    ids = enqueue_many(TYPE, [{"n": 1}, {"n": 2}, {"n": 3}], unique_keys=["a", None, "a"])

    assert ids[0] == ids[2] != ids[1]
    assert Job.objects.count() == 2


def test_a_dependent_may_wait_for_a_job_that_another_call_made_with_the_same_key() -> None:
    first = enqueue(TYPE, {}, unique_key="import")

    ids = enqueue_jobs(
        [
            JobSpec(type=TYPE, key="import", unique_key="import"),
            JobSpec(type=TYPE, depends_on=["import"]),
        ]
    )

    assert ids[0] == str(first.id)
    assert Job.objects.get(id=ids[1]).unmet_dependencies == 1
    first.refresh_from_db()
    assert first.has_dependents


# Times


@pytest.mark.parametrize(
    "naive",
    [
        datetime(2030, 1, 1, 12),  # noqa: DTZ001  the very thing
        "2030-01-01T12:00:00",
        "2030-01-01 12:00",
        "2030-01-01",
    ],
)
def test_a_time_without_an_offset_is_refused_on_every_way_in(naive: Any) -> None:
    job = enqueue(TYPE, {})
    for way in (
        lambda: enqueue(TYPE, {}, scheduled_at=naive),
        lambda: enqueue_many(TYPE, [{}], scheduled_at=naive),
        lambda: enqueue_jobs([JobSpec(type=TYPE, scheduled_at=naive)]),
        lambda: lifecycle.change(job.id, scheduled_at=naive),
    ):
        with pytest.raises(InvalidInput) as refused:
            way()
        assert refused.value.field == "scheduled_at"

    assert Job.objects.count() == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_a_time_with_an_offset_is_the_same_instant_whatever_the_zone_here(
    zone: str, settings: Any
) -> None:
    settings.TIME_ZONE = zone
    instant = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))

    jobs = [
        enqueue(TYPE, {}, scheduled_at=instant),
        enqueue(TYPE, {}, scheduled_at="2030-01-01T12:00:00+05:45"),
        enqueue(TYPE, {}, scheduled_at="2030-01-01T06:15:00Z"),
        enqueue(TYPE, {}, scheduled_at=int(instant.timestamp() * 1000)),
    ]

    for job in jobs:
        job.refresh_from_db()
        assert job.scheduled_at == job.due_at == instant
        assert job.scheduled_at.utcoffset() is not None


def test_a_job_without_a_time_is_due_by_the_clock_of_the_database() -> None:
    enqueue(TYPE, {})
    enqueue_many(TYPE, [{}])
    enqueue_jobs([JobSpec(type=TYPE)])

    assert len(claimable()) == 3


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownType):
        enqueue("stranger", {})
    with pytest.raises(UnknownType):
        enqueue_many("stranger", [{}])
    assert not Job.objects.exists()


def test_no_jobs_are_no_error() -> None:
    assert enqueue_many(TYPE, []) == []
    assert enqueue_jobs([]) == []


def test_the_returned_job_is_the_stored_one() -> None:
    job = enqueue(TYPE, {"n": 1}, priority=1, queue="mail", metadata={"who": "Anna"})

    stored = Job.objects.get(id=job.id)
    for name in ("type", "queue", "status", "priority", "max_attempts", "due_at", "created_at"):
        assert getattr(job, name) == getattr(stored, name)
    assert (job.payload, job.metadata) == ({"n": 1}, {"who": "Anna"})
    assert ago(seconds=-60) > job.created_at > ago(minutes=5)
    assert DjangoDatabase("default").rows("SELECT 1", {}) == [(1,)]
