"""The job type that sends a delivery."""

from __future__ import annotations

import time
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from jobs import conf
from jobs.answers import Discard
from jobs.context import Context
from jobs.errors import InvalidInput
from jobs.models import WebhookDelivery
from jobs.registry import OWN_QUEUE, handler
from jobs.retry import Backoff
from jobs.texts import clean
from jobs.webhooks import sending, targets
from jobs.webhooks.operating import ATTEMPTS, TEST, TYPE
from jobs.webhooks.signing import signature

SHOWN = 500


class NotTaken(Exception):
    """The receiver could not be reached, or did not answer with 2xx."""


@handler(
    TYPE,
    queue=OWN_QUEUE,
    priority=1,
    max_attempts=ATTEMPTS,
    timeout=60,
    backoff=Backoff.exponential(10, factor=4, cap=3_600),
    internal=True,
)
def send(payload: dict[str, Any], context: Context) -> None:
    """Errors name the webhook's answer by its code, never its address or what it said."""
    rows = WebhookDelivery.objects.using(conf.get().database)
    delivery = rows.select_related("webhook").filter(id=payload["delivery"]).first()
    if delivery is None or delivery.status == "delivered":
        return
    if not delivery.webhook.enabled and delivery.event != TEST:
        _note(delivery, status="failed", error="the webhook is disabled")
        return
    last = context.attempt >= context.max_attempts
    try:
        answer = _post(delivery)
    except InvalidInput as error:
        _note(delivery, status="failed", error=f"the address {error.message}")
        raise Discard("the address of the webhook may not be reached") from None
    except sending.NotSent as error:
        _note(delivery, status="failed" if last else "pending", error=str(error))
        raise NotTaken("no answer") from None
    status = "delivered" if answer.is_taken else "failed" if last else "pending"
    said = "" if answer.is_taken else f"answered {answer.code}"
    _note(delivery, status=status, error=said, code=answer.code, text=answer.text)
    if not answer.is_taken:
        raise NotTaken(said)


def _post(delivery: WebhookDelivery) -> sending.Answer:
    target = targets.resolve(delivery.webhook.url)
    body, moment = delivery.body.encode(), int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Coppice",
        "Coppice-Event": delivery.event,
        "Coppice-Delivery": str(delivery.id),
        "Coppice-Signature": signature(delivery.webhook.secret, moment, body),
    }
    return sending.post(target, body, headers)


def _note(
    delivery: WebhookDelivery, *, status: str, error: str, code: int | None = None, text: str = ""
) -> None:
    WebhookDelivery.objects.using(conf.get().database).filter(id=delivery.id).update(
        status=status,
        attempts=F("attempts") + 1,
        error=clean(error, SHOWN),
        response_code=code,
        response=clean(text, SHOWN),
        tried_at=Now(),
    )
