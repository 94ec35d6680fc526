"""Durations: every unit in every spelling and combination, and xsd:duration, in all positions."""

from __future__ import annotations

from itertools import permutations

import pytest

from dotr.engine.spec import RuleSet
from dotr.languages.codes import RuleCode
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.rules import Choose, FactSource
from dotr.model.terms import XSD

pytestmark = pytest.mark.core

UNITS = {
    1: ["us"],
    1_000: ["ms"],
    1_000_000: ["s", "sec", "secs", "second", "seconds"],
    60_000_000: ["min", "mins", "minute", "minutes"],
    3_600_000_000: ["h", "hour", "hours"],
    86_400_000_000: ["d", "day", "days"],
}
NAMES = [(name, micros) for micros, names in UNITS.items() for name in names]


def rules(anchor: str, clause: str) -> RuleSet:
    text = f"query A = [ SELECT ?x {{ ?x a :A }} ] define E = [ [] a :E ] from {anchor} {clause}"
    return compile_rules([Document("x.dotr", text)], {"": "http://example.org/", "xsd": XSD})


def bounds(*extents: str) -> list[tuple[int, int]]:
    """The intervals of windows in µs, both ends closed."""
    clauses = "\n".join(f"and each A as B{n} within {extent} from A" for n, extent in enumerate(extents))
    (rule,) = rules("A", clauses).checked().rules
    return [clause.window.interval.bounds for clause in rule.clauses if isinstance(clause, Choose)]


@pytest.mark.parametrize(("name", "micros"), NAMES)
def test_unit_is_read_in_any_case_with_and_without_dot(name: str, micros: int) -> None:
    spellings = (name, name.upper(), name.capitalize(), name.swapcase())
    written = [f"7{blank}{spelling}{dot}" for spelling in spellings for dot in ("", ".") for blank in ("", " ", "\n")]
    assert bounds(*written) == [(1, 7 * micros)] * len(written)


