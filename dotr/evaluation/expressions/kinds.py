"""Type inference: the kinds of terms that a variable or expression can have, from the text alone.

Idea: a subject is no literal, a predicate is an IRI, `STR(…)` is a string, `count(*)` a number. An
expression without such a restriction may have every kind.
Invariant: the kinds of an expression include that of its value at run time, so expressions without
a common kind are never equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions.functions import ELAPSED, IN_ZONE, MATH_FUNCTIONS, SECONDS
from dotr.evaluation.expressions.values.terms import NUMERIC, read
from dotr.model.algebra import (
    AggregateCall,
    Attribute,
    Bgp,
    BgpItem,
    Call,
    Const,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    MatchPattern,
    Minus,
    PathPattern,
    Pattern,
    Select,
    Slot,
    TermPattern,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    is_arithmetic,
    is_chain,
    is_hidden,
)
from dotr.model.places import Span
from dotr.model.terms import XSD, Label, Term, Variable, is_blank, is_iri, is_triple
from dotr.model.time import Forms, TimeForm
from dotr.model.traverse import subexpressions


class TermKind(Enum):
    """Kind of term that SPARQL's operators distinguish.

    OTHER are all further literals: dates, durations, texts with a language, unknown datatypes.
    """

    IRI = "an IRI"
    BLANK = "a blank node"
    NUMBER = "a number"
    STRING = "a string"
    BOOLEAN = "a boolean"
    OTHER = "another literal"
    TRIPLE = "a triple term"


TermKinds: TypeAlias = frozenset[TermKind]
Scope: TypeAlias = Mapping[Label, Mapping[Variable, TermKinds]]
"""The kinds of the attributes of each bound label."""

ANYTHING: Final[TermKinds] = frozenset(TermKind)
_NODE: Final = frozenset({TermKind.IRI, TermKind.BLANK})
_IRI: Final = frozenset({TermKind.IRI})
_NUMBER: Final = frozenset({TermKind.NUMBER})
_STRING: Final = frozenset({TermKind.STRING})
_BOOLEAN: Final = frozenset({TermKind.BOOLEAN})
_TEXT: Final = frozenset({TermKind.STRING, TermKind.OTHER})
_QUANTITY: Final = frozenset({TermKind.NUMBER, TermKind.OTHER})
_TRIPLE: Final = frozenset({TermKind.TRIPLE})

_RESULTS: Final[Mapping[str, TermKinds]] = {
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "IN", "NOT IN", "BOUND", "REGEX"), _BOOLEAN),
    **dict.fromkeys(("SAMETERM", "ISIRI", "ISBLANK", "ISLITERAL", "ISNUMERIC", "ISTRIPLE", "LANGMATCHES"), _BOOLEAN),
    **dict.fromkeys(("STRSTARTS", "STRENDS", "CONTAINS", "HASLANG", "HASLANGDIR"), _BOOLEAN),
    **dict.fromkeys(("+", "-", "*", "/", "UNARY-", "UNARY+"), _QUANTITY),
    **dict.fromkeys(("STRLEN", "ABS", "CEIL", "FLOOR", "ROUND", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS"), _NUMBER),
    **dict.fromkeys(("STR", "LANG", "LANGDIR", "ENCODE_FOR_URI", "TZ", "MD5", "SHA1", "SHA256", "SHA384", "SHA512"), _STRING),
    **dict.fromkeys(("UCASE", "LCASE", "SUBSTR", "STRBEFORE", "STRAFTER", "CONCAT", "REPLACE"), _TEXT),
    **dict.fromkeys(("IRI", "DATATYPE", "PREDICATE"), _IRI),
    "SUBJECT": _NODE,
    "TRIPLE": _TRIPLE,
    **{f"<{XSD}{name}>": _NUMBER for name in ("integer", "decimal", "float", "double")},
    **dict.fromkeys(MATH_FUNCTIONS, _NUMBER),
    **dict.fromkeys((SECONDS, ELAPSED), _NUMBER),
    IN_ZONE: frozenset({TermKind.OTHER}),
    f"<{XSD}string>": _STRING,
    f"<{XSD}boolean>": _BOOLEAN,
}


def kinds_text(kinds: TermKinds) -> str:
    """The kinds in words, joined by "or"."""
    return " or ".join(kind.value for kind in TermKind if kind in kinds)


def term_kind(term: Term) -> TermKind:
    """The kind of a constant; an ill-typed literal is OTHER.

    >>> integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    >>> term_kind(f'"1"{integer}').name, term_kind(f'"one"{integer}').name
    ('NUMBER', 'OTHER')
    """
    if is_iri(term):
        return TermKind.IRI
    if is_blank(term):
        return TermKind.BLANK
    if is_triple(term):
        return TermKind.TRIPLE
    value = type(read(term))
    if value in NUMERIC:
        return TermKind.NUMBER
    return TermKind.STRING if value is str else TermKind.BOOLEAN if value is bool else TermKind.OTHER


def expression_kinds(expression: Expression, own: Mapping[Variable, TermKinds], bound: Scope) -> TermKinds:
    """The kinds of an expression's value; `own` are those of variables, `bound` those of `M.?v`."""
    match expression:
        case Const(term):
            return frozenset({term_kind(term)})
        case Var(name):
            return own.get(name, ANYTHING)
        case Attribute(label, name):
            return bound.get(label, {}).get(name, ANYTHING)
        case TimeOf():
            return _QUANTITY
        case Call("IF", (_, *branches)) | Call("COALESCE", branches):
            return frozenset().union(*(expression_kinds(branch, own, bound) for branch in branches))
        case Call("+" | "-" | "*" | "/" | "UNARY-" | "UNARY+", operands) if all(
            expression_kinds(each, own, bound) == _NUMBER for each in operands
        ):
            return _NUMBER
        case Call(function, _):
            return _QUANTITY if is_chain(function) else _RESULTS.get(function, ANYTHING)
        case Exists():
            return _BOOLEAN
        case _:
            assert_never(expression)


