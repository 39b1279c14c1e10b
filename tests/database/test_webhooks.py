"""Webhooks and e-mail alerts: what is sent, that it can be believed, and where it never goes."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from jobs import conf, events, pruning, webhooks
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, NotFound
from jobs.events import Event
from jobs.models import AlertRecipient, AuditEntry, Job, Webhook, WebhookDelivery
from jobs.testing import run_due_jobs
from jobs.webhooks import sending, targets
from tests.factories import ago, make_job, make_queue
from tests.receiving import Receiver, documented_check, receiving
from worker.alerts import DeadLetters, PausedQueues
from worker.notifying import people_told

pytestmark = pytest.mark.django_db

ALERT = Event("alert.dead_letters", facts={"at_least": 100})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def allowed(settings: Any) -> None:
    settings.COPPICE_WEBHOOK_ALLOW = "127.0.0.0/8"


def resolves_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr("jobs.webhooks.targets.socket.getaddrinfo", look_up)


@pytest.mark.usefixtures("allowed")
class TestDelivery:
    def test_an_event_arrives_signed_as_the_page_says(self, receiver: Receiver) -> None:
        webhook, secret = webhooks.create("ops", receiver.url, ["alert.*"])
        assert webhooks.tell(ALERT) == 1
        assert run_due_jobs() == {"succeeded": 1}
        [(path, headers, body)] = receiver.got
        assert path == "/hook?k=1"
        said = json.loads(body)
        assert (said["event"], said["facts"]) == ("alert.dead_letters", {"at_least": 100})
        assert headers["Coppice-Delivery"] == said["id"]
        check = documented_check()
        signed = headers["Coppice-Signature"]
        assert check(secret, signed, body)
        assert not check(secret, signed, body + b" ")
        assert not check("another", signed, body)
        moment = int(signed.split(",")[0].removeprefix("t="))
        assert not check(secret, signed, body, now=moment + 301)
        assert check(secret, signed, body, now=moment + 299)
        row = WebhookDelivery.objects.get(webhook=webhook)
        assert (row.status, row.attempts, row.response_code) == ("delivered", 1, 200)
        assert row.response == "thank you"

    def test_what_is_not_taken_is_tried_again_by_the_products_own_retries(
        self, receiver: Receiver
    ) -> None:
        webhooks.create("ops", receiver.url, ["*"])
        receiver.codes = [500, 302, 429]
        webhooks.tell(ALERT)
        run_due_jobs(retries=True)
        row = WebhookDelivery.objects.get()
        assert (row.status, row.attempts) == ("delivered", 4)
        assert [path for path, _, _ in receiver.got] == ["/hook?k=1"] * 4  # no redirect followed
        ids = {headers["Coppice-Delivery"] for _, headers, _ in receiver.got}
        assert ids == {str(row.id)}

    def test_after_the_last_attempt_it_has_failed_and_the_job_is_dead(
        self, receiver: Receiver
    ) -> None:
        webhooks.create("ops", receiver.url, ["*"])
        receiver.codes = [503] * 50
        webhooks.tell(ALERT)
        run_due_jobs(retries=True)
        row = WebhookDelivery.objects.get()
        assert (row.status, row.attempts, row.error) == ("failed", 8, "answered 503")
        job = Job.objects.get(id=str(row.job_id))
        assert (job.status, job.metadata, job.queue) == ("failed", {"internal": True}, "coppice")

    def test_nobody_there_is_an_error_in_words(self, receiver: Receiver) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/"
            webhooks.create("ops", url, ["*"])
            webhooks.tell(ALERT)
            run_due_jobs()
        assert "could not connect" in WebhookDelivery.objects.get().error

    def test_a_receiver_that_drips_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sending, "SECONDS", 0.3)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with pytest.raises(sending.NotSent, match="no answer"):
                sending.post(targets.resolve(f"http://127.0.0.1:{port}/"), b"{}", {})

    def test_a_test_goes_out_even_when_it_is_disabled_and_events_do_not(
        self, receiver: Receiver
    ) -> None:
        webhook, _ = webhooks.create("ops", receiver.url, ["*"])
        webhooks.tell(ALERT)
        webhooks.change(webhook, enabled=False)
        assert webhooks.tell(ALERT) == 0
        webhooks.send_test(webhook, by="rosa")
        run_due_jobs()
        assert [headers["Coppice-Event"] for _, headers, _ in receiver.got] == ["webhook.test"]

    def test_it_is_sent_again_as_a_delivery_of_its_own(self, receiver: Receiver) -> None:
        webhooks.create("ops", receiver.url, ["*"])
        webhooks.tell(ALERT)
        run_due_jobs()
        first = WebhookDelivery.objects.get()
        second = webhooks.redeliver(first.id, by="rosa")
        run_due_jobs()
        assert second.id != first.id
        bodies = [json.loads(body) for _, _, body in receiver.got]
        assert bodies[0]["facts"] == bodies[1]["facts"]
        assert AuditEntry.objects.filter(action="webhook.redeliver", actor="rosa").exists()

    def test_a_new_secret_signs_from_then_on(self, receiver: Receiver) -> None:
        webhook, old = webhooks.create("ops", receiver.url, ["*"])
        _, new = webhooks.new_secret(webhook)
        webhooks.tell(ALERT)
        run_due_jobs()
        _, headers, body = receiver.got[0]
        assert documented_check()(new, headers["Coppice-Signature"], body)
        assert not documented_check()(old, headers["Coppice-Signature"], body)

    def test_a_deleted_one_is_sent_nothing(self, receiver: Receiver) -> None:
        webhook, _ = webhooks.create("ops", receiver.url, ["*"])
        webhooks.tell(ALERT)
        webhooks.delete(webhook)
        assert run_due_jobs() == {"succeeded": 1}
        assert receiver.got == []

    def test_only_so_many_wait_for_one(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.webhooks.telling.MOST_PENDING", 2)
        webhooks.create("ops", receiver.url, ["*"])
        assert [webhooks.tell(ALERT) for _ in range(3)] == [1, 1, 0]

    def test_old_deliveries_are_deleted(self, receiver: Receiver) -> None:
        webhooks.create("ops", receiver.url, ["*"])
        webhooks.tell(ALERT)
        webhooks.tell(ALERT)
        old = WebhookDelivery.objects.order_by("id")[0]
        WebhookDelivery.objects.filter(id=old.id).update(
            created_at=timezone.now() - timedelta(days=31)
        )
        assert pruning.prune_deliveries(DjangoDatabase(), conf.get()) == 1
        assert not WebhookDelivery.objects.filter(id=old.id).exists()


PRIVATE = (
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.2.1", "198.18.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "2001:db8::1",
    "2001:0:7f00:1::",
)  # fmt: skip


class TestWhereItNeverGoes:
    @pytest.mark.parametrize("address", PRIVATE)
    def test_no_address_of_a_private_network_is_reached(
        self, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolves_to(monkeypatch, address)
        with pytest.raises(InvalidInput, match="private network") as refused:
            webhooks.create("ops", "https://hooks.example.com/", ["*"])
        assert refused.value.field == "url"
        assert not Webhook.objects.exists()

    @pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
    def test_public_addresses_are(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        resolves_to(monkeypatch, address)
        assert targets.resolve("https://hooks.example.com/").address == address

    def test_one_private_address_among_public_ones_is_enough(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolves_to(monkeypatch, "93.184.216.34", "10.0.0.1")
        with pytest.raises(InvalidInput, match="private network"):
            targets.resolve("https://hooks.example.com/")

    @pytest.mark.parametrize(
        "url",
        [
            "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:7f00:1]/", "https://0x7f.1/",
            "https://2130706433/", "https://0177.0.0.1/", "https://localhost/", "https://0/",
        ],
    )  # fmt: skip
    def test_other_ways_to_write_loopback_are_no_way_in(self, url: str) -> None:
        with pytest.raises(InvalidInput):
            targets.resolve(url)

    @pytest.mark.parametrize(
        "url",
        [
            "", "hooks", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
            "https://", "https://a:b@example.com/", "https://me@example.com/",
            "https://example.com/#x", "https://example.com:99999/", "https://exa mple.com/",
            "https://example.com\\@127.0.0.1/", "https://example.com/\r\nX: y", "https://exämple.com/",
            "https://[fe80::1%25eth0]/", "https://[::1/", "https://example.com/" + "a" * 2_000,
        ],
    )  # fmt: skip
    def test_what_is_no_plain_https_address_is_refused(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolves_to(monkeypatch, "93.184.216.34")
        with pytest.raises(InvalidInput):
            targets.resolve(url)

    def test_http_is_only_for_networks_that_are_allowed(
        self, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        resolves_to(monkeypatch, "93.184.216.34")
        with pytest.raises(InvalidInput, match="https"):
            targets.resolve("http://example.com/")
        resolves_to(monkeypatch, "10.0.0.7")
        settings.COPPICE_WEBHOOK_ALLOW = "10.0.0.0/24"
        assert targets.resolve("http://hooks.internal/").address == "10.0.0.7"
        resolves_to(monkeypatch, "10.0.1.7")
        with pytest.raises(InvalidInput):
            targets.resolve("http://hooks.internal/")

    def test_a_name_that_means_something_else_later_is_not_followed(
        self, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
    ) -> None:
        resolves_to(monkeypatch, "93.184.216.34")
        webhooks.create("ops", f"https://rebind.example.com:{receiver.port}/", ["*"])
        webhooks.tell(ALERT)
        resolves_to(monkeypatch, "127.0.0.1")
        run_due_jobs()
        row = WebhookDelivery.objects.get()
        assert row.status == "failed"
        assert "private network" in row.error
        assert receiver.got == []
        assert Job.objects.get(id=str(row.job_id)).status == "failed"

    def test_the_name_is_looked_up_once_and_the_checked_address_is_connected_to(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_up: list[str] = []
        went_to: list[Any] = []

        def look_up(host: str, port: int, **_: Any) -> list[Any]:
            looked_up.append(host)
            address = "93.184.216.34" if len(looked_up) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        def connect(place: Any, *_: Any) -> Any:
            went_to.append(place)
            raise OSError("not today")

        monkeypatch.setattr("jobs.webhooks.targets.socket.getaddrinfo", look_up)
        monkeypatch.setattr("jobs.webhooks.sending.socket.create_connection", connect)
        with pytest.raises(sending.NotSent):
            sending.post(targets.resolve("https://rebind.example.com/"), b"", {})
        assert looked_up == ["rebind.example.com"]
        assert went_to == [("93.184.216.34", 443)]

    @pytest.mark.parametrize("text", ["10.0.0.0/33", "hooks", "10.0.0.1/8"])
    def test_a_wrong_allow_list_is_named(self, text: str) -> None:
        from jobs.errors import SettingsError

        with pytest.raises(SettingsError, match="COPPICE_WEBHOOK_ALLOW"):
            conf.load({"COPPICE_WEBHOOK_ALLOW": text}.get)


class TestWhoIsTold:
    def test_people_are_told_by_e_mail(self, settings: Any) -> None:
        settings.COPPICE_ENVIRONMENT = "production"
        AlertRecipient.objects.create(address="ops@example.org", events=["alert.*"])
        AlertRecipient.objects.create(address="dev@example.org", events=["worker.lost"])
        assert webhooks.tell(ALERT) == 1
        assert run_due_jobs() == {"succeeded": 1}
        [message] = mail.outbox
        assert message.to == ["ops@example.org"]
        assert message.subject.startswith("[Coppice production] ")
        assert "at_least: 100" in message.body

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("allowed")
    def test_the_workers_alert_reaches_them_once_per_crossing(self, receiver: Receiver) -> None:
        from jobs.conf import Settings

        webhooks.create("ops", receiver.url, ["alert.dead_letters"])
        watch = DeadLetters(DjangoDatabase(), Settings(dead_letter_alert=1))
        with people_told():
            job = make_job("dead")
            watch.step()
            watch.step()
        assert WebhookDelivery.objects.count() == 1
        with people_told():
            job.delete()
            watch.step()
            make_job("dead")
            watch.step()
        assert WebhookDelivery.objects.count() == 2
        events.emit("alert.dead_letters", at_least=1)
        assert WebhookDelivery.objects.count() == 2  # nobody listens any more

    @pytest.mark.django_db(transaction=True)
    def test_a_queue_that_stays_paused_is_told_of(self) -> None:
        AlertRecipient.objects.create(address="ops@example.org", events=["alert.queue_paused"])
        make_queue(name="old", paused=True, changed_at=ago(hours=2))
        make_queue(name="new", paused=True, changed_at=ago(minutes=2))
        make_queue(name="open", paused=False, changed_at=ago(hours=2))
        watch = PausedQueues(DjangoDatabase())
        with people_told():
            watch.step()
            watch.step()
        run_due_jobs()
        assert [("queue: old" in each.body) for each in mail.outbox] == [True]

    @pytest.mark.usefixtures("allowed")
    def test_events_of_single_jobs_are_never_told(self, receiver: Receiver) -> None:
        webhooks.create("ops", receiver.url, ["*"])
        assert webhooks.tell(Event("job.failed", job_id="x", facts={"error": "plum"})) == 0

    @pytest.mark.usefixtures("allowed")
    @pytest.mark.parametrize("patterns", [[], ["<script>"], ["x" * 61]])
    def test_patterns_are_checked(self, patterns: list[str], receiver: Receiver) -> None:
        with pytest.raises(InvalidInput) as refused:
            webhooks.create("ops", receiver.url, patterns)
        assert refused.value.field == "events"

    @pytest.mark.usefixtures("allowed")
    def test_the_audit_holds_neither_secret_nor_address(self, receiver: Receiver) -> None:
        webhook, secret = webhooks.create("ops", receiver.url, ["*"], by="rosa")
        webhooks.change(webhook, url=f"{receiver.url}&more=1", by="rosa")
        entries = list(AuditEntry.objects.values_list("action", "scope", "data"))
        assert [entry[0] for entry in entries] == ["webhook.change", "webhook.create"]
        assert secret not in repr(entries)
        assert "hook?k" not in repr(entries)

    def test_none_is_not_found(self) -> None:
        for id in ("x", "00000000-0000-7000-8000-000000000000"):
            with pytest.raises(NotFound):
                webhooks.get(id)
            with pytest.raises(NotFound):
                webhooks.redeliver(id)


def test_the_signature_is_the_one_that_the_page_describes() -> None:
    from jobs.webhooks.signing import signature

    expected = hmac.new(b"s", b"17.{}", hashlib.sha256).hexdigest()
    assert signature("s", 17, b"{}") == f"t=17,v1={expected}"
