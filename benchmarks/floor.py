"""The product's own statements on its own tables, without Python: what the database alone can do.

A procedure in the server claims and completes in a loop, with a commit after each, as the feeder
and the completer of a worker do. The statements are those of `jobs.claim` and `jobs.complete`; only
the claim's answer is gathered into arrays there, where a worker would have it sent.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg

from benchmarks.stage import Database
from jobs.claim import CLAIM, CLAIM_SESSION
from jobs.complete import COMPLETE, COMPLETE_SESSION

_ANSWER = "SELECT id::text, type"
_GATHERED = """
SELECT array_agg(id), array_agg(lease_epoch), extract(epoch FROM max(due_at))::float8,
    (array_agg(id ORDER BY due_at DESC, id DESC))[1]
INTO v_ids, v_epochs, v_mark_due, v_mark_id FROM claimed;
"""
_CLAIM_VALUES = {
    "queues": "ARRAY['default', 'default', 'default']",
    "types": "ARRAY[p_type, p_type, p_type]",
    "priorities": "ARRAY[1, 2, 3]",
    "mark_dues": "array_fill(v_mark_due, ARRAY[3])",
    "mark_ids": "array_fill(v_mark_id, ARRAY[3])",
    "limit": "p_limit",
    "worker": "p_worker",
    "aging_seconds": "600",
    "aging_step": "0.5",
}
_COMPLETE_VALUES = {
    "ids": "v_part",
    "epochs": "v_epochs[v_from:v_from + p_size - 1]",
    "waits": "array_fill(0::float8, ARRAY[cardinality(v_part)])",
    "runs": "array_fill(0::float8, ARRAY[cardinality(v_part)])",
    "results": "array_fill(NULL::jsonb, ARRAY[cardinality(v_part)])",
    "worker": "p_worker",
}
_PROCEDURE = """
CREATE OR REPLACE PROCEDURE benchmark_floor(
    p_worker uuid, p_type text, p_limit integer, p_size integer
) LANGUAGE plpgsql AS $procedure$
#variable_conflict use_column
DECLARE
    v_ids uuid[]; v_part uuid[]; v_epochs bigint[]; v_from integer;
    v_mark_due float8 := '-infinity'; v_mark_id uuid := '00000000-0000-0000-0000-000000000000';
    v_due float8; v_last uuid; v_count bigint; v_with text[];
BEGIN
    LOOP
        v_due := v_mark_due; v_last := v_mark_id;
        {claim}
        COMMIT;
        IF v_ids IS NULL THEN
            EXIT WHEN v_due = '-infinity';
            -- Rivals may have been passed over: once more from the beginning.
            v_mark_due := '-infinity'; v_mark_id := '00000000-0000-0000-0000-000000000000';
            CONTINUE;
        END IF;
        v_from := 1;
        WHILE v_from <= cardinality(v_ids) LOOP
            v_part := v_ids[v_from:v_from + p_size - 1];
            {complete}
            COMMIT;
            v_from := v_from + p_size;
        END LOOP;
    END LOOP;
END
$procedure$
"""


def install(database: Database) -> None:
    head, found, _ = CLAIM.rpartition(_ANSWER)
    assert found, "the claim's answer is asked for in other words now"
    claim = _with_values(head + _GATHERED, _CLAIM_VALUES)
    complete = _with_values(COMPLETE, _COMPLETE_VALUES) + " INTO v_count, v_with;"
    database.rows(_PROCEDURE.format(claim=claim, complete=complete))


def run(
    database: Database, type: str, *, connections: int, limit: int = 500, size: int = 500
) -> float:
    """Seconds until so many connections have claimed and completed every due job of a type.

    `limit` is the size of a claim, `size` how many completions share a transaction.
    """
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(lambda _: _call(database.url, type, limit, size), range(connections)))
    return time.perf_counter() - started


def _call(url: str, type: str, limit: int, size: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in dict.fromkeys((*CLAIM_SESSION, *COMPLETE_SESSION)):
            connection.execute(setting.encode())
        connection.execute(
            "CALL benchmark_floor(%s::uuid, %s, %s, %s)", [str(uuid4()), type, limit, size]
        )


def _with_values(sql: str, values: dict[str, str]) -> str:
    return re.sub(r"%\((\w+)\)s", lambda match: f"({values[match[1]]})", sql)
