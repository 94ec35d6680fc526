"""Loading: syntaxes, blank nodes, unreadable files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.stores import Location
from dotr.instant.datalog.background.loading import load_graphs, read_graph, syntaxes_of
from dotr.instant.datalog.background.sources import Reading

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


TURTLE = "@prefix : <http://e/> .\n:a :p :b ."
XML = SYNTAXES["g.rdf"]
JSON = SYNTAXES["g.jsonld"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.owl", TURTLE),
        ("g.rdf", f"# made by hand\n\n{TURTLE}"),
        ("g.xml", "PREFIX : <http://e/>\nBASE <http://e/> :a :p :b ."),
        ("g.owl", f"{A} {P} {B} ."),
        ("g.owl", f"[ {P} {B} ] {P} {B} ."),
        ("g.owl", f"# made by hand\n[] {P} {B} ."),
        ("g.rdf", f"_:a {P} {B} ."),
        ("g.nt", TURTLE),
        ("g.nq", TURTLE),
        ("g.jsonld", TURTLE),
        ("g.ttl", XML),
        ("g.ttl", f'<?xml version="1.0"?>\n<!-- <html> -->\n<!DOCTYPE rdf:RDF [ <!ENTITY e "http://e/"> ]>\n{XML}'),
        ("g.nt", f"\n{XML}"),
        ("g.json", JSON),
        ("g.json", f"[{JSON}]"),
        ("g.ttl", JSON),
        ("g.owl", f"\n{JSON}"),
        ("g.json", TURTLE),
        ("g.txt", TURTLE),
        ("g", XML),
        ("g.data", JSON),
        ("g.owl.ttl", XML),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_opening_tells_the_syntax(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = load_graphs([path])
    assert {(A if subject.startswith("_:") else subject, *rest) for subject, *rest in found} == {(A, P, B)}


def test_declared_format_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("( 1 ) a <http://e/A> .")
    assert [problem.code for problem in refusal(path)] == ["K102"]
    assert "format: …" in refusal(path)[0].hint
    assert len(read_graph(str(path), reading=Reading(((str(path), "turtle"),)))) == 3
    path.write_text(XML)
    assert read_graph(str(path), reading=Reading(((str(path), "turtle"),))) == [(A, P, B)]
    path.write_text("[] a <http://e/A> <http://e/B> .")
    with pytest.raises(Refused, match="K104"):
        read_graph(str(path), reading=Reading(((str(path), "turtle"),)))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("g.owl", "@prefix : <http://e/> .\n:a :p .", ["as Turtle (its opening): ", "; as RDF/XML (.owl): ", "g.owl:2:"]),
        (
            "g.ttl",
            '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://e/"><a></b></rdf:RDF>',
            ["as RDF/XML (its opening): ", "; as Turtle (.ttl): "],
        ),
        ("g.json", "@prefix : <http://e/> . :a :p", ["as Turtle (its opening): ", "; as JSON-LD (.json): "]),
        ("g.ttl", '{"@id": }', ["as JSON-LD (its opening): ", "; as Turtle (.ttl): "]),
        ("g.ttl", "@prefix : <http://e/> .\n:a :p .", ["g.ttl:2:7: K104 "]),
    ],
)
def test_both_reasons_are_told(tmp_path: Path, name: str, text: str, told: list[str]) -> None:
    path = tmp_path / name
    path.write_text(text)
    [problem] = refusal(path)
    assert problem.code == "K104"
    assert all(each in str(problem) for each in told), problem
    assert ("as Turtle" in str(problem)) == (len(told) > 1)


@pytest.mark.parametrize(
    ("name", "text", "told", "tool"),
    [
        (
            "g.owl",
            '<?xml version="1.0"?>\n<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://e/o"/>',
            "OWL/XML",
            "robot convert",
        ),
        ("g.ttl", '<!-- x -->\n<owl:Ontology xmlns:owl="http://www.w3.org/2002/07/owl#" />', "OWL/XML", "robot convert"),
        ("g.owl", "# made by hand\nPrefix(:=<http://e/>)\nOntology(<http://e/o>)", "OWL functional syntax", "robot convert"),
        ("g.ofn", "Ontology ( )", "OWL functional syntax", "robot convert"),
        ("g.owl", "Prefix: : <http://e/>\nOntology: <http://e/o>", "OWL Manchester syntax", "robot convert"),
        ("g.obo", "format-version: 1.2\n", "OBO", "robot convert"),
        ("g.ttl", "<!DOCTYPE html>\n<html lang='en'></html>", "an HTML page", "text/turtle"),
        ("g.rdf", "<?xml version='1.0'?><!DOCTYPE HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>", "an HTML page", "text/turtle"),
        ("g.json", '{"type": "FeatureCollection", "features": [{"url": "http://e/a"}]}', "JSON without a context", "@context"),
    ],
)
def test_what_is_no_rdf_is_named_with_a_way_out(tmp_path: Path, name: str, text: str, told: str, tool: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    [problem] = refusal(path)
    assert (problem.code, problem.message) == ("K108", f"{path}: {told}, which is no RDF")
    assert tool in problem.hint


def test_turtle_with_the_prefix_prefix_is_turtle(tmp_path: Path) -> None:
    path = tmp_path / "g.owl"
    path.write_text("Prefix : <http://e/>\n:a :p :b .")
    assert load_graphs([path]) == [(A, P, B)]
    path.write_text(
        '<owl:Ontology xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" r:about="http://e/o"/>'
    )
    assert len(load_graphs([path])) == 1


def test_search_for_an_opening_is_linear(tmp_path: Path) -> None:
    for text in ("<!-- x -->" * 5_000, "<?x ?>" * 5_000, " " * 50_000, "#\n" * 20_000, "<!DOCTYPE a [ ] " * 3_000):
        assert syntaxes_of(Location(str(tmp_path / "g.ttl")), text.encode())


def test_contexts_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonld"
    path.write_text('{"@context": ["https://e/c", {"p": "http://e/p"}], "id": "http://e/a", "p": {"id": "http://e/b"}}')
    [problem] = refusal(path)
    assert (problem.code, problem.message) == (
        "K107",
        f"{path}: its context https://e/c is not declared (contexts), and nothing is fetched",
    )
    assert "knowledge: { contexts: " in problem.hint
    contexts = (("https://e/c", '{"@context": {"id": "@id"}}'),)
    assert load_graphs([path], Reading(contexts=contexts)) == [(A, P, B)]
    path.write_text('{"@context": "https://e/c", "id": "a", "http://e/p": {"id": "#b"}}')
    assert load_graphs([path], Reading(contexts=contexts)) == [(f"<{tmp_path.as_uri()}/a>", P, f"<{path.as_uri()}#b>")]


def test_extension_without_relative_iris_resolves_none(tmp_path: Path) -> None:
    """So the compiled background of such a file does not depend on its path."""
    path = tmp_path / "g.nt"
    for text in ("@prefix : <http://e/> . <a> :p :b .", '{"@id": "a", "http://e/p": 1}'):
        path.write_text(text)
        assert [problem.code for problem in refusal(path)] == ["K104"]


def test_place_of_an_error_in_json_ld(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonld"
    for text, place in (
        ('{"@id":\n }', "g.jsonld:2:2: K104 "),
        ('{"@context": "https://e/c",\n "id" }', "g.jsonld:2:7: K104 it is no JSON: "),
    ):
        path.write_text(text)
        assert place in str(refusal(path)[0])
    path.write_bytes(b'{"http://e/p": "\xff"}')
    assert "K104" in str(refusal(path)[0])
