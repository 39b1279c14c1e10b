"""Model pages in the console: who sees them, in whose shell, and nothing that reads a whole table."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst

from jobs import permissions
from jobs.console import navigation, preferences
from jobs.console.engine import dressed
from jobs.console.navigation import Entry
from jobs.console.shell import shell


class ConsoleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list and a page for each row, read-only; the same on any admin site.

    What may be seen and done follows from `jobs.permissions` alone, never from the permissions that
    Django makes for each table.
    """

    nav: ClassVar[Entry | None] = None
    """Where the list stands in the navigation; its `url` and `models` are filled in."""
    view_permission: ClassVar[str] = permissions.VIEW

    change_list_template = "admin/console/change_list.html"
    change_form_template = "admin/console/change_form.html"
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER  # each would count the table

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        if self.nav is not None:
            label = self.opts.label_lower
            place = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
            models = (*self.nav.models, label)
            needs = self.view_permission
            navigation.add(replace(self.nav, url=place, models=models, needs=needs))

    @property
    def urls(self) -> list[Any]:
        """On a site that is not the console each page is shown in its reader's zone by itself."""
        found: list[Any] = super().urls
        if not getattr(self.admin_site, "is_console", False):
            for each in found:
                each.callback = preferences.in_own_zone(each.callback)
        return found

    # Who

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(self.view_permission)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def require_view(self, request: HttpRequest) -> None:
        """What a page of this admin's own begins with. Raises PermissionDenied."""
        request.current_app = self.admin_site.name  # for every address on it
        if not self.has_view_permission(request):
            raise PermissionDenied

    def may(self, request: HttpRequest, permission: str) -> bool:
        return request.user.has_perm(permission)

    # In which shell

    def in_shell(
        self, request: HttpRequest, context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The context of a page of this admin, with the shell on whatever site it is."""
        found = context or {}
        if getattr(self.admin_site, "is_console", False):
            return found  # which puts it into every context
        return {"console": shell(request, self.admin_site), **found}

    def page(
        self, request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
    ) -> HttpResponse:
        """A page of this admin's own."""
        request.current_app = self.admin_site.name
        each = self.admin_site.each_context(request)
        whole = {**each, "opts": self.opts, **self.in_shell(request, context)}
        return dressed(TemplateResponse(request, template, whole, status=status))

    def address(self, name: str, *arguments: Any) -> str:
        """The address of a page of this admin: "changelist", "change" and its own ones."""
        place = f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}"
        return reverse(place, args=arguments, current_app=self.admin_site.name)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = {"title": self.nav.label if self.nav else capfirst(self.opts.verbose_name_plural)}
        context = self.in_shell(request, {**title, **(extra_context or {})})
        return dressed(super().changelist_view(request, context))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = self.in_shell(request, extra_context)
        return dressed(super().changeform_view(request, object_id, form_url, context))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = self.in_shell(request, extra_context)
        return dressed(super().history_view(request, object_id, context))
