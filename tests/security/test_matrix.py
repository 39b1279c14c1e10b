"""Who gets what answer, on every route and method of the API, and on every topic of the live feed.

The tables in `tables.py` are the whole of it: a route that is missing there fails, and so does any
answer but the one written. Ids are of rows that do not exist and bodies are empty: who may do a thing
is answered with 404 or 400, who may not with 403.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory
from rest_framework.test import APIClient

from jobs import tokens
from jobs.api.base import CoppiceView
from jobs.live import gate, topics
from tests.security import tables
from tests.security.crowd import EVERYBODY, Crowd, differences, table
from tests.security.people import person
from tests.security.routes import NOWHERE, Route, routes

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REST = [route for route in routes() if not route.pattern.startswith("admin/")]
OPEN = [route for route in REST if route.pattern in ("healthz", "readyz")]


def has(route: Route) -> list[str]:
    """The methods of a route, but for HEAD and OPTIONS."""
    if route in OPEN:
        return ["GET"]
    return [method for method in METHODS if hasattr(route.view_class, method.lower())]


@pytest.mark.django_db
class TestRest:
    def test_every_route_and_method_answers_each_as_the_table_says(self) -> None:
        crowd = Crowd(APIClient)
        sent = {"data": "{}", "content_type": "application/json"}
        found = {
            (route.pattern, method): {
                who: crowd.ask(who, method, route.path, **sent) for who in EVERYBODY
            }
            for route in REST
            for method in has(route)
        }
        assert differences(table(tables.REST, strangers="401"), found) == []

    def test_what_a_route_does_not_have_is_said_to_those_who_are_signed_in(self) -> None:
        crowd = Crowd(APIClient)
        wrong = []
        for route in REST:
            strangers = "405" if route in OPEN else "401"
            strangers = "login" if route.pattern == "api-docs" else strangers
            for method in set(METHODS) - set(has(route)):
                answers = [crowd.ask(who, method, route.path) for who in ("anonymous", "superuser")]
                if answers != [strangers, "405"]:
                    wrong.append(f"{route.pattern} {method}: {answers}")
        assert wrong == []

    def test_head_is_answered_as_get_is(self) -> None:
        crowd, expected = Crowd(APIClient), table(tables.REST, strangers="401")
        for route in REST:
            if "GET" in has(route):
                for who in ("anonymous", "no-group", "Viewer"):
                    answer = crowd.ask(who, "HEAD", route.path)
                    assert answer == expected[route.pattern, "GET"][who], (route.pattern, who)

    def test_every_view_names_a_permission_for_each_of_its_methods_and_no_other(self) -> None:
        for route in REST:
            if route not in OPEN:
                needs = route.view_class.needs
                assert set(needs) == set(has(route)), route.pattern
                assert all(name.startswith("jobs.") for name in needs.values()), route.pattern

    def test_a_method_without_a_permission_is_refused_to_all(self) -> None:
        class Forgotten(CoppiceView):
            def get(self, request: Any) -> None:
                raise AssertionError

        _, key = tokens.create(person(superuser=True), "test")
        request = RequestFactory().get("/", headers={"Authorization": f"Token {key}"})
        assert Forgotten.as_view()(request).status_code == 403


@pytest.mark.django_db
class TestLive:
    TOPICS = [*topics.WIDE, *(f"{name}:{NOWHERE}" for name in topics.NARROW)]

    def test_every_topic_answers_each_as_the_table_says(self) -> None:
        crowd = Crowd(APIClient)
        found = {
            (topic.replace(NOWHERE, "<id>"), "GET"): {
                who: crowd.ask(who, "GET", f"/api/v1/live?topics={topic}") for who in EVERYBODY
            }
            for topic in self.TOPICS
        }
        assert differences(table(tables.LIVE, strangers="401"), found) == []

    @pytest.mark.parametrize("who", EVERYBODY)
    def test_a_socket_is_opened_to_those_who_may_poll(self, who: str) -> None:
        client = Crowd(APIClient).clients[who]
        own = {"Origin": "http://testserver"}
        request = client.get("/api/v1/live?topics=overview", headers=own).wsgi_request
        try:
            gate.admit(request, is_socket=True)
            answer = "200"
        except gate.Refused as refused:
            answer = str(refused.status)
        assert answer == table(tables.LIVE, strangers="401")["overview", "GET"][who]
