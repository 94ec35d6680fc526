"""Compiler of rule files: the paper's Rule R in full, and every construct of the grammar."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.engine.spec import RuleSet
from dotr.languages.codes import RuleCode
from dotr.languages.rules import compile_rules
from dotr.languages.rules.grammar import parse_document
from dotr.model.algebra import Attribute, Bgp, Call, Const, Filter, Pattern, Select, TimeOf, TriplePattern, Var
from dotr.model.places import Document, Span
from dotr.model.rules import (
    Absent,
    Aggregate,
    Assignment,
    Between,
    Choose,
    Clause,
    EventSource,
    FactSource,
    Mode,
    Role,
    Rule,
    Window,
)
from dotr.model.templates import Fresh, Template
from dotr.model.terms import RDF_TYPE, XSD, literal
from dotr.model.time import Interval

pytestmark = pytest.mark.core

RULE_R = """\
PREFIX :    <http://example.org/building#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>

rule R
define Fire = [ dotr_id1 rdf:type :Fire. dotr_id1 :at_room ?room ]
from Smoke = [ SELECT ?read1 ?room1 WHERE
  { ?read1 rdf:type :Smoke. ?read1 :is_from_sensor ?sens1. ?sens1 :is_in_room ?room1 } ]
and last HighTemp = [ SELECT ?read2 ?room2 WHERE
  { ?read2 rdf:type :Temp. ?read2 :is_from_sensor ?sens2. ?sens2 :is_in_room ?room2. ?read2 :has_val ?v.
    FILTER (?v > 60 && ?room2 = Smoke.?room1) } ] within 5 min from Smoke
