"""Stage one: the facts of interest of an instant. No state.

Idea: the instant is closed over the background; then only those queries are evaluated whose answers
can differ from those of the background alone. An index from the predicates of the delta to queries
finds them.
Cost: proportional to the delta (the instant's triples and their conclusions), independent of the
size of the background and of the number of other queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from dotr.errors.diagnostics import DotrError
from dotr.errors.fallbacks import FallbackKind, error_line, record_fallback, reraise_in_tests
from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.limits import BOUNDS, LIMITS, LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.datalog.closure.inconsistencies import NO_INCONSISTENCIES, Inconsistency, inconsistencies
from dotr.instant.instants import BlankNames, merge, merge_unnamed
from dotr.instant.queries import JoinGroup, QueryPlan, canonical_columns, join_groups, plan
from dotr.instant.queries.plan import StaticAnswers, compute_static
from dotr.instant.queries.shared_joins import RowsByKey
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.calendars import Schedule, has_moment, next_moment
from dotr.model.event_order import AttributeValues, sort_by_tie
from dotr.model.rules import FactSource
from dotr.model.stream import Instant
from dotr.model.templates import GraphShape
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.units import InstantTriples

if TYPE_CHECKING:  # loaded where an input has a map
    from dotr.instant.queries.shape_joins import ShapeJoins


class InstantFacts(NamedTuple):
    """The result of stage one.

    - `facts`: the facts by stream, each stream's in the tie order.
    - `inconsistencies`: the contradictions of the instant.
    - `rejected`: the instant has no facts and does not count as an instant. It is inconsistent, or
      exceeds a limit.
    - `exceeded`: the limit as text; `over`: the streams of the query that exceeds it (none: the
      closure does).
    - `failed`: the streams and the error of each query that failed twice.
    - `triples`: those that units read, as sorted rows; without entries that have no triples.
    """

    facts: Mapping[int, Sequence[AttributeValues]]
    inconsistencies: Sequence[Inconsistency]
    rejected: bool = False
    exceeded: str = ""
    failed: Sequence[tuple[tuple[int, ...], str]] = ()
    over: tuple[int, ...] = ()
    triples: Mapping[InstantTriples, Sequence[AttributeValues]] = MappingProxyType({})


def _name_blanks(rows_by_stream: RowsByKey, names: BlankNames) -> None:
    """Replace the labels of blank nodes in rows by their names, in place; most rows have none."""
    for rows in rows_by_stream.values():
        for number, row in enumerate(rows):
            for term in row:
                if term is not None and term[1] in ":<":  # a blank node, a triple term, or at worst a literal that begins like one
                    rows[number] = names.of_row(row)
                    break


class _QueryLimitExceeded(Exception):
    """A query that exceeds a limit, by the streams that its plan feeds."""

    def __init__(self, streams: tuple[int, ...], error: LimitExceeded) -> None:
        super().__init__(str(error))
        self.streams = streams


class StaticLimitExceeded(DotrError):
    """A query whose answers over the background alone exceed a limit."""

    def __init__(self, source: FactSource, error: LimitExceeded) -> None:
        super().__init__(str(error))
        self.source = source


def plan_source(source: FactSource, background: TripleIndex, static: StaticAnswers, limits: Limits) -> QueryPlan:
    """The plan of a source's query; raises `StaticLimitExceeded`."""
    try:
        return plan(source.query, background, static, limits)
    except LimitExceeded as error:
        raise StaticLimitExceeded(source, error) from None


class TickStream(NamedTuple):
    """A stream of ticks: its period, and the answers of the background, in the tie order."""

    stream: int
    period: Schedule
    rows: Sequence[AttributeValues]


def next_multiple(periods: Sequence[Schedule], after: Micros) -> Micros | None:
    """The first time after another that is a multiple of one of the periods, or a moment of a
    calendar.

    >>> next_multiple([10, 4], -11), next_multiple([10, 4], 4), next_multiple([], 4)
    (-10, 8, None)
    """
    return min([next_moment(period, after) for period in periods], default=None)


