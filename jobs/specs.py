"""Different jobs of one call, which may wait for each other: checked and put in order.

No job is read or written here; `enqueueing.py` writes the drafts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.drafts import Draft, check_options, check_parents, draft
from jobs.errors import InvalidInput
from jobs.graph import topological_order
from jobs.payloads import check_text
from jobs.states import OnParentFailure


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One job of an `enqueue_jobs` call; options as in `enqueue`.

    `key` names it within the call; `depends_on` takes such keys beside jobs and ids.
    """

    type: str
    payload: Any = None
    key: str | None = None
    depends_on: Sequence[Any] = ()
    priority: int | None = None
    scheduled_at: datetime | str | int | None = None
    queue: str | None = None
    unique_key: str | None = None
    metadata: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    on_parent_failure: str = OnParentFailure.WAIT


def drafts_of(specs: list[JobSpec]) -> tuple[list[Draft], set[str]]:
    """Checked drafts in the given order, and the ids that others of this call wait for.

    Ids ascend from parents to children, so that locks in id order follow the edges.
    """
    keys: dict[str, int] = {}
    named: list[list[Any]] = []
    for index, spec in enumerate(specs):
        try:
            named.append(_parents(spec))
            if spec.key is not None:
                if check_text(spec.key, "key", max_length=200) in keys:
                    raise InvalidInput(f"{spec.key!r} is used twice", field="key")
                keys[spec.key] = index
        except InvalidInput as error:
            raise error.at(index) from None
    wanted = {
        str(i): [str(keys[p]) for p in parents if isinstance(p, str) and p in keys]
        for i, parents in enumerate(named)
    }
    order = [int(i) for i in topological_order(wanted, wanted)]
    drafts: dict[int, Draft] = {}
    for index in order:
        spec = specs[index]
        try:
            outside = [p for p in named[index] if not (isinstance(p, str) and p in keys)]
            options = check_options(
                spec.type,
                priority=spec.priority,
                scheduled_at=spec.scheduled_at,
                queue=spec.queue,
                metadata=spec.metadata,
                max_attempts=spec.max_attempts,
                on_parent_failure=spec.on_parent_failure,
                depends_on=check_parents(outside) if outside else (),
            )
            key = spec.unique_key
            made = draft(
                options,
                {} if spec.payload is None else spec.payload,
                unique_key=None if key is None else check_text(key, "unique_key", max_length=200),
            )
        except InvalidInput as error:
            raise error.at(index) from None
        inside = [drafts[int(i)].id for i in wanted[str(index)]]
        made.depends_on = tuple(sorted({*made.depends_on, *inside}))
        drafts[index] = made
    parents = {drafts[int(i)].id for inside in wanted.values() for i in inside}
    return [drafts[index] for index in range(len(specs))], parents


def _parents(spec: JobSpec) -> list[Any]:
    """What a spec waits for, one by one: a job or many, each a job, an id or a key."""
    value = spec.depends_on
    if isinstance(value, (str, uuid.UUID)) or hasattr(value, "id"):
        return [value] if value else []
    return listed(value or (), "depends_on")


def listed(values: Any, field: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidInput("must be a list", field=field) from None
