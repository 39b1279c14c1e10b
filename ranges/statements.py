"""The SQL of nodes. Each statement exists twice: for ordinal positions and for text.

Text is compared by code point, so every position that comes from outside says COLLATE "C"; the
columns have that collation themselves.
"""

from __future__ import annotations

from string import Template

_ORDINAL = {
    "lo": "lo",
    "hi": "hi",
    "cur": "cur",
    "resv": "resv",
    "T": "numeric",
    "worked": "n.resv - n.cur",
    "skipped_behind": "least(%(lo)s::numeric, n.hi) - n.resv",
    "skipped_ahead": "least(%(lo)s::numeric, n.hi) - n.cur",
    "part": "%(upto)s::numeric - n.cur",
    "all": "n.hi - n.lo",
}
# The width of text is a projection, of no use to a ledger.
_TEXT = {
    "lo": "lo_key",
    "hi": "hi_key",
    "cur": "cur_key",
    "resv": "resv_key",
    "T": 'text COLLATE "C"',
    "worked": "0",
    "skipped_behind": "0",
    "skipped_ahead": "0",
    "part": "0",
    "all": "0",
}

# A lane holds its strand as long as its job is processing under the epoch that took it.
_LIVE = """
EXISTS (
    SELECT FROM jobs_job j
    WHERE j.id = n.owner_job AND j.status = 'processing' AND j.lease_epoch = n.owner_epoch
)
"""
# Whether the work on [cur, resv) was cut short by a death, or by whatever kept it from its end for
# longer than the hard time-out. A worker that was told to stop says so in the attempt.
_STRUCK = """
n.$resv > n.$cur AND (n.live OR EXISTS (
    SELECT FROM jobs_attempt a
    WHERE a.job_id = n.owner_job AND a.lease_epoch = n.owner_epoch
        AND a.outcome IN ('lost', 'timed_out', 'failed')
))
"""

_NODE = """
n.id, n.kind, n.depth, n.$lo, n.$hi, n.$cur, n.$resv, n.attempts, n.interrupted, n.leaves,
n.seconds_per_row, n.cells
"""
_FENCE = """
n.id = %(id)s AND n.owner_job = %(job)s::uuid AND n.owner_epoch = %(epoch)s AND n.state = 'running'
    AND n.$cur = %(cur)s::$T
"""

# Failing leaves go first (kind 'bisect' sorts before 'strand'), so that a run in which much fails
# shows it early. An orphan is taken only when nothing is pending.
CLAIM = f"""
WITH pending AS MATERIALIZED (
    SELECT n.id, n.$resv AS was, false AS struck FROM ranges_rangenode n
    WHERE n.run_id = %(run)s::uuid AND n.state = 'pending'
        AND (n.next_at IS NULL OR n.next_at <= clock_timestamp())
    ORDER BY n.kind, n.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
), orphan AS MATERIALIZED (
    SELECT n.id, n.$resv AS was, n.$cur, n.$resv, n.owner_job, n.owner_epoch, {_LIVE} AS live
    FROM ranges_rangenode n
    WHERE n.run_id = %(run)s::uuid AND n.state = 'running' AND NOT EXISTS (SELECT FROM pending)
        AND (NOT {_LIVE}
            OR n.progress_at < clock_timestamp() - %(hard)s::float8 * interval '1 second')
    ORDER BY n.kind, n.id LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED
), free AS (
    SELECT id, was, struck FROM pending
    UNION ALL
    SELECT n.id, n.was, {_STRUCK} FROM orphan n
)
UPDATE ranges_rangenode n SET
    state = 'running', owner_job = %(job)s::uuid, owner_epoch = %(epoch)s, $resv = n.$cur,
    interrupted = n.interrupted + free.struck::integer, next_at = NULL,
    claimed_at = clock_timestamp(), progress_at = clock_timestamp()
FROM free WHERE n.id = free.id
RETURNING {_NODE}, free.was, free.struck
"""

