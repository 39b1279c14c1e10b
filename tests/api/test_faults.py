"""Under `/api/` what went wrong is told as JSON, without a word about the inside."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from jobs.api.job import views
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("method", ["get", "post", "put", "delete"])
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/jobs/", "/api/", "/api/v2/jobs"])
def test_an_address_that_does_not_exist(method: str, path: str) -> None:
    answer = getattr(Client(), method)(path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not found."})


def test_a_host_that_is_not_ours() -> None:
    answer = Client().get("/api/v1/jobs", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()) == (400, {"detail": "Bad request."})


def test_a_fault(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise RuntimeError("secret-7")

    monkeypatch.setattr(views, "figures", broken)
    client = api("Viewer")
    client.raise_request_exception = False
    answer = client.get("/api/v1/jobs/stats")
    assert (answer.status_code, answer.json()) == (500, {"detail": "A fault of the server."})


def test_pages_stay_pages() -> None:
    for path in ("/nothing", "/apiary/"):
        answer = Client().get(path)
        assert answer.status_code == 404
        assert answer.headers["Content-Type"].startswith("text/html")
