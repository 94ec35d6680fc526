"""Elements of streams as rows of terms, for units of other languages (continuous.md, section 2).

The row of an element is the concatenation of its triples. Blank nodes have the names of `merge`,
with equal elements numbered within the stream.
Example: the element `:a :p 1 . :a :q 2` is the row `(:a, :p, 1, :a, :q, 2)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from dotr.instant.instants import named_elements
from dotr.model.event_order import AttributeValues
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.model.units import FedGraphs, InstantStream


def graph_row(triples: Iterable[Triple]) -> AttributeValues:
    """The row of an element.

    >>> graph_row([("<a>", "<p>", '"1"'), ("<a>", "<q>", '"2"')])
    ('<a>', '<p>', '"1"', '<a>', '<q>', '"2"')
    """
    return tuple([term for triple in triples for term in triple])


def row_graph(row: AttributeValues) -> tuple[Triple, ...]:
    """The triples of an element's row, each once, in the order of their first appearance.

    >>> row_graph(graph_row([("<a>", "<p>", '"1"'), ("<a>", "<q>", '"2"')]))
    (('<a>', '<p>', '"1"'), ('<a>', '<q>', '"2"'))
    """
    terms = [term for term in row if term is not None]
    return tuple(dict.fromkeys(zip(terms[0::3], terms[1::3], terms[2::3], strict=True)))


def items_of(
    time: Micros,
    graphs: Sequence[tuple[Triple, ...]],
    streams: Set[FedGraphs],
    rejected: Set[int] = frozenset(),
) -> Mapping[InstantStream, Sequence[AttributeValues]]:
    """The elements of an instant on each of some streams, as rows, in the order of their texts.

    Args:
        time: that of the instant in µs.
        graphs: those of the instant. A `FedGraph` is on its stream; another graph is on the only
            stream that units read, and on none if they read several.
        streams: the streams that units read.
        rejected: the numbers of graphs that were left out of the instant.

    >>> graphs = [FedGraph.on("http://e/s", (("_:0", "<p>", '"1"'),)), FedGraph.on("http://e/t", (("<a>", "<p>", '"2"'),))]
    >>> found = items_of(7, graphs, {FedGraphs("http://e/s")})
    >>> [[row[1:] for row in rows] for rows in found.values()]
    [[('<p>', '"1"')]]
    """
    by_stream: dict[str, list[tuple[Triple, ...]]] = {}
    only = next(iter(streams)).name if len(streams) == 1 else None
    for number, graph in enumerate(graphs):
        stream = graph.stream if isinstance(graph, FedGraph) else only
        if stream is not None and number not in rejected:
            by_stream.setdefault(stream, []).append(graph)
    rows: dict[InstantStream, Sequence[AttributeValues]] = {
        FedGraphs(name): sorted([graph_row(each) for each in named_elements(time, found)], key=str)
        for name, found in sorted(by_stream.items())
    }
    return {stream: each for stream, each in rows.items() if stream in streams}
