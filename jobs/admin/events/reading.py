"""Lines of the log in bounded time.

The log is written more often than anything else. It has an index for its ids, one for the lines of
a job, and a small one for warnings and what is graver; any other would cost each line that is
written. So whatever else is asked for is looked for among the next `LOOKED_AT` lines, and the page
says how far that was and goes on from there.

Ids rise with time but for the length of a transaction: a moment is found among them by halving.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.admin.events.asking import Ask
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.models import Worker

SECONDS = 3.0
LOOKED_AT = 50_000
"""The most lines that are looked at for one page."""
FARTHEST = 2**63 - 1
FOLLOWED_AT = 20_000
"""The same for a page that follows, each second."""
DATA_BYTES = 2_000
"""Larger data of a line is left to the API."""
MESSAGE_LENGTH = 2_000

# Which lines are walked over; each has an index in the order of the ids.
ALL, LOUD, OF_JOB = "", "AND l.level IN ('warning', 'error', 'critical')", "AND l.job_id = %(job)s"

# The inner LIMIT bounds the walk whatever the filters are: nothing passes it. Each job is looked up
# by itself, in the order of the walk, which ends as soon as a page is full.
LINES = """
SELECT w.id, w.job_id, w.at, w.level, w.event, w.attempt, w.worker_id, left(w.message, %(length)s),
    CASE WHEN pg_column_size(w.data) <= %(bytes)s AND octet_length(w.data::text) <= %(bytes)s
        THEN w.data::text END, j.type, j.queue
FROM (
    SELECT * FROM jobs_joblog l
    WHERE l.id < %(below)s AND l.id > %(above)s {walk} ORDER BY l.id {order} LIMIT %(most)s
) w LEFT JOIN LATERAL (
    SELECT type, queue FROM jobs_job WHERE id = w.job_id LIMIT 1
) j ON true
WHERE (%(levels)s::text[] IS NULL OR w.level = ANY(%(levels)s::text[]))
    AND (%(event)s::text IS NULL OR w.event = %(event)s::text)
    AND (%(patterns)s::text[] IS NULL OR w.message ILIKE ALL(%(patterns)s::text[]))
    AND (%(type)s::text IS NULL OR j.type = %(type)s::text)
    AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
ORDER BY w.id {order} LIMIT %(size)s
"""

# The last line that the walk looked at, and whether it would have gone on.
END = """
WITH last AS MATERIALIZED (
    SELECT w.id, w.at FROM (
        SELECT l.id, l.at FROM jobs_joblog l
        WHERE l.id < %(below)s AND l.id > %(above)s {walk} ORDER BY l.id {order} LIMIT %(most)s
    ) w ORDER BY w.id {back} LIMIT 1
)
SELECT last.id, last.at,
    EXISTS (SELECT FROM jobs_joblog l WHERE l.id {beyond} last.id {walk})
