"""A run as a line of the list, and as numbers on its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobs.database import Database, DjangoDatabase
from ranges.admin.scale import written
from ranges.facts import bounds
from ranges.models import RangeRun
from ranges.progress import Progress, in_words, progress_of
from ranges.retrying import THRESHOLD_LEAST_ITEMS
from ranges.states import ENDED, RunStatus

# The keys of leaves at work. The other parts of a bar are in the sums that progress makes anyway.
AT_WORK = """
SELECT run_id::text, sum(resv - cur) FROM ranges_rangenode
WHERE state = 'running' AND run_id = ANY(%(runs)s::uuid[])
GROUP BY run_id
"""

KEY_TYPES = {
    "int": "whole number",
    "uuid": "UUID",
    "date": "date",
    "datetime": "moment",
    "decimal": "decimal number",
    "float": "number",
    "text": "text",
    "ids": "list of keys",
}
LEAST_LEAVES = 20
"""With fewer, how long it takes is a guess."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a bar, in hundredths of it."""

    kind: str
    start: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Row:
    run: RangeRun
    progress: Progress
    at_work: int

    @property
    def is_ended(self) -> bool:
        return self.run.status in ENDED

    @property
    def key_type(self) -> str:
        name = str(self.run.axis.get("type", ""))
        return KEY_TYPES.get(name, name)

    @property
    def bounds(self) -> tuple[str, str]:
        """The range in words; of a run that is not planned, what was asked for."""
        lo, hi = bounds(self.run)
        return (
            "the first key" if lo is None else written(lo),
            "the last key" if hi is None else written(hi),
        )

    @property
    def percent(self) -> str:
        """Never 100 before nothing is left."""
        if self.run.status == RunStatus.CREATED:
            return "0"
        found = self.progress.percent
        return "100" if found >= 100 else f"{min(found, 99.9):.1f}"

    @property
    def bar(self) -> list[Part]:
        """Done, passed over, failed, at work; what is empty is left."""
        known, total = self.progress, self.progress.total
        if not total:
            share = 0.0 if self.run.status == RunStatus.CREATED else known.percent
            return _parts([("done", share)])
        widths = (
            ("done", known.processed or 0),
            ("skipped", known.skipped or 0),
            ("failed", known.failed or 0),
            ("running", min(self.at_work, known.left or 0)),
        )
        return _parts([(kind, 100 * width / total) for kind, width in widths])

    @property
    def rate(self) -> float | None:
        is_running = self.run.status == RunStatus.RUNNING
        return self.progress.rows_per_second if is_running else None

    @property
    def eta(self) -> str:
        """ "about 4 min, at most 9 min"; empty: it has ended or not begun."""
        found = self.progress.eta_seconds
        if self.run.status not in (RunStatus.RUNNING, RunStatus.PAUSED) or not self.run.planned:
            return ""
        if found is None or self.progress.leaves < LEAST_LEAVES:
            return "unknown"
        likely, slow = in_words(found[0]), in_words(found[1])
        return f"about {likely}" if likely == slow else f"{likely} to {slow}"

    @property
    def retry_percent(self) -> float | None:
        known = self.progress
        return 100 * known.retries / known.attempts if known.attempts else None

    @property
    def counted(self) -> tuple[int, int]:
        """Items attempted and failed since the last resume: what the threshold looks at."""
        known, run = self.progress, self.run
        attempted = known.rows + known.rows_failed - run.forgiven_items
        return max(attempted, 0), max(known.rows_failed - run.forgiven_failures, 0)

    @property
    def failed_percent(self) -> float:
        attempted, failed = self.counted
        return 100 * failed / attempted if attempted else 0.0

    @property
    def failed_share(self) -> str:
        return _share(self.failed_percent)

    @property
    def is_near(self) -> bool:
        """More than half of what is allowed has failed."""
        allowed = self.run.failure_threshold
        return bool(allowed) and self.failed_percent > float(allowed or 0) / 2

    @property
    def threshold(self) -> str:
        """ "3.1 % of 5 % allowed (31 of 1,000 attempted): it pauses beyond 5 %."."""
        allowed = self.run.failure_threshold
        attempted, failed = self.counted
        found = f"{failed:,} of {attempted:,} attempted failed ({_share(self.failed_percent)})"
        if allowed is None:
            return f"{found}. Failures never stop it."
        if allowed == 0:
            return f"{found}. The first failure pauses it."
        if attempted < THRESHOLD_LEAST_ITEMS:
            return (
                f"{found}. It pauses beyond {allowed:g} %, once {THRESHOLD_LEAST_ITEMS} were tried."
            )
        share = _share(self.failed_percent)
        counts = f"{failed:,} of {attempted:,} attempted"
        return f"{share} of {allowed:g} % allowed ({counts}): it pauses beyond {allowed:g} %."


def rows(runs: Iterable[RangeRun], *, database: Database | None = None) -> list[Row]:
    """In as many statements as for one. A run that was deleted meanwhile is left out."""
    database = database or DjangoDatabase()
    wanted = list(runs)
    known = progress_of(wanted, database=database)
    running = [str(run.id) for run in wanted if run.status in (RunStatus.RUNNING, RunStatus.PAUSED)]
    found = database.rows(AT_WORK, {"runs": running}) if running else []
    at_work: dict[str, Any] = dict(found)
    return [
        Row(run=run, progress=known[str(run.id)], at_work=int(at_work.get(str(run.id)) or 0))
        for run in wanted
        if str(run.id) in known
    ]


def _parts(shares: list[tuple[str, float]]) -> list[Part]:
    """What is there is seen: at least half a hundredth wide."""
    found, start = [], 0.0
    for kind, share in shares:
        if share > 0:
            width = min(max(share, 0.5), 100 - start)
            found.append(Part(kind=kind, start=round(start, 2), width=round(width, 2)))
            start += width
    return found


def _share(percent: float) -> str:
    return "under 0.01 %" if 0 < percent < 0.01 else f"{percent:.3g} %"