# Moves over [cur, lo), which needs no work, and takes [lo, upto) for the next leaf.
RESERVE = f"""
UPDATE ranges_rangenode n SET
    $cur = least(%(lo)s::$T, n.$hi), $resv = least(%(upto)s::$T, n.$hi),
    state = CASE WHEN %(lo)s::$T < n.$hi THEN 'running'
        WHEN n.leaves = 0 THEN 'skipped' ELSE 'done' END,
    owner_job = CASE WHEN %(lo)s::$T < n.$hi THEN n.owner_job END,
    owner_epoch = CASE WHEN %(lo)s::$T < n.$hi THEN n.owner_epoch END,
    finished_at = CASE WHEN %(lo)s::$T < n.$hi THEN NULL ELSE clock_timestamp() END,
    width_skipped = n.width_skipped + ($skipped_ahead),
    cells = coalesce(%(cells)s, n.cells), progress_at = clock_timestamp()
FROM ranges_rangerun r
WHERE {_FENCE} AND r.id = n.run_id
RETURNING n.$hi, n.$cur, n.$resv, n.state, r.status, r.concurrency
"""

# The leaf [cur, resv) is done; and, in the same statement, the same as RESERVE behind it.
COMMIT = f"""
UPDATE ranges_rangenode n SET
    $cur = least(%(lo)s::$T, n.$hi), $resv = least(%(upto)s::$T, n.$hi),
    state = CASE WHEN %(lo)s::$T < n.$hi THEN 'running' ELSE 'done' END,
    owner_job = CASE WHEN %(lo)s::$T < n.$hi THEN n.owner_job END,
    owner_epoch = CASE WHEN %(lo)s::$T < n.$hi THEN n.owner_epoch END,
    finished_at = CASE WHEN %(lo)s::$T < n.$hi THEN NULL ELSE clock_timestamp() END,
    rows_ok = n.rows_ok + %(rows)s, width_ok = n.width_ok + ($worked),
    width_skipped = n.width_skipped + ($skipped_behind),
    leaves = n.leaves + 1, attempts = 0, interrupted = 0, error = '',
    busy_seconds = n.busy_seconds + %(seconds)s,
    seconds_per_row = coalesce(%(pace)s, n.seconds_per_row),
    leaf_seconds = n.leaf_seconds || jsonb_build_object(%(bucket)s::text,
        coalesce((n.leaf_seconds ->> %(bucket)s::text)::bigint, 0) + 1),
    cells = coalesce(%(cells)s, n.cells), progress_at = clock_timestamp()
FROM ranges_rangerun r
WHERE {_FENCE} AND n.$resv = %(resv)s::$T AND r.id = n.run_id
RETURNING n.$hi, n.$cur, n.$resv, n.state, r.status, r.concurrency
"""

# Part of a leaf is done: [cur, upto), inside [cur, resv).
CHECKPOINT = f"""
UPDATE ranges_rangenode n SET
    $cur = %(upto)s::$T, rows_ok = n.rows_ok + %(rows)s, width_ok = n.width_ok + ($part),
    cells = coalesce(%(cells)s, n.cells), interrupted = 0, progress_at = clock_timestamp()
FROM ranges_rangerun r
WHERE {_FENCE} AND %(upto)s::$T > n.$cur AND %(upto)s::$T <= n.$resv AND r.id = n.run_id
RETURNING r.status
"""

RELEASE = f"""
UPDATE ranges_rangenode n SET
    state = 'pending', owner_job = NULL, owner_epoch = NULL, $resv = n.$cur,
    attempts = n.attempts + %(failures)s, retries = n.retries + %(failures)s,
    error = CASE WHEN %(error)s::text = '' THEN n.error ELSE %(error)s END,
    next_at = clock_timestamp() + %(delay)s::float8 * interval '1 second'
WHERE {_FENCE}
RETURNING n.attempts
"""

