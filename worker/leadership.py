"""Who leads: one supervisor of all, for work that needs doing once.

With sessions, the leader is whoever holds an advisory lock; it ends with the session, at once.
Through a pooler there is no session: then a row says who leads and until when, by the database's
clock. The holder believes in its term only for as long as it was granted, counted from before it
asked, so a slow answer shortens the belief.

Two leaders at a time would do no harm, only double work: every duty is fenced by itself.
"""

from __future__ import annotations

import time
import uuid

from jobs.database import DirectDatabase
from worker.session import LEADER_KEY, SessionLock

TERM_SECONDS = 15.0
RENEW_SECONDS = 5.0
ASK_SECONDS = 1.0

TAKE_TERM = """
INSERT INTO jobs_leader AS l (name, holder, term, until)
VALUES ('leader', %(holder)s::uuid, 1, clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder, until = excluded.until,
    term = CASE WHEN l.holder = excluded.holder THEN l.term ELSE l.term + 1 END
WHERE l.holder = excluded.holder OR l.until < clock_timestamp()
RETURNING term
"""
GIVE_UP_TERM = """
UPDATE jobs_leader SET until = clock_timestamp()
WHERE name = 'leader' AND holder = %(holder)s::uuid AND until > clock_timestamp()
"""


class Leadership:
    """Asked by the upkeep thread, read by the thread that does the duties."""

    def __init__(self, database: DirectDatabase) -> None:
        self.database = database
        self.holder = str(uuid.uuid4())
        self._lock = SessionLock(database, LEADER_KEY)
        self._until = 0.0
        self._ask_at = 0.0

    @property
    def leads(self) -> bool:
        return time.monotonic() < self._until

    def seek(self) -> bool:
        """Take or keep the lead if it can be had; asks the database only when that is due."""
        asked_at = time.monotonic()
        if asked_at < self._ask_at:
            return self.leads
        self._ask_at = asked_at + ASK_SECONDS
        # First, since only a connection knows whether it is pooled.
        if self._lock.hold():
            # As long as rounds go on; each of them notices a broken session.
            self._until = asked_at + RENEW_SECONDS
        elif self.database.pooled:
            granted = self.database.rows(
                TAKE_TERM, {"holder": self.holder, "seconds": TERM_SECONDS}
            )
            if granted:
                self._until = asked_at + TERM_SECONDS
                self._ask_at = asked_at + RENEW_SECONDS
            else:
                self._until = 0.0
        else:
            self._until = 0.0
        return self.leads

    def lose(self) -> None:
        """The connection broke; a session's lock is gone with it."""
        if not self.database.pooled:
            self._until = 0.0
        self._ask_at = 0.0

    def give_up(self) -> None:
        """Let another take over at once; a session's lock goes with the session."""
        was_leading, self._until = self.leads, 0.0
        if was_leading and self.database.pooled:
            self.database.run(GIVE_UP_TERM, {"holder": self.holder})
