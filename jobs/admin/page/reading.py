"""Everything that the page of a job shows, in a bounded number of indexed reads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString

from jobs import conf, permissions
from jobs.admin.page import acting, buttons, graph, timeline, tracebacks, trees
from jobs.console import links
from jobs.console.links import Link
from jobs.console.words import count
from jobs.database import DjangoDatabase
from jobs.limits import limited
from jobs.masking import Reader, reader
from jobs.models import Attempt, AuditEntry, Job, JobLog, Schedule, Worker
from jobs.reasons import why_not_running
from jobs.states import State

SECONDS = 3.0
ATTEMPTS = 50
LINES = 50
ENTRIES = 20
ACTIONS = frozenset(
    {
        "cancel_requested",
        "changed",
        "dependency_added",
        "payload_edited",
        "released",
        "retried",
        "run_now",
    }
)
"""What people did; other lines of the log may quote an error, or what a handler wrote."""
STANDING = (
    "status",
    "due_at",
    "next_retry_at",
    "unmet_dependencies",
    "cancel_requested_at",
)
"""What the state of a job is derived from."""


@dataclass(kw_only=True)
class AttemptShown:
    attempt: Attempt
    worker: str
    ran: float
    pieces: list[tracebacks.Piece] = field(default_factory=list)
    lines: list[JobLog] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Content:
    name: str
    label: str
    tree: SafeString
    is_whole: bool
    is_empty: bool


@dataclass(kw_only=True)
class JobPage:
    job: Job
    state: State
    now: datetime
    worker: str = ""
    schedule: str = ""
    holder: UUID | None = None
    """The live job that has its unique key."""
    reasons: list[str] = field(default_factory=list)
    force_in: float | None = None
    """Seconds until it may be marked lost; None: as it stands it may not."""
    steps: list[timeline.Step] = field(default_factory=list)
    attempts: list[AttemptShown] = field(default_factory=list)
    more_attempts: bool = False
    lines: list[JobLog] = field(default_factory=list)
    older_lines: int | None = None
    contents: list[Content] = field(default_factory=list)
    parents: list[Any] = field(default_factory=list)
    dependents: list[Any] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    is_graph_cut: bool = False
    drawing: graph.Drawing | None = None
    links: list[Link] = field(default_factory=list)
    history: list[AuditEntry] | None = None
    """None: the reader may not see the audit."""
    offered: buttons.Offered | None = None

    @property
    def seen(self) -> str:
        """What the row looked like: an action on another row asks again."""
        return acting.seen_of(self.job)

    @property
    def purge_question(self) -> str:
        """What goes with it, in numbers."""
        attempts = _number(len(self.attempts), "attempt", is_least=self.more_attempts)
        lines = _number(len(self.lines), "log line", is_least=bool(self.older_lines))
        waiting = len(self.dependents)
        more = ""
        if waiting:
            is_one = waiting == 1 and not self.is_graph_cut
            jobs = _number(waiting, "job", is_least=self.is_graph_cut)
            more = f", and cancel {jobs} that wait{'s' if is_one else ''} for it"
        return f"Delete it with {attempts} and {lines}{more}?"


def read(request: HttpRequest, id: UUID) -> JobPage | None:
    """None if there is no such job."""
    alias = conf.get().database
    database = DjangoDatabase()
    may_read = request.user.has_perm(permissions.VIEW_PAYLOAD)
    with limited(database, seconds=SECONDS) as seconds:
        job = Job.objects.using(alias).filter(id=id).first()
        if job is None:
            return None
        now = datetime.fromtimestamp(seconds, UTC)
        page = JobPage(job=job, state=job.state_at(seconds), now=now)
        page.reasons = why_not_running(database, job, seconds)
        page.force_in = _force_in(page)
        page.offered = buttons.offered(
            job, page.state, request.user.has_perm, may_force=page.force_in == 0
        )
        if not may_read and job.due_at is None and page.reasons:
            page.reasons = ["held"]
        _attempts_and_lines(request, page, may_read=may_read)
        _neighbours(page, database)
        if job.schedule_id:
            found = Schedule.objects.using(alias).filter(id=job.schedule_id)
            page.schedule = found.values_list("name", flat=True).first() or "a deleted schedule"
        if job.unique_key is not None and job.is_terminal:
            live = Job.objects.using(alias).live().filter(unique_key=job.unique_key)
            page.holder = live.values_list("id", flat=True).first()
        if request.user.has_perm(permissions.VIEW_AUDIT):
            entries = AuditEntry.objects.using(alias).filter(object_id=str(job.id))
            page.history = list(entries.order_by("-id")[:ENTRIES])
    if may_read:
        page.contents = contents(job, reader(request.user))
    page.links = [*_links(page, request), *links.of(job, request)]
    return page


def _number(number: int, noun: str, *, is_least: bool) -> str:
    """ "1 attempt", "2 attempts", "50+ attempts"."""
    return f"{count(number, is_least=is_least)} {noun}{'' if number == 1 and not is_least else 's'}"


def _force_in(page: JobPage) -> float | None:
    """At once when its worker shows no sign of life; after the grace time when it was asked to stop."""
    if page.state not in (State.RUNNING, State.CANCELLING):
        return None
    if page.reasons:
        return 0.0
    asked = page.job.cancel_requested_at
    if asked is None:
        return None
    grace = conf.get().grace_seconds
    return max(0.0, grace - (page.now - asked).total_seconds())


def contents(job: Job, who: Reader) -> list[Content]:
    found = []
    for name, label in (("payload", "Payload"), ("result", "Result"), ("metadata", "Metadata")):
        value = who.value(job.type, getattr(job, name))
        html, is_whole = trees.tree(value)
        is_empty = value in (None, {}, [])
        found.append(
            Content(name=name, label=label, tree=html, is_whole=is_whole, is_empty=is_empty)
        )
    return found


def _attempts_and_lines(request: HttpRequest, page: JobPage, *, may_read: bool) -> None:
    alias = conf.get().database
    job = page.job
    rows = list(
        Attempt.objects.using(alias).filter(job=job).order_by("-lease_epoch")[: ATTEMPTS + 1]
    )
    page.more_attempts = len(rows) > ATTEMPTS
    rows = rows[:ATTEMPTS]
    lines = JobLog.objects.using(alias).filter(job=job).order_by("-id")
    before = request.GET.get("log_before", "")
    if before.isdecimal() and len(before) < 19:
        lines = lines.filter(id__lt=int(before))
    found = list(lines[: LINES + 1])
    if len(found) > LINES:
        page.older_lines = found[LINES - 1].pk
    page.lines = found[:LINES]
    names = _names(job, rows, page.lines)
    page.worker = names.get(job.worker_id, "")
    of_attempt: dict[int | None, list[JobLog]] = defaultdict(list)
    for line in page.lines:
        line.worker_name = names.get(line.worker_id, "")  # type: ignore[attr-defined]
        if not may_read and line.event not in ACTIONS:
            line.message = ""
        if line.event == "log":
            of_attempt[line.attempt].append(line)
    for row in rows:
        if not may_read:
            row.error = row.traceback = ""
        page.attempts.append(
            AttemptShown(
                attempt=row,
                worker=names.get(row.worker_id, ""),
                ran=(row.finished_at - row.started_at).total_seconds(),
                pieces=tracebacks.pieces(row.traceback) if row.traceback else [],
                lines=[
                    line
                    for line in reversed(of_attempt[row.number])
                    if row.started_at <= line.at <= row.finished_at
                ],
            )
        )
    page.steps = timeline.steps(job, rows[::-1], page.state, page.now)


def _names(job: Job, attempts: list[Attempt], lines: list[JobLog]) -> dict[Any, str]:
    asked = [job.worker_id, *(row.worker_id for row in attempts), *(x.worker_id for x in lines)]
    ids = {id for id in asked if id is not None}
    if not ids:
        return {}
    found = Worker.objects.using(conf.get().database).filter(id__in=ids)
    return dict(found.values_list("id", "name"))


def _neighbours(page: JobPage, database: DjangoDatabase) -> None:
    id = str(page.job.id)
    around = graph.read(database, id)
    page.parents = around.parents_of(id)
    page.dependents = around.children_of(id)
    page.is_graph_cut = around.is_cut
    page.drawing = graph.draw(around, id)
    made = Job.objects.using(conf.get().database).filter(parent=page.job)
    rows = made.only("id", "type", "child_key", *STANDING).order_by("child_key")[: graph.LISTED + 1]
    seconds = page.now.timestamp()
    page.made = [(row, row.state_at(seconds)) for row in rows] if page.job.wait_count else []


def _links(page: JobPage, request: HttpRequest) -> list[Link]:
    job = page.job
    site = getattr(request, "current_app", None)
    ledger = reverse("admin:jobs_job_changelist", current_app=site)
    found = []
    if job.parent_id:
        url = reverse("admin:jobs_job_change", args=[job.parent_id], current_app=site)
        found.append(Link(label="Made by", text=f"job {str(job.parent_id)[-8:]}", url=url))
    if job.schedule_id:
        url = _address(site, "jobs_schedule_change", job.schedule_id)
        if url:
            found.append(Link(label="Schedule", text=page.schedule, url=url))
        query = urlencode({"state": "all", "schedule": str(job.schedule_id)})
        found.append(
            Link(label="Same schedule", text=f"jobs of {page.schedule}", url=f"{ledger}?{query}")
        )
    if page.state is State.DEAD and job.error_fingerprint:
        query = urlencode(
            {"state": "dead", "type": job.type, "error_fingerprint": job.error_fingerprint}
        )
        found.append(
            Link(
                label="Same error",
                text="dead letters of this type with this error",
                url=f"{ledger}?{query}",
            )
        )
    if page.holder is not None:
        url = reverse("admin:jobs_job_change", args=[page.holder], current_app=site)
        text = f"job {str(page.holder)[-8:]}"
        found.append(Link(label="Lives with its unique key", text=text, url=url))
    copied = job.metadata.get("copy_of") if isinstance(job.metadata, dict) else None
    if isinstance(copied, str):
        try:
            url = reverse("admin:jobs_job_change", args=[UUID(copied)], current_app=site)
        except ValueError:
            return found
        found.append(Link(label="Copy of", text=f"job {copied[-8:]}", url=url))
    return found


def _address(site: str | None, name: str, *arguments: Any) -> str:
    """Empty when the site has no such page."""
    try:
        return reverse(f"admin:{name}", args=arguments, current_app=site)
    except NoReverseMatch:
        return ""
