"""Pages of lists: numbered ones at the beginning, a cursor for the rest.

A cursor is a place in the order of the list, not a number of rows. So a walk shows each row once,
whatever is made or ends meanwhile, and the thousandth page costs what the first one does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from jobs import listing
from jobs.errors import InvalidInput
from jobs.walking import SORTABLE

PAGE, LIMIT, CURSOR = "page", "limit", "cursor"
SORT_BY, SORT_ORDER = "sort_by", "sort_order"
DEFAULT_LIMIT, LARGEST_LIMIT = 10, 50
SORT_NAMES = {"max_retries" if name == "max_attempts" else name: name for name in SORTABLE}

_NUMBER = re.compile(r"[1-9][0-9]{0,8}\Z")
_PLAIN_CURSOR = re.compile(r"[A-Za-z0-9_-]{1,400}\Z")


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
        raise InvalidInput(NO_CURSOR, field=CURSOR) from None
    return plain[0], plain[1:]


NO_CURSOR = "is not a cursor of this list"


class Paged(BasePagination):
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


class KeysetPagination(Paged):
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
                raise InvalidInput(NO_CURSOR, field=CURSOR)
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
        found = page_schema(schema)
        found["properties"].pop("previous")
        found["required"].remove("previous")
        return found

    def _value(self, model: type[Model], place: str) -> Any:
        try:
            column: Any = model._meta.get_field(self.ordering)  # noqa: SLF001
            return column.to_python(place)
        except Exception:  # noqa: BLE001 - each field has errors of its own
            return None


def page_schema(schema: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
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
