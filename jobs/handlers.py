"""Handlers that every installation has: `send_email`, bulk operations, deliveries of webhooks.

Errors and logs say what the mail server answered by its code. They name no address and no text,
since a server's own words often quote both.
"""

from __future__ import annotations

import re
import smtplib
from email.headerregistry import AddressHeader
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives
from django.core.validators import validate_email
from rest_framework import serializers

from jobs.answers import Discard
from jobs.bulk import handler as _bulk  # noqa: F401  registers itself
from jobs.context import Context
from jobs.registry import handler
from jobs.webhooks import handler as _webhooks  # noqa: F401  registers itself

MOST_RECIPIENTS = 500
HEADER_NAME = re.compile(r"[!-9;-~]{1,76}\Z")
OWN_HEADERS = frozenset(
    {"bcc", "cc", "content-transfer-encoding", "content-type", "from", "message-id"}
    | {"mime-version", "reply-to", "subject", "to"}
)


def _is_one_line(text: str) -> bool:
    # What Python's e-mail code calls a line end is more than \r and \n.
    return text == "".join(text.splitlines()) and "\x00" not in text


class OneLineField(serializers.CharField):
    """Text for a header: a line end in it would begin a header of the sender's choice."""

    default_error_messages = {"lines": "must be one line"}

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        if not _is_one_line(value):
            self.fail("lines")
        return str(value)


class AddressField(OneLineField):
    """`reader@example.org` or `A Reader <reader@example.org>`."""

    default_error_messages = {"address": "must be an e-mail address"}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=320, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        try:
            parsed = AddressHeader.value_parser(value)
            [mailbox] = parsed.all_mailboxes
            if parsed.all_defects:
                raise ValueError
            validate_email(mailbox.addr_spec)
        except Exception:  # noqa: BLE001 - the parser of the standard library raises many kinds
            self.fail("address")
        return value


class AddressesField(serializers.ListField):
    """A list of addresses, or just one."""

    child = AddressField()

    def to_internal_value(self, data: Any) -> list[str]:
        found: list[str] = super().to_internal_value([data] if isinstance(data, str) else data)
        return found


class HeadersField(serializers.DictField):
    child = OneLineField(max_length=900)
    default_error_messages = {
        "name": "has the name {name!r}, which is not one of a header",
        "own": "has the header {name!r}, which has a field of its own or is set by the handler",
    }

    def to_internal_value(self, data: Any) -> dict[str, str]:
        value: dict[str, str] = super().to_internal_value(data)
        for name in value:
            if not HEADER_NAME.match(name):
                self.fail("name", name=name[:76])
            if name.lower() in OWN_HEADERS:
                self.fail("own", name=name)
        return value


class EmailPayload(serializers.Serializer[Any]):
    """One message. `text`, `html` or both; `from` is DEFAULT_FROM_EMAIL unless given."""

    to = AddressesField(allow_empty=False)
    cc = AddressesField(required=False)
    bcc = AddressesField(required=False)
    reply_to = AddressesField(required=False)
    subject = OneLineField(max_length=900, allow_blank=True)
    text = serializers.CharField(required=False, allow_blank=True, trim_whitespace=False)
    html = serializers.CharField(required=False, allow_blank=True, trim_whitespace=False)
    headers = HeadersField(required=False)

    def get_fields(self) -> Any:
        return {**super().get_fields(), "from": AddressField(required=False)}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if unknown := sorted(set(self.initial_data) - set(self.fields)):
            raise serializers.ValidationError({unknown[0][:60]: "is not a field of an e-mail"})
        if not attrs.get("text") and not attrs.get("html"):
            raise serializers.ValidationError({"text": "must be given, or html"})
        if sum(len(attrs.get(name, ())) for name in ("to", "cc", "bcc")) > MOST_RECIPIENTS:
            raise serializers.ValidationError({"to": f"more than {MOST_RECIPIENTS} recipients"})
        return attrs


class MailNotSent(Exception):
    """The mail server could not be reached, or asked to try again later."""


@handler(
    "send_email",
    payload=EmailPayload,
    queue="mail",
    max_attempts=5,
    timeout=30,
    mask=("to", "cc", "bcc", "reply_to", "subject", "text", "html", "headers"),
)
def send_email(payload: dict[str, Any], context: Context) -> dict[str, int]:
    """Send one message through Django's e-mail settings.

    `accepted` is the number of recipients of a message that the mail server took. As any job may
    run again after a crash, a message may be sent twice; both have the same Message-ID.
    """
    message = build(payload, context.job_id)
    try:
        sent = message.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        text = f"the mail server refused all recipients: {', '.join(map(str, codes))}"
        raise (Discard(text) if min(codes) >= 500 else MailNotSent(text)) from None
    except (smtplib.SMTPConnectError, smtplib.SMTPHeloError, smtplib.SMTPAuthenticationError) as e:
        # About the server or our account there, not about this message.
        raise MailNotSent(f"the mail server did not let us in: {e.smtp_code}") from None
    except smtplib.SMTPResponseException as error:
        text = f"the mail server refused the message: {error.smtp_code}"
        raise (Discard(text) if error.smtp_code >= 500 else MailNotSent(text)) from None
    except OSError as error:
        # Connections that fail or break, time-outs, TLS, and what else smtplib raises.
        raise MailNotSent(f"the mail server cannot be used: {type(error).__name__}") from None
    except ValueError:
        raise Discard("the message cannot be written in the form that e-mail demands") from None
    return {"accepted": len(message.recipients()) if sent else 0}


def build(payload: dict[str, Any], job_id: str) -> EmailMultiAlternatives:
    """The message of a job; its Message-ID is the same at every attempt."""
    sender = payload.get("from") or settings.DEFAULT_FROM_EMAIL
    text, html = payload.get("text", ""), payload.get("html", "")
    message = EmailMultiAlternatives(
        subject=payload["subject"],
        body=text or html,
        from_email=sender,
        to=payload["to"],
        cc=payload.get("cc"),
        bcc=payload.get("bcc"),
        reply_to=payload.get("reply_to"),
        headers={**payload.get("headers", {}), "Message-ID": f"<{job_id}@{_domain(sender)}>"},
    )
    if text and html:
        message.attach_alternative(html, "text/html")
    elif html:
        message.content_subtype = "html"
    return message


def _domain(address: str) -> str:
    domain = address.rpartition("@")[2].rstrip("> ").lower()
    try:
        validate_email(f"job@{domain}")
        return domain.encode("idna").decode()
    except (ValidationError, UnicodeError):
        return "localhost"
