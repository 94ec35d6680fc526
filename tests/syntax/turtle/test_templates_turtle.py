"""Parser of templates: without variables and cells it equals pyoxigraph's of Turtle; spans of errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import CanonicalizationAlgorithm, Dataset, Quad, RdfFormat, parse

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.algebra import Const, Var
from dotr.model.places import Document, Span
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, Template, TemplateSlot
from dotr.model.terms import RDF, RDF_TYPE, XSD, literal
from dotr.syntax.turtle.parser import parse_template

pytestmark = pytest.mark.core

EX = "http://example.org/"
PREFIXES = {"": EX, "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "xsd": XSD, "sensor": EX + "s/"}
HEADER = "".join(f"@prefix {prefix}: <{namespace}> . " for prefix, namespace in PREFIXES.items())


def template(text: str, *, cells: bool = False) -> Template:
    around = f"define X = [{text}]"
    return parse_template(Span(Document("a.dotr", around), 12, len(around) - 1), PREFIXES, cells=cells)


def problems(text: str, *, cells: bool = False) -> tuple[Diagnostic, ...]:
    with pytest.raises(Refused) as refused:
        template(text, cells=cells)
    return refused.value.diagnostics


def problem(text: str, *, cells: bool = False) -> tuple[str, str]:
    """The code and the place of the only problem."""
    (only,) = problems(text, cells=cells)
    assert only.span is not None
    return only.code, only.span.text


def written(slot: TemplateSlot) -> str:
    match slot:
        case Const(term):
            return term
        case Blank(name):
            return "_:" + "".join(c if c.isalnum() else "x" for c in name)
        case _:
            raise AssertionError(slot)


def canonical(turtle: str) -> set[Quad]:
    dataset = Dataset(parse(turtle, RdfFormat.TURTLE))
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return set(dataset)


def assert_equal_to_turtle(text: str) -> None:
    """Compare a template, whose final dot is optional, with pyoxigraph's graph of the same text."""
    ours = "".join(f"{' '.join(map(written, triple))} .\n" for triple in template(text).triples)
    assert canonical(ours) == canonical(HEADER + text + ("" if not text or text.rstrip().endswith((".", "more", "done")) else "\n."))


@pytest.mark.parametrize(
    "text",
    [
        ":a :b :c",
        ":a :b :c . :a :b :d .",
        ":a :b :c, :d ; a :E ;; :f 1 ; .",
        ":a :b <http://c>.:d :e :f.",
        "[] a :Fire .",
        "[ a :Fire ; :at [ :in :room ; :of [] ] ] .",
        "[ a :Fire ] :at :room .",
        "_:x :knows _:y . _:y :knows _:x",
        "_:x.y :p _:x.y.",
        "() :p () .",
        ":a :list ( 1 2.0 3e0 ( :x ) [ :y 'z' ] )",
        "( 1 2 ) :p :o",
        ":a :p 1, +1, -1.0, .5, 1e5, 1.E-3, -.5e+2, 70.",
        ":a :p true, false",
        """:a :p "x", 'y', \"\"\"l"o""n\ng\"\"\", '''it's'''""",
        r':a :p "tab\tquote\"uni\u00E9\U0001F600back\\slash"',
        ':a :p "warm"@EN, "chaud"@fr-BE, "5"^^xsd:byte, "x"^^xsd:string, "5"^^ <http://www.w3.org/2001/XMLSchema#int>',
        "@prefix p: <http://p/> . p:a p:b p:c . PREFIX q: <http://q/> q:a q:b q:c",
        "prefix q: <http://q/> BASE <http://b/x/> <y> q:p <../z>, <>, <#f>",
        r"<http://e/\u00e9> :p :a\,b, :a%20b, :a:b, :a.b, :1, :-, sensor:, :é .".replace(":-, ", ""),
        "# a comment with ] in it\n:a :b :c # another\n. # and one more",
        ":a :b <http://e/#frag> . # done",
        "",
    ],
)
def test_template_without_variables_is_equal_to_turtle(text: str) -> None:
    assert_equal_to_turtle(text)


_NAMES = st.sampled_from([":a", "<http://x/y>", "rdf:type", ":b.c", "_:n", "_:m1"])
_LITERALS = st.one_of(
    st.integers().map(str),
    st.sampled_from(["true", "1.50", "1e3", "'q'@en", "'q'@AR-eg--rtl", '"x\\n"^^xsd:byte']),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\\r\n\x00')).map(lambda text: f'"{text}"'),
)
_OBJECTS = st.recursive(
    _NAMES | _LITERALS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"( {' '.join(items)} )"),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: f"[ :p {' , '.join(items)} ]"),
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.tuples(_NAMES, st.lists(st.tuples(st.sampled_from(["a", ":q", "<http://p/>"]), _OBJECTS), min_size=1, max_size=3)), max_size=3
    )
)
def test_random_template_is_equal_to_turtle(statements: list[tuple[str, list[tuple[str, str]]]]) -> None:
    assert_equal_to_turtle(
        " . ".join(f"{subject} " + " ; ".join(f"{verb} {value}" for verb, value in properties) for subject, properties in statements)
    )


