"""Rules that differ in the constants of their comparisons, of every kind of term: run together they
write, byte for byte, the events that each writes alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, note
from hypothesis import strategies as st

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.expressions import condition
from dotr.evaluation.expressions.ordered_domains import OrderedDomain, domain_of
from dotr.evaluation.expressions.values.terms import VALUES
from dotr.languages.programs import compile_program
from dotr.model.algebra import Attribute, Call, Const, Var
from dotr.model.places import Document
from dotr.model.stream import Firing
from dotr.model.terms import XSD, Term, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.matching.matcher.emitter import table_finder
from dotr.temporal.matching.rule_search import ConstantTable
from dotr.temporal.matching.rule_templates import ROW
from tests.support.properties import examples


def typed(kind: str, *texts: str) -> list[Term]:
    return [literal(text, XSD + kind) for text in texts]


KINDS: list[list[Term]] = [
    typed("integer", "0", "1", "2", "02", "-1", "16777217", "9007199254740993", "1" + "0" * 310),
    typed("decimal", "0.1", "0.10", "1.0", "-2.5", "0.1000000000000000055511151231257827", "16777216.5"),
    [*typed("integer", "0", "1", "2"), *typed("decimal", "0.1", "1.0", "1.5")],
    typed("double", "0.1", "1e0", "-0e0", "0", "2.5", "INF", "-INF", "NaN", "16777217"),
    typed("float", "0.1", "1e0", "16777216", "-0", "INF", "NaN", "3e38"),
    typed(
        "dateTime",
        "2020-01-01T00:00:00",
        "2020-01-01T00:00:00Z",
        "2020-01-01T01:00:00+01:00",
        "2020-01-01T00:00:00.5",
        "1999-12-31T24:00:00",
    ),
    [*typed("date", "2020-01-01", "2020-01-02Z"), *typed("time", "00:00:00", "12:00:00+01:00")],
    [*typed("dayTimeDuration", "PT1H", "PT60M", "-P1D"), *typed("yearMonthDuration", "P1Y", "P12M"), *typed("duration", "P1Y", "P1DT1H")],
    ['"a"', '"b"', '""', '"1"', '"é"'],
    ['"a"@en', '"a"@de', '"b"@en'],
    typed("boolean", "true", "false", "1"),
    [*typed("integer", "warm", "1.5"), literal("1", "http://example.org/scale")],
    ["<http://example.org/a>", "<http://example.org/b>"],
]
TERMS = [term for kind in KINDS for term in kind]


def constants(least: int, most: int) -> st.SearchStrategy[list[Term]]:
    """Lists of constants of one kind of terms, or of all kinds."""
    return st.sampled_from([*KINDS, TERMS]).flatmap(lambda kind: st.lists(st.sampled_from(kind), min_size=least, max_size=most))


def compared(operator: str, name: str, constant: Const | Attribute, mirrored: bool) -> Call:
    return Call(operator, (constant, Var(name)) if mirrored else (Var(name), constant))


@examples(400)
@given(st.data())
def test_search_finds_the_rows_that_satisfy_all_conditions(data: st.DataObject) -> None:
    operators = data.draw(st.lists(st.sampled_from(["=", "<", "<=", ">", ">="]), min_size=1, max_size=4))
    names = data.draw(st.lists(st.sampled_from("ab"), min_size=len(operators), max_size=len(operators)))
    mirrored = data.draw(st.booleans())
    columns: list[list[Term]] = []
    size = data.draw(st.integers(1, 12))
    for operator in operators:
        column = data.draw(constants(size, size))
        if operator != "=":  # those of one shape are on one scale
            scale = next(filter(None, map(domain_of, column)), OrderedDomain.EXACT)
            spare = next((term for term in column if domain_of(term) is scale), TERMS[0])
            column = [term if domain_of(term) is scale else spare for term in column]
        columns.append(column)
    table = tuple(zip(*columns, strict=True))
    conditions = tuple([compared(o, v, Attribute(ROW, str(n)), mirrored) for n, (o, v) in enumerate(zip(operators, names, strict=True))])
    find = table_finder(ConstantTable(conditions, table), ("a", "b"))
    each = [
        [condition(compared(o, v, Const(k), mirrored), [Var("a"), Var("b")]) for o, v, k in zip(operators, names, terms, strict=True)]
        for terms in table
    ]
    for values in data.draw(st.lists(st.tuples(*[st.sampled_from([*TERMS, None])] * 2), min_size=1, max_size=12)):
        expected = [number for number, tests in enumerate(each) if all(test(*values) for test in tests)]
        assert sorted([row[0] for row in find(values) if isinstance(row[0], int)]) == expected, values


CLAUSES = ["last", "first", "each", "last 2", "not", "count", "max", "avg"]
OPERATORS = ["=", "!=", "<", "<=", "<=", ">", ">=", ">="]


@st.composite
def filters(draw: st.DrawFn, name: str, columns: int) -> str:
    """A FILTER on ?v and ?w of a label, with {0}, {1}, … for a rule's own constants."""
    forms = [f"?{v}{name} {{o}} {{{{{n}}}}}" for v in "vw" for n in range(columns)]
    forms += [f"{{{{{n}}}}} {{o}} ?v{name}" for n in range(columns)]
    found = [draw(st.sampled_from(forms)).format(o=draw(st.sampled_from(OPERATORS))) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.integers(0, 7)) == 0:
        found.append(f"(?v{name} < {{0}} || ?w{name} = {{1}})")
    return " && ".join(found)


