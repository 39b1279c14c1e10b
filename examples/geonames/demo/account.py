"""The account with which the demo's console is entered."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.contrib.auth import get_user_model

NAME = "admin"


def password_of_admin(kept: Path) -> str | None:
    """Make the account `admin` if it is missing, with a password that is kept for the next run.

    None: the account has a password that somebody chose.
    """
    password = _kept_password(kept)
    model = get_user_model()
    user = model.objects.filter(username=NAME).first()
    if user is None:
        model.objects.create_superuser(NAME, "admin@localhost", password)
        return password
    return password if user.check_password(password) else None


def _kept_password(kept: Path) -> str:
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(secrets.token_urlsafe(12))
    return kept.read_text()
