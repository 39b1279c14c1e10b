"""Dead letters by type and kind of error: always true, and cheap however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs import deadletters, lifecycle
from jobs.database import DjangoDatabase
from jobs.errors import NotFound
from jobs.limits import limited
from jobs.listing import INTERNAL
from tests.factories import ago, make_job
from tests.plans import explain, rows_read, scans

GROUPS, EACH = 50, 1_000

FILL = """
INSERT INTO jobs_job (id, type, queue, payload, status, failed_at, last_error, error_fingerprint)
SELECT gen_random_uuid(), 'type' || g %% 7, 'queue' || n %% 3, '{}', 'failed',
    now() - n * interval '1 minute', 'ValueError: bad', lpad(to_hex(g), 16, '0')
FROM generate_series(1, %(groups)s) g, generate_series(1, %(each)s) n
"""


def groups(**options: Any) -> deadletters.Groups:
    return deadletters.groups(DjangoDatabase(), **options)


def trend(type: str, error_fingerprint: str) -> list[deadletters.Hour]:
    key = (type, error_fingerprint)
    return deadletters.trends(DjangoDatabase(), [key])[key]


@pytest.mark.django_db
class TestGroups:
    def test_a_group_is_a_type_and_a_kind_of_error(self) -> None:
        common = {"type": "resize", "error_fingerprint": "aa", "queue": "images"}
        first = make_job("dead", failed_at=ago(hours=3), last_error="old", **common)
        make_job("dead", failed_at=ago(hours=2), last_error="mid", **{**common, "queue": "mail"})
        last = make_job("dead", failed_at=ago(hours=1), last_error="new", **common)
        other_type = make_job("dead", type="send", error_fingerprint="aa")
        other_error = make_job("dead", type="resize", error_fingerprint="bb", failed_at=ago(days=9))
        make_job("completed", type="resize", error_fingerprint="aa")
        found = groups()
        assert not found.is_cut
        big, *small = found.groups
        assert first.failed_at is not None
        assert last.failed_at is not None
        assert big == deadletters.Group(
            type="resize",
            error_fingerprint="aa",
            count=3,
            is_capped=False,
            first_at=first.failed_at,
            last_at=last.failed_at,
            queues={"images": 2, "mail": 1},
            error="new",
            job_id=str(last.id),
        )
        assert [group.job_id for group in small] == [str(other_type.id), str(other_error.id)]

    def test_it_is_true_as_soon_as_jobs_come_and_go(self) -> None:
        jobs = [make_job("dead", type="nobody") for _ in range(3)]
        assert groups().groups[0].count == 3
        lifecycle.retry(jobs[0].id)
        lifecycle.purge(jobs[1].id)
        assert groups().groups[0].count == 1
        lifecycle.purge(jobs[2].id)
        assert groups().groups == []

    def test_what_coppice_made_for_itself_is_in_no_group(self) -> None:
        make_job("dead", type="ranges.run", metadata=INTERNAL)
        assert groups().groups == []
        with pytest.raises(NotFound):
            deadletters.group(DjangoDatabase(), "ranges.run", "0123456789abcdef")

    def test_a_group_without_a_fingerprint_is_a_group(self) -> None:
        make_job("dead", error_fingerprint="")
        assert groups().groups[0].error_fingerprint == ""

    def test_counting_is_capped_and_the_rest_goes_to_the_big_ones(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(deadletters, "PATIENCE", 30)
        monkeypatch.setattr(deadletters, "COUNTED", 24)
        monkeypatch.setattr(deadletters, "FIRST_LOOK", 8)
        monkeypatch.setattr(deadletters, "LEAST_OF_ONE", 2)
        for n in range(3):
            make_job("dead", type="small", error_fingerprint=str(n))
        for _ in range(30):
            make_job("dead", type="big", error_fingerprint="b")
        found = groups()
        assert [(g.type, g.count, g.is_capped) for g in found.groups[:2]] == [
            ("big", 21, True),
            ("small", 1, False),
        ]

    def test_without_time_the_numbers_are_smaller_and_say_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(deadletters, "PATIENCE", 0)
        monkeypatch.setattr(deadletters, "FIRST_LOOK", 0)
        monkeypatch.setattr(deadletters, "LEAST_OF_ONE", 2)
        monkeypatch.setattr(deadletters, "LEAST_OF_AN_HOUR", 1)
        for _ in range(3):
            make_job("dead", type="resize", error_fingerprint="aa")
        (group,) = groups().groups
        assert (group.count, group.is_capped) == (2, True)
        (*_, hour) = trend("resize", "aa")
        assert (hour.count, hour.is_capped) == (1, True)
        assert deadletters.group(DjangoDatabase(), "resize", "aa").count == 3

    def test_a_round_that_takes_too_long_leaves_what_was_known(self) -> None:
        rounds = deadletters.Rounds(DjangoDatabase(), seconds=0.05)
        assert rounds.read(lambda: DjangoDatabase().rows("SELECT pg_sleep(30)::text", {})) is None
        assert DjangoDatabase().rows("SELECT 1", {}) == [(1,)]

    def test_more_groups_than_are_looked_at_are_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for n in range(3):
            make_job("dead", error_fingerprint=str(n))
        assert len(groups(limit=3).groups) == 3
        assert not groups(limit=3).is_cut
        assert (len(groups(limit=2).groups), groups(limit=2).is_cut) == (2, True)
        monkeypatch.setattr(deadletters, "MOST_GROUPS", 2)
        assert (len(groups().groups), groups().is_cut) == (2, True)

    @pytest.mark.parametrize("bad", ["nobody", "\x00", "\ud800", "x" * 10_000])
    def test_a_group_that_is_not_there_is_not_found(self, bad: str) -> None:
        with pytest.raises(NotFound):
            deadletters.group(DjangoDatabase(), bad, "aa")


@pytest.mark.django_db
class TestTrend:
    def test_deaths_are_counted_by_the_hour(self) -> None:
        hour = DjangoDatabase().rows("SELECT date_trunc('hour', now())", {})[0][0]
        for back in (0, 1, 1, 23, 24, 40):
            at = hour - timedelta(hours=back)
            make_job("dead", type="resize", error_fingerprint="aa", failed_at=at)
        make_job("dead", type="resize", error_fingerprint="bb", failed_at=hour)
        found = trend("resize", "aa")
        assert [h.start for h in found] == [hour - timedelta(hours=n) for n in range(23, -1, -1)]
        assert [h.count for h in found] == [1, *[0] * 21, 2, 1]

    def test_many_groups_are_answered_together_and_capped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(deadletters, "PATIENCE", 30)
        monkeypatch.setattr(deadletters, "COUNTED", 2 * 24)
        monkeypatch.setattr(deadletters, "FIRST_LOOK", 2)
        monkeypatch.setattr(deadletters, "LEAST_OF_ONE", 1)
        monkeypatch.setattr(deadletters, "LEAST_OF_AN_HOUR", 1)
        for past in (0, 0, 0, 5):
            make_job("dead", type="resize", error_fingerprint="aa", failed_at=ago(hours=past))
        keys = [("resize", "aa"), ("gone", "bb")]
        found = deadletters.trends(DjangoDatabase(), keys)
        assert (found["resize", "aa"][-1].count, found["resize", "aa"][-1].is_capped) == (2, True)
        assert (found["resize", "aa"][-6].count, found["resize", "aa"][-6].is_capped) == (1, False)
        assert [hour.count for hour in found["gone", "bb"]] == [0] * 24
        assert deadletters.trends(DjangoDatabase(), []) == {}


@pytest.fixture(scope="module")
def crowded(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """50 groups of 1,000 dead letters."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(FILL, {"groups": GROUPS, "each": EACH})
        cursor.execute("VACUUM ANALYZE jobs_job")
        yield
        cursor.execute("TRUNCATE jobs_job")
    connection.close()


