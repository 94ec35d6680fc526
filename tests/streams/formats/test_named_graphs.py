"""Graphs of an output under names that the caller gives: the same quads in every format."""

from __future__ import annotations

import json

import pytest
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, parse

from dotr.model.stream import Firing
from dotr.model.terms import RDF_TYPE
from dotr.model.time import Clock
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.rdf.named_graphs import NamedGraph, TrigWriter, jsonld_texts, nquads_texts
from dotr.streams.formats.writing import StreamFormat, compile_writer, ndjson_line
from dotr.streams.records import Format, GraphSettings, InputFile, Message

pytestmark = pytest.mark.core

NAME = NamedNode("https://data.example/fire/5000000-1")
TRIPLES = (("_:b", "<http://e/p>", '"2.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'), ("<http://e/a>", "<http://e/p>", "_:b"))
PUBLISHED = NamedGraph(str(NAME), 5_000_000, "R 1", TRIPLES, 41)


def quads(text: str, form: RdfFormat) -> set[Quad]:
    return set(parse(text, form))


def test_a_published_graph_has_its_name_time_rule_and_number_in_each_format() -> None:
    nquads = quads("".join(nquads_texts([PUBLISHED], Clock(dated=True))), RdfFormat.N_QUADS)
    trig = quads("".join(TrigWriter(Clock(dated=True), {"e": "http://e/"})([PUBLISHED])), RdfFormat.TRIG)
    assert trig == nquads
    assert {quad.predicate.value: str(quad.object) for quad in nquads if quad.subject == NAME} == {
        "http://www.w3.org/ns/prov#generatedAtTime": '"1970-01-01T00:00:05Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
        "http://www.w3.org/ns/prov#wasGeneratedBy": "<urn:dotr:rule:R%201>",
        "urn:dotr:number": '"41"^^<http://www.w3.org/2001/XMLSchema#integer>',
    }
    assert {quad.graph_name for quad in nquads if quad.predicate == NamedNode("http://e/p")} == {NAME}
    assert BlankNode("b") in {quad.subject for quad in nquads}


def test_turtle_is_one_graph_of_all() -> None:
    turtle = quads("".join(TrigWriter(Clock(), {}, blocks=False)([PUBLISHED])), RdfFormat.TURTLE)
    nquads = quads("".join(nquads_texts([PUBLISHED], Clock())), RdfFormat.N_QUADS)
    assert {quad.triple for quad in turtle} == {quad.triple for quad in nquads}
    assert len(turtle) == 5


def test_an_element_of_an_input_has_no_rule() -> None:
    element = PUBLISHED._replace(rule="", number=None)
    nquads = quads("".join(nquads_texts([element], Clock())), RdfFormat.N_QUADS)
    assert nquads == quads("".join(TrigWriter(Clock(), {})([element])), RdfFormat.TRIG)
    assert [quad.predicate.value for quad in nquads if quad.subject == NAME] == ["http://www.w3.org/ns/prov#generatedAtTime"]


def test_elements_of_inputs_in_files_have_time_and_graph_and_names_of_their_own() -> None:
    elements = [Firing.of_element(5_000_000, name, number, TRIPLES) for number, name in enumerate(("sensors", "sensors", "alarms"))]
    assert list(json.loads(ndjson_line(elements[0], Clock()))) == ["time", "graph"]
    written = quads("".join(compile_writer(StreamFormat.NQUADS, Clock())(elements)), RdfFormat.N_QUADS)
    assert len({quad.graph_name for quad in written}) == 4


@pytest.mark.parametrize("number", [None, 7])
@pytest.mark.parametrize("rule", ["", "R 1"])
@pytest.mark.parametrize("form", [Format.TRIG, Format.NQUADS, Format.JSONLD])
def test_empty_graph_of_dotr_is_an_element_without_triples_in_a_message(form: Format, rule: str, number: int | None) -> None:
    graphs = [PUBLISHED._replace(triples=(), rule=rule, number=number)]
    texts = {
        Format.TRIG: TrigWriter(Clock(), {})(graphs),
        Format.NQUADS: nquads_texts(graphs, Clock()),
        Format.JSONLD: jsonld_texts(graphs, Clock()),
    }
    [record] = message_decoder(InputFile("in", "", form))(Message("".join(texts[form]).encode(), 0), True)
    assert (record.time, record.element and record.element.triples) == (5_000_000, ())


LITERALS = (
    '"x"',
    '"é \\"quoted\\" \\\\ \\n\\u0001"',
    '"warm"@en',
    '"salaam"@ar--rtl',
    '"007"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"2.50"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    '"1e400"^^<http://www.w3.org/2001/XMLSchema#double>',
    '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>',
    '"2024-02-30"^^<http://www.w3.org/2001/XMLSchema#date>',
    '"{}"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON>',
    '"a"^^<http://e/own>',
)
RICH = PUBLISHED._replace(
    triples=(
        *(("_:b", f"<http://e/p{number % 3}>", literal) for number, literal in enumerate(LITERALS)),
        ("<http://e/a>", RDF_TYPE, "<http://e/A>"),
        ("<http://e/a>", RDF_TYPE, "_:b"),
        ("<http://e/a>", RDF_TYPE, '"no class"'),
        ("_:b", "<http://e/p0>", "<http://e/a>"),
    )
)


def test_json_ld_has_the_quads_of_n_quads() -> None:
    [text] = jsonld_texts([RICH], Clock(dated=True))
    assert "\n" not in text
    assert quads(text, RdfFormat.JSON_LD) == quads("".join(nquads_texts([RICH], Clock(dated=True))), RdfFormat.N_QUADS)
    assert jsonld_texts([RICH], Clock(dated=True)) == [text]
    assert json.loads(text)["@id"] == NAME.value


def test_json_ld_is_an_object_for_each_graph_so_that_an_array_of_them_is_a_document() -> None:
    graphs = [RICH, RICH._replace(name="<http://e/other>", triples=TRIPLES, number=42)]
    document = f"[{','.join(jsonld_texts(graphs, Clock()))}]"
    assert quads(document, RdfFormat.JSON_LD) == quads("".join(nquads_texts(graphs, Clock())), RdfFormat.N_QUADS)


@pytest.mark.parametrize("settings", [GraphSettings(), GraphSettings(context='{"@context": {"a": "http://e/a"}}')])
def test_json_ld_of_dotr_is_read_with_its_base_directions(settings: GraphSettings) -> None:
    [text] = jsonld_texts([RICH], Clock())
    decode = message_decoder(InputFile("in", "", Format.JSONLD, graphs=settings))
    [record] = decode(Message(text.encode(), 0), True)
    assert record.time == 5_000_000
    assert record.element is not None
    assert {triple[2] for triple in record.element.triples if triple[2][0] == '"'} == {*LITERALS, '"no class"'}


def test_json_ld_leaves_out_triple_terms() -> None:
    told = ("<http://e/a>", "<http://e/said>", '<<( <http://e/a> <http://e/p> "1" )>>')
    [text] = jsonld_texts([PUBLISHED._replace(triples=(told, *TRIPLES))], Clock())
    assert quads(text, RdfFormat.JSON_LD) == quads("".join(nquads_texts([PUBLISHED], Clock())), RdfFormat.N_QUADS)
