"""What is said at start about a proxy, and what is not said in logs about a request."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import RequestFactory

from config.logging import configure


@pytest.mark.parametrize(
    ("header", "proxies", "said"),
    [
        (("HTTP_X_FORWARDED_PROTO", "https"), "", ["coppice.W002"]),
        (("HTTP_X_FORWARDED_PROTO", "https"), "unix", []),
        (None, "", []),
    ],
)
def test_a_proxy_that_is_not_named_is_warned_of(
    settings: Any, header: Any, proxies: str, said: list[str]
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = header
    settings.COPPICE_TRUSTED_PROXIES = proxies
    found = [str(message.id) for message in run_checks(include_deployment_checks=True)]
    assert [id for id in found if id.startswith("coppice")] == said


def test_lines_about_requests_do_not_quote_what_was_asked_for() -> None:
    """A search for what is in a payload stands in the address."""
    made = configure("INFO", ["manage.py"])["formatters"]["json"]
    formatter = made.pop("()")(**made)
    request = RequestFactory().get("/admin/jobs/job/?q=payload.card:4111")
    record = logging.LogRecord("django.request", 30, "", 1, "Forbidden: %s", (request.path,), None)
    record.request, record.status_code = request, 403
    line = formatter.format(record)
    assert json.loads(line)["path"] == "/admin/jobs/job/"
    assert json.loads(line)["method"] == "GET"
    assert "4111" not in line
