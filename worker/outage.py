"""What the threads of a supervisor do about errors: wait a little longer each time, say it once."""

from __future__ import annotations

import random
import threading
import time

import structlog

from jobs.database import is_away, without_values

log = structlog.get_logger("coppice.worker")

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
QUIET_SECONDS = 60.0


class Outages:
    """Shared by the threads of one process, so that one outage makes two log lines, not six."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._away: set[str] = set()
        self._failures: dict[str, int] = {}
        self._said: dict[str, float] = {}
        self._since = 0.0

    def failed(self, part: str, error: BaseException) -> float:
        """Note that a part's statement failed; returns the seconds to wait before the next one."""
        with self._lock:
            failures = self._failures[part] = self._failures.get(part, 0) + 1
            if is_away(error):
                if not self._away:
                    self._since = time.monotonic()
                    self._say("database.away", error=_first_line(error))
                self._away.add(part)
            else:
                self._say(f"{part}.failed", error=error)
        # Never above the limit, and spread, so that many workers do not come back as one.
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 10))
        return delay * random.uniform(0.5, 1.0)

    def over(self, part: str) -> None:
        """Note that a part's statements work."""
        if part not in self._failures:
            return
        with self._lock:
            self._failures.pop(part, None)
            if part in self._away:
                self._away.discard(part)
                if not self._away:
                    self._say("database.back", seconds=round(time.monotonic() - self._since, 1))

    def _say(self, event: str, *, error: str | BaseException = "", **facts: object) -> None:
        # A database that comes and goes every second must not fill the log.
        now = time.monotonic()
        key = f"{event} {type(error).__name__}"
        if now - self._said.get(key, -QUIET_SECONDS) < QUIET_SECONDS / 4:
            return
        self._said[key] = now
        if event == "database.back":
            log.info(event, **facts)
        elif isinstance(error, BaseException):
            log.error(event, error=_first_line(error), exc_info=without_values(error), **facts)
        else:
            log.warning(event, error=error, **facts)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
