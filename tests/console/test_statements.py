"""What the pages of the console ask of the database, all of them, with the same rules for each.

No page counts without an end, skips rows, sorts out doubles among jobs, walks through a table that
grows, or asks more often because there is more to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import deadletters, listing, queues, stats, walking
from jobs.admin.deadletters import reading
from jobs.admin.ledger.tabs import TABS
from jobs.admin.overview import active, flows, numbers, one_queue, one_worker
from jobs.bulk import previewing
from jobs.console import kept
from jobs.doctor import workers
from jobs.models import Job
from tests.console import crowd
from tests.console.anew import look_anew
from tests.console.people import client_of
from tests.plans import explain, rows_read, scans
from tests.security.routes import NOWHERE, routes

pytestmark = pytest.mark.django_db

FEW, MORE, MANY = 160, 300, 8_000
CAP = 300
READ = 6_000
"""The most rows of one table that a statement may look at, with the caps below."""
MOST_STATEMENTS = 12
OTHERS = re.compile(
    # Django's own pages, of rows that people make one by one; and lists that are streamed whole.
    r"admin/(auth|geonames)/|admin/(login|logout|password_change|jsi18n|autocomplete|r|<)|export/"
)
LITERAL = re.compile(r"'[^']*'|\b\d+\b")

INDEXES = {
    "active": {"job_pending", "job_processing"},
    "ready": {"job_pending"},
    "scheduled": {"job_pending"},
    "retrying": {"job_waiting"},
    "blocked": {"job_waiting"},
    "held": {"job_waiting"},
    "running": {"job_processing"},
    "completed": {"job_completed"},
    "dead": {"job_dead"},
    "cancelled": {"job_cancelled"},
    "all": {"jobs_job_pkey"},
}


@pytest.fixture(autouse=True)
def _caps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What bounds the statements is low, so that the tables need not be large."""
    monkeypatch.setattr(listing, "COUNTED", CAP)
    for module in (previewing, queues, active, flows, numbers, one_queue, workers):
        monkeypatch.setattr(module, "CAP", CAP)
    monkeypatch.setattr(walking, "SORTED", CAP)
    monkeypatch.setattr(one_worker, "LOOKED_AT", CAP)
    monkeypatch.setattr(reading, "MOST_OF_AN_HOUR", 20)
    monkeypatch.setattr(deadletters, "COUNTED", 2_000)
    monkeypatch.setattr("jobs.live.sample.stats", partial(stats.stats, cap=CAP))
    yield
    look_anew()


def addresses(one: dict[str, str]) -> list[str]:
    """Every page, each tab and each way to narrow a list."""
    found = []
    for route in routes():
        if not route.pattern.startswith("admin/") or OTHERS.search(route.pattern):
            continue
        model = "/".join(route.pattern.split("/")[1:3])
        path = route.path.replace(NOWHERE, one.get(model, NOWHERE)).replace("nowhere", "queue0")
        found.append(path)
    jobs, dead = "/admin/jobs/job/", {"type": "kind1", "error_fingerprint": f"{1:016x}"}
    middle = Job.objects.filter(status="failed").order_by("id")[1]
    lists: list[tuple[str, dict[str, str]]] = [
        *((jobs, {"state": name}) for name in TABS),
        *((jobs, {"state": "all", **query}) for query in (
            {"type": "kind1"}, {"queue": "queue1"}, {"worker": one["jobs/worker"]}, {"recurring": "yes"},
            {"depends_on": one["jobs/job"]}, {"schedule": one["jobs/schedule"]}, {"after": str(middle.id)},
            {"last": "24h", "priority": "2"}, {"min_attempt_count": "1"},
        )),
        (jobs, {"state": "dead", "sort_by": "priority"}),
        (f"{jobs}dead-letters/", {"groups": "all"}),
        (f"{jobs}dead-letters/", dead),
        (f"{jobs}dead-letters/", {"queue": "queue0"}),
        *((f"{jobs}bulk/", {"action": action, "state": state, **query}) for action, state, query in (
            ("retry", "dead", {}), ("purge", "dead", dead), ("cancel", "active", {}),
            ("run_now", "retrying", {}), ("change_priority", "active", {"queue": "queue1"}),
            ("move_queue", "ready", {"type": "kind1"}),
        )),
        ("/admin/", {"span": "7d"}),
        ("/admin/jobs/auditentry/", {"actor": "person1"}),
        ("/admin/jobs/auditentry/", {"action": "job.retry", "before": "1"}),
        ("/admin/jobs/bulkoperation/", {"show": "live"}),
        ("/admin/jobs/schedule/", {"which": "on", "after": "schedule 0-1"}),
        ("/admin/ranges/rangerun/", {"state": "completed"}),
        ("/admin/ranges/rangerun/", {"job": "shop.BackfillUsers"}),
        ("/admin/jobs/job/add/", {"type": "geonames.locate_city"}),
    ]  # fmt: skip
    return [*found, *(f"{path}?{urlencode(query)}" for path, query in lists)]