@st.composite
def skeletons(draw: st.DrawFn, columns: int) -> str:
    """A rule whose queries leave ?w unbound where no triple matches."""
    query = "SELECT ?s{n} ?v{n} ?w{n} WHERE {{ {{ ?s{n} :p{p} ?v{n} . OPTIONAL {{ ?s{n} :q ?w{n} }} }} {f} }}"
    plain = "SELECT ?s{n} ?v{n} ?w{n} WHERE {{ ?s{n} :p{p} ?v{n} ; :q ?w{n} . {f} }}"

    def event(label: str, number: str, anchored: bool) -> str:
        written = draw(filters(number, columns))
        if anchored and draw(st.integers(0, 3)):
            written = " && ".join(filter(None, [written, f"?s{number} = Now.?s0"]))
        form = draw(st.sampled_from([query, plain, plain]))
        return f"{label} = [ {form.format(n=number, p=draw(st.integers(0, 1)), f=f'FILTER ({written})' if written else '')} ]"

    lines = [f"from {event('Now', '0', False)}"]
    bound, consumed = ["Now.?v0"], []
    for n in range(1, 1 + draw(st.sampled_from([0, 1, 1, 1, 2]))):
        kind = draw(st.sampled_from(CLAUSES))
        window = draw(st.sampled_from(["within 4 s", "within 9 s", "within [0, 9 s]", "within [0, 0]", "within [1 s, 3 s)"])) + " from Now"
        if kind in ("count", "max", "avg"):
            lines.append(f"and ?g{n} = {kind}(L{n}.?v{n}) of {event(f'L{n}', str(n), True)} {window}")
            bound.append(f"?g{n}")
            continue
        lines.append(f"and {kind} {event(f'L{n}', str(n), True)} {window}")
        if kind != "not":
            bound.append(f"L{n}.?v{n}")
            consumed += [f"L{n}"] if draw(st.integers(0, 4)) == 0 else []
    if draw(st.booleans()):
        lines.append(f"if {draw(st.sampled_from(bound))} {draw(st.sampled_from(OPERATORS))} {{0}}")
    lines.append(f"with {{e}}.?a = {draw(st.sampled_from(bound))}, {{e}}.?b = {draw(st.sampled_from([*bound, '{1}']))}")
    if consumed:
        lines.append(f"consuming {', '.join(consumed)}")
    return "\n".join(lines)


@st.composite
def programs(draw: st.DrawFn, pool: Sequence[Term]) -> list[str]:
    """Rules of one or two skeletons, with constants of the pool; some columns have constants of
    other kinds.
    """
    columns = 3
    texts = draw(st.lists(skeletons(columns), min_size=1, max_size=2))
    pools = [pool if draw(st.integers(0, 4)) else draw(st.sampled_from([*KINDS, TERMS])) for _ in range(columns)]
    rules = []
    for number in range(draw(st.integers(2, 6))):
        text = texts[number % len(texts)].replace("{e}", f"E{number}")
        for n, own in enumerate(pools):
            text = text.replace(f"{{{n}}}", draw(st.sampled_from(own)))
        for old, new in zip("svw", draw(st.sampled_from([*["svw"] * 3, ("s1", "v2", "w3"), "xyz", "wvs"])), strict=True):
            text = re.sub(rf"\?{old}(\d)", rf"?.{new}\1", text)
        text = text.replace("?.", "?")
        rules.append(f"rule R{number} define E{number} = [ dotr_id :a ?a ; :b ?b ]\n{text}\n")
    return rules


@st.composite
def streams(draw: st.DrawFn, pool: Sequence[Term]) -> list[tuple[int, list[Triple]]]:
    nodes = [f"<http://example.org/n{n}>" for n in range(2)]
    predicates = [f"<http://example.org/{p}>" for p in ("p0", "p0", "p1", "q", "q")]
    triple = st.tuples(st.sampled_from(nodes), st.sampled_from(predicates), st.sampled_from(pool))
    times = sorted(draw(st.sets(st.integers(0, 9), min_size=2, max_size=8)))
    return [(time * 1_000_000, draw(st.lists(triple, min_size=1, max_size=7, unique=True))) for time in times]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, list[Triple]]]]:
    """Rules and a stream, mostly of one kind of terms."""
    pool = draw(st.sampled_from([*KINDS, *KINDS[:6], [*KINDS[2], *KINDS[3][:4]], TERMS]))
    return draw(programs(pool)), draw(streams(pool if draw(st.integers(0, 5)) else TERMS))


def fired(rules: Sequence[str], stream: Sequence[tuple[int, list[Triple]]], reload: bool = False) -> Counter[Firing]:
    text = "PREFIX : <http://example.org/>\n" + "\n".join(rules)
    engine = Engine(compile_program(ProgramSpec(rules=(Document("rules.dotr", text),))), Clock())
    found: Counter[Firing] = Counter()
    for time, triples in stream:
        found.update(engine.step(time, [tuple(triples)])[0])
        if reload:
            engine.reload()
    return found


@examples(150)
@given(worlds(), st.booleans())
def test_rules_together_make_the_events_of_each_alone(world: tuple[list[str], list[tuple[int, list[Triple]]]], reload: bool) -> None:
    rules, stream = world
    note("\n".join(rules))
    for time, triples in stream:
        note(f"{time // 1_000_000}: {' . '.join(map(' '.join, triples))}")
    alone: Counter[Firing] = Counter()
    for rule in rules:
        alone += fired([rule], stream)
    assert fired(rules, stream, reload) == alone


def test_kinds_of_terms_include_every_ordered_domain() -> None:
    assert {domain_of(term) for term in TERMS} == {None, *OrderedDomain}
    assert any(value != value for value in map(VALUES.__getitem__, TERMS)), "NaN"
