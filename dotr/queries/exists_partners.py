"""EXISTS as a meeting of rows: a row of a pattern has a partner among the solutions of another."""

from __future__ import annotations

from typing import NamedTuple

from dotr.errors.diagnostics import DotrError
from dotr.joins.scope import Variables, certain
from dotr.model.algebra import Exists, Expression, Extend, Filter, Group, LeftJoin, MatchPattern, Minus, Pattern, Select, WindowBlock
from dotr.model.terms import Term
from dotr.model.traverse import free_variables, has_exists, walk


class NotAMeeting(DotrError):
    """An EXISTS of another shape, which the message names."""


class ExistsPartner(NamedTuple):
    """The pattern of an EXISTS as one whose solutions a row meets: those with its terms that fulfil the
    conditions together with it. `mentioned`: the variables of the conditions.
    """

    pattern: Pattern
    conditions: tuple[Expression, ...]

    @property
    def mentioned(self) -> Variables:
        """The variables of the conditions."""
        return frozenset(name for each in self.conditions for name in free_variables(each))


def partner_of(exists: Exists, outer: Variables) -> ExistsPartner:
    """The pattern of an EXISTS and the FILTERs of its group; `outer` are the variables that may be
    bound around it.

    EXISTS puts the values of the row into its pattern (SPARQL 1.1, 18.6). That is a join where no
    other part of the pattern looks at a variable that the row binds, but the pattern may not; else
    raises `NotAMeeting`.
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
                raise NotAMeeting("EXISTS of more than a conjunction or UNION")
            case Filter(inner, tests):
                read = frozenset(name for each in tests for name in free_variables(each))
            case Extend(inner, variable, expression):
                read = frozenset((variable, *free_variables(expression)))
            case _:
                continue
        if not read & outer <= certain(inner):
            raise NotAMeeting("EXISTS that uses variables from outside in its parts")
    if any(map(has_exists, conditions)):
        raise NotAMeeting("EXISTS in EXISTS")
    for window in reversed(windows):
        pattern = WindowBlock(window, pattern)
    return ExistsPartner(pattern, tuple(conditions))