# Nodes whose owner is dead become free, so that a run which has come to rest shows nobody at work.
RELEASE_ORPHANS = f"""
WITH orphan AS MATERIALIZED (
    SELECT n.id, n.$cur, n.$resv, n.owner_job, n.owner_epoch, false AS live FROM ranges_rangenode n
    WHERE n.run_id = %(run)s::uuid AND n.state = 'running' AND NOT {_LIVE}
    ORDER BY n.id FOR NO KEY UPDATE OF n
), free AS (
    SELECT n.id, {_STRUCK} AS struck FROM orphan n
)
UPDATE ranges_rangenode n SET
    state = 'pending', owner_job = NULL, owner_epoch = NULL, $resv = n.$cur,
    interrupted = n.interrupted + free.struck::integer
FROM free WHERE n.id = free.id
RETURNING n.id
"""

HOLD = f"""
SELECT {_NODE}, n.parent_id, n.seconds_per_row, r.status
FROM ranges_rangenode n JOIN ranges_rangerun r ON r.id = n.run_id
WHERE {_FENCE} FOR NO KEY UPDATE OF n
"""

INSERT = """
INSERT INTO ranges_rangenode (run_id, parent_id, kind, state, depth, $lo, $hi, $cur, $resv,
    owner_job, owner_epoch, attempts, interrupted, next_at, rows_ok, rows_failed, width_ok,
    width_failed, leaves, retries, seconds_per_row, cells, error, traceback,
    error_fingerprint, claimed_at, progress_at, finished_at)
VALUES (%(run)s::uuid, %(parent)s, %(kind)s, %(state)s::text, %(depth)s, %(lo)s::$T, %(hi)s::$T,
    %(cur)s::$T, %(cur)s::$T, %(job)s::uuid, %(epoch)s, %(attempts)s, %(interrupted)s,
    clock_timestamp() + %(delay)s::float8 * interval '1 second', %(rows_ok)s, %(rows_failed)s,
    %(width_ok)s, %(width_failed)s, %(leaves)s, %(retries)s, %(pace)s, %(cells)s, %(error)s,
    %(traceback)s, %(fingerprint)s,
    CASE WHEN %(state)s::text = 'running' THEN clock_timestamp() END,
    CASE WHEN %(state)s::text = 'running' THEN clock_timestamp() END,
    CASE WHEN %(state)s::text IN ('done', 'skipped', 'error') THEN clock_timestamp() END)
RETURNING id
"""

# A node as it is to be; the caller holds it. Its [lo, hi) may only shrink.
REWRITE = """
UPDATE ranges_rangenode n SET
    kind = %(kind)s, state = %(state)s::text, depth = %(depth)s, $lo = %(lo)s::$T, $hi = %(hi)s::$T,
    $cur = %(cur)s::$T, $resv = %(cur)s::$T, owner_job = %(job)s::uuid, owner_epoch = %(epoch)s,
    attempts = %(attempts)s, interrupted = %(interrupted)s,
    next_at = clock_timestamp() + %(delay)s::float8 * interval '1 second',
    rows_ok = n.rows_ok + %(rows_ok)s, rows_failed = n.rows_failed + %(rows_failed)s,
    width_ok = n.width_ok + %(width_ok)s, width_failed = n.width_failed + %(width_failed)s,
    leaves = n.leaves + %(leaves)s, retries = n.retries + %(retries)s, cells = %(cells)s,
    error = %(error)s, traceback = %(traceback)s, error_fingerprint = %(fingerprint)s,
    progress_at = clock_timestamp(),
    finished_at = CASE WHEN %(state)s::text IN ('done', 'skipped', 'error') THEN clock_timestamp() END
WHERE n.id = %(id)s
"""

# Strands at work elsewhere. Never before the first commit of an epoch: what is known of its pace
# then is somebody else's.
VICTIMS = """
SELECT n.id, n.$hi, n.$resv, n.seconds_per_row, n.thefts,
    greatest(0, extract(epoch FROM n.cool_until - clock_timestamp()))::float8
FROM ranges_rangenode n
WHERE n.run_id = %(run)s::uuid AND n.state = 'running' AND n.kind = 'strand'
    AND n.$resv < n.$hi AND n.progress_at > n.claimed_at AND n.leaves > 0
ORDER BY n.id LIMIT 256
"""

