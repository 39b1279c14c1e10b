"""Ids of jobs: UUIDv7, so that newer jobs sort after older ones, also within a millisecond."""

from __future__ import annotations

import uuid

import uuid_utils


def new_id() -> str:
    """A fresh id as text; ids made by one process ascend."""
    return str(uuid_utils.uuid7())


def new_uuid() -> uuid.UUID:
    """The same as a `uuid.UUID`, for Django's fields."""
    return uuid.UUID(new_id())
