"""Events of a unit of EP-SPARQL, from its solutions (ep-sparql.md, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from dotr.evaluation.expressions import evaluator, with_lengths
from dotr.evaluation.expressions.values.times import time_term
from dotr.model.algebra import Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.stream import Firing
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import parameters_of
from dotr.temporal.intervals.conditions import duration_term
from dotr.temporal.intervals.patterns import DURATION, END, START, ConstructedGraphs, InstantAnswers, SelectedSolutions, TemporalQuery
from dotr.temporal.intervals.solutions import IntervalSolution
from dotr.temporal.names import digest_of, match_text
from dotr.temporal.templates import compile_template


class EventMaker:
    """The compiled form of a unit: makes the events of solutions.

    `names`: the variables of a solution's values, in their order.
    """

    def __init__(self, query: TemporalQuery, names: Sequence[Variable], clock: Clock) -> None:
        self._label = query.label
        self._form = query.form
        self._names = tuple(names)
        self._attributes = query.attributes
        self._columns: list[tuple[Variable, _Column]] = []
        if isinstance(self._form, SelectedSolutions):
            self._columns = [(name, _Column(expression, clock)) for name, expression in self._form.columns if expression is not None]
            plain = {name for name, expression in self._form.columns if expression is None}
            self._projected = [(name, self._names.index(name)) for name in self._attributes if name in plain and name in self._names]
        else:
            self._projected = [(name, self._names.index(name)) for name in self._attributes if name in self._names]
        self._template = compile_template(query.form.template, self._names) if isinstance(query.form, ConstructedGraphs) else None

    def events(self, now: Micros, solutions: Sequence[IntervalSolution]) -> tuple[list[Firing], Sequence[IntervalSolution]]:
        """The events of the solutions that end now (µs), and the solution of each event.

        With DISTINCT, equal events with one start are made once.
        """
        if not solutions:
            return [], solutions
        match self._form:
            case ConstructedGraphs():
                return self._graphs(now, solutions), solutions
            case SelectedSolutions(_, _, True):
                first: dict[tuple[object, Micros], IntervalSolution] = {}
                for solution in solutions:
                    first.setdefault((self._pairs(solution), solution[1]), solution)
                solutions = list(first.values())
            case SelectedSolutions() | InstantAnswers():
                pass
        label, pairs = self._label, self._pairs
        return [Firing(now, label, label, pairs(solution), None, 0) for solution in solutions], solutions

    def _pairs(self, solution: IntervalSolution) -> tuple[tuple[Variable, Term], ...]:
        values = solution[2]
        pairs = tuple([(name, term) for name, place in self._projected if (term := values[place]) is not None])
        if not self._columns:
            return pairs
        known: dict[Variable, Term | None] = dict(zip(self._names, values, strict=True))
        computed = dict(pairs)
        for name, column in self._columns:
            known[name] = term = column.value(solution, known)
            if term is not None:
                computed[name] = term
        return tuple(sorted(computed.items()))

    def _graphs(self, now: Micros, solutions: Sequence[IntervalSolution]) -> list[Firing]:
        """An event with a graph for each solution. Fresh blank nodes are a function of the label,
        the interval, the solution, and its ordinal among equal ones.
        """
        assert self._template is not None
        instantiate, fresh, label = self._template.instantiate, self._template.has_fresh_names, self._label
        repeats: Counter[tuple[Micros, AttributeValues]] = Counter()
        firings = []
        for solution in solutions:
            _, start, values, _ = solution
            seed = b""
            if fresh:
                ordinal = repeats[start, values]
                repeats[start, values] += 1
                seed = digest_of(label.encode(), match_text(now, [(label, start, values)], ordinal))
            graph, dropped = instantiate(values, seed)
            firings.append(Firing(now, label, label, self._pairs(solution), graph, dropped))
        return firings


class _Column:
    """An expression of the SELECT clause, over the variables of a solution and earlier columns."""

    def __init__(self, expression: Expression, clock: Clock) -> None:
        lengths = with_lengths(expression)
        parameters = [each for each in parameters_of([lengths]) if isinstance(each, Var)]
        self._names = [each.name for each in parameters]
        self._evaluate: Callable[..., Term | None] = evaluator(lengths, parameters)
        self._clock = clock

    def value(self, solution: IntervalSolution, known: dict[Variable, Term | None]) -> Term | None:
        """The value for a solution; None where the expression has an error."""
        return self._evaluate(*[self._term(name, solution, known) for name in self._names])

    def _term(self, name: Variable, solution: IntervalSolution, known: dict[Variable, Term | None]) -> Term | None:
        end, start, _, _ = solution
        if name == START:
            return time_term(start, self._clock)
        if name == END:
            return time_term(end, self._clock)
        return duration_term(end - start) if name == DURATION else known.get(name)
