"""A job that is to be: every value checked, nothing written yet.

All ways in (Python, REST, command line, schedules, children) build drafts, so a bad value is
refused with the same words everywhere, and before anything is stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from jobs import conf, registry
from jobs.answers import Child
from jobs.errors import InvalidInput
from jobs.ids import new_id
from jobs.moments import parse_moment
from jobs.payloads import check_json, check_text
from jobs.registry import QUEUE_NAME, Handler
from jobs.states import OnParentFailure

MAX_PARENTS = 10_000
CHILD_OPTIONS = frozenset(
    {"queue", "priority", "max_attempts", "metadata", "scheduled_at", "on_parent_failure"}
)


@dataclass(slots=True, kw_only=True)
class Draft:
    """One row of `jobs_job` before it exists. Texts of JSON are checked and compact."""

    type: str
    payload: str
    queue: str = "default"
    metadata: str = "{}"
    priority: int = 2
    max_attempts: int = 3
    scheduled_at: datetime | None = None
    """None: the database's now."""
    on_parent_failure: str = OnParentFailure.WAIT
    unique_key: str | None = None
    depends_on: Sequence[str] = ()
    parent_id: str | None = None
    child_key: str | None = None
    schedule_id: str | None = None
    schedule_slot: datetime | None = None
    has_dependents: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one call says about all the jobs it enqueues, checked once."""

    handler: Handler
    queue: str
    priority: int
    max_attempts: int
    metadata: str
    scheduled_at: datetime | None
    on_parent_failure: str
    depends_on: tuple[str, ...]


def check_options(
    type: str,
    *,
    queue: Any = None,
    priority: Any = None,
    max_attempts: Any = None,
    metadata: Any = None,
    scheduled_at: Any = None,
    on_parent_failure: Any = OnParentFailure.WAIT,
    depends_on: Any = (),
) -> Options:
    """Check everything but the payload. Raises InvalidInput; UnknownType for the type."""
    handler = registry.get(check_text(type, "type", max_length=100))
    settings = conf.get()
    return Options(
        handler=handler,
        queue=handler.queue if queue is None else check_queue(queue),
        priority=handler.priority if priority is None else check_priority(priority),
        max_attempts=(handler.max_attempts or settings.max_attempts)
        if max_attempts is None
        else check_max_attempts(max_attempts),
        metadata="{}" if metadata is None else check_metadata(metadata),
        scheduled_at=None if scheduled_at is None else parse_moment(scheduled_at, "scheduled_at"),
        on_parent_failure=check_on_parent_failure(on_parent_failure),
        depends_on=check_parents(depends_on) if depends_on else (),
    )


def draft(options: Options, payload: Any, *, unique_key: str | None = None) -> Draft:
    """One checked job of these options. Raises InvalidInput naming the place in the payload."""
    return Draft(
        id=new_id(),
        type=options.handler.type,
        payload=check_payload(options.handler, payload),
        queue=options.queue,
        metadata=options.metadata,
        priority=options.priority,
        max_attempts=options.max_attempts,
        scheduled_at=options.scheduled_at,
        on_parent_failure=options.on_parent_failure,
        depends_on=options.depends_on,
        unique_key=unique_key,
    )


def child_drafts(parent_id: str, children: Iterable[Child]) -> list[Draft]:
    """The children that a WaitFor asks for."""
    drafts = []
    seen: set[str] = set()
    for child in children:
        key = check_text(child.key, "key", max_length=200)
        if key in seen:
            raise InvalidInput(f"two children have the key {key!r}", field="WaitFor")
        seen.add(key)
        for refused in sorted(child.options.keys() - CHILD_OPTIONS):
            raise InvalidInput("cannot be given for a child", field=refused)
        made = draft(check_options(child.type, **child.options), child.payload)
        made.parent_id, made.child_key = parent_id, key
        drafts.append(made)
    return drafts


def check_payload(handler: Handler, payload: Any) -> str:
    """The payload as JSON text, if the handler's serializer and the storage rules take it."""
    text = check_json(payload, "payload", max_bytes=conf.get().max_payload_bytes)
    if handler.payload is not None:
        validate_payload(handler, payload)
    return text


def validate_payload(handler: Handler, payload: Any) -> Any:
    """What the handler gets to see: the serializer's validated data, or the payload itself."""
    if handler.payload is None:
        return payload
    if not isinstance(payload, dict):
        raise InvalidInput("must be an object", field="payload")
    serializer = cast(Any, handler.payload)(data=payload)
    if not serializer.is_valid():
        path, message = _first_error(serializer.errors)
        raise InvalidInput(message, field=".".join(["payload", *path]))
    return serializer.validated_data


def check_queue(value: Any) -> str:
    if not isinstance(value, str) or not QUEUE_NAME.match(value):
        raise InvalidInput("must be 1 to 60 letters, digits or _.:-", field="queue")
    return value


def check_priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in (1, 2, 3):
        raise InvalidInput("must be 1 (high), 2 (medium) or 3 (low)", field="priority")
    return value


def check_max_attempts(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000:
        raise InvalidInput("must be a whole number from 1 to 1,000", field="max_attempts")
    return value


def check_metadata(value: Any) -> str:
    if not isinstance(value, dict):
        raise InvalidInput("must be an object", field="metadata")
    return check_json(value, "metadata", max_bytes=conf.get().max_payload_bytes)


def refuse_internal(*, type: Any = None, metadata: Any = None) -> None:
    """Raises InvalidInput for what only Coppice asks for: types of its own, and its mark on jobs.

    Every way in for people and programs asks this. A job of such a type could work on what its
    maker may not touch, and one with the mark is in no list and in no number.
    """
    if registry.is_internal(type):
        raise InvalidInput("is a type of Coppice's own: such jobs make themselves", field="type")
    if isinstance(metadata, dict) and metadata.get("internal") is True:
        raise InvalidInput('"internal": true is a mark of Coppice\'s own', field="metadata")


def check_on_parent_failure(value: Any) -> str:
    try:
        return OnParentFailure(value)
    except ValueError:
        raise InvalidInput("must be wait, cancel or run", field="on_parent_failure") from None


def check_parents(value: Any) -> tuple[str, ...]:
    """One job or many, as Job, UUID or text; ids without repeats, in ascending order."""
    items = [value] if isinstance(value, (str, uuid.UUID)) or hasattr(value, "id") else value
    try:
        parents = tuple(sorted({job_id(item, field="depends_on") for item in items}))
    except TypeError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("must be a job, an id or a list of them", field="depends_on") from None
    if len(parents) > MAX_PARENTS:
        raise InvalidInput(f"names more than {MAX_PARENTS:,} jobs", field="depends_on")
    return parents


def job_id(value: Any, *, field: str) -> str:
    """The id of a job given as a Job, a UUID or text; the text is checked and made canonical."""
    candidate = getattr(value, "id", value)
    try:
        return str(candidate if isinstance(candidate, uuid.UUID) else uuid.UUID(str(candidate)))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"{str(candidate)[:60]!r} is not a job's id", field=field) from error


def _first_error(errors: Any) -> tuple[list[str], str]:
    """The path and the message of the first fault in a serializer's errors."""
    path: list[str] = []
    while True:
        if isinstance(errors, dict) and errors:
            key = next(iter(errors))
            if key != "non_field_errors":
                path.append(str(key))
            errors = errors[key]
        elif isinstance(errors, list) and errors:
            if isinstance(errors[0], (dict, list)):
                index = next(i for i, item in enumerate(errors) if item)
                path.append(str(index))
                errors = errors[index]
            else:
                return path, str(errors[0])
        else:
            return path, str(errors) or "is not valid"
