"""The payload of a dead letter as JSON text, to be edited. Masks in it are `lifecycle`'s affair."""

from __future__ import annotations

import json
from typing import Any

from jobs.errors import InvalidInput

FIELD = "payload"


def text_of(payload: Any) -> str:
    return json.dumps(payload, indent=2, ensure_ascii=False)


def parse(text: str) -> Any:
    """The value of a JSON text. Raises InvalidInput with the line and the column."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"is not JSON: {error.msg.lower()} in line {error.lineno}, column {error.colno}",
            field=FIELD,
        ) from None
    except RecursionError:
        raise InvalidInput("is nested too deeply", field=FIELD) from None


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"is not JSON: {name} is no value", field=FIELD)
