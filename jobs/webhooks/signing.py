"""How a receiver knows that a delivery is ours and new: HMAC-SHA256 over its time and its body."""

from __future__ import annotations

import hashlib
import hmac
import secrets

START = "whsec_"


def new_secret() -> str:
    return START + secrets.token_urlsafe(32)


def signature(secret: str, moment: int, body: bytes) -> str:
    """The value of the header Coppice-Signature."""
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256)
    return f"t={moment},v1={digest.hexdigest()}"
