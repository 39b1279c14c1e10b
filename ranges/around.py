"""The run around a lane: how it stands, and what the lane tells of it and to it."""

from __future__ import annotations

import time
from typing import Any

from jobs import conf, events, registry
from jobs.claim import Lane as JobLane
from jobs.claim import best_due, queues_with_work
from jobs.context import Context
from jobs.database import Database
from ranges import lifecycle
from ranges.held import Node, Standing
from ranges.loading import Loaded
from ranges.merging import merge
from ranges.nodes import Nodes
from ranges.retrying import crossed
from ranges.run_jobs import refill
from ranges.sampling import SAMPLE_SECONDS, take_sample
from ranges.states import RunStatus
from ranges.walking import Walker

PRIORITIES = (1, 2, 3)

STANDING = "SELECT status, concurrency FROM ranges_rangerun WHERE id = %(run)s::uuid"

TALLY = """
UPDATE ranges_rangerun SET
    probe_timeouts = probe_timeouts + %(timeouts)s, prune_errors = prune_errors + %(errors)s,
    probing = CASE WHEN %(blind)s AND probing = 'witness' THEN 'filter' ELSE probing END
WHERE id = %(run)s::uuid
"""


class Around:
    def __init__(
        self, loaded: Loaded, context: Context, index: int, database: Database, nodes: Nodes
    ) -> None:
        self.is_blind = loaded.is_blind
        """Probing was turned off for the run, by this lane or another."""
        self._loaded = loaded
        self._context = context
        self._index = index
        self._database = database
        self._nodes = nodes
        self._sampled_at = float("-inf")  # the table says whether somebody did just now

    # Whether to go on

    def standing(self) -> Standing:
        rows = self._database.rows(STANDING, {"run": self._loaded.run_id})
        if not rows:
            return Standing(RunStatus.CANCELLED, 0, False)
        return Standing(rows[0][0], rows[0][1], False)

    def goes_on(self, standing: Standing) -> bool:
        return standing.status == RunStatus.RUNNING and self._index < standing.concurrency

    def has_cause_to_stop(self) -> bool:
        return self._context.should_yield or not self.goes_on(self.standing())

    def others_wait(self) -> bool:
        """Whether a job of the lanes' rank, or of a better one, is due and has not been claimed."""
        settings = conf.get()
        best = best_due(
            self._database,
            [
                JobLane(queue, type, priority)
                for queue in queues_with_work(self._database)
                for type in registry.types()
                for priority in PRIORITIES
            ],
            aging_minutes=settings.aging_minutes,
            aging_step=settings.aging_step,
        )
        return best is not None and best <= self._loaded.run.priority

    def check_threshold(self) -> None:
        """Stop the run early when too much of what was tried has failed."""
        run = self._loaded.run
        run.refresh_from_db(fields=["forgiven_items", "forgiven_failures"])
        done, failed = self._nodes.attempted()
        if crossed(
            failed=failed - run.forgiven_failures,
            attempted=done + failed - run.forgiven_items,
            threshold=self._loaded.options.failure_threshold,
        ):
            lifecycle.halt(run.id, lifecycle.THRESHOLD)

    # What is told

    def note(self, walker: Walker) -> None:
        """Keep in the run what the walk could not find out."""
        turned_blind = walker.blind and not self.is_blind
        if not walker.has_tally and not turned_blind:
            return
        tally = walker.take_tally()
        timeouts = tally.probe_timeouts + tally.prune_timeouts
        if turned_blind or timeouts or tally.prune_errors:
            self.is_blind = walker.blind
            self._database.run(
                TALLY,
                {
                    "run": self._loaded.run_id,
                    "timeouts": timeouts,
                    "errors": tally.prune_errors,
                    "blind": walker.blind,
                },
            )

    def sample(self) -> None:
        """Every few seconds, one lane: what rates are made of, its events, fewer nodes, all lanes."""
        now = time.monotonic()
        if now - self._sampled_at < SAMPLE_SECONDS:
            return
        self._sampled_at = now
        if take_sample(self._database, self._loaded.run_id):
            merge(self._nodes)
            refill(self._loaded.run_id)
            done, failed = self._nodes.attempted()
            facts: dict[str, Any] = {
                "run_id": self._loaded.run_id,
                "done": done,
                "failed": failed,
            }
            events.emit("range.stats_updated", job_id=self._loaded.run.job_id, **facts)
            events.emit("range.metrics_updated", job_id=self._loaded.run.job_id, **facts)

    def emit(self, name: str, node: Node, **facts: Any) -> None:
        if events.wanted(name):
            events.emit(
                name,
                job_id=self._context.job_id,
                run_id=self._loaded.run_id,
                node_id=node.id,
                kind=str(node.kind),
                **facts,
            )
