"""Dependencies as a graph of ids: its cycles and its order.

No recursion, so depth is bounded by memory alone. Time and memory grow with nodes plus edges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from jobs.errors import DependencyCycle
from jobs.texts import clean

_SHOWN = 10


def find_cycle(edges: Mapping[str, Collection[str]]) -> list[str] | None:
    """One cycle, each id depending on the next and the last on the first; None if there is none.

    `edges` says what each id depends on; an id without an entry depends on nothing.
    """
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        path: dict[str, Iterator[str]] = {start: iter(edges[start])}
        while path:
            node, parents = next(reversed(path.items()))
            parent = next((one for one in parents if one not in done), None)
            if parent is None:
                path.popitem()
                done.add(node)
            elif parent in path:
                ids = list(path)
                return ids[ids.index(parent) :]
            else:
                path[parent] = iter(edges.get(parent, ()))
    return None


def topological_order(nodes: Iterable[str], parents: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes, parents first, otherwise as given.

    Of all nodes whose parents have come, the one given first is next. Parents outside `nodes`
    are taken as done. Raises DependencyCycle, which names the ids on the cycle.
    """
    ids = list(dict.fromkeys(nodes))
    place = {node: index for index, node in enumerate(ids)}
    children, unmet = _count(ids, parents)
    ready = [place[node] for node in ids if not unmet[node]]
    heapify(ready)
    order: list[str] = []
    while ready:
        node = ids[heappop(ready)]
        order.append(node)
        for child in children.get(node, ()):
            unmet[child] -= 1
            if not unmet[child]:
                heappush(ready, place[child])
    if len(order) < len(ids):
        left = {node: parents.get(node, ()) for node in ids if unmet[node]}
        raise cycle_error(find_cycle(left) or list(left))
    return order


def cycle_error(cycle: list[str]) -> DependencyCycle:
    """The refusal for a cycle, with at most ten of its ids."""
    shown = [clean(one, 100) for one in cycle[:_SHOWN]]
    if len(cycle) > _SHOWN:
        shown.append(f"… ({len(cycle) - _SHOWN:,} more)")
    path = " -> ".join([*shown, shown[0]])
    return DependencyCycle(f"these jobs would wait for each other: {path}", field="depends_on")


def _count(
    ids: list[str], parents: Mapping[str, Collection[str]]
) -> tuple[dict[str, list[str]], dict[str, int]]:
    known = set(ids)
    children: dict[str, list[str]] = {}
    unmet: dict[str, int] = {}
    for node in ids:
        inside = known.intersection(parents.get(node, ()))
        unmet[node] = len(inside)
        for parent in inside:
            children.setdefault(parent, []).append(node)
    return children, unmet
