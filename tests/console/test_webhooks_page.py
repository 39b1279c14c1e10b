"""Alerts and webhooks in the console: made, tested, sent again, deleted, and for whom."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from jobs import webhooks
from jobs.console.words import NONE
from jobs.models import AlertRecipient, AuditEntry, Webhook, WebhookDelivery
from tests.console.people import client_of, read

pytestmark = pytest.mark.django_db

PAGE = "/admin/jobs/webhook/"
URL = "http://127.0.0.1:9/hook"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> None:
    settings.COPPICE_WEBHOOK_ALLOW = "127.0.0.0/8"


def made(**columns: Any) -> Webhook:
    return webhooks.create(**{"name": "ops", "url": URL, "events": ["worker.lost"], **columns})[0]


def act(client: Client, action: str, place: str = PAGE, /, **more: Any) -> Any:
    return client.post(place, {"action": action, **more}, follow=True)


class TestWebhooks:
    def test_the_secret_is_shown_once(self) -> None:
        client = client_of("Supervisor")
        answer = act(client, "create", name="ops", url=URL, events=["worker.lost"])
        webhook = Webhook.objects.get()
        assert webhook.secret in answer.content.decode()
        assert (webhook.events, webhook.enabled) == (["worker.lost"], True)
        for url in (PAGE, f"{PAGE}{webhook.id}/"):
            assert webhook.secret not in read(client, url)
        entry = AuditEntry.objects.get(action="webhook.create")
        assert entry.actor == client.username  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"url": "https://169.254.169.254/latest"}, "private network"),
            ({"url": "ftp://x"}, "https"),
            ({"name": ""}, "name"),
            ({"events": []}, "at least one event"),
        ],
    )
    def test_what_is_wrong_is_said_and_what_was_typed_stays(
        self, changes: dict[str, Any], told: str
    ) -> None:
        data = {"name": "ops", "url": URL, "events": ["worker.lost"], **changes}
        answer = act(client_of("Supervisor"), "create", **data)
        assert answer.status_code == 422
        assert told in answer.content.decode()
        assert f'value="{data["url"]}"' in answer.content.decode()
        assert not Webhook.objects.exists()

    def test_it_is_changed_disabled_and_deleted(self) -> None:
        one, client = made(), client_of("Supervisor")
        url = f"{PAGE}{one.id}/"
        act(client, "save", url, name="new", url=f"{URL}2", events=["type.unknown"])
        act(client, "disable", url)
        one.refresh_from_db()
        assert (one.name, one.url, one.events) == ("new", f"{URL}2", ["type.unknown"])
        assert not one.enabled
        assert "Deletes the webhook" in act(client, "delete", url).content.decode()
        assert Webhook.objects.exists()
        act(client, "delete", url, confirmed="yes")
        assert not Webhook.objects.exists()

    def test_it_cannot_be_pointed_into_the_network_later(self) -> None:
        one = made()
        url = f"{PAGE}{one.id}/"
        data = {"name": "ops", "url": "https://10.0.0.1/", "events": ["worker.lost"]}
        answer = act(client_of("Supervisor"), "save", url, **data)
        assert answer.status_code == 422
        assert "Nothing was changed. Address: " in answer.content.decode()
        assert 'value="https://10.0.0.1/"' in answer.content.decode(), "what was typed stays"
        one.refresh_from_db()
        assert one.url == URL

    @pytest.mark.parametrize(
        ("without", "kept"),
        [
            ("", ["alert.*", "jobs.reset", "worker.lost"]),
            ("worker.lost", ["alert.*", "jobs.reset"]),
            (
                "alert.queue_paused",
                ["jobs.reset", "worker.lost", "alert.dead_letters", "alert.schedule_overdue"],
            ),
        ],
    )
    def test_patterns_are_shown_by_what_they_mean_and_outlast_a_save(
        self, without: str, kept: list[str]
    ) -> None:
        one, client = made(events=["alert.*", "jobs.reset", "worker.lost"]), client_of("Supervisor")
        url = f"{PAGE}{one.id}/"
        ticked = re.findall(r'name="events" value="([^"]+)" checked', read(client, url))
        assert set(ticked) == {
            "alert.dead_letters", "alert.queue_paused", "alert.schedule_overdue", "worker.lost",
        }  # fmt: skip
        ticked = [name for name in ticked if name != without]
        act(client, "save", url, name="ops", url=URL, events=ticked)
        one.refresh_from_db()
        assert one.events == kept

    def test_a_new_secret_is_asked_about_and_shown(self) -> None:
        one, client = made(), client_of("Supervisor")
        url = f"{PAGE}{one.id}/"
        before = one.secret
        act(client, "secret", url)
        one.refresh_from_db()
        assert one.secret == before
        text = act(client, "secret", url, confirmed="yes").content.decode()
        one.refresh_from_db()
        assert one.secret != before
        assert one.secret in text

    def test_a_test_and_a_second_delivery_wait_for_a_worker(self) -> None:
        one, client = made(), client_of("Supervisor")
        url = f"{PAGE}{one.id}/"
        assert "webhook.test" in act(client, "test", url).content.decode()
        first = WebhookDelivery.objects.get()
        act(client, "redeliver", url, delivery=str(first.id))
        assert [each.status for each in WebhookDelivery.objects.all()] == ["pending"] * 2
        assert act(client, "redeliver", url, delivery="x").status_code == 422

    def test_the_list_says_how_the_last_delivery_of_each_ended(self) -> None:
        for name, outcomes in (("ops", ("failed", "delivered")), ("chat", ("delivered", "failed"))):
            one = made(name=name)
            for status in outcomes:
                WebhookDelivery.objects.create(webhook=one, event="x", body="", status=status)
        made(name="never")
        cells = re.findall(
            r'data-cell="last"[^>]*>(.*?)</td>', read(client_of("Supervisor"), PAGE), re.DOTALL
        )
        words = [re.sub("<[^>]*>", " ", cell).split()[0] for cell in cells]
        assert words == [NONE, "failed", "delivered"]

    def test_deliveries_have_pages_and_hostile_answers_are_text(self) -> None:
        one = made(name=SCRIPT)
        for _ in range(30):
            WebhookDelivery.objects.create(
                webhook=one, event=SCRIPT, body=SCRIPT, response=SCRIPT, error=SCRIPT
            )
        client, url = client_of("Supervisor"), f"{PAGE}{one.id}/"
        first = read(client, url)
        assert SCRIPT not in first
        assert SCRIPT not in read(client, PAGE)
        older = re.search(r'href="(\?after=[^"]+)"', first)
        assert older
        assert read(client, url + older[1]).count("<tr data-row=") == 5
        read(client, f"{url}?after=nowhere")


class TestEmail:
    def test_somebody_is_added_once_and_removed(self) -> None:
        client = client_of("Supervisor")
        data = {"address": "ops@example.org", "events": ["alert.dead_letters"]}
        act(client, "add", **data)
        assert "is told already" in act(client, "add", **data).content.decode()
        one = AlertRecipient.objects.get()
        act(client, "remove", recipient=str(one.id))
        assert not AlertRecipient.objects.exists()
        assert act(client, "remove", recipient="x").status_code == 422

    @pytest.mark.parametrize("address", ["", "ops", "a@b\r\nBcc: c@example.org", SCRIPT])
    def test_what_is_no_address_is_refused(self, address: str) -> None:
        answer = act(client_of("Supervisor"), "add", address=address, events=["worker.lost"])
        assert answer.status_code == 422
        assert SCRIPT not in answer.content.decode()
        assert not AlertRecipient.objects.exists()


@pytest.mark.parametrize("group", ["", "Viewer", "Operator"])
def test_without_the_permission_there_is_nothing(group: str) -> None:
    one, client = made(), client_of(group)
    for url in (PAGE, f"{PAGE}{one.id}/"):
        read(client, url, status=403)
        assert act(client, "delete", url, confirmed="yes").status_code == 403
    assert Webhook.objects.exists()
    assert PAGE not in client.get("/admin/").content.decode()
