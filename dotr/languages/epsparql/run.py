"""One unit of EP-SPARQL with its state: operands, the tree of operators, and events.

Idea: the arrivals of a moment are made into solutions of the operands; the tree combines them to
solutions of the unit, and each of these is an event.
Invariant: `step` is a function of the state and its arguments. The state is that of the tree.
Source: ep-sparql.md, sections 2, 4 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from dotr.engine.unit_runs import EventPart, UnitArrivals, UnitResult, UnitRun, failure_letter
from dotr.errors.fallbacks import FallbackKind
from dotr.evaluation.expressions import evaluator, query_with_lengths, with_lengths
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import BOUNDS, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.languages.epsparql.interval_keys import LinkedQuery, OperandInput, interval_key_names, interval_spreads, operand_places
from dotr.model.algebra import Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.stream import Firing
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import parameters_of
from dotr.temporal.intervals.conditions import duration_term
from dotr.temporal.intervals.nodes import TreeMoment
from dotr.temporal.intervals.patterns import (
    DURATION,
    END,
    START,
    ConstructedGraphs,
    EventRead,
    InstantAnswers,
    InstantGroup,
    SelectedSolutions,
    TemporalQuery,
    operand_reads,
    visible_variables,
)
from dotr.temporal.intervals.solutions import IntervalSolution, LeafSolution
from dotr.temporal.intervals.tree import PatternTree
from dotr.temporal.items import row_graph
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import GroupCounter, RuleCounts
from dotr.temporal.templates import compile_template, digest_of, match_text

if TYPE_CHECKING:  # loaded where a state is divided
    from dotr.engine.state.keyed import KeyedState

# Solutions of the operands of a unit of EP-SPARQL, made from the arrivals at its reads.
#
# Idea: the rows of facts and events are projected to the operand's variables. Over a constructed
# graph the plain group is evaluated as a query; its solutions have the interval of the graph.
# Source: ep-sparql.md, sections 2 and 2.1.

OperandRows: TypeAlias = Callable[[Micros, Sequence[Arrival]], list[IntervalSolution]]
"""The solutions of an operand for the rows that arrive at a time in µs."""


class OperandSolutions:
    """A plain group or an EVENT with its inputs.

    - `number`: its position among the operands of the unit, in the order of the text.
    - `names`: its variables, sorted.
    - `rows`: for the number of each read that feeds it, the function that makes solutions of the
      arrivals there; it raises `LimitExceeded`.
    """

    def __init__(
        self, number: int, operand: InstantGroup | EventRead, inputs: Sequence[OperandInput], limits: Limits, *, traced: bool
    ) -> None:
        self.number = number
        self.names = tuple(sorted(visible_variables(operand)))
        self._operand = operand
        self._limits = limits
        self._traced = traced
        self._matcher: AlgebraOperator | None = None
        self.rows: dict[int, OperandRows] = {each.read: self._traced_rows(self._reader(each)) for each in inputs}

    def _traced_rows(self, rows_of: OperandRows) -> OperandRows:
        if not self._traced:
            return rows_of

        def traced(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
            solutions = rows_of(now, rows)
            return [(end, start, values, (LeafSolution(self.number, start, end, values),)) for end, start, values, _ in solutions]

        return traced

    def _reader(self, source: OperandInput) -> OperandRows:
        columns, first = source.columns, int(source.has_start)
        if columns is None:
            return self._matched
        if not source.has_start and columns == tuple(range(len(columns))):  # the values are the first columns
            arity = len(columns)

            def prefixes(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
                if len(rows) == 1 and len(rows[0][1]) == arity:
                    return [(now, now, rows[0][1], ())]
                return [(now, now, values[:arity], ()) for _, values in rows]

            return prefixes
        positions = tuple(first + column for column in columns)

        def projected(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
            return [(now, int(row[0] or 0) if first else now, tuple([row[position] for position in positions]), ()) for _, row in rows]

        return projected

    def _matched(self, now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
        """The solutions of the plain group over each constructed graph by itself."""
        assert isinstance(self._operand, InstantGroup)
        if self._matcher is None:
            self._matcher = AlgebraCompiler().compile(query_with_lengths(self._operand.query))
        found: list[IntervalSolution] = []
        for _, row in rows:
            start, triples = int(row[0] or 0), row_graph(row[1:])
            for solution in self._matcher.solutions(_graph(triples, self._limits), EMPTY, EMPTY):
                values: AttributeValues = tuple([solution.get(name) for name in self.names])
                found.append((now, start, values, ()))
        return found


def _graph(triples: Sequence[tuple[str, str, str]], limits: Limits) -> Graph:
    return Graph(TripleIndex(), TripleIndex(triples), None, limits)


class PartsWatch(Protocol):
    """Observer of the events of a unit whose run is traced, for explanations."""

    def made(self, firing: Firing, start: Micros, parts: Sequence[EventPart]) -> None:
        """Notifies of an event with its start in µs and its parts."""


class IntervalRun(UnitRun):
    """A QUERY or STREAM with its state.

    - `traced`: solutions keep their parts, for explanations; `watch` is then notified of each
      event.
    - `share`: the bucket to whose keys solutions are restricted; None: all solutions.
    - `begun`: the time of the first instant in µs.
    """

    def __init__(self, unit: LinkedQuery, clock: Clock, limits: Limits, *, traced: bool = False, share: BucketShare | None = None) -> None:
        query = unit.query
        self.unit = unit
        self._limits = limits
        self._clock = clock
        self._traced = traced
        self._counter, self._moment = GroupCounter([0], 1), (0, 0, ())
        self._tree = (
            None if query.where is None else PatternTree(query.where, query.policy, clock, limits, traced=traced, note=self._note_error)
        )
        reads = self._leaves = [] if query.where is None else [each.operand for each in operand_reads(query.where)]
        self._operands = [
            OperandSolutions(number, operand, inputs, limits, traced=traced)
            for number, (operand, inputs) in enumerate(zip(reads, unit.operands, strict=True))
        ]
        self._feeds: list[list[tuple[int, OperandRows]]] = [[] for _ in unit.reads]
        for operand in self._operands:
            for read, rows in operand.rows.items():
                self._feeds[read].append((operand.number, rows))
        if share is not None:
            self._feeds = _shared_feeds(unit, self._feeds, share)
        names = unit.reads[0].stream.attributes if self._tree is None else self._tree.names  # type: ignore[union-attr]
        self._events = EventMaker(query, names or (), clock)
        self.begun: Micros | None = None
        self.watch: PartsWatch | None = None

    def begin(self, time: Micros) -> None:
        if self.begun is None:
            self.begun = time

    def _note_error(self, condition: Expression, terms: tuple[Term | None, ...]) -> None:
        """Note that a FILTER of a chain rejects a solution at the present moment with an error."""
        self._counter.fail(0, 1, self._moment, condition, terms)

    def take_rule_counts(self) -> Mapping[str, RuleCounts]:
        counts = self._counter.counts()[0]
        if not counts.errors:
            return {}
        self._counter = GroupCounter([0], 1)
        return {self.unit.name: counts}

    # --- moments ---

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        BOUNDS.start(self._limits.literal, self._limits.text)
        try:
            tree = self._tree
            if tree is None:
                return self._result(time, [(time, time, values, ()) for _, values in arrivals.get(0, ())])
            moment = TreeMoment(time, self.arrived(time, arrivals))
            self._moment = (time, 0, ())
            solutions = tree.new(moment)
            tree.keep(moment)
            if moment.exceeded is not None:
                raise moment.exceeded
            return self._result(time, solutions) if solutions else _NOTHING
        except Exception as error:
            return self._failed(time, error)

    def new(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        """The first phase of a moment in a component: the events, from reads of the same moment.

        The second phase, `keep`, must follow.
        """
        BOUNDS.start(self._limits.literal, self._limits.text)
        if self._tree is None:
            return self.step(time, arrivals)
        try:
            moment = TreeMoment(time, self.arrived(time, arrivals))
            self._moment = (time, 0, ())
            solutions = self._tree.new(moment)
            if moment.exceeded is not None:
                raise moment.exceeded
            return self._result(time, solutions)
        except Exception as error:
            return self._failed(time, error)

    def keep(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        """The second phase of a moment in a component: store the arrivals that later
        moments read as their past. The result has only dead letters.
        """
        if self._tree is None:
            return _NOTHING
        BOUNDS.start(self._limits.literal, self._limits.text)
        try:
            moment = TreeMoment(time, self.arrived(time, arrivals))
            self._moment = (time, 0, ())
            self._tree.keep(moment)
            if moment.exceeded is not None:
                raise moment.exceeded
        except Exception as error:
            return self._failed(time, error)
        return _NOTHING

    def _failed(self, time: Micros, error: Exception) -> UnitResult:
        """The result of a moment with an error: a dead letter and no event."""
        return UnitResult([], [failure_letter(error, FallbackKind.RULES, self.unit.name, self.unit.name, self.unit.span, time)])

    def _result(self, time: Micros, solutions: Sequence[IntervalSolution]) -> UnitResult:
        """The events of solutions, with their starts and, where the run is traced, their parts."""
        firings, sources = self._events.events(time, solutions)
        starts = [start for _, start, _, _ in sources]
        if not self._traced:
            return UnitResult(firings, (), (), starts)
        parts = [[self._part(each) for each in parts] for _, _, _, parts in sources]
        if self.watch is not None:
            for firing, start, each in zip(firings, starts, parts, strict=True):
                self.watch.made(firing, start, each)
        return UnitResult(firings, starts=starts, parts=parts)

    def _part(self, solution: LeafSolution) -> EventPart:
        operand, names = self._leaves[solution.leaf], self._operands[solution.leaf].names
        bound = tuple([(name, term) for name, term in zip(names, solution.values, strict=True) if term is not None])
        return EventPart(operand.span, solution.start, solution.end, bound)

    def arrived(self, time: Micros, arrivals: UnitArrivals) -> dict[int, list[IntervalSolution]]:
        """The new solutions of the operands with arrivals, by number of the operand."""
        found: dict[int, list[IntervalSolution]] = {}
        for read, rows in arrivals.items():
            for number, solutions_of in self._feeds[read]:
                solutions = solutions_of(time, rows)
                if solutions:
                    found[number] = found[number] + solutions if number in found else solutions
        return found

    # --- state ---

    @property
    def event_counts(self) -> Sequence[int]:
        """The number of stored solutions, all of them under the first read: operators store
        them."""
        kept = 0 if self._tree is None else len(self._tree)
        return [kept, *[0] * (len(self.unit.reads) - 1)] if self.unit.reads else []

    def to_json(self) -> str:
        return "[]" if self._tree is None else self._tree.to_json(whole=False)

    def whole_state(self) -> str:
        """The state as JSON, logs included."""
        return "[]" if self._tree is None else self._tree.to_json(whole=True)

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        if self._tree is None:
            return
        self._tree.restore(text)
        for store, log in zip(self._tree.logs, entries, strict=False):
            for end, _, (start, *values) in log:
                store.add([(end, int(start or 0), tuple(values), ())], end)

    def keyed_state(self) -> KeyedState | None:
        """The solutions of each store have the key of its operands."""
        from dotr.engine.state.keyed import Fields, KeyedLog, KeyedRows, KeyedState

        keys = interval_key_names(self.unit)
        if self._tree is None or not keys:
            return None
        places = self._tree.places_of_keys(keys)
        of_logs = [place for place, store in zip(places, self._tree.stores, strict=True) if store.log is not None]
        rest = Fields([KeyedRows(itemgetter(place), nested=2) for place in places])
        return KeyedState(rest, [KeyedLog(itemgetter(1 + place)) for place in of_logs])

    def entries(self, after: Micros | None = None) -> Sequence[Sequence[StoredEvent]]:
        """The solutions that operators store: the time of an entry is the end of the solution, its
        row the start and the values."""
        logs = () if self._tree is None else self._tree.logs
        return [[(end, 0, (str(start), *values)) for end, start, values, _ in store.later(after)] for store in logs]

    def oldest(self) -> Sequence[Micros | None]:
        logs = () if self._tree is None else self._tree.logs
        return [store.log[0][0] if store.log else None for store in logs]


_Feeds: TypeAlias = Sequence[Sequence[tuple[int, OperandRows]]]


def _shared_feeds(unit: LinkedQuery, feeds: _Feeds, share: BucketShare) -> list[list[tuple[int, OperandRows]]]:
    """The feeds restricted to the solutions of a bucket, where rows of other keys arrive too."""
    keys, spreads = interval_key_names(unit), interval_spreads(unit)
    assert spreads is not None, "a unit that is spread has a key"
    positions = operand_places(unit, keys)

    def own(rows_of: OperandRows, position: int) -> OperandRows:
        return lambda now, rows: [each for each in rows_of(now, rows) if share.has(each[2][position])]

    return [
        list(feed) if spread.is_exact else [(number, own(rows, positions[number])) for number, rows in feed]
        for feed, spread in zip(feeds, spreads, strict=True)
    ]


_NOTHING: Final = UnitResult([])


# Events of a unit of EP-SPARQL, from its solutions (ep-sparql.md, section 4).


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
