"""Rules of one template form a group. `test_patterns_limits` tests that they match in it as they do singly, and as the oracle does."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from dotr.languages.rules import compile_rules
from dotr.model.algebra import Attribute, Call, Const, TimeOf, Var
from dotr.model.places import Document
from dotr.model.rules import Mode
from dotr.model.stream import Element
from dotr.model.terms import XSD, literal
from dotr.temporal.layout.layers import lay_out
from dotr.temporal.matching.rule_templates import (
    RESULT,
    ROW,
    PositionalAggregate,
    PositionalBetween,
    PositionalClause,
    PositionalNegation,
    PositionalRole,
    PositionalSelection,
    PositionalWindow,
    RuleTemplate,
    group_rules,
    normal_form,
)
from tests.support.strategies_streams import NUMBERS, TERMS, VALUES

HEADER = """PREFIX : <http://example.org/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
query Q = [ SELECT ?x ?v WHERE { ?x :r ?v } ]
"""
EQUAL = "?x = Now.?x"


@st.composite
def conditions(draw: st.DrawFn, anchor: bool = False) -> str:
    """A FILTER's conjuncts with `{k}` and `{m}` for a rule's own constants."""
    own = ["?v > {k}", "?v >= {k}", "?v < {k}", "{k} <= ?v", "?v < {m}", "?v = {k}", "?v != {m}", "?v > {k} + {m}", "?v > 1", "?x != :n0"]
    other = [] if anchor else [EQUAL, EQUAL, "?v > Now.?v", "?v < Now.?v + {k}", "(?v > {m} || ?x = Now.?x)"]
    return " && ".join(draw(st.lists(st.sampled_from(own + other), min_size=0 if anchor else 1, max_size=3))) or "true"


@st.composite
def skeletons(draw: st.DrawFn) -> str:
    lines = [f"from {draw(st.sampled_from('PQ'))} as Now [ FILTER({draw(conditions(anchor=True))}) ]"]
    consumed = []
    bound = ["Now.?v"]
    for n in range(draw(st.integers(1, 2))):
        event = f"{draw(st.sampled_from('PQ'))} as L{n} [ FILTER({draw(conditions())}) ]"
        window = draw(st.sampled_from(["within 3 s", "within [0, 4 s]", "within [1 s, 9 s]", "within [0, 0]"])) + " from Now"
        kind = draw(st.sampled_from(["each", "last", "last", "last", "first", "last 2", "not", "sum", "avg", "max"]))
        if kind == "not":
            lines.append(f"and not {event} {window}")
            continue
        if kind in ("sum", "avg", "max"):
            lines.append(f"and ?g{n} = {kind}(L{n}.?v) of {event} {window}")
            bound.append(f"?g{n}")
        else:
            lines.append(f"and {kind} {event} {window}")
            bound.append(f"L{n}.?v")
        consumed += [f"L{n}"] if draw(st.integers(0, 3)) == 0 else []
    a, b = draw(st.sampled_from(bound)), draw(st.sampled_from([*bound, "{k}", "{m}"]))
    if draw(st.booleans()):
        lines.append(f"if {a} {draw(st.sampled_from(['<', '>=', '=']))} {draw(st.sampled_from([b, '{k}']))}")
    lines.append(f"with {{e}}.?a = {a}, {{e}}.?b = {b}")
    if consumed:
        lines.append(f"consuming {', '.join(consumed)}")
    return "\n".join(lines)


@st.composite
def rules_of_one_template(draw: st.DrawFn) -> list[str]:
    """Rules of one template."""
    text = draw(skeletons())
    pool = draw(st.sampled_from([NUMBERS, ("0", "1", "2", "3", "-1"), VALUES]))
    constants = draw(st.lists(st.tuples(st.sampled_from(pool), st.sampled_from(pool)), min_size=2, max_size=5))
    define = "rule R{n} define E{n} = [ [] :a ?a ; :b ?b ]\n"
    return [define.format(n=n) + text.format(k=k, m=m, e=f"E{n}") for n, (k, m) in enumerate(constants)]


@st.composite
def dense(draw: st.DrawFn, longest: int = 30) -> list[Element]:
    """Streams in which almost every element is an event of P or Q, so that windows are full and
    most rules fire."""
    numbers = [TERMS[text] for text in NUMBERS]
    elements = []
    for _ in range(draw(st.integers(longest // 2, longest))):
        subject, value = draw(st.sampled_from(("<http://example.org/n0>", "<http://example.org/n1>"))), draw(st.sampled_from(numbers))
        predicate = draw(st.sampled_from((":p", ":r")))
        elements.append(Element(draw(st.integers(0, 9)) * 1_000_000, ((subject, TERMS[predicate], value),)))
    return elements


@st.composite
def thresholds(draw: st.DrawFn) -> list[str]:
    """Rules of one template that differ in the numbers compared with candidates."""

    def comparison(constant: str) -> str:
        operator = draw(st.sampled_from(["<", "<=", ">", ">="]))
        return draw(st.sampled_from([f"?v {operator} {constant}", f"{constant} {operator} ?v"]))

    lines = ["from P as Now" + (f" [ FILTER({comparison('{k}')}) ]" if draw(st.integers(0, 3)) == 0 else "")]
    bound = ["Now.?v"]
    for n in range(draw(st.sampled_from([1, 1, 2]))):
        conjuncts = [comparison(draw(st.sampled_from(["{k}", "{m}"])))]
        conjuncts += [draw(st.sampled_from([EQUAL, comparison("{m}"), "?v != Now.?v", "?v < Now.?v + {m}"]))] * (
            draw(st.integers(0, 2)) == 0
        )
        kind = draw(st.sampled_from(["each", "last", "first", "not", "last", "first", "last 2"]))
        window = draw(st.sampled_from(["9 s", "[0, 9 s]", "[1 s, 8 s]", "[0, 0]"]))
        lines.append(f"and {kind} {draw(st.sampled_from('QQP'))} as L{n} [ FILTER({' && '.join(conjuncts)}) ] within {window} from Now")
        bound += [] if kind == "not" else [f"L{n}.?v"]
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"if {draw(st.sampled_from(bound))} {draw(st.sampled_from(['<', '>=', '=']))} {{k}}")
    lines.append(f"with {{e}}.?a = {bound[-1]}, {{e}}.?b = {draw(st.sampled_from([bound[0], '{k}']))}")
    pool = draw(
        st.sampled_from(
            [("1", "2", "3", "4", "5"), ("0.7", "2", "2.50", "4"), ("9007199254740992", "9007199254740993.0", "9007199254740994")]
        )
    )
    constants = draw(st.lists(st.tuples(st.sampled_from(pool), st.sampled_from(pool)), min_size=2, max_size=5))
    define = "rule R{n} define E{n} = [ [] :a ?a ; :b ?b ]\n"
    return [define.format(n=n) + "\n".join(lines).format(k=k, m=m, e=f"E{n}") for n, (k, m) in enumerate(constants)]


NEAR = [
    *(literal(text, XSD + "integer") for text in ("1", "2", "4", "6", "9007199254740991", "9007199254740992", "9007199254740993")),
    *(literal(text, XSD + "decimal") for text in ("0.7", "2.5", "3.99", "9007199254740992.5")),
    *(literal(text, XSD + "double") for text in ("0.7", "3e0", "9007199254740994", "INF", "NaN")),
    *(literal(text, XSD + "float") for text in ("0.7", "2.5", "9007199254740992")),
    literal("b"),
]


@st.composite
def crowded(draw: st.DrawFn) -> list[Element]:
    """A few events of P among many of Q, most of which no threshold accepts."""
    names = [f"<http://example.org/n{n}>" for n in range(20)]
    usual = draw(
        st.sampled_from([literal("0", XSD + "integer"), literal("20000000000000000", XSD + "integer"), literal("-1e0", XSD + "double")])
    )
    near = draw(st.lists(st.sampled_from(NEAR), min_size=1, max_size=4))
    elements = []
    for second in range(10):
        rare = draw(st.lists(st.tuples(st.sampled_from(names[:12]), st.sampled_from(near)), max_size=2))
        quiet = draw(st.sampled_from([0, 3, 0, 18]))
        triples = dict.fromkeys(names[:quiet], usual) | dict(rare)
        anchors = draw(st.lists(st.tuples(st.sampled_from(names[:3]), st.sampled_from(near)), max_size=1))
        facts = [(name, TERMS[":r"], value) for name, value in triples.items()] + [(name, TERMS[":p"], value) for name, value in anchors]
        elements.append(Element(second * 1_000_000, tuple(facts)))
    return elements


def shapes_of(rules: str) -> list[tuple[int, ...]]:
    """The groups of rules with one template."""
    (layer,) = lay_out(compile_rules([Document("rules.dotr", HEADER + rules)], {}).rules).layers
    return [a.numbers for a in group_rules([(n, p.rule, p.ports, ("a",)) for n, p in enumerate(layer.rules)])]


def test_rules_that_differ_in_thresholds_names_and_events_are_grouped() -> None:
    rule = (
        "rule {n} define {e} = [ [] :a ?a ] from P as {l} [ FILTER(?v > {k}) ] "
        "and last Q [ FILTER(?x = {l}.?x && ?v > {m}) ] within 3 s from {l}"
    )
    first = rule.format(n="A", e="E", l="L", k=1, m=2) + " with E.?a = 1\n"
    assert shapes_of(first + rule.format(n="B", e="F", l="M", k=5, m=2.5) + " with F.?a = 3\n") == [(0, 1)]
    assert shapes_of(first + rule.format(n="B", e="F", l="M", k=5, m=2.5).replace("3 s", "4 s") + " with F.?a = 3\n") == [(0,), (1,)]


def test_constants_without_a_searchable_threshold_split_groups() -> None:
    """Each rule then has an index of its own, without the candidates of other rules."""
    rule = "rule {n} define {n} = [ [] :a ?a ] from P as L and last Q [ FILTER(?v != {k}) ] within 3 s from L with {n}.?a = 1\n"
    assert shapes_of(rule.format(n="A", k=1) + rule.format(n="B", k=2)) == [(0,), (1,)]


PARTED, TOGETHER = [(0,), (1,)], [(0, 1)]


@pytest.mark.parametrize(
    ("clause", "expected", "consuming"),
    [
        ("last Q [ FILTER(?v > {k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("first Q [ FILTER({k} >= ?v) ] within 3 s from P", TOGETHER, TOGETHER),
        ("each Q [ FILTER(?v <= {k}.5) ] within 3 s from P", TOGETHER, TOGETHER),
        ("not Q [ FILTER(?v < {k}) ] within 3 s from P", TOGETHER, None),
        ("last 1 Q [ FILTER(?v < {k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last 2 Q [ FILTER(?v > {k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v > {k} && ?v < 9) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v > {k} && ?v < 9{k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v > {k}e0) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v = {k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v > '{k}') ] within 3 s from P", TOGETHER, TOGETHER),
        ("?n = count(*) of Q [ FILTER(?v > {k}) ] within 3 s from P", TOGETHER, TOGETHER),
        ("last Q [ FILTER(?v < P.?v + {k}) ] within 3 s from P", TOGETHER, PARTED),
        ("last Q [ FILTER(?v < P.?v + {k} && ?v > {k}) ] within 3 s from P", TOGETHER, PARTED),
        ("last Q [ FILTER(!(?v < P.?v + {k})) ] within 3 s from P", TOGETHER, PARTED),
        ("last Q [ FILTER(STR(time(P)) = '{k}') ] within 3 s from P", TOGETHER, PARTED),
        ("last Q [ FILTER(STR(time(Q)) = '{k}') ] within 3 s from P", PARTED, PARTED),
        ("last Q [ FILTER(?v != {k}) ] within 3 s from P", PARTED, PARTED),
        ("last Q [ FILTER(?v + 1 > {k}) ] within 3 s from P", PARTED, PARTED),
        ("last Q [ FILTER(!(?v < {k})) ] within 3 s from P", PARTED, PARTED),
        ("last 2 Q [ FILTER(?v > P.?v + {k}) ] within 3 s from P", PARTED, PARTED),
        ("?n = count(*) of Q [ FILTER(?v > P.?v + {k}) ] within 3 s from P", PARTED, PARTED),
        ("last Q within {k} s from P", PARTED, PARTED),
    ],
)
def test_constants_that_split_groups(clause: str, expected: list[tuple[int, ...]], consuming: list[tuple[int, ...]] | None) -> None:
    """A clause's constants become columns if an index can search them, or if they are compared
    with another event's attributes and each event is tested for all rules at once."""

    def both(anchor: str = "P", end: str = "") -> list[tuple[int, ...]]:
        text = f"from {anchor} and {clause} with {{n}}.?a = 1 {end}\n"
        rules = [f"rule {n} define {n} = [ [] :a ?a ] " + text.format(n=n, k=k) for n, k in (("A", 1), ("B", 2))]
        return shapes_of("".join(rules))

    assert both() == expected
    assert both("P [ FILTER(?v > 1{k} || ?x = '{k}') ]") == expected
    if consuming is not None:
        assert both(end="consuming Q") == consuming


