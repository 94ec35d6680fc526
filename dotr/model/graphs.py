"""Directed graphs: strongly connected components in topological order, shortest paths, and least
fixpoints along the edges.

A graph is a function from a node to its successors, called once per reached node. No function
recurses. Acyclic graphs are ordered by the standard library (`graphlib`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

_Vertex = TypeVar("_Vertex", bound=Hashable)
_Value = TypeVar("_Value")


def strong_components(roots: Iterable[_Vertex], successors: Callable[[_Vertex], Iterable[_Vertex]]) -> Iterator[list[_Vertex]]:
    """Yield the strongly connected components of the nodes reachable from `roots` (Tarjan 1972).

    Order: reverse topological, so dependencies come before their dependents.
    Cost: linear in nodes and edges.

    >>> graph = {"a": "b", "b": "ac", "c": ""}
    >>> list(strong_components(graph, graph.__getitem__))
    [['c'], ['b', 'a']]
    """
    index: dict[_Vertex, int] = {}
    low: dict[_Vertex, int] = {}
    # Nodes of incomplete components, in the order of discovery.
    incomplete: dict[_Vertex, None] = {}
    # Path of the depth-first search.
    path: list[tuple[_Vertex, Iterator[_Vertex]]] = []

    def enter(node: _Vertex) -> None:
        index[node] = low[node] = len(index)
        incomplete[node] = None
        path.append((node, iter(successors(node))))

    for root in roots:
        if root not in index:
            enter(root)
        while path:
            node, following = path[-1]
            for successor in following:
                if successor not in index:
                    enter(successor)
                    break
                if successor in incomplete:
                    low[node] = min(low[node], index[successor])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [incomplete.popitem()[0]]
                    while component[-1] != node:
                        component.append(incomplete.popitem()[0])
                    yield component


def components(edges: Iterable[tuple[_Vertex, _Vertex]]) -> dict[_Vertex, int]:
    """Return the number of the strongly connected component of each node of some edges.

    >>> component = components([("A", "B"), ("B", "A"), ("B", "C")])
    >>> component["A"] == component["B"], component["B"] == component["C"]
    (True, False)
    """
    following: dict[_Vertex, list[_Vertex]] = {}
    for start, end in edges:
        following.setdefault(start, []).append(end)
        following.setdefault(end, [])
    return {node: number for number, each in enumerate(strong_components(following, following.__getitem__)) for node in each}


def shortest_path(
    start: _Vertex, end: _Vertex, successors: Callable[[_Vertex], Iterable[_Vertex]], within: Container[_Vertex] | None = None
) -> list[_Vertex]:
    """Return the nodes of a shortest path from `start` to `end`, both included.

    `within` restricts the intermediate nodes and `end`. Raises `ValueError` where no path exists.

    >>> graph = {"a": "bc", "b": "c", "c": "d", "d": ""}
    >>> shortest_path("a", "d", graph.__getitem__)
    ['a', 'c', 'd']
    """
    predecessor: dict[_Vertex, _Vertex] = {start: start}
    queue = deque([start])
    while queue and end not in predecessor:
        node = queue.popleft()
        for successor in successors(node):
            if successor not in predecessor and (within is None or successor in within):
                predecessor[successor] = node
                queue.append(successor)
    if end not in predecessor:
        raise ValueError(f"no path leads from {start} to {end}")
    path = [end]
    while path[-1] != start:
        path.append(predecessor[path[-1]])
    return path[::-1]


def least_fixpoint(
    start: Mapping[_Vertex, _Value],
    reads: Mapping[_Vertex, Iterable[_Vertex]],
    evaluate: Callable[[_Vertex, Mapping[_Vertex, _Value]], _Value],
) -> dict[_Vertex, _Value]:
    """Return the least fixpoint of a monotone system of equations, one for each node of `reads`.

    - `start`: the least value of each node, and the values of nodes without an equation.
    - `reads`: for each node the nodes that its equation reads.
    - `evaluate`: the value of a node, given the values of all.

    Cost: one evaluation of each node that is on no cycle, since the nodes that it reads come before
    it; a node on a cycle is evaluated again after a node that it reads has changed.

    >>> reads = {"c": ["b"], "b": ["a", "c"]}
    >>> start = {"a": 1, "b": 0, "c": 0}
    >>> least_fixpoint(start, reads, lambda node, values: max(values[each] for each in reads[node]))
    {'a': 1, 'b': 1, 'c': 1}
    """
    values = dict(start)
    readers: dict[_Vertex, list[_Vertex]] = {}
    for node, sources in reads.items():
        for source in sources:
            readers.setdefault(source, []).append(node)
    order = [node for component in strong_components(reads, lambda node: reads.get(node, ())) for node in component if node in reads]
    pending = dict.fromkeys(order)
    while pending:
        node = next(iter(pending))
        del pending[node]
        value = evaluate(node, values)
        if value != values[node]:
            values[node] = value
            pending.update(dict.fromkeys(readers.get(node, ())))
    return values
