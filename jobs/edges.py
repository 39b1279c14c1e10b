"""Who waits for whom: closing, settling and adding the edges between jobs.

What must always be true:
1. `Job.unmet_dependencies` is the number of the job's open edges. It changes only together with
   them, in one transaction, with the children locked in id order.
2. No edge is forgotten. An edge is written unsettled, in the transaction of whoever enqueues. Right
   after that commit, `settle` locks the parents and either sets `has_dependents` on them, so that
   the transaction which ends a parent closes the edge, or finds the parent ended and closes the
   edge itself. Both lock the parent's row first, so one of them always sees the other. What a crash
   leaves unsettled, the leader settles.
3. No caller's transaction ever holds a parent that has not completed: enqueueing a dependent cannot
   stall a completion.
4. Waiting is never circular. A new job has no dependents, so only an edge that is added to an
   existing job can close a circle: such edges are added one transaction at a time, under an
   advisory lock, after a walk up the open edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.answers import Child
from jobs.database import Database
from jobs.drafts import Draft, child_drafts, job_id
from jobs.errors import DependencyCycle, InvalidInput
from jobs.insertion import insert
from jobs.states import EdgeKind, Status

EDGE_LOCK = 0x436F707069636501
"""Key of the advisory lock under which edges are added to existing jobs."""

LOCK_CHILDREN = """
SELECT c.id FROM jobs_job c
WHERE c.id IN (
    SELECT d.child_id FROM jobs_jobdependency d
    WHERE d.parent_id = ANY(%(parents)s::uuid[]) AND d.state = 'open'
)
ORDER BY c.id FOR NO KEY UPDATE
"""

CLOSE = """
WITH ended AS (
    SELECT * FROM unnest(%(parents)s::uuid[], %(statuses)s::text[]) AS e (id, status)
), closed AS (
    UPDATE jobs_jobdependency d SET state = 'satisfied', settled = true
    FROM ended e, jobs_job c
    WHERE d.parent_id = e.id AND d.state = 'open' AND c.id = d.child_id
        AND (e.status = 'completed' OR d.kind = 'ended' OR c.on_parent_failure = 'run')
    RETURNING d.child_id
), counted AS (
    SELECT child_id, count(*) AS n FROM closed GROUP BY child_id ORDER BY child_id
)
UPDATE jobs_job c SET
    unmet_dependencies = c.unmet_dependencies - counted.n,
    due_at = CASE WHEN c.unmet_dependencies = counted.n AND c.due_at IS NOT NULL
        THEN greatest(c.due_at, clock_timestamp()) ELSE c.due_at END,
    updated_at = clock_timestamp()
FROM counted WHERE c.id = counted.child_id
RETURNING c.id::text, c.type, c.queue, c.unmet_dependencies, c.status, c.due_at <= clock_timestamp()
"""

# Children that asked to be cancelled when a parent fails, or that wait for a job that is gone.
CANCEL_CHILDREN = """
WITH ended AS (
    SELECT * FROM unnest(%(parents)s::uuid[], %(statuses)s::text[]) AS e (id, status)
    WHERE e.status <> 'completed'
), doomed AS (
    SELECT DISTINCT ON (c.id) c.id, e.id AS parent_id, e.status
    FROM ended e
    JOIN jobs_jobdependency d ON d.parent_id = e.id AND d.state = 'open'
    JOIN jobs_job c ON c.id = d.child_id
    WHERE c.status = 'pending' AND d.kind = 'completed'
        AND (c.on_parent_failure = 'cancel' OR (e.status = 'purged' AND c.on_parent_failure = 'wait'))
    ORDER BY c.id
), cancelled AS (
    UPDATE jobs_job c SET
        status = 'cancelled', cancelled_at = clock_timestamp(), updated_at = clock_timestamp(),
        last_error = 'dependency ' || doomed.parent_id || CASE doomed.status
            WHEN 'purged' THEN ' was purged' WHEN 'failed' THEN ' failed' ELSE ' was cancelled' END
    FROM doomed WHERE c.id = doomed.id AND c.status = 'pending'
    RETURNING c.id, c.type, c.queue, c.last_error, c.has_dependents
), logged AS (
    INSERT INTO jobs_joblog (job_id, at, event, from_status, to_status, level, message)
    SELECT id, clock_timestamp(), 'cancelled', 'pending', 'cancelled', 'warning', last_error
    FROM cancelled
)
SELECT id::text, type, queue, last_error, has_dependents FROM cancelled ORDER BY id
"""

# Satisfied edges hold nobody up, and go with their child.
FORGET_PARENTS = """
DELETE FROM jobs_jobdependency WHERE parent_id = ANY(%(parents)s::uuid[]) AND state = 'open'
"""

# Locks the parents in id order and tells them that somebody waits; answers how each stands. By id:
# somebody else may settle the same edges meanwhile, and only a row that is gone may be missing.
FLAG_PARENTS = """
WITH locked AS MATERIALIZED (
    SELECT p.id, p.status, p.has_dependents FROM jobs_job p
    WHERE p.id = ANY(%(parents)s::uuid[])
    ORDER BY p.id FOR NO KEY UPDATE
), flagged AS (
    UPDATE jobs_job p SET has_dependents = true
    FROM locked l WHERE p.id = l.id AND NOT l.has_dependents
)
SELECT id::text, status FROM locked
"""

UNSETTLED_PARENTS = """
SELECT DISTINCT parent_id::text FROM jobs_jobdependency
WHERE child_id = ANY(%(children)s::uuid[]) AND NOT settled
"""

MARK_SETTLED = """
UPDATE jobs_jobdependency SET settled = true
WHERE child_id = ANY(%(children)s::uuid[]) AND parent_id = ANY(%(parents)s::uuid[]) AND NOT settled
"""

# Jobs whose enqueuer died between its commit and its settling; younger ones are being settled.
LEFTOVERS = """
SELECT DISTINCT d.child_id::text
FROM jobs_jobdependency d JOIN jobs_job c ON c.id = d.child_id
WHERE NOT d.settled AND c.updated_at <= clock_timestamp() - %(age)s * interval '1 second'
LIMIT %(limit)s
"""

ADD_EDGES = """
INSERT INTO jobs_jobdependency (child_id, parent_id, kind, state, settled)
SELECT %(child)s::uuid, p.id, %(kind)s, 'open', false
FROM unnest(%(parents)s::uuid[]) AS p (id)
ON CONFLICT (child_id, parent_id) DO UPDATE SET
    state = 'open', settled = false, kind = excluded.kind