_BindingKinds: TypeAlias = dict[Variable, tuple[TermKinds, bool]]
"""For each variable, its kinds where it is bound, and whether every solution binds it."""


ObjectKinds: TypeAlias = Mapping[Term, TermKinds]
"""The kinds of the objects of each predicate; those of any other predicate may have every kind."""

NO_OBJECT_KINDS: Final[ObjectKinds] = {}


def pattern_kinds(pattern: Pattern, objects: ObjectKinds) -> dict[Variable, TermKinds]:
    """The kinds of a pattern's variables, where they are bound.

    >>> triple = TriplePattern(Var("room"), Const("<p>"), Var("v"))
    >>> kinds = pattern_kinds(Bgp((triple,)), {})
    >>> sorted(kind.name for kind in kinds["room"]), kinds["v"] == ANYTHING
    (['BLANK', 'IRI'], True)
    """
    return {name: kinds for name, (kinds, _) in _binding_kinds(pattern, objects).items()}


def _binding_kinds(pattern: Pattern, objects: ObjectKinds) -> _BindingKinds:
    match pattern:
        case Bgp(patterns):
            variable_kinds: dict[Variable, TermKinds] = {}
            for item in patterns:
                for slot, kinds in _slot_kinds(item, objects):
                    if isinstance(slot, Var):
                        variable_kinds[slot.name] = variable_kinds.get(slot.name, ANYTHING) & kinds
            return {name: (kinds, True) for name, kinds in variable_kinds.items()}
        case Join(left, right):
            return _join_kinds(_binding_kinds(left, objects), _binding_kinds(right, objects))
        case LeftJoin(left, right, _):
            return _join_kinds(
                _binding_kinds(left, objects), {name: (kinds, False) for name, (kinds, _) in _binding_kinds(right, objects).items()}
            )
        case Union(left, right):
            a, b = _binding_kinds(left, objects), _binding_kinds(right, objects)
            return {name: (_union_kinds(a, b, name), all(name in side and side[name][1] for side in (a, b))) for name in {**a, **b}}
        case Minus(inner, _) | Filter(inner, _) | WindowBlock(_, inner):
            return _binding_kinds(inner, objects)
        case MatchPattern(_, names):
            return dict.fromkeys(names, (ANYTHING, True))
        case Extend(inner, variable, expression):
            inner_kinds = _binding_kinds(inner, objects)
            return {
                **inner_kinds,
                variable: (expression_kinds(expression, {name: kinds for name, (kinds, _) in inner_kinds.items()}, {}), False),
            }
        case Values(names, rows):
            columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
            return {name: (frozenset(term_kind(t) for t in terms if t is not None), None not in terms) for name, terms in columns.items()}
        case Group(inner, keys, aggregates):
            inner_kinds = _binding_kinds(inner, objects)
            own = {name: kinds for name, (kinds, _) in inner_kinds.items()}
            grouped: _BindingKinds = {name: (expression_kinds(expression, own, {}), False) for name, expression in keys}
            return {**grouped, **{name: (_call_kinds(call, own), False) for name, call in aggregates}}
        case Select():
            return {name: kinds for name, kinds in _binding_kinds(pattern.pattern, objects).items() if name in pattern.projection}
        case _:
            assert_never(pattern)


