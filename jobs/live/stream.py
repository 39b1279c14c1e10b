"""The Redis stream as it is read: where it ends, and what came after a position.

The blocking read of the hub is asynchronous; everything else is called from threads and from views.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs import conf
from jobs.live.entries import Entry, Uncounted, read
from jobs.live.positions import START, Position, parse, write
from jobs.publishing import STREAM

MOST_REPLAYED = 5_000
"""Beyond so many entries reading a page anew is cheaper than being told."""
PAGE = 500
COUNT = 1_000
"""The most entries of one blocking read."""
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 2.0
MAX_CONNECTIONS = 64
"""Of one process, for what is not the blocking read."""

AWAY = (redis.RedisError, OSError)
"""What the caller meets when Redis cannot be reached, or does not answer in time."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Everything after a position, up to `to`."""

    found: Sequence[Entry | Uncounted]
    to: Position


class TooOld(Exception):
    """The stream cannot tell what came after the position, or it would be too much."""

    def __init__(self, end: Position) -> None:
        super().__init__("the gap cannot be told")
        self.end = end


def is_configured() -> bool:
    return bool(conf.get().redis_url)


def client() -> redis.Redis:
    """The process's connections for short questions."""
    return _client(conf.get().redis_url, os.getpid())


@lru_cache(maxsize=4)
def _client(url: str, pid: int) -> redis.Redis:  # noqa: ARG001 - a forked child has its own
    return redis.Redis.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def blocking_client(*, block_seconds: float) -> redis.asyncio.Redis:
    """A connection for the one read that waits."""
    return redis.asyncio.Redis.from_url(
        conf.get().redis_url,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS + block_seconds,
        retry=redis.asyncio.retry.Retry(NoBackoff(), 0),
    )


def end(connection: redis.Redis) -> Position:
    """The position of the newest entry; START if there is none."""
    newest: Any = connection.xrevrange(conf.key(STREAM), count=1)
    return _position(newest[0][0]) if newest else START


def reaches_back_to(connection: redis.Redis, position: Position) -> bool:
    """Whether nothing after the position has been cut off."""
    oldest: Any = connection.xrange(conf.key(STREAM), count=1)
    return bool(oldest) and _position(oldest[0][0]) <= position


def extent(connection: redis.Redis) -> tuple[Position, Position]:
    """The positions of the oldest and of the newest entry."""
    oldest: Any = connection.xrange(conf.key(STREAM), count=1)
    return (_position(oldest[0][0]) if oldest else START), end(connection)


def replay(connection: redis.Redis, after: Position, most: int = MOST_REPLAYED) -> Gap:
    """Raises TooOld; then only reading everything anew tells what has happened.

    A position from before the server's own start is too old as well: what was written last may not
    have survived it. So is one beyond the end, where a server has lost its data.
    """
    last = end(connection)
    if after == last:
        return Gap(found=(), to=last)
    if after > last or not reaches_back_to(connection, after) or _is_from_before(connection, after):
        raise TooOld(last)
    found: list[Entry | Uncounted] = []
    to, read_so_far = after, 0
    while True:
        page: Any = connection.xrange(conf.key(STREAM), min=f"({write(to)}", count=PAGE)
        read_so_far += len(page)
        if read_so_far > most:
            raise TooOld(last)
        if page:
            to = _position(page[-1][0])
            found += decode(page)
        if len(page) < PAGE:
            return Gap(found=found, to=to)


def decode(page: Sequence[Any]) -> list[Entry | Uncounted]:
    """The entries of an answer of Redis, without those that are not ours."""
    found = []
    for id, fields in page:
        one = read(_position(id), (fields or {}).get(b"event", b""))
        if one is not None:
            found.append(one)
    return found


def entries_of(answer: Any) -> list[Any]:
    """The entries in the answer to XREAD of one stream, whichever protocol is spoken."""
    pages = answer.values() if isinstance(answer, dict) else [page for _, page in answer or ()]
    found: list[Any] = []
    for page in pages:
        found += page[0] if page and isinstance(page[0], list) else page
    return found


def position_of(id: bytes) -> Position:
    return _position(id)


def _position(id: bytes) -> Position:
    return parse(id.decode())


def _is_from_before(connection: redis.Redis, position: Position) -> bool:
    try:
        uptime = int(connection.info("server")["uptime_in_seconds"])
        seconds, _ = connection.time()
    except (redis.ResponseError, KeyError):  # a service that does not tell
        return False
    return position[0] < (int(seconds) - uptime) * 1000
