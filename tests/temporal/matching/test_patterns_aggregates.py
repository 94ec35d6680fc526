"""Aggregates and selections under a key, against a plain evaluation.

Literals may share a key of an index and be unequal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dotr.evaluation.expressions import condition
from dotr.evaluation.limits import DIGITS
from dotr.model.algebra import Call, Var
from dotr.model.stream import Element
from dotr.model.terms import RDF_TYPE, XSD, Term, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.matching.event_store import Measure
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.rule_templates import group_rules
from dotr.temporal.matching.sums import aggregate_terms
from tests.support.running import outputs, partitioned
from tests.temporal.layout.test_placement import SECOND, rule
from tests.temporal.matching.test_patterns_thresholds import program_of

equal = condition(Call("=", (Var("a"), Var("b"))), (Var("a"), Var("b")))
EXAMPLE = "http://example.org/"
GREAT = str(2**53)
KEYS: list[list[Term | None]] = [
    [literal("1", XSD + "integer"), literal("01", XSD + "integer"), literal("1.0", XSD + "decimal"), literal("1e0", XSD + "double")],
    [
        literal(GREAT, XSD + "integer"),
        literal(str(2**53 + 1), XSD + "integer"),
        literal(GREAT, XSD + "double"),
        literal(GREAT, XSD + "float"),
    ],
    [literal("NaN", XSD + "double"), literal("NaN", XSD + "float"), literal("INF", XSD + "double"), literal("INF", XSD + "float")],
    [literal("0.1", XSD + "decimal"), literal("0.1", XSD + "float"), literal("0.1", XSD + "double")],
    [f"<{EXAMPLE}a>", literal("a"), '"a"@en', None, f"<{EXAMPLE}b>"],
    [literal("true", XSD + "boolean"), literal("1", XSD + "boolean"), literal("1", XSD + "integer")],
    [literal(text, XSD + "dateTime") for text in ("2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00")],
    [literal("x", XSD + "integer"), literal("y", XSD + "integer"), literal("1", EXAMPLE + "d"), literal("2", EXAMPLE + "d")],
]
FUNCTIONS = ("count(*)", "count", "sum", "avg", "min", "max", "count distinct", "sum distinct", "avg distinct")


def fact(number: int, kind: str, key: Term | None, value: Term | None, other: Term | None = None) -> list[Triple]:
    subject = f"<{EXAMPLE}x{number}>"
    triples = [(subject, RDF_TYPE, f"<{EXAMPLE}{kind}>")]
    triples += [(subject, f"<{EXAMPLE}{name}>", term) for name, term in (("r", key), ("v", value), ("s", other)) if term is not None]
    return triples


def results(text: str, facts: Sequence[list[Triple]], *, together: int = 1) -> list[tuple[int, str, Term | None]]:
    """The value of ?a by time and rule, for given numbers of facts per instant."""
    groups = [facts[place : place + together] for place in range(0, len(facts), together)]
    elements = [Element(time * SECOND, tuple(triple for triples in group for triple in triples)) for time, group in enumerate(groups)]
    found = outputs(partitioned(program_of(text), elements, 1))
    return [(o.time // SECOND, o.rule, o.attributes.get("a")) for o in found]


def same(a: Term | None, b: Term | None) -> bool:
    return a is not None and b is not None and equal(a, b)


def aggregate(function: str, values: Sequence[Term | None]) -> Term | None:
    if function == "count(*)":
        return literal(str(len(values)), XSD + "integer")
    name, _, distinct = function.partition(" ")
    bound = [value for value in values if value is not None]
    return aggregate_terms(name.upper(), bool(distinct), bound)


def written(function: str) -> str:
    name, _, distinct = function.partition(" ")
    return function if function == "count(*)" else f"{name}({distinct} B.?v)"


def integer(number: int) -> Term:
    return literal(str(number), XSD + "integer")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_aggregate_under_a_key_reads_equal_terms_only(function: str) -> None:
    text = rule(f"from A and ?n = {written(function)} of B [ FILTER(?r = A.?r) ] within 99 s from A with E.?a = ?n")
    for keys in KEYS:
        values = [integer(2**n) if n % 5 != 3 else None for n in range(2 * len(keys))]
        facts = [fact(n, "B", keys[n % len(keys)], value) for n, value in enumerate(values)]
        facts += [fact(n, "A", key, integer(0)) for n, key in enumerate(keys, len(facts))]
        expected = []
        for n, key in enumerate(keys, 2 * len(keys)):
            expected.append((n, "R", aggregate(function, [v for m, v in enumerate(values) if same(keys[m % len(keys)], key)])))
        assert results(text, facts) == expected, keys


@pytest.mark.parametrize("function", ["count(*)", "sum", "min", "count distinct"])
def test_aggregate_under_two_keys_reads_equal_terms_only(function: str) -> None:
    query = "query D = [ SELECT ?r ?s ?v WHERE { ?x a :D . OPTIONAL { ?x :r ?r } OPTIONAL { ?x :s ?s } OPTIONAL { ?x :v ?v } } ]\n"
    asked = query.replace(" D ", " F ").replace(":D", ":F")
    aggregated = written(function).replace("B.", "D.")
    text = query + asked
    text += rule(f"from F and ?n = {aggregated} of D [ FILTER(?r = F.?r && F.?s = ?s) ] within 99 s from F with E.?a = ?n")
    for keys in KEYS:
        pairs = [(a, b) for a in keys[:3] for b in keys[-3:]]
        values = [integer(2**n) for n in range(len(pairs))]
        facts = [fact(n, "D", a, value, b) for n, ((a, b), value) in enumerate(zip(pairs, values, strict=True))]
        facts += [fact(n, "F", a, None, b) for n, (a, b) in enumerate(pairs, len(facts))]
        expected = []
        for n, (a, b) in enumerate(pairs, len(pairs)):
            inside = [value for (c, d), value in zip(pairs, values, strict=True) if same(a, c) and same(b, d)]
            expected.append((n, "R", aggregate(function, inside)))
        assert results(text, facts) == expected, keys


@pytest.mark.parametrize("clause", ["each", "last", "first", "last 2", "not"])
def test_selection_under_a_key_reads_equal_terms_only(clause: str) -> None:
    value = "0" if clause == "not" else "B.?v"
    for rules in [2] if clause in ("not", "last 2") else [1, 2]:
        text = "".join(
            rule(f"from A [ FILTER(?v != {n}) ] and {clause} B [ FILTER(?r = A.?r) ] within 99 s from A with E.?a = {value}", f"R{n}")
            for n in range(1, rules + 1)
        )
        for keys in KEYS:
            facts = [fact(n, "B", keys[n % len(keys)], integer(n)) for n in range(2 * len(keys))]
            facts += [fact(n, "A", key, integer(0)) for n, key in enumerate(keys, len(facts))]
            expected = []
            for n, key in enumerate(keys, 2 * len(keys)):
                equals = [m for m in range(2 * len(keys)) if same(keys[m % len(keys)], key)]
                chosen = {"each": equals, "last": equals[-1:], "first": equals[:1], "last 2": equals[-2:], "not": [] if equals else [0]}[
                    clause
                ]
                expected += [(n, f"R{k}", integer(m)) for k in range(1, rules + 1) for m in chosen]
            assert sorted(results(text, facts), key=str) == sorted(expected, key=str), keys


@pytest.mark.parametrize("function", FUNCTIONS)
def test_aggregate_over_windows_and_between_equals_the_reference(function: str) -> None:
    """Windows that begin and end at events, hold one or none; windows from a selected event;
    constraints tested per event."""
    windows: dict[str, Callable[[int], Sequence[int]]] = {
        "within [0, 3 s] from A": lambda t: range(t - 3, t + 1),
        "within 3 s from A": lambda t: range(t - 3, t),
        "within [2 s, 2 s] from A": lambda t: [t - 2],
        "within [90 s, 99 s] from A": lambda t: [],
        "within [1 s, 2 s] from C": lambda t: range(2) if t >= 2 else [],
        "between A and C": lambda t: range(3, t) if t > 2 else [],
        "between C and A": lambda t: range(3, t) if t > 2 else [],
    }
    values = [integer(3), integer(1), integer(4), integer(1), None, literal("5.5", XSD + "decimal"), integer(9), integer(2)]
    facts = []
    for time, value in enumerate(values):
        facts += [
            fact(3 * time, "B", None, value),
            fact(3 * time + 1, "A", None, integer(1)),
            fact(3 * time + 2, "C" if time == 2 else "D", None, None),
        ]
    for window, times in windows.items():
        for test in ("", " [ FILTER(?v != A.?v) ]"):
            first = "last C within [0, 99 s] from A and " if "C" in window else ""
            text = rule(f"from A and {first}?n = {written(function)} of B{test} {window} with E.?a = ?n")
            expected = []
            for time in range(2 if first else 0, len(values)):
                inside = [values[t] for t in times(time) if t >= 0]
                expected.append((time, "R", aggregate(function, [v for v in inside if not test or v not in (None, integer(1))])))
            assert results(text, facts, together=3) == expected, (window, test)


@pytest.mark.parametrize("function", ["sum", "avg", "sum distinct", "avg distinct", "count distinct"])
@pytest.mark.parametrize("alien", [None, literal("1e0", XSD + "double")])
def test_sum_with_too_many_digits_ends_with_the_window(function: str, alien: Term | None) -> None:
    """The sum of two of the values has too many digits; windows without one of them, and later ones,
    have a sum."""
    huge, tiny = literal("1" + "0" * (DIGITS - 1), XSD + "integer"), literal("0." + "0" * (DIGITS - 2) + "1", XSD + "decimal")
    half = literal("0.5", XSD + "decimal")
    values = [integer(1), half, huge, tiny, tiny, integer(2), integer(2), integer(1), half, half, alien, huge, huge, integer(3), tiny]
    text = rule(f"from A and ?n = {written(function)} of B within [0, 2 s] from A with E.?a = ?n")
    facts = [each for time, value in enumerate(values) for each in (fact(2 * time, "B", None, value), fact(2 * time + 1, "A", None, None))]
    expected = [(time, "R", aggregate(function, values[max(0, time - 2) : time + 1])) for time in range(len(values))]
    assert None in [value for _, _, value in expected] or function == "count distinct"
    assert results(text, facts, together=2) == expected


@pytest.mark.parametrize("function", ["count(*)", "sum", "max", "avg distinct"])
def test_consumed_events_are_not_aggregated_again(function: str) -> None:
    text = rule(f"from A and ?n = {written(function)} of B within [0, 9 s] from A with E.?a = ?n consuming B")
    values = [integer(3), integer(1), None, integer(4), integer(4)]
    facts = [fact(n, "B", None, value) for n, value in enumerate(values[:3])] + [fact(7, "A", None, None)]
    facts += [fact(n, "B", None, value) for n, value in enumerate(values[3:], 10)] + [fact(n, "A", None, integer(n)) for n in (20, 21)]
    # An event without the attribute is not consumed; later aggregates ignore it again, except count(*).
    assert results(text, facts) == [
        (3, "R", aggregate(function, values[:3])),
        (6, "R", aggregate(function, values[3:])),
        (7, "R", aggregate(function, [])),
    ]


@pytest.mark.parametrize(
    ("clause", "measure", "measured"),
    [
        ("?n = count(*) of B within 9 s from A", Measure.COUNT, None),
        ("?n = count(B.?v) of B within 9 s from A", Measure.COUNT, 1),
        ("?n = sum(B.?v) of B [ FILTER(?r = A.?r) ] within 9 s from A", Measure.SUM, 1),
        ("?n = avg(B.?v) of B [ FILTER(?v > 3) ] within 9 s from A", Measure.SUM, 1),
        ("?n = min(distinct B.?r) of B within 9 s from A", Measure.LEAST, 0),
        ("?n = max(B.?r) of B within 9 s from A", Measure.GREATEST, 0),
        ("?n = count(distinct B.?v) of B within 9 s from A", Measure.DISTINCT, 1),
        ("?n = sum(B.?v) of B [ FILTER(?v > A.?v) ] within 9 s from A", None, 1),
        ("last C within 9 s from A and ?n = count(distinct B.?v) of B within 9 s from C", None, 1),
        ("last C within 9 s from A and ?n = count(distinct B.?v) of B between A and C", None, 1),
        ("last C within 9 s from A and ?n = sum(B.?v) of B between A and C", Measure.SUM, 1),
        ("?n = sum(B.?v) of B within 9 s from A with E.?a = ?n consuming B", None, 1),
    ],
)
def test_aggregate_uses_a_measure_of_the_index(clause: str, measure: Measure | None, measured: int | None) -> None:
    text = rule(f"from A and {clause}" + ("" if " with " in clause else " with E.?a = ?n"))
    (layer,) = program_of(text).layout.layers
    (group,) = group_rules([(0, placed.rule, placed.ports, ("a",)) for placed in layer.rules])
    look = compile_matcher(group, [0], Clock()).index_specs[-1]
    assert (look.measure, look.measured) == (measure, measured)
