"""Rules of TREE and LDES for the pages of an event stream, checked over all pages of a crawl.

The rules are those of "The TREE hypermedia specification" (W3C Community Group) and of "Linked Data Event Streams" with its server
primer (SEMIC), in our own words, each beside its check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyoxigraph import DefaultGraph, RdfFormat, parse, serialize
from rdflib import RDF, Graph, Literal, Namespace, URIRef
from rdflib.namespace import XSD
from rdflib.term import Node

TREE: Final = Namespace("https://w3id.org/tree#")
LDES: Final = Namespace("https://w3id.org/ldes#")
COMPARISONS: Final[dict[Node, Callable[[Any, Any], bool]]] = {
    TREE.GreaterThanRelation: lambda value, bound: value > bound,
    TREE.GreaterThanOrEqualToRelation: lambda value, bound: value >= bound,
    TREE.LessThanRelation: lambda value, bound: value < bound,
    TREE.LessThanOrEqualToRelation: lambda value, bound: value <= bound,
    TREE.EqualToRelation: lambda value, bound: value == bound,
}
PATHS: Final = ("timestampPath", "sequencePath", "versionOfPath", "versionTimestampPath", "versionSequencePath")


def default_graph(quads: str) -> Graph:
    """The default graph of N-Quads."""
    found = [quad.triple for quad in parse(quads, RdfFormat.N_QUADS) if quad.graph_name == DefaultGraph()]
    return Graph().parse(data=(serialize(found, format=RdfFormat.N_TRIPLES) or b"").decode(), format="nt")


def check_pages(entry: str, pages: Mapping[str, str]) -> list[str]:
    """The members of a stream in the order of its pages, by their IRIs, after all rules are checked.

    `entry`: the URL of the root. `pages`: the N-Quads of each page by its URL.
    """
    graphs = {url: default_graph(text) for url, text in pages.items()}
    root = graphs[entry]
    # The root is the object of exactly one tree:view, whose subject is the stream.
    ((stream, view),) = root.subject_objects(TREE.view)
    assert view == URIRef(entry)
    assert isinstance(stream, URIRef)
    assert (stream, RDF.type, LDES.EventStream) in root
    check_root(root, stream, view)
    for url, graph in graphs.items():
        check_node(graph, URIRef(url), stream)
    # Apart from the root, each node has exactly one other node that links into it; none links to what is not there.
    links = [(url, str(node)) for url, graph in graphs.items() for node in nodes_of(graph, URIRef(url))]
    assert sorted(target for _, target in links) == sorted(set(pages) - {entry}), links
    check_relations(graphs, stream)
    return members_in_order(graphs, entry, stream)


def check_root(root: Graph, stream: URIRef, view: Node) -> None:
    """The root has the context of the stream, each property at most once, and at most one retention policy."""
    for path in PATHS:
        assert len(list(root.objects(stream, LDES[path]))) <= 1, path
    assert len(list(root.objects(stream, TREE.shape))) <= 1
    # Order is known only by timestampPath or sequencePath.
    ordered = [*root.objects(stream, LDES.timestampPath), *root.objects(stream, LDES.sequencePath)]
    assert ordered
    policies = list(root.objects(view, LDES.retentionPolicy))
    assert len(policies) <= 1
    for policy in policies:
        # A policy is an IRI, and without further statements it would mean that nothing is kept.
        assert isinstance(policy, URIRef)
        (start,) = root.objects(policy, LDES.startingFrom)
        assert isinstance(start, Literal)
        assert start.datatype == XSD.dateTime
        assert str(start)[-1] == "Z" or "+" in str(start)[10:] or "-" in str(start)[10:], "a zone is needed"


def nodes_of(graph: Graph, node: URIRef) -> set[Node]:
    return {each for relation in graph.objects(node, TREE.relation) for each in graph.objects(relation, TREE.node)}


def check_node(graph: Graph, node: URIRef, stream: URIRef) -> None:
    """Members belong to the stream and are IRIs; a relation has one node and, as a comparison, one path and one value."""
    assert set(graph.subjects(TREE.member)) <= {stream}
    assert all(isinstance(member, URIRef) for member in graph.objects(stream, TREE.member))
    assert set(graph.subjects(TREE.relation)) <= {node}
    for relation in graph.objects(node, TREE.relation):
        (target,) = graph.objects(relation, TREE.node)
        assert isinstance(target, URIRef)
        assert target != node
        (kind,) = graph.objects(relation, RDF.type)
        assert kind in COMPARISONS
        for predicate in (TREE.path, TREE.value):
            assert len(list(graph.objects(relation, predicate))) == 1
    # What is not immutable does not say so.
    assert all(bool(value) for value in graph.objects(node, LDES.immutable))


def python(value: Node) -> Any:
    """The value of a literal."""
    assert isinstance(value, Literal)
    return value.toPython()


def check_relations(graphs: Mapping[str, Graph], stream: URIRef) -> None:
    """Each member below a relation has a value at its path that satisfies it; the path is one of the stream's order."""
    paths = {
        path
        for graph in graphs.values()
        for predicate in (LDES.timestampPath, LDES.sequencePath)
        for path in graph.objects(stream, predicate)
    }
    for url, graph in graphs.items():
        for relation in graph.objects(URIRef(url), TREE.relation):
            (target,), (path,) = graph.objects(relation, TREE.node), graph.objects(relation, TREE.path)
            (kind,), (bound,) = graph.objects(relation, RDF.type), graph.objects(relation, TREE.value)
            assert path in paths
            below = graphs[str(target)]
            for member in below.objects(stream, TREE.member):
                values = list(below.objects(member, path))
                assert values, (member, path)
                assert any(COMPARISONS[kind](python(value), python(bound)) for value in values), (member, values, kind, bound)


def members_in_order(graphs: Mapping[str, Graph], entry: str, stream: URIRef) -> list[str]:
    """Members, each on one page and with quads of its own, ascending by the order of the stream over all pages."""
    root = graphs[entry]
    keys = [root.value(stream, LDES.timestampPath), root.value(stream, LDES.sequencePath)]
    found: list[tuple[list[Any], str]] = []
    for graph in graphs.values():
        for member in graph.objects(stream, TREE.member):
            assert isinstance(member, URIRef)
            values = [graph.value(member, key) for key in keys if key is not None]
            if keys[0] is not None:
                assert isinstance(values[0], Literal)
                assert values[0].datatype == XSD.dateTime
            found.append(([python(value) for value in values if value is not None], str(member)))
    found.sort()
    assert len({member for _, member in found}) == len(found)
    assert len({tuple(map(str, key)) for key, _ in found}) == len(found), "the order is total"
    return [member for _, member in found]
