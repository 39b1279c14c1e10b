"""The API's document: it validates, says all there is, and the API does what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from jobs import permissions, registry
from jobs.models import Job
from tests.api.conftest import Api
from tests.factories import (
    ago,
    make_edge,
    make_history,
    make_job,
    make_queue,
    make_schedule,
    make_worker,
)

pytestmark = pytest.mark.django_db

DOCUMENT = "/api-docs.json"
EXAMPLES = 4
CHECKOUT = Path(__file__).resolve().parents[2]
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    @registry.handler("test.any", mask=("secret",))
    def any_payload(payload: Any) -> None: ...

    yield
    registry.remove("test.any")


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api("Viewer").get(DOCUMENT).json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


class TestDocument:
    def test_it_validates_without_a_warning(self, tmp_path: Any) -> None:
        file = str(tmp_path / "schema.yml")
        call_command("spectacular", "--validate", "--fail-on-warn", "--file", file)

    def test_every_route_and_method_of_the_api_is_in_it(self, document: dict[str, Any]) -> None:
        from django.urls import URLPattern, get_resolver

        def walk(patterns: Any, before: str) -> Iterator[tuple[str, type]]:
            for pattern in patterns:
                path = before + str(pattern.pattern)
                if isinstance(pattern, URLPattern):
                    yield path, getattr(pattern.callback, "cls", object)
                elif path.startswith("api/"):
                    yield from walk(pattern.url_patterns, path)

        written = {
            (path.lstrip("/").replace("{", "<").replace("}", ">"), method)
            for method, path, _ in operations(document)
        }
        for path, view in walk(get_resolver().url_patterns, ""):
            plain = path.replace("<str:", "<").replace("<uuid:", "<").replace("<int:", "<")
            for method in getattr(view, "needs", {}):
                assert (plain, method.lower()) in written, f"{method} {path}"

    def test_every_operation_names_its_permission_its_errors_and_itself(
        self, document: dict[str, Any]
    ) -> None:
        names = [operation["operationId"] for _, _, operation in operations(document)]
        assert len(names) == len(set(names))
        for method, path, operation in operations(document):
            codes = set(operation["responses"])
            assert {"400", "401", "403", "429"} <= codes, path
            assert ("404" in codes) == ("{" in path), path
            assert ("409" in codes) == (method != "get"), path
            assert operation["description"].strip(), path
            last = operation["description"].splitlines()[-1]
            assert any(f"`{name}`" in last for name in permissions.ALL), path
            assert operation["security"] == [{"token": []}, {"cookieAuth": []}], path
            has_key = (
                "Idempotency-Key" in {each["name"] for each in operation["parameters"]}
                if ("parameters" in operation)
                else False
            )
            assert has_key == (method == "post"), path

    def test_a_jobs_routes_have_examples(self, document: dict[str, Any]) -> None:
        jobs = document["paths"]["/api/v1/jobs"]
        assert jobs["post"]["requestBody"]["content"]["application/json"]["examples"]
        shown = jobs["get"]["responses"]["200"]["content"]["application/json"]["examples"]
        assert next(iter(shown.values()))["value"]["results"][0]["id"]

    def test_only_routes_of_this_product_are_in_it(self, document: dict[str, Any]) -> None:
        assert all(path.startswith("/api/") for path in document["paths"])


FOREIGN = """
import django
from django.conf import settings
from django.urls import include, path

settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=[
        "django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "drf_spectacular",
        "jobs", "ranges", "worker",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "nowhere"}},
    REST_FRAMEWORK={"DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.openapi.AutoSchema"},
    ROOT_URLCONF="urls",
)
django.setup()

import sys, types
from rest_framework.views import APIView

class Theirs(APIView):
    def get(self, request): ...

urls = types.ModuleType("urls")
urls.urlpatterns = [
    path("shop/theirs", Theirs.as_view()),
    path("coppice/api/v1/", include("jobs.api.urls")),
    path("coppice/api/v1/", include("ranges.api.urls")),
]
sys.modules["urls"] = urls

import json
from drf_spectacular.settings import patched_settings
from jobs.api.docs import Generator
from jobs.api.document import SETTINGS

with patched_settings(SETTINGS):
    print(json.dumps(Generator().get_schema(public=True)))
