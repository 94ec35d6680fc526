"""Rules alike up to their constants: run together they say what each says alone, and what the oracle says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, note
from hypothesis import strategies as st

from dotr.languages.dotr import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.patterns.layout import lay_out
from dotr.patterns.shapes import grouped
from tests.properties import compiled, examples, oracle, said
from tests.running import outputs, partitioned
from tests.strategies import ProgramText
from tests.strategies_streams import NUMBERS, VALUES, streams

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
def alike(draw: st.DrawFn) -> list[str]:
    """Rules of one skeleton."""
    text = draw(skeletons())
    pool = draw(st.sampled_from([NUMBERS, ("0", "1", "2", "3", "-1"), VALUES]))
    constants = draw(st.lists(st.tuples(st.sampled_from(pool), st.sampled_from(pool)), min_size=2, max_size=5))
    define = "rule R{n} define E{n} = [ [] :a ?a ; :b ?b ]\n"
    return [define.format(n=n) + text.format(k=k, m=m, e=f"E{n}") for n, (k, m) in enumerate(constants)]


@examples(150)
@given(alike(), streams())
def test_together_they_say_what_each_says_alone(rules: list[str], elements: list[Element]) -> None:
    def text(some: list[str]) -> ProgramText:
        return ProgramText(HEADER + "\n".join(some), HEADER[: HEADER.index("query")], "", "none")

    note(text(rules).rules)
    for element in elements:
        note(f"{element.time}: {' . '.join(map(' '.join, element.triples))}")
    together = said(outputs(partitioned(compiled(text(rules)), elements, 1)))
    alone: Counter[tuple[object, ...]] = Counter()
    for rule in rules:
        alone += said(outputs(partitioned(compiled(text([rule])), elements, 3, reload=True)))
    assert together == alone
    assert together == said(oracle(text(rules), elements).outputs)


def shapes_of(rules: str) -> list[tuple[int, ...]]:
    """Which rules have one shape."""
    read = compile_rules([Document("rules.dotr", HEADER + rules)], {}).checked().rules
    (layer,) = lay_out(read).layers
    return [a.numbers for a in grouped([(n, p.rule, p.ports, ("a",)) for n, p in enumerate(layer.rules)])]


def test_thresholds_names_and_events_do_not_part_rules() -> None:
    rule = (
        "rule {n} define {e} = [ [] :a ?a ] from P as {l} [ FILTER(?v > {k}) ] "
        "and last Q [ FILTER(?x = {l}.?x && ?v > {m}) ] within 3 s from {l}"
    )
    first = rule.format(n="A", e="E", l="L", k=1, m=2) + " with E.?a = 1\n"
    assert shapes_of(first + rule.format(n="B", e="F", l="M", k=5, m=2.5) + " with F.?a = 3\n") == [(0, 1)]
    assert shapes_of(first + rule.format(n="B", e="F", l="M", k=5, m=2.5).replace("3 s", "4 s") + " with F.?a = 3\n") == [(0,), (1,)]


def test_what_no_threshold_can_skip_parts_rules() -> None:
    """Each rule then has an index of its own, and none looks at candidates that another wants."""
    rule = "rule {n} define {n} = [ [] :a ?a ] from P as L and last Q [ FILTER(?v != {k}) ] within 3 s from L with {n}.?a = 1\n"
    assert shapes_of(rule.format(n="A", k=1) + rule.format(n="B", k=2)) == [(0,), (1,)]
