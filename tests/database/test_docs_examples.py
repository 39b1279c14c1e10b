"""The Python blocks of the documents run, and do what the text around them says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from examples.geonames.models import City
from jobs import child, enqueue, registry, testing
from jobs.drafts import CHILD_OPTIONS, child_drafts
from jobs.errors import InvalidInput
from jobs.ids import new_id
from jobs.models import Attempt, Job, JobLog, Schedule
from jobs.states import Status
from jobs.testing import run_due_jobs
from ranges.models import RangeRun

pytestmark = pytest.mark.django_db(transaction=True)

CHECKOUT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

type Run = Callable[[str], dict[str, Any]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs the blocks of a document in one module, and forgets its handlers afterwards."""
    known = {handler.type for handler in registry.handlers()}

    def run_document(name: str) -> dict[str, Any]:
        path = CHECKOUT / name
        text = path.read_text(encoding="utf-8")
        module = ModuleType(f"docs_{path.stem}")
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(1))
            # Blank lines in front, so that an error names the line of the document.
            code = compile("\n" * line + block[1], str(path), "exec")
            exec(code, module.__dict__)
        return module.__dict__

    yield run_document
    for type in registry.types():
        if type not in known:
            registry.remove(type)


def after(job: Job) -> Job:
    return Job.objects.get(id=job.id)


def test_the_readme_runs(run: Run) -> None:
    names = run("README.md")
    assert after(names["job"]).priority == 1
    waiting = Job.objects.get(type="send_email")
    assert waiting.unmet_dependencies == 1
    assert Schedule.objects.get().time_zone == "Europe/Berlin"
    run_due_jobs()
    done = after(names["job"])
    assert (done.status, done.result) == (Status.COMPLETED, {"invoice": 1007})
    line = JobLog.objects.get(job=done, event="log")
    assert (line.message, line.data) == ("writing", {"order": 7})
    assert after(waiting).status == Status.COMPLETED
    assert Job.objects.get(schedule__isnull=False).status == Status.PENDING


def test_the_page_about_handlers_runs(run: Run) -> None:
    run("docs/handlers.md")
    assert after(Job.objects.get(type="send_email")).status == Status.PENDING

    greeting = enqueue("orders.greet", {"name": "reader"})
    invoice = enqueue("orders.invoice", {"order": 7})
    run_due_jobs()
    assert after(greeting).result == {"text": "Hello, reader!"}
    assert after(invoice).result == {"invoice": 1007, "copies": 1}
    assert invoice.queue == "documents"
    assert invoice.max_attempts == 5


def test_what_the_page_says_about_returns_is_so(run: Run) -> None:
    run("docs/handlers.md")
    held = enqueue("orders.ship", {})
    snoozed = enqueue("orders.ship", {"address": "here", "in_stock": False})
    shipped = enqueue("orders.ship", {"address": "here"})
    run_due_jobs()
    assert after(held).hold_reason == "the address is missing"
    assert after(held).due_at is None
    assert after(snoozed).next_retry_at is not None
    assert after(shipped).result == "shipped"
    assert [after(job).attempt_count for job in (held, snoozed, shipped)] == [0, 0, 1]


def test_what_the_page_says_about_raising_is_so(run: Run) -> None:
    run("docs/handlers.md")
    discarded = enqueue("orders.fetch_rate", {"currency": "EURO"})
    busy = enqueue("orders.fetch_rate", {"currency": "EUR", "busy": True})
    wrong = enqueue("orders.fetch_rate", {})
    run_due_jobs()
    assert after(discarded).status == Status.FAILED
    assert after(discarded).attempt_count == 1
    due_at, started_at = after(busy).due_at, after(busy).started_at
    assert due_at is not None
    assert started_at is not None
    assert timedelta(seconds=60) <= due_at - started_at < timedelta(seconds=90)
    assert after(wrong).status == Status.PENDING
    assert after(wrong).last_error.startswith("KeyError")


def test_the_long_handler_of_the_page_reports_its_progress(run: Run) -> None:
    run("docs/handlers.md")
    for number in range(3):
        User.objects.create(
            username=f"unused {number}",
            is_active=False,
            date_joined=timezone.now() - timedelta(days=40),
        )
    job = enqueue("accounts.remove_unused", {"days": 30})
    run_due_jobs()
    done = after(job)
    assert done.result == {"removed": 3}
    assert (done.progress_done, done.progress_total) == (3, 3)
    assert not User.objects.exists()


def test_the_atomic_handler_of_the_page_changes_the_row_with_its_job(run: Run) -> None:
    run("docs/handlers.md")
    user = User.objects.create(username="reader")
    job = enqueue("accounts.deactivate", {"user": user.id})
    run_due_jobs()
    user.refresh_from_db()
    assert not user.is_active
    assert after(job).status == Status.COMPLETED


def test_the_async_handler_of_the_page_enqueues(run: Run) -> None:
    run("docs/handlers.md")
    User.objects.create(username="unused", is_active=False)
    job = enqueue("orders.poll")
    run_due_jobs()
    assert after(job).result == "asked"
    assert Job.objects.filter(type="accounts.remove_unused").exists()


def test_the_waiting_handler_of_the_page_collects_its_children(run: Run) -> None:
    run("docs/handlers.md")
    job = enqueue("orders.month_end", {"orders": [1, 2]})
    run_due_jobs()
    assert after(job).result == {"invoices": [1001, 1002], "failed": []}
    outcomes = Attempt.objects.filter(job_id=job.id).order_by("lease_epoch")
    assert [attempt.outcome for attempt in outcomes] == ["waited", "succeeded"]
    assert after(job).attempt_count == 1