with Fire.?room = Smoke.?room1
consuming HighTemp
"""
PREFIXES = {"": "http://example.org/building#", "xsd": XSD}
MINUTE = 60_000_000
WITHIN_5_MIN = Interval(0, 5 * MINUTE, low_closed=False, high_closed=True)


def name(local: str) -> Const:
    return Const(f"<http://example.org/building#{local}>")


def compiled(text: str) -> RuleSet:
    return compile_rules([Document("rules.dotr", text)], PREFIXES)


def codes(rules: RuleSet) -> list[str]:
    return [problem.code for problem in rules.diagnostics]


def rule(text: str) -> Rule:
    """The only rule of a text."""
    rules = compiled(text)
    assert set(codes(rules)) <= {RuleCode.UNUSED_QUERY}, "\n".join(map(str, rules.diagnostics))
    return rules.rules[0]


def smoke_and(clause: str, rest: str = "") -> Rule:
    """A rule with the anchor Smoke (?room), a shared query Temp (?v), and a clause."""
    return rule(
        "define Fire = [ dotr_id1 a :Fire ] from Smoke = [ SELECT ?room { ?r a :Smoke ; :in ?room } ] "
        f"{clause} {rest} query Temp = [ SELECT ?v {{ ?t :value ?v }} ]"
    )


def bgp(*triples: tuple[str, Const, Var | Const]) -> Bgp:
    return Bgp(tuple(TriplePattern(Var(s), p, o) for s, p, o in triples))


def facts(pattern: Pattern, *projected: str) -> FactSource:
    return FactSource(Select(projected, pattern), projected, projected)


def test_papers_rule_r_is_compiled() -> None:
    rules = compile_rules([Document("fire.dotr", RULE_R)], {})
    assert rules.diagnostics == ()
    (found,) = rules.rules
    a = Const(RDF_TYPE)
    smoke = bgp(("read1", a, name("Smoke")), ("read1", name("is_from_sensor"), Var("sens1")), ("sens1", name("is_in_room"), Var("room1")))
    temp = bgp(
        ("read2", a, name("Temp")),
        ("read2", name("is_from_sensor"), Var("sens2")),
        ("sens2", name("is_in_room"), Var("room2")),
        ("read2", name("has_val"), Var("v")),
    )
    hot = Filter(temp, (Call(">", (Var("v"), Const(literal("60", XSD + "integer")))),))
    one_room = Call("=", (Var("room2"), Attribute("Smoke", "room1")))
    anchor = Role("Smoke", "Smoke", facts(smoke, "read1", "room1"), (), found.anchor.span)
    last = found.clauses[0].role
    assert found == Rule(
        name="R",
        documentation="",
        event="Fire",
        template=Template(((Fresh("dotr_id1"), a, name("Fire")), (Fresh("dotr_id1"), name("at_room"), Var("room")))),
        anchor=anchor,
        clauses=(
            Choose(
                Role("HighTemp", "HighTemp", facts(hot, "read2", "room2"), (one_room,), last.span), Mode.LAST, Window(WITHIN_5_MIN, "Smoke")
            ),
        ),
        condition=None,
        assignments=(Assignment("room", Attribute("Smoke", "room1")),),
        consuming=("HighTemp",),
        span=found.span,
    )
    assert (anchor.span.text, last.span.text) == ("Smoke", "HighTemp")
    assert found.span.text == RULE_R[RULE_R.index("rule R") : -1]


def test_hidden_attributes_are_projected_and_unreported() -> None:
    clause = smoke_and(
        "and each T = [ SELECT ?t WHERE { ?t :in ?room ; :value ?v . FILTER(?v > 3 && ?room = Smoke.?room) FILTER(time(Smoke) != ?v) } ]"
        " within 1 h from Smoke"
    ).clauses[0]
    source = clause.role.source
    assert isinstance(source, FactSource)
    assert source.attributes == source.query.projection == ("room", "t", "v")
    assert source.projected == ("t",)
    assert clause.role.constraints == (
        Call("=", (Var("room"), Attribute("Smoke", "room"))),
        Call("!=", (TimeOf("Smoke"), Var("v"))),
    )
    assert isinstance(source.query.pattern, Filter)
    assert source.query.pattern.conditions == (Call(">", (Var("v"), Const(literal("3", XSD + "integer")))),)


def test_select_star_projects_visible_variables() -> None:
    source = rule("define A = [ dotr_id1 a :A ] from B = [ SELECT * { ?x :p [ :q ?y ] } ]").anchor.source
    assert isinstance(source, FactSource)
    assert source.projected == ("x", "y")


def test_shared_query_resolves_labels_in_each_rule() -> None:
    rules = compiled(
        "query Hot = [ SELECT ?r { ?r :in ?room FILTER(?room = Smoke.?room) } ] "
        "rule A define X = [ dotr_id1 a :X ] from Smoke = [ SELECT ?room { ?s :in ?room } ] and last Hot within 1 h from Smoke "
        "rule B define Y = [ dotr_id1 a :Y ] from Flame = [ SELECT ?f { ?f a :Flame } ] "
        "and each Smoke = [ SELECT ?room { ?s :in ?room } ] within 1 h from Flame "
        "and last Hot as H [ FILTER(?r != Flame.?f) FILTER(time(H) < time(Flame)) ] within 1 h from Flame"
    )
    assert rules.diagnostics == ()
    (shared,) = rules.queries
    assert (shared.label, shared.query.projection, type(shared.query.pattern)) == ("Hot", ("r",), Bgp)
    first, second = (rule.clauses[-1].role for rule in rules.rules)
    own = Call("=", (Var("room"), Attribute("Smoke", "room")))
    assert (first.label, first.origin, first.constraints) == ("Hot", "Hot", (own,))
    more = (Call("!=", (Var("r"), Attribute("Flame", "f"))), Call("<", (TimeOf("H"), TimeOf("Flame"))))
    assert (second.label, second.origin, second.constraints) == ("H", "Hot", (own, *more))
    assert isinstance(second.source, FactSource)
    assert (second.source.attributes, second.source.projected) == (("r", "room"), ("r",))


def test_event_has_attributes_of_all_its_rules() -> None:
    rules = compiled(
        "rule A define Fire = [ [] :at ?room ] from Smoke = [ SELECT ?room { ?s :in ?room } ] with Fire.?room = Smoke.?room "
        "rule B define Fire = [ [] :at ?floor ] from Flame = [ SELECT ?floor { ?s :on ?floor } ] with Fire.?floor = Flame.?floor ; "
        "rule C define Alarm = [ [] :at ?room ] from Fire as Old [ FILTER(?room = :a) ] with Alarm.?room = Old.?floor"
    )
    assert rules.diagnostics == ()
    anchor = rules.rules[2].anchor
    assert (anchor.label, anchor.origin) == ("Old", "Fire")
    assert anchor.source == EventSource("Fire", ("floor", "room"))
    assert anchor.constraints == (Call("=", (Var("room"), name("a"))),)


@pytest.mark.parametrize(
    ("text", "mode", "count"),
    [
        ("each", Mode.EACH, None),
        ("last", Mode.LAST, None),
        ("LAST 1", Mode.LAST, 1),
        ("first 3", Mode.FIRST, 3),
        ("First", Mode.FIRST, None),
    ],
)
def test_selection_has_mode_and_count(text: str, mode: Mode, count: int | None) -> None:
    clause = smoke_and(f"and {text} Temp within 5 min from Smoke").clauses[0]
    assert isinstance(clause, Choose)
    assert (clause.mode, clause.count, clause.window) == (mode, count, Window(WITHIN_5_MIN, "Smoke"))


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("5 min", 300_000_000),
        ("5 MIN.", 300_000_000),
        ("1 h 30 mins", 5_400_000_000),
        ("1h30min", 5_400_000_000),
        ("1 hour 1 minute 1 second", 3_661_000_000),
        ("1.5 s", 1_500_000),
        (".5 secs", 500_000),
        ("0.25 ms", 250),
        ("7 us", 7),
        ("1 d", 86_400_000_000),
        ("2 Days 3 hours 4 minutes 5 seconds", 183_845_000_000),
        ('"PT5M"^^xsd:duration', 300_000_000),
        ('"P1DT2H3M4.5S"^^<http://www.w3.org/2001/XMLSchema#duration>', 93_784_500_000),
    ],
)
def test_duration_is_microseconds(text: str, micros: int) -> None:
    clause = smoke_and(f"and each Temp within {text} from Smoke").clauses[0]
    assert isinstance(clause, Choose)
    assert clause.window.interval == Interval(0, micros, low_closed=False, high_closed=True)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("[0, 5 min]", Interval(0, 5 * MINUTE, True, True)),
        ("(0, 5 min)", Interval(0, 5 * MINUTE, False, False)),
        ("[1 min, 5 min)", Interval(MINUTE, 5 * MINUTE, True, False)),
        ("( 1 min. , 5 min. ]", Interval(MINUTE, 5 * MINUTE, False, True)),
        ("[0, 0]", Interval(0, 0, True, True)),
        ("[0 s, 1 us)", Interval(0, 1, True, False)),
    ],
)
def test_window_is_interval(text: str, interval: Interval) -> None:
    clause = smoke_and(f"and each Temp within {text} from Smoke").clauses[0]
    assert isinstance(clause, Choose)
    assert clause.window.interval == interval


def shape(clause: Clause) -> tuple[object, ...]:
    match clause:
        case Choose():
            return (clause.role.label,)
        case Absent():
            return "not", clause.role.label, clause.scope
        case Aggregate():
            return clause.variable, clause.function, clause.distinct, clause.attribute, clause.role.label, clause.scope


def test_negation_and_aggregates_are_clauses() -> None:
    found = smoke_and(
        "and last Temp as A within 5 min from Smoke "
        "and not Temp as B within 5 min from A "
        "and not C = [ SELECT ?c { ?c a :C FILTER(?c != A.?v) } ] between A and Smoke "
        "and ?n = count(*) of Temp as D within 5 min from Smoke "
        "and $warm = AVG(distinct E.?v) of Temp as E [ FILTER(?v > 3) FILTER(?v < A.?v) ] between Smoke and A",
        "if ?n > 2 && ?warm >= A.?v consuming A, D, A",
    )
    window, between = Window(WITHIN_5_MIN, "Smoke"), Between("A", "Smoke")
    assert [shape(clause) for clause in found.clauses] == [
        ("A",),
        ("not", "B", Window(WITHIN_5_MIN, "A")),
        ("not", "C", between),
        ("n", "count", False, None, "D", window),
        ("warm", "avg", True, "v", "E", Between("Smoke", "A")),
    ]
    assert found.consuming == ("A", "D")
    assert isinstance(found.condition, Call)
    assert found.condition.arguments[1] == Call(">=", (Var("warm"), Attribute("A", "v")))


def test_aggregate_in_later_condition_is_attribute() -> None:
    found = smoke_and(
        "and ?n = count(*) of Temp as D within 5 min from Smoke "
        "and last Temp as A [ FILTER(?v > ?n && ?v < 9) ] within 5 min from Smoke "
        "and not C = [ SELECT ?c { ?c :v ?w FILTER(?w > 1) FILTER(?w = ?n || ?c = Smoke.?room) } ] between A and Smoke "
        "and each Own = [ SELECT ?x { ?x :v ?m ; :n ?n FILTER(?m > ?n) } ] within 5 min from Smoke",
    )
    own, n = Var("v"), Attribute("D", "n")
    assert found.clauses[1].role.constraints == (Call(">", (own, n)), Call("<", (own, Const(literal("9", XSD + "integer")))))
    denied = found.clauses[2].role
    assert denied.constraints == (Call("||", (Call("=", (Var("w"), n)), Call("=", (Var("c"), Attribute("Smoke", "room"))))),)
    assert isinstance(denied.source, FactSource)
    assert denied.source.attributes == ("c", "w")
    assert denied.source.projected == ("c",)
    assert found.clauses[3].role.constraints == ()


def test_aggregate_is_out_of_scope_before_its_clause_and_in_shared_query() -> None:
    start = "define X = [ [] a :X ] from Smoke = [ SELECT ?s { ?s a :S } ] "
    count = "and ?n = count(*) of Temp as D within 5 min from Smoke "
    temp = "query Temp = [ SELECT ?v { ?t :value ?v } ] "
    rules = compiled(f"{temp} {start} and last Temp [ FILTER(?v > ?n) ] within 1 s from Smoke {count} if ?n > 1")
    assert [(d.code, d.message) for d in rules.diagnostics] == [(RuleCode.UNBOUND_LABEL, "?n is not bound yet")]
    shared = "query Warm = [ SELECT ?v { ?t :v ?v FILTER(?v > ?n) } ] "
    rules = compiled(f"{temp} {shared} {start} {count} and last Warm within 1 s from Smoke if ?n > 1")
    assert codes(rules) == [RuleCode.NEVER_BOUND]


def test_expression_ends_at_next_keyword() -> None:
    found = rule(
        'Rule slow-down """What "it" says.""" DEFINE Slow = [ dotr_id1 :text ?text ; :with ?n # ] with\n ] '
        "From A = [ select ?x where { ?s :p ?x } ] And Last B = [ SELECT ?b { ?b a :B } ] WITHIN 5 min FROM A "
        "If IF(A.?x > 3, 'with, consuming ;', \"b\") != :with # ; if\n "
        'With Slow.?text = concat(str(A.?x), ", ; ]"), Slow.?n = A.?x IN (1, 2) Consuming B ;'
    )
    assert (found.name, found.documentation) == ("slow-down", 'What "it" says.')
    assert isinstance(found.condition, Call)
    assert found.condition.arguments[1] == name("with")
    assert [(a.variable, type(a.expression)) for a in found.assignments] == [("text", Call), ("n", Call)]
    assert found.consuming == ("B",)


def test_unnamed_rule_has_name_of_its_event() -> None:
    assert rule("define Fire = [] from A = [ SELECT ?x { ?x a :A } ]".replace("[]", "[ [] a :Fire ]")).name == "Fire"


def test_bracket_in_string_comment_or_iri_is_text() -> None:
    found = rule(
        "define Fire = [ [ a :Fire ] :text '''a ] 'b' ''' ] "
        "from A = [ SELECT ?x { ?x :p ?y, [ :q \"]\" ], 'it\\'s ]', <http://e/#]> FILTER(?y<3 && ?y>1) # ' ]\n } ] "
    )
    assert len(found.template.triples) == 2
    assert found.anchor.label == "A"


def test_file_prefixes_hide_configured_prefixes() -> None:
    own = "PREFIX e: <http://e/> rule A define X = [ [] a e:X ] from Y = [ SELECT ?y { ?y a e:Y } ]"
    none = "rule B define X = [ [] a :X ] from Y = [ SELECT ?y { ?y a :Y } ]"
    rules = compile_rules([Document("own.dotr", own), Document("none.dotr", none)], PREFIXES)
    assert [r.template.triples[0][2] for r in rules.rules] == [Const("<http://e/X>"), name("X")]
    assert codes(compile_rules([Document("own.dotr", own.replace("e:X", ":X"))], PREFIXES)) == ["T103"]


def test_files_are_compiled_as_one_program() -> None:
    query = Document("a.dotr", "query Smoke = [ SELECT ?room { ?s :in ?room } ]")
    user = Document("b.dotr", "define Fire = [ [] :at ?r ] from Smoke with Fire.?r = Smoke.?room")
    assert codes(compile_rules([user, query], PREFIXES)) == []
    again = compile_rules([query, user, user], PREFIXES)
    assert codes(again) == [RuleCode.RULE_NAME_TWICE]
    assert again.rules == ()


def test_label_of_broken_statement_is_reported_once() -> None:
    rules = compiled(
        "query Smoke = [ SELECT ?room { ?s :in ?room ]\n"
        "define Fire = [ [] a :Fire ] from Smoke and last Alarm within 1 h from Smoke if Smoke.?x > Alarm.?y\n"
        "define Alarm = [ [] a :Alarm ]\n"
    )
    assert codes(rules) == [RuleCode.UNCLOSED_BRACKET, RuleCode.UNEXPECTED]


def test_same_instant_event_and_past_recursion_are_allowed() -> None:
    alarm = "define Alarm = [ [] a :Alarm ] from Fire and each Fire as F within %s from Fire"
    fire = " define Fire = [ [] a :Fire ] from A = [ SELECT ?x { ?x a :A } ] and each Alarm within %s from A"
    assert codes(compiled(alarm % "[0, 0]" + fire % "5 min")) == [RuleCode.UNFOUNDED] * 3
    assert codes(compiled(alarm % "5 min" + fire % "[0, 5 min]")) == [RuleCode.SAME_INSTANT_CYCLE]


def ticks(text: str) -> Role:
    return rule(f"define Count = [ [] a :Count ] from {text}").anchor


def test_every_is_tick_source_with_one_empty_solution() -> None:
    found = ticks("every 1 min 30 s as Tick")
    assert found.source == FactSource(Select((), Bgp(())), (), (), 90_000_000)
    assert (found.label, found.origin, found.delay) == ("Tick", "Tick", 0)


def test_every_for_query_is_source_of_its_solutions() -> None:
    found = ticks('EVERY "PT1M"^^xsd:duration FOR [ SELECT ?room { ?room :start ?start FILTER(time(Tick) > ?start) } ] AS Tick')
    assert isinstance(found.source, FactSource)
    assert (found.source.attributes, found.source.projected, found.source.period) == (("room", "start"), ("room",), MINUTE)
    assert found.constraints == (Call(">", (TimeOf("Tick"), Var("start"))),)


@pytest.mark.parametrize("event", ["Door = [ SELECT ?d { ?d a :Door } ]", "Fire as Door [ FILTER(?v > 1) ]"])
def test_delayed_anchor_has_delay(event: str) -> None:
    rules = compiled(
        f"define Open = [ [] a :Open ] from {event} delayed by 10 min and last Fire as Old within 5 min from Door "
        "define Fire = [ [] :v ?v ] from A = [ SELECT ?v { ?a :v ?v } ] with Fire.?v = A.?v"
    )
    assert codes(rules) == []
    assert (rules.rules[0].anchor.label, rules.rules[0].anchor.delay) == ("Door", 10 * MINUTE)


def test_recursion_through_delayed_anchor_is_allowed_and_through_its_windows_is_not() -> None:
    again = "define Fire = [ [] a :Fire ] from Fire as Before delayed by 1 us"
    assert codes(compiled(again)) == [RuleCode.UNFOUNDED]
    assert codes(compiled(again + " and last Fire within [0, 0] from Before")) == [RuleCode.SAME_INSTANT_RECURSION]


def test_rule_may_be_named_every() -> None:
    assert rule("rule Every define Fire = [ [] a :Fire ] from A = [ SELECT ?x { ?x a :A } ]").name == "Every"


def test_each_of_thousand_unclosed_brackets_is_reported() -> None:
    text = "\n".join(f"rule R{i} define E{i} = [ [] a :E\nfrom A = [ SELECT ?x {{ ?x a :A }} ]" for i in range(1000))
    assert codes(compiled(text)) == [RuleCode.UNCLOSED_BRACKET] * 1000


WORDS = [*RULE_R.replace("\n", " ").split(" "), "\n", "and", "not", "[", "]", "(", '"', "'", "{", "#", "<", "\\", "é", "0", "5 min"]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(RULE_R)), st.integers(0, 12), st.lists(st.sampled_from(WORDS), max_size=3))
def test_damaged_rule_is_compiled_or_reported(at: int, cut: int, put: list[str]) -> None:
    rules = compiled(RULE_R[:at] + " ".join(put) + RULE_R[at + cut :])
    assert rules.rules or rules.errors
    for problem in rules.diagnostics:
        assert problem.span is not None
        assert 0 <= problem.span.start <= problem.span.end <= len(problem.span.document.text)
        assert str(problem)


def test_files_parsed_in_turns_share_no_failure() -> None:
    """The grammar of a thread is built once: the failures of one file are not those of the next."""
    broken, valid = Document("broken.dotr", "rule X define A = [] fro B"), Document("valid.dotr", "rule X define A = [] from B")
    first, problems = parse_document(broken)
    second, none = parse_document(valid)
    assert (first.rules, [problem.span.document for problem in problems if problem.span], none) == ((), [broken], ())
    assert [rule.span.document for rule in second.rules] == [valid]


def test_files_parsed_by_threads_share_no_failure() -> None:
    """Each thread has a grammar of its own: with threads that take turns within a statement, each file has its own place of an error."""
    documents = [Document(f"{n}.dotr", f"rule R{n} define A = [] from B\n" * n + "rule X define A = [] fro B") for n in range(1, 25)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            parsed = list(pool.map(parse_document, documents))
    finally:
        sys.setswitchinterval(interval)
    for n, (document, (file, problems)) in enumerate(zip(documents, parsed, strict=True), start=1):
        assert len(file.rules) == n
        assert [problem.span for problem in problems] == [Span(document, len(document.text) - 5, len(document.text) - 2)]
