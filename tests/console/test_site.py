"""The console as an admin site: the only one, beside another, or its pages on a stock one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db import OperationalError
from django.http import HttpRequest
from django.test import Client, RequestFactory, override_settings
from django.urls import include, path

from jobs import permissions
from jobs.admin.job import JobAdmin
from jobs.console import links, navigation, pages, panels, sample
from jobs.console.engine import engine
from jobs.console.navigation import Badge, Entry
from jobs.console.site import ConsoleSite
from jobs.models import Job, Queue
from tests.console.anew import look_anew
from tests.console.people import client_of, read
from tests.factories import make_job, make_queue

pytestmark = pytest.mark.django_db

beside = ConsoleSite(name="beside")
stock = AdminSite(name="stock")
stock.register(Job, JobAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("console/", beside.urls),
    path("stock/", stock.urls),
    path("", include("jobs.urls")),
]


class TestBeside:
    @override_settings(ROOT_URLCONF=__name__)
    def test_a_second_site_has_the_consoles_pages_and_leads_to_its_own(self) -> None:
        job = make_job("dead")
        text = read(client_of("Operator"), "/console/jobs/job/?state=dead")
        assert f'href="/console/jobs/job/{job.id}/' in text
        assert 'href="/admin/' not in text
        text = read(client_of("Operator"), f"/console/jobs/job/{job.id}/")
        assert f'action="/console/jobs/job/{job.id}/act/"' in text
        assert 'href="/admin/' not in text

    @override_settings(ROOT_URLCONF=__name__)
    def test_on_a_stock_site_the_pages_are_whole_too(self) -> None:
        job = make_job("dead")
        for url in ("/stock/jobs/job/?state=dead", f"/stock/jobs/job/{job.id}/"):
            text = read(client_of("Operator"), url)
            assert 'class="side"' in text
            assert 'href="/stock/jobs/job/' in text
            assert 'href="/admin/' not in text

    def test_a_theme_changes_nothing(self, tmp_path: Path) -> None:
        for name in ("base.html", "base_site.html", "change_list.html", "login.html"):
            (tmp_path / "admin").mkdir(exist_ok=True)
            (tmp_path / "admin" / name).write_text("THEMED")
        templates = [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "DIRS": [tmp_path, Path(__file__).resolve().parents[2] / "templates"],
                "APP_DIRS": True,
            }
        ]
        make_job("dead")
        with override_settings(TEMPLATES=templates):
            engine.cache_clear()
            for url in ("/admin/", "/admin/jobs/job/", "/admin/auth/group/", "/admin/jobs/queue/"):
                text = read(client_of(), url)
                assert 'class="side"' in text, url
            text = read(Client(), "/admin/login/")
            assert "login-card" in text
        engine.cache_clear()


class TestErrors:
    def test_what_is_not_there_or_not_allowed_is_said_in_the_shell(self) -> None:
        for url, status, words in (
            ("/admin/nowhere/", 404, "There is no such page"),
            ("/admin/jobs/job/", 403, "You may not see this"),
        ):
            text = read(client_of(""), url, status)
            assert words in text
            assert "Log out" in text

    def test_without_a_database_a_page_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: Any, **__: Any) -> None:
            raise OperationalError("gone")

        client = client_of("Viewer")
        monkeypatch.setattr("jobs.admin.ledger.showing.show", away)
        response = client.get("/admin/jobs/job/")
        assert response.status_code == 503
        assert "database cannot be reached" in response.content.decode()
        assert response["Retry-After"]

    def test_strangers_are_led_to_the_login(self) -> None:
        response = Client().get("/admin/jobs/job/?state=dead")
        assert response.status_code == 302
        assert "next=/admin/jobs/job/%3Fstate%3Ddead" in response["Location"]

    def test_no_page_is_kept_by_the_browser(self) -> None:
        response = client_of("Viewer").get("/admin/jobs/job/")
        assert "no-store" in response["Cache-Control"]


class TestNavigation:
    def menu(self, client: Client, path: str = "/admin/") -> dict[str, Any]:
        from django.contrib.auth.models import User

        request = RequestFactory().get(path)
        request.user = User.objects.get(username=client.username)  # type: ignore[attr-defined]
        sections = navigation.menu(request, admin.site, sample.current())
        return {link.entry.label: link for section in sections for link in section.links}

    def test_it_holds_what_one_may_see(self) -> None:
        assert self.menu(client_of("")) == {}
        viewer = self.menu(client_of("Viewer"))
        assert {"Overview", "Jobs", "Dead letters", "Queues", "Workers", "Schedules"} <= set(viewer)
        assert not {"Users", "Groups"} & set(viewer)
        assert {"Users", "Groups"} <= set(self.menu(client_of()))

    def test_one_entry_is_where_one_is(self) -> None:
        client = client_of()
        for place, label in (
            ("/admin/", "Overview"),
            ("/admin/jobs/job/?queue=x", "Jobs"),
            ("/admin/jobs/job/?queue=x&state=dead", "Jobs"),
            ("/admin/jobs/job/dead-letters/?queue=x", "Dead letters"),
            ("/admin/jobs/job/0198c0de-0000-7000-8000-000000000001/", "Jobs"),
            ("/admin/auth/user/1/change/", "Users"),
        ):
            current = [name for name, link in self.menu(client, place).items() if link.is_current]
            assert current == [label], place

    def test_badges_count_what_needs_a_look(self) -> None:
        client = client_of("Viewer")
        assert self.menu(client)["Dead letters"].badge is None
        make_job("dead")
        make_queue(paused=True)
        look_anew()
        found = self.menu(client)
        assert found["Dead letters"].badge.text == "1"
        assert found["Queues"].badge.text == "1 paused"
        assert '"dead": {"text": "1"' in read(client, "/admin/badges/")

    def test_a_badge_has_room_for_any_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for dlq, text in ((99_999, "≈99,999"), (101_419, "≈101k"), (2_399_999, "≈2.3M")):
            found = {**sample.current()["jobs"], "dlq": dlq, "estimated": ["dlq"]}
            monkeypatch.setattr(sample, "current", lambda found=found: {"at": 0, "jobs": found})
            badge = self.menu(client_of("Viewer"))["Dead letters"].badge
            assert badge.text == text
            assert badge.title == f"about {dlq:,} dead letters"
            monkeypatch.undo()

    def test_models_of_others_stand_below_and_ours_do_not(self) -> None:
        found = self.menu(client_of())
        assert "Range failures" not in found
        assert {link.entry.section for link in found.values()} >= {"Operate", "Manage"}


class TestPlugs:
    def test_a_page_a_panel_a_number_and_a_link_can_be_added(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module, name in (
            (navigation, "_entries"),
            (pages, "_pages"),
            (panels, "_panels"),
            (sample, "_parts"),
        ):
            monkeypatch.setattr(module, name, dict(getattr(module, name)))
        monkeypatch.setattr(links, "_known", list(links._known))

        @sample.part("tests")
        def tests() -> dict[str, Any]:
            return {"count": 7}

        def badge(found: dict[str, Any]) -> Badge:
            return Badge(text=str(found["tests"]["count"]))

        @pages.add(Entry(label="Tests", icon="events", badge=badge))
        class Tests(pages.Page):
            path, name = "tests/", "tests"
            title, template = "Tests", "admin/console/problem.html"
            needs = permissions.VIEW_AUDIT

            def context(self) -> dict[str, Any]:
                return {"explanation": "this is it", "status": 404}

            def post(self, request: HttpRequest) -> Any:
                with self.told("paused"):
                    Queue.objects.create(name="mail")
                return self.back()

        @panels.add(name="broken", title="Broken", template="admin/console/problem.html")
        def broken(request: HttpRequest) -> dict[str, Any]:
            raise ValueError("no")

        @links.add
        def elsewhere(job: Any, request: HttpRequest) -> list[links.Link]:
            return [links.Link(label="Elsewhere", text="over there", url="/there/")]

        sample.forget()
        site = ConsoleSite(name="admin")
        namespace: dict[str, Any] = {"urlpatterns": [path("admin/", site.urls)]}
        urlconf = type("Urls", (), namespace)
        with override_settings(ROOT_URLCONF=urlconf):
            read(client_of("Operator"), "/admin/tests/", 403)
            supervisor = client_of("Supervisor")
            text = read(supervisor, "/admin/tests/")
            assert "this is it" in text
            assert '<b class="badge">7</b>' in text
            response = supervisor.post("/admin/tests/", follow=True)
            assert "Paused" in response.content.decode()
            assert Queue.objects.get().name == "mail"
            overview = read(supervisor, "/admin/")
            assert "This part could not be read." in overview
            assert "Elsewhere" not in overview
        assert links.of(make_job(), HttpRequest())[-1].text == "over there"


def test_fifty_pages_read_the_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_parts", dict(sample._parts))
    reads = []

    @sample.part("counted")
    def counted() -> dict[str, Any]:
        reads.append(1)
        return {}

    sample.forget()
    for _ in range(50):
        sample.current()
    assert len(reads) == 1


def test_a_part_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_parts", dict(sample._parts))

    @sample.part("broken")
    def broken() -> dict[str, Any]:
        raise OperationalError("gone")

    sample.forget()
    found = sample.current()
    assert found["missing"] == ["broken"]
    assert "jobs" in found


def test_a_cache_that_is_away_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Away:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise ConnectionError("nobody there")

    monkeypatch.setattr(sample, "cache", Away())
    monkeypatch.setattr(sample._Here, "alone_until", 0.0)
    sample._Here.value = None
    make_job("dead")
    for _ in range(5):
        sample._Here.value = None
        assert sample.current()["jobs"]["dlq"] == 1
    assert len(asked) == 1
    monkeypatch.undo()
    sample._Here.alone_until = 0.0
