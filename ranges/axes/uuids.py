"""UUIDs as 128-bit numbers, the first byte weighing most: the order of PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from jobs.errors import InvalidInput
from ranges.axes.base import OrdinalAxis, wrong_type

# UUID() would also take braces, urn: and dashes anywhere.
_WRITTEN = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class UUIDAxis(OrdinalAxis[UUID]):
    name: ClassVar[str] = "uuid"
    sql_type: ClassVar[str] = "uuid"
    first: ClassVar[int] = 0
    last: ClassVar[int] = 2**128 - 1

    def encode(self, key: UUID) -> int:
        return key.int

    def decode(self, ordinal: int) -> UUID:
        return UUID(int=self.require(ordinal))

    def validate(self, value: Any, field: str) -> UUID:
        if isinstance(value, UUID):
            return value
        if not isinstance(value, str):
            raise wrong_type("a UUID", value, field)
        if not _WRITTEN.fullmatch(value):
            raise InvalidInput("is not a UUID", field=field)
        return UUID(value)

    def to_json(self, key: UUID) -> str:
        return str(key)
