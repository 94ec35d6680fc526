"""Compiler of LARS files: text to `dotr.languages.lars.model`, and files as units of a program."""

from __future__ import annotations

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    EventAtom,
    LarsFile,
    LarsLiteral,
    LarsNot,
    LarsRule,
    ReportKind,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
)
from dotr.languages.lars.reading import compile_lars
from dotr.languages.lars.text.checks import strata
from dotr.languages.programs import compile_program
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, TRUE
from dotr.model.time import Interval

pytestmark = pytest.mark.core

PREFIXES = {"": "http://example.org/"}
SECOND = 1_000_000


def read(text: str) -> LarsFile:
    (file,) = compile_lars([Document("a.lars", text)], PREFIXES).checked().files
    return file


def rule(text: str) -> LarsRule:
    (only,) = read(text).rules
    return only


def literal(text: str) -> LarsLiteral:
    found = rule(f"Q(?x) :- :on(?x, true), {text} .").body[1]
    assert isinstance(found, LarsLiteral)
    return found


def codes(text: str) -> list[str]:
    return [each.code for each in compile_lars([Document("a.lars", text)], PREFIXES).diagnostics]


def e(name: str) -> Const:
    return Const(f"<http://example.org/{name}>")


X, Y = Var("x"), Var("y")


@pytest.mark.parametrize(
    ("text", "atom"),
    [
        (":C(?x)", TriplePattern(X, Const(RDF_TYPE), e("C"))),
        (":p(?x, ?y)", TriplePattern(X, e("p"), Y)),
        (":p[?x, ?y]", TriplePattern(X, e("p"), Y)),
        ("[?x, ?p, ?y]", TriplePattern(X, Var("p"), Y)),
        ("[?x, a, :C]", TriplePattern(X, Const(RDF_TYPE), e("C"))),
        ("EVENT High", EventAtom("High", ())),
        ("EVENT High(?x)", EventAtom("High", (("x", X),))),
        ("event High(?b AS ?y, ?a AS true, ?x)", EventAtom("High", (("a", Const(TRUE)), ("b", Y), ("x", X)))),
    ],
)
def test_atom_is_read(text: str, atom: object) -> None:
    assert literal(text).atom == atom


def test_own_atom_has_any_number_of_arguments() -> None:
    file = read("A, B(?x, ?x, 1) :- C(:c, ?x), D . C(:c, :d), D . ")
    (only,) = file.rules
    one = Const('"1"^^<http://www.w3.org/2001/XMLSchema#integer>')
    assert [head.atom for head in only.heads] == [RelationAtom("A", ()), RelationAtom("B", (X, X, one))]
    assert [fact.atom for fact in file.facts] == [RelationAtom("C", (e("c"), e("d"))), RelationAtom("D", ())]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("[5 s]", TimeWindow(Interval(0, 5 * SECOND, low_closed=True, high_closed=True))),
        ("[0]", TimeWindow(Interval(0, 0, low_closed=True, high_closed=True))),
        ("[1 min 30 s]", TimeWindow(Interval(0, 90 * SECOND, low_closed=True, high_closed=True))),
        ("[PT5M]", TimeWindow(Interval(0, 300 * SECOND, low_closed=True, high_closed=True))),
        ("[PT1.5S]", TimeWindow(Interval(0, 1_500_000, low_closed=True, high_closed=True))),
        ('["PT5M"^^xsd:duration]', TimeWindow(Interval(0, 300 * SECOND, low_closed=True, high_closed=True))),
        ("[5 min.]", TimeWindow(Interval(0, 300 * SECOND, low_closed=True, high_closed=True))),
        ("(1 s, 5 s]", TimeWindow(Interval(SECOND, 5 * SECOND, low_closed=False, high_closed=True))),
        ("[0, 5 S)", TimeWindow(Interval(0, 5 * SECOND, low_closed=True, high_closed=False))),
        ("[LAST 3]", TupleWindow(3, Counted.ALL, ())),
        ("[last 3 matching]", TupleWindow(3, Counted.MATCHING, ())),
        ("[LAST 3 PER ?x, ?y]", TupleWindow(3, Counted.PER, ("x", "y"))),
    ],
)
def test_window_is_read(text: str, window: object) -> None:
    assert literal(f":p(?x, ?y) IN {text}").reach == Sometime(window)  # type: ignore[arg-type]


def test_literal_is_read() -> None:
    window = TimeWindow(Interval(0, 5 * SECOND, low_closed=True, high_closed=True))
    assert literal(":p(?x, ?y)").reach is None
    assert literal(":p(?x, ?y) always in [5 s]").reach == Always(window)
    assert literal(":p(?x, ?y) AT ?t IN [5 s]").reach == At(Var("t"), window)
    constant = literal(":p(?x, ?y) AT 7 IN [5 s]").reach
    assert isinstance(constant, At)
    assert isinstance(constant.time, Const)
    since = literal(":p(?x, ?y) SINCE EVENT L(?y) IN [5 s]")
    assert isinstance(since.reach, Since)
    assert since.reach.other == EventAtom("L", (("y", Y),))
    assert since.reach.other_span.text == "EVENT L(?y)"
    assert (since.atom_span.text, since.window_span and since.window_span.text) == (":p(?x, ?y)", "[5 s]")
    assert since.variables == ("x", "y")