def asked(client: Client, address: str) -> list[str]:
    """The statements of a page that read tables."""
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
    assert response.status_code < 500, address
    words = [query["sql"].strip() for query in captured.captured_queries]
    return [
        sql
        for sql in words
        if sql.upper().startswith(("SELECT", "WITH", "(SELECT")) and "set_config(" not in sql
    ]


def faults(sql: str) -> Iterator[str]:
    """What a statement does that no page may do."""
    of_jobs = '"jobs_job"' in sql or re.search(r"\bjobs_job\b", sql)
    if re.search(r"\bOFFSET (?!0\b)", sql):
        yield "it skips rows"
    if re.search(r"\bcount\(", sql, re.IGNORECASE) and of_jobs and "LIMIT" not in sql:
        yield "it counts without an end"
    if "DISTINCT" in sql and of_jobs:
        yield "it sorts out doubles"
    plan: Any = explain(sql.replace("%", "%%"))
    for table in crowd.TABLES:
        if f"Seq Scan {table}" in scans(plan):
            yield f"it walks through {table}"
        if table in sql and (read := rows_read(plan, table)) > READ:
            yield f"it reads {read:,} rows of {table}"


def test_no_page_reads_without_an_end() -> None:
    one = crowd.begin()
    crowd.fill(one, MANY)
    client, seen = client_of(), set()
    found: dict[str, str] = {}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        # As most lists set it for themselves: then what is walked through has no index at all.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    for address in addresses(one):
        look_anew()
        for sql in asked(client, address):
            shape = LITERAL.sub("?", sql)
            if shape not in seen:
                seen.add(shape)
                found |= {f"{address}: {fault}": sql for fault in faults(sql)}
    assert not found, "\n".join(f"{where}\n    {sql[:1_500]}" for where, sql in found.items())


def test_each_tab_is_read_by_the_index_of_its_state() -> None:
    one = crowd.begin()
    crowd.fill(one, 2_000)
    client, found = client_of(), {}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    for tab in TABS:
        rows = [
            sql for sql in asked(client, f"/admin/jobs/job/?state={tab}") if "error_start" in sql
        ]
        used = {scan.split()[-1] for sql in rows for scan in scans(explain(sql.replace("%", "%%")))}
        found[tab] = used
    assert found == INDEXES


@pytest.mark.usefixtures("frozen")
def test_no_page_asks_more_often_the_more_there_is() -> None:
    one = crowd.begin()
    crowd.fill(one, FEW)
    client, places = client_of(), addresses(one)
    client.get("/admin/")
    few = {address: (client.get(address), asked(client, address))[1] for address in places}
    crowd.fill(one, MORE, first=500)
    kept.forget()
    client.get("/admin/")
    many = {address: (client.get(address), asked(client, address))[1] for address in places}
    assert {
        address: len(sqls) for address, sqls in many.items() if len(sqls) > MOST_STATEMENTS
    } == {}
    grown = {address: many[address] for address in places if len(many[address]) > len(few[address])}
    assert not grown, "\n".join(
        f"{address}: {len(few[address])}, {sqls}" for address, sqls in grown.items()
    )
