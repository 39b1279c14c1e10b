"""The page of the log, the lines that a page which follows asks for, and the file."""

from __future__ import annotations

from typing import Any, cast

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from jobs import conf, permissions, registry
from jobs.admin import files
from jobs.admin.events import asking, exporting, reading
from jobs.admin.events.asking import Ask
from jobs.admin.events.lines import shown
from jobs.admin.overview.log import LEVELS as TONES
from jobs.admin.overview.log import TOLD as TOLD_FACTS
from jobs.console import navigation, pages, sample
from jobs.console.lists import AFTER, ROWS, SIZES, size_of
from jobs.errors import TooBroad
from jobs.masking import Reader, reader

ENTRY = navigation.Entry(label="Events", order=80, icon="events", key="e")
FOLLOWED = 40
"""Lines that one look at the newest brings, at most."""
TEMPLATES = "admin/jobs/events"


class _LogPage(pages.Page):
    needs = permissions.VIEW

    def asked(self) -> tuple[Ask, Reader]:
        sees = reader(self.request.user)
        return asking.parse(self.request.GET.dict(), sees, size=size_of(self.request)), sees

    def address(self, name: str) -> str:
        assert self.site is not None
        return reverse(f"admin:{name}", current_app=self.site.name)


@pages.add(ENTRY)
class Events(_LogPage):
    path, name = "events/", "events"
    title, template = "Events", f"{TEMPLATES}/page.html"

    def context(self) -> dict[str, Any]:
        ask, sees = self.asked()
        listed = reading.read(ask)
        return {
            "ask": ask,
            "given": ask.given,
            "problems": ask.problems,
            "listed": listed,
            "rows": [shown(line, sees, listed.workers) for line in listed.lines],
            "may_read": sees.reads,
            "is_following": ask.is_newest and not listed.too_broad,
            "lines_url": f"{self.address('events_lines')}{ask.query(**{ROWS: ''})}",
            "list": self.address("events"),
            "files": _files(self.address("events_export"), ask, listed),
            "here": ask.here,
            "newest": "" if ask.is_newest else ask.query(),
            "topics": " ".join(asking.topics(ask)),
            "looked_at": reading.LOOKED_AT,
            "most": FOLLOWED,
            "levels": list(asking.CHOICES.items()),
            "events": asking.choices(),
            "types": registry.types(),
            "queues": [queue["name"] for queue in _sampled().get("queues", [])],
            "at": asking.moment_for_input(ask.at),
            "sizes": [(each, ask.query(**{ROWS: str(each)}), each == ask.size) for each in SIZES],
            "kept": _kept(conf.get().retention_days),
            "tones": TONES,
            "told": TOLD_FACTS,
        }


@pages.add()
class Lines(_LogPage):
    """The newest lines since one, as rows: what a page that follows puts into its own."""

    path, name = "events/lines/", "events_lines"
    template = f"{TEMPLATES}/lines_only.html"

    def context(self) -> dict[str, Any]:
        ask, sees = self.asked()
        since = self.request.GET.get("since", "")
        place = int(since) if since.isascii() and since.isdecimal() and len(since) < 19 else 0
        try:
            listed = reading.follow(ask, since=place, size=FOLLOWED)
        except TooBroad:
            listed = reading.Listed(too_broad=True, newest=place)
        rows = [shown(line, sees, listed.workers) for line in listed.lines]
        return {"rows": rows, "listed": listed}


@pages.add()
class Export(_LogPage):
    path, name = "events/export/", "events_export"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        kind = request.GET.get("format", "csv")
        if kind not in files.FORMATS:
            raise Http404
        ask, sees = self.asked()
        made = exporting.Export(ask=ask, reader=sees, kind=kind)
        return cast("HttpResponse", made.file().response(request))


def _files(address: str, ask: Ask, listed: reading.Listed) -> list[tuple[str, str]]:
    """The downloads: from the top of the page back, or from what is newest then."""
    place = {} if ask.is_newest or not listed.lines else {AFTER: str(listed.lines[0].id + 1)}
    return [(kind.upper(), f"{address}{ask.query(format=kind, **place)}") for kind in files.FORMATS]


def _kept(days: float) -> str:
    """For how long; "" for ever."""
    return f"{days:g} day{'' if days == 1 else 's'}" if days > 0 else ""


def _sampled() -> dict[str, Any]:
    found: dict[str, Any] = sample.current().get("jobs", {})
    return found
