"""The console as an admin site: its shell, its errors, and the pages that apps add to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse

from jobs import permissions
from jobs.console import badges, pages, panels, preferences  # noqa: F401  badges is a page
from jobs.console.engine import dressed, rendered
from jobs.console.shell import environment, look, shell
from jobs.security.forms import SignInForm


class ConsoleSite(AdminSite):
    """The default admin site of a project (`jobs.console.config`), or one more beside another.

    Beside another it takes over what the default site has of the console's own pages.
    """

    is_console = True
    login_form = SignInForm
    site_title = "Coppice"
    site_header = "Coppice"
    index_title = "Overview"
    enable_nav_sidebar = False
    index_template = "admin/console/overview.html"
    app_index_template = "admin/console/app_index.html"
    logout_template = "admin/console/logged_out.html"

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if context["has_permission"]:
            context["console"] = shell(request, self)
        else:
            context["console"] = {"environment": environment()}
        return context

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        if not request.user.has_perm(permissions.VIEW):
            return super().index(request, extra_context)
        return super().index(request, {"columns": panels.show(request), **(extra_context or {})})

    def get_urls(self) -> list[Any]:
        self._take_over()
        return [*pages.urls(self), *super().get_urls()]

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        @wraps(view)
        def inside(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            request.current_app = self.name
            with preferences.in_force(request):
                try:
                    look(request)
                    answer: HttpResponseBase = view(request, *args, **kwargs)
                    return dressed(answer)
                except Http404:
                    return self.problem(request, status=404)
                except PermissionDenied:
                    return self.problem(request, status=403)

        guarded = super().admin_view(inside, cacheable)

        @wraps(guarded)
        def outside(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                return guarded(request, *args, **kwargs)
            except (OperationalError, InterfaceError):
                return unavailable()

        return outside

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return dressed(super().login(request, extra_context))
        except (OperationalError, InterfaceError):
            return unavailable()

    def logout(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """The page afterwards is for nobody: no menu, nothing live."""
        nobody = {"console": {"environment": environment()}}
        return dressed(super().logout(request, {**nobody, **(extra_context or {})}))

    def problem(self, request: HttpRequest, *, status: int, **context: Any) -> TemplateResponse:
        """A page that cannot be shown, in the shell: 404 or 403."""
        title = {404: "There is no such page", 403: "You may not see this"}[status]
        whole = {**self.each_context(request), "title": title, "status": status, **context}
        name = "admin/console/problem.html"
        return dressed(TemplateResponse(request, name, whole, status=status))

    def _take_over(self) -> None:
        from jobs.console.admins import ConsoleAdmin

        if admin.site is self or getattr(admin.site, "_wrapped", None) is self:
            return
        for model, registered in list(admin.site._registry.items()):  # noqa: SLF001 - no other way
            if isinstance(registered, ConsoleAdmin) and not self.is_registered(model):
                self.register(model, type(registered))


def unavailable() -> HttpResponse:
    """The database is away: nothing is asked of it for this page."""
    response = HttpResponse(rendered("admin/console/unavailable.html", {}), status=503)
    response["Retry-After"] = "5"
    response["Cache-Control"] = "no-store"
    return response
