"""Who gets what answer on every page of the console: see `tables.py`.

A route that is missing there fails, and so does any answer but the one written. Rows are real, forms
are empty.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.security import tables
from tests.security.crowd import EVERYBODY, Crowd, differences, table
from tests.security.people import person
from tests.security.routes import NOWHERE, routes
from tests.security.rows import rows

CONSOLE = [route for route in routes() if route.pattern.startswith("admin/")]

pytestmark = pytest.mark.django_db


def test_every_page_answers_each_as_the_table_says() -> None:
    crowd, ids = Crowd(Client), rows()
    found = {}
    for route in CONSOLE:
        model = "/".join(route.pattern.split("/")[1:3])
        path = route.path.replace(NOWHERE, ids.get(model, NOWHERE))
        for method in ("GET", "POST"):
            form = {"content_type": "application/x-www-form-urlencoded"}
            more = form if method == "POST" else {}
            found[route.pattern, method] = {
                who: crowd.ask(who, method, path, **more) for who in EVERYBODY
            }
    assert differences(table(tables.CONSOLE, strangers="login"), found) == []


def test_who_is_not_of_the_staff_sees_the_sign_in_page_only() -> None:
    client = Client()
    user = person("Supervisor")
    User.objects.filter(pk=user.pk).update(is_staff=False)
    client.force_login(user)
    for route in CONSOLE:
        if route.pattern not in ("admin/login/", "admin/logout/"):
            response = client.get(route.path)
            assert response.status_code == 302, route.pattern
            assert response["Location"].startswith("/admin/login/?next="), route.pattern
