"""Pages that are not about one model: a class, a template, and an entry in the navigation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View

from jobs import permissions
from jobs.console import navigation
from jobs.console.navigation import Entry
from jobs.console.words import sentence
from jobs.errors import Conflict, InvalidInput, NotFound

_pages: dict[str, type[Page]] = {}


class Page(View):
    """One page. GET shows `template` with `context()`; POST is for the subclass."""

    path: ClassVar[str] = ""
    """Below the site's address; may hold converters, as in `path()`."""
    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    template: ClassVar[str] = ""
    needs: ClassVar[str] = permissions.VIEW
    """The permission without which the page answers 403; empty: for all who come into the site."""

    site: AdminSite | None = None

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.require(self.needs)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        return self.render(self.context())

    def context(self) -> dict[str, Any]:
        """What the template is given, beside what every page has."""
        return {}

    def render(self, context: dict[str, Any], *, status: int = 200) -> TemplateResponse:
        assert self.site is not None
        whole = {**self.site.each_context(self.request), "title": self.title, **context}
        return TemplateResponse(self.request, self.template, whole, status=status)

    # For pages with forms

    @property
    def actor(self) -> str:
        """The name for logs and audit."""
        return str(self.request.user.get_username())

    def may(self, permission: str) -> bool:
        return bool(self.request.user.has_perm(permission))

    def require(self, permission: str) -> None:
        if permission and not self.may(permission):
            raise PermissionDenied

    @contextmanager
    def told(self, done: str) -> Iterator[None]:
        """Say `done` when the block ends well; say what stood in the way when it did not."""
        with telling(self.request, done):
            yield

    def back(self, name: str = "") -> HttpResponseRedirect:
        """To where the form says one came from (`next`), else to the page `name`, else here."""
        assert self.site is not None
        default = reverse(f"admin:{name}", current_app=self.site.name) if name else ""
        return back_to(self.request, default or self.request.path)


def add(entry: Entry | None = None) -> Callable[[type[Page]], type[Page]]:
    """Decorator: put the page on the site, and into the navigation if an entry is given."""

    def decorate(page: type[Page]) -> type[Page]:
        _pages[page.name] = page
        if entry is not None:
            url = entry.url or f"admin:{page.name}"
            needs = (page.needs if entry.needs == permissions.VIEW else "") or entry.needs
            navigation.add(replace(entry, url=url, needs=needs))
        return page

    return decorate


def urls(site: AdminSite) -> list[URLPattern]:
    return [
        path(page.path, site.admin_view(page.as_view(site=site)), name=page.name)
        for page in _pages.values()
    ]


@contextmanager
def telling(request: HttpRequest, done: str) -> Iterator[None]:
    """What people are told about an action: the outcome, or why nothing was changed."""
    try:
        yield
    except Conflict as error:
        messages.warning(request, f"Nothing was changed: {sentence(error)}")
    except NotFound as error:
        messages.warning(request, f"Nothing was changed: {error}. It may have been purged.")
    except InvalidInput as error:
        messages.error(request, f"Nothing was changed. {error}")
    else:
        if done:
            messages.success(request, done)


def back_to(request: HttpRequest, default: str) -> HttpResponseRedirect:
    """To the address in the form's `next`, if it is one of ours."""
    wanted = request.POST.get("next", "")
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return HttpResponseRedirect(wanted)
    return HttpResponseRedirect(default)
