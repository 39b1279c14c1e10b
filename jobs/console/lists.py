"""Lists of any length: a page is found by its place in an index, never by counting.

    @admin.register(AuditEntry)
    class AuditAdmin(KeysetAdmin):
        order = ("-at", "-id")       # an index has it; the last column is unique, none is null
        list_display = (...)

No COUNT, no OFFSET, and no statement longer than three seconds: a search that would take longer
ends with advice. Filters and search are those of the stock admin.
"""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from jobs.console import preferences
from jobs.console.admins import ConsoleAdmin
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.limits import limited
from jobs.models.preferences import ROWS as KNOWN_ROWS

SECONDS = 3.0
AFTER, BEFORE, ROWS = "after", "before", "rows"
SIZES = KNOWN_ROWS
PLACE = "~"
"""Between the values of a place."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The order of a list, and the place of a row in it."""

    order: tuple[str, ...]

    def place_of(self, row: Any) -> str:
        return PLACE.join(_written(getattr(row, name.lstrip("-"))) for name in self.order)

    def page(
        self, rows: QuerySet[Any], *, after: str, before: str, size: int
    ) -> tuple[list[Any], bool, bool]:
        """At most `size` rows, and whether there are newer and older ones."""
        names = [name.removeprefix("-") for name in self.order]
        turned = tuple(_turned(name) for name in self.order)
        if before:
            found = list(_behind(rows, turned, _values(rows, names, before))[: size + 1])
            more = len(found) > size
            return found[:size][::-1], more, True
        if after:
            rows = _behind(rows, self.order, _values(rows, names, after))
        found = list(rows.order_by(*self.order)[: size + 1])
        return found[:size], bool(after), len(found) > size


def _turned(name: str) -> str:
    return name[1:] if name.startswith("-") else f"-{name}"


def _behind(rows: QuerySet[Any], order: tuple[str, ...], place: list[Any]) -> QuerySet[Any]:
    """The rows behind a place. The first column is compared once more by itself: that is what the
    index understands; the rest is implied.
    """
    first, direction = order[0].removeprefix("-"), "lt" if order[0].startswith("-") else "gt"
    behind, same = Q(), Q()
    for name, value in zip(order, place, strict=True):
        column, side = name.removeprefix("-"), "lt" if name.startswith("-") else "gt"
        behind |= same & Q(**{f"{column}__{side}": value})
        same &= Q(**{column: value})
    return rows.filter(behind, **{f"{first}__{direction}e": place[0]}).order_by(*order)


def _values(rows: QuerySet[Any], names: list[str], place: str) -> list[Any]:
    parts = place.split(PLACE)
    if len(parts) != len(names):
        raise InvalidInput("is not the place of a page", field=AFTER)
    try:
        return [
            rows.model._meta.get_field(name).to_python(part)  # noqa: SLF001 - Django's own name for it
            for name, part in zip(names, parts, strict=True)
        ]
    except (ValidationError, ValueError):
        raise InvalidInput("is not the place of a page", field=AFTER) from None


def _written(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def size_of(request: HttpRequest, usual: int = 50) -> int:
    """How many rows a page has: as the address says (`rows=25`, 50 or 100), as the person has chosen,
    or as the list usually has.
    """
    asked = request.GET.get(ROWS, "")
    if asked.isdecimal() and len(asked) < 6 and int(asked) in SIZES:
        return int(asked)
    return preferences.of(request).rows or usual


class KeysetChangeList(ChangeList):
    """The stock change list, with pages found by place."""

    too_broad = False
    newer = older = newest = ""
    """Query strings of the neighbouring pages; empty where there is none."""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = dict(super().get_filters_params(params))
        for name in (AFTER, BEFORE, ROWS):
            found.pop(name, None)
        return found

    def get_results(self, request: HttpRequest) -> None:
        self.size = size_of(request)
        walk = Walk(order=self.model_admin.order)  # type: ignore[attr-defined]
        after, before = request.GET.get(AFTER, ""), request.GET.get(BEFORE, "")
        rows: list[Any] = []
        newer = older = False
        try:
            with limited(DjangoDatabase(), seconds=SECONDS):
                rows, newer, older = walk.page(
                    self.queryset, after=after, before=before, size=self.size
                )
        except TooBroad:
            self.too_broad = True
        except InvalidInput:
            with limited(DjangoDatabase(), seconds=SECONDS):
                rows, newer, older = walk.page(self.queryset, after="", before="", size=self.size)
        self.result_list = rows
        self.result_count = len(rows)
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = bool(rows)
        self.can_show_all = False
        self.multi_page = newer or older
        self.paginator = None
        self.newest = self.get_query_string(remove=[AFTER, BEFORE]) if newer else ""
        if rows and newer:
            place = walk.place_of(rows[0])
            self.newer = self.get_query_string({BEFORE: place, AFTER: None})
        if rows and older:
            place = walk.place_of(rows[-1])
            self.older = self.get_query_string({AFTER: place, BEFORE: None})

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return list(self.model_admin.order)  # type: ignore[attr-defined]

    def sizes(self) -> list[tuple[int, str, bool]]:
        """The page sizes to choose from, with their query strings, and which is in force."""
        return [
            (size, self.get_query_string({ROWS: size}, [AFTER, BEFORE]), size == self.size)
            for size in SIZES
        ]


class KeysetAdmin(ConsoleAdmin):
    order: ClassVar[tuple[str, ...]] = ("-id",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return self.order
