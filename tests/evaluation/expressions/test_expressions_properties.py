"""Expressions compared with Python's arithmetic and logic."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.expressions import aggregate, condition, equality_key, evaluator, order_key
from dotr.evaluation.expressions.values.decimals import plain
from dotr.evaluation.expressions.values.terms import VALUES, Value, read, scientific, write
from dotr.model.algebra import AggregateCall, Call, Const, Expression, Var
from dotr.model.terms import XSD, Term, literal

A, B, C = Var("a"), Var("b"), Var("c")

integers: Final = st.integers(-(10**25), 10**25)
decimals: Final = st.builds(lambda n, places: Decimal(n).scaleb(-places), st.integers(-(10**12), 10**12), st.integers(0, 12))
doubles: Final = st.floats(width=64)


def integer(n: int) -> Term:
    return literal(str(n), XSD + "integer")


def decimal(d: Decimal) -> Term:
    return literal(format(d, "f"), XSD + "decimal")


def double(x: float) -> Term:
    return literal("NaN" if math.isnan(x) else ("INF" if x > 0 else "-INF") if math.isinf(x) else repr(x), XSD + "double")


def single(x: float) -> Term:
    return literal(double(x)[1:].split('"')[0], XSD + "float")


numbers: Final = st.one_of(
    integers.map(integer), st.integers(-3, 3).map(integer), decimals.map(decimal), doubles.map(double), st.floats(width=32).map(single)
)
moments: Final = st.builds(
    lambda d, zone: literal(d.isoformat() + zone, XSD + "dateTime"), st.datetimes(), st.sampled_from(["", "Z", "+02:00", "-13:30"])
)
terms: Final = st.one_of(
    numbers,
    moments,
    st.text(st.sampled_from('ab\n"é'), max_size=3).map(literal),
    st.sampled_from(['"a"@en', '"a"@fr', "<http://e/a>", "<http://e/b>", "_:a", literal("x", "http://e/t"), literal("x", XSD + "integer")]),
    st.sampled_from([literal(t, XSD + "boolean") for t in ("true", "false", "1", "0", "x")]),
    st.sampled_from([literal(t, XSD + "duration") for t in ("P1D", "PT24H", "P1M", "P30D")]),
)


def apply(function: str, *arguments: Term | None) -> Term | None:
    parameters = [A, B, C][: len(arguments)]
    return evaluator(Call(function, tuple(parameters)), parameters)(*arguments)


@given(st.sampled_from("+-*"), st.one_of(integers, decimals), st.one_of(integers, decimals))
def test_arithmetic_of_integers_and_decimals_is_exact(operator: str, a: int | Decimal, b: int | Decimal) -> None:
    compute: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
    }
    found = apply(operator, *(integer(n) if isinstance(n, int) else decimal(n) for n in (a, b)))
    assert found is not None
    value = VALUES[found]
    assert isinstance(value, int | Decimal)
    assert Fraction(value) == compute[operator](Fraction(a), Fraction(b))
    assert isinstance(value, int) == (isinstance(a, int) and isinstance(b, int))


@given(st.one_of(integers, decimals), st.one_of(integers, decimals))
def test_quotient_has_eighteen_places(a: int | Decimal, b: int | Decimal) -> None:
    found = apply("/", *(integer(n) if isinstance(n, int) else decimal(n) for n in (a, b)))
    if b == 0:
        assert found is None
        return
    assert found is not None
    with localcontext() as context:
        context.prec = 200
        exact = Fraction(a) / Fraction(b)
        rounded = round(exact * 10**18)  # Python rounds fractions half to even
        assert VALUES[found] == Decimal(rounded).scaleb(-18)


@given(st.sampled_from("+-*/"), doubles, doubles)
def test_arithmetic_of_doubles_follows_ieee_754(operator: str, a: float, b: float) -> None:
    found = apply(operator, double(a), double(b))
    assert found is not None
    if operator == "/" and b == 0:
        expected = math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    else:
        expected = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[operator]
    value = VALUES[found]
    assert isinstance(value, float)
    assert struct.pack("d", value) == struct.pack("d", expected) or (math.isnan(value) and math.isnan(expected))


@given(doubles)
def test_canonical_double_has_the_same_value(x: float) -> None:
    value = read(literal(scientific(x), XSD + "double"))
    assert isinstance(value, float)
    assert struct.pack("d", value) == struct.pack("d", x) or (math.isnan(value) and math.isnan(x))


@given(st.floats(width=32))
def test_canonical_float_has_the_same_value(x: float) -> None:
    value = read(single(x))
    text = write(value)
    assert text is not None
    again = read(text)
    assert isinstance(again, float)
    assert again == value or (math.isnan(x) and math.isnan(again))


@given(decimals)
def test_canonical_decimal_is_the_shortest(d: Decimal) -> None:
    text = plain(d)
    assert Decimal(text) == d
    assert "." not in text or text[-1] not in "0."
    assert text != "-0"


@given(terms)
def test_canonical_term_has_the_same_value(term: Term) -> None:
    value: Value = read(term)
    written = write(value)
    assert written is not None
    assert write(read(written)) == written


@given(terms, terms)
def test_equal_terms_share_a_key(a: Term, b: Term) -> None:
    if apply("=", a, b) == literal("true", XSD + "boolean"):
        assert equality_key(a) == equality_key(b)


@given(st.lists(terms, max_size=6))
def test_order_keys_are_total_and_consistent_with_less_than(found: list[Term]) -> None:
    ordered = sorted(found, key=order_key)
    backwards = found[::-1]
    backwards.sort(key=order_key)
    assert backwards == ordered
    for i, later in enumerate(ordered):
        for earlier in ordered[:i]:
            # Promotion to double or float may make unequal numbers equal, but never reverses their order.
            assert apply("<", later, earlier) != literal("true", XSD + "boolean")


@given(terms, terms)
def test_comparisons_agree_with_each_other(a: Term, b: Term) -> None:
    equal, unequal = apply("=", a, b), apply("!=", a, b)
    assert (equal is None) == (unequal is None)
    assert equal is None or equal != unequal
    assert apply("=", b, a) == equal
    assert apply("<", a, b) == apply(">", b, a)
    assert apply("<=", a, b) == apply(">=", b, a)


def logic(expression: Expression, known: dict[str, bool | None]) -> bool | None:
    """SPARQL's table of three-valued logic (section 17.2)."""
    match expression:
        case Var(name):
            return known[name]
        case Call("!", (argument,)):
            value = logic(argument, known)
            return None if value is None else not value
        case Call("&&", (left, right)):
            sides = [logic(left, known), logic(right, known)]
            return False if False in sides else None if None in sides else True
        case Call("||", (left, right)):
            sides = [logic(left, known), logic(right, known)]
            return True if True in sides else None if None in sides else False
        case Call("IF", (test, then, otherwise)):
            value = logic(test, known)
            return None if value is None else logic(then if value else otherwise, known)
        case Call("COALESCE", arguments):
            return next((v for a in arguments if (v := logic(a, known)) is not None), None)
        case _:
            raise AssertionError(expression)


