"""`/metrics`, as a scraper reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from jobs import conf, publishing, registry, rollups
from jobs.database import DjangoDatabase
from jobs.errors import SettingsError
from jobs.events import Event
from jobs.histograms import BOUNDS, BUCKETS, pack
from jobs.metrics import figures, gathering
from jobs.models import Rollup
from jobs.testing import run_due_jobs
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.models import RangeRun
from tests.api.conftest import Api
from tests.factories import ago, make_job, make_queue, make_worker

pytestmark = pytest.mark.django_db

URL = "/metrics"
TOKEN = "a-scrapers-token-0123456789"


class Counted(RangeJob):
    name = "metrics.Counted"
    over = IntRange(0, 10**400)

    def process(self, leaf: Any, context: Any) -> None: ...


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    gathering.forget()
    yield
    gathering.forget()


def scrape(client: Any, **headers: str) -> dict[str, float]:
    """Each sample by its name and labels."""
    gathering.forget()
    answer = client.get(URL, **headers)
    assert answer.status_code == 200, answer.content
    found: dict[str, float] = {}
    for family in parse(answer.content.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def ended(
    outcome: str = "succeeded", jobs: int = 1, *, minutes: int = 0, bucket: int = 0, **more: Any
) -> None:
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    timings = [pack(jobs, wait=bucket, run=bucket)]
    columns = {"queue": "mail", "type": "send", **more}
    Rollup.objects.create(
        minute=minute, outcome=outcome, jobs=jobs, wait_seconds=2.0 * jobs, run_seconds=0.5 * jobs,
        timings=timings, **columns,
    )  # fmt: skip


# What it says


def test_attempts_are_counted_by_queue_type_and_outcome_and_never_fall(api: Api) -> None:
    client = api("Viewer")
    ended(jobs=3, minutes=10)
    ended(jobs=2)
    ended("failed", minutes=10)
    name = "coppice_attempts_total{outcome=%s,queue=mail,type=send}"

    def read() -> tuple[float, float]:
        found = scrape(client)
        return found[name % "succeeded"], found[name % "failed"]

    assert read() == (5.0, 1.0)
    # The same after the deltas have become totals, and after the minutes are gone.
    rollups.fold(DjangoDatabase())
    assert read() == (5.0, 1.0)
    Rollup.objects.filter(folded=True).delete()
    assert read() == (5.0, 1.0)


def test_waits_and_runs_are_histograms_whose_buckets_add_up(api: Api) -> None:
    ended(jobs=3, bucket=4)
    ended("failed", jobs=1, bucket=BUCKETS - 1)
    ended("handed_back", jobs=50, bucket=0)
    ended(jobs=2, bucket=4, minutes=10)
    rollups.fold(DjangoDatabase())
    found = scrape(api("Viewer"))
    for name, seconds in (("wait", 2.0), ("run", 0.5)):
        buckets = {
            bound: found[f"coppice_{name}_seconds_bucket{{le={bound},queue=mail,type=send}}"]
            for bound in [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
        }
        assert buckets["0.01"] == 0
        assert buckets["0.025"] == buckets["7200"] == 5
        assert buckets["+Inf"] == 6
        assert list(buckets.values()) == sorted(buckets.values())
        assert found[f"coppice_{name}_seconds_count{{queue=mail,type=send}}"] == 6
        assert found[f"coppice_{name}_seconds_sum{{queue=mail,type=send}}"] == 6 * seconds


def test_a_job_that_really_ran_is_in_all_of_them(api: Api) -> None:
    @registry.handler("metrics.real", queue="images")
    def real(payload: Any) -> None: ...

    try:
        make_job(type="metrics.real", queue="images", due_at=ago(seconds=100))
        run_due_jobs()
    finally:
        registry.remove("metrics.real")
    found = scrape(api("Viewer"))
    of = "queue=images,type=metrics.real"
    assert found[f"coppice_attempts_total{{outcome=succeeded,{of}}}"] == 1
    assert found[f"coppice_wait_seconds_bucket{{le=60,{of}}}"] == 0
    assert found[f"coppice_wait_seconds_bucket{{le=1800,{of}}}"] == 1
    assert found[f"coppice_run_seconds_count{{{of}}}"] == 1


def test_queues_say_how_deep_how_late_and_whether_they_are_paused(api: Api) -> None:
    for _ in range(3):
        make_job(queue="mail", due_at=ago(seconds=100))
    make_job("scheduled", queue="later")
    make_job("held")
    make_job("dead")
    make_job("dead")
    make_job("processing")
    make_queue(name="images", paused=True)
    ended(queue="idle", minutes=10)
    rollups.fold(DjangoDatabase())
    found = scrape(api("Viewer"))
    assert found["coppice_queue_depth{queue=mail}"] == 3
    assert 100 <= found["coppice_queue_oldest_seconds{queue=mail}"] < 130
    assert found["coppice_queue_paused{queue=mail}"] == 0
    assert found["coppice_queue_paused{queue=images}"] == 1
    # A queue that is empty now is at 0, not gone.
    assert found["coppice_queue_depth{queue=idle}"] == 0
    assert found["coppice_dead_letters"] == 2
    states = ("ready", "scheduled", "held", "processing")
    assert [found[f"coppice_jobs{{state={state}}}"] for state in states] == [3, 1, 1, 1]


def test_workers_say_how_many_they_are_and_how_busy(api: Api) -> None:
    busy = make_worker(concurrency=2)
    for _ in range(5):
        make_job("processing", worker_id=busy.id)
    make_worker(concurrency=4, state="draining")
    silent = make_worker(concurrency=8, beat_at=ago(minutes=2))
    make_job("processing", worker_id=silent.id)
    make_worker(state="stopped")
    found = scrape(api("Viewer"))
    states = ("running", "draining", "stale")
    assert [found[f"coppice_workers{{state={state}}}"] for state in states] == [1, 1, 1]
    assert (found["coppice_slots"], found["coppice_slots_busy"]) == (6, 2)
    assert found["coppice_jobs_held"] == 6
    assert "coppice_clock_skew_seconds" not in found


def test_the_clock_that_is_the_furthest_off_is_told(api: Api) -> None:
    make_worker(clock_skew_seconds=0.5, clock_skew_uncertainty_seconds=0.1)
    make_worker(clock_skew_seconds=-7.0, clock_skew_uncertainty_seconds=0.1)
    make_worker(clock_skew_seconds=8.0, clock_skew_uncertainty_seconds=4.0)
    make_worker(clock_skew_seconds=60.0, beat_at=ago(minutes=2))
    make_worker(clock_skew_seconds=60.0, state="stopped")
    assert scrape(api("Viewer"))["coppice_clock_skew_seconds"] == -7


def test_runs_are_counted_and_their_keys_too_however_large(api: Api) -> None:
    Counted.create()
    Counted.create(0, 1_000).start()
    RangeRun.objects.filter(status="created").update(status="cancelled")
    found = scrape(api("Viewer"))
    assert found["coppice_range_runs{status=running}"] == 1
    assert found["coppice_range_runs{status=cancelled}"] == 1
    assert found["coppice_range_runs{status=failed}"] == 0
    assert found["coppice_range_keys_left{range_job=metrics.Counted}"] == 1_000
    Counted.create().start()
    assert scrape(api("Viewer"))["coppice_range_keys_left{range_job=metrics.Counted}"] == float(
        "inf"
    )


def test_events_that_were_left_out_are_counted_for_all_processes(
    api: Api, redis_url: str, settings: Any
) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    for _ in range(2):  # two processes
        publisher = publishing.Publisher(redis_url, queue_length=10)
        for _ in range(3):
            room = publisher.room("job.created", 10)
            publisher.put([Event("job.created")] * room)
        assert publisher.flush(30)
        publisher.close()
    found = scrape(api("Viewer"))
    assert found["coppice_redis_up"] == 1
    assert found["coppice_events_dropped_total{event=job.created}"] > 0

    settings.COPPICE_REDIS_URL = "redis://127.0.0.1:1/0"
    away = scrape(api("Viewer"))
    assert away["coppice_redis_up"] == 0
    assert "coppice_events_dropped_total{event=job.created}" not in away


# How much it says, and what it costs


def test_the_names_that_people_make_up_cannot_grow_it_without_bound(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_PAIRS", 3)
    monkeypatch.setattr(figures, "MOST_QUEUES", 4)
    for number in range(10):
        ended(jobs=number + 1, queue=f"q{number}", type='a"b\\c\n', minutes=10)
        make_job(queue=f"due{number}")
    rollups.fold(DjangoDatabase())
    found = scrape(api("Viewer"))
    attempts = {name: n for name, n in found.items() if name.startswith("coppice_attempts_total")}
    assert len(attempts) == 3
    assert sum(attempts.values()) == sum(range(1, 11))
    assert sum("queue=(other)" in name for name in attempts) == 1
    assert sum(name.startswith("coppice_queue_depth") for name in found) == 4
    counts = [n for name, n in found.items() if name.startswith("coppice_wait_seconds_count")]
    assert sum(counts) == sum(range(1, 11))


def test_a_storm_of_scrapes_reads_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "KEPT_SECONDS", 3_600.0)
    client = api("Viewer")
    scrape(client)
    with CaptureQueriesContext(connection) as asked:
        for _ in range(20):
            assert client.get(URL).status_code == 200
    # Nothing but who asks.
    assert not [each for each in asked if "jobs_rollup" in each["sql"] or "_total" in each["sql"]]


@pytest.mark.django_db(transaction=True)
def test_scrapes_at_once_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = gathering._read

    def counted() -> Any:
        reads.append(1)
        yield from read()

    monkeypatch.setattr(gathering, "_read", counted)
    monkeypatch.setattr(gathering, "KEPT_SECONDS", 3_600.0)

    def ask() -> None:
        gathering.current()
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(reads) == 1


def test_a_part_that_takes_too_long_is_left_out_and_named(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(database: Any) -> Any:
        database.rows("SELECT pg_sleep(60)", {})
        return []

    def broken(database: Any) -> Any:
        database.rows("SELECT no_such_column FROM jobs_job", {})
        return []

    scrape(api("Viewer"))  # all parts are known
    monkeypatch.setitem(gathering._parts, "workers", slow)
    monkeypatch.setitem(gathering._parts, "ranges", broken)
    monkeypatch.setattr(gathering, "SECONDS", 0.2)
    found = scrape(api("Viewer"))
    assert found["coppice_metrics_incomplete{part=workers}"] == 1
    assert found["coppice_metrics_incomplete{part=ranges}"] == 1
    assert found["coppice_metrics_incomplete{part=queues}"] == 0
    assert "coppice_slots" not in found
    assert found["coppice_dead_letters"] == 0


def test_without_the_database_the_scrape_fails_as_a_whole_and_tells_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(database: Any) -> Any:
        raise OperationalError("connection to server at 10.0.0.7 failed")

    client = api("Viewer")
    scrape(client)
    monkeypatch.setitem(gathering._parts, "workers", away)
    gathering.forget()
    answer = client.get(URL)
    assert answer.status_code == 503
    assert b"10.0.0.7" not in answer.content


def test_it_is_valid_in_both_forms_and_has_no_name_twice(api: Api) -> None:
    ended(jobs=3)
    make_job()
    make_worker()
    client = api("Viewer")
    plain = client.get(URL)
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert plain.headers["Cache-Control"] == "no-store"
    names = [family.name for family in parse(plain.content.decode())]
    assert len(names) == len(set(names))
    assert all(name.startswith("coppice_") for name in names)
    wanted = "application/openmetrics-text; version=1.0.0"
    open_form = client.get(URL, HTTP_ACCEPT=wanted)
    assert open_form.headers["Content-Type"].startswith("application/openmetrics-text")
    families: Any = parse_openmetrics
    assert list(families(open_form.content.decode()))
    assert b"# HELP coppice_queue_depth" in plain.content
    for accept in ("text/html", "image/png", "*/*", "x", ""):
        assert client.get(URL, HTTP_ACCEPT=accept).status_code == 200


# Who may ask


@pytest.mark.parametrize("group", ["Viewer", "Operator", "Supervisor", (), None])
def test_only_who_may_see_jobs_reads_metrics(api: Api, group: Any) -> None:
    expected = {None: 401, (): 403}.get(group, 200)
    client = api(group)
    assert client.get(URL).status_code == expected
    assert client.post(URL).status_code == (401 if group is None else 405)


def test_a_scraper_with_the_token_of_the_setting_needs_no_user(settings: Any) -> None:
    settings.COPPICE_METRICS_TOKEN = TOKEN
    found = scrape(Client(), HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
    assert "coppice_dead_letters" in found
    # It opens nothing else.
    for path in ("/api/v1/queues", "/api/v1/jobs", "/api-docs.json"):
        answer = Client().get(path, HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
        assert answer.status_code in (401, 403)


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \xff"],
)
def test_another_token_is_refused(settings: Any, header: str) -> None:
    settings.COPPICE_METRICS_TOKEN = TOKEN
    answer = Client().get(URL, HTTP_AUTHORIZATION=header)
    assert answer.status_code == 401
    assert b"coppice_dead" not in answer.content


def test_without_the_setting_no_bearer_is_let_in(settings: Any) -> None:
    settings.COPPICE_METRICS_TOKEN = ""
    for header in ("Bearer", "Bearer ", "Bearer x"):
        assert Client().get(URL, HTTP_AUTHORIZATION=header).status_code == 401


def test_a_short_token_is_a_wrong_setting_and_is_not_quoted(settings: Any) -> None:
    settings.COPPICE_METRICS_TOKEN = "hunter2"
    with pytest.raises(SettingsError, match="COPPICE_METRICS_TOKEN") as refused:
        conf.get()
    assert "hunter2" not in str(refused.value)
