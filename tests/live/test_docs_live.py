"""What docs/live.md says is so: its examples run, its messages follow the schema."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from channels.routing import ProtocolTypeRouter
from jsonschema import Draft202012Validator

from jobs import lifecycle, schedules
from jobs.complete import Ended, Written
from jobs.events import PUBLIC_NAMES, Event, on
from jobs.live import batches, console, events, messages, output, stream, topics, window
from jobs.rescue import events_of
from tests.factories import make_job, make_schedule
from tests.live.clients import Site
from tests.live.conftest import Server
from worker.completer import tell_ended

PAGE = Path("docs/live.md").read_text()
SCHEMA = json.loads(Path("docs/live-schema.json").read_text())


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def code(language: str, mark: str) -> str:
    [found] = [block for block in blocks(language) if mark in block]
    return found


def part_of(name: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{name}"}]})


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_examples_of_messages_follow_the_schema() -> None:
    sent = Draft202012Validator(SCHEMA)
    seen = set()
    for block in blocks("json"):
        found = json.loads(block)
        if "op" in found:
            sent.validate(found)
            seen.add(found["op"])
        else:
            part_of("stats" if "dlq" in found else "event").validate(found)
    assert seen == {"ready", "frame", "resync", "status", "error"}
    part_of("polled").validate(output.POLLED.value)


def test_the_examples_of_requests_are_understood() -> None:
    found = re.findall(r"\| `(\{\"op\".*?\})` \|", PAGE)
    assert len(found) == 4
    for example in found:
        text = example.replace("0198...", "0198c0de-0000-7000-8000-000000000001")
        messages.read(text)
        part_of("from_client").validate(json.loads(text))


def test_the_page_names_every_topic_event_and_limit() -> None:
    for name in (*topics.WIDE, *(f"{name}:<" for name in topics.NARROW)):
        assert f"`{name}" in PAGE
    for name in {name for each in PUBLIC_NAMES.values() for name in each}:
        assert f"`{name}`" in PAGE
    a_message = (
        f"At most {messages.MESSAGE_LENGTH // 1024} kB a message, "
        f"{console.MESSAGES_PER_SECOND:g} messages a second ({console.MESSAGES_AT_ONCE} at once), "
        f"{topics.TOPICS} topics, {topics.FILTERED} of them with filters"
    )
    for text in (
        a_message,
        f"At most {batches.MOST_EVENTS}, at most {batches.MOST_BYTES // 1024} kB",
        f"{stream.MOST_REPLAYED:,} events",
        f"While {window.FRAMES} are not acknowledged, or {window.BYTES // 1024} kB",
        f"After {window.PATIENCE_SECONDS:g} seconds",
        f"after {events.MOST_BYTES // 10**6} MB or {events.MOST_SECONDS // 60:g} minutes",
    ):
        assert text in PAGE
    for ending in (
        console.BAD_MESSAGE,
        console.TOO_SLOW,
        console.NO_FEED,
        console.BROKEN,
        4401,
        4403,
    ):
        assert f"| {ending} |" in PAGE


def facts_of(name: str) -> set[str]:
    """The facts that the table of the page promises for an event."""
    rows = re.findall(r"^\| (`[a-z.]+[a-z_., `]*) \| (.*) \|$", PAGE, re.MULTILINE)
    [told] = [text for names, text in rows if f"`{name}`" in names]
    return set(re.findall(r"`([a-z_]+)`", told))


ATTEMPT = {"attempt", "status", "error", "next_retry_at"}


@pytest.mark.django_db
def test_events_carry_the_facts_that_the_page_names(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    heard: list[Event] = []
    stop = on("*", heard.append)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            job, parent = make_job(), make_job()
            lifecycle.change(job.id, priority=1, by="anna")
            lifecycle.run_now(make_job("scheduled").id, by="anna")
            lifecycle.add_dependency(job.id, parent, by="anna")
            lifecycle.cancel(job.id, by="anna", reason="old")
            lifecycle.cancel(make_job("processing").id, by="anna")
            dead = [make_job("dead") for _ in range(2)]
            lifecycle.edit_payload(dead[0].id, {"a": 1}, by="anna")
            lifecycle.retry(dead[0].id, by="anna")
            lifecycle.purge(dead[1].id, by="anna")
            lifecycle.pause_queue("mail", by="anna", reason="why")
            lifecycle.resume_queue("mail", by="anna")
            schedules.disable(make_schedule().id, by="anna")
    finally:
        stop()
    assert {event.name for event in heard} >= {
        "job.changed", "job.run_now", "job.dependency_added", "job.cancelled", "job.retried",
        "job.cancel_requested", "job.payload_edited", "job.purged", "queue.paused", "queue.resumed",
        "schedule.changed",
    }  # fmt: skip
    for event in heard:
        promised = facts_of(event.name)
        if event.name == "job.cancelled":
            promised = {"by"}
        assert set(event.facts) == promised, event


def test_events_about_attempts_carry_the_facts_that_the_page_names() -> None:
    heard: list[Event] = []
    stop = on("job.*", heard.append)
    job: Any = SimpleNamespace(id=str(uuid4()), type="a", queue="b")
    try:
        for event in ("retry_scheduled", "dead_lettered", "held", "snoozed"):
            tell_ended([Ended(job=job, status="pending", event=event, number=1, error="x")])
    finally:
        stop()
    lost = Ended(job=job, status="pending", event="lost", number=1)
    heard += events_of(Written(ended=[lost]))
    assert len(heard) == 8
    for each in heard:
        assert set(each.facts) == ATTEMPT
    assert facts_of("job.failed") == ATTEMPT
    [example] = [json.loads(block) for block in blocks("json") if '"job.failed", "at"' in block]
    assert isinstance(example["facts"]["next_retry_at"], float)


def test_the_asgi_application_of_the_page_is_one() -> None:
    made: dict[str, Any] = {}
    exec(code("python", "application_with("), made)
    assert isinstance(made["application"], ProtocolTypeRouter)


def test_the_python_client_of_the_page_hears_events(
    server: Server, site: Site, tell: Callable[..., None]
) -> None:
    made: dict[str, Any] = {}
    exec(code("python", "def events("), made)
    key = site.headers["Authorization"].removeprefix("Token ")
    heard: Queue[tuple[str, Any]] = Queue()
    enough = threading.Event()

    def listen() -> None:
        url = f"{server.origin}/api/v1/jobs/stream?event=job.*&queue=python"
        for event in made["events"](url, key):
            heard.put(event)
            if enough.is_set():
                return

    thread = threading.Thread(target=listen)
    thread.start()
    assert heard.get(timeout=90)[0] == "ready"
    tell("job.created", 3, queue="python")
    found = [heard.get(timeout=90) for _ in range(3)]
    assert [(name, event["queue"]) for name, event in found] == [("job.created", "python")] * 3
    enough.set()
    tell("job.created", queue="python")
    thread.join(90)
    assert not thread.is_alive()


NODE = shutil.which("node")
RUN = """
import {live} from "./live.mjs";
const say = (what) => console.log(JSON.stringify(what));
const socket = (to) => new WebSocket(to, {headers: {Authorization: process.env.KEY}});
const shown = (frame) => say(["show", frame.events.map((each) => each.name), frame.left_out]);
const stop = live(process.env.URL, ["jobs?queue=node"], shown, () => say(["reload"]), {socket});
process.stdin.on("data", () => { stop(); process.exit(0); });
"""


def knows_websockets() -> bool:
    if NODE is None:
        return False
    asked = [
        NODE,
        "--experimental-websocket",
        "-e",
        "new WebSocket('ws://localhost:1').onerror = () => 0",
    ]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not knows_websockets(), reason="no node that knows WebSocket is installed")
def test_the_javascript_client_of_the_page_shows_events(
    server: Server, site: Site, tmp_path: Path, tell: Callable[..., None]
) -> None:
    (tmp_path / "live.mjs").write_text(code("js", "export function live("))
    (tmp_path / "run.mjs").write_text(RUN)
    assert NODE is not None
    process = subprocess.Popen(
        [NODE, "--experimental-websocket", "run.mjs"],
        cwd=tmp_path,
        env={
            **os.environ,
            "URL": f"ws://{server.host}/ws/console/",
            "KEY": site.headers["Authorization"],
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline()) == ["reload"]
        tell("job.created", queue="node")
        assert json.loads(process.stdout.readline()) == ["show", ["job.created"], {}]
        tell("job.started", queue="other")
        tell("job.started", queue="node")
        assert json.loads(process.stdout.readline()) == ["show", ["job.started"], {}]
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(60)
