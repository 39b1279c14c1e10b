"""What stands in the sidebar: entries of any app, for those who may see them, with live badges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from jobs import permissions

OPERATE = "Operate"
MANAGE = "Manage"
SITE = "Site"
"""Models of other apps, which no entry is about."""

Tone = Literal["", "good", "warn", "bad", "busy"]


@dataclass(frozen=True, kw_only=True)
class Badge:
    text: str
    tone: Tone = ""
    title: str = ""
    """The whole sentence, for screen readers and the pointer."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    label: str
    section: str = OPERATE
    order: int = 500
    url: str = ""
    """The name to reverse, such as "admin:jobs_job_changelist"; filled in by whoever registers it."""
    query: str = ""
    needs: str = permissions.VIEW
    icon: str = "dot"
    key: str = ""
    """After `g`, the key that goes there."""
    badge: Callable[[dict[str, Any]], Badge | None] | None = None
    """From the sample (sample.py); None: no badge."""
    live: str = ""
    """The name by which the script of the page knows the badge."""
    tone: Tone = ""
    """The colour of a badge that the script writes."""
    models: tuple[str, ...] = ()
    """The models ("app.name") that this entry stands for: they are not listed under Site."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry as one person sees it on one page."""

    entry: Entry
    url: str
    badge: Badge | None = None
    is_current: bool = False

    @property
    def may_have_badge(self) -> bool:
        return self.entry.badge is not None


@dataclass(frozen=True, kw_only=True)
class Section:
    name: str
    links: list[Link] = field(default_factory=list)


_entries: dict[str, Entry] = {}
_hidden: set[str] = set()


def add(entry: Entry) -> Entry:
    """Put an entry into the sidebar; the same address again replaces it."""
    _entries[entry.url + entry.query] = entry
    return entry


def remove(entry: Entry) -> None:
    _entries.pop(entry.url + entry.query, None)


def entries() -> list[Entry]:
    """All that were put into the sidebar, in their order."""
    return sorted(_entries.values(), key=lambda entry: (entry.order, entry.label))


def hide(*models: str) -> None:
    """Models that need no entry of their own ("ranges.rangefailure")."""
    _hidden.update(models)


def menu(request: HttpRequest, site: AdminSite, sample: dict[str, Any]) -> list[Section]:
    """The sections for this person, with what they are looking at marked."""
    links = [
        Link(entry=entry, url=url, badge=_badge(entry, sample))
        for entry in entries()
        if request.user.has_perm(entry.needs) and (url := address(site, entry))
    ]
    links = _mark(links, request, site)
    sections = [
        Section(name=name, links=[link for link in links if link.entry.section == name])
        for name in dict.fromkeys([OPERATE, MANAGE, *(link.entry.section for link in links)])
    ]
    sections.append(Section(name=SITE, links=_mark(_others(request, site), request, site)))
    return [section for section in sections if section.links]


def address(site: AdminSite, entry: Entry) -> str:
    """Where the entry leads on this site; empty when the site has no such page."""
    try:
        found = reverse(entry.url, current_app=site.name)
    except NoReverseMatch:
        return ""
    return f"{found}?{entry.query}" if entry.query else found


def _badge(entry: Entry, sample: dict[str, Any]) -> Badge | None:
    return entry.badge(sample) if entry.badge else None


def _mark(links: list[Link], request: HttpRequest, site: AdminSite) -> list[Link]:
    """The link with the longest address that the page's begins with is the current one."""
    index = reverse("admin:index", current_app=site.name)
    asked = request.META.get("QUERY_STRING", "").split("&")

    def leads_here(link: Link) -> bool:
        place, _, query = link.url.partition("?")
        if query:
            return request.path == place and query in asked
        return request.path == place or (place != index and request.path.startswith(place))

    best = max(filter(leads_here, links), key=lambda link: len(link.url), default=None)
    return [replace(link, is_current=True) if link is best else link for link in links]


def _others(request: HttpRequest, site: AdminSite) -> list[Link]:
    covered = _hidden.union(*(entry.models for entry in _entries.values()))
    apps: Iterable[Any] = site.get_app_list(request)
    return [
        Link(
            entry=Entry(label=str(model["name"]), section=SITE, icon="table"),
            url=model["admin_url"],
        )
        for app in apps
        for model in app["models"]
        if model["admin_url"] and model["model"]._meta.label_lower not in covered  # noqa: SLF001 - Django's own name for it
    ]
