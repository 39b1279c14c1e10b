"""Pages of the list of jobs: `page` as far as jobs are counted, `cursor` without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import listing
from jobs.api.pagination import (
    CURSOR,
    DEFAULT_LIMIT,
    LARGEST_LIMIT,
    LIMIT,
    NO_CURSOR,
    PAGE,
    SORT_BY,
    SORT_NAMES,
    SORT_ORDER,
    Paged,
    page_schema,
    read_cursor,
    read_number,
    write_cursor,
)
from jobs.errors import InvalidInput, TooBroad
from jobs.listing import Filters, Page, Sort


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a request says about pages."""

    limit: int
    number: int | None
    """None: behind a cursor."""
    after: str | None = None
    before: str | None = None


class JobPagination(Paged):
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
                raise InvalidInput(NO_CURSOR, field=CURSOR) from None
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
        return page_schema(schema, count=count, count_at_least=least)

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
