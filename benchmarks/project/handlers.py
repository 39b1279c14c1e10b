"""What the benchmarks run. Handlers that are watched note their start and end (`records.py`)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from django.contrib.auth.models import Group
from rest_framework import serializers

from benchmarks.records import END, START, note
from jobs import handler


class OrderPayload(serializers.Serializer):  # type: ignore[misc]  # it has no types
    number = serializers.IntegerField(min_value=0)
    email = serializers.EmailField()
    note = serializers.CharField(max_length=200, required=False)


@handler("noop")
def noop(payload: dict[str, Any]) -> None:
    pass


@handler("noop_atomic", atomic=True)
def noop_atomic(payload: dict[str, Any]) -> None:
    pass


@handler("checked", payload=OrderPayload)
def checked(payload: dict[str, Any]) -> None:
    pass


@handler("watched")
def watched(payload: dict[str, Any]) -> None:
    note(payload["n"], START)


@handler("sleep")
def sleep(payload: dict[str, Any]) -> None:
    time.sleep(payload["seconds"])


@handler("sleep_async")
async def sleep_async(payload: dict[str, Any]) -> None:
    await asyncio.sleep(payload["seconds"])


@handler("watched_sleep")
def watched_sleep(payload: dict[str, Any]) -> None:
    note(payload["n"], START)
    time.sleep(payload["seconds"])
    note(payload["n"], END)


@handler("orm")
def orm(payload: dict[str, Any]) -> None:
    """A few statements through Django's ORM, as most handlers make."""
    group, _ = Group.objects.get_or_create(name=f"group {payload['n'] % 100}")
    group.save(update_fields=["name"])
    list(Group.objects.order_by("name")[:20])
