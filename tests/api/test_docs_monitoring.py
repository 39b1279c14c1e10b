"""docs/monitoring.md: what it shows is answered, and it has every metric with its labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse

from jobs import health, publishing
from jobs.doctor import CHECKS
from jobs.events import Event
from jobs.histograms import pack
from jobs.metrics import gathering
from jobs.models import Rollup
from jobs.states import Outcome
from jobs.webhooks import telling as webhooks
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from tests.api.conftest import Api
from tests.factories import ago, make_job, make_queue, make_worker

pytestmark = pytest.mark.django_db

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"
RUNBOOK = PAGE.with_name("runbook.md")


class Watched(RangeJob):
    name = "monitoring.Watched"
    over = IntRange(0, 10)

    def process(self, leaf: Any, context: Any) -> None: ...


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    health.forget()
    gathering.forget()
    yield
    health.forget()
    gathering.forget()


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def shown() -> list[tuple[str, Any]]:
    """The requests of the page, and their answers."""
    found = re.findall(r"```http\nGET (\S+)\n```\n\n```json\n(.*?)\n```", text(), re.DOTALL)
    return [(path, json.loads(body)) for path, body in found]


def test_the_answers_have_the_form_that_the_page_shows(
    api: Api, project_database: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(health, "django_conninfo", lambda: project_database)
    settings.COPPICE_REDIS_URL = ""
    assert [path for path, _ in shown()] == ["/healthz", "/readyz"]
    for path, body in shown():
        answer = api(None).get(path)
        assert (answer.status_code, answer.json()) == (200, body)


def test_the_page_has_every_metric_with_its_labels(api: Api, redis_url: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    publisher = publishing.Publisher(redis_url, queue_length=1)
    publisher.put([Event("job.created")] * publisher.room("job.created", 10))
    assert publisher.flush(30)
    publisher.close()
    make_job()
    make_queue(paused=True)
    make_worker(clock_skew_seconds=0.0)
    Watched.start()
    timings = [pack(1, wait=3, run=2)]
    for outcome in Outcome:
        Rollup.objects.create(
            minute=ago(minutes=1), queue="a", type="b", outcome=outcome, jobs=1, wait_seconds=1,
            run_seconds=1, timings=timings,
        )  # fmt: skip

    there: dict[str, tuple[set[str], str]] = {}
    for family in parse(api("Viewer").get("/metrics").content.decode()):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        there[name] = (labels, family.type)
    rows = re.findall(r"^\| `(coppice_\w+)` \| (.*?) \| (.*?) \|$", text(), re.MULTILINE)
    written = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels, _ in rows}
    assert written == {name: labels for name, (labels, _) in there.items()}
    for name, _, meaning in rows:
        assert meaning.startswith("Histogram") == (there[name][1] == "histogram"), name
    # Each outcome is named where attempts are.
    [attempts] = [meaning for name, _, meaning in rows if name == "coppice_attempts_total"]
    assert {outcome.value for outcome in Outcome} <= set(re.findall(r"`(\w+)`", attempts))


def rules() -> list[dict[str, Any]]:
    _, _, alerts = text().partition("## Worth an alert")
    [block] = re.findall(r"^```yaml\n(.*?)^```", alerts, re.MULTILINE | re.DOTALL)
    [group] = yaml.safe_load(block)["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_the_alerts_name_metrics_and_labels_that_there_are() -> None:
    rows = re.findall(r"^\| `(coppice_\w+)` \| (.*?) \|", text(), re.MULTILINE)
    labels = {name: set(re.findall(r"`(\w+)`", words)) for name, words in rows}
    for rule in rules():
        used = set(re.findall(r"coppice_\w+", rule["expr"]))
        assert used <= {*labels}, rule["alert"]
        known = {"job"}.union(*(labels[name] for name in used))
        asked = set(re.findall(r"(\w+)(?:=|!~|!=|=~)\"", rule["expr"]))
        asked |= set(re.findall(r"by \((\w+)\)", rule["expr"]))
        asked |= set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert asked <= known, rule["alert"]


def test_the_runbook_has_every_alert_finding_reason_and_event() -> None:
    page = RUNBOOK.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    anchors = {
        re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-"): title for title in sections
    }
    for rule in rules():
        place, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert place == RUNBOOK.name
        assert f"`{rule['alert']}`" in sections[anchors[anchor]], rule["alert"]
    assert set(re.findall(r"`(Coppice\w+)`", page)) == {rule["alert"] for rule in rules()}
    for name in (*CHECKS, *webhooks.EVENTS):
        assert f"`{name}`" in page, name