def test_template_of_the_paper_is_parsed() -> None:
    assert template(" dotr_id1 rdf:type :Fire. dotr_id1 :at_room ?room ").triples == (
        (Fresh("dotr_id1"), Const(RDF_TYPE), Const(f"<{EX}Fire>")),
        (Fresh("dotr_id1"), Const(f"<{EX}at_room>"), Var("room")),
    )


def test_variable_at_any_position_ends_at_a_dot() -> None:
    assert template("?s ?p ?o.?s a ?c").triples == ((Var("s"), Var("p"), Var("o")), (Var("s"), Const(RDF_TYPE), Var("c")))


def test_number_keeps_its_written_form() -> None:
    objects = [value for _, _, value in template(":a :p 1.0, 007, 1E5").triples]
    assert objects == [
        Const(literal("1.0", XSD + "decimal")),
        Const(literal("007", XSD + "integer")),
        Const(literal("1E5", XSD + "double")),
    ]


def test_outer_triple_precedes_inner_ones() -> None:
    first, second, third = template(":a :p [ :q :b ] ; :r :c").triples
    assert (first[0], first[2]) == (Const(f"<{EX}a>"), second[0])
    assert third[2] == Const(f"<{EX}c>")


def test_repeated_triple_occurs_once() -> None:
    assert len(template(":a :b :c, :c . :a :b :c").triples) == 1


def test_cells_at_every_position_are_parsed() -> None:
    text = '<http://x/{a b}/c> :p{C} {avgSpeed}, sensor:{ID}, sensor:x-{ID}.{N}, "{a}, {b}!"@EN, "{t}"^^xsd:dateTime, "plain".'
    triples = template(text, cells=True).triples
    assert triples[0][:2] == (CellIri(("http://x/", Cell("a b"), "/c")), CellIri((EX + "p", Cell("C"))))
    assert [value for _, _, value in triples] == [
        Cell("avgSpeed"),
        CellIri((EX + "s/", Cell("ID"))),
        CellIri((EX + "s/x-", Cell("ID"), ".", Cell("N"))),
        CellLiteral((Cell("a"), ", ", Cell("b"), "!"), "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString", "en"),
        CellLiteral((Cell("t"),), XSD + "dateTime", ""),
        Const('"plain"'),
    ]


def test_cell_with_base_direction() -> None:
    value = CellLiteral((Cell("x"),), f"{RDF}dirLangString", "ar--rtl")
    assert template(":a :b '{x}'@AR--rtl", cells=True).triples[0][2] == value


def test_escaped_brace_is_text() -> None:
    assert template(r':a :p "\u007Bx}{y}"', cells=True).triples[0][2] == CellLiteral(("{x}", Cell("y")), XSD + "string", "")
    assert template(':a :p "{x}"').triples[0][2] == Const('"{x}"')


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (":a :b", "T101", ""),
        (":a :b :c :d", "T101", ":d"),
        (":a :b Fire", "T101", "Fire"),
        ("a :b :c", "T101", "a"),
        (":a :b :c ]", "T101", "]"),
        ("[] .", "T101", "."),
        (":a :b ( 1 2", "T102", "("),
        (":a :b [ :c :d", "T102", "["),
        (":a :b 'x", "T102", "'"),
        (r':a :b "x\q"', "T102", r"\q"),
        (r':a :b "x\uD800"', "T102", r"\uD800"),
        ("sensr:x :b :c", "T103", "sensr:"),
        ("<fire> :b :c", "T104", "<fire>"),
        (":a :b 'x'@ar--RTL", "T101", "@ar--RTL"),
        (":a :b 'x'^^rdf:dirLangString", "T106", "rdf:dirLangString"),
        ("'x' :b :c", "T106", "'x'"),
        (":a 1 :c", "T106", "1"),
        (":a _:b :c", "T106", "_:b"),
        (":a :b {speed}", "T105", "{speed}"),
        (":a :b :x{speed}", "T105", "{speed}"),
    ],
)
def test_invalid_template_is_refused_at_its_span(text: str, code: str, place: str) -> None:
    assert problem(text) == (code, place)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (":a :b ?x", "T105", "?x"),
        ("dotr_id1 :b :c", "T105", "dotr_id1"),
        ("{a} :b :c", "T106", "{a}"),
        ("<{a}/x> :b :c", "T104", "<{a}/x>"),
        (':a :b "{}"', "T105", "{"),
        (":a :b '1'^^xsd:{t}", "T105", "xsd:{t}"),
    ],
)
def test_invalid_map_is_refused_at_its_span(text: str, code: str, place: str) -> None:
    assert problem(text, cells=True) == (code, place)


def test_every_unknown_prefix_gets_a_hint() -> None:
    first, second = problems("sensr:x :b :c . :a rdff:type :c")
    assert "Did you mean sensor?" in first.hint
    assert "Did you mean rdf?" in second.hint