def ticks_at(ticks: Sequence[TickStream], time: Micros) -> dict[int, Sequence[AttributeValues]]:
    """The ticks of a time, by stream."""
    return {each.stream: each.rows for each in ticks if has_moment(each.period, time)}


class StreamBinding(NamedTuple):
    """A stream that a plan feeds: its number, its attributes, and the projection of the plan's rows
    to them (None: the identity).
    """

    stream: int
    names: tuple[Variable, ...]
    project: Callable[[AnswerRow], AttributeValues] | None = None

    def values(self, rows: list[AnswerRow]) -> list[AttributeValues]:
        """The plan's rows, projected to the attributes of the stream."""
        return rows if self.project is None else list(map(self.project, rows))

    def facts(self, rows: list[AnswerRow]) -> Sequence[AttributeValues]:
        """The plan's rows as facts, in the tie order of the stream."""
        return sort_by_tie(self.names, self.values(rows))


@dataclass(frozen=True, slots=True, eq=False)
class FeedingPlan:
    """A plan with the streams that it feeds; the columns of its rows are those of the first."""

    plan: QueryPlan
    bindings: tuple[StreamBinding, ...]

    @property
    def first_stream(self) -> int:
        """The number of the first stream, which is the key of the plan's rows."""
        return self.bindings[0].stream

    @property
    def streams(self) -> tuple[int, ...]:
        """The numbers of the streams."""
        return tuple([binding.stream for binding in self.bindings])


