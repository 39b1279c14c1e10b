"""Who is told by e-mail: added and removed, each with its line in the audit."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from jobs import audit, conf
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.models import AlertRecipient
from jobs.webhooks.operating import MOST, check_patterns


def add(address: str, events: Iterable[str], *, by: str) -> AlertRecipient:
    """Raises InvalidInput, Conflict."""
    text = address.strip()
    try:
        validate_email(text)
    except ValidationError:
        raise InvalidInput("must be an e-mail address", field="address") from None
    if len(text) > 254:
        raise InvalidInput("is too long", field="address")
    found = AlertRecipient(address=text, events=check_patterns(events), created_by=by[:150])
    alias = conf.get().database
    try:
        with transaction.atomic(using=alias):
            if AlertRecipient.objects.using(alias).count() >= MOST:
                raise Conflict(f"there are {MOST} recipients already")
            found.save(force_insert=True, using=alias)
            _audit("alert.add_recipient", found, by)
    except IntegrityError:
        raise Conflict(f"{text} is told already") from None
    return found


def remove(id: str, *, by: str) -> str:
    """Returns the address. Raises NotFound."""
    alias = conf.get().database
    with transaction.atomic(using=alias):
        key = int(id) if id.isascii() and id.isdecimal() and len(id) < 19 else 0
        found = AlertRecipient.objects.using(alias).select_for_update().filter(id=key).first()
        if found is None:
            raise NotFound("recipient", id[:40])
        _audit("alert.remove_recipient", found, by)
        found.delete(using=alias)
    return found.address


def _audit(action: str, recipient: AlertRecipient, by: str) -> None:
    audit.record(
        action,
        actor=by,
        scope=f"e-mail to {recipient.address}",
        object_id=str(recipient.id),
        changed=1,
        data={"events": recipient.events},
    )
