"""Rows that are of no use any more go, in bounded steps; the others stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobs import conf, pruning
from jobs.database import DjangoDatabase
from jobs.models import AuditEntry, BulkOperation, IdempotencyKey
from tests.factories import ago

pytestmark = pytest.mark.django_db


def prune(**settings: Any) -> dict[str, int]:
    return pruning.prune(DjangoDatabase(), replace(conf.get(), **settings))


def audit(**age: float) -> AuditEntry:
    return AuditEntry.objects.create(at=ago(**age), actor="anna", action="job.retry")


def operation(status: str, **columns: Any) -> BulkOperation:
    return BulkOperation.objects.create(
        action="retry", before=ago(), created_by="anna", status=status, **columns
    )


def test_audit_entries_go_after_their_time_and_no_sooner() -> None:
    old, young = audit(days=366), audit(days=364)
    assert prune()["audit"] == 1
    assert AuditEntry.objects.get() == young
    assert prune(audit_days=300)["audit"] == 1
    assert not AuditEntry.objects.filter(id=old.id).exists()


def test_the_audit_can_be_kept_for_ever() -> None:
    audit(days=9_000)
    assert prune(audit_days=0)["audit"] == 0


def test_bulk_operations_go_thirty_days_after_their_end() -> None:
    operation("completed", finished_at=ago(days=31))
    kept = [
        operation("aborted", finished_at=ago(days=29)),
        operation("paused", created_at=ago(days=90)),
    ]
    assert prune()["bulk_operations"] == 1
    assert set(BulkOperation.objects.all()) == set(kept)


def test_keys_of_requests_go_after_a_day() -> None:
    user = User.objects.create(username="anna")
    for name, hours in (("old", 25), ("young", 23)):
        IdempotencyKey.objects.create(
            user=user, key=name, request_digest="x", created_at=ago(hours=hours)
        )
    assert prune()["idempotency_keys"] == 1
    assert IdempotencyKey.objects.get().key == "young"


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 2)
    for _ in range(3):
        audit(days=900)
        operation("failed", finished_at=ago(days=60))
    assert (prune()["audit"], prune()["audit"]) == (2, 1)
    assert BulkOperation.objects.count() == 0