def test_equal_columns_are_merged_and_constant_ones_removed() -> None:
    """k, k + 1, k again and a constant that all share."""
    text = (
        "rule {n} define {n} = [ [] :a ?a ; :b ?b ] from P [ FILTER(?v > {k} && ?v < 7) ] if P.?v != {m} with {n}.?a = {k}, {n}.?b = {m}\n"
    )
    read = compile_rules([Document("rules.dotr", HEADER + "".join(text.format(n=n, k=k, m=k + 1) for n, k in (("A", 1), ("B", 2))))], {})
    (layer,) = lay_out(read.checked().rules).layers
    (one,) = group_rules([(n + 5, p.rule, p.ports, ("a", "b", "c")) for n, p in enumerate(layer.rules)])
    integers = [literal(str(n), XSD + "integer") for n in range(8)]
    k, m = Attribute(ROW, "0"), Attribute(ROW, "1")
    assert (one.numbers, one.table) == ((5, 6), ((integers[1], integers[2]), (integers[2], integers[3])))
    assert one.template.anchor.constraints == (Call(">", (Var("v"), k)), Call("<", (Var("v"), Const(integers[7]))))
    assert one.template.condition == Call("!=", (Attribute("0", "v"), m))
    assert one.template.values == (k, m, None)


def test_rule_has_its_normal_form() -> None:
    rule = (
        "rule R define E = [ [] :a ?a ] from P as Now and last 3 Q as Old [ FILTER(?x = Now.?x) ] within [1 s, 4 s) from Now "
        "and not P as No between Old and Now "
        "and ?m = avg(distinct All.?v) of Q as All [ FILTER(time(All) > time(Old)) ] within 2 s from Old "
        "if ?m > Old.?v with E.?a = ?m consuming All, Old, Now\n"
    )
    (placed,) = lay_out(compile_rules([Document("rules.dotr", HEADER + rule)], {}).rules).layers[0].rules
    shape, constants = normal_form(placed.rule, (4, 5, 6, 7), ("a",))
    names, seconds = ("v", "x"), 1_000_000
    assert constants == ()
    assert shape == RuleTemplate(
        PositionalRole(4, 0, names, ()),
        (
            PositionalClause(
                PositionalRole(5, 1, names, (Call("=", (Var("x"), Attribute("0", "x"))),)),
                PositionalSelection(Mode.LAST, 3),
                PositionalWindow(seconds, 4 * seconds - 1, 0),
            ),
            PositionalClause(PositionalRole(6, 0, names, ()), PositionalNegation(), PositionalBetween(1, 0)),
            PositionalClause(
                PositionalRole(7, 1, names, (Call(">", (TimeOf("3"), TimeOf("1"))),)),
                PositionalAggregate("AVG", True, "v"),
                PositionalWindow(1, 2 * seconds, 1),
            ),
        ),
        Call(">", (Attribute("3", RESULT), Attribute("1", "v"))),
        (Attribute("3", RESULT),),
        (1, 3),
    )
    assert [shape.is_positive(place) for place in range(4)] == [True, True, False, False]
    assert len(shape.roles) == 4
