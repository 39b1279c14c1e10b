from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import DependencyCycle, InvalidInput
from jobs.graph import find_cycle, topological_order

type Edges = dict[str, list[str]]

names = st.sampled_from([str(number) for number in range(12)])
any_edges = st.dictionaries(names, st.lists(names, max_size=4))


@st.composite
def acyclic(draw: st.DrawFn) -> tuple[list[str], Edges]:
    """Nodes in any order, each depending on some that come before it in a hidden order."""
    hidden = [str(number) for number in range(draw(st.integers(0, 12)))]
    edges = {
        node: draw(st.lists(st.sampled_from(hidden[:place]), max_size=4)) if place else []
        for place, node in enumerate(hidden)
    }
    return draw(st.permutations(hidden)), edges


@settings(deadline=None)
@given(any_edges)
def test_a_cycle_that_is_found_is_one(edges: Edges) -> None:
    cycle = find_cycle(edges)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle) > 0
        for node, parent in pairwise([*cycle, cycle[0]]):
            assert parent in edges[node]


@settings(deadline=None)
@given(any_edges)
def test_a_graph_has_either_an_order_or_a_cycle(edges: Edges) -> None:
    nodes = list(edges)
    cycle = find_cycle(edges)
    if cycle is None:
        order = topological_order(nodes, edges)
        assert sorted(order) == sorted(nodes)
        place = {node: index for index, node in enumerate(order)}
        for node in nodes:
            assert all(place[parent] < place[node] for parent in edges[node] if parent in place)
    else:
        with pytest.raises(DependencyCycle) as refused:
            topological_order(nodes, edges)
        assert refused.value.field == "depends_on"


@settings(deadline=None)
@given(acyclic())
def test_an_accepted_graph_has_no_cycle(graph: tuple[list[str], Edges]) -> None:
    _, edges = graph
    assert find_cycle(edges) is None


@settings(deadline=None)
@given(acyclic())
def test_the_order_takes_at_each_step_the_first_given_node_that_is_free(
    graph: tuple[list[str], Edges],
) -> None:
    nodes, edges = graph
    expected: list[str] = []
    while len(expected) < len(nodes):
        expected.append(
            next(
                node
                for node in nodes
                if node not in expected and all(parent in expected for parent in edges[node])
            )
        )
    assert topological_order(nodes, edges) == expected


def test_nodes_without_dependencies_keep_the_order_given() -> None:
    assert topological_order(["c", "a", "b", "a"], {}) == ["c", "a", "b"]


def test_a_parent_outside_the_nodes_counts_as_done() -> None:
    assert topological_order(["b", "a"], {"a": ["stored"], "b": ["a", "stored"]}) == ["a", "b"]


@pytest.mark.parametrize(
    ("edges", "length"),
    [({"a": ["a"]}, 1), ({"a": ["b"], "b": ["a"]}, 2), ({"a": ["b"], "b": ["c"], "c": ["a"]}, 3)],
)
def test_a_cycle_of_any_length_is_found(edges: Edges, length: int) -> None:
    cycle = find_cycle(edges)
    assert cycle is not None
    assert len(cycle) == length


def test_a_hundred_thousand_nodes_in_a_row_need_no_recursion() -> None:
    count = 100_000
    chain = {str(number): [str(number + 1)] for number in range(count)}
    assert find_cycle(chain) is None
    nodes = [str(number) for number in range(count + 1)]
    assert topological_order(nodes, chain) == nodes[::-1]
    chain[str(count)] = ["0"]
    cycle = find_cycle(chain)
    assert cycle is not None
    assert len(cycle) == count + 1
    with pytest.raises(InvalidInput) as refused:
        topological_order(nodes, chain)
    assert len(refused.value.message) < 300
    assert "99,991 more" in refused.value.message


def test_the_refusal_shows_the_cycle_as_a_closed_path() -> None:
    with pytest.raises(DependencyCycle) as refused:
        topological_order(["x", "a", "b"], {"a": ["b"], "b": ["a"]})
    assert "a -> b -> a" in str(refused.value)
