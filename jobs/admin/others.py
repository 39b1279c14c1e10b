"""Schedules, to be looked at."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs.admin.reading import ReadOnlyAdmin, may_read, pretty
from jobs.console.navigation import Entry
from jobs.masking import masked
from jobs.models import Schedule


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    nav = Entry(label="Schedules", order=60, icon="schedules", key="s")
    list_display = ("name", "type", "queue", "rule", "enabled", "next_slot", "missed_count")
    list_filter = ("enabled",)
    search_fields = ("name",)

    @admin.display(description="rule")
    def rule(self, schedule: Schedule) -> str:
        if schedule.cron:
            return f"{schedule.cron} ({schedule.time_zone})"
        return schedule.recur_interval or f"every {schedule.interval_seconds} seconds"

    def get_fields(self, request: HttpRequest, obj: Schedule | None = None) -> list[Any]:
        private = () if may_read(request) else ("payload", "metadata", "last_error")
        fields = [field.name for field in self.opts.concrete_fields]
        return [
            f"{name}_shown" if name in ("payload", "metadata") else name
            for name in fields
            if name not in private
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Schedule | None = None) -> list[str]:
        return self.get_fields(request, obj)

    @admin.display(description="payload")
    def payload_shown(self, schedule: Schedule) -> SafeString:
        return pretty(masked(schedule.type, schedule.payload))

    @admin.display(description="metadata")
    def metadata_shown(self, schedule: Schedule) -> SafeString:
        return pretty(masked(schedule.type, schedule.metadata))
