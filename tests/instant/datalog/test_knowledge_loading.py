"""Loading: syntaxes, blank nodes, unreadable files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.instant.datalog.background.loading import load_graphs, read_graph

pytestmark = pytest.mark.core

A, P, B = "<http://e/a>", "<http://e/p>", "<http://e/b>"

SYNTAXES = {
    "g.ttl": "@prefix : <http://e/> . :a :p :b .",
    "g.nt": f"{A} {P} {B} .",
    "g.n3": "@prefix : <http://e/> . :a :p :b .",
    "g.nq": f"{A} {P} {B} <http://e/graph> .",
    "g.trig": "@prefix : <http://e/> . :graph { :a :p :b . } :a :p :b .",
    "g.jsonld": '{"@id": "http://e/a", "http://e/p": {"@id": "http://e/b"}}',
    **dict.fromkeys(
        ("g.rdf", "g.xml", "g.owl", "G.OWL"),
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        '<rdf:Description rdf:about="http://e/a"><e:p rdf:resource="http://e/b"/></rdf:Description></rdf:RDF>',
    ),
}


@pytest.mark.parametrize("name", SYNTAXES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_syntax_is_loaded(tmp_path: Path, name: str, packed: bool) -> None:
    content = SYNTAXES[name].encode()
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert set(load_graphs([path])) == {(A, P, B)}


def test_blank_nodes_are_local_to_a_file_and_named_by_appearance(tmp_path: Path) -> None:
    path = tmp_path / "g.ttl"
    path.write_text("@prefix : <http://e/> . [] :p _:x . _:x :p _:x .")
    assert load_graphs([path, path]) == [
        *[("_:g0x0", P, "_:g0x1"), ("_:g0x1", P, "_:g0x1")],
        *[("_:g1x0", P, "_:g1x1"), ("_:g1x1", P, "_:g1x1")],
    ]


def test_literals_are_canonical_text_and_keep_their_lexical_form(tmp_path: Path) -> None:
    path = tmp_path / "g.ttl"
    path.write_text('@prefix : <http://e/> . :a :p 025, "x"@EN-gb, """two\nlines\t"quoted" """, "é" .', encoding="utf-8")
    assert [o for _, _, o in load_graphs([path])] == [
        '"025"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"x"@en-gb',
        '"two\\nlines\\t\\"quoted\\" "',
        '"é"',
    ]


def test_base_direction_is_kept_in_turtle_and_left_out_in_json_ld(tmp_path: Path) -> None:
    """JSON-LD writes it to RDF only where `rdfDirection` is set (JSON-LD 1.1 API, 8.2.2)."""
    turtle, json_ld = tmp_path / "g.ttl", tmp_path / "g.jsonld"
    turtle.write_text('<http://e/a> <http://e/p> "x"@AR--rtl .')
    json_ld.write_text('{"@id": "http://e/a", "http://e/p": {"@value": "x", "@language": "ar", "@\\u0064irection": "rtl"}}')
    assert load_graphs([turtle, json_ld]) == [(A, P, '"x"@ar--rtl'), (A, P, '"x"@ar')]


def refusal(*paths: Path) -> list[Diagnostic]:
    with pytest.raises(Refused) as refused:
        load_graphs(paths)
    return list(refused.value.diagnostics)


def test_every_unreadable_file_is_reported(tmp_path: Path) -> None:
    broken, context, damaged, rule, folder = (tmp_path / name for name in ("b.ttl", "c.jsonld", "d.nt.gz", "e.n3", "f.ttl"))
    broken.write_text("@prefix : <http://e/> .\n:a :p :b .\n:a :é :p :b .\n", encoding="utf-8")
    context.write_text('{"@context": "http://schema.org/", "@id": "http://e/a"}')
    damaged.write_text("plain")
    rule.write_text("{ <http://a> <http://b> <http://c> } => { <http://c> <http://b> <http://a> } .")
    folder.mkdir()
    found = refusal(broken, context, damaged, rule, folder, tmp_path / "none.ttl", tmp_path / "g.doc")
    assert [problem.code for problem in found] == ["K104", "K107", "K103", "K106", "K103", "K101", "K102"]
    assert all(problem.hint for problem in found)
    assert found[0].span is not None
    assert found[0].span.line_column == (3, 10)
    assert str(found[0]).startswith(f"{broken}:3:10: K104 ")


def test_invalid_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.ttl"
    path.write_bytes(b'<http://e/a> <http://e/p> "\xff" .')
    assert [problem.code for problem in refusal(path)] == ["K104"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.ttl", "@prefix : <http://e/> . _:x :says <<( _:x :p <<( _:y :p 025 )>> )>> . _:y :p :o {| :q _:x |} ."),
        (
            "g.nt",
            "_:x <http://e/says> <<( _:x <http://e/p> <<( _:y <http://e/p> "
            '"025"^^<http://www.w3.org/2001/XMLSchema#integer> )>> )>> . _:y <http://e/p> <http://e/o> .'
            "_:r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( _:y <http://e/p> <http://e/o> )>> . _:r <http://e/q> _:x .",
        ),
    ],
)
def test_triple_terms_use_blank_nodes_of_their_file(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text.replace(" . ", " .\n").replace(" ._", " .\n_") if name.endswith("nt") else text)
    integer = '"025"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert read_graph(path, 3) == [
        ("_:g3x0", "<http://e/says>", f"<<( _:g3x0 <http://e/p> <<( _:g3x1 <http://e/p> {integer} )>> )>>"),
        ("_:g3x1", "<http://e/p>", "<http://e/o>"),
        ("_:g3x2", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>", "<<( _:g3x1 <http://e/p> <http://e/o> )>>"),
        ("_:g3x2", "<http://e/q>", "_:g3x0"),
    ]


@pytest.mark.parametrize("graph", ["<<( :a :p :b )>> :q :c .", ":a :q <<( 1 :p :b )>> .", ":a <<( :a :p :b )>> :c ."])
def test_invalid_triple_terms_are_refused(tmp_path: Path, graph: str) -> None:
    path = tmp_path / "g.ttl"
    path.write_text(f"@prefix : <http://e/> . {graph}")
    assert [problem.code for problem in refusal(path)] == ["K104"]
