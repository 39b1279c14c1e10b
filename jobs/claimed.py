"""A claimed job, as the worker holds it in memory. Pure: no Django."""

from __future__ import annotations


class Claimed:
    """One claimed job. Mutable and slotted: the worker makes tens of thousands a second."""

    __slots__ = (
        "attempt",
        "claimed_at",
        "due_at",
        "id",
        "lease_epoch",
        "lost_count",
        "max_attempts",
        "payload",
        "place",
        "priority",
        "queue",
        "received",
        "type",
        "wait_count",
    )

    def __init__(
        self,
        id: str,
        type: str,
        queue: str,
        payload: str,
        priority: int,
        due_at: float,
        attempt: int,
        max_attempts: int,
        lease_epoch: int,
        lost_count: int,
        wait_count: int,
        claimed_at: float,
    ) -> None:
        self.id = id
        self.type = type
        self.queue = queue
        self.payload = payload  # JSON text; parsed where the handler runs
        self.priority = priority
        self.due_at = due_at  # epoch seconds, like claimed_at by the database's clock
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.lease_epoch = lease_epoch
        self.lost_count = lost_count
        self.wait_count = wait_count
        self.claimed_at = claimed_at
        self.received = 0.0  # time.monotonic() when the claim's answer came
        self.place = -1  # the job's entry in the table shared with the supervisor

    def __repr__(self) -> str:
        return f"<Claimed {self.type} {self.id} epoch {self.lease_epoch}>"
