"""Conditions on solutions with intervals, as calls in generated code.

The interval of a solution is bound to the variables START, END and DURATION of
`temporal.intervals.patterns`: times in the form of `time(L)`, durations as canonical xsd:duration.
Source: ep-sparql.md, section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import TypeAlias

from dotr.evaluation.expressions import conjunction, evaluator, truth_of, with_lengths
from dotr.evaluation.expressions.values.datetimes import Duration
from dotr.evaluation.expressions.values.times import time_term
from dotr.model import dataclass
from dotr.model.algebra import Call, Expression, Var, fold_balanced
from dotr.model.terms import XSD, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import parameters_of
from dotr.temporal.intervals.patterns import DURATION, END, START

ConditionNote: TypeAlias = Callable[[Expression, tuple[Term | None, ...]], object]
"""A function of conditions that are an error, and of the terms of their parameters."""

VariableText = Callable[[Variable], str]
"""A function from a variable to the Python source of its term."""


@lru_cache(maxsize=4096)
def duration_term(length: Micros) -> Term:
    """The term of a duration in µs.

    >>> duration_term(90_000_000), duration_term(500_000)
    ('"PT1M30S"^^<http://www.w3.org/2001/XMLSchema#duration>', '"PT0.5S"^^<http://www.w3.org/2001/XMLSchema#duration>')
    """
    whole, rest = divmod(length, 1_000_000)
    return f'"{Duration(0, Decimal(length).scaleb(-6) if rest else whole)}"^^<{XSD}duration>'


@dataclass(frozen=True, slots=True)
class IntervalExpressions:
    """Expressions over a solution: a conjunction of conditions, or one expression with its value.

    - `name`: the name of their function in generated code, unique there.
    - `note`: called with the conditions and their terms where these are an error.
    """

    expressions: tuple[Expression, ...]
    clock: Clock
    name: str = "holds"
    note: ConditionNote | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is no expression."""
        return not self.expressions

    @property
    def _parameters(self) -> list[Var]:
        return [each for each in parameters_of(self.expressions) if isinstance(each, Var)]

    def call(self, term: VariableText, start: str, end: str) -> str:
        """The source of the call for a solution with the times `start` and `end` (sources, in µs).

        >>> from dotr.model.algebra import Call
        >>> longer = Call(">", (Var(DURATION), Var("d")))
        >>> IntervalExpressions((longer,), Clock()).call(lambda name: f"v_{name}", "s", "now")
        'holds(duration_term(now - s), v_d)'
        """
        arguments = []
        for parameter in self._parameters:
            match parameter.name:
                case name if name == START:
                    arguments.append(f"time_term({start})")
                case name if name == END:
                    arguments.append(f"time_term({end})")
                case name if name == DURATION:
                    arguments.append(f"duration_term({end} - {start})")
                case name:
                    arguments.append(term(name))
        return f"{self.name}({', '.join(arguments)})"

    def as_conditions(self) -> Mapping[str, object]:
        """The globals of a call that returns True or False; None for an error that is noted."""
        conditions = [with_lengths(each) for each in self.expressions]
        if self.note is None:
            return self._known(conjunction(conditions, self._parameters))
        together = fold_balanced(conditions, lambda a, b: Call("&&", (a, b)))
        return self._known(truth_of(conditions, self._parameters, partial(self.note, together)))

    def as_value(self) -> Mapping[str, object]:
        """The globals of a call that returns a term, None for an error."""
        (expression,) = self.expressions
        return self._known(evaluator(with_lengths(expression), self._parameters))

    def _known(self, function: object) -> Mapping[str, object]:
        return {self.name: function, "time_term": partial(time_term, clock=self.clock), "duration_term": duration_term}


def reads_interval(expressions: Sequence[Expression]) -> bool:
    """True if an expression uses a function of the interval."""
    return any(isinstance(each, Var) and each.name in (START, END, DURATION) for each in parameters_of(expressions))
