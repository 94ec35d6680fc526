"""SPARQL expressions by the letter (SPARQL 1.1, section 17), with `M.?v` and `time(L)`. An error is the exception `Err`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from math import floor
from zoneinfo import ZoneInfo

from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.terms import FALSE, XSD, Label, Term, Variable, iri_text, is_blank, is_iri, literal, literal_parts
from dotr.model.time import Clock, Micros
from tests.oracle.functions import MATH, boolean, function, plain
from tests.oracle.triple_terms import is_triple_term
from tests.oracle.values import (
    Duration,
    Err,
    Moment,
    Number,
    Opaque,
    Tagged,
    decimal_text,
    equal,
    float_text,
    moment_text,
    read_moment,
    single,
    term_of,
    truth,
    value_of,
)


@dataclass(frozen=True)
class Scope:
    """The bindings of an expression: variables, and the time and the attributes of the events bound to labels."""

    variables: Mapping[Variable, Term]
    events: Mapping[Label, tuple[Micros, Mapping[Variable, Term]]] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    exists: Callable[[Exists], bool] | None = None


def holds(expression: Expression, scope: Scope) -> bool:
    """The truth of a condition: an error is false."""
    try:
        return truth(evaluate(expression, scope))
    except Err:
        return False


def computed(expression: Expression, scope: Scope) -> Term | None:
    """The value of an expression, None for an error."""
    try:
        return evaluate(expression, scope)
    except Err:
        return None


def time_term(time: Micros, clock: Clock) -> Term:
    if not clock.dated and time % clock.unit.value == 0:
        return literal(str(time // clock.unit.value), XSD + "integer")
    return literal(moment_text(Moment(Fraction(time, 1_000_000), 0)), XSD + "dateTime")


def evaluate(expression: Expression, scope: Scope) -> Term:
    if isinstance(expression, Const):
        return expression.term
    if isinstance(expression, Var):
        return known(scope.variables.get(expression.name))
    if isinstance(expression, Attribute):
        if expression.label not in scope.events:
            raise Err
        return known(scope.events[expression.label][1].get(expression.name))
    if isinstance(expression, TimeOf):
        return time_term(scope.events[expression.label][0], scope.clock)
    if isinstance(expression, Exists):
        assert scope.exists is not None
        return boolean(scope.exists(expression) != expression.negated)
    return call(expression, scope)


def known(term: Term | None) -> Term:
    if term is None:
        raise Err
    return term


def attempt(expression: Expression, scope: Scope) -> bool | None:
    """True, false, or None for an error: the third truth value."""
    try:
        return truth(evaluate(expression, scope))
    except Err:
        return None


def call(expression: Call, scope: Scope) -> Term:
    name, arguments = expression.function, expression.arguments
    # Those that do not evaluate all of their arguments, or survive an error in one.
    match name.upper():
        case "&&":
            truths = [attempt(a, scope) for a in arguments]
            return decided(False if False in truths else None if None in truths else True)
        case "||":
            truths = [attempt(a, scope) for a in arguments]
            return decided(True if True in truths else None if None in truths else False)
        case "BOUND":
            return boolean(computed(arguments[0], scope) is not None)
        case "IF":
            return evaluate(arguments[1] if truth(evaluate(arguments[0], scope)) else arguments[2], scope)
        case "COALESCE":
            return known(next((t for t in (computed(a, scope) for a in arguments) if t is not None), None))
        case "IN" | "NOT IN":
            tested = evaluate(arguments[0], scope)
            results = [attempt_equal(tested, a, scope) for a in arguments[1:]]
            found = decided(True if True in results else None if None in results else False)
            return found if name.upper() == "IN" else boolean(found == FALSE)
    terms = [evaluate(a, scope) for a in arguments]
    if name.startswith(MATH):
        return function(name, terms)
    match name.removeprefix("<urn:dotr:function:"):
        case "elapsed>":
            return term_of(Number("decimal", micros(terms[1], scope.clock) - micros(terms[0], scope.clock)))
        case "inZone>":
            value = value_of(terms[0])
            if not isinstance(value, Moment):
                raise Err
            offset = datetime.fromtimestamp(floor(value.seconds), ZoneInfo(plain(terms[1]))).utcoffset()
            assert offset is not None
            return term_of(Moment(value.seconds, offset // timedelta(minutes=1)))
        case "seconds>":
            value = value_of(terms[0])
            if isinstance(value, Duration):
                return term_of(Number("decimal", value.seconds))
            if isinstance(value, Moment):
                raise Err
            return term_of(Number("decimal", micros(terms[0], scope.clock)))
    return cast(iri_text(name), terms[0]) if name.startswith("<") and name.endswith(">") else function(name.upper(), terms)


def micros(term: Term, clock: Clock) -> Fraction:
    """The seconds of a time as a term: a date-time since 1970, or an exact number of units."""
    value = value_of(term)
    if isinstance(value, Moment):
        return value.seconds
    if isinstance(value, Number) and value.kind in ("integer", "decimal"):
        return Fraction(value.value) * clock.unit.value / 1_000_000
    raise Err


def decided(value: bool | None) -> Term:
    if value is None:
        raise Err
    return boolean(value)


def attempt_equal(tested: Term, other: Expression, scope: Scope) -> bool | None:
    try:
        return equal(tested, evaluate(other, scope))
    except Err:
        return None


def cast(datatype: str, term: Term) -> Term:
    """The constructor functions of SPARQL 1.1, 17.5."""
    value = value_of(term)
    if is_blank(term) or is_triple_term(term) or isinstance(value, Tagged):
        raise Err
    name = datatype.removeprefix(XSD)
    if name == "string":
        return literal(iri_text(term) if is_iri(term) else string_of(value, literal_parts(term)[0]))
    if isinstance(value, Opaque):
        raise Err
    if name == "boolean":
        if isinstance(value, str):
            return boolean({"true": True, "1": True, "false": False, "0": False}[known_word(value)])
        if isinstance(value, Moment | Duration):
            raise Err
        return boolean(value if isinstance(value, bool) else truth(term))
    if name == "dateTime":
        moment = read_moment(value) if isinstance(value, str) else value
        if not isinstance(moment, Moment):
            raise Err
        return term_of(moment)
    if isinstance(value, bool):
        value = Number("integer", Fraction(int(value)))
    if isinstance(value, str):
        value = value_of(literal(value, datatype))
    if not isinstance(value, Number):
        raise Err
    if name in ("float", "double"):
        try:
            wide = float(value.value)
        except OverflowError:
            wide = math.copysign(math.inf, value.value)
        return term_of(Number(name, single(wide) if name == "float" else wide))
    if isinstance(value.value, float) and not math.isfinite(value.value):
        raise Err
    exact = Fraction(value.value)
    if name == "decimal":
        return term_of(Number("decimal", exact))
    if name == "integer":
        return term_of(Number("integer", Fraction(math.trunc(exact))))
    raise NotImplementedError(datatype)


def string_of(value: object, lexical: str) -> str:
    """The string of a value (XPath and XQuery Functions 3.1, 19.1.1.1): of a double as of a decimal from 0.000001 up to 1000000."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Moment | Duration):
        return literal_parts(term_of(value))[0]
    if not isinstance(value, Number):
        return lexical
    if isinstance(value.value, Fraction):
        return decimal_text(value.value)
    if value.value == 0:
        return "-0" if math.copysign(1, value.value) < 0 else "0"
    text = float_text(value.value, value.kind)
    return decimal_text(Fraction(text)) if math.isfinite(value.value) and 1e-6 <= abs(value.value) < 1e6 else text


def known_word(word: str) -> str:
    if word not in ("true", "1", "false", "0"):
        raise Err
    return word