"""

COUNT_OPEN = """
UPDATE jobs_job c SET unmet_dependencies = (
    SELECT count(*) FROM jobs_jobdependency d WHERE d.child_id = c.id AND d.state = 'open'
), updated_at = clock_timestamp()
WHERE c.id = %(child)s::uuid AND c.status = 'pending'
RETURNING c.unmet_dependencies
"""

# Every job that the given ones wait for, directly or not. UNION drops what was seen already, so
# the walk ends even if the data held a circle.
ANCESTORS = """
WITH RECURSIVE above AS (
    SELECT unnest(%(parents)s::uuid[]) AS id
    UNION
    SELECT d.parent_id FROM above JOIN jobs_jobdependency d ON d.child_id = above.id
    WHERE d.state = 'open'
)
SELECT EXISTS (SELECT FROM above WHERE id = %(child)s::uuid)
"""

# Retention passes over rows that are locked. It does not see the edge before the caller's commit, and a
# parent that is gone by then counts as one that can never complete.
KEEP = """
SELECT FROM jobs_job WHERE id = ANY(%(ids)s::uuid[]) AND status = 'completed'
ORDER BY id FOR KEY SHARE
"""
KNOWN = "SELECT id::text FROM jobs_job WHERE id = ANY(%(ids)s::uuid[])"

CHILDREN_BY_KEY = """
SELECT child_key, id::text FROM jobs_job
WHERE parent_id = %(parent)s::uuid AND child_key = ANY(%(keys)s::text[])
"""

# Some of the open edges of each; the key of the table begins with the child.
BLOCKERS = """
SELECT c.id::text, d.parent_id::text, d.kind, p.type, p.status
FROM unnest(%(ids)s::uuid[]) AS c (id)
CROSS JOIN LATERAL (
    SELECT e.parent_id, e.kind FROM jobs_jobdependency e
    WHERE e.child_id = c.id AND e.state = 'open' ORDER BY e.parent_id LIMIT %(most)s
) d
LEFT JOIN jobs_job p ON p.id = d.parent_id
ORDER BY c.id, d.parent_id
"""


@dataclass(frozen=True, kw_only=True)
class Released:
    """A dependent that an ended parent freed, or took with it."""

    job_id: str
    type: str
    queue: str
    event: str
    """'released' or 'cancelled'."""
    reason: str = ""
    is_due: bool = True


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """One open edge: why a job is blocked."""

    job_id: str
    kind: str
    type: str
    """Empty when the parent no longer exists."""
    status: str


def close(database: Database, parents: Sequence[tuple[str, str]]) -> list[Released]:
    """Close the open edges of jobs that have ended; the caller holds their rows and a transaction.

    Takes (id, status) with the terminal status, or 'purged'. Goes on through dependents that are
    cancelled for it, so a whole chain ends in the caller's transaction.
    """
    released: list[Released] = []
    while parents:
        params = {"parents": [id for id, _ in parents], "statuses": [s for _, s in parents]}
        database.rows(LOCK_CHILDREN, params)
        for id, type, queue, unmet, status, is_due in database.rows(CLOSE, params):
            if unmet == 0 and status == Status.PENDING:
                released.append(
                    Released(
                        job_id=id, type=type, queue=queue, event="released", is_due=bool(is_due)
                    )
                )
        cancelled = []
        if any(status != Status.COMPLETED for _, status in parents):
            cancelled = database.rows(CANCEL_CHILDREN, params)
        released.extend(
            Released(job_id=id, type=type, queue=queue, event="cancelled", reason=reason)
            for id, type, queue, reason, _ in cancelled
        )
        parents = [
            (id, Status.CANCELLED) for id, _, _, _, has_dependents in cancelled if has_dependents
        ]
    return released


def purged(database: Database, parent_ids: Sequence[str]) -> list[Released]:
    """Settle the fate of those that wait for dead letters about to be deleted.

    A dependent that would wait for ever is cancelled with that reason; one that runs after a
    failure has been released long ago.
    """
    released = close(database, [(id, "purged") for id in parent_ids])
    database.run(FORGET_PARENTS, {"parents": list(parent_ids)})
    return released


def settle(database: Database, child_ids: Sequence[str]) -> list[Released]:
    """Make the parents of new edges know of them; in a transaction of its own, after the commit."""
    if not child_ids:
        return []
    with database.transaction():
        params = {"children": list(child_ids)}
        parents = sorted(row[0] for row in database.rows(UNSETTLED_PARENTS, params))
        if not parents:
            return []
        params["parents"] = parents
        found: dict[str, str] = dict(database.rows(FLAG_PARENTS, params))
        # Before the closing, and of these parents only: an edge that is added from now on, or to
        # another parent, is not seen here and must stay unsettled.
        database.run(MARK_SETTLED, params)
        ended = [(id, status) for id, status in found.items() if status in _ENDED]
        # A parent that was deleted since the edge was written can never complete.
        ended += [(id, "purged") for id in parents if id not in found]
        return close(database, sorted(ended))


def settle_leftovers(database: Database, limit: int = 500, *, age: float = 5.0) -> list[Released]:
    """Settle what enqueuers that died between commit and settling have left, `age` seconds ago."""
    children = [row[0] for row in database.rows(LEFTOVERS, {"limit": limit, "age": age})]
    return settle(database, children)


def add(
    database: Database,
    child_id: str,
    parent_ids: Iterable[str],
    *,
    kind: EdgeKind = EdgeKind.COMPLETED,
) -> int:
    """Make an existing pending job wait for others; inside the caller's transaction.

    Returns how many open edges the job has; `settle` it after the commit. Raises InvalidInput for
    unknown parents, DependencyCycle when one of them waits for this job, directly or not.
    """
    parents = sorted(set(parent_ids))
    if child_id in parents:
        raise DependencyCycle("a job cannot wait for itself", field="depends_on")
    check_known(database, parents)
    database.rows("SELECT pg_advisory_xact_lock(%(key)s)::text", {"key": EDGE_LOCK})
    if database.rows(ANCESTORS, {"parents": parents, "child": child_id})[0][0]:
        raise DependencyCycle(
            f"one of these jobs already waits for {child_id}: a circle", field="depends_on"
        )
    database.run(ADD_EDGES, {"child": child_id, "parents": parents, "kind": kind})
    rows = database.rows(COUNT_OPEN, {"child": child_id})
    return int(rows[0][0]) if rows else 0


def wait_for(database: Database, *, child_id: str, jobs: Sequence[Any]) -> list[Draft]:
    """Write what a returned WaitFor asks for, in the transaction that ends the attempt.

    Children that do not exist yet are inserted, once per parent and key, and returned. Raises InvalidInput
    (a cycle included), which the caller turns into that attempt's failure.
    """
    children = [item for item in jobs if isinstance(item, Child)]
    waited = [job_id(item, field="WaitFor") for item in jobs if not isinstance(item, Child)]
    made: list[Draft] = []
    if children:
        drafts = child_drafts(child_id, children)
        written = set(insert(database, drafts))
        made = [one for one in drafts if one.id in written]
        by_key: dict[str, str] = dict(
            database.rows(
                CHILDREN_BY_KEY, {"parent": child_id, "keys": [item.key for item in children]}
            )
        )
        waited.extend(by_key[item.key] for item in children)
    add(database, child_id, waited, kind=EdgeKind.ENDED)
    return made


def check_known(database: Database, ids: Sequence[str]) -> None:
    """Raise InvalidInput naming the first ids that are no job's; keep the completed from retention."""
    if not ids:
        return
    database.rows(KEEP, {"ids": list(ids)})
    found = {row[0] for row in database.rows(KNOWN, {"ids": list(ids)})}
    unknown = [id for id in ids if id not in found]
    if unknown:
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise InvalidInput(f"no such job: {shown}", field="depends_on")


def blocked_by(
    database: Database, ids: Sequence[str], *, most: int | None = None
) -> Mapping[str, list[Blocker]]:
    """For each blocked job, the jobs it waits for: all, or so many."""
    blockers: dict[str, list[Blocker]] = {}
    wanted = {"ids": list(ids), "most": most}
    for child, parent, kind, type, status in database.rows(BLOCKERS, wanted):
        blockers.setdefault(child, []).append(
            Blocker(job_id=parent, kind=kind, type=type or "", status=status or "purged")
        )
    return blockers


_ENDED = frozenset({Status.COMPLETED.value, Status.FAILED.value, Status.CANCELLED.value})