def test_body_is_read() -> None:
    body = rule("Q(?w) :- :on(?x, true), NOT :p(?x, ?y) IN [1 s], NOT (:p(?x, ?y), :C(?y)), FILTER(?x != :a), BIND(STR(?x) AS ?w) .").body
    assert [type(item) for item in body] == [LarsLiteral, LarsNot, LarsNot, FilterItem, Bind]
    assert [len(item.literals) for item in body if isinstance(item, LarsNot)] == [1, 2]


def test_statements_are_read_in_any_order() -> None:
    file = read(
        "REPORT ended :d(?x, ?y) as Gone . :d(?x, ?y) AT ?t :- :p(?x, ?y) AT ?t IN [2 s] . "
        "background :C, :p2 . STREAM asserted . RESOLUTION 2 s ."
    )
    assert (file.resolution, file.asserted) == (2 * SECOND, True)
    assert file.background == {"<http://example.org/C>", "<http://example.org/p2>"}
    (report,) = file.reports
    assert (report.kind, report.label, report.attributes, report.makes_graphs) == (ReportKind.ENDED, "Gone", ("x", "y"), True)
    assert file.rules[0].heads[0].at == "t"


@pytest.mark.parametrize("written", ["1 h 30 min", "1\n h\n30\r\nmin.", "1 # one\n h # and\n 30 # more\n min", "1 h\n30min", "PT1H30M"])
def test_length_may_be_on_several_lines(written: str) -> None:
    file = read(f"RESOLUTION {written} . Q(?x) :- :on(?x, true) IN (0 s, {written}] . REPORT Q(?x) .")
    assert file.resolution == 5_400 * SECOND
    (literal,) = file.literals
    assert isinstance(literal.reach, Sometime)
    assert literal.reach.window == TimeWindow(Interval(0, 5_400 * SECOND, low_closed=False, high_closed=True))


@pytest.mark.parametrize("length", ["5 s", "5", "5 s 3"])
def test_next_statement_is_no_part_of_a_length_without_its_dot(length: str) -> None:
    problem = compile_lars([Document("q.lars", f"RESOLUTION {length}\nSTREAM ASSERTED .\n")], {}).diagnostics[-1]
    assert (problem.code, problem.message) == ("L101", "expected `.`, found STREAM")


def test_statements_left_out_have_defaults() -> None:
    file = read("Q(?x) :- :on(?x, true) . REPORT Q(?x) .")
    assert (file.resolution, file.asserted, file.background) == (SECOND, False, frozenset())
    assert (file.reports[0].kind, file.reports[0].label, file.reports[0].makes_graphs) == (ReportKind.NEW, "Q", False)


def test_file_prefixes_hide_configured_prefixes() -> None:
    assert "K202" in codes("PREFIX x: <http://x/> Q(?x) :- :on(?x, true) .")
    assert codes("Q(?x) :- :on(?x, true) . REPORT Q(?x) .") == []


def test_all_errors_of_a_file_are_reported() -> None:
    text = """RESOLUTION 0 s .
Q(?x) :- :on(?x, true) ALWAYS, :p(?x, ?v) IN [5], NOT FILTER(?v > 3) .
R(?x) :- :on(?y, true) IN [LAST 0], :on(?y, true) IN [3 s, 1 s] .
REPORT ENDED R(?x) .
"""
    assert codes(text) == ["L203", "L201", "L103", "L213", "L204", "L202", "L222"]


def test_relation_of_a_rule_with_a_syntax_error_is_not_reported_as_unknown() -> None:
    assert codes("Q(?x) :- Busy(?x) . Busy(?x) :- :on(?x true) . REPORT Q(?x) .") == ["L101"]
    assert codes("Q(?x) :- :on(?x true) . REPORT Q(?x) .") == ["L101"]


def test_heads_of_one_rule_may_be_in_several_strata() -> None:
    file = read("P(?x), Q(?x) :- :on(?x, true) . Q(?x) :- :off(?x, true), NOT P(?x) . REPORT Q(?x) .")
    relations = [
        sorted({head.atom.relation for each in stratum for head in each.heads if isinstance(head.atom, RelationAtom)})
        for stratum in strata(file)
    ]
    assert relations == [["P"], ["Q"]]


