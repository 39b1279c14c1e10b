"""A list reads about as many rows as it shows, whatever lies in front of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import listing, stats, walking
from jobs.database import DjangoDatabase
from jobs.doctor import storage, workers
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.listing import Filters, Sort
from jobs.states import State, Status
from tests.plans import explain, rows_read, scans

IN_FRONT = 100_000

FILL = """
INSERT INTO jobs_job (id, type, queue, payload, status, scheduled_at, due_at, completed_at)
SELECT lpad(to_hex(%(first)s + n), 32, '0')::uuid, %(type)s, %(queue)s, '{}', %(status)s,
    now() + %(later)s * interval '1 hour', now() + %(later)s * interval '1 hour',
    CASE WHEN %(status)s = 'completed' THEN now() END
FROM generate_series(1, %(count)s) n
"""
RARE = """
INSERT INTO jobs_job (id, type, queue, payload, status, worker_id, failed_at, cancelled_at,
    unmet_dependencies, due_at, next_retry_at)
SELECT lpad(to_hex(%(first)s + n), 32, '0')::uuid, 'rare', 'default', '{}', %(status)s,
    CASE WHEN %(status)s = 'processing' THEN gen_random_uuid() END,
    CASE WHEN %(status)s = 'failed' THEN now() - n * interval '1 minute' END,
    CASE WHEN %(status)s = 'cancelled' THEN now() END,
    CASE WHEN %(state)s = 'blocked' THEN 1 ELSE 0 END,
    CASE WHEN %(state)s = 'held' THEN NULL
        WHEN %(state)s = 'retrying' THEN now() + interval '1 hour' ELSE now() END,
    CASE WHEN %(state)s = 'retrying' THEN now() + interval '1 hour' END
FROM generate_series(1, %(count)s) n
"""

# Twenty of the oldest that are completed depended on one job, and many others on others.
EDGES = """
INSERT INTO jobs_jobdependency (child_id, parent_id, state, settled)
SELECT id, CASE WHEN n <= 20 THEN %(parent)s::uuid ELSE gen_random_uuid() END, 'satisfied', true
FROM (
    SELECT id, row_number() OVER (ORDER BY id) AS n FROM jobs_job WHERE status = 'completed'
    ORDER BY id LIMIT 10000
) child
"""
SCATTER = """
UPDATE jobs_job SET status = %(status)s, completed_at = NULL,
    failed_at = CASE WHEN %(status)s = 'failed' THEN now() END,
    cancelled_at = CASE WHEN %(status)s = 'cancelled' THEN now() END
