"""EXISTS as a semijoin: a row has a partner among the solutions of the pattern of an EXISTS.

    { ?s :has ?v } FILTER EXISTS { ?s :limit ?w FILTER(?v > ?w) }

is the semijoin of `?s :has ?v` with `?s :limit ?w` on ?s, with the condition `?v > ?w`.
"""

from __future__ import annotations

from typing import NamedTuple

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.joins.scope import Variables, certain
from dotr.model.algebra import Exists, Expression, Extend, Filter, Group, LeftJoin, MatchPattern, Minus, Pattern, Select, WindowBlock
from dotr.model.terms import Term
from dotr.model.traverse import free_variables, has_exists, walk


class NotASemijoin(DotrError):
    """An EXISTS that is no semijoin; the message names the construct."""


class ExistsPartner(NamedTuple):
    """The right side of a semijoin: a pattern, and the conditions on the merged row of two
    partners."""

    pattern: Pattern
    conditions: tuple[Expression, ...]

    @property
    def mentioned(self) -> Variables:
        """The variables of the conditions."""
        return frozenset(name for each in self.conditions for name in free_variables(each))


def partner_of(exists: Exists, outer: Variables) -> ExistsPartner:
    """The semijoin partner of an EXISTS: its pattern without the FILTERs of its group, which are
    the conditions.

    `outer`: the variables that may be bound outside the EXISTS. EXISTS substitutes the values of
    the row into its pattern (SPARQL 1.1, 18.6). This is a semijoin unless an inner FILTER or BIND
    reads a variable of the row that its own pattern may leave unbound. Then, and for patterns of
    more than conjunctions and unions, raises `NotASemijoin`.
    """
    pattern, conditions, windows = exists.pattern, list[Expression](), list[Term]()
    while isinstance(pattern, Filter | WindowBlock):
        if isinstance(pattern, Filter):
            conditions += pattern.conditions
        else:
            windows.append(pattern.window)
        pattern = pattern.pattern
    for node in walk(pattern):
        match node:
            case LeftJoin() | Minus() | Select() | Group() | MatchPattern() | Exists():
                raise NotASemijoin("EXISTS of more than a conjunction or UNION")
            case Filter(inner, tests):
                read = frozenset(name for each in tests for name in free_variables(each))
            case Extend(inner, variable, expression):
                read = frozenset((variable, *free_variables(expression)))
            case _:
                continue
        if not read & outer <= certain(inner):
            raise NotASemijoin("EXISTS that uses variables from outside in its parts")
    if any(map(has_exists, conditions)):
        raise NotASemijoin("EXISTS in EXISTS")
    for window in reversed(windows):
        pattern = WindowBlock(window, pattern)
    return ExistsPartner(pattern, tuple(conditions))