def _object_kinds(predicate: Slot, objects: ObjectKinds) -> TermKinds:
    return objects.get(predicate.term, ANYTHING) if isinstance(predicate, Const) else ANYTHING


def _slot_kinds(item: BgpItem, objects: ObjectKinds) -> tuple[tuple[Slot, TermKinds], ...]:
    """The slots of a pattern with their kinds; an empty path starts and ends at any term."""
    match item:
        case TriplePattern(subject, predicate, object):
            return (subject, _NODE), (predicate, _IRI), (object, _object_kinds(predicate, objects))
        case TermPattern(term, subject, predicate, object):
            return (term, _TRIPLE), (subject, _NODE), (predicate, _IRI), (object, ANYTHING)
        case PathPattern(subject, _, object):
            return (subject, ANYTHING), (object, ANYTHING)
        case _:
            assert_never(item)


def _join_kinds(a: _BindingKinds, b: _BindingKinds) -> _BindingKinds:
    """The kinds after a join: a variable that one side always binds has the term of that side."""
    joined = {**a, **b}
    for name in a.keys() & b.keys():
        (left, left_always), (right, right_always) = a[name], b[name]
        match left_always, right_always:
            case True, True:
                joined[name] = left & right, True
            case True, False:
                joined[name] = left, True
            case False, True:
                joined[name] = right, True
            case _:
                joined[name] = left | right, False
    return joined


def _union_kinds(a: _BindingKinds, b: _BindingKinds, name: Variable) -> TermKinds:
    nothing: TermKinds = frozenset()
    return a.get(name, (nothing, False))[0] | b.get(name, (nothing, False))[0]


def _call_kinds(call: AggregateCall, own: Mapping[Variable, TermKinds]) -> TermKinds:
    return aggregate_kinds(call.function, ANYTHING if call.argument is None else expression_kinds(call.argument, own, {}))


def aggregate_kinds(function: str, argument: TermKinds) -> TermKinds:
    """The kinds of an aggregate of terms of these kinds."""
    match function.upper():
        case "COUNT" | "SUM" | "AVG" | "MEDIAN" | "QUANTILE" | "VARIANCE" | "STDDEV":
            return _NUMBER
        case "MIN" | "MAX" | "SAMPLE":
            return argument
        case "GROUP_CONCAT":
            return _STRING
        case _:
            return ANYTHING


# Forms of times: a time is an integer or a date-time, the length between two times a number or a
# duration, as the stream has its times.
#
# Invariant: an expression with a form has a time, or the length between two times, as its value, if
# it has a value; so where times are date-times, to compare a length with a number is an error.


_COMPARISONS: Final = frozenset({"=", "!=", "<", "<=", ">", ">=", "IN", "NOT IN"})
_CLOCK_FIELDS: Final = frozenset({"DAY", "HOURS", "MINUTES", "SECONDS"})
_OF_NUMBERS: Final = frozenset(
    {"ABS", "CEIL", "FLOOR", "ROUND", *MATH_FUNCTIONS, *(f"<{XSD}{n}>" for n in ("integer", "decimal", "double"))}
)


