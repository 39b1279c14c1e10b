"""docs/security.md says of every route what it needs, and of every group what it may."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs import permissions
from jobs.api.base import CoppiceView
from jobs.security import tries
from tests.security.routes import Route, routes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def written(route: Route) -> str:
    """The path as documents have it: `{id}` for the id of whatever it is."""
    return "/" + re.sub(
        r"<(?:\w+:)?(\w+)>",
        lambda found: "{id}" if found[1].endswith("_id") else f"{{{found[1]}}}",
        route.pattern,
    )


def test_the_page_has_every_route_with_what_it_needs() -> None:
    expected = {}
    for route in routes():
        if route.pattern.startswith("admin/"):
            continue
        needs = getattr(route.view_class, "needs", {"GET": ""})
        for method, name in needs.items():
            expected[f"{method} {written(route)}"] = name.removeprefix("jobs.") or "none"
    rows = re.findall(r"^\| `([A-Z]+ /[^`]+)` \| `?(\w+)`?", PAGE, re.MULTILINE)
    assert dict(rows) == expected
    assert len(rows) == len(expected)


def test_the_page_has_every_permission_with_the_groups_that_have_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    found = {
        name: [
            group
            for group, mark in zip(permissions.GROUPS, marks, strict=True)
            if mark.strip() == "yes"
        ]
        for name, *marks in rows
    }
    assert found == {
        name.removeprefix("jobs."): [
            group for group, names in permissions.GROUPS.items() if name in names
        ]
        for name in permissions.ALL
    }


def test_the_page_has_the_numbers_of_the_throttle() -> None:
    assert f"| Free tries | {tries.FREE_OF_NAME} | {tries.FREE_OF_ADDRESS} |" in PAGE
    assert tries.LONGEST_SECONDS == 15 * 60
    assert tries.FORGOTTEN_AFTER_SECONDS == 24 * 60 * 60


def test_views_of_ours_are_all_drawn_from_one_base() -> None:
    """So that no view can forget to ask."""
    for route in routes():
        if route.pattern.startswith("api/v1/"):
            assert issubclass(route.view_class, CoppiceView), route.pattern


def test_what_the_page_gives_to_other_projects_is_what_this_one_has() -> None:
    (block,) = re.findall(
        r"^```python\n(from jobs\.security.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
    given: dict[str, Any] = {}
    exec(block, given)
    ours = [each for each in settings.MIDDLEWARE if each in given["MIDDLEWARE"]]
    assert given["MIDDLEWARE"] == ours
    assert given["AUTHENTICATION_BACKENDS"] == settings.AUTHENTICATION_BACKENDS
    assert given["SECURE_CSP"] == settings.SECURE_CSP
