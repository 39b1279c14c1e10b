"""What a job waits for and what waits for it, some steps far, and a small drawing of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.database import Database
from jobs.states import derive_state

MOST = 50
DEPTH = 8
LISTED = 50

# Upwards by the key of the edges; downwards to those that are open only: of what waited for a job
# that has ended there may be very much, and the ledger lists it.
EDGES = """
WITH RECURSIVE up AS (
    SELECT child_id, parent_id, state, 1 AS depth FROM jobs_jobdependency
    WHERE child_id = %(id)s::uuid
    UNION
    SELECT e.child_id, e.parent_id, e.state, up.depth + 1
    FROM up JOIN jobs_jobdependency e ON e.child_id = up.parent_id
    WHERE up.depth < %(depth)s
), down AS (
    SELECT child_id, parent_id, state, 1 AS depth FROM jobs_jobdependency
    WHERE parent_id = %(id)s::uuid AND state = 'open'
    UNION
    SELECT e.child_id, e.parent_id, e.state, down.depth + 1
    FROM down JOIN jobs_jobdependency e ON e.parent_id = down.child_id AND e.state = 'open'
    WHERE down.depth < %(depth)s
)
SELECT child_id::text, parent_id::text, state, min(depth) FROM (
    (SELECT * FROM up LIMIT %(most)s) UNION ALL (SELECT * FROM down LIMIT %(most)s)
) edges
GROUP BY child_id, parent_id, state ORDER BY min(depth), child_id, parent_id LIMIT %(most)s
"""

NODES = """
SELECT id::text, type, status, unmet_dependencies, due_at IS NULL, next_retry_at IS NOT NULL,
    coalesce(due_at <= statement_timestamp(), false), cancel_requested_at IS NOT NULL
FROM jobs_job WHERE id = ANY(%(ids)s::uuid[])
"""

WIDE, HIGH, GAP_X, GAP_Y = 168, 34, 56, 14


@dataclass(frozen=True, kw_only=True)
class Node:
    id: str
    type: str
    """Empty: the job is gone."""
    state: str


@dataclass(frozen=True, kw_only=True)
class Edge:
    child: str
    parent: str
    is_open: bool


@dataclass(kw_only=True)
class Graph:
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    is_cut: bool = False

    def parents_of(self, id: str) -> list[tuple[Node, Edge]]:
        return [(self.nodes[edge.parent], edge) for edge in self.edges if edge.child == id]

    def children_of(self, id: str) -> list[tuple[Node, Edge]]:
        return [(self.nodes[edge.child], edge) for edge in self.edges if edge.parent == id]


@dataclass(frozen=True, kw_only=True)
class Box:
    node: Node
    x: int
    y: int
    is_self: bool

    @property
    def label(self) -> str:
        name = self.node.type or "purged"
        return name if len(name) <= 20 else f"{name[:19]}…"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    boxes: Sequence[Box]
    lines: Sequence[tuple[str, bool]]
    """Paths, and whether the edge is open."""
    width: int
    height: int


def read(database: Database, id: str) -> Graph:
    """At most `MOST` edges around the job."""
    found = database.rows(EDGES, {"id": id, "depth": DEPTH, "most": MOST + 1})
    edges = [
        Edge(child=child, parent=parent, is_open=state == "open")
        for child, parent, state, _ in found[:MOST]
    ]
    ids = {id, *(edge.child for edge in edges), *(edge.parent for edge in edges)}
    known = {row[0]: _node(row) for row in database.rows(NODES, {"ids": list(ids)})}
    nodes = {each: known.get(each, Node(id=each, type="", state="purged")) for each in ids}
    return Graph(nodes=nodes, edges=edges, is_cut=len(found) > MOST)


def draw(graph: Graph, id: str) -> Drawing | None:
    """Parents on the left, children on the right; None when a list says as much."""
    if len(graph.edges) < 2 or len(graph.nodes) > MOST:
        return None
    levels = _levels(graph, id)
    columns: dict[int, list[str]] = defaultdict(list)
    for each in sorted(graph.nodes, key=lambda each: (levels[each], graph.nodes[each].type, each)):
        columns[levels[each]].append(each)
    tallest = max(len(column) for column in columns.values())
    places = {}
    for number, level in enumerate(sorted(columns)):
        column = columns[level]
        top = (tallest - len(column)) * (HIGH + GAP_Y) // 2
        for row, each in enumerate(column):
            places[each] = (number * (WIDE + GAP_X), top + row * (HIGH + GAP_Y))
    boxes = [
        Box(node=graph.nodes[each], x=x, y=y, is_self=each == id) for each, (x, y) in places.items()
    ]
    lines = [(_path(places[edge.parent], places[edge.child]), edge.is_open) for edge in graph.edges]
    width = len(columns) * (WIDE + GAP_X) - GAP_X
    return Drawing(boxes=boxes, lines=lines, width=width, height=tallest * (HIGH + GAP_Y) - GAP_Y)


def _levels(graph: Graph, id: str) -> dict[str, int]:
    """How many steps each job is before (less than 0) or behind this one, the longest way."""
    levels = dict.fromkeys(graph.nodes, 0)
    for _ in range(min(len(graph.nodes), DEPTH * 2)):
        changed = False
        for edge in graph.edges:
            if levels[edge.child] <= levels[edge.parent]:
                levels[edge.child] = levels[edge.parent] + 1
                changed = True
        if not changed:
            break
    return {each: level - levels[id] for each, level in levels.items()}


def _path(parent: tuple[int, int], child: tuple[int, int]) -> str:
    x1, y1 = parent[0] + WIDE, parent[1] + HIGH // 2
    x2, y2 = child[0], child[1] + HIGH // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


def _node(row: Sequence[object]) -> Node:
    id, type, status, unmet, is_held, has_retry, is_due, is_cancelling = row
    state = derive_state(
        status=str(status),
        is_due=bool(is_due),
        is_held=bool(is_held),
        unmet_dependencies=int(str(unmet)),
        has_next_retry=bool(has_retry),
        cancel_requested=bool(is_cancelling),
    )
    return Node(id=str(id), type=str(type), state=state.value)