def time_form(expression: Expression, own: Forms, bound: Mapping[Label, Forms]) -> TimeForm | None:
    """The form of an expression; `own` are those of variables, `bound` those of `M.?v`.

    >>> difference = Call("-", (TimeOf("Off"), TimeOf("On")))
    >>> time_form(Call("*", (difference, Const('"2"'))), {}, {})
    TimeForm(is_length=True, remedy='elapsed(On, Off)', is_duration=False)
    >>> time_form(Call("/", (difference, difference)), {}, {}) is None
    True
    """
    match expression:
        case Var(name):
            return own.get(name)
        case Attribute(label, name):
            return bound.get(label, {}).get(name)
        case TimeOf(label):
            return TimeForm(False, label)
        case Call("IF", (_, *branches)):
            forms = [time_form(each, own, bound) for each in branches]
            return forms[0] if all(form and forms[0] and form.is_length == forms[0].is_length for form in forms) else None
        case Call("UNARY-" | "UNARY+", (operand,)):
            return time_form(operand, own, bound)
        case Call("+" | "-" | "*" | "/" as operator, (left, right)):
            a, b = time_form(left, own, bound), time_form(right, own, bound)
            has_number = any(_is_number(each, own, bound, {}) for each in (left, right))
            if operator in "*/":  # the quotient of two durations is a number
                scaled = a or b if operator == "*" else a if has_number else None
                return scaled if scaled and scaled.is_length and not scaled.is_duration else None
            if has_number:
                return None  # an error where times are date-times
            if operator == "-" and b and not b.is_length:  # nothing but a time has a difference from a time
                return TimeForm(True, f"elapsed({b.remedy}, {a.remedy})" if a and a.remedy and b.remedy else "")
            time = next((form for form in (a, b) if form and not form.is_length), None)
            is_known = all(form or isinstance(each, Const) for form, each in ((a, left), (b, right)))
            return time or a or b if is_known or (time and operator == "+") else None
        case _:
            return None


def _number_free_form(expression: Expression, own: Forms, bound: Mapping[Label, Forms]) -> TimeForm | None:
    """The form of an expression; a length also for `time(A) - A.?since`, which is a length or a
    time, and so no number where times are date-times."""
    match expression:
        case Call("+" | "-", (left, right)) if not any(_is_number(each, own, bound, {}) for each in (left, right)):
            form = time_form(expression, own, bound)
            return form or (TimeForm(True) if any(_number_free_form(each, own, bound) for each in (left, right)) else None)
        case _:
            return time_form(expression, own, bound)


class TimeMisuse(NamedTuple):
    """A time, or a length between two times, that is used as a number; `message` says in which
    operation.

    - `always_errs`: the operation takes neither a number nor a duration.
    - `other`: the label whose time a time and a number are compared with, if there is one.
    """

    message: str
    operand: Expression
    form: TimeForm
    always_errs: bool = False
    other: Label = ""

    def warning(self, code: str, place: Span) -> Diagnostic:
        """The warning, where the form of times is unknown."""
        match self.operand:
            case Attribute(label, name):
                where = f" where {label}.?{name} is assigned"
            case Var(name) if not is_hidden(name):
                where = f" where ?{name} is assigned"
            case _:
                where = ""
        seconds = self.form.remedy or f"{SECONDS}(…) of the difference"
        hint = f"Write {seconds}{where}, which is in seconds, whatever the form of times."
        if self.always_errs or self.form.is_duration:
            reason = f"A length has no such part. {hint} {seconds} / 3600 are hours."
            if not self.always_errs:
                reason = f"It is a duration, whatever the form of times. Write {seconds}{where}."
            return Diagnostic(code, f"{self.message} is an error", place, reason, Severity.WARNING)
        if self.form.is_length:
            reason = f"The difference is a number of units of time, and a duration where times are date-times. {hint}"
        else:
            known = self.other and self.form.remedy
            seconds = f"elapsed({self.form.remedy}, {self.other})" if known else f"{SECONDS}(…) of the difference of two times"
            reason = f"Compare {seconds} with the number: it is in seconds, whatever the form of times."
        return Diagnostic(code, self.message + _WHERE_DATED, place, reason, Severity.WARNING, dated=True)


