"""Deliveries of what happens: for each webhook and each recipient of e-mail that asked for it.

The leader listens (`worker/telling.py`): one process, so that one event is told once. Only events that
are few are told: never one for each job.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import structlog
from django.db import transaction

from jobs import conf
from jobs.enqueueing import enqueue
from jobs.events import Event
from jobs.models import AlertRecipient, Webhook, WebhookDelivery
from jobs.webhooks.operating import MOST, deliver

EVENTS = {
    "alert.dead_letters": "The number of dead letters has reached its limit",
    "alert.queue_paused": "A queue has been paused for an hour, without an end",
    "alert.schedule_overdue": "A schedule's slot passed a while ago, and nothing has run",
    "schedule.missed": "A schedule has missed slots",
    "type.unknown": "Jobs wait, and no worker knows their type",
    "worker.lost": "A worker is gone without a word",
}
MOST_PENDING = 100
"""Deliveries that wait for one webhook; more are dropped."""
_log = structlog.get_logger("coppice.webhooks")


def tell(event: Event) -> int:
    """How many are being told."""
    if event.name not in EVENTS:
        return 0
    alias = conf.get().database
    told = 0
    with transaction.atomic(using=alias):
        for webhook in Webhook.objects.using(alias).filter(enabled=True).order_by("id")[:MOST]:
            if _wants(webhook.events, event.name) and not _is_full(webhook):
                deliver(webhook, event.name, _facts(event))
                told += 1
        for recipient in AlertRecipient.objects.using(alias).order_by("id")[:MOST]:
            if _wants(recipient.events, event.name):
                enqueue("send_email", _message(recipient, event))
                told += 1
    return told


def _wants(patterns: list[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_full(webhook: Webhook) -> bool:
    waiting = WebhookDelivery.objects.using(conf.get().database).filter(
        webhook=webhook, status="pending"
    )
    if len(waiting.values_list("id")[:MOST_PENDING]) < MOST_PENDING:
        return False
    _log.warning("webhook.full", webhook_id=str(webhook.id), most=MOST_PENDING)
    return True


def _facts(event: Event) -> dict[str, Any]:
    named = {"job_id": event.job_id, "type": event.type, "queue": event.queue}
    return {**{name: value for name, value in named.items() if value}, **event.facts}


def _message(recipient: AlertRecipient, event: Event) -> dict[str, Any]:
    tag = conf.get().environment
    what = EVENTS[event.name]
    lines = [f"{name}: {_said(value)}" for name, value in _facts(event).items()]
    return {
        "to": [recipient.address],
        "subject": f"[Coppice{f' {tag}' if tag else ''}] {what}",
        "text": "\n".join([f"{what} ({event.name}).", "", *lines, ""]),
    }


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
