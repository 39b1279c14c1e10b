"""Pages of the list of jobs: what is on them, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import listing, walking
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.limits import limited
from jobs.listing import Filters, Sort
from jobs.models import Job
from jobs.states import State, Status
from tests.factories import ago, make_edge, make_job

pytestmark = pytest.mark.django_db


class TestPages:
    def walk(self, filters: Filters, limit: int) -> list[Any]:
        seen, after = [], None
        while True:
            page = listing.page(filters, after=after, limit=limit)
            seen += [job.id for job in page.jobs]
            if page.next is None:
                return seen
            after = page.next

    @pytest.mark.parametrize("trait", ["processing", "dead", "held", "completed"])
    def test_walking_all_pages_shows_each_job_once_newest_first(self, trait: str) -> None:
        moment = {"failed_at": ago(hours=1)} if trait == "dead" else {}
        jobs = [make_job(trait, **moment) for _ in range(23)]
        status = Status(jobs[0].status)
        walked = self.walk(Filters(status=status), 5)
        assert walked == sorted((job.id for job in jobs), reverse=True)

    def test_dead_letters_come_by_the_time_of_their_death(self) -> None:
        first = make_job("dead", failed_at=ago(hours=1))
        second = make_job("dead", failed_at=ago(hours=2))
        assert self.walk(Filters(status=Status.FAILED), 1) == [first.id, second.id]

    def test_each_state_lists_its_jobs_only(self) -> None:
        jobs = {
            State.READY: make_job(),
            State.SCHEDULED: make_job("scheduled"),
            State.RETRYING: make_job("retrying"),
            State.HELD: make_job("held"),
            State.RUNNING: make_job("processing"),
            State.CANCELLING: make_job("processing", cancel_requested_at=ago(seconds=1)),
            State.COMPLETED: make_job("completed"),
            State.DEAD: make_job("dead"),
            State.CANCELLED: make_job("cancelled"),
            State.BLOCKED: make_job(),
        }
        make_edge(jobs[State.BLOCKED], jobs[State.READY])
        for state, job in jobs.items():
            page = listing.page(Filters(state=state))
            assert [each.id for each in page.jobs] == [job.id]
            assert page.jobs[0].state_at(page.now) is state

    def test_the_other_filters(self) -> None:
        job = make_job(queue="mail", type="a", priority=1)
        make_job()
        for filters in (
            Filters(queue="mail"),
            Filters(type="a"),
            Filters(priority=1),
            Filters(id_prefix=str(job.id)),
            Filters(id_prefix=job.id.hex[:31]),
        ):
            assert self.walk(filters, 10) == [job.id]

    @pytest.mark.parametrize(
        "sort", [None, Sort(by="priority"), Sort(by="attempt_count", descending=True)]
    )
    @pytest.mark.parametrize("status", [None, Status.FAILED])
    def test_the_way_back_shows_the_same_pages(
        self, status: Status | None, sort: Sort | None
    ) -> None:
        for n in range(23):
            make_job("dead", failed_at=ago(hours=1), priority=1 + n % 3, attempt_count=n % 2)
        filters, after, forth = Filters(status=status), None, []
        while True:
            page = listing.page(filters, after=after, limit=5, sort=sort)
            forth.append([job.id for job in page.jobs])
            after = page.next
            if after is None:
                break
        back = []
        before = page.previous
        while before is not None:
            page = listing.page(filters, before=before, limit=5, sort=sort)
            back.append([job.id for job in page.jobs])
            assert page.next is not None
            before = page.previous
        assert back == forth[-2::-1]
        assert len({id for ids in forth for id in ids}) == 23

    def test_another_order_is_one_of_the_newest_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(walking, "SORTED", 2)
        make_job(priority=1)
        newest = [make_job(priority=3), make_job(priority=2)]
        page = listing.page(Filters(), sort=Sort(by="priority"))
        assert [job.id for job in page.jobs] == [newest[1].id, newest[0].id]

    def test_no_other_column_is_sorted_by(self) -> None:
        make_job()
        with pytest.raises(InvalidInput):
            listing.page(Filters(), sort=Sort(by="payload"))

    def test_errors_are_cut_where_they_are_read(self) -> None:
        make_job("dead", last_error="x" * 2_000)
        with CaptureQueriesContext(connection) as ran:
            (job,) = listing.page(Filters(status=Status.FAILED)).jobs
            assert job.last_error == "x" * walking.ERROR_SHOWN
        (read,) = [each["sql"] for each in ran.captured_queries if "last_error" in each["sql"]]
        assert read.count('"last_error"') == read.count('LEFT("jobs_job"."last_error", 300)') == 1

    def test_counting_stops_at_the_cap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "COUNTED", 3)
        for exact in (0, 1, 2, 3):
            assert listing.count(Filters()) == listing.Count(exact=exact, at_least=exact)
            make_job()
        make_job()
        assert listing.count(Filters()) == listing.Count(exact=None, at_least=4)

    @pytest.mark.parametrize("dead", [False, True])
    def test_of_many_only_the_newest_are_looked_at_for_the_count(
        self, monkeypatch: pytest.MonkeyPatch, dead: bool
    ) -> None:
        monkeypatch.setattr(listing, "LOOKED_AT", 10)
        status = Status.FAILED if dead else Status.PENDING
        for n in range(12):
            make_job(*(["dead"] if dead else []), type="rare" if n % 3 == 0 else "usual")
        assert listing.count(Filters(status=status)).exact == 12
        some = listing.count(Filters(status=status, type="rare"))
        assert some == listing.Count(exact=None, at_least=3)
        Job.objects.filter(id__in=Job.objects.filter(type="usual").values("id")[:2]).delete()
        assert listing.count(Filters(status=status, type="rare")).exact == 4

    def test_the_count_of_a_time_looks_at_that_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "LOOKED_AT", 5)
        for n in range(20):
            make_job(created_at=ago(hours=n))
        some = Filters(created_after=ago(hours=12.5), created_before=ago(hours=9.5))
        assert listing.count(some).exact == 3

    @pytest.mark.parametrize("bad", ["x", "", "\x00", "2020-01-01~x", "2020-01-01T00:00:00~"])
    def test_a_bad_place_is_refused(self, bad: str) -> None:
        for status in (Status.FAILED, Status.PENDING):
            with pytest.raises(InvalidInput):
                listing.page(Filters(status=status), after=bad)

    @pytest.mark.parametrize("bad", ["", "-", "xyz", "0" * 33, "\x00"])
    def test_a_bad_prefix_is_refused(self, bad: str) -> None:
        with pytest.raises(InvalidInput):
            listing.page(Filters(id_prefix=bad))

    def test_payloads_are_not_read(self) -> None:
        make_job()
        (job,) = listing.page(Filters()).jobs
        assert {"payload", "result", "metadata"} <= job.get_deferred_fields()


def test_the_callers_transaction_keeps_its_own_limits() -> None:
    def shown() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            return cursor.fetchone()[0]

    before = shown()
    listing.page(Filters())
    with pytest.raises(TooBroad), limited(DjangoDatabase(), seconds=0.001):
        DjangoDatabase().rows("SELECT pg_sleep(1)", {})
    assert shown() == before
