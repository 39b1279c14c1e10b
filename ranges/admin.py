"""Range runs and what failed in them, to be looked at; and what may be done to a run."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import ActionLocation
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs import permissions
from jobs.admin.reading import COUNTED, ReadOnlyAdmin, cut, may_read, pretty
from jobs.console import navigation
from jobs.console.navigation import Entry
from jobs.errors import CoppiceError
from jobs.masking import masked
from ranges import lifecycle
from ranges.models import RangeFailure, RangeRun
from ranges.progress import progress

EVERYWHERE = [ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM]
PRIVATE = ("params", "metadata")
SHOWN = ("params", "metadata", "axis", "leaf", "start_options", "verdict")
"""Columns of JSON, which are laid out."""


@admin.register(RangeRun)
class RangeRunAdmin(ReadOnlyAdmin):
    nav = Entry(label="Range runs", order=70, icon="ranges", key="r")
    list_display = ("id", "name", "status", "line", "queue", "created_at", "finished_at")
    list_filter = ("status",)
    search_fields = ("name",)
    ordering = ("-id",)
    list_per_page = 25
    """Each line is summed from the run's nodes."""
    actions = ("pause_runs", "resume_runs", "cancel_runs", "retry_failed")

    @admin.display(description="progress")
    def line(self, run: RangeRun) -> str:
        return cut(progress(run).line, 120)

    def get_fields(self, request: HttpRequest, obj: RangeRun | None = None) -> list[Any]:
        private = () if may_read(request) else PRIVATE
        names = [field.name for field in self.opts.concrete_fields if field.name not in private]
        return ["line", *(f"{name}_shown" if name in SHOWN else name for name in names)]

    def get_readonly_fields(self, request: HttpRequest, obj: RangeRun | None = None) -> list[str]:
        return self.get_fields(request, obj)

    @admin.display(description="params")
    def params_shown(self, run: RangeRun) -> SafeString:
        return pretty(masked(run.name, run.params))

    @admin.display(description="metadata")
    def metadata_shown(self, run: RangeRun) -> SafeString:
        return pretty(masked(run.name, run.metadata))

    @admin.display(description="axis")
    def axis_shown(self, run: RangeRun) -> SafeString:
        return pretty(run.axis)

    @admin.display(description="leaf")
    def leaf_shown(self, run: RangeRun) -> SafeString:
        return pretty(run.leaf)

    @admin.display(description="asked for at its start")
    def start_options_shown(self, run: RangeRun) -> SafeString:
        return pretty(run.start_options)

    @admin.display(description="verdict")
    def verdict_shown(self, run: RangeRun) -> SafeString | str:
        return "-" if run.verdict is None else pretty(run.verdict)

    # What may be done

    def has_control_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(permissions.CONTROL_RUN)

    @admin.action(permissions=["control"], description="Pause", location=EVERYWHERE)
    def pause_runs(self, request: HttpRequest, queryset: QuerySet[RangeRun]) -> None:
        _act(request, queryset, lifecycle.pause, "paused")

    @admin.action(permissions=["control"], description="Resume", location=EVERYWHERE)
    def resume_runs(self, request: HttpRequest, queryset: QuerySet[RangeRun]) -> None:
        _act(request, queryset, lifecycle.resume, "resumed")

    @admin.action(permissions=["control"], description="Cancel", location=EVERYWHERE)
    def cancel_runs(self, request: HttpRequest, queryset: QuerySet[RangeRun]) -> None:
        _act(request, queryset, lifecycle.cancel, "cancelled")

    @admin.action(permissions=["control"], description="Retry what failed", location=EVERYWHERE)
    def retry_failed(self, request: HttpRequest, queryset: QuerySet[RangeRun]) -> None:
        _act(request, queryset, lifecycle.retry_failed, "set to retry what failed")


navigation.hide("ranges.rangefailure")


@admin.register(RangeFailure)
class RangeFailureAdmin(ReadOnlyAdmin):
    list_display = ("id", "run", "keys", "items", "attempts", "state", "created_at")
    list_filter = ("state",)
    list_select_related = ("run",)
    ordering = ("-id",)

    @admin.display(description="keys")
    def keys(self, failure: RangeFailure) -> str:
        return cut(f"{failure.key} to before {failure.upto}" if failure.upto else failure.key, 80)

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[Any], Any]]:
        columns: list[str | Callable[[Any], Any]] = list(self.list_display)
        return [*columns, "error_line"] if may_read(request) else columns

    @admin.display(description="error")
    def error_line(self, failure: RangeFailure) -> str:
        return cut(failure.error, 80)

    def get_fields(self, request: HttpRequest, obj: RangeFailure | None = None) -> list[Any]:
        # The node is one of many numbers; its run says more.
        private = {"node"} if may_read(request) else {"node", "error", "traceback"}
        return [field.name for field in self.opts.concrete_fields if field.name not in private]

    def get_readonly_fields(
        self, request: HttpRequest, obj: RangeFailure | None = None
    ) -> list[str]:
        return self.get_fields(request, obj)


def _act(
    request: HttpRequest, queryset: QuerySet[RangeRun], call: Callable[..., Any], done: str
) -> None:
    """Each run by itself: one that refuses does not keep the others from it."""
    count = 0
    for id in list(queryset.values_list("pk", flat=True)[:COUNTED]):
        try:
            call(id, by=request.user.get_username())
        except CoppiceError as error:
            messages.warning(request, str(error))
        else:
            count += 1
    if count:
        messages.success(request, f"{count:,} {'run was' if count == 1 else 'runs were'} {done}.")
