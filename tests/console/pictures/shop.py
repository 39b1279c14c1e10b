"""The shop whose site is pictured: its handlers and range jobs. Nobody runs them.

Imported by the process that makes the rows and by the server that shows them.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs import handler
from ranges import IntRange, Leaf, RangeJob


class InvoicePayload(serializers.Serializer[Any]):
    order = serializers.IntegerField(min_value=1, help_text="The number of the order.")
    language = serializers.ChoiceField(
        choices=[("en", "English"), ("de", "German"), ("fr", "French")],
        default="en",
        help_text="Of the letter.",
    )
    copies = serializers.IntegerField(min_value=1, max_value=9, default=1)
    is_draft = serializers.BooleanField(default=False, help_text="With a mark on every page.")
    note = serializers.CharField(
        max_length=400, required=False, allow_blank=True, style={"base_template": "textarea.html"}
    )


class HookPayload(serializers.Serializer[Any]):
    url = serializers.URLField()
    event = serializers.CharField(max_length=80)
    secret = serializers.CharField(max_length=80)
    order = serializers.IntegerField(min_value=1)


@handler("write_invoice", payload=InvoicePayload, queue="mail", max_attempts=5, timeout=30)
def write_invoice(payload: dict[str, Any]) -> None:
    """Write the invoice of an order and put it into the customer's folder."""


@handler("deliver_webhook", payload=HookPayload, queue="webhooks", mask=("secret",))
def deliver_webhook(payload: dict[str, Any]) -> None:
    """Tell a shop's own systems what has happened."""


def _nothing(payload: Any) -> None:
    """What the type of this name would do."""


for _type, _queue in (
    ("sync_inventory", "default"),
    ("recount_stock", "default"),
    ("send_digest", "mail"),
    ("resize_image", "images"),
    ("transcode_video", "images"),
    ("monthly_report", "reports"),
):
    handler(_type, queue=_queue)(_nothing)


class _Backfill(RangeJob):
    leaf = Leaf(max_size=1_000)

    def process(self, leaf: Any, context: Any) -> None:
        """Nothing."""


class BackfillUsers(_Backfill):
    name = "shop.BackfillUsers"
    over = IntRange(0, 50_000_000)


class BackfillTotals(_Backfill):
    name = "shop.BackfillTotals"
    over = IntRange(0, 48_000_000)


class ReindexCustomers(_Backfill):
    name = "shop.ReindexCustomers"
    over = IntRange(0, 2_400_000)


class MoveAddresses(_Backfill):
    name = "shop.MoveAddresses"
    over = IntRange(0, 800_000)
