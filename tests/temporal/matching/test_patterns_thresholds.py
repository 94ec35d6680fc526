"""Rules that differ in a threshold, over long runs, against a plain evaluation of each rule."""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random

import pytest

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import XSD, literal
from tests.support.running import outputs, partitioned
from tests.temporal.layout.test_placement import HEADER, SECOND, element, rule

COMPARE: dict[str, Callable[[int, int], bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Found = list[tuple[int, str, int]]


def program_of(text: str) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("rules.dotr", HEADER + text),)))


def fired(program: str | CompiledProgram, elements: list[Element]) -> Found:
    found = outputs(partitioned(program_of(program) if isinstance(program, str) else program, elements, 1))
    return sorted((o.time // SECOND, o.rule, int(o.attributes["a"].split('"')[1])) for o in found)


def picked(mode: str, accepted: list[int]) -> list[int]:
    """The values of the events that a clause selects; for `not` a 0 where there is none."""
    match mode:
        case "each":
            return accepted
        case "last":
            return accepted[-1:]
        case "first":
            return accepted[:1]
        case _:
            return [] if accepted else [0]


def streams(sign: int) -> list[list[int]]:
    """Values from the oldest on, most of them far from any threshold; the others in every order."""
    choose = Random(7)
    made = []
    for near in ([1], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 3, 1, 4]):
        values: list[int] = []
        for value in near:
            values += [0] * choose.choice([0, 1, 5, 17, 40]) + [value]
        made.append([sign * value for value in values + [0] * choose.choice([0, 3, 33])])
    return made


@pytest.mark.parametrize("mode", ["last", "first", "each", "not"])
@pytest.mark.parametrize("comparison", COMPARE)
def test_thresholds(comparison: str, mode: str) -> None:
    """Rows are sorted by the first column, not by a second one (of the anchor) or a second
    constraint."""
    sign = 1 if ">" in comparison else -1
    other = "<=" if sign > 0 else ">="
    for second in ("", "anchor", "clause"):
        rows = [(sign * k, sign * m) for k, m in ((1, 3), (2, 1), (3, 5), (4, 2))]
        text = ""
        for number, (k, m) in enumerate(rows):
            condition = f"{k} {MIRRORED[comparison]} ?v" if mode in ("first", "not") else f"?v {comparison} {k}"
            condition += f" && ?v {other} A.?v + {m - 9 * sign}" if second == "clause" else ""
            anchor = f"A [ FILTER(?v {'>' if sign > 0 else '<'} {m}) ]" if second == "anchor" else "A"
            value = "0" if mode == "not" else "B.?v"
            text += rule(f"from {anchor} and {mode} B [ FILTER({condition}) ] within 1000 s from A with E.?a = {value}", f"R{number}")
        program = program_of(text)
        for values in streams(sign):
            elements = [element(time, ("B", "", value)) for time, value in enumerate(values)]
            end = len(values)
            elements.append(element(end, ("A", "", sign * 9)))
            expected: Found = []
            for number, (k, m) in enumerate(rows):
                accepted = [v for v in values if COMPARE[comparison](v, k) and (second != "clause" or COMPARE[other](v, m))]
                expected += [(end, f"R{number}", value) for value in picked(mode, accepted)]
            assert fired(program, elements) == sorted(expected), (second, values)


@pytest.mark.parametrize("comparison", COMPARE)
def test_rows_between_two_bounds_are_in_order_of_the_next_column(comparison: str) -> None:
    rows = [(4, 7), (1, 9), (3, 6), (2, 8), (0, 6), (3, 9), (0, 9), (4, 9)]
    text = "".join(
        rule(f"from A [ FILTER(?v > {k} && ?v < {m}) ] and each B within 99 s from A if B.?v {comparison} {k} with E.?a = B.?v", f"R{n}")
        for n, (k, m) in enumerate(rows)
    )
    values = [3, 1, 4, 0, 2, 3, 1]
    for anchor in range(1, 9):
        elements = [*(element(time, ("B", "", value)) for time, value in enumerate(values)), element(7, ("A", "", anchor))]
        expected = [
            (7, f"R{n}", value) for n, (k, m) in enumerate(rows) for value in values if k < anchor < m and COMPARE[comparison](value, k)
        ]
        assert fired(text, elements) == sorted(expected)


@pytest.mark.parametrize("mode", ["last", "first", "each", "not"])
def test_constants_compared_with_another_event(mode: str) -> None:
    """No index can search these: each event is tested for all rows and skipped if none accepts
    it."""
    rows = [3, 1, 2]
    value = "0" if mode == "not" else "B.?v"
    text = "".join(rule(f"from A and {mode} B [ FILTER(?v < A.?v + {k}) ] within 99 s from A with E.?a = {value}", f"R{k}") for k in rows)
    for values in ([9, 5, 7, 6, 9], [9, 9, 8], [5, 6, 7], [9, 7, 9, 5, 9]):
        elements = [*(element(time, ("B", "", value)) for time, value in enumerate(values)), element(7, ("A", "", 5))]
        expected = [(7, f"R{k}", found) for k in rows for found in picked(mode, [value for value in values if value < 5 + k])]
        assert fired(text, elements) == sorted(expected)


def test_thresholds_are_compared_exactly() -> None:
    """Distinct numbers with one nearest double."""
    great = 2**53
    constants = [great, great + 1, great + 2]
    for comparison, holds in COMPARE.items():
        text = "".join(
            rule(f"from A [ FILTER(?v {comparison} {constant}) ] with E.?a = A.?v", f"R{number}")
            for number, constant in enumerate(constants)
        )
        values = [great - 1, great, great + 1, great + 2, great + 3]
        expected = [(t, f"R{n}", v) for t, v in enumerate(values) for n, constant in enumerate(constants) if holds(v, constant)]
        assert fired(text, [element(time, ("A", "", value)) for time, value in enumerate(values)]) == sorted(expected)


def test_anchor_is_compared_with_several_columns() -> None:
    rows = [(1, 9), (2, 7), (3, 8), (4, 4)]
    text = "".join(rule(f"from A [ FILTER(?v > {k} && {m} >= ?v) ] with E.?a = A.?v", f"R{n}") for n, (k, m) in enumerate(rows))
    values = range(11)
    expected = [(t, f"R{n}", v) for t, v in enumerate(values) for n, (k, m) in enumerate(rows) if k < v <= m]
    assert fired(text, [element(time, ("A", "", value)) for time, value in enumerate(values)]) == sorted(expected)


def test_expressions_are_compared_with_columns() -> None:
    text = "".join(rule(f"from A [ FILTER(?v * 2 >= {k}) ] with E.?a = A.?v", f"R{k}") for k in (1, 5, 9))
    assert fired(text, [element(0, ("A", "", 3))]) == [(0, "R1", 3), (0, "R5", 3)]
    text = "".join(rule(f"from A [ FILTER({k} < {m}) ] with E.?a = A.?v", f"R{k}") for k, m in ((1, 2), (5, 3), (4, 7)))
    assert fired(text, [element(0, ("A", "", 3))]) == [(0, "R1", 3), (0, "R4", 3)]


def test_a_column_of_terms_finds_its_rules_by_key() -> None:
    texts = {"R0": "1", "R1": "1.0", "R2": '"1"', "R3": ":a", "R4": "2"}
    text = "".join(
        rule(
            f"from A [ FILTER(?v = {constant}) ] with E.?a = A.?v" if n % 2 else f"from A [ FILTER({constant} = ?v) ] with E.?a = A.?v",
            name,
        )
        for n, (name, constant) in enumerate(texts.items())
    )
    assert fired(text, [element(0, ("A", "", 1)), element(1, ("A", "", 2)), element(2, ("A", "", 3))]) == [
        (0, "R0", 1),
        (0, "R1", 1),
        (1, "R4", 2),
    ]


def test_event_is_bound_to_one_role_only() -> None:
    """Anchor and candidate of one source: for one rule, for rules of a table, and for several
    events at once."""
    elements = [element(0, ("A", "", 5)), element(1, ("A", "", 6), ("A", "", 7))]
    for clause, expected in {
        "last A as X within [0, 9 s] from A": [(1, 7, 6), (1, 6, 7)],
        "first A as X within [0, 0] from A": [(1, 7, 6), (1, 6, 7)],
        "each A as X within [0, 0] from A": [(1, 7, 6), (1, 6, 7)],
        "last 2 A as X within [0, 9 s] from A": [(1, 7, 6), (1, 7, 5), (1, 6, 7), (1, 6, 5)],
        "first 2 A as X within [0, 9 s] from A": [(1, 7, 6), (1, 7, 5), (1, 6, 7), (1, 6, 5)],
        "last A as X [ FILTER(?v > {k}) ] within [0, 9 s] from A": [(1, 7, 6), (1, 6, 7)],
        "first A as X [ FILTER(?v > {k}) ] within [0, 0] from A": [(1, 7, 6), (1, 6, 7)],
        "each A as X [ FILTER(?v > {k}) ] within [0, 0] from A": [(1, 7, 6), (1, 6, 7)],
    }.items():
        text = "".join(rule(f"from A and {clause.format(k=k)} with E.?a = 10 * A.?v + X.?v", f"R{k}") for k in (1, 2))
        assert fired(text, elements) == sorted((time, f"R{k}", 10 * own + other) for k in (1, 2) for time, own, other in expected)


def test_constants_are_in_the_condition_and_the_output() -> None:
    text = "".join(
        rule(f"from A and last B within 9 s from A if B.?v > {k} with E.?a = A.?v + {m}", f"R{k}") for k, m in ((1, 10), (2, 20), (3, 30))
    )
    assert fired(text, [element(0, ("B", "", 3)), element(1, ("A", "", 4))]) == [(1, "R1", 14), (1, "R2", 24)]


def test_numbers_and_non_numbers_are_compared_by_sparql() -> None:
    """Doubles, floats and texts take another path than exact numbers."""
    text = "".join(rule(f"from A [ FILTER(?v >= {k}) ] with E.?a = {int(float(k) * 10)}", f"R{n}") for n, k in enumerate(("0.7", "1", "2")))
    program = program_of(text)
    for value, expected in {
        literal("0.7", XSD + "float"): [7],
        literal("1.0", XSD + "double"): [7, 10],
        literal("0.7", XSD + "double"): [7],
        literal("2", XSD + "decimal"): [7, 10, 20],
        literal("NaN", XSD + "double"): [],
        literal("INF", XSD + "float"): [7, 10, 20],
        literal("3"): [],
        "<http://example.org/x>": [],
    }.items():
        triples = (
            ("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://example.org/A>"),
            ("_:0", "<http://example.org/v>", value),
        )
        found = outputs(partitioned(program, [Element(0, triples)], 1))
        assert [o.attributes["a"] for o in found] == [literal(str(n), XSD + "integer") for n in expected], value
