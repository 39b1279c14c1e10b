"""Write drafts into the job table: a few by INSERT, many by COPY.

Nothing here decides; `drafts.py` has checked every value, and the caller has the transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import batched
from typing import Any

import psycopg

from jobs.database import Database
from jobs.drafts import Draft

# An idle worker has a channel of its own, since waking all for one job would make all claim. The
# payload is empty: a notification is a hint, and its size is bounded.
_WAITING = """
SELECT 'coppice_' || replace(w.id::text, '-', '') AS channel FROM jobs_worker w
WHERE w.waiting AND w.state = 'running'
"""

WAKE = f"""
SELECT count(pg_notify(idle.channel, '')) FROM (
    {_WAITING} AND (w.queues = '[]'::jsonb OR jsonb_exists_any(w.queues, %(queues)s::text[]))
    ORDER BY random() LIMIT %(limit)s
) idle
"""

# One round trip: the row, and a wake-up for one idle worker that serves the queue.
INSERT_ONE = f"""
WITH made AS (
    INSERT INTO jobs_job (id, type, queue, payload, metadata, priority, max_attempts, scheduled_at,
        due_at, on_parent_failure, unmet_dependencies, unique_key, schedule_id, schedule_slot)
    VALUES (%s::uuid, %s, %s, %s::jsonb, %s::jsonb, %s, %s,
        coalesce(%s::timestamptz, statement_timestamp()),
        coalesce(%s::timestamptz, statement_timestamp()), %s, %s, %s, %s::uuid, %s::timestamptz)
    ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND status IN ('pending', 'processing')
        DO NOTHING
    RETURNING type, queue, scheduled_at, due_at, created_at, unmet_dependencies
), woken AS (
    SELECT count(pg_notify(idle.channel, '')) FROM (
        {_WAITING} AND (w.queues = '[]'::jsonb OR jsonb_exists(w.queues, (SELECT queue FROM made)))
        AND jsonb_exists(w.types, (SELECT type FROM made))
        AND (SELECT due_at <= statement_timestamp() AND unmet_dependencies = 0 FROM made)
        ORDER BY random() LIMIT 1
    ) idle
)
SELECT made.scheduled_at, made.due_at, made.created_at, woken.count FROM made, woken
"""

INSERT_MANY = """
INSERT INTO jobs_job (id, type, queue, payload, metadata, priority, max_attempts, scheduled_at,
    due_at, on_parent_failure, unmet_dependencies, has_dependents, unique_key, parent_id, child_key,
    schedule_id, schedule_slot)
