"""Values read by slices compared with those of `read`, which takes every literal apart in general form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.expressions import condition, order_key
from dotr.evaluation.expressions.operators import at_least, equal, less
from dotr.evaluation.expressions.sort_keys import _ORDER
from dotr.evaluation.expressions.values.datetimes import TemporalValue
from dotr.evaluation.expressions.values.terms import READERS, VALUES, Unknown, read, value_of
from dotr.model.algebra import Call, Const, Var
from dotr.model.terms import XSD, Term, literal
from dotr.temporal.matching.rule_search import RowBound, RowFinder
from dotr.temporal.matching.sums import SumRun
from tests.support.properties import examples

DATATYPES: Final = sorted(READERS)
V: Final = Var("v")

digits: Final = st.one_of(
    st.text("0123456789", max_size=12),
    st.sampled_from(["0", "00", "007", "٣", "２", "1_000", "1__0", "_1", "1_", "१२३४५", "²", "9" * 18, "9" * 19, "1" * 60, "7" * 4_400]),
)
space: Final = st.sampled_from(["", "", "", "", " ", "\t", "\n", "\xa0", "\u2003", "\x1c"])
sign: Final = st.sampled_from(["", "", "", "-", "+", "--", "+-", "−"])
exponent: Final = st.sampled_from(["", "", "", "e0", "E5", "e-3", "E+07", "e999", "e", "e1.5", "e٣", "d3", "e1_0"])
point: Final = st.sampled_from(["", ".", ".", "..", ",", "٫"])
numerals: Final = st.builds("".join, st.tuples(space, sign, digits, point, digits, exponent, space))
names: Final = st.sampled_from(
    ["INF", "+INF", "-INF", "inf", "Infinity", "-infinity", "NaN", "nan", "sNaN1", "-NaN7", "NaN0", "0x1F", "true", ""]
)

year: Final = st.sampled_from(["2014", "2000", "1900", "2016", "1969", "0001", "0000", "9999", "10000", "-0044", "+2014", "201", "２014"])
month_and_day: Final = st.sampled_from(
    ["08-01", "02-28", "02-29", "02-30", "12-31", "04-31", "00-10", "13-01", "8-1", "W08-1", "0801", "08-00", "08-1٣"]
)
separator: Final = st.sampled_from(["T", "T", "T", "T", "T", " ", "t", "_", ""])
clock: Final = st.sampled_from(
    [
        "00:00:00",
        "12:34:56",
        "23:59:59",
        "24:00:00",
        "24:00:01",
        "25:00:00",
        "12:60:00",
        "23:59:60",
        "1:02:03",
        "123456",
        "12:34",
        "12:34:5",
    ]
)
fraction: Final = st.sampled_from(
    ["", "", "", ".0", ".000", ".5", ".250", ".123456789", ".", ".5_0", ",5", ".٣", ".-5", "." + "3" * 70, ".5e1"]
)
zone: Final = st.sampled_from(
    ["", "", "Z", "Z", "z", "+00:00", "-00:00", "+02:00", "-13:30", "+14:00", "-14:00", "+14:01", "+15:00", "+0200", "+02", "+02:60", "ZZ"]
)
also_seconds: Final = st.sampled_from(["", "", "", "", "", ":30", "+01:00"])
moments: Final = st.builds(
    "".join, st.tuples(space, year, st.just("-"), month_and_day, separator, clock, fraction, zone, also_seconds, space)
)

quoted: Final = st.builds(lambda text, end: f'{text}"^^<{end}>', st.sampled_from(["5", "12345", "", "x"]), st.sampled_from(DATATYPES))
texts: Final = st.one_of(numerals, numerals, names, moments, moments, quoted, st.text(max_size=8))
literals: Final = st.builds(
    literal, texts, st.sampled_from([*DATATYPES, *(XSD + name for name in ("integer", "decimal", "double", "dateTime"))])
)
usual: Final = st.sampled_from([XSD + name for name in ("integer", "decimal", "double", "dateTime")])
terms: Final = st.one_of(
    st.builds(literal, texts, usual),
    literals,
    st.builds(literal, texts),
    st.builds(lambda text: literal(text, language="en"), texts),
    literals.map(lambda term: f"<<( <e:s> <e:p> {term} )>>"),
    st.sampled_from(["<http://example.org/12345>", "_:b12345"]),
)


def parts(value: object) -> object:
    """A value with its type and its digits, so that 2.50 is not 2.5, 1 not 1.0, and NaN is NaN."""
    if isinstance(value, TemporalValue):
        return type(value), [parts(getattr(value, name)) for name in TemporalValue.__slots__]
    return type(value), value if isinstance(value, int) else repr(value)


@examples(400)
@given(terms)
def test_each_form_has_the_value_of_its_general_reading(term: Term) -> None:
    VALUES.pop(term, None)
    assert parts(VALUES[term]) == parts(read(term)) == parts(value_of(term)), term


@examples(100)
@given(
    st.one_of(st.builds(literal, numerals, st.sampled_from([XSD + "integer", XSD + "decimal"])), terms), st.sampled_from(["<", ">=", "="])
)
def test_a_comparison_with_a_number_is_that_of_the_general_value(term: Term, function: str) -> None:
    for constant in (literal("12345", XSD + "integer"), literal("0.5", XSD + "decimal"), literal("1e5", XSD + "double")):
        compare: Callable[[Any, Any], bool | None] = {"<": less, ">=": at_least, "=": equal}[function]
        expected = compare(read(term), read(constant)) is True
        assert condition(Call(function, (V, Const(constant))), [V])(term) is expected, term


@pytest.mark.parametrize(
    ("text", "datatype"),
    [
        ("5", "integer"),
        ("-123456789", "integer"),
        ("-0.50", "decimal"),
        (".5", "decimal"),
        ("5.", "decimal"),
        ("-2.5E-3", "double"),
        ("2014-08-01T12:34:56", "dateTime"),
        ("2016-02-29T23:59:59.250+14:00", "dateTime"),
        ("1969-12-31T00:00:00.5Z", "dateTime"),
    ],
)
def test_the_usual_forms_need_no_general_reading(text: str, datatype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    term = literal(text, XSD + datatype)
    expected = read(term)
    VALUES.pop(term, None)
    monkeypatch.setattr("dotr.evaluation.expressions.values.terms.read", lambda found: Unknown(found, True))
    assert parts(VALUES[term]) == parts(expected)


@pytest.mark.parametrize(
    ("text", "datatype", "is_kept"),
    [
        ("1234", "integer", True),
        ("12345", "integer", False),
        ("-123456", "integer", False),
        ("12.345", "decimal", True),
        ("123.456", "decimal", False),
        ("-123.456", "decimal", False),
    ],
)
def test_a_long_number_passes_the_cache_where_it_is_compared_searched_summed_or_sorted(text: str, datatype: str, is_kept: bool) -> None:
    constant, term = literal("5", XSD + "integer"), literal(text, XSD + datatype)
    finder = RowFinder([(0, 0, constant, 5, 5.0)], [RowBound(0, ">", 2)], lambda values, row: True)
    total = SumRun(0)
    readers: list[Callable[[], object]] = [
        lambda: condition(Call(">", (V, Const(constant))), [V])(term),
        lambda: finder((term,)),
        lambda: total.append((0, 0, (term,))),
        lambda: order_key(term),
    ]
    for use in readers:
        VALUES.pop(term, None)
        _ORDER.pop(term, None)
        use()
        assert (term in VALUES) is is_kept