formulas: Final = st.recursive(
    st.sampled_from([A, B, C]),
    lambda inner: st.one_of(
        inner.map(lambda e: Call("!", (e,))),
        st.tuples(st.sampled_from(["&&", "||"]), inner, inner).map(lambda t: Call(t[0], (t[1], t[2]))),
        st.tuples(inner, inner, inner).map(lambda t: Call("IF", t)),
        st.lists(inner, max_size=3).map(lambda found: Call("COALESCE", tuple(found))),
    ),
    max_leaves=12,
)
truths: Final = st.sampled_from([True, False, None])


@given(formulas, truths, truths, truths)
def test_errors_follow_three_valued_logic(formula: Expression, a: bool | None, b: bool | None, c: bool | None) -> None:
    given_ = [None if v is None else literal(str(v).lower(), XSD + "boolean") for v in (a, b, c)]
    expected = logic(formula, {"a": a, "b": b, "c": c})
    found = evaluator(formula, [A, B, C])(*given_)
    assert found == (None if expected is None else literal(str(expected).lower(), XSD + "boolean"))
    assert condition(formula, [A, B, C])(*given_) is (expected is True)


@given(terms, st.lists(terms, max_size=5))
def test_in_is_a_chain_of_equalities(tested: Term, members: list[Term]) -> None:
    answers = [apply("=", tested, m) for m in members]
    true = literal("true", XSD + "boolean")
    expected = true if true in answers else None if None in answers else literal("false", XSD + "boolean")
    assert evaluator(Call("IN", (A, *map(Const, members))), [A])(tested) == expected


@given(st.lists(numbers, max_size=6), st.randoms())
def test_aggregates_are_independent_of_order(found: list[Term], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for function in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"):
        for distinct in (False, True):
            run = aggregate(AggregateCall(function, distinct, A))
            assert run(found) == run(shuffled)


@given(st.lists(doubles.filter(math.isfinite), min_size=1))
def test_sum_of_doubles_is_rounded_once(found: list[float]) -> None:
    term = aggregate(AggregateCall("SUM", False, A))([double(x) for x in found])
    assert term is not None
    exact = sum(map(Fraction, found), Fraction(0))
    try:
        expected = float(exact)
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf
    assert VALUES[term] == expected