# The victim learns its new end from its next commit; what it has reserved stays its own.
STEAL = """
WITH victim AS (
    UPDATE ranges_rangenode n SET
        $hi = %(at)s::$T, thefts = n.thefts + 1,
        cool_until = clock_timestamp() + %(cool)s::float8 * interval '1 second'
    WHERE n.id = %(victim)s AND n.state = 'running' AND n.$hi = %(hi)s::$T
        AND n.$resv < %(at)s::$T AND %(at)s::$T < n.$hi
    RETURNING n.id, n.run_id, n.depth, n.seconds_per_row
)
INSERT INTO ranges_rangenode AS n (run_id, parent_id, kind, state, depth, $lo, $hi, $cur, $resv,
    owner_job, owner_epoch, seconds_per_row, cells, claimed_at, progress_at)
SELECT v.run_id, v.id, 'strand', 'running', v.depth + 1, %(at)s::$T, %(hi)s::$T, %(at)s::$T,
    %(at)s::$T, %(job)s::uuid, %(epoch)s, v.seconds_per_row, %(cells)s,
    clock_timestamp(), clock_timestamp()
FROM victim v
RETURNING n.id
"""

# The open failures of a node come back as a node to be worked at again.
REVIVE = """
UPDATE ranges_rangenode n SET
    kind = 'bisect', state = 'pending', $cur = n.$lo, $resv = n.$lo, attempts = 0, interrupted = 0,
    next_at = NULL, rows_failed = 0, width_failed = 0, finished_at = NULL, cells = %(cells)s
WHERE n.id = %(id)s AND n.state = 'error'
"""

NODES = """
SELECT n.id, n.state, n.$lo, n.$hi FROM ranges_rangenode n
WHERE n.run_id = %(run)s::uuid AND n.state = ANY(%(states)s) ORDER BY n.$lo
"""

# Keys in a node that is done need work again; the row keeps what lies before them.
REOPEN = """
UPDATE ranges_rangenode n SET
    $hi = %(at)s::$T, $cur = %(at)s::$T, $resv = %(at)s::$T,
    cells = substring(n.cells FROM 1 FOR %(keep)s),
    width_skipped = greatest(0, n.width_skipped - %(width)s),
    width_ok = n.width_ok - greatest(0, %(width)s - n.width_skipped)
WHERE n.id = %(id)s AND n.state IN ('done', 'skipped') AND n.$lo < %(at)s::$T
"""
REOPEN_ALL = """
UPDATE ranges_rangenode n SET
    kind = 'strand', state = 'pending', $cur = n.$lo, $resv = n.$lo, next_at = NULL,
    attempts = 0, interrupted = 0, width_ok = 0, width_skipped = 0, finished_at = NULL
WHERE n.id = %(id)s AND n.state IN ('done', 'skipped')
"""

