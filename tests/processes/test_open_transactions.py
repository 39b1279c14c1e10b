"""Transactions that a handler leaves open, in whatever way, on the session of its thread."""

from __future__ import annotations

import pytest

from tests.processes.harness import Shared

SLOTS = 1
"""Whatever runs after a careless handler runs where it ran."""


@pytest.mark.parametrize("then", ["return", "break", "autocommit", "by hand"])
def test_a_transaction_that_a_handler_leaves_open_ends_with_its_job(
    shared: Shared, then: str
) -> None:
    world = shared.world
    for _ in range(3):
        [careless] = world.enqueue_all(
            "prove.leave_open", 1, max_attempts=1, payload={"then": then}
        )
        after = world.enqueue_all("prove.effect", 3) + world.enqueue_all("prove.query", 3)
        world.all_ended()
        assert {world.status(job) for job in after} == {"completed"}
        # What it wrote inside is gone with the transaction that it never ended.
        assert (world.effects(careless, "before"), world.effects(careless, "inside")) == (1, 0)
    assert not world.rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND state LIKE 'idle in transaction%%'"
    )
    assert not shared.worker.logged("worker.ready")  # the same process all along
