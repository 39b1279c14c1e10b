"""Pages of lists: numbered ones at the beginning, a cursor for the rest.

A cursor is a place in the order of the list, not a number of rows. So a walk shows each row once,
whatever is made or ends meanwhile, and the thousandth page costs what the first one does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from jobs import listing
from jobs.errors import InvalidInput, TooBroad
from jobs.listing import Filters, Page, Sort
from jobs.walking import SORTABLE

PAGE, LIMIT, CURSOR = "page", "limit", "cursor"
SORT_BY, SORT_ORDER = "sort_by", "sort_order"
DEFAULT_LIMIT, LARGEST_LIMIT = 10, 50
SORT_NAMES = {"max_retries" if name == "max_attempts" else name: name for name in SORTABLE}

_NUMBER = re.compile(r"[1-9][0-9]{0,8}\Z")
_PLAIN_CURSOR = re.compile(r"[A-Za-z0-9_-]{1,400}\Z")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a request says about pages."""

    limit: int
    number: int | None
    """None: behind a cursor."""
    after: str | None = None
    before: str | None = None


def read_number(text: str | None, name: str, default: int, most: int) -> int:
    if text is None or text == "":
        return default
    if not _NUMBER.match(text) or int(text) > most:
        raise InvalidInput(f"must be a whole number from 1 to {most:,}", field=name)
    return int(text)


def write_cursor(direction: str, place: str) -> str:
    return base64.urlsafe_b64encode(f"{direction}{place}".encode()).rstrip(b"=").decode()


def read_cursor(text: str) -> tuple[str, str]:
    """The direction ("n" for next, "p" for previous) and the place."""
    try:
        if not _PLAIN_CURSOR.match(text):
            raise ValueError
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        if plain[:1] not in ("n", "p"):
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidInput(_NO_CURSOR, field=CURSOR) from None
    return plain[0], plain[1:]


_NO_CURSOR = "is not a cursor of this list"


class _Paged(BasePagination):
    """What both kinds of list have in common: parameters, links and the document."""

    names: ClassVar[tuple[str, ...]]

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:  # noqa: ARG002
        return [
            {"name": name, "in": "query", "required": False, **_PARAMETERS[name]}
            for name in self.names
        ]

    def link(self, **changed: str | int) -> str:
        """The address of another page of the same list."""
        url = self.request.build_absolute_uri()
        for name in (PAGE, CURSOR):
            url = remove_query_param(url, name)
        for name, value in changed.items():
            url = replace_query_param(url, name, value)
        return str(url)

    request: Request


