"""Triple terms on their way through a pipeline: read in every format, renamed, merged, matched,
kept in state, written and read again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr import Program
from dotr.instant.instants import merge
from dotr.model.places import Document
from dotr.model.stream import Element, Firing
from dotr.model.terms import RDF_REIFIES, Triple
from dotr.model.time import Clock
from dotr.streams.formats.writing import StreamFormat, compile_writer
from dotr.streams.records import ElementMap, Format
from dotr.syntax.turtle.graphs import number_blanks, read_graph
from tests.streams.formats.test_io_formats import records

pytestmark = pytest.mark.core

EX = "http://e/"


def test_blank_nodes_in_triple_terms_are_local_to_their_element() -> None:
    """A label has the same name within and outside triple terms, and another name in another
    element; a literal with the text of a label is unchanged."""
    graph = read_graph('_:x :says <<( _:x :p <<( _:y :p "_:x" )>> )>> . :a :says <<( _:z :p :o )>>, ":b", "<<(" .', {"": "http://e/"}, 64)
    says, p = "<http://e/says>", "<http://e/p>"
    assert graph == (
        ("_:0", says, f'<<( _:0 {p} <<( _:1 {p} "_:x" )>> )>>'),
        ("<http://e/a>", says, f"<<( _:2 {p} <http://e/o> )>>"),
        ("<http://e/a>", says, '":b"'),
        ("<http://e/a>", says, '"<<("'),
    )
    merged = merge(7, [graph, graph]).triples
    assert len(set(merged)) == 2 * len(graph) - 2
    (subject, _, value), (_, _, other) = merged[:2]
    assert value.startswith(f"<<( {subject} {p} <<( _:e")
    assert value.endswith(f' {p} "_:x" )>> )>>')
    assert other.startswith("<<( _:e")
    assert merge(7, [graph, graph]) == merge(7, [graph, graph])


def test_element_with_blank_nodes_in_triple_terms_only_is_renamed() -> None:
    one: tuple[Triple, ...] = (("<http://e/a>", "<http://e/p>", "<<( _:0 <http://e/p> _:1 )>>"),)
    first, second = merge(7, [one, one]).triples
    assert first != second
    assert "_:0" not in first[2]


TURTLE = "_:c :says <<( :lamp :is _:x )>> . :lamp :is :on {| :by _:c |} . << :lamp :is 025 ~ :r >> :by :bob ."


def expected(named: tuple[str, str, str] = ("_:0", "_:1", "_:2")) -> set[Triple]:
    claim, x, anonymous = named

    def e(name: str) -> str:
        return f"<{EX}{name}>"

    number = '"025"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return {
        (claim, e("says"), f"<<( {e('lamp')} {e('is')} {x} )>>"),
        (e("lamp"), e("is"), e("on")),
        (anonymous, RDF_REIFIES, f"<<( {e('lamp')} {e('is')} {e('on')} )>>"),
        (anonymous, e("by"), claim),
        (e("r"), RDF_REIFIES, f"<<( {e('lamp')} {e('is')} {number} )>>"),
        (e("r"), e("by"), e("bob")),
    }


PROV = "http://www.w3.org/ns/prov#generatedAtTime"


def nquads() -> str:
    lines = [f"{s} {p} {o} <urn:g> ." for s, p, o in sorted(expected())]
    return "\n".join([f'<urn:g> <{PROV}> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .', *lines, ""])


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.NDJSON, json.dumps({"time": 7, "graph": TURTLE})),
        (Format.TRIG, f"@prefix : <{EX}> . <urn:g> <{PROV}> 7 . <urn:g> {{ {TURTLE} }}"),
        (Format.NQUADS, nquads()),
    ],
)
def test_every_format_reads_triple_terms(tmp_path: Path, form: Format, text: str) -> None:
    (record,) = records(tmp_path, form, text)
    assert record.element is not None, record.why
    found = record.element.triples
    assert len(found) == 6
    claim = next(s for s, p, o in found if p == f"<{EX}says>")
    x = next(o for _, p, o in found if p == f"<{EX}says>").split(" ")[3]
    anonymous = next(s for s, p, o in found if p == f"<{EX}by>" and o == claim)
    assert len({claim, x, anonymous} & {"_:0", "_:1", "_:2"}) == 3
    assert set(found) == expected((claim, x, anonymous))


GRAPHS: list[tuple[Triple, ...]] = [
    (
        ("_:b", "<http://e/p>", '<<( _:b <http://e/p> "a )>> \\"<<( \\n" )>>'),
        ("<http://e/a>", "<http://e/p>", "<<( _:c <http://e/p> _:b )>>"),
    ),
    (("<http://e/a>", RDF_REIFIES, "<<( <http://e/a> <http://e/p> <<( <http://e/a> <http://e/p> _:z )>> )>>"),),
]


@pytest.mark.parametrize("form", [StreamFormat.NDJSON, StreamFormat.TRIG, StreamFormat.NQUADS])  # JSON-LD 1.1 has none
def test_written_triple_terms_are_read_back(tmp_path: Path, form: StreamFormat) -> None:
    firings = [Firing(n * 1_000_000, "R", "F", (("t", graph[0][2]),), graph, 0) for n, graph in enumerate(GRAPHS)]
    lines = [line for firing in firings for line in compile_writer(form, Clock())([firing])]
    found = records(tmp_path, Format(form.value), "".join(lines))
    elements = [record.element for record in found]
    assert elements == [Element(n * 1_000_000, number_blanks(graph)) for n, graph in enumerate(GRAPHS)]


RULES = f"""
PREFIX : <{EX}>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
query Claim = [ SELECT ?what ?who WHERE {{ ?r rdf:reifies ?what ; :by ?who }} ]
rule Again
define Again = [ dotr_id :repeats ?what . dotr_id :by ?who ~ [] . ?thing :said <<( ?who :at ?value )>> . << ?value :at ?who >> :x 1 ]
from Claim and last Claim as Before [ FILTER(?what = Claim.?what) ] within 1 min from Claim
with Again.?what = Before.?what, Again.?who = Claim.?who, Again.?thing = SUBJECT(Claim.?what), Again.?value = OBJECT(Claim.?what)
"""


def test_row_of_a_table_has_triple_terms(tmp_path: Path) -> None:
    table = ElementMap("t", Document("map", "<< :s{id} :is {v} ~ _:r >> :by [ :of _:r ] . [] :says <<( [] :p {v} )>> ."), ",")
    (whole, part) = records(tmp_path, Format.CSV, "t,id,v\n1,7,0.5\n2,8,\n", table)
    assert whole.element is not None
    half = '"0.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    assert whole.element.triples == (
        ("_:0", RDF_REIFIES, f"<<( <{EX}s7> <{EX}is> {half} )>>"),
        ("_:0", f"<{EX}by>", "_:1"),
        ("_:1", f"<{EX}of>", "_:0"),
        ("_:2", f"<{EX}says>", f"<<( _:3 <{EX}p> {half} )>>"),
    )
    assert part.element is not None
    assert part.element.triples == (("_:0", f"<{EX}by>", "_:1"), ("_:1", f"<{EX}of>", "_:0"))


def test_state_is_keyed_by_triple_terms_and_templates_drop_invalid_triples(tmp_path: Path) -> None:
    path = tmp_path / "r.dotr"
    path.write_text(RULES)
    background = tmp_path / "b.ttl"
    background.write_text(f"@prefix : <{EX}> . :bob :knows <<( :x :y :z )>> .")
    program = Program.load(rules=[path], graphs=[background])
    prefix = f"@prefix : <{EX}> . "
    with program.session() as session:
        assert list(session.advance(1, prefix + "<< :lamp :is 1 >> :by :ann .")) == []
        assert list(session.advance(2, prefix + "<< :lamp :is 2 >> :by :ann .")) == []
        (event,) = session.advance(3, prefix + "<< :lamp :is 1.0 >> :by :bob .")
        assert dict(event.attributes) == {
            "what": f'<<( <{EX}lamp> <{EX}is> "1"^^<http://www.w3.org/2001/XMLSchema#integer> )>>',
            "who": f"<{EX}bob>",
            "thing": f"<{EX}lamp>",
            "value": '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>',
        }
        made = read_graph(event.graph, {}, 64)
        assert [p for _, p, _ in made] == [f"<{EX}repeats>", f"<{EX}by>", RDF_REIFIES, f"<{EX}said>", f"<{EX}x>"]
        assert f"<<( <{EX}bob> <{EX}at> " in event.graph
        assert '<<( "1.0"' not in event.graph