SELECT r.id, r.type, r.queue, r.payload::jsonb, r.metadata::jsonb, r.priority, r.max_attempts,
    coalesce(r.scheduled_at, statement_timestamp()),
    coalesce(r.scheduled_at, statement_timestamp()),
    r.on_parent_failure, r.unmet, r.has_dependents, r.unique_key, r.parent_id, r.child_key,
    r.schedule_id, r.schedule_slot
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (
    id uuid, type text, queue text, payload text, metadata text, priority smallint,
    max_attempts integer, scheduled_at timestamptz, on_parent_failure text, unmet integer,
    has_dependents boolean, unique_key text, parent_id uuid, child_key text, schedule_id uuid,
    schedule_slot timestamptz
)
ORDER BY r.unique_key COLLATE "C", r.id
ON CONFLICT DO NOTHING
RETURNING id::text
"""

COPY_JOBS = (
    "COPY jobs_job (id, type, queue, payload, metadata, priority, max_attempts, scheduled_at, "
    "due_at, on_parent_failure, unmet_dependencies, has_dependents, parent_id, child_key) FROM STDIN"
)
COPY_JOBS_NOW = (
    "COPY jobs_job (id, payload, type, queue, metadata, priority, max_attempts, "
    "on_parent_failure, unmet_dependencies) FROM STDIN"
)
COPY_EDGES = "COPY jobs_jobdependency (child_id, parent_id, settled) FROM STDIN"

LIVE_BY_KEY = """
SELECT unique_key, id::text FROM jobs_job
WHERE unique_key = ANY(%(keys)s::text[]) AND status IN ('pending', 'processing')
"""

_CHUNK = 64 * 1024
_COPY = 1024 * 1024


def insert(database: Database, drafts: Sequence[Draft]) -> list[str]:
    """INSERT drafts in chunks, skipping those that meet a unique key, slot or child key of a live
    job; returns the ids that were written.
    """
    written: list[str] = []
    for chunk in batched(drafts, 1_000):
        rows = json.dumps([_columns(draft) for draft in chunk])
        written.extend(row[0] for row in database.rows(INSERT_MANY, {"rows": rows}))
    return written


def wake(database: Database, queues: Iterable[str], *, limit: int = 1_000) -> int:
    """Notify idle workers that serve one of these queues; returns how many."""
    names = sorted(set(queues))
    if not names:
        return 0
    return int(database.rows(WAKE, {"queues": names, "limit": limit})[0][0])


def live_by_key(database: Database, keys: Sequence[str]) -> dict[str, str]:
    """The ids of the live jobs that hold these unique keys."""
    return dict(database.rows(LIVE_BY_KEY, {"keys": list(keys)}))


def copy_jobs(connection: psycopg.Connection[Any], drafts: Iterable[Draft], now: str) -> None:
    """COPY drafts; `now` is the text of the moment for those without a time of their own."""
    with psycopg.Cursor(connection).copy(COPY_JOBS) as copy:
        for block in _blocks(_copy_line(draft, now) for draft in drafts):
            copy.write(block)


def copy_edges(connection: psycopg.Connection[Any], edges: Iterable[tuple[str, str, bool]]) -> None:
    """COPY edges given as (child, parent, settled)."""
    with psycopg.Cursor(connection).copy(COPY_EDGES) as copy:
        for block in _blocks(f"{c}\t{p}\t{'t' if s else 'f'}\n" for c, p, s in edges):
            copy.write(block)


def copy_alike(
    connection: psycopg.Connection[Any],
    rows: Iterable[tuple[str, str]],
    like: Draft,
    *,
    are_known: bool = False,
) -> None:
    """COPY jobs that differ by id and payload only; each is (id, JSON text).

    The columns that all share are escaped once, which is most of the time that a row takes. Rows
    that `are_known` go by one COPY, and the server writes some while the next are made. Others are
    asked for between one COPY and the next: where they come from may well be a query on this very
    connection, which has to wait for the end of a COPY.
    """
    tail = "\t".join(
        [
            _escape(like.type),
            _escape(like.queue),
            _escape(like.metadata),
            str(like.priority),
            str(like.max_attempts),
            like.on_parent_failure,
            str(len(like.depends_on)),
        ]
    )
    command = COPY_JOBS_NOW
    if like.scheduled_at is not None:
        command = command.replace(") FROM", ", scheduled_at, due_at) FROM")
        moment = like.scheduled_at.isoformat()
        tail += f"\t{moment}\t{moment}"
    end = f"\t{tail}\n"
    lines = (
        f"{id}\t{text if '\\' not in text else text.replace('\\', '\\\\')}{end}"
        for id, text in rows
    )
    pieces: Iterable[Iterable[str]] = ([block] for block in _blocks(lines, _COPY))
    if are_known:
        pieces = [_blocks(lines)]
    for blocks in pieces:
        with psycopg.Cursor(connection).copy(command.encode()) as copy:
            for block in blocks:
                copy.write(block)


def _blocks(lines: Iterable[str], least: int = _CHUNK) -> Iterator[str]:
    """Lines joined into blocks of a size that is worth a write."""
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= least:
            yield "".join(block)
            block.clear()
            size = 0
    if block:
        yield "".join(block)


def _copy_line(draft: Draft, now: str) -> str:
    moment = _time(draft.scheduled_at) or now
    return (
        "\t".join(
            [
                draft.id,
                _escape(draft.type),
                _escape(draft.queue),
                _escape(draft.payload),
                _escape(draft.metadata),
                str(draft.priority),
                str(draft.max_attempts),
                moment,
                moment,
                draft.on_parent_failure,
                str(len(draft.depends_on)),
                "t" if draft.has_dependents else "f",
                draft.parent_id or "\\N",
                _escape(draft.child_key) if draft.child_key is not None else "\\N",
            ]
        )
        + "\n"
    )


def _columns(draft: Draft) -> dict[str, Any]:
    return {
        "id": draft.id,
        "type": draft.type,
        "queue": draft.queue,
        "payload": draft.payload,
        "metadata": draft.metadata,
        "priority": draft.priority,
        "max_attempts": draft.max_attempts,
        "scheduled_at": _time(draft.scheduled_at),
        "on_parent_failure": draft.on_parent_failure,
        "unmet": len(draft.depends_on),
        "has_dependents": draft.has_dependents,
        "unique_key": draft.unique_key,
        "parent_id": draft.parent_id,
        "child_key": draft.child_key,
        "schedule_id": draft.schedule_id,
        "schedule_slot": _time(draft.schedule_slot),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _escape(text: str) -> str:
    """Text for COPY; JSON text has no raw tab or newline, but names and keys might."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text
