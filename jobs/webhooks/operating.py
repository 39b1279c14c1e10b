"""What people do to webhooks, each in one transaction, with its line in the audit."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from jobs import audit, conf
from jobs.enqueueing import enqueue
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.matching import INTERNAL
from jobs.models import Webhook, WebhookDelivery
from jobs.payloads import check_text
from jobs.registry import OWN_QUEUE
from jobs.webhooks import targets
from jobs.webhooks.signing import new_secret as make_secret

TYPE = "jobs.webhook_delivery"
ATTEMPTS = 8
TEST = "webhook.test"
MOST = 50
"""Webhooks of one installation: each event makes a delivery for each."""
PATTERN = re.compile(r"[a-z_.*]{1,60}\Z")
MOST_PATTERNS = 20


@sensitive_variables("secret")
def create(name: str, url: str, events: Iterable[str], *, by: str = "") -> tuple[Webhook, str]:
    """A new webhook, and the secret that signs: it cannot be read again. Raises InvalidInput."""
    secret = make_secret()
    webhook = Webhook(
        name=check_text(name, "name", max_length=100),
        url=_checked(url),
        events=check_patterns(events),
        secret=secret,
        created_by=by[:150],
    )
    with transaction.atomic(using=conf.get().database):
        if Webhook.objects.using(conf.get().database).count() >= MOST:
            raise Conflict(f"there are {MOST} webhooks already")
        webhook.save(force_insert=True, using=conf.get().database)
        _audit("webhook.create", webhook, by, events=webhook.events)
    return webhook, secret


def get(id: object) -> Webhook:
    """Raises NotFound."""
    return _find(id, lock=False)


def change(id: object, *, by: str = "", **changes: Any) -> Webhook:
    """Change name, url, events or enabled. Raises InvalidInput, NotFound."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": lambda value: check_text(value, "name", max_length=100),
        "url": _checked,
        "events": check_patterns,
        "enabled": bool,
    }
    checked = {name: checks[name](value) for name, value in changes.items()}
    with _locked(id) as webhook:
        differing = [name for name, value in checked.items() if getattr(webhook, name) != value]
        if differing:
            for name in differing:
                setattr(webhook, name, checked[name])
            webhook.save(update_fields=differing, using=conf.get().database)
            _audit("webhook.change", webhook, by, fields=differing)
    return webhook


@sensitive_variables("secret")
def new_secret(id: object, *, by: str = "") -> tuple[Webhook, str]:
    """Sign with another secret from now on."""
    secret = make_secret()
    with _locked(id) as webhook:
        webhook.secret = secret
        webhook.save(update_fields=["secret"], using=conf.get().database)
        _audit("webhook.new_secret", webhook, by)
    return webhook, secret


def delete(id: object, *, by: str = "") -> None:
    """With the record of its deliveries; those that wait are not sent any more."""
    with _locked(id) as webhook:
        _audit("webhook.delete", webhook, by)
        webhook.delete(using=conf.get().database)


def send_test(id: object, *, by: str = "") -> WebhookDelivery:
    with _locked(id) as webhook:
        _audit("webhook.test", webhook, by)
        return deliver(webhook, TEST, {"by": by})


def redeliver(id: object, *, by: str = "") -> WebhookDelivery:
    """The same event once more, as a delivery of its own. Raises NotFound."""
    old = WebhookDelivery.objects.using(conf.get().database).filter(id=_key(id)).first()
    if old is None:
        raise NotFound("delivery", id)
    with _locked(old.webhook_id) as webhook:
        _audit("webhook.redeliver", webhook, by, delivery=str(old.id))
        return deliver(webhook, old.event, json.loads(old.body)["facts"])


def deliver(webhook: Webhook, event: str, facts: dict[str, Any]) -> WebhookDelivery:
    """The row and the job that sends it, in the caller's transaction."""
    alias = conf.get().database
    delivery = WebhookDelivery(webhook=webhook, event=event)
    delivery.body = json.dumps(
        {
            "id": str(delivery.id),
            "event": event,
            "at": timezone.now().isoformat(),
            "environment": conf.get().environment,
            "facts": facts,
        },
        default=str,
    )
    delivery.job_id = enqueue(
        TYPE,
        {"delivery": str(delivery.id)},
        queue=OWN_QUEUE,
        priority=1,
        max_attempts=ATTEMPTS,
        metadata=INTERNAL,
    ).id
    delivery.save(force_insert=True, using=alias)
    return delivery


def check_patterns(value: Iterable[str]) -> list[str]:
    """Raises InvalidInput."""
    found = list(dict.fromkeys(str(each).strip() for each in value if str(each).strip()))
    if not found:
        raise InvalidInput("name at least one event", field="events")
    if len(found) > MOST_PATTERNS:
        raise InvalidInput(f"at most {MOST_PATTERNS} patterns", field="events")
    for each in found:
        if not PATTERN.match(each):
            raise InvalidInput(f"{each[:60]!r} is not the name of an event", field="events")
    return found


def _checked(url: str) -> str:
    targets.resolve(url)
    return url.strip()


def _key(id: object) -> uuid.UUID:
    try:
        return uuid.UUID(str(id))
    except ValueError:
        raise NotFound("webhook", str(id)[:60]) from None


@contextmanager
def _locked(id: object) -> Iterator[Webhook]:
    with transaction.atomic(using=conf.get().database):
        yield _find(id, lock=True)


def _find(id: object, *, lock: bool) -> Webhook:
    rows = Webhook.objects.using(conf.get().database)
    if lock:
        rows = rows.select_for_update(no_key=True)
    found = rows.filter(id=_key(getattr(id, "id", id))).first()
    if found is None:
        raise NotFound("webhook", id)
    return found


def _audit(action: str, webhook: Webhook, by: str, **data: Any) -> None:
    """Not with the address: some hold a key in their path."""
    audit.record(
        action,
        actor=by,
        scope=f"webhook {webhook.name}",
        object_id=str(webhook.id),
        changed=1,
        data=data,
    )
