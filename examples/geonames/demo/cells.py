"""The range: fill in a column of every city that lacks it, while everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection
from django.db.models import Q

from examples.geonames.demo.workload import Progress
from examples.geonames.models import City
from examples.geonames.range_jobs import BackfillCells, cell_of, write_cells
from jobs.models import Job
from jobs.states import LIVE
from ranges.models import RangeRun
from ranges.proof import verify
from ranges.states import ENDED, RunStatus

LATER = 3
"""The priority, as that of the countries: the two share the worker."""
MOST_FINDINGS = 5

DONE_BEFORE = Q(country__lt="FR")
"""About a third of the cities, in some thousand stretches of ids: the work of an earlier day."""


class Cells:
    title = "Cells, by a range job"

    def __init__(self) -> None:
        self.run: RangeRun | None = None

    def start(self) -> None:
        cities = City.objects.count()
        for run in RangeRun.objects.filter(name=BackfillCells.name, status=RunStatus.RUNNING):
            is_driven = Job.objects.filter(id__in=[run.job_id], status__in=LIVE).exists()
            if self.run is None and is_driven and run.metadata.get("cities") == cities:
                self.run = run
            else:
                run.cancel(reason="the demo begins anew")
        if self.run is None:
            self._forget_the_last_run()
            undone = City.objects.filter(cell="").count()
            facts = {"cities": cities, "undone": undone}
            self.run = BackfillCells.start(priority=LATER, metadata=facts)

    def progress(self) -> Progress:
        run = self._run_now()
        total: int = run.metadata["undone"]
        if run.status in ENDED or run.status == RunStatus.PAUSED:
            return Progress(done=total, total=total)
        # The last leaf done is not the end: the run proves itself after that.
        done = total - max(City.objects.filter(cell="").count(), 1)
        return Progress(done=done, total=total)

    def findings(self) -> list[str]:
        """Compare every cell with a plain computation, and have the database prove the rest."""
        run = self._run_now()
        found = list(self._wrong_cells())
        if len(found) > MOST_FINDINGS:
            found[MOST_FINDINGS:] = [f"... and {len(found) - MOST_FINDINGS:,} more like these."]
        if run.status != RunStatus.COMPLETED:
            found.append(f"Range run {run.id} is {run.status}: {run.reason}")
        verdict = verify(run)
        found += [f"Range run {run.id}: {problem}." for problem in verdict.problems]
        if verdict.rows_ok != run.metadata["undone"]:
            found.append(
                f"Range run {run.id} worked on {verdict.rows_ok:,} cities, "
                f"and {run.metadata['undone']:,} had no cell."
            )
        return found

    def _wrong_cells(self) -> Iterator[str]:
        cities = City.objects.values_list("id", "latitude", "longitude", "cell")
        for id, latitude, longitude, cell in cities.iterator(chunk_size=10_000):
            right = cell_of(latitude, longitude)
            if cell != right:
                yield f"City {id} has the cell {cell!r} and should have {right!r}."

    def _run_now(self) -> RangeRun:
        assert self.run is not None
        self.run.refresh_from_db()
        return self.run

    def _forget_the_last_run(self) -> None:
        City.objects.exclude(cell="").update(cell="")
        done = City.objects.filter(DONE_BEFORE).values_list("id", "latitude", "longitude")
        write_cells({id: cell_of(latitude, longitude) for id, latitude, longitude in done})
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE geonames_city")
