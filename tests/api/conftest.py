"""Clients of the API, signed in by a token as a program would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

type Api = Callable[..., Any]


def permissions_named(names: Iterable[str]) -> list[Any]:
    """The permissions of names such as "jobs.view_job". Each must exist."""
    from django.contrib.auth.models import Permission

    wanted = list(names)
    rows = Permission.objects.select_related("content_type").filter(
        codename__in=[name.partition(".")[2] for name in wanted]
    )
    found = {f"{row.content_type.app_label}.{row.codename}": row for row in rows}
    return [found[name] for name in wanted]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that other tests counted, and no limit on how often a test may ask."""
    from django.core.cache import cache

    from jobs.api.base import CoppiceView

    cache.clear()
    monkeypatch.setattr(CoppiceView, "throttle_classes", [])


@pytest.fixture
def user_of(db: None) -> Callable[..., Any]:
    """`user_of("Operator")`: a new person of a shipped group, of permissions, or "superuser"."""
    from django.contrib.auth.models import Group, User

    numbers = count(1)

    def make(group: str | Iterable[str] = (), **columns: Any) -> Any:
        name = columns.pop("username", f"person{next(numbers)}")
        if group == "superuser":
            return User.objects.create_superuser(name, **columns)
        user = User.objects.create_user(name, **columns)
        if isinstance(group, str):
            user.groups.add(Group.objects.get(name=group))
        else:
            user.user_permissions.set(permissions_named(group))
        return user

    return make


@pytest.fixture
def api(user_of: Callable[..., Any]) -> Api:
    """`api("Operator")`: a client with a token of a new person; None: nobody.

    Takes a shipped group, "superuser", or permissions by name. The person is `client.user`.
    """
    from rest_framework.test import APIClient

    from jobs import tokens

    def make(group: str | Iterable[str] | None = "Supervisor") -> Any:
        client = APIClient()
        if group is not None:
            client.user = user_of(group)
            _, key = tokens.create(client.user, "test")
            client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
        return client

    return make