# Many finished neighbours become the first of them, with all that they counted.
FINISHED_COUNT = """
SELECT count(*) FROM ranges_rangenode n
WHERE n.run_id = %(run)s::uuid AND n.state IN ('done', 'skipped')
"""
HOLD_RUN = """
SELECT r.id FROM ranges_rangerun r
WHERE r.id = %(run)s::uuid AND r.status = 'running' FOR NO KEY UPDATE SKIP LOCKED
"""
FINISHED = """
SELECT n.id, n.state, n.$lo, n.$hi, n.cells FROM ranges_rangenode n
WHERE n.run_id = %(run)s::uuid AND n.state IN ('done', 'skipped')
ORDER BY n.$lo, n.$hi FOR NO KEY UPDATE
"""
MERGE = """
UPDATE ranges_rangenode n SET
    kind = 'strand', $hi = m.hi, $cur = m.hi, $resv = m.hi, depth = m.depth,
    rows_ok = m.rows_ok, rows_failed = m.rows_failed, width_ok = m.width_ok,
    width_skipped = m.width_skipped, width_failed = m.width_failed, leaves = m.leaves,
    retries = m.retries, fenced = m.fenced, thefts = m.thefts, busy_seconds = m.busy_seconds,
    created_at = m.created_at, claimed_at = m.claimed_at, progress_at = m.progress_at,
    finished_at = m.finished_at, cells = %(cells)s,
    leaf_seconds = (SELECT coalesce(jsonb_object_agg(b.bucket, b.leaves), '{}') FROM (
        SELECT each.key AS bucket, sum(each.value::bigint) AS leaves
        FROM ranges_rangenode o CROSS JOIN LATERAL jsonb_each_text(o.leaf_seconds) each
        WHERE o.id = ANY(%(ids)s::bigint[]) GROUP BY each.key) b)
FROM (
    SELECT max(o.$hi) AS hi, min(o.depth) AS depth, sum(o.rows_ok) AS rows_ok,
        sum(o.rows_failed) AS rows_failed, sum(o.width_ok) AS width_ok,
        sum(o.width_skipped) AS width_skipped, sum(o.width_failed) AS width_failed,
        sum(o.leaves) AS leaves, sum(o.retries) AS retries, sum(o.fenced) AS fenced,
        sum(o.thefts) AS thefts, sum(o.busy_seconds) AS busy_seconds,
        min(o.created_at) AS created_at, min(o.claimed_at) AS claimed_at,
        max(o.progress_at) AS progress_at, max(o.finished_at) AS finished_at
    FROM ranges_rangenode o WHERE o.id = ANY(%(ids)s::bigint[])
) m
WHERE n.id = %(id)s
"""
HAND_CHILDREN = """
UPDATE ranges_rangenode n SET parent_id = nullif(m.heir, n.id)
FROM unnest(%(gone)s::bigint[], %(heirs)s::bigint[]) m (gone, heir)
WHERE n.run_id = %(run)s::uuid AND n.parent_id = m.gone
"""
HAND_FAILURES = """
UPDATE ranges_rangefailure f SET node_id = m.heir
FROM unnest(%(gone)s::bigint[], %(heirs)s::bigint[]) m (gone, heir)
WHERE f.run_id = %(run)s::uuid AND f.node_id = m.gone
"""
REMOVE = """
DELETE FROM ranges_rangenode n WHERE n.run_id = %(run)s::uuid AND n.id = ANY(%(gone)s::bigint[])
"""

# Not about positions, so the same for both.
OPEN = """
SELECT count(*) FILTER (WHERE n.kind = 'bisect'), count(*),
    extract(epoch FROM min(n.next_at) FILTER (WHERE n.state = 'pending') - clock_timestamp())::float8
FROM ranges_rangenode n WHERE n.run_id = %(run)s::uuid AND n.state = 'pending'
UNION ALL
SELECT count(*) FILTER (WHERE n.kind = 'bisect'), count(*), NULL
FROM ranges_rangenode n WHERE n.run_id = %(run)s::uuid AND n.state = 'running'
"""
ATTEMPTED = """
SELECT coalesce(sum(rows_ok), 0)::bigint, coalesce(sum(rows_failed), 0)::bigint
FROM ranges_rangenode WHERE run_id = %(run)s::uuid
"""
FENCED = "UPDATE ranges_rangenode SET fenced = fenced + 1 WHERE id = %(id)s"

_NAMES = (
    "CLAIM", "RESERVE", "COMMIT", "CHECKPOINT", "RELEASE", "RELEASE_ORPHANS", "HOLD", "INSERT",
    "REWRITE", "VICTIMS", "STEAL", "REVIVE", "NODES", "REOPEN", "REOPEN_ALL",
    "FINISHED_COUNT", "HOLD_RUN", "FINISHED", "MERGE", "HAND_CHILDREN", "HAND_FAILURES", "REMOVE",
)  # fmt: skip


class Statements:
    """One kind's statements, by name in lower case."""

    def __init__(self, names: dict[str, str]) -> None:
        for name in _NAMES:
            setattr(self, name.lower(), Template(globals()[name]).substitute(names))

    def __getattr__(self, name: str) -> str:
        raise AttributeError(name)


ORDINAL = Statements(_ORDINAL)
TEXT = Statements(_TEXT)
