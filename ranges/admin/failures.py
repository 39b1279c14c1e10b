"""The keys that would not be processed: their list, the page of each, and those of one run."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.options import ActionLocation
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import conf, permissions
from jobs.admin.reading import cut, may_read
from jobs.console import confirming, navigation
from jobs.console.confirming import Question
from jobs.console.lists import KeysetAdmin, Walk
from jobs.errors import CoppiceError, InvalidInput
from jobs.templatetags.console import moment
from ranges import lifecycle
from ranges.admin import acting
from ranges.admin.scale import Scale
from ranges.models import RangeFailure, RangeRun
from ranges.states import FailureState

AROUND = 1 / 64
"""Of the range: what is shown around a failure."""
MOST = 1_000
"""Failures that one action is about."""
WALK = Walk(order=("-id",))
EVERYWHERE = [ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM]


@dataclass(frozen=True, kw_only=True)
class Row:
    failure: RangeFailure
    begin: float
    """The part of the range around it that is worth a look; nothing when both are 0."""
    end: float


def of_run(
    run: RangeRun,
    scale: Scale | None,
    state: FailureState,
    *,
    after: str,
    before: str,
    size: int,
) -> tuple[list[Row], bool, bool]:
    """Those of one state, and whether there are newer and older ones: an index has them so.

    Raises InvalidInput for what is no place.
    """
    failures = RangeFailure.objects.using(conf.get().database)
    wanted = failures.filter(run=run, state=state).defer("traceback")
    rows, newer, older = WALK.page(wanted, after=after, before=before, size=size)
    return [_row(failure, scale) for failure in rows], newer, older


def _row(failure: RangeFailure, scale: Scale | None) -> Row:
    if scale is None:
        return Row(failure=failure, begin=0.0, end=0.0)
    try:
        middle = scale.share(scale.position(failure.key, "key"))
    except InvalidInput:  # of keys that are read otherwise now
        return Row(failure=failure, begin=0.0, end=0.0)
    begin = min(max(0.0, middle - AROUND / 2), 1 - AROUND)
    return Row(failure=failure, begin=begin, end=begin + AROUND)


navigation.hide("ranges.rangefailure")


@admin.register(RangeFailure)
class RangeFailureAdmin(KeysetAdmin):
    list_display = ("id", "its_run", "keys", "items", "attempts", "state", "failed")
    list_filter = ("state",)
    list_select_related = ("run",)
    order: ClassVar[tuple[str, ...]] = ("-id",)
    actions = ("waive", "retry")

    def get_queryset(self, request: HttpRequest) -> QuerySet[RangeFailure]:
        return super().get_queryset(request).using(conf.get().database)

    @admin.display(description="keys")
    def keys(self, failure: RangeFailure) -> str:
        return cut(f"{failure.key} to before {failure.upto}" if failure.upto else failure.key, 80)

    @admin.display(description="run")
    def its_run(self, failure: RangeFailure) -> SafeString:
        url = self._page_of_run(failure)
        return format_html('<a href="{}">{}</a>', url, cut(failure.run.name, 60))

    @admin.display(description="failed")
    def failed(self, failure: RangeFailure) -> str:
        return moment(failure.created_at)

    @admin.display(description="resolved")
    def resolved(self, failure: RangeFailure) -> str:
        return moment(failure.resolved_at)

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[Any], Any]]:
        columns: list[str | Callable[[Any], Any]] = list(self.list_display)
        return [*columns, "error_line"] if may_read(request) else columns

    @admin.display(description="error")
    def error_line(self, failure: RangeFailure) -> str:
        return cut(failure.error, 80)

    @admin.display(description="traceback")
    def traceback_shown(self, failure: RangeFailure) -> SafeString:
        return format_html('<pre class="code">{}</pre>', failure.traceback or "-")

    def get_fields(self, request: HttpRequest, obj: RangeFailure | None = None) -> list[Any]:
        # The node is one of many numbers; its run says more.
        private = {"node"} if may_read(request) else {"node", "error", "traceback"}
        shown = {
            "run": "its_run",
            "traceback": "traceback_shown",
            "created_at": "failed",
            "resolved_at": "resolved",
        }
        names = [field.name for field in self.opts.concrete_fields if field.name not in private]
        return [shown.get(name, name) for name in names]

    def get_readonly_fields(
        self, request: HttpRequest, obj: RangeFailure | None = None
    ) -> list[str]:
        return self.get_fields(request, obj)

    # What may be done

    def has_control_permission(self, request: HttpRequest) -> bool:
        return self.may(request, permissions.CONTROL_RUN)

    @admin.action(permissions=["control"], description="Waive…", location=EVERYWHERE)
    def waive(self, request: HttpRequest, queryset: QuerySet[RangeFailure]) -> HttpResponse | None:
        """Close them by decision; the reason is kept with each."""
        ids = list(queryset.values_list("pk", flat=True)[:MOST])
        reason = confirming.reason(request)
        if not confirming.is_confirmed(request) or not reason:
            return self._ask_why(request, ids, asked=confirming.is_confirmed(request))
        count = 0
        for id in ids:
            try:
                lifecycle.waive(id, reason, by=request.user.get_username())
            except CoppiceError as error:
                messages.warning(request, str(error))
            else:
                count += 1
        if count:
            messages.success(
                request, f"{count:,} {'failure was' if count == 1 else 'failures were'} waived."
            )
        return None

    @admin.action(
        permissions=["control"],
        description="Retry all that is open in their runs",
        location=EVERYWHERE,
    )
    def retry(self, request: HttpRequest, queryset: QuerySet[RangeFailure]) -> HttpResponse | None:
        """Runs retry what failed as a whole: keys that failed together lie in one piece."""
        chosen = queryset.order_by("run_id").values_list("run_id", flat=True).distinct()
        runs = list(chosen[:MOST])
        if not confirming.is_confirmed(request):
            return self._ask_about_runs(request, list(queryset.values_list("pk", flat=True)), runs)
        failures = count = 0
        for id in runs:
            try:
                failures += lifecycle.retry_failed(id, by=request.user.get_username())
            except CoppiceError as error:
                messages.warning(request, str(error))
            else:
                count += 1
        if count:
            in_runs = f"{count:,} {'run' if count == 1 else 'runs'}"
            messages.success(
                request,
                f"{failures:,} {'failure is' if failures == 1 else 'failures are'} worked at again"
                f" in {in_runs}.",
            )
        return None

    def _ask_about_runs(
        self, request: HttpRequest, ids: list[int], runs: list[UUID]
    ) -> HttpResponse:
        in_runs = f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}"
        question = Question(
            title=f"Retry what failed in {in_runs}?",
            what=f"Works at {acting.open_failures(runs)} of {in_runs} again: all that is open there.",
            button="Retry what failed",
            back=request.get_full_path(),
            hidden=[("action", "retry"), *(("_selected_action", str(id)) for id in ids)],
            has_reason=False,
        )
        context = {"title": question.title, "question": question}
        return self.page(request, "admin/console/confirm.html", context)

    def _ask_why(self, request: HttpRequest, ids: list[int], *, asked: bool) -> HttpResponse:
        number = f"{len(ids):,} {'failure' if len(ids) == 1 else 'failures'}"
        question = Question(
            title=f"Waive {number}?",
            what=f"Closes {number} by decision: they count as settled, and are not tried again.",
            button="Waive",
            back=request.get_full_path(),
            hidden=[("action", "waive"), *(("_selected_action", str(id)) for id in ids)],
            problem="Say why: it is kept with each of them." if asked else "",
        )
        context = {"title": question.title, "question": question}
        return self.page(request, "admin/console/confirm.html", context)

    def _page_of_run(self, failure: RangeFailure) -> str:
        return reverse(
            "admin:ranges_rangerun_change",
            args=[failure.run_id],
            current_app=self.admin_site.name,
        )
