"""`Idempotency-Key`: a POST that is sent again is answered again, and nothing is done twice.

The key and the answer are written in the transaction that does what the request asks for. So there
is never the one without the other, and a twin that comes meanwhile waits at the key for that
transaction's end: then it finds the answer, or, if it was rolled back, does the work itself.
A request that is refused is not remembered: it may be mended and sent with the same key.
Who may read less now than when the answer was written is not given it again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import masking
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, InvalidInput
from jobs.limits import waiting_at_most

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
WAIT_SECONDS = 30.0
REPEATED_HEADERS = ("Location",)

_ASKED = "_coppice_is_once"
"""Set on a request that is in hand, so that asking again inside does no harm."""
_KEY = re.compile(r"[!-~]{1,200}\Z")

# A key that is too old is anybody's again. No row: somebody has it.
TAKE = """
INSERT INTO jobs_idempotencykey AS k (user_id, key, request_digest, created_at)
VALUES (%(user)s, %(key)s, %(digest)s, clock_timestamp())
ON CONFLICT (user_id, key) DO UPDATE SET
    request_digest = excluded.request_digest, status_code = NULL, response = NULL,
    created_at = excluded.created_at
WHERE k.created_at < clock_timestamp() - interval '24 hours'
RETURNING k.id
"""
KEEP = """
UPDATE jobs_idempotencykey SET status_code = %(status)s, response = %(response)s::jsonb
WHERE id = %(id)s
"""
FIND = """
SELECT request_digest, status_code, response::text FROM jobs_idempotencykey
WHERE user_id = %(user)s AND key = %(key)s
"""


def once(request: Request, work: Callable[[], Response]) -> Response:
    """What the work answers, or what it answered the first time. Without a key: the work.

    Raises InvalidInput for a bad key, and Conflict when it belongs to another request.
    """
    key = request.headers.get(HEADER)
    if key is None or getattr(request, _ASKED, False):
        return work()
    setattr(request, _ASKED, True)
    if not _KEY.match(key):
        raise InvalidInput("must be 1 to 200 visible ASCII characters", field=HEADER)
    database = DjangoDatabase()
    named = {"user": request.user.pk, "key": key}
    digest = digest_of(request)
    with database.transaction():
        with waiting_at_most(database, seconds=WAIT_SECONDS, told=_IN_WORK):
            taken = database.rows(TAKE, {**named, "digest": digest})
        if not taken:
            return _repeated(database, named, digest, _rights(request))
        response = work()
        kept = {
            "data": json.loads(JSONRenderer().render(response.data) or b"null"),
            "headers": {
                name: response.headers[name] for name in REPEATED_HEADERS if name in response
            },
            "rights": _rights(request),
        }
        database.run(
            KEEP,
            {"id": taken[0][0], "status": response.status_code, "response": json.dumps(kept)},
        )
        return response


def digest_of(request: Request) -> str:
    """The same for the same request, however its JSON is laid out."""
    try:
        body = json.dumps(request.data, sort_keys=True)
    except RecursionError:
        raise ParseError("JSON parse error - nested too deep") from None
    return hashlib.sha256(
        f"{request.method} {request.get_full_path()}\n{body}".encode()
    ).hexdigest()


_IN_WORK = "a request with this Idempotency-Key is still being worked on"


def _rights(request: Request) -> list[str]:
    """What the user may read: an answer holds as much."""
    reader = masking.reader(request.user)
    return [name for name, has in (("reads", reader.reads), ("masked", reader.sees_masked)) if has]


def _repeated(
    database: DjangoDatabase, named: dict[str, Any], digest: str, rights: list[str]
) -> Response:
    rows = database.rows(FIND, named)
    if not rows:  # it was too old, and deleted in this moment
        raise Conflict(_IN_WORK)
    known, status, text = rows[0]
    if known != digest:
        raise Conflict("this Idempotency-Key was used for another request")
    kept = json.loads(text)
    if not set(kept.get("rights", ())) <= set(rights):
        raise Conflict("this request was done before; its answer holds what you may not read now")
    return Response(kept["data"], status=status, headers={**kept["headers"], REPLAYED: "true"})
