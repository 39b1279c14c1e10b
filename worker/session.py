"""Advisory locks that live as long as one database session: proof of life that no clock can fake.

Keys are bigints: a constant of ours in the high half, so that nobody else's locks are met.
"""

from __future__ import annotations

import secrets
from typing import Any

from jobs.database import DirectDatabase

SESSIONS = 0x436F7070
"""High half of the keys of supervisors; the low half is random."""
LEADER_KEY = 0x436F7071 << 32

TRY_LOCK = "SELECT pg_try_advisory_lock(%(key)s::bigint)"


def new_key() -> int:
    return SESSIONS << 32 | secrets.randbits(32)


class SessionLock:
    """One lock, held on whatever connection its database has at the moment.

    A new connection has lost it; so `hold` is called at the head of each round. Right after a
    broken connection the server may still see the old session: then it is had a round later.
    """

    def __init__(self, database: DirectDatabase, key: int) -> None:
        self.database = database
        self.key = key
        self._session: Any = None

    @property
    def is_held(self) -> bool:
        return (
            self._session is not None
            and self.database.is_open
            and self.database.connection is self._session
        )

    def hold(self) -> bool:
        """Take the lock unless this session has it. Through a pooler there is no session."""
        connection = self.database.connection
        if self.database.pooled:
            return False
        if connection is self._session:
            return True
        if self.database.rows(TRY_LOCK, {"key": self.key})[0][0]:
            self._session = connection
            return True
        return False
