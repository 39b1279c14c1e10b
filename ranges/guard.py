"""Can the database say which key needs work next, without reading the finished ones?

The planner is asked how it would answer the probe. Only a walk along an index that holds nothing but
rows that need work will do: any filter left over means that finished rows are read one by one, and
the more is finished the longer that takes. If there is no such index, its exact definition is given,
and the run walks all keys instead (`filter`): never worse than one pass over the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import FieldError

from ranges.keyed import WALK, Keyed, condition_sql, index_definition
from ranges.positions import Position
from ranges.querying import Probing, QuerySource

_JOINS = {"Nested Loop", "Merge Join"}
_WALKS = {"Limit", "Append", "Merge Append", "Result", "Subquery Scan"} | _JOINS
_ALONG = {"Outer", "Member", "Subquery"}
"""What the rows come from. Besides, each of them may be looked up elsewhere."""
_SCANS = {"Index Scan", "Index Only Scan"}


@dataclass(frozen=True, kw_only=True)
class IndexVerdict:
    probing: Probing
    """What the run should use."""
    index: str | None
    """The index that answers the probe, or that all keys are walked along."""
    ddl: tuple[str, ...]
    """What would make it better; empty if nothing would."""
    warning: str
    """Why, in a sentence; empty if all is well."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ddl": list(self.ddl)}


def judge(
    source: QuerySource, lo: Position | None = None, hi: Position | None = None
) -> IndexVerdict:
    """How the rows of a source can be walked. Explains two statements and runs none."""
    keyed = source.keyed
    if keyed.rows_sql(todo=True) is None:
        return IndexVerdict(probing=source.probing, index=None, ddl=(), warning="")
    walks_keys = _walk(keyed, todo=False, lo=lo, hi=hi)
    key_index = index_definition(keyed)
    try:
        condition = condition_sql(keyed, todo=True)
    except FieldError as error:
        condition, why_not = None, str(error)
    else:
        why_not = ""
    is_conditional = condition is not None or bool(why_not)
    if not is_conditional:
        if walks_keys is None or walks_keys.sorts:
            return IndexVerdict(
                probing="none", index=None, ddl=(key_index,), warning=_unindexed(keyed)
            )
        return IndexVerdict(probing="none", index=walks_keys.index, ddl=(), warning="")
    probe = _walk(keyed, todo=True, lo=lo, hi=hi)
    best: Probing = "none" if keyed.todo is None else "witness"
    if probe is not None and not probe.sorts and not probe.filters:
        return IndexVerdict(probing=best, index=probe.index, ddl=(), warning="")
    ddl = () if condition is None else (index_definition(keyed, condition),)
    sentences = [
        f"no index of {keyed.table} holds just the rows that need work, so all of its keys are walked"
    ]
    if why_not:
        sentences.append(f"and none can: {why_not}")
    has_index = walks_keys is not None and not walks_keys.sorts
    if not has_index:
        sentences.append(f"which is slow: {_unindexed(keyed)}")
        ddl = (*ddl, key_index)
    return IndexVerdict(
        probing="none" if keyed.todo is None else "filter",
        index=walks_keys.index if walks_keys is not None and has_index else None,
        ddl=ddl,
        warning=", ".join(sentences),
    )


@dataclass(frozen=True)
class _Walk:
    index: str | None
    sorts: bool
    filters: bool


def _walk(keyed: Keyed, *, todo: bool, lo: Position | None, hi: Position | None) -> _Walk | None:
    """How the planner would find the first key; None: nothing can ever match."""
    walk = keyed.walk_sql(lo, hi, todo=todo)
    if walk is None:
        return None
    sql, params = walk
    plan = keyed.explain(f"{sql} ORDER BY key LIMIT 1", params, settings=WALK)
    nodes = list(_along(plan))
    return _Walk(
        index=next((node["Index Name"] for node in nodes if "Index Name" in node), None),
        sorts=any(node["Node Type"] not in _WALKS | _SCANS for node in nodes),
        filters=any(
            "Filter" in node or "One-Time Filter" in node or node["Node Type"] in _JOINS
            for node in nodes
        ),
    )


def _along(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The nodes that rows come through, one by one, in the order of the keys."""
    yield plan
    for below in plan.get("Plans", []):
        relationship = below.get("Parent Relationship")
        if relationship in _ALONG or plan["Node Type"] == "Merge Join":
            yield from _along(below)


def _unindexed(keyed: Keyed) -> str:
    order = f' in the order of COLLATE "{keyed.axis.collation}"' if keyed.axis.collation else ""
    return f"{keyed.field.column} has no index{order}, so each leaf reads the whole table"