def test_a_child_takes_the_options_that_the_page_names_and_no_other() -> None:
    text = (CHECKOUT / "docs" / "handlers.md").read_text(encoding="utf-8")
    [line] = [each for each in text.splitlines() if each.startswith("- `child(type, payload")]
    assert set(re.findall(r"`([a-z_]+)`", line)) == CHILD_OPTIONS
    with pytest.raises(InvalidInput) as refused:
        child_drafts(new_id(), [child("send_email", key="a", colour="red")])
    assert refused.value.field == "colour"


def test_the_page_about_enqueueing_runs(run: Run) -> None:
    run("docs/handlers.md")
    names = run("docs/enqueueing.md")
    assert len(names["ids"]) == 1_000
    assert after(names["later"]).status == Status.CANCELLED
    assert Job.objects.get(id=names["paper"]).unmet_dependencies == 1
    assert Job.objects.get(id=names["mail"]).unmet_dependencies == 2
    run_due_jobs()
    assert Job.objects.get(id=names["mail"]).status == Status.COMPLETED
    assert not Job.objects.filter(id__in=names["ids"]).exclude(status=Status.COMPLETED).exists()
    deactivating = Job.objects.get(type="accounts.deactivate")
    assert deactivating.payload == {"user": names["user"].id}


def test_the_tests_of_the_page_about_handlers_pass(run: Run) -> None:
    names = run("docs/handlers.md")
    Job.objects.all().delete()
    written = {name: test for name, test in names.items() if name.startswith("test_")}
    assert written
    for test in written.values():
        test(testing)
        Job.objects.all().delete()


def test_the_page_for_those_who_come_from_elsewhere_runs(run: Run) -> None:
    job = run("docs/coming-from.md")["job"]
    assert job.max_attempts == 4
    run_due_jobs()
    assert after(job).result == {"invoice": 1007, "copies": 2}


def test_the_page_about_schedules_runs(run: Run) -> None:
    names = run("docs/schedules.md")
    assert names["hourly"].schedule_slot == names["hourly"].scheduled_at
    assert [at.astimezone(ZoneInfo("Europe/Berlin")).hour for at in names["coming"]] == [18] * 3
    run_due_jobs()
    assert after(names["hourly"]).status == Status.COMPLETED
    assert after(names["extra"]).result == "written"
    assert after(names["morning"]).status == Status.PENDING
    series = Schedule.objects.get(id=names["hourly"].schedule_id)
    assert series.next_slot == names["hourly"].schedule_slot + timedelta(hours=1)
    assert Schedule.objects.get(name="evening report").next_slot is None


def made_cities(count: int = 50) -> None:
    City.objects.bulk_create(
        City(
            id=n * 7, name=f"City {n}", country="XX", latitude=n % 90, longitude=n, population=n,
            time_zone="UTC", cell="kept" if n % 3 == 0 else "",
        )
        for n in range(1, count + 1)
    )  # fmt: skip


def test_the_page_about_ranges_runs(run: Run) -> None:
    made_cities()
    names = run("docs/ranges.md")
    names["stop"]()
    assert names["plan"].concurrency == 4
    assert names["known"].total is None or names["known"].left == names["known"].total
    assert names["found"].statistics().rows == 366
    assert len(names["found"].results) == 262
    assert sorted(names["round_numbers"].results) == list(range(0, 1_000_000, 10_000))

    made = names["run"]
    run_due_jobs(retries=True)
    made.refresh_from_db()
    assert (made.status, made.concurrency, made.metadata) == ("completed", 4, {"ticket": 7})
    assert names["check"](made).rows_ok == 34
    for city in City.objects.all():
        right = names["cell_of"](city.latitude, city.longitude)
        assert city.cell == ("kept" if city.id % 21 == 0 else right)


def test_what_the_page_about_ranges_says_about_failures_is_so(run: Run) -> None:
    names = run("docs/ranges.md")
    names["stop"]()
    RangeRun.objects.all().delete()
    made_cities()
    # Off the globe: no cell can be computed.
    City.objects.filter(id=7).update(latitude=91)
    made = names["FillCells"].start(failure_threshold=None)
    run_due_jobs(retries=True)
    made.refresh_from_db()
    assert made.status == "partially_failed"
    assert [failure.key for failure in made.failures.filter(state="open")] == ["7"]

    assert names["mend"](made) == 1
    run_due_jobs(retries=True)
    names["give_up"](made)
    made.refresh_from_db()
    assert made.status == "running"
    run_due_jobs(retries=True)
    made.refresh_from_db()
    assert made.status == "completed"


def test_the_events_that_the_page_about_ranges_names_are_those_of_the_engine() -> None:
    text = (CHECKOUT / "docs" / "ranges.md").read_text(encoding="utf-8")
    in_memory = {"memory", "memory_crews", "memory_lane", "mishaps", "tiles", "frontier"}
    engine = "".join(
        module.read_text()
        for module in (CHECKOUT / "ranges").glob("*.py")
        if module.stem not in in_memory
    )
    sent = set(re.findall(r'"((?:node|range)\.[a-z_]+)"', engine))
    for kind, opening in (("range", "Of a run: "), ("node", "Of its nodes: ")):
        [line] = [each for each in text.splitlines() if each.startswith(opening)]
        named = {word.removeprefix(f"{kind}.") for word in re.findall(r"`([a-z_.]+)`", line)}
        ours = {name.partition(".")[2] for name in sent if name.startswith(f"{kind}.")}
        assert ours <= named
        assert named - ours <= {"completed", "partially_failed", "failed"}
