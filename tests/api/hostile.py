"""Input that nobody sends by accident. Whatever it meets, the answer is a 4xx that says why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

IDS = (
    "x",
    "0",
    "-1",
    "null",
    "%00",
    "%ED%A0%80",
    "..%2f..%2fetc",
    "'; DROP TABLE jobs_job; --",
    "9" * 400,
    "0190d4a8-0000-7000-8000-00000000000",
    "{0190d4a8-0000-7000-8000-000000000000}x",
    "\uff10\uff11",
)
"""As they stand in an address."""

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, -(10**30), "", " ", "\x00", "a\x00b", "\ud800", "x" * 100_000,
    [], [[]], {}, {"": {}}, {"$ne": 1}, ["a", None], "2026-01-01", "NaN", "9" * 400,
)  # fmt: skip

BODIES = (
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"17",
    b"{",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e400}',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"a": ' + b"9" * 10_000 + b"}",
    b'{"a": "\\ud800"}',
    b'{"\\u0000": 1}',
)

QUERIES = (
    "limit=0", "limit=-1", "limit=abc", "limit=1e3", "limit=51", "limit=" + "9" * 400, "limit=%00",
    "cursor=x", "cursor=%00", "cursor=" + "A" * 3_000, "cursor=bm5vcGU", "cursor=cA",
    "unknown=1", "ordering=payload", "order_by=-id", "limit=1&limit=2", "%00=1", "=1",
)  # fmt: skip
"""Refused by every list."""


def answers(client: Any, method: str, paths: Iterable[str]) -> list[tuple[str, int]]:
    """What was not refused as it should have been."""
    found = []
    for path in paths:
        status = getattr(client, method)(path, **_body(method, {})).status_code
        if not 400 <= status < 500:
            found.append((path, status))
    return found


def refusals_of_bodies(client: Any, method: str, path: str) -> list[tuple[bytes, int]]:
    """Bodies that are no request at all; those that were not refused."""
    found = []
    for body in BODIES:
        answer = getattr(client, method)(path, data=body, content_type="application/json")
        if not 400 <= answer.status_code < 500:
            found.append((body[:40], answer.status_code))
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x", "x"):
        answer = getattr(client, method)(path, data=b"{}", content_type=kind)
        if answer.status_code != 415:
            found.append((kind.encode(), answer.status_code))
    return found


def refusals_of_fields(
    client: Any, method: str, path: str, good: dict[str, Any], fields: Iterable[str]
) -> list[tuple[str, str, int]]:
    """Each field with each bad value; every answer is a 4xx, or that of a value that is none."""
    found = []
    for field in fields:
        for value in VALUES:
            text = json.dumps({**good, field: value})
            answer = getattr(client, method)(path, data=text, content_type="application/json")
            if answer.status_code >= 500:
                found.append((field, repr(value)[:40], answer.status_code))
    return found


def _body(method: str, data: dict[str, Any]) -> dict[str, Any]:
    return {} if method in ("get", "delete") else {"data": data, "format": "json"}
