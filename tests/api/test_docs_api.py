"""docs/api.md: every request on it is sent, in its order, and answered as it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from jobs import conf, enqueue, registry
from jobs.answers import Discard, Hold
from jobs.ids import new_uuid
from jobs.models import Job, Worker
from jobs.testing import run_due_jobs
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from tests.api.conftest import Api
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
HOST = "coppice.example.org"
ELSEWHERE = ("/stream", "/live")
"""What docs/live.md describes."""

PARTS = re.compile(r"^```http\n(.*?)^```|^<!-- test: (.*?) -->", re.MULTILINE | re.DOTALL)
CURSOR = re.compile(r"(?<=cursor=)[A-Za-z0-9_-]+")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|\+00:00)\Z")
NOBODY = "00000000-0000-7000-8000-000000000000"
MORE = "..."
"""The key, or the last element, that stands for what is not shown. A list that ends so shows some of
what is there, in any order."""


@dataclass(frozen=True)
class Message:
    """A request or an answer as the page shows it."""

    first: str
    headers: dict[str, str]
    body: str
    line: int

    @property
    def is_answer(self) -> bool:
        return self.first.startswith("HTTP/")


@dataclass
class Known:
    """What the page says in place of what this run has: ids and cursors."""

    values: dict[str, str] = field(default_factory=dict)

    def fill(self, text: str) -> str:
        for shown, real in self.values.items():
            text = text.replace(shown, real)
        return text


def messages(text: str) -> Iterator[Message | str]:
    """Requests, answers, and the names of what happens between them."""
    for found in PARTS.finditer(text):
        if found[2] is not None:
            yield found[2]
            continue
        head, _, body = found[1].partition("\n\n")
        first, *lines = head.strip().splitlines()
        headers = dict(line.split(": ", 1) for line in lines)
        yield Message(first, headers, body.strip(), text.count("\n", 0, found.start()) + 1)


# What happens between the requests


class Backfill(RangeJob):
    """The range job of the page: one key of it is bad."""

    name = "shop.Backfill"
    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=250)
    concurrency = 1
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))

    def process(self, leaf: Any, context: Any) -> None:
        if 700 in leaf:
            raise ValueError("order 700 has no price")


def a_worker_runs_what_is_due() -> None:
    enqueue("publish")
    run_due_jobs()


def a_job_is_at_work() -> None:
    make_job("processing", type="import_orders", id=SHOWN_IDS["running"])


def jobs_die() -> None:
    Job.objects.filter(type="import_orders", status="pending").update(
        status="failed", failed_at=Now()
    )
    for _ in range(2):
        make_job("dead", type="import_orders")


def the_run_goes_to_its_end() -> None:
    run_due_jobs(retries=True)


def a_worker_is_there() -> None:
    make_worker(
        id=SHOWN_IDS["worker"],
        name="web-1:4711",
        host="web-1",
        pid=4711,
        concurrency=16,
        types=["import_orders", "publish", "send_report"],
        queues=["default", "mail"],
        clock_skew_seconds=0.002,
        clock_skew_uncertainty_seconds=0.001,
    )


def the_worker_falls_silent() -> None:
    Worker.objects.filter(id=SHOWN_IDS["worker"]).update(beat_at=ago(minutes=5))
    make_job("processing", type="import_orders", worker_id=SHOWN_IDS["worker"])


def the_worker_of_the_run_falls_silent() -> None:
    Job.objects.filter(type="ranges.run", status="pending").update(
        status="processing", worker_id=new_uuid(), started_at=Now(), attempt_count=1, lease_epoch=1,
        hold_reason="",
    )  # fmt: skip


SHOWN_IDS = {
    "running": "0199a1f0-8000-7000-8000-000000000001",
    "worker": "0199a1e8-02aa-7c10-b7f3-5d0c9e8a4b16",
}
STEPS: dict[str, Callable[[], None]] = {
    "a worker runs what is due": a_worker_runs_what_is_due,
    "a job is at work": a_job_is_at_work,
    "jobs die": jobs_die,
    "the run goes to its end": the_run_goes_to_its_end,
    "a worker is there": a_worker_is_there,
    "the worker falls silent": the_worker_falls_silent,
    "the worker of the run falls silent": the_worker_of_the_run_falls_silent,
}


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    @registry.handler("import_orders")
    def import_orders(payload: Any) -> Any:
        if payload["file"] == "missing.csv":
            raise Discard("missing.csv is not there")
        return {"orders": 12}

    @registry.handler("send_report", queue="mail", mask=("to",))
    def send_report(payload: Any) -> None: ...

    @registry.handler("publish")
    def publish(payload: Any) -> Hold:
        return Hold("somebody has to look at it first")

    yield
    for name in ("import_orders", "send_report", "publish"):
        registry.remove(name)


@pytest.fixture
def client(api: Api, settings: Any) -> Any:
    settings.ALLOWED_HOSTS = [HOST]
    return api("Supervisor")


def send(client: Any, request: Message, known: Known) -> Any:
    method, path = request.first.split(" ", 1)
    headers = {f"HTTP_{name.upper().replace('-', '_')}": v for name, v in request.headers.items()}
    body = known.fill(request.body)
    kind = "application/json" if body else ""
    return client.generic(method, known.fill(path), body, kind, HTTP_HOST=HOST, **headers)


# Shown and real, compared


def differences(shown: Any, real: Any, known: Known, place: str = "") -> Iterator[str]:
    """What the page shows otherwise than it is, by place."""
    match shown, real:
        case dict(), dict():
            yield from _of_objects(shown, real, known, place)
        case list(), list():
            yield from _of_lists(shown, real, known, place)
        case (int() | float(), int() | float()) if place.endswith("_seconds"):
            pass  # measured
        case (int(), int()) if place.endswith(".id"):  # of a sequence
            known.values.setdefault(f"/failures/{shown}", f"/failures/{real}")
        case str(), str():
            if not _alike(shown, real, known, place):
                yield f"{place}: {shown!r} shown, {real!r} there"
        case _:
            if shown != real or type(shown) is not type(real):
                yield f"{place}: {shown!r} shown, {real!r} there"


def _of_objects(
    shown: dict[str, Any], real: dict[str, Any], known: Known, place: str
) -> Iterator[str]:
    missing = [name for name in shown if name not in {MORE, *real}]
    more = [name for name in real if name not in shown and MORE not in shown]
    if missing or more:
        yield f"{place}: not there {missing}, not shown {more}"
    for name in shown.keys() & real.keys():
        yield from differences(shown[name], real[name], known, f"{place}.{name}")


def _of_lists(shown: list[Any], real: list[Any], known: Known, place: str) -> Iterator[str]:
    if shown[-1:] == [MORE]:
        for index, one in enumerate(shown[:-1]):
            if all(list(differences(one, other, known)) for other in real):
                yield f"{place}[{index}]: not among the {len(real)} there"
        return
    if len(shown) != len(real):
        yield f"{place}: {len(shown)} shown, {len(real)} there"
    for index, (one, other) in enumerate(zip(shown, real, strict=False)):
        yield from differences(one, other, known, f"{place}[{index}]")


def _alike(shown: str, real: str, known: Known, place: str) -> bool:
    if TIME.match(shown):
        return bool(TIME.match(real))
    if place.endswith("_cursor"):
        known.values.setdefault(shown, real)
    for pattern in (UUID, CURSOR):
        ours, theirs = pattern.findall(shown), pattern.findall(real)
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                known.values.setdefault(one, other)
    return known.fill(shown) == real


def test_every_request_is_answered_as_the_page_shows(client: Any) -> None:
    known = Known({NOBODY: NOBODY, **{id: id for id in SHOWN_IDS.values()}})
    wrong: list[str] = []
    asked: Message | None = None
    for part in messages(PAGE.read_text(encoding="utf-8")):
        if isinstance(part, str):
            STEPS[part]()
        elif not part.is_answer:
            assert asked is None, f"line {asked.line}: nothing is shown for this request"
            asked = part
        else:
            assert asked is not None, f"line {part.line}: an answer to nothing"
            response = send(client, asked, known)
            place = f"line {asked.line}, {asked.first}"
            status = int(part.first.split()[1])
            if response.status_code != status:
                wrong.append(f"{place}: {response.status_code} {response.content[:300]!r}")
            for name, value in part.headers.items():
                if not _alike(value, response.headers.get(name, ""), known, name):
                    wrong.append(f"{place}: {name}: {response.headers.get(name)}")
            real = json.loads(response.content) if response.content else None
            shown = json.loads(part.body) if part.body else None
            wrong += [f"{place}: {each}" for each in differences(shown, real, known)]
            asked = None
    assert not wrong, "\n".join(wrong)


def test_every_route_of_the_api_is_on_the_page(tmp_path: Any) -> None:
    file = tmp_path / "schema.json"
    call_command("spectacular", "--format", "openapi-json", "--file", str(file))
    shown = {
        part.first.partition("?")[0]
        for part in messages(PAGE.read_text(encoding="utf-8"))
        if isinstance(part, Message) and not part.is_answer
    }
    missing = []
    for path, methods in json.loads(file.read_text())["paths"].items():
        pattern = re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path))
        for method in methods:
            is_there = any(re.fullmatch(f"{method.upper()} {pattern}", line) for line in shown)
            words = re.escape(path).replace("\\", "")
            if not is_there and not words.endswith(ELSEWHERE):
                missing.append(f"{method.upper()} {path}")
    assert not missing, "\n".join(missing)


def test_the_settings_that_the_page_names_have_those_defaults() -> None:
    named = re.findall(r"`COPPICE_([A-Z_]+)` \(([0-9,]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(named) == 4
    for name, value in named:
        assert getattr(conf.Settings(), name.lower()) == int(value.replace(",", "")), name
