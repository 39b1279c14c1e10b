"""The small, varied workload: what `seed_jobs` makes, and how each of it should end."""

from __future__ import annotations

from collections.abc import Iterator

from examples.geonames.demo.workload import Progress
from jobs.models import Job
from jobs.seeding import plan, plant
from jobs.states import TERMINAL, Status


class Seeded:
    title = "Seeded jobs as expected"

    def __init__(self, count: int = 120, random_seed: int = 1) -> None:
        self.seeds = plan(count, random_seed)
        self.expected: dict[str, str] = {}

    def start(self) -> None:
        ids = plant(self.seeds)
        self.expected = {id: seed.expected for id, seed in zip(ids, self.seeds, strict=True)}

    def progress(self) -> Progress:
        statuses = self._statuses()
        done = sum(
            expected == Status.PENDING or statuses.get(id, "") in TERMINAL
            for id, expected in self.expected.items()
        )
        return Progress(done=done, total=len(self.expected))

    def findings(self) -> list[str]:
        return [*self._wrong_ends(), *self._unexpected_dead_letters()]

    def _wrong_ends(self) -> Iterator[str]:
        statuses = self._statuses()
        for (id, expected), seed in zip(self.expected.items(), self.seeds, strict=True):
            if (status := statuses.get(id, "gone")) != expected:
                yield f"Job {id} ({seed.type}: {seed.shows}) is {status} and should be {expected}."

    def _unexpected_dead_letters(self) -> Iterator[str]:
        """Dead letters of this run, seeded or not, that nobody foresaw."""
        first = min(self.expected)
        for id, type, error in (
            Job.objects.filter(status=Status.FAILED, id__gte=first)
            .exclude(metadata__expected=Status.FAILED)
            .values_list("id", "type", "last_error")[:5]
        ):
            yield f"Job {id} ({type}) is a dead letter: {error[:200]}"

    def _statuses(self) -> dict[str, str]:
        found = Job.objects.filter(id__in=list(self.expected)).values_list("id", "status")
        return {str(id): status for id, status in found}