@pytest.mark.django_db
@pytest.mark.usefixtures("crowded")
class TestPlans:
    def keys(self) -> dict[str, list[str]]:
        found = deadletters._step(DjangoDatabase())
        assert len(found) == GROUPS
        return deadletters._arrays(found)

    def plan(self, sql: str, **params: Any) -> Any:
        with limited(DjangoDatabase(), seconds=30):
            plan = explain(sql, params)
        used = {scan for scan in scans(plan) if scan.endswith(("jobs_job", "job_dead"))}
        assert not used, f"only the index of the groups may be read: {used}"
        return plan

    def test_finding_the_groups_reads_one_entry_each(self) -> None:
        assert rows_read(self.plan(deadletters.STEP, type="", fingerprint="", most=1_000)) <= 60

    def test_the_details_read_no_more_than_the_cap(self) -> None:
        plan = self.plan(deadletters.DETAILS, **self.keys(), cap=20, internal='{"internal": true}')
        assert rows_read(plan) <= GROUPS * (20 + 1 + 2)

    def test_a_trend_reads_no_more_than_its_caps(self) -> None:
        this = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        starts = [this - timedelta(hours=back) for back in range(23, -1, -1)]
        plan = self.plan(deadletters.NEWEST_BY_HOUR, **self.keys(), cap=5, since=starts[0])
        assert rows_read(plan) <= GROUPS * 6
        plan = self.plan(deadletters.EACH_HOUR, **self.keys(), cap=5, starts=starts)
        assert rows_read(plan) <= GROUPS * 24 * 6

    def test_the_whole_answer_counts_no_more_than_its_budget(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(deadletters, "PATIENCE", 30)
        monkeypatch.setattr(deadletters, "COUNTED", 10_000)
        found = groups().groups
        assert {(g.count, g.is_capped) for g in found} == {(200, True)}
        assert found[0].queues == {"queue0": 67, "queue1": 67, "queue2": 67}
