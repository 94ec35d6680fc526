"""A shared prefilter: the weakest bound, or a set of constants, drops rows that no rule accepts.

Idea: filters that all bound one attribute from below accept no value below the least bound; filters
that all equate one attribute accept only their constants.
Cost: one comparison or look-up a solution, independent of the number of filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dotr.evaluation.expressions.ordered_domains import AS_IT_IS, domain_of, rank_in
from dotr.model.algebra import Call, Const, Expression, Var
from dotr.model.terms import Term, Variable
from dotr.model.traverse import conjuncts
from dotr.temporal.matching.rule_search import comparison, fold_constants


class Prefilter(NamedTuple):
    """Conditions implied by each of the filters. `is_exact`: the conditions also imply that one of
    the filters holds.
    """

    conditions: tuple[Expression, ...]
    is_exact: bool


class _Bound(NamedTuple):
    attribute: Variable
    operator: str
    constant: Term


def weakest_filter(filters: Sequence[Sequence[Expression]]) -> Prefilter:
    """Conditions implied by each of several filters, conjunctions: the weakest of common bounds.

    >>> from dotr.model.terms import XSD, literal
    >>> def above(number: int) -> list[Expression]:
    ...     return [Call(">", (Var("v"), Const(literal(str(number), XSD + "integer"))))]
    >>> weakest_filter([above(5), above(3), above(9)]) == Prefilter(tuple(above(3)), True)
    True
    """
    bounds = [[_bound(each) for condition in conditions for each in conjuncts(condition)] for conditions in filters]
    shared_bounds: list[Expression] = []
    for first in bounds[0]:
        if first is not None:
            alike = [next((each for each in others if each is not None and _are_comparable(first, each)), None) for others in bounds]
            if None not in alike:
                shared_bounds.append(_weakest([each for each in alike if each is not None]))
    single = all(len(each) == 1 for each in bounds)
    return Prefilter(tuple(dict.fromkeys(shared_bounds)), bool(shared_bounds) and single and _share_operator(bounds))


def _share_operator(bounds: Sequence[Sequence[_Bound | None]]) -> bool:
    """True if all bounds have one operator, so that the weakest is one of them."""
    return len({each.operator for alike in bounds for each in alike if each is not None}) == 1


def _bound(condition: Expression) -> _Bound | None:
    compared = comparison(fold_constants(condition))
    if compared is None or not isinstance(compared.constant, Const):
        return None
    term = compared.constant.term
    return _Bound(compared.attribute, compared.operator, term) if compared.operator == "=" or domain_of(term) is not None else None


def _are_comparable(one: _Bound, other: _Bound) -> bool:
    if one.attribute != other.attribute or one.operator[0] != other.operator[0]:
        return False
    return one.operator == "=" or domain_of(one.constant) is domain_of(other.constant)


def _weakest(bounds: Sequence[_Bound]) -> Expression:
    """A condition implied by each of the bounds. Different constants can have equal values after
    numeric promotion, so the condition is closed (`>=`) where one of the bounds is.
    """
    attribute, operator, _ = bounds[0]
    if operator == "=":
        terms = dict.fromkeys(each.constant for each in bounds)
        constants = tuple([Const(term) for term in terms])
        return Call("=", (Var(attribute), constants[0])) if len(constants) == 1 else Call("IN", (Var(attribute), *constants))
    choose = min if operator[0] == ">" else max
    constant = choose((each.constant for each in bounds), key=lambda term: rank_in(term, AS_IT_IS))
    closed = next((each.operator for each in bounds if len(each.operator) == 2), operator)
    return Call(closed, (Var(attribute), Const(constant)))