@pytest.mark.parametrize(("name", "micros"), NAMES)
def test_decimal_amount_is_exact(name: str, micros: int) -> None:
    assert bounds(f"007.000 {name}") == [(1, 7 * micros)]
    if micros > 1:
        assert bounds(f"1.5 {name}", f".25{name}.", f"0.001 {name}") == [(1, micros * 3 // 2), (1, micros // 4), (1, micros // 1000)]


@pytest.mark.parametrize(("first", "second"), [*permutations(UNITS, 2)])
def test_two_units_add_up_in_any_order(first: int, second: int) -> None:
    b = UNITS[second][-1]
    written = [text for a in UNITS[first] for text in (f"2 {a} 3 {b}", f"2{a}3{b}", f"2 {a}. 3 {b}.")]
    assert set(bounds(*written)) == {(1, 2 * first + 3 * second)}


def test_all_units_and_repeated_units_add_up() -> None:
    assert bounds("1 day 2 hours 3 min. 4.5 sec 6 ms 7 us", "1 min 1 min") == [(1, 93_784_506_007), (1, 120_000_000)]


@pytest.mark.parametrize(
    ("lexical", "micros"),
    [
        ("P1D", 86_400_000_000),
        ("PT1H", 3_600_000_000),
        ("PT1M", 60_000_000),
        ("PT1S", 1_000_000),
        ("PT0.25S", 250_000),
        ("PT0.000001S", 1),
        ("P1DT12H", 129_600_000_000),
        ("P2DT3H4M5.5S", 183_845_500_000),
        ("PT90M", 5_400_000_000),
        ("P0DT0H0M1S", 1_000_000),
        ("PT36H", 129_600_000_000),
    ],
)
def test_xsd_duration_is_microseconds(lexical: str, micros: int) -> None:
    datatypes = ("xsd:duration", "xsd:dayTimeDuration", f"<{XSD}duration>", f"<{XSD}dayTimeDuration>")
    written = [f"{quote}{lexical}{quote}^^{datatype}" for datatype in datatypes for quote in ('"', "'", '"""')]
    assert bounds(*written) == [(1, micros)] * len(written)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("5", RuleCode.UNEXPECTED),
        ("5 m", RuleCode.UNKNOWN_UNIT),
        ("5 weeks", RuleCode.UNKNOWN_UNIT),
        ("5 minutos", RuleCode.UNKNOWN_UNIT),
        ("1 h 5 m", RuleCode.UNKNOWN_UNIT),
        ("0.5 us", RuleCode.NO_DURATION),
        ("0.0001 ms", RuleCode.NO_DURATION),
        ("1..5 s", RuleCode.UNEXPECTED),
        ("1,5 s", RuleCode.UNEXPECTED),
        ("1e3 s", RuleCode.UNKNOWN_UNIT),
        ("99999999999999 days", RuleCode.NO_DURATION),
        ('"PT5M"', RuleCode.UNEXPECTED),
        ('"PT"^^xsd:duration', RuleCode.NO_DURATION),
        ('"P"^^xsd:duration', RuleCode.NO_DURATION),
        ('"P1DT"^^xsd:duration', RuleCode.NO_DURATION),
        ('"pt5m"^^xsd:duration', RuleCode.NO_DURATION),
        ('"PT1.5M"^^xsd:duration', RuleCode.NO_DURATION),
        ('"P1Y"^^xsd:duration', RuleCode.NO_DURATION),
        ('"P1M"^^xsd:duration', RuleCode.NO_DURATION),
        ('"-PT5M"^^xsd:duration', RuleCode.NO_DURATION),
        ('"PT5M"^^xsd:string', RuleCode.NO_DURATION),
        ('"PT0.0000001S"^^xsd:duration', RuleCode.NO_DURATION),
    ],
)
def test_invalid_duration_is_refused(text: str, code: RuleCode) -> None:
    assert code in [d.code for d in rules("A", f"and each A as B within {text} from A").errors]
    assert code in [d.code for d in rules(f"every {text} as Tick", "").errors]
    assert code in [d.code for d in rules(f"A delayed by {text}", "").errors]


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        ("[0, 5 min]", (0, 300_000_000)),
        ("[0 s, 1 h 30 min.)", (0, 5_399_999_999)),
        ('("PT1M"^^xsd:duration, 1.5 H]', (60_000_001, 5_400_000_000)),
        ("(500 ms, .75 SEC)", (500_001, 749_999)),
        ("[0, 0]", (0, 0)),
        ("[0.0, 00]", (0, 0)),
        ("[1 d, 1 d]", (86_400_000_000, 86_400_000_000)),
    ],
)
def test_interval_ends_are_read_with_units(extent: str, expected: tuple[int, int]) -> None:
    assert bounds(extent) == [expected]


@pytest.mark.parametrize(("text", "micros"), [("10 Min.", 600_000_000), ("1h 30 mins", 5_400_000_000), ('"PT0.5S"^^xsd:duration', 500_000)])
def test_period_and_delay_are_microseconds(text: str, micros: int) -> None:
    (rule,) = rules(f"every {text} as Tick", "").checked().rules
    assert isinstance(rule.anchor.source, FactSource)
    assert rule.anchor.source.period == micros
    (rule,) = rules(f"A delayed by {text}", "").checked().rules
    assert rule.anchor.delay == micros


@pytest.mark.parametrize(
    ("text", "micros"), [("PT5M", 300_000_000), ("P1D", 86_400_000_000), ("PT0.25S", 250_000), ("P1DT12H", 129_600_000_000)]
)
def test_lexical_form_without_quotes_is_read(text: str, micros: int) -> None:
    assert bounds(text, f'"{text}"^^xsd:duration', f'"{text}"^^xsd:dayTimeDuration', f"[0, {text}]") == [
        (1, micros),
        (1, micros),
        (1, micros),
        (0, micros),
    ]


@pytest.mark.parametrize("text", ["P1M", "P1Y"])
def test_lexical_form_without_quotes_of_months_or_years_is_refused(text: str) -> None:
    (problem,) = rules("A", f"and each A as B within {text} from A").errors
    assert (problem.code, problem.message) == (RuleCode.NO_DURATION, "years and months have no fixed length")
    assert problem.span is not None
    assert problem.span.text == text
