"""Descriptions of a published stream: what the queries of TripleWave's consumers and of WASP find, in every serialization."""

from __future__ import annotations

import json

import pytest
from rdflib import Graph, Literal, URIRef
from rdflib.collection import Collection
from rdflib.compare import isomorphic
from rdflib.term import Node

from dotr.model.time import Clock
from dotr.streams.connectors.serve.descriptions.documents import DescribedNode, node_text
from dotr.streams.connectors.serve.descriptions.streams import Published, describe, index
from dotr.streams.connectors.serve.kept import KeptElement

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # those of rdflib's reader of JSON-LD

BASE = "https://data.example/fire/"
STREAM = Published(BASE, Clock(), title='"Fires" <b>', license="https://licence.example/by")

LOCATIONS = """
PREFIX sld: <http://streamreasoning.org/ontologies/SLD4TripleWave#>
SELECT ?socket ?vocabulary WHERE { ?index sld:streamLocation ?socket ; sld:tBoxLocation ?vocabulary }
"""
"""The query of a consumer of TripleWave for the sGraph, before it connects."""

ENDPOINTS = """
PREFIX dcat: <http://www.w3.org/ns/dcat#>
PREFIX vocals: <http://w3id.org/rsp/vocals#>
PREFIX vsd: <http://w3id.org/rsp/vocals-sd#>
SELECT ?stream ?service ?endpoint ?url ?format WHERE {
  ?document a vocals:StreamDescriptor ; dcat:dataset ?stream .
  ?stream a vocals:RDFStream ; vocals:hasEndpoint ?endpoint .
  ?endpoint dcat:accessURL ?url ; dcat:format ?format ; vsd:publishedBy ?service .
}
"""
"""The query of WASP for the description of a stream."""

TYPES = {"turtle": "text/turtle", "nt": "application/n-triples", "json-ld": "application/ld+json"}


def latest(*times: int) -> list[KeptElement]:
    """Elements at times in seconds, the latest first."""
    found = [KeptElement(number, time * 1_000_000, 0, "Fire", b"{}") for number, time in enumerate(sorted(times))]
    return found[::-1]


def rows(found: Graph, query: str) -> list[dict[str, str]]:
    """The solutions of a query, as texts by variable."""
    return [{str(name): str(term) for name, term in row.items()} for row in found.query(query).bindings]


def value(found: Graph, subject: Node, predicate: str) -> Node:
    """The value of a property that has one."""
    (only,) = found.objects(subject, URIRef(predicate))
    return only


def graph(nodes: list[DescribedNode], format: str = "turtle") -> Graph:
    return Graph().parse(data=node_text(nodes, TYPES[format]), format=format)


@pytest.mark.parametrize(
    "document", [describe(STREAM), [index(STREAM, latest(3, 7, 9))], [index(STREAM, [])]], ids=["stream", "index", "empty"]
)
def test_every_serialization_says_the_same(document: list[DescribedNode]) -> None:
    graphs = [graph(document, format) for format in TYPES]
    assert all(isomorphic(graphs[0], each) for each in graphs[1:])


@pytest.mark.parametrize("format", TYPES)
def test_consumers_of_triplewave_find_the_socket_and_the_vocabulary(format: str) -> None:
    for document in (describe(STREAM), [index(STREAM, latest(3))]):
        assert rows(graph(document, format), LOCATIONS) == [{"socket": "wss://data.example/fire/ws", "vocabulary": f"{BASE}tbox"}]


def test_declared_vocabulary_is_named() -> None:
    stream = Published("http://e/", Clock(), tbox="http://v.example/onto")
    assert rows(graph(describe(stream)), LOCATIONS) == [{"socket": "ws://e/ws", "vocabulary": "http://v.example/onto"}]


@pytest.mark.parametrize("format", TYPES)
def test_wasp_finds_endpoints_with_address_format_and_publisher(format: str) -> None:
    for document in (describe(STREAM), [index(STREAM, [])]):
        found = rows(graph(document, format), ENDPOINTS)
        assert {row["stream"] for row in found} == {BASE}
        addresses = {(row["url"], row["format"].removeprefix("http://www.w3.org/ns/formats/")) for row in found}
        assert {
            ("wss://data.example/fire/ws", "JSON-LD"),
            (f"{BASE}events?format=trig", "TriG"),
            (f"{BASE}elements", "TriG"),
            (f"{BASE}ldes", "N-Quads"),
        } <= addresses
        assert len(addresses) == len(found)
        assert len({row["endpoint"] for row in found}) == len(found)


def test_endpoints_are_distributions_with_formats_of_both_vocabularies() -> None:
    found = rows(
        graph(describe(STREAM)),
        """
        PREFIX dcat: <http://www.w3.org/ns/dcat#> PREFIX dct: <http://purl.org/dc/terms/> PREFIX vocals: <http://w3id.org/rsp/vocals#>
        SELECT (COUNT(DISTINCT ?e) AS ?n) WHERE {
          ?s a dcat:Dataset ; vocals:hasEndpoint ?e ; dcat:distribution ?e . ?e dcat:format ?f ; dct:format ?f ; dcat:accessURL ?u
        }""",
    )
    assert found == [{"n": "15"}]


def test_title_and_licence() -> None:
    found = graph(describe(STREAM))
    dct = "http://purl.org/dc/terms/"
    assert value(found, URIRef(BASE), f"{dct}title") == Literal('"Fires" <b>')
    assert value(found, URIRef(BASE), f"{dct}license") == URIRef("https://licence.example/by")


@pytest.mark.parametrize("format", TYPES)
@pytest.mark.parametrize("dated", [False, True])
def test_index_lists_the_latest_first_with_their_times(format: str, dated: bool) -> None:
    stream = Published(BASE, Clock(dated=dated))
    found = graph([index(stream, latest(3, 7, 9))], format)
    sld = "http://streamreasoning.org/ontologies/SLD4TripleWave#"
    node = URIRef(f"{BASE}sGraph")
    listed = list(Collection(found, value(found, node, f"{sld}contains")))
    assert [str(each) for each in listed] == [f"{BASE}{time}000000-0" for time in (9, 7, 3)]
    shown = ["1970-01-01T00:00:09+00:00", "1970-01-01T00:00:07+00:00", "1970-01-01T00:00:03+00:00"] if dated else ["9", "7", "3"]
    for predicate in ("http://www.w3.org/ns/prov#generatedAtTime", f"{sld}receivedAt"):
        assert [str(value(found, each, predicate)) for each in listed] == shown
    for predicate in ("lastUpdate", "lastUpdated"):
        assert str(value(found, node, f"{sld}{predicate}")) == shown[0]


def test_index_without_elements_has_an_empty_list_and_no_update() -> None:
    document = json.loads(node_text([index(STREAM, [])], TYPES["json-ld"]))
    assert document["sld:contains"] == {"@list": []}
    assert "sld:lastUpdate" not in document


def test_index_as_json_has_the_form_of_triplewave() -> None:
    """A reader that knows no JSON-LD finds the list, and in it each element's name and time."""
    document = json.loads(node_text([index(STREAM, latest(7, 9))], TYPES["json-ld"]))
    assert document["@id"] == f"{BASE}sGraph"
    assert [each["@id"] for each in document["sld:contains"]["@list"]] == [f"{BASE}9000000-0", f"{BASE}7000000-0"]
    assert document["sld:contains"]["@list"][0]["prov:generatedAtTime"] == {"@value": "9", "@type": "xsd:integer"}
