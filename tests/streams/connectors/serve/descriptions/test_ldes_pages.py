"""Pages of a published stream as an LDES: the rules of TREE and LDES, and what the design says of relations, retention and immutability."""

from __future__ import annotations

import pytest
from rdflib import RDF, URIRef

from dotr.evaluation.expressions.values.times import shown_time_term
from dotr.model.time import Clock
from dotr.streams.connectors.serve.descriptions.documents import DescribedNode, node_text
from dotr.streams.connectors.serve.descriptions.resources import page_nodes, root_node
from dotr.streams.connectors.serve.descriptions.streams import Published
from dotr.streams.connectors.serve.kept import Keep, KeptElement, KeptElements, NewElement
from tests.support.ldes_rules import LDES, TREE, check_pages, default_graph

BASE = "http://e/fire/"
ALL = Keep(elements=None)


def filled(count: int, keep: Keep = ALL) -> KeptElements:
    """A stream of elements, three a second."""
    kept = KeptElements(keep)
    kept.append([NewElement(number // 3 * 1_000_000, number % 3, "Fire", b"{}") for number in range(count)])
    return kept


def quads(element: KeptElement, clock: Clock) -> str:
    """An element as N-Quads, as the server writes it."""
    name = f"<{BASE}{element.id}>"
    number = f'"{element.number}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return (
        f"{name} <http://www.w3.org/ns/prov#generatedAtTime> {shown_time_term(element.time, clock)} .\n"
        f"{name} <urn:dotr:number> {number} .\n<urn:s> <urn:p> {number} {name} .\n"
    )


def ntriples(*nodes: DescribedNode) -> str:
    return node_text(nodes, "application/n-triples").decode()


def crawl(stream: Published, kept: KeptElements, *, immutable: bool = False) -> dict[str, str]:
    """The N-Quads of all pages, by URL."""
    pages = {f"{BASE}ldes": ntriples(root_node(stream, kept))}
    for number in kept.pages:
        elements = kept.page(number)
        assert isinstance(elements, list)
        fixed = immutable and kept.is_full(number)
        pages[f"{BASE}ldes/{number}"] = ntriples(*page_nodes(stream, number, elements, immutable=fixed)) + "".join(
            [quads(element, stream.clock) for element in elements]
        )
    return pages


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 1000, 1213])
def test_pages_follow_the_rules_of_tree_and_ldes(count: int, dated: bool) -> None:
    kept = filled(count, Keep(elements=600))
    members = check_pages(f"{BASE}ldes", crawl(Published(BASE, Clock(dated=dated)), kept))
    assert members == [f"{BASE}{each.id}" for each in kept.slice(kept.first, kept.next)]


def test_open_page_has_no_upper_bound() -> None:
    root = default_graph(crawl(Published(BASE, Clock(dated=True)), filled(510))[f"{BASE}ldes"])
    bounded = {str(root.value(relation, TREE.node)) for relation in root.subjects(RDF.type, TREE.LessThanOrEqualToRelation)}
    linked = {str(root.value(relation, TREE.node)) for relation in root.subjects(RDF.type, TREE.GreaterThanOrEqualToRelation)}
    assert bounded == {f"{BASE}ldes/0", f"{BASE}ldes/1"}
    assert linked == {*bounded, f"{BASE}ldes/2"}


def test_integer_times_are_ordered_by_number_alone() -> None:
    root = default_graph(crawl(Published(BASE, Clock()), filled(300))[f"{BASE}ldes"])
    stream = URIRef(BASE)
    assert root.value(stream, LDES.timestampPath) is None
    assert root.value(stream, LDES.sequencePath) == URIRef("urn:dotr:number")
    assert set(root.objects(None, TREE.path)) == {URIRef("urn:dotr:number")}
    assert sorted(int(str(value)) for value in root.objects(None, TREE.value)) == [0, 249, 250]
    assert list(root.objects(None, LDES.startingFrom)) == []


def test_retention_begins_with_the_oldest_time_that_is_kept() -> None:
    kept = filled(1000, Keep(elements=300))
    assert kept.first == 500
    root = default_graph(crawl(Published(BASE, Clock(dated=True)), kept)[f"{BASE}ldes"])
    assert [str(start) for start in root.objects(None, LDES.startingFrom)] == ["1970-01-01T00:02:46+00:00"]


def test_full_pages_alone_are_immutable() -> None:
    pages = crawl(Published(BASE, Clock()), filled(300), immutable=True)
    found = {url: list(default_graph(text).subjects(LDES.immutable)) for url, text in pages.items()}
    assert found == {f"{BASE}ldes": [], f"{BASE}ldes/0": [URIRef(f"{BASE}ldes/0")], f"{BASE}ldes/1": []}


def test_declared_shape_is_that_of_the_stream() -> None:
    root = default_graph(ntriples(root_node(Published(BASE, Clock(), shape=f"{BASE}shape"), filled(1))))
    assert root.value(URIRef(BASE), TREE.shape) == URIRef(f"{BASE}shape")