WHERE status = 'completed' AND right(id::text, 1) IN ('3', '8')
"""
PARENT = UUID(int=7)


@pytest.fixture(scope="module")
def crowded(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The rare jobs are the oldest; in front of them are 100,000 of each other kind."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        first = 0
        rare = [("processing", ""), ("failed", ""), ("cancelled", ""), ("pending", "")]
        rare += [("pending", state) for state in ("blocked", "held", "retrying")]
        for status, state in rare:
            cursor.execute(RARE, {"first": first, "status": status, "state": state, "count": 100})
            first += 1_000
        kinds: list[dict[str, str | int]] = [
            {"status": "pending", "type": "known", "queue": "default", "later": 1},
            {"status": "pending", "type": "known", "queue": "other", "later": 0},
            {"status": "pending", "type": "unknown", "queue": "default", "later": 0},
            {"status": "completed", "type": "known", "queue": "default", "later": 0},
        ]
        for kind in kinds:
            cursor.execute(FILL, {"first": first, "count": IN_FRONT, **kind})
            first += IN_FRONT
        cursor.execute(EDGES, {"parent": PARENT})
        for table in ("jobs_job", "jobs_jobdependency"):
            cursor.execute(f"VACUUM ANALYZE {table}")
        yield
        cursor.execute("TRUNCATE jobs_job, jobs_jobdependency")
    connection.close()


def read(filters: Filters, after: str | None = None) -> int:
    sql, params = listing.queryset(filters, after=after)[:51].query.sql_with_params()
    with limited(DjangoDatabase(), seconds=30):
        plan = explain(sql, params)
    return rows_read(plan)


@pytest.mark.django_db
@pytest.mark.usefixtures("crowded")
class TestPlans:
    @pytest.mark.parametrize(
        "filters",
        [
            Filters(),
            *[Filters(status=status) for status in Status],
            *[
                Filters(state=state)
                for state in State
                # Their like lies 300,000 deep here: time-limited, as the module says.
                if state not in (State.READY, State.SCHEDULED)
            ],
            Filters(status=Status.FAILED, type="rare"),
            Filters(status=Status.COMPLETED, type="known"),
            Filters(status=Status.PENDING, queue="other"),
        ],
        ids=lambda filters: filters.in_words(),
    )
    @pytest.mark.parametrize("internal", [None, False])
    def test_each_list_reads_a_bounded_number_of_rows(
        self, filters: Filters, internal: bool | None
    ) -> None:
        bound = 100_200 if filters.queue == "other" else 800
        assert read(replace(filters, internal=internal)) <= bound

    @pytest.mark.parametrize("status", [None, Status.PENDING, Status.COMPLETED])
    def test_a_page_deep_in_the_list_reads_no_more_than_the_first(
        self, status: Status | None
    ) -> None:
        filters = Filters(status=status, internal=False)
        deep = listing.queryset(filters)[60_000:60_001].get()
        assert read(filters, str(deep.id)) <= 200
        with limited(DjangoDatabase(), seconds=30):
            back = listing.queryset(filters, before=str(deep.id))[:51]
            assert rows_read(explain(*back.query.sql_with_params())) <= 200

    @pytest.mark.parametrize("status", [None, Status.COMPLETED, Status.PENDING])
    def test_what_depends_on_a_job_is_found_without_walking_there(
        self, status: Status | None
    ) -> None:
        found = Filters(depends_on=PARENT, status=status)
        assert read(found) <= 100
        assert len(listing.page(found).jobs) == (0 if status is Status.PENDING else 20)

    def test_a_day_of_long_ago_is_found_without_walking_there(self) -> None:
        """The ids of these rows are of 1970, as small numbers are."""
        old = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert read(Filters(created_before=old - timedelta(days=2))) <= 10
        assert read(Filters(created_after=old + timedelta(days=2))) <= 10

    @pytest.mark.parametrize("status", [None, *Status])
    def test_lists_are_never_counted_beyond_the_cap(self, status: Status | None) -> None:
        some = listing.capped(Filters(status=status, internal=False))
        with limited(DjangoDatabase(), seconds=30):
            plan = explain(*some.query.sql_with_params())
        assert rows_read(plan) <= listing.COUNTED + 1

    @pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
    def test_a_few_of_many_are_counted_without_a_walk_through_the_others(
        self, status: Status
    ) -> None:
        """They lie scattered: in the order of all jobs each tenth is one of them."""
        with connection.cursor() as cursor:
            cursor.execute(SCATTER, {"status": status})
            cursor.execute("ANALYZE jobs_job")
        with CaptureQueriesContext(connection) as ran:
            assert listing.count(Filters(status=status, internal=False)).at_least > listing.COUNTED
        (counting,) = [each["sql"] for each in ran.captured_queries if "COUNT" in each["sql"]]
        with limited(DjangoDatabase(), seconds=30):
            assert rows_read(explain(counting)) <= listing.COUNTED + 1

    @pytest.mark.parametrize(
        "filters",
        [
            Filters(type="rare"),
            Filters(queue="other", priority=1),
            Filters(status=Status.COMPLETED, type="nobody"),
            Filters(state=State.READY, type="nobody"),
        ],
        ids=lambda filters: filters.in_words(),
    )
    def test_counting_few_among_many_looks_at_a_bounded_number_of_rows(
        self, filters: Filters
    ) -> None:
        with CaptureQueriesContext(connection) as ran, limited(DjangoDatabase(), seconds=30):
            edge = listing._edge(filters)
        assert edge is not None
        (asked,) = [each["sql"] for each in ran.captured_queries if "OFFSET" in each["sql"]]
        with limited(DjangoDatabase(), seconds=30):
            assert any("Index Only Scan" in scan for scan in scans(explain(asked)))
        jobs = listing.queryset(filters, before=edge).order_by()[: listing.COUNTED + 1]
        with limited(DjangoDatabase(), seconds=30):
            plan = explain(*jobs.query.sql_with_params())
        assert rows_read(plan) <= listing.LOOKED_AT + 100
        assert listing.count(filters).exact is None

    @pytest.mark.parametrize("status", [None, Status.COMPLETED, Status.FAILED])
    def test_another_order_sorts_no_more_than_the_newest(self, status: Status | None) -> None:
        filters = Filters(status=status)
        (newest,) = listing.queryset(filters)[:1]
        sql, params = walking.sorted_ids(
            filters,
            Sort(by="priority"),
            top=walking.place(filters, newest),
            place=None,
            backwards=False,
        )
        with limited(DjangoDatabase(), seconds=30):
            plan = explain(sql, (*params, 51, 0))
        assert rows_read(plan) <= walking.SORTED

    @pytest.mark.parametrize("status", list(Status))
    def test_later_pages_read_no_more_than_the_first(self, status: Status) -> None:
        first = listing.page(Filters(status=status), limit=50)
        assert first.next is not None
        # What is processing is bounded by the workers' slots, and read whole by one plan or another.
        bound = 500 if status is Status.PROCESSING else 200
        assert read(Filters(status=status), first.next) <= bound

    def test_a_filter_that_finds_nothing_answers_within_its_time(self) -> None:
        with pytest.raises(TooBroad) as refused, limited(DjangoDatabase(), seconds=0.001):
            list(listing.queryset(Filters(type="nobody"))[:51])
        assert "too broad" in str(refused.value)

    def test_statistics_never_count_beyond_the_cap(self) -> None:
        with limited(DjangoDatabase(), seconds=30):
            counts = explain(stats.COUNT, {"most": 1_001})
            queues = explain(stats.QUEUES, {"most": 1_001, "lanes": 1_000})
            waiting = explain(stats.WAITING, {"most": 1_001})
            unknown = explain(workers.UNKNOWN, {"most": 1_001, "dead_after": 15})
        assert rows_read(counts) <= 5 * 1_001
        # Two counts a queue, and a few entries a lane.
        assert rows_read(queues) <= 4 * 1_001 + 200
        assert rows_read(waiting) <= 1_001
        assert rows_read(unknown) <= 4 * 3 * 1_001 + 100
        assert not [scan for scan in scans(counts) + scans(queues) if scan == "Seq Scan jobs_job"]

    def test_claims_go_through_their_index(self) -> None:
        assert storage.claim_plan(DjangoDatabase()) == []

    def test_above_the_cap_the_answer_is_an_estimate_and_says_so(self) -> None:
        with connection.cursor() as cursor:
            # What ANALYZE finds outlives the transaction of a test that has rolled its rows back.
            cursor.execute("ANALYZE jobs_job")
        found = stats.stats(DjangoDatabase(), cap=1_000)
        assert found.estimated == ["pending", "completed", "total"]
        assert abs(found.pending - 300_400) < 10_000
        assert abs(found.completed - IN_FRONT) < 5_000
        assert (found.processing, found.failed, found.dlq, found.cancelled) == (100,) * 4
        assert found.states["blocked"] == found.states["held"] == found.states["retrying"] == 100
        assert found.at_least == ["ready", "scheduled"]
        assert {(q.name, q.depth, q.is_capped) for q in found.queues} == {
            ("default", 1_000, True),
            ("other", 1_000, True),
        }
