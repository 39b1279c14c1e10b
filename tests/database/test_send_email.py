"""`send_email` against a real SMTP server on the loopback."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from jobs import registry
from jobs.claimed import Claimed
from jobs.context import Context
from jobs.drafts import check_payload
from jobs.endings import Ending, Success
from jobs.errors import InvalidInput
from jobs.execution import run_sync
from jobs.states import Status

MAIL: dict[str, Any] = {"to": "first@example.org", "subject": "Hello", "text": "Good morning."}


class Desk:
    def log(self, line: Any) -> None: ...
    def progress(self, job: Any, done: int, total: int | None) -> None: ...
    def should_yield(self, job: Any) -> bool:
        return False


class Mailbox:
    """A mail server's own side: keeps what comes, and answers as it is told."""

    def __init__(self) -> None:
        self.received: list[Envelope] = []
        self.answers: list[str] = []
        self.refused: dict[str, str] = {}

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope
    ) -> str:
        if self.answers:
            return self.answers.pop(0)
        self.received.append(envelope)
        return "250 OK"

    def message(self) -> EmailMessage:
        content = self.received[-1].content
        assert isinstance(content, bytes)
        found = message_from_bytes(content, policy=policy.default)
        assert isinstance(found, EmailMessage)
        return found


class MailServer(Controller):
    """On a port that the system chose."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    found = Mailbox()
    server = MailServer(found, hostname="127.0.0.1", port=0)
    server.start()
    settings.MAILERS = _mailers(server.port)
    yield found
    server.stop()


def _mailers(port: int) -> dict[str, Any]:
    return {
        "default": {
            "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "OPTIONS": {"host": "127.0.0.1", "port": port, "timeout": 5},
        }
    }


def send(payload: dict[str, Any], *, attempt: int = 1, id: str = "") -> Success | Ending:
    entry = registry.get("send_email")
    job = Claimed(
        id=id or str(uuid.uuid4()),
        type="send_email",
        queue="mail",
        payload=check_payload(entry, payload),
        priority=2,
        due_at=0.0,
        attempt=attempt,
        max_attempts=5,
        lease_epoch=attempt,
        lost_count=0,
        wait_count=0,
        claimed_at=0.0,
    )
    return run_sync(entry, job, Context(job, Desk()))


def check(payload: Any) -> None:
    check_payload(registry.get("send_email"), payload)


def failure(end: Success | Ending) -> Ending:
    assert isinstance(end, Ending)
    return end


def test_a_message_arrives_with_all_its_parts(mailbox: Mailbox) -> None:
    end = send(
        {
            "to": ["First Reader <first@example.org>", "second@example.org"],
            "cc": "third@example.org",
            "bcc": ["fourth@example.org"],
            "from": "Coppice <coppice@example.net>",
            "reply_to": "help@example.net",
            "subject": "Grüße",
            "text": "Good morning.",
            "html": "<p>Good morning.</p>",
            "headers": {"X-Order": "17"},
        },
        id="0198c5a0-0000-7000-8000-000000000001",
    )
    assert isinstance(end, Success)
    assert json.loads(end.result or "") == {"accepted": 4}
    assert mailbox.received[0].mail_from == "coppice@example.net"
    assert sorted(mailbox.received[0].rcpt_tos) == [
        f"{name}@example.org" for name in ("first", "fourth", "second", "third")
    ]
    message = mailbox.message()
    assert message["Subject"] == "Grüße"
    assert message["To"] == "First Reader <first@example.org>, second@example.org"
    assert message["Cc"] == "third@example.org"
    assert message["Bcc"] is None
    assert message["Reply-To"] == "help@example.net"
    assert message["X-Order"] == "17"
    assert message["Message-ID"] == "<0198c5a0-0000-7000-8000-000000000001@example.net>"
    text, html = message.get_body(["plain"]), message.get_body(["html"])
    assert text is not None
    assert html is not None
    assert text.get_content().strip() == "Good morning."
    assert html.get_content().strip() == "<p>Good morning.</p>"


def test_a_message_may_be_html_alone_and_has_the_default_sender(
    mailbox: Mailbox, settings: Any
) -> None:
    settings.DEFAULT_FROM_EMAIL = "shop@example.net"
    send({"to": "first@example.org", "subject": "", "html": "<p>Hi</p>"})
    assert mailbox.received[0].mail_from == "shop@example.net"
    assert mailbox.message().get_content_type() == "text/html"


def test_a_temporary_refusal_is_tried_again_and_keeps_its_message_id(mailbox: Mailbox) -> None:
    mailbox.answers = ["451 try again later, first@example.org"]
    id = str(uuid.uuid4())
    first = failure(send(MAIL, id=id))
    assert first.status is Status.PENDING
    assert first.delay
    assert "451" in first.error
    assert isinstance(send(MAIL, id=id, attempt=2), Success)
    assert mailbox.message()["Message-ID"].startswith(f"<{id}@")


def test_a_permanent_refusal_is_a_dead_letter_at_once(mailbox: Mailbox) -> None:
    mailbox.answers = ["554 no spam, first@example.org"]
    end = failure(send(MAIL))
    assert end.status is Status.FAILED
    assert "554" in end.error


@pytest.mark.parametrize(
    ("answer", "status"),
    [("450 mailbox busy", Status.PENDING), ("550 no such user", Status.FAILED)],
)
def test_refused_recipients_are_tried_again_only_if_that_can_help(
    mailbox: Mailbox, answer: str, status: Status
) -> None:
    mailbox.refused = {"first@example.org": answer, "second@example.org": "550 no such user"}
    end = failure(send({**MAIL, "to": ["first@example.org", "second@example.org"]}))
    assert end.status is status
    assert answer[:3] in end.error


def test_a_mail_server_that_is_away_is_tried_again(mailbox: Mailbox, settings: Any) -> None:
    settings.MAILERS = _mailers(1)
    end = failure(send(MAIL))
    assert end.status is Status.PENDING
    assert "ConnectionRefusedError" in end.error


@pytest.mark.parametrize("answer", ["451 first@example.org: Good morning", "554 first@example.org"])
def test_errors_and_tracebacks_name_no_address_and_no_text(mailbox: Mailbox, answer: str) -> None:
    mailbox.answers = [answer]
    end = failure(send(MAIL))
    for secret in ("first", "example.org", "Good morning", "Hello"):
        assert secret not in end.error
        assert secret not in end.traceback
    mailbox.refused = {"first@example.org": "550 first@example.org is unknown"}
    assert "first" not in failure(send(MAIL)).error + failure(send(MAIL)).traceback


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": "nobody"}, "payload.to"),
        ({"to": []}, "payload.to"),
        ({"to": 17}, "payload.to"),
        ({"to": "first@example.org, second@example.org"}, "payload.to"),
        ({"to": "first@example.org\nBcc: other@example.org"}, "payload.to"),
        ({"to": [f"a{n}@example.org" for n in range(501)]}, "payload.to"),
        ({"subject": "Hello\r\nBcc: other@example.org"}, "payload.subject"),
        ({"subject": "Hello\u2028there"}, "payload.subject"),
        ({"from": "First Reader"}, "payload.from"),
        ({"text": ""}, "payload.text"),
        ({"headers": {"Bcc": "other@example.org"}}, "payload.headers"),
        ({"headers": {"X: Y": "1"}}, "payload.headers"),
        ({"headers": {"X-Order": "1\nBcc: other@example.org"}}, "payload.headers"),
        ({"headers": {"Content-Type": "text/html"}}, "payload.headers"),
        ({"boddy": "Hi"}, "payload.boddy"),
    ],
)
def test_a_message_that_could_not_or_must_not_be_sent_is_refused_when_the_job_is_made(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check({**MAIL, **change})
    assert refused.value.field.startswith(field)
