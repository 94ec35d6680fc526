"""Conjuncts of a condition with their source text, for the spans and texts of diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.model.algebra import Attribute, Call, Const, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.terms import Term, is_iri, literal_parts
from dotr.model.traverse import conjuncts, subexpressions
from dotr.syntax import scan
from dotr.syntax.sparql import scan_references

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