class JobPagination(_Paged):
    """Of the list of jobs: `page` as far as jobs are counted, `cursor` without end."""

    names = (PAGE, LIMIT, CURSOR, SORT_BY, SORT_ORDER)

    def read(self, filters: Filters, request: Request) -> Page:
        """The page that the request asks for. Raises InvalidInput and TooBroad."""
        self.request = request
        self.filters = filters
        self.wanted = wanted = _wanted(request)
        try:
            self.page = listing.page(
                filters,
                after=wanted.after,
                before=wanted.before,
                limit=wanted.limit,
                offset=(wanted.number - 1) * wanted.limit if wanted.number else 0,
                sort=_sort(request),
            )
        except TooBroad:
            raise
        except InvalidInput as error:
            if error.field == "after":
                raise InvalidInput(_NO_CURSOR, field=CURSOR) from None
            raise
        return self.page

    def get_paginated_response(self, data: Sequence[Any]) -> Response:
        counted = self._count(len(data))
        return Response(
            {
                "count": counted.exact,
                "count_at_least": counted.at_least,
                "next": self._next(),
                "previous": self._previous(),
                "next_cursor": write_cursor("n", self.page.next) if self.page.next else None,
                "results": data,
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        count = {
            "type": "integer",
            "nullable": True,
            "description": f"How many match, up to {listing.COUNTED:,}; null for more.",
            "example": 1,
        }
        least = {"type": "integer", "description": "How many match at least.", "example": 1}
        return _page_schema(schema, count=count, count_at_least=least)

    def _count(self, shown: int) -> listing.Count:
        wanted = self.wanted
        before = ((wanted.number or 1) - 1) * wanted.limit
        if wanted.number and self.page.next is None and (shown or wanted.number == 1):
            return listing.Count(exact=before + shown, at_least=before + shown)
        counted = listing.count(self.filters)
        seen = before + shown + (self.page.next is not None) if shown else 0
        return counted if counted.at_least >= seen else listing.Count(exact=None, at_least=seen)

    def _next(self) -> str | None:
        if self.page.next is None:
            return None
        number, limit = self.wanted.number, self.wanted.limit
        if number and (number + 1) * limit <= listing.COUNTED:
            return self.link(page=number + 1)
        return self.link(cursor=write_cursor("n", self.page.next))

    def _previous(self) -> str | None:
        if self.wanted.number:
            return self.link(page=self.wanted.number - 1) if self.wanted.number > 1 else None
        if self.page.previous is None:
            return None
        return self.link(cursor=write_cursor("p", self.page.previous))


class KeysetPagination(_Paged):
    """Of any list with one column that is unique and orders it: newest first, by cursor only."""

    names = (LIMIT, CURSOR)
    ordering: ClassVar[str] = "id"

    def paginate_queryset(
        self,
        queryset: QuerySet[Any],
        request: Request,
        view: Any = None,  # noqa: ARG002
    ) -> list[Any]:
        self.request = request
        limit = read_number(request.query_params.get(LIMIT), LIMIT, DEFAULT_LIMIT, LARGEST_LIMIT)
        cursor = request.query_params.get(CURSOR)
        if cursor:
            direction, place = read_cursor(cursor)
            value = self._value(queryset.model, place) if direction == "n" else None
            if value is None:
                raise InvalidInput(_NO_CURSOR, field=CURSOR)
            queryset = queryset.filter(**{f"{self.ordering}__lt": value})
        rows = list(queryset.order_by(f"-{self.ordering}")[: limit + 1])
        self.more = len(rows) > limit
        rows = rows[:limit]
        self.last = getattr(rows[-1], self.ordering) if rows else None
        return rows

    def get_paginated_response(self, data: Sequence[Any]) -> Response:
        cursor = write_cursor("n", str(self.last)) if self.more else None
        return Response(
            {
                "next": self.link(cursor=cursor) if cursor else None,
                "next_cursor": cursor,
                "results": data,
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        found = _page_schema(schema)
        found["properties"].pop("previous")
        found["required"].remove("previous")
        return found

    def _value(self, model: type[Model], place: str) -> Any:
        try:
            column: Any = model._meta.get_field(self.ordering)  # noqa: SLF001
            return column.to_python(place)
        except Exception:  # noqa: BLE001 - each field has errors of its own
            return None


def _wanted(request: Request) -> Wanted:
    given = request.query_params
    limit = read_number(given.get(LIMIT), LIMIT, DEFAULT_LIMIT, LARGEST_LIMIT)
    cursor = given.get(CURSOR)
    if not cursor:
        number = read_number(given.get(PAGE), PAGE, 1, 10**9)
        if number * limit > listing.COUNTED:
            raise InvalidInput(
                f"goes beyond the first {listing.COUNTED:,}: follow next_cursor instead",
                field=PAGE,
            )
        return Wanted(limit=limit, number=number)
    if given.get(PAGE):
        raise InvalidInput("cannot be given together with cursor", field=PAGE)
    direction, place = read_cursor(cursor)
    if direction == "n":
        return Wanted(limit=limit, number=None, after=place)
    return Wanted(limit=limit, number=None, before=place)


def _sort(request: Request) -> Sort | None:
    by, order = request.query_params.get(SORT_BY), request.query_params.get(SORT_ORDER)
    if order and order not in ("asc", "desc"):
        raise InvalidInput("must be asc or desc", field=SORT_ORDER)
    if not by:
        if order:
            raise InvalidInput("is only for sort_by", field=SORT_ORDER)
        return None
    if by not in SORT_NAMES:
        raise InvalidInput(f"must be one of {', '.join(SORT_NAMES)}", field=SORT_BY)
    return Sort(by=SORT_NAMES[by], descending=order == "desc")


def _page_schema(schema: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    address = {"type": "string", "format": "uri", "nullable": True, "example": None}
    properties = {
        **more,
        "next": {**address, "description": "The next page; null on the last."},
        "previous": {**address, "description": "The page before."},
        "next_cursor": {
            "type": "string",
            "nullable": True,
            "description": "The `cursor` of the next page.",
            "example": None,
        },
        "results": schema,
    }
    return {"type": "object", "required": list(properties), "properties": properties}


_PARAMETERS: dict[str, dict[str, Any]] = {
    PAGE: {
        "schema": {"type": "integer", "minimum": 1},
        "description": f"A numbered page, within the first {listing.COUNTED:,} matches.",
    },
    LIMIT: {
        "schema": {
            "type": "integer",
            "minimum": 1,
            "maximum": LARGEST_LIMIT,
            "default": DEFAULT_LIMIT,
        },
        "description": "The most rows of a page.",
    },
    CURSOR: {
        "schema": {"type": "string"},
        "description": "Where to go on: the `next_cursor` of the page before, of the same list.",
    },
    SORT_BY: {
        "schema": {"type": "string", "enum": list(SORT_NAMES)},
        "description": "Another order than the newest first, of the newest 100,000 matches.",
    },
    SORT_ORDER: {
        "schema": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
        "description": "Only with `sort_by`.",
    },
}