"""


def test_a_project_with_a_schema_class_of_its_own_has_the_same_document(
    document: dict[str, Any],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    theirs = json.loads(done.stdout)
    assert {path.removeprefix("/coppice") for path in theirs["paths"]} >= {
        path for path in document["paths"] if path.startswith("/api/v1/")
    }
    assert not any("shop" in path for path in theirs["paths"])
    ours = document["paths"]["/api/v1/jobs"]["post"]
    same = theirs["paths"]["/coppice/api/v1/jobs"]["post"]
    for part in ("operationId", "responses", "parameters", "description"):
        assert same[part] == ours[part]


class TestPages:
    @pytest.mark.parametrize("path", ["/api-docs", DOCUMENT])
    def test_only_who_may_see_jobs_sees_them(self, api: Api, path: str) -> None:
        assert api(None).get(path).status_code in (302, 401)
        assert api([]).get(path).status_code == 403
        assert api("Viewer").get(path).status_code == 200

    def test_a_browser_without_a_session_is_sent_to_sign_in(self, api: Api) -> None:
        response = api(None).get("/api-docs")
        assert response.headers["Location"] == "/admin/login/?next=/api-docs"

    def test_everything_that_the_page_loads_is_here(self, api: Api) -> None:
        import re

        from django.contrib.staticfiles import finders

        client = api("Viewer")
        page = client.get("/api-docs")
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
        assert len(loaded) >= 5
        for address in loaded:
            if address.startswith("/static/"):
                assert finders.find(address.removeprefix("/static/")), address
            else:
                assert address == "/api-docs?script="
                script = client.get(address)
                assert script.headers["Content-Type"].startswith("application/javascript")
                assert rb"api\u002Ddocs.json" in script.content
                assert b"https://" not in script.content
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe-eval" not in policy

    def test_the_page_takes_no_other_parameter(self, api: Api) -> None:
        client = api("Viewer")
        for path in ("/api-docs", DOCUMENT):
            for query in ("version=%0d%0aX: 1", "lang=%00", "lang=xx", "format=yaml&format=json"):
                assert 400 <= client.get(f"{path}?{query}").status_code < 500


# What the document says, done


def cases_of(
    operation: Any, mode: GenerationMode, count: int, call: Callable[[Any, int], None]
) -> None:
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), number=st.integers(0, 3))
    def run(case: Any, number: int) -> None:
        call(case, number)

    run()


def rows() -> dict[str, list[str]]:
    """What there is, by the name of the path's variable."""
    dead, child = make_job("dead"), make_job()
    make_edge(child, dead)
    make_history(dead, attempts=2, error="ValueError: bad")
    jobs = [dead, child, make_job("processing"), make_job("held"), make_job("scheduled")]
    queue, schedule = make_queue(name="mail"), make_schedule()
    workers = [make_worker(), make_worker(beat_at=ago(minutes=5)), make_worker(state="dead")]
    return {
        "job_id": [str(job.id) for job in jobs],
        "name": [queue.name],
        "worker_id": [str(worker.id) for worker in workers],
        "schedule_id": [str(schedule.id)],
    }


@pytest.fixture
def application(settings: Any) -> Iterator[Any]:
    """The project as a server calls it, inside the test's transaction."""
    settings.ALLOWED_HOSTS = ["localhost", "testserver"]
    signals = (request_started, request_finished)
    for signal in signals:  # they would close the connection, and with it the transaction
        signal.disconnect(close_old_connections)
    yield get_wsgi_application()
    for signal in signals:
        signal.connect(close_old_connections)


def takes_anything(operation: Any) -> bool:
    parts = (operation.path_parameters, operation.query, operation.headers, operation.body)
    return any(len(list(part)) for part in parts)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_keeps_to_the_document(
    api: Api, mode: GenerationMode, application: Any
) -> None:
    client = api("superuser")
    headers = {"Authorization": client._credentials["HTTP_AUTHORIZATION"]}
    schema = schemathesis.openapi.from_wsgi(DOCUMENT, application, headers=headers)
    results: list[Any] = list(schema.get_all_operations())
    called = [found.ok() for found in results]
    called = [each for each in called if not each.path.endswith("/stream")]  # needs daphne
    known = rows()
    seen: dict[str, set[int]] = {}
    wrong: list[str] = []
    for operation in called:
        if mode is GenerationMode.NEGATIVE and not takes_anything(operation):
            continue

        def call(case: Any, number: int, label: str = operation.label) -> None:
            for name in case.path_parameters or {}:
                if number and name in known:  # else what nobody knows
                    case.path_parameters[name] = known[name][number % len(known[name])]
            with transaction.atomic():
                response = case.call(headers=headers)
                transaction.set_rollback(True)
            seen.setdefault(label, set()).add(response.status_code)
            # An empty parameter is one that is not given, as forms send it.
            is_empty = "" in (case.query or {}).values()
            case.validate_response(
                response,
                checks=[*CHECKS, *([] if is_empty else [checks.negative_data_rejection])],
            )

        try:
            cases_of(operation, mode, EXAMPLES, call)
        except Unsatisfiable:  # nothing in it can be wrong
            assert mode is GenerationMode.NEGATIVE
        except FailureGroup as error:  # all operations are told of at once
            wrong.append(f"{operation.label}: {error}"[:1_500])
    assert not wrong, "\n\n".join(wrong)
    answered = {label for label, codes in seen.items() if any(code < 300 for code in codes)}
    if mode is GenerationMode.POSITIVE:
        assert set(seen) == {operation.label for operation in called}
        assert len(answered) > len(seen) / 2, seen
    else:
        assert len(seen) > len(called) / 2
    assert Job.objects.count() == len(known["job_id"])
