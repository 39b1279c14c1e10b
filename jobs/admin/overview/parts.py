"""Parts of the overview alone, for pages that are open; and what the charts draw, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from jobs.admin.overview.figures import figures
from jobs.admin.overview.panels import span_of
from jobs.console import pages, panels
from jobs.errors import TooBroad
from jobs.texts import clean


@pages.add()
class Parts(pages.Page):
    """`?parts=cards,queues`; without a name all of them."""

    path, name = "overview/", "overview_parts"
    title, template = "Overview", "admin/jobs/overview/parts.html"

    def context(self) -> dict[str, Any]:
        names = {name for name in self.request.GET.get("parts", "").split(",") if name}
        return {"columns": panels.show(self.request, names)}


@pages.add()
class FiguresPage(pages.Page):
    """`?span=1h&queue=mail`"""

    path, name = "figures/", "figures"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        queue = clean(request.GET.get("queue", ""), 60)
        try:
            found = figures(span_of(request), queue=queue)
        except TooBroad:
            return JsonResponse({"detail": "It took longer than 3 s and was stopped."}, status=503)
        return JsonResponse(asdict(found))