FROM last
"""

# The first line after a moment: between the oldest and the newest line, the half in which it must be
# is halved again.
FIND = """
WITH RECURSIVE steps (low, high) AS (
    SELECT (SELECT id FROM jobs_joblog ORDER BY id LIMIT 1),
        (SELECT id + 1 FROM jobs_joblog ORDER BY id DESC LIMIT 1)
    UNION ALL
    SELECT CASE WHEN probe.at > %(at)s THEN low ELSE probe.id + 1 END,
        CASE WHEN probe.at > %(at)s THEN low + (high - low) / 2 ELSE high END
    FROM steps CROSS JOIN LATERAL (
        SELECT l.id, l.at FROM jobs_joblog l
        WHERE l.id >= low + (high - low) / 2 ORDER BY l.id LIMIT 1
    ) probe
    WHERE low < high
)
SELECT low FROM steps WHERE low >= high
"""

NEWEST = "SELECT id FROM jobs_joblog ORDER BY id DESC LIMIT 1"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line as it is stored, with what its job is; nobody's view of it yet."""

    id: int
    job_id: UUID
    at: datetime
    level: str
    event: str
    attempt: int | None
    worker_id: UUID | None
    message: str
    data: str | None
    """JSON; None for none, and for more than is shown here."""
    type: str
    queue: str


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What a walk found."""

    lines: list[Line]
    end: int | None = None
    """Behind which it would go on; None: nothing follows."""
    looked_to: datetime | None = None
    """How far it looked, if it ended before it had found enough."""


NOTHING = Stretch(lines=[])
"""Neither a line nor anything behind it."""


@dataclass(kw_only=True)
class Listed:
    lines: list[Line] = field(default_factory=list)
    workers: dict[Any, str] = field(default_factory=dict)
    newer: str = ""
    older: str = ""
    """Query strings."""
    looked_to: datetime | None = None
    newest: int = 0
    """The newest line of all when this was read."""
    too_broad: bool = False

    @property
    def was_cut(self) -> bool:
        return self.looked_to is not None


def read(ask: Ask) -> Listed:
    """The page that is asked for, newest first."""
    database = DjangoDatabase()
    try:
        with limited(database, seconds=SECONDS):
            newest = _newest(database)
            if ask.before is not None:
                found = walk(database, ask, above=ask.before, is_back=True, size=ask.size + 1)
            else:
                place = ask.after if ask.after is not None else _found(database, ask.at)
                found = walk(database, ask, below=place, size=ask.size + 1)
        listed = _page(ask, found)
        listed.newest = newest
        listed.workers = names_of(listed.lines)
    except TooBroad:
        return Listed(too_broad=True)
    return listed


def follow(ask: Ask, *, since: int, size: int) -> Listed:
    """The newest lines that were written after one. Raises TooBroad."""
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        newest = _newest(database)
        found = walk(database, ask, above=since, size=size, most=FOLLOWED_AT, tells_end=False)
    return Listed(lines=found.lines, workers=names_of(found.lines), newest=newest)


def walk(
    database: DjangoDatabase,
    ask: Ask,
    *,
    below: int = FARTHEST,
    above: int = -1,
    is_back: bool = False,
    size: int,
    most: int | None = None,
    length: int = MESSAGE_LENGTH,
    tells_end: bool = True,
) -> Stretch:
    """At most `size` lines that match, of those between two; from the newest, or back to it."""
    walked = ALL
    if ask.job is not None:
        walked = OF_JOB
    elif ask.is_loud:
        walked = LOUD
    parts = (
        {"walk": walked, "order": "ASC", "back": "DESC", "beyond": ">"}
        if is_back
        else {"walk": walked, "order": "DESC", "back": "ASC", "beyond": "<"}
    )
    asked = {
        "below": below,
        "above": above,
        "most": most or LOOKED_AT,
        "size": size,
        "length": length,
        "bytes": DATA_BYTES,
        "job": ask.job,
        "levels": ask.levels,
        "event": ask.event,
        "patterns": ask.patterns,
        "type": ask.type,
        "queue": ask.queue,
    }
    lines = [_line(row) for row in database.rows(LINES.format(**parts), asked)]
    if len(lines) == size:
        return Stretch(lines=lines, end=lines[-1].id)
    if not (ask.narrows and tells_end):
        return Stretch(lines=lines)
    for id, at, more in database.rows(END.format(**parts), asked):
        if more:
            return Stretch(lines=lines, end=id, looked_to=at)
    return Stretch(lines=lines)


def names_of(lines: Iterable[Line]) -> dict[Any, str]:
    ids = {line.worker_id for line in lines if line.worker_id is not None}
    if not ids:
        return {}
    found = Worker.objects.using(conf.get().database).filter(id__in=ids)
    return dict(found.values_list("id", "name"))


def place_of(ask: Ask) -> int:
    """The line below which a walk for this address begins. Raises TooBroad."""
    if ask.after is not None:
        return ask.after
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        return _found(database, ask.at)


def _page(ask: Ask, found: Stretch) -> Listed:
    lines = found.lines[: ask.size]
    goes_on = len(found.lines) > ask.size or found.end is not None
    end = lines[-1].id if len(found.lines) > ask.size else found.end
    if ask.before is not None:
        lines = lines[::-1]
        newer: int | None = end if goes_on else None
        older: int | None = lines[-1].id if lines else ask.before + 1
    else:
        newer = None if ask.is_newest else lines[0].id if lines else _above(ask)
        older = end if goes_on else None
    return Listed(
        lines=lines,
        looked_to=found.looked_to,
        newer=ask.query(before=str(newer)) if newer is not None else "",
        older=ask.query(after=str(older)) if older is not None else "",
    )


def _above(ask: Ask) -> int | None:
    """Where a page without lines leads back from."""
    return ask.after - 1 if ask.after else None


def _found(database: DjangoDatabase, at: datetime | None) -> int:
    if at is None:
        return FARTHEST
    found = database.rows(FIND, {"at": at})
    return int(found[0][0]) if found else FARTHEST


def _newest(database: DjangoDatabase) -> int:
    found = database.rows(NEWEST, {})
    return int(found[0][0]) if found else 0


def _line(row: tuple[Any, ...]) -> Line:
    id, job_id, at, level, event, attempt, worker_id, message, data, type, queue = row
    return Line(
        id=id,
        job_id=job_id,
        at=at,
        level=level,
        event=event,
        attempt=attempt,
        worker_id=worker_id,
        message=message,
        data=data,
        type=type or "",
        queue=queue or "",
    )
