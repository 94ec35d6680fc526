"""Unsatisfiable pairs of comparisons: of a variable with constants, or of the same two variables.

Idea: no value satisfies `?v > 5 && ?v < 3`, nor `?a < ?b && ?b < ?a`.
Invariant: no false alarm. Numbers are compared after rounding to the least precise type, xsd:float.
Cost: quadratic in the comparisons of one variable, at most 200 of which are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.evaluation.expressions.operators import to_double
from dotr.evaluation.expressions.values.terms import EXACT_TYPES, NUMERIC, Number, read, single
from dotr.languages.codes import RuleCode
from dotr.languages.rules.program import warning
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, TimeOf, Var
from dotr.model.places import Document, Span
from dotr.model.terms import Term, is_iri, literal_parts
from dotr.model.traverse import conjuncts, subexpressions
from dotr.syntax import scan
from dotr.syntax.sparql import scan_references

# Conjuncts of a condition with their source text, for the spans and texts of diagnostics.

ComparedTerm: TypeAlias = Var | Attribute | TimeOf


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition, and the span of the text in which it occurs."""

    expression: Expression
    text: Span


def split(conjunct: Conjunct) -> list[Conjunct]:
    """The operands of the && at the top of a condition; the condition itself without one."""
    return [Conjunct(part, conjunct.text) for part in conjuncts(conjunct.expression)]


def is_constant(expression: Expression) -> bool:
    """True of an expression that reads no variable, no attribute, no time and no EXISTS."""
    return all(isinstance(part, Const | Call) for part in subexpressions(expression))


def expression_text(expression: Expression) -> str:
    """Short text of an expression for a message, such as `?v`, `Smoke.?room` or `STR(…)`."""
    match expression:
        case Var(name):
            return f"?{name}"
        case Attribute(label, name):
            return f"{label}.?{name}"
        case TimeOf(label):
            return f"time({label})"
        case Const(term):
            return _term_text(term)
        case Call(function, _) if function[0].isalpha():
            return f"{function}(…)"
        case _:
            return "the expression"


def _term_text(term: Term) -> str:
    """A term as in a rule file, without prefixes."""
    return literal_parts(term)[0] if not is_iri(term) and term_kind(term) in (TermKind.NUMBER, TermKind.BOOLEAN) else term


def span_of(conjunct: Conjunct, atom: ComparedTerm | None = None) -> Span:
    """The span of a compared atom, by default the first; the whole text if there is none."""
    atom = atom or first_atom(conjunct.expression)
    match atom:
        case Var(name):
            return scan.compared_variable(conjunct.text, name)
        case Attribute(label, name):
            spans = [r.span for r in scan_references(conjunct.text) if (r.label, r.variable) == (label, name)]
            if not spans:  # the variable of an aggregate
                return scan.compared_variable(conjunct.text, name)
        case TimeOf(label):
            spans = [r.span for r in scan_references(conjunct.text) if (r.label, r.variable) == (label, None)]
        case None:
            spans = [Span(conjunct.text.document, *t.span()) for t in scan.tokens(conjunct.text) if t[0].lower() == "filter"]
    return spans[-1] if spans else conjunct.text


def first_atom(expression: Expression) -> ComparedTerm | None:
    """The first variable, attribute or time in an expression."""
    return next((each for each in subexpressions(expression) if isinstance(each, ComparedTerm)), None)


MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Comparison `atom operator other`; `other` is a constant or an atom."""

    atom: ComparedTerm
    operator: str
    other: Const | ComparedTerm
    conjunct: Conjunct

    def __str__(self) -> str:
        return f"{expression_text(self.atom)} {self.operator} {expression_text(self.other)}"


_MAX_COMPARISONS: Final = 200
"""Maximal number of comparisons of one atom that are compared pairwise."""


def exclusive_comparisons(conjuncts: Sequence[Conjunct]) -> Iterator[Diagnostic]:
    """One warning for each variable, or pair of variables, with two exclusive comparisons."""
    by_operands: dict[tuple[ComparedTerm, ComparedTerm | None], list[_Comparison]] = {}
    for conjunct in conjuncts:
        if (comparison := _comparison(conjunct)) is not None:
            other = None if isinstance(comparison.other, Const) else comparison.other
            by_operands.setdefault((comparison.atom, other), []).append(comparison)
    for (atom, _), comparisons in ((operands, found[:_MAX_COMPARISONS]) for operands, found in by_operands.items()):
        pair = next(((a, b) for i, b in enumerate(comparisons) for a in comparisons[:i] if _exclude(a, b)), None)
        if pair is not None:
            hint = "One of them must go, or they belong on both sides of ||."
            yield warning(RuleCode.NEVER_HOLDS, f"{pair[0]} and {pair[1]} never hold together", span_of(pair[1].conjunct, atom), hint)


def _comparison(conjunct: Conjunct) -> _Comparison | None:
    match conjunct.expression:
        case Call(
            ("=" | "!=" | "<" | "<=" | ">" | ">=") as operator, (Var() | Attribute() | TimeOf() as a, Var() | Attribute() | TimeOf() as b)
        ):
            if repr(a) <= repr(b):
                return _Comparison(a, operator, b, conjunct)
            return _Comparison(b, MIRRORED[operator], a, conjunct)
        case Call(("=" | "<" | "<=" | ">" | ">=") as operator, (Var() | Attribute() | TimeOf() as atom, Const() as term)):
            return _Comparison(atom, operator, term, conjunct)
        case Call(("=" | "<" | "<=" | ">" | ">=") as operator, (Const() as term, Var() | Attribute() | TimeOf() as atom)):
            return _Comparison(atom, MIRRORED[operator], term, conjunct)
        case _:
            return None


_OPPOSITES: Final = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def implies(premise: Expression, conclusion: Expression) -> bool:
    """True if one comparison with a number implies another one of the same term.

    >>> def above(number: str) -> Expression:
    ...     return Call(">", (Var("v"), Const(f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>')))
    >>> implies(above("75"), above("60")), implies(above("60"), above("75"))
    (True, False)
    """
    span = Span(Document("", ""), 0, 0)
    a, b = _comparison(Conjunct(premise, span)), _comparison(Conjunct(conclusion, span))
    if a is None or b is None or a.atom != b.atom or b.operator not in _OPPOSITES:
        return False
    if not all(isinstance(each.other, Const) and term_kind(each.other.term) is TermKind.NUMBER for each in (a, b)):
        return False
    # `?v > 75` implies `?v > 60`, since it excludes `?v <= 60`.
    return _exclude(a, replace(b, operator=_OPPOSITES[b.operator]))


_EXCLUSIVE: Final = frozenset({frozenset(pair) for pair in (("<", ">"), ("<", "="), (">", "="), ("=", "!="), ("<", ">="), (">", "<="))})


def _exclude(a: _Comparison, b: _Comparison) -> bool:
    """True if no term satisfies both comparisons."""
    if not isinstance(a.other, Const) or not isinstance(b.other, Const):
        return frozenset((a.operator, b.operator)) in _EXCLUSIVE
    kinds = term_kind(a.other.term), term_kind(b.other.term)
    if TermKind.OTHER in kinds:
        return False
    if kinds[0] is not kinds[1]:
        return True
    x, y = read(a.other.term), read(b.other.term)
    if type(x) in NUMERIC and type(y) in NUMERIC:
        return _bounds_exclude(a.operator, x, b.operator, y) or _bounds_exclude(b.operator, y, a.operator, x)  # type: ignore[arg-type]
    return a.operator == b.operator == "=" and x != y


def _bounds_exclude(above: str, low: Number, below: str, high: Number) -> bool:
    """True if no number is both `above` (`=`, `>`, `>=`) `low` and `below` (`=`, `<`, `<=`) `high`.

    >>> _bounds_exclude(">", 5, "<", 3), _bounds_exclude(">", 5, "<", 5)
    (True, True)
    >>> _bounds_exclude(">=", 5, "<=", 5), _bounds_exclude("<", 5, ">", 3)
    (False, False)
    """
    if above not in ("=", ">", ">=") or below not in ("=", "<", "<="):
        return False
    if single(to_double(low)) > single(to_double(high)):
        return True
    comparable_exactly = type(low) is type(high) or {type(low), type(high)} <= EXACT_TYPES
    return comparable_exactly and low == high and (above == ">" or below == "<")