_WHERE_DATED: Final = " is an error where times are date-times"
_DATED: Final = " is an error: times are date-times"


def with_form_of_times(warnings: Iterable[Diagnostic], dated: bool | None) -> list[Diagnostic]:
    """The warnings of a program, where it is known of times whether they are date-times (`dated`;
    None: unknown): those of the other form are left out, and those of this form say that it is so.

    >>> from dotr.model.places import Document
    >>> misuse = TimeMisuse("avg of a difference of times", Var("d"), TimeForm(True))
    >>> warning = misuse.warning("D326", Span(Document("", ""), 0, 0))
    >>> with_form_of_times([warning], dated=True)[0].message, with_form_of_times([warning], dated=False)
    ('avg of a difference of times is an error: times are date-times', [])
    """
    if dated is None:
        return list(warnings)
    kept = [each for each in warnings if each.dated in (None, dated)]
    return [replace(each, message=each.message.removesuffix(_WHERE_DATED) + _DATED) if each.dated else each for each in kept]


_OPERATORS: Final = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def time_misuses(
    expression: Expression, own: Forms, bound: Mapping[Label, Forms], kinds: Mapping[Variable, TermKinds]
) -> Iterator[TimeMisuse]:
    """The operations on times and lengths that need integer times, and those that err in either
    form; `kinds` are those of variables.

    >>> ten = Const('"10"^^<http://www.w3.org/2001/XMLSchema#integer>')
    >>> [each.message for each in time_misuses(Call(">", (Call("-", (TimeOf("B"), TimeOf("A"))), ten)), {}, {}, {})]
    ['the comparison of a difference of times with a number']
    >>> [each.message for each in time_misuses(Call(">", (TimeOf("B"), Call("+", (TimeOf("A"), ten)))), {}, {}, {})]
    ['a time plus a number']
    """
    calls = [each for each in subexpressions(expression) if isinstance(each, Call)]
    compared: dict[Expression, Label] = {}
    for call in calls:
        if call.function in _COMPARISONS and len(call.arguments) == 2:  # IN has a list of values
            left, right = call.arguments
            for argument, other in ((left, right), (right, left)):
                if isinstance(other, TimeOf):
                    compared[argument] = other.label
    for call in calls:
        formed = [(each, form) for each in call.arguments if (form := _number_free_form(each, own, bound))]
        lengths = [(each, form) for each, form in formed if form.is_length]
        if not formed:
            continue
        operand, form = (lengths or formed)[0]
        noun = "getDURATION()" if form.is_duration else "a difference of times" if form.is_length else "a time"
        has_number = any(_is_number(each, own, bound, kinds) for each in call.arguments)
        if call.function in _OPERATORS and len(call.arguments) == 2:
            is_first = operand is call.arguments[0]
            scales = call.function == "*" or (call.function == "/" and is_first)  # of durations: twice as long, half as long
            if has_number and not (scales and form.is_length and not form.is_duration):
                first, second = (noun, "a number") if is_first else ("a number", noun)
                message = f"{first} {_OPERATORS[call.function]} {second}"
                yield TimeMisuse(message, operand, form, other=compared.get(call, ""))
        elif lengths and call.function in _COMPARISONS and has_number:
            yield TimeMisuse(f"the comparison of {noun} with a number", operand, form)
        elif lengths and (call.function in _OF_NUMBERS or (call.function in _CLOCK_FIELDS and time_form(operand, own, bound))):
            name = call.function.strip("<>").replace("#", "/").rsplit("/", 1)[-1].lower()
            yield TimeMisuse(f"{name}(…) of {noun}", operand, form, call.function in _CLOCK_FIELDS)


def _is_number(expression: Expression, own: Forms, bound: Mapping[Label, Forms], kinds: Mapping[Variable, TermKinds]) -> bool:
    """True of an expression whose value is a number in either form of times: `2 * 60`."""
    if time_form(expression, own, bound):
        return False
    if isinstance(expression, Call) and (is_arithmetic(expression.function) or expression.function.startswith("UNARY")):
        return all(_is_number(each, own, bound, kinds) for each in expression.arguments)
    return expression_kinds(expression, kinds, {}) == _NUMBER
