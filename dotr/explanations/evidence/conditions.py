"""Conditions on events, with their outcome and the terms that decided it.

Idea: each conjunct is compiled by itself (`dotr.evaluation.expressions`) and called with the terms
of one binding. Compiled conjuncts are cached, since all candidates of a clause share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from dotr.evaluation.expressions import evaluator
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.terms import FALSE, TRUE, Term
from dotr.model.traverse import operands, parameters_of

TermOf = Callable[[Var | Attribute | TimeOf | Exists], Term | None]
"""The term of a variable, an attribute or a time in a binding; None: unbound."""


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """A conjunct of a constraint or of `if` in one binding.

    Attributes:
        expression: the conjunct.
        holds: its truth; None: it errs, which counts as false.
        operands: its variables, attributes and times with their terms, in the order of appearance.
        sides: of `A || B`, the outcome of each side; otherwise empty.
        span: its place in the rule file; None: unknown.
    """

    expression: Expression
    holds: bool | None
    operands: tuple[tuple[Expression, Term | None], ...]
    sides: tuple[ConditionOutcome, ...] = ()
    span: Span | None = None


@lru_cache(maxsize=4096)
def _compiled(expression: Expression) -> tuple[tuple[Var | Attribute | TimeOf | Exists, ...], Callable[..., Term | None]]:
    parameters = parameters_of([expression])
    return parameters, evaluator(expression, parameters)


@lru_cache(maxsize=4096)
def _truth(expression: Expression) -> tuple[tuple[Var | Attribute | TimeOf | Exists, ...], Callable[..., Term | None]]:
    parameters = parameters_of([expression])
    return parameters, evaluator(Call("!", (Call("!", (expression,)),)), parameters)


def term_in(expression: Expression, term_of: TermOf) -> Term | None:
    """The term of an expression in a binding; None: unbound, or an error."""
    parameters, evaluate = _compiled(expression)
    return evaluate(*map(term_of, parameters))


def truth_in(expression: Expression, term_of: TermOf) -> bool | None:
    """The truth of a condition in a binding; None: it errs.

    >>> bound = Call("BOUND", (Var("v"),))
    >>> truth_in(bound, {Var("v"): '"1"'}.get), truth_in(Call("<", (Var("v"), Const('"5"'))), {}.get)
    (True, None)
    """
    parameters, evaluate = _truth(expression)
    term = evaluate(*map(term_of, parameters))
    return True if term == TRUE else False if term == FALSE else None


def outcome_of(expression: Expression, term_of: TermOf, places: Mapping[Expression, Span]) -> ConditionOutcome:
    """The outcome of a conjunct in a binding. `places` has the spans of conjuncts."""
    parameters, evaluate = _truth(expression)
    terms = [term_of(parameter) for parameter in parameters]
    term = evaluate(*terms)
    holds = True if term == TRUE else False if term == FALSE else None
    alternatives = operands(expression, "||")
    sides = tuple([outcome_of(each, term_of, {}) for each in alternatives]) if len(alternatives) > 1 else ()
    return ConditionOutcome(expression, holds, tuple(zip(parameters, terms, strict=True)), sides, places.get(expression))


def first_error(expression: Expression, term_of: TermOf) -> Expression | None:
    """The innermost part of an expression that errs while its own parts do not; None: none errs.

    >>> difference = Call("-", (Var("a"), Var("b")))
    >>> first_error(Call(">", (difference, Var("a"))), {Var("a"): '"x"', Var("b"): '"y"'}.get) == difference
    True
    """
    match expression:
        case Const():
            return None
        case Var() | Attribute() | TimeOf() | Exists():
            return expression if term_of(expression) is None else None
        case Call(function, arguments):
            if term_in(expression, term_of) is not None:
                return None
            if function not in ("IF", "COALESCE", "BOUND"):
                for argument in arguments:
                    if (found := first_error(argument, term_of)) is not None:
                        return found
            return expression
        case _:
            assert_never(expression)


def failing(outcomes: Sequence[ConditionOutcome]) -> list[ConditionOutcome]:
    """The outcomes that are false or errors."""
    return [each for each in outcomes if each.holds is not True]