class StageOne:
    """The compiled queries of a program over its knowledge.

    - `ticks`: the streams of ticks, which no instant feeds.

    Args:
        streams: the sources of fact streams, by number.
        static: computes the answers of a query over the background alone, or reads stored ones.
        rejects: inconsistent instants are rejected.
        triples: the triples of instants that units read.

    Raises:
        StaticLimitExceeded: the answers of a query over the background alone exceed a limit.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        streams: Sequence[FactSource],
        static: StaticAnswers = compute_static,
        *,
        rejects: bool = False,
        limits: Limits = LIMITS,
        triples: Sequence[InstantTriples] = (),
    ) -> None:
        self.knowledge = knowledge
        self._triples = triples
        self.limits = limits
        self.rejects = rejects
        planned: dict[Select, tuple[tuple[Variable, ...], QueryPlan, list[StreamBinding]]] = {}
        self.ticks: list[TickStream] = []
        for stream, source in enumerate(streams):
            if source.period is not None:
                rows = list(plan_source(source, knowledge.background, static, limits).static)
                if rows:
                    self.ticks.append(TickStream(stream, source.period, sort_by_tie(source.attributes, rows)))
                continue
            query, order = canonical_columns(source.query)
            found = planned.get(query)
            if found is None:
                found = planned[query] = order, plan_source(source, knowledge.background, static, limits), []
            columns, _, bindings = found
            project = None if order == columns else itemgetter(*map(columns.index, order))
            bindings.append(StreamBinding(stream, source.attributes, project))
        self._plans: Final = [FeedingPlan(plan, tuple(bindings)) for _, plan, bindings in planned.values()]
        self._fed: Final = {binding.stream: (each, binding.names) for each in self._plans for binding in each.bindings}
        joined = [each for each in self._plans if each.plan.delta_queries is not None]
        self._first_static: Final = [each.first_stream for each in joined if each.plan.static]
        self._completed: Final = {each.first_stream: each.plan for each in joined if each.plan.static or each.plan.select.distinct}
        self._shared: Final = {each.first_stream: each.bindings for each in joined if len(each.bindings) > 1}
        self._untriggered_plans: list[FeedingPlan] = []
        self._plans_by_predicate: dict[Term, list[FeedingPlan]] = {}
        for each in self._plans:
            if each.plan.delta_queries is not None:
                continue
            if each.plan.triggers is None or each.plan.static:
                self._untriggered_plans.append(each)
            else:
                for predicate in each.plan.triggers:
                    self._plans_by_predicate.setdefault(predicate, []).append(each)
        self._evaluate: Final = self._facts if self._plans or triples else self._facts_unread
        self._untriggered_groups: list[JoinGroup] = []
        self._groups_by_trigger: dict[Term, list[JoinGroup]] = {}
        for group in join_groups(self.plans, knowledge.background, limits, self._first_streams()):
            (self._untriggered_groups if group.trigger is None else self._groups_by_trigger.setdefault(group.trigger, [])).append(group)

        self.names_late: Final = not triples and len(joined) == len(self._plans) and knowledge.ignores_names
        """True if no result depends on the labels of blank nodes within an instant: every query is
        a union of conjunctions, and only facts leave stage one."""

        self._shape_joins: ShapeJoins | None = None

    @property
    def plans(self) -> list[QueryPlan]:
        """One plan for each group of streams with equal queries."""
        return [each.plan for each in self._plans]

    def _first_streams(self) -> list[int]:
        return [each.first_stream for each in self._plans]

    def expect(self, shapes: Collection[GraphShape]) -> None:
        """Compile joins for graphs of known shapes, those of the maps of inputs. The facts are the
        same with and without them, and instants of other graphs are evaluated as before.
        """
        self._shape_joins = None
        if not shapes or not self.names_late:
            return
        from dotr.instant.queries.shape_joins import shape_joins

        conclusions = self.knowledge.conclusions_of(shapes)
        if conclusions is not None:
            self._shape_joins = shape_joins(shapes, conclusions, self.plans, self._first_streams(), self.knowledge.background, self.limits)

    def evaluate_graphs(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> InstantFacts:
        """The facts of interest at the instant of some graphs: `evaluate` of their merge."""
        if self._shape_joins is not None:
            BOUNDS.start(self.limits.literal, self.limits.text)
            try:
                rows = self._shape_joins.rows(graphs)
                if rows is not None:
                    return InstantFacts(self._facts_of_rows(rows, ()), NO_INCONSISTENCIES, failed=[])
            except (LimitExceeded, _QueryLimitExceeded):  # the general evaluation below reports it
                pass
            except Exception as error:
                reraise_in_tests(error, FallbackKind.TOGETHER)
                record_fallback(error, FallbackKind.TOGETHER)
        return self.evaluate(*merge_unnamed(time, graphs)) if self.names_late else self.evaluate(merge(time, graphs))

    @property
    def may_reject(self) -> bool:
        """True if elements of an instant may become dead letters in stage one."""
        return self.rejects or self.knowledge.computes_terms

    def evaluate(self, instant: Instant, names: BlankNames | None = None) -> InstantFacts:
        """The facts of interest at an instant.

        `names`: the names of its blank nodes, where it has labels in their place (`merge_unnamed`).
        """
        BOUNDS.start(self.limits.literal, self.limits.text)
        try:
            return self._evaluate(instant, names)
        except _QueryLimitExceeded as over:
            return InstantFacts({}, NO_INCONSISTENCIES, rejected=True, exceeded=str(over), over=over.streams)

    def _facts_unread(self, instant: Instant, names: BlankNames | None) -> InstantFacts:
        """`_facts` for a program in which no query and no unit reads closed instants, such as one
        with windows only: an instant without derived triples is not closed.
        """
        return InstantFacts({}, NO_INCONSISTENCIES) if self.knowledge.adds_nothing_to(instant.triples) else self._facts(instant, names)

    def _facts(self, instant: Instant, names: BlankNames | None) -> InstantFacts:
        try:
            closure = self.knowledge.close(instant.triples)
        except LimitExceeded as error:
            return InstantFacts({}, NO_INCONSISTENCIES, rejected=True, exceeded=str(error))
        contradictions = NO_INCONSISTENCIES
        if closure.contradictions:
            if names is not None:  # the messages of contradictions have names
                BOUNDS.restart()
                return self._facts(names.instant(), None)
            contradictions = inconsistencies(closure, instant.triples)
            if self.rejects:
                return InstantFacts({}, contradictions, rejected=True)
        failed: list[tuple[tuple[int, ...], str]] = []
        if closure.removed is not None:
            retracted = InstantFacts(self._facts_after_retraction(closure, closure.removed, failed), contradictions, failed=failed)
            return self._with_triples(retracted, instant, closure) if self._triples else retracted
        delta = closure.delta
        separate: set[int] = set()
        rows_by_stream: RowsByKey = {}
        groups_by_trigger = self._groups_by_trigger
        for predicate in delta.by_subject:
            due = groups_by_trigger.get(predicate)
            if due is not None:
                self._evaluate_groups(due, delta, rows_by_stream, separate)
        if self._untriggered_groups:
            self._evaluate_groups(self._untriggered_groups, delta, rows_by_stream, separate)
        if names is not None:
            if separate:  # the text of an error may have a name
                BOUNDS.restart()
                return self._facts(names.instant(), None)
            _name_blanks(rows_by_stream, names)
        facts: dict[int, Sequence[AttributeValues]] = self._facts_of_rows(rows_by_stream, separate)
        due_plans = self._triggered_plans(delta)
        for each in [*due_plans, *[self._plans[number] for number in sorted(separate)]] if separate else due_plans:
            try:
                answers = each.plan.answers(delta)
            except Exception as error:
                answers = self._retry(each, error, partial(each.plan.answers, delta), failed)
            if answers:
                self._check_rows(each, answers)
                for binding in each.bindings:
                    facts[binding.stream] = binding.facts(answers)
        found = InstantFacts(facts, contradictions, failed=failed)
        return self._with_triples(found, instant, closure) if self._triples else found

    def _with_triples(self, facts: InstantFacts, instant: Instant, closure: Closure) -> InstantFacts:
        """The facts of an instant with the triples that units read."""
        background, delta = self.knowledge.background, closure.delta
        found: dict[InstantTriples, list[AttributeValues]] = {}
        for read in self._triples:
            if read.asserted:
                named = read.predicates
                triples: Iterable[Triple] = {triple for triple in instant.triples if named is None or triple[1] in named}
            else:
                predicates = delta.by_subject.keys() if read.predicates is None else read.predicates & delta.by_subject.keys()
                shown = [predicate for predicate in predicates if not is_hidden(predicate)]
                triples = chain.from_iterable([delta.match(None, predicate, None) for predicate in shown])
            rows: list[AttributeValues] = sorted(triple for triple in triples if triple not in background)
            if rows:
                found[read] = rows
        return facts._replace(triples=found)

    def _facts_of_rows(self, rows_by_stream: RowsByKey, separate: Collection[int]) -> dict[int, Sequence[AttributeValues]]:
        """The facts of the rows of join groups, without the plans in `separate`.

        `rows_by_stream` has the rows of a plan under its first stream; it is changed.
        """
        for first in self._first_static:
            rows_by_stream.setdefault(first, [])
        for number in separate:
            rows_by_stream.pop(self._plans[number].first_stream, None)
        facts = cast(dict[int, Sequence[AttributeValues]], rows_by_stream)
        if self._completed:
            for stream in self._completed.keys() & rows_by_stream.keys():
                rows_by_stream[stream] = self._completed[stream].with_static(rows_by_stream[stream])
        if self._shared:
            for first in self._shared.keys() & rows_by_stream.keys():
                for binding in self._shared[first]:
                    facts[binding.stream] = binding.values(rows_by_stream[first])
        for stream, rows in rows_by_stream.items():
            if len(rows) > 1:
                fed_by, names = self._fed[stream]
                self._check_rows(fed_by, rows)
                facts[stream] = sort_by_tie(names, rows)
        return facts

    def _check_rows(self, each: FeedingPlan, answers: Sequence[AnswerRow]) -> None:
        if len(answers) > self.limits.rows:
            raise _QueryLimitExceeded(each.streams, LimitExceeded(self.limits.rows, "rows"))

    def _facts_after_retraction(
        self, closure: Closure, removed: TripleIndex, failed: list[tuple[tuple[int, ...], str]]
    ) -> dict[int, Sequence[AttributeValues]]:
        """The facts of an instant that retracts conclusions of the background: plans are evaluated
        one by one, not in join groups.
        """
        facts: dict[int, Sequence[AttributeValues]] = {}
        changed = closure.delta.by_subject.keys() | removed.by_subject.keys()
        for each in self._plans:
            plan = each.plan
            if plan.static or plan.triggers is None or not changed.isdisjoint(plan.triggers):
                try:
                    rows = plan.answers_at(closure)
                except Exception as error:
                    rows = self._retry(each, error, partial(plan.answers_at, closure), failed)
                self._check_rows(each, rows)
                for binding in each.bindings if rows else ():
                    facts[binding.stream] = binding.facts(rows)
        return facts

    def _retry(
        self, each: FeedingPlan, first: Exception, evaluate: Callable[[], list[AnswerRow]], failed: list[tuple[tuple[int, ...], str]]
    ) -> list[AnswerRow]:
        """The answers of a plan that has failed once; raises `_QueryLimitExceeded` where the plan
        exceeds a limit.
        """
        if isinstance(first, LimitExceeded):
            raise _QueryLimitExceeded(each.streams, first) from None
        reraise_in_tests(first, FallbackKind.QUERY)
        try:
            rows = evaluate()
        except LimitExceeded as error:
            raise _QueryLimitExceeded(each.streams, error) from None
        except Exception as error:
            failed.append((each.streams, error_line(error)))
            return []
        record_fallback(first, FallbackKind.QUERY)
        return rows

    def _evaluate_groups(self, due: Sequence[JoinGroup], delta: TripleIndex, rows_by_stream: RowsByKey, separate: set[int]) -> None:
        """Add the rows of join groups to `rows_by_stream`, and to `separate` the plans of groups
        that fail, to be evaluated one by one.
        """
        background, size = self.knowledge.background, len(delta.triples)
        for group in due:
            left = BOUNDS.left
            try:
                if size <= group.safe_size:
                    group.evaluate_uncounted(background, delta, rows_by_stream)
                else:
                    group.evaluate(background, delta, rows_by_stream)
            except LimitExceeded:  # separate evaluation finds the plan that exceeds the limit
                BOUNDS.left = left
                separate.update(group.plans)
            except Exception as error:
                reraise_in_tests(error, FallbackKind.TOGETHER)
                record_fallback(error, FallbackKind.TOGETHER)
                separate.update(group.plans)

    def next_tick(self, after: Micros) -> Micros | None:
        """The first time after another at which there are ticks.

        >>> stage = StageOne(Knowledge.load([], []), [])
        >>> stage.ticks = [TickStream(0, 10, [()]), TickStream(1, 4, [()])]
        >>> stage.next_tick(-11), stage.next_tick(4), sorted(stage.ticks_at(8)), sorted(stage.ticks_at(20))
        (-10, 8, [1], [0, 1])
        """
        return next_multiple([each.period for each in self.ticks], after)

    def ticks_at(self, time: Micros) -> dict[int, Sequence[AttributeValues]]:
        """The ticks of a time, by stream."""
        return ticks_at(self.ticks, time)

    def _triggered_plans(self, delta: TripleIndex) -> Sequence[FeedingPlan]:
        """The plans outside join groups that the instant's new triples trigger."""
        if not self._plans_by_predicate:
            return self._untriggered_plans
        by_predicate = self._plans_by_predicate
        due = dict.fromkeys(self._untriggered_plans)
        for predicate in delta.by_subject:
            triggered = by_predicate.get(predicate)
            if triggered is not None:
                due.update(dict.fromkeys(triggered))
        return list(due)
