"""Markup in whatever people, programs and handlers write is text, on every page."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from jobs.models import Job, Queue
from ranges.models import RangeRun
from tests.console.everything import MARKUP, SCRIPT, everything, with_markup
from tests.security.people import person
from tests.security.routes import NOWHERE, routes
from tests.security.rows import rows


@pytest.mark.django_db
def test_no_page_of_the_console_or_the_browsable_api_has_it_as_markup() -> None:
    ids = {**rows(), **everything()}
    with_markup(ids)
    owner = User.objects.get(username=MARKUP)
    for logged, name in ((Job, "jobs/job"), (Queue, "jobs/queue"), (RangeRun, "ranges/rangerun")):
        LogEntry.objects.create(
            user=owner,
            content_type=ContentType.objects.get_for_model(logged),
            object_id=ids[name],
            object_repr=MARKUP,
            action_flag=ADDITION,
            change_message=MARKUP,
        )
    client = Client(headers={"Accept": "text/html"})
    client.force_login(person(superuser=True))
    api = {
        "jobs": ids["jobs/job"],
        "schedules": ids["jobs/schedule"],
        "queues": ids["jobs/queue"],
        "workers": ids["jobs/worker"],
        "ranges": ids["ranges/rangerun"],
    }
    seen = 0
    for route in routes():
        parts = route.pattern.split("/")
        model = "/".join(parts[1:3])
        id = ids.get(model) if parts[0] == "admin" else api.get(parts[2] if parts[2:] else "")
        path = route.path.replace(NOWHERE, id or NOWHERE).replace("nowhere", id or "nowhere")
        for query in ("", "?status=failed", f"?q={MARKUP}&type={MARKUP}&queue={MARKUP}"):
            if query and "<" in route.pattern:
                continue
            response = client.get(path + query)
            if response.status_code == 501:
                continue
            if not response["Content-Type"].startswith("text/html"):
                # What is downloaded is taken for nothing else.
                assert response["X-Content-Type-Options"] == "nosniff", path + query
                continue
            text = response.content.decode()
            assert SCRIPT not in text, path + query
            assert "<img src=x" not in text, path + query
            seen += "&lt;script&gt;alert(1)" in text or "\\u003Cscript" in text
    assert seen > 35
