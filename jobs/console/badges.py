"""The badges of the navigation as JSON, for pages that are open."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from jobs.console import navigation, pages, sample


@pages.add()
class Badges(pages.Page):
    path, name = "badges/", "badges"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        assert self.site is not None
        sections = navigation.menu(request, self.site, sample.current())
        return JsonResponse(
            {
                link.entry.live: asdict(link.badge)
                for section in sections
                for link in section.links
                if link.badge is not None and link.entry.live
            }
        )
