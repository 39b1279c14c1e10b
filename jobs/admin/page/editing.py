"""Edit the payload of a dead letter as JSON text, and retry it with that.

Who may not see a masked value edits around it: where the text still holds the mask, the value that
is stored stays. A mask that was moved elsewhere is refused, since nobody could tell what it means.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jobs.errors import InvalidInput
from jobs.masking import MASKED, hides, masked

FIELD = "payload"


def text_of(type: str, payload: Any, *, sees_all: bool) -> str:
    shown = payload if sees_all else masked(type, payload)
    return json.dumps(shown, indent=2, ensure_ascii=False)


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


def unmasked(type: str, edited: Any, stored: Any) -> Any:
    """The edited payload with what is stored wherever it holds a mask. Raises InvalidInput."""
    return _unmasked(edited, stored, hides(type), "")


def _unmasked(edited: Any, stored: Any, is_hidden: Callable[[str], bool] | None, path: str) -> Any:
    if isinstance(edited, dict):
        kept = stored if isinstance(stored, dict) else {}
        return {
            key: kept[key]
            if value == MASKED and key in kept and is_hidden is not None and is_hidden(key)
            else _unmasked(value, kept.get(key), is_hidden, f"{path}.{key}")
            for key, value in edited.items()
        }
    if isinstance(edited, list):
        items = stored if isinstance(stored, list) else []
        return [
            _unmasked(
                value, items[place] if place < len(items) else None, is_hidden, f"{path}.{place}"
            )
            for place, value in enumerate(edited)
        ]
    if edited == MASKED and is_hidden is not None:
        raise InvalidInput(
            f"{path.lstrip('.')} holds a mask that stands for no value there: write the value",
            field=FIELD,
        )
    return edited


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"is not JSON: {name} is no value", field=FIELD)