def test_recursion_is_allowed_without_not() -> None:
    assert codes("R(?x, ?y) :- :l(?x, ?y) IN [4 s] . R(?x, ?z) :- R(?x, ?y), :l(?y, ?z) IN [4 s] . REPORT R(?x, ?y) .") == []


def test_variable_class_depends_on_all_classes() -> None:
    assert codes(":D(?x) :- :on(?x, true), NOT [?x, a, ?c] . REPORT :D(?x) AS D .") == ["L209"]
    assert codes(":d(?x, true) :- :on(?x, true), NOT [?x, a, ?c] . REPORT :d(?x, true) AS D .") == []


def test_class_of_the_background_is_no_recursion() -> None:
    assert codes("BACKGROUND :C . :D(?x) :- :on(?x, true), NOT :C(?x) . REPORT :D(?x) AS D .") == []


# --- in a program ---


def refused(*files: tuple[str, str]) -> list[str]:
    try:
        compile_program(ProgramSpec(tuple(Document(name, text) for name, text in files), prefixes=PREFIXES))
    except Refused as error:
        return [each.code for each in error.diagnostics]
    return []


HIGH = "define High = [ [] :of ?s ] from T = [ SELECT ?s WHERE { ?s :high ?v } ] with High.?s = T.?s"


def test_unknown_label_or_attribute_of_an_event_is_refused() -> None:
    assert refused(("a.lars", "Q(?s) :- EVENT High(?s) . REPORT Q(?s) ."), ("r.dotr", HIGH)) == []
    assert refused(("a.lars", "Q(?s) :- EVENT Hihg(?s) . REPORT Q(?s) ."), ("r.dotr", HIGH)) == ["D205"]
    assert refused(("a.lars", "Q(?s) :- EVENT High(?s, ?t), EVENT Hi(?u) . REPORT Q(?s) ."), ("r.dotr", HIGH)) == ["D205", "D207"]
    assert (
        refused(("a.lars", "Q(?s) :- EVENT Near(?s) . REPORT Q(?s) ."), ("r.dotr", "query Near = [ SELECT ?s WHERE { ?s :near ?o } ]"))
        == []
    )


def test_label_of_two_units_is_refused() -> None:
    file = "Q(?s) :- :on(?s, true) . REPORT Q(?s) AS High ."
    assert refused(("a.lars", file), ("r.dotr", HIGH)) == ["D222"]
    assert refused(("a.lars", file), ("b.lars", file)) == ["D222"]
    assert refused(("a.lars", file), ("r.dotr", "query High = [ SELECT ?s WHERE { ?s :near ?o } ]")) == ["D222"]
    other = "REGISTER RSTREAM <High> AS SELECT ?x FROM WINDOW ON <in> [RANGE 2s] WHERE { ?x :p ?y }"
    assert refused(("a.lars", file), ("q.rspql", other)) == ["D222"]
    relation = "High(?s) :- :on(?s, true) . REPORT High(?s) AS Other ."
    assert refused(("a.lars", relation), ("r.dotr", HIGH)) == []


def test_cycle_through_a_file_is_refused() -> None:
    own = "Q(?s) :- EVENT Q(?s) IN [1 s, 5 s] . REPORT Q(?s) ."
    assert refused(("a.lars", own)) == ["D404"]
    one = "Q(?s) :- EVENT R(?s) IN [1 s, 5 s] . REPORT Q(?s) ."
    assert refused(("a.lars", one), ("b.lars", "R(?s) :- EVENT Q(?s) . REPORT R(?s) .")) == ["D404"]
    past = "define R = [ [] :of ?s ] from T = [ SELECT ?s WHERE { ?s :high ?v } ] and last Q within 5 s from T with R.?s = Q.?s"
    assert refused(("a.lars", one), ("r.dotr", past)) == ["D404"]


def test_shared_query_read_by_a_file_is_used() -> None:
    rules = "query Near = [ SELECT ?s WHERE { ?s :near ?o } ] " + HIGH
    files = (Document("a.lars", "Q(?s) :- EVENT Near(?s) . REPORT Q(?s) ."), Document("r.dotr", rules))
    assert "D220" not in [each.code for each in compile_program(ProgramSpec(files, prefixes=PREFIXES)).warnings]
    assert "D220" in [each.code for each in compile_program(ProgramSpec(files[1:], prefixes=PREFIXES)).warnings]


def test_single_partition_gives_a_warning_that_can_be_allowed() -> None:
    text = "Q(?x, ?y) :- :on(?x, true), :on(?y, true) . REPORT Q(?x, ?y) ."
    spec = ProgramSpec((Document("a.lars", text),), prefixes=PREFIXES)
    assert [each.code for each in compile_program(spec).warnings] == ["L404"]
    allowed = ProgramSpec((Document("a.lars", f"# dotr: allow L404 (few)\n{text}"),), prefixes=PREFIXES)
    assert [each.code for each in compile_program(allowed).warnings] == []
