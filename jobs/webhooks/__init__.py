"""Webhooks: what happens here is told to an address of yours, signed, and tried again until it is
taken.

A delivery is a row, and a job of the product's own queue that sends it. `targets.py` says which
addresses may be reached, `sending.py` sends, `signing.py` signs, `operating.py` is for people,
`telling.py` makes deliveries of events. docs/webhooks.md is for those who receive them.
"""

from jobs.webhooks.operating import (
    change,
    create,
    delete,
    get,
    new_secret,
    redeliver,
    send_test,
)
from jobs.webhooks.telling import EVENTS, tell

__all__ = [
    "EVENTS",
    "change",
    "create",
    "delete",
    "get",
    "new_secret",
    "redeliver",
    "send_test",
    "tell",
]
