"""Tries to sign in, counted in the database: per name, and per address they come from.

Each try is counted before the password is looked at, by one statement that also says whether it may
be made; so a hundred tries at the same moment are a hundred tries. The first tries are free; each
further one doubles the time until the next, up to a quarter of an hour. A right password takes its
own try back and forgets those of its name.

Rows hold a digest of the name, since people type their password there by mistake. All times are the
database's.
"""

from __future__ import annotations

import hashlib
import unicodedata

from jobs.addresses import household
from jobs.database import Database, DjangoDatabase

FREE_OF_NAME = 5
FREE_OF_ADDRESS = 20
"""More, as a whole office may share an address."""
LONGEST_SECONDS = 900
FORGOTTEN_AFTER_SECONDS = 86_400
ROWS_AT_ONCE = 10_000

NAME = "name:"
ADDRESS = "address:"

# One statement, so that what it counts and what it allows cannot come apart. The address comes
# before the name, here and below: nobody waits for another in a circle. A row that is blocked stays
# as it is and is not returned: impatience makes nobody wait longer.
COUNT_TRY = f"""
INSERT INTO jobs_loginfailure AS f (key, failures, first_at, blocked_until)
SELECT key, 1, clock_timestamp(), clock_timestamp()
FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS t (key, place) ORDER BY place
ON CONFLICT (key) DO UPDATE SET (failures, first_at, blocked_until) = (
    SELECT n.failures, n.first_at, clock_timestamp() + interval '1 second' * CASE
        WHEN n.failures <= n.free THEN 0
        ELSE least({LONGEST_SECONDS}, 2 ^ least(n.failures - n.free, 20)) END
    FROM (
        SELECT CASE WHEN old THEN 1 ELSE f.failures + 1 END AS failures,
            CASE WHEN old THEN clock_timestamp() ELSE f.first_at END AS first_at,
            CASE WHEN f.key LIKE '{NAME}%%' THEN {FREE_OF_NAME} ELSE {FREE_OF_ADDRESS} END AS free
        FROM (SELECT f.blocked_until < clock_timestamp()
            - interval '{FORGOTTEN_AFTER_SECONDS} seconds' AS old) AS o
    ) AS n
)
WHERE f.blocked_until <= clock_timestamp()
RETURNING f.key
"""
TAKE_BACK = """
UPDATE jobs_loginfailure SET failures = greatest(failures - 1, 0), blocked_until = clock_timestamp()
WHERE key = ANY(%(keys)s::text[]) AND key LIKE 'address:%%'
"""
FORGET = "DELETE FROM jobs_loginfailure WHERE key = ANY(%(keys)s::text[])"
FORGET_ALL = "DELETE FROM jobs_loginfailure"
PRUNE = """
DELETE FROM jobs_loginfailure WHERE key IN (
    SELECT key FROM jobs_loginfailure
    WHERE blocked_until < clock_timestamp() - %(seconds)s * interval '1 second'
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


def keys_of(name: str, address: str) -> list[str]:
    """The rows that a try counts in: the address first. Names that look alike are one name."""
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    digest = hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()
    return [*([f"{ADDRESS}{household(address)}"] if address else []), f"{NAME}{digest}"]


def count(keys: list[str]) -> bool:
    """Count a try; returns whether it may be made."""
    return len(DjangoDatabase().rows(COUNT_TRY, {"keys": keys})) == len(keys)


def take_back(keys: list[str]) -> None:
    """The try was good."""
    database = DjangoDatabase()
    database.run(TAKE_BACK, {"keys": keys})
    database.run(FORGET, {"keys": [key for key in keys if key.startswith(NAME)]})


def release(who: str) -> bool:
    """Forget the failures of a name or an address; returns whether there were any."""
    try:
        keys = [f"{ADDRESS}{household(who)}"]
    except ValueError:
        keys = keys_of(who, "")
    return bool(DjangoDatabase().run(FORGET, {"keys": keys}))


def release_all() -> int:
    return DjangoDatabase().run(FORGET_ALL, {})


def prune(database: Database) -> int:
    """Delete rows that no longer count."""
    return database.run(PRUNE, {"seconds": FORGOTTEN_AFTER_SECONDS, "limit": ROWS_AT_ONCE})
