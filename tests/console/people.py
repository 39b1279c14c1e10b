"""Clients of people with the permissions of a group, or with single ones."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.test import Client


def client_of(group: str | None = None, *permissions: str) -> Client:
    """Signed in as staff: of a group ("" for none), with more permissions; None: a superuser."""
    user = User.objects.create_user(
        f"user-{secrets.token_hex(3)}", is_staff=True, is_superuser=group is None
    )
    if group:
        user.groups.add(Group.objects.get(name=group))
    user.user_permissions.add(*(_named(name) for name in permissions))
    client = Client()
    client.force_login(user)
    client.username = user.username  # type: ignore[attr-defined]
    return client


def _named(permission: str) -> Permission:
    app, _, code = permission.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=code)


def read(client: Client, url: str, status: int = 200, **data: Any) -> str:
    response = client.get(url, data)
    assert response.status_code == status, response.content[:800]
    return response.content.decode()
