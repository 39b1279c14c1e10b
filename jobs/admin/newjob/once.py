"""A form that is sent twice makes one job: its token is kept as the API keeps an Idempotency-Key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from jobs.api.idempotency import FIND, KEEP, TAKE, WAIT_SECONDS
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, InvalidInput
from jobs.limits import waiting_at_most

_TOKEN = re.compile(r"[0-9a-f-]{36}\Z")
_DIGEST = "the form for a new job"


def once(user_id: object, token: str, work: Callable[[], str]) -> tuple[str, bool]:
    """What the work answers, or what it answered for this token before; and whether it is new.

    The work is done in the transaction that keeps the token. Raises what it raises, and then the
    token is as good as new.
    """
    if not _TOKEN.match(token):
        raise InvalidInput("is not that of a form; open the page anew", field="token")
    database = DjangoDatabase()
    named = {"user": user_id, "key": f"form:{token}"}
    with database.transaction():
        told = "this form is still being worked on"
        with waiting_at_most(database, seconds=WAIT_SECONDS, told=told):
            taken = database.rows(TAKE, {**named, "digest": _DIGEST})
        if not taken:
            rows = database.rows(FIND, named)
            if not rows or rows[0][2] is None:
                raise Conflict(told)
            return str(json.loads(rows[0][2])["job"]), False
        answer = work()
        kept = json.dumps({"job": answer})
        database.run(KEEP, {"id": taken[0][0], "status": 201, "response": kept})
        return answer, True
