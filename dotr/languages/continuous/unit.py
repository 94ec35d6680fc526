"""Continuous queries as units of a program; a CONSTRUCT with a key is cut into two units: solutions
in all buckets, and their graph.

Idea: the event of a CONSTRUCT is one graph of all solutions of a report (continuous.md, section 9).
Each bucket finds the solutions of its subjects. A unit with one partition, in a layer above, makes
one graph of all solutions of a time; it has no state.
Example: `CONSTRUCT { ?x :hot true }` as `Hot`, over three buckets: at 10 they find the solutions
for :a, none, and for :b and :c; the graph of `Hot` at 10 has three triples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dotr.engine.unit_runs import EngineUnit, UnitContext, UnitMeaning, UnitRun
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.explanations.unit import ExplainedUnit
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.keys import query_key, query_spreads
from dotr.languages.continuous.model import AskForm, ConstructForm, ContinuousQuery, EntailmentLevel, SelectForm, StreamQuery
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.calendars import Schedule
from dotr.model.places import Span
from dotr.model.rules import EventSource
from dotr.model.terms import Label, Prefixes, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import grouping
from dotr.model.units import GraphStream, UnitEvents
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import BucketShare, ReadSpread
from dotr.temporal.layout.units import StreamUnit, UnitRead

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram
    from dotr.engine.replay import Replay
    from dotr.explanations.descriptions import DescribedProgram, UnitDescription
    from dotr.explanations.evidence.event_reasons import ProofsByTime, UnitReasonFinder
    from dotr.explanations.evidence.reasons import UnitReason
    from dotr.explanations.replay.firings import AnyFiring, FiringRecorder
    from dotr.explanations.replay.records import UnitRecord
    from dotr.explanations.text.narrative import WhyNot
    from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
    from dotr.explanations.why_not.survey import Question
    from dotr.temporal.layout.layers import Layer


@dataclass(frozen=True, slots=True)
class QueryUnit(StreamQuery, ExplainedUnit):
    """A continuous query as a unit."""

    @property
    def noun(self) -> str:
        """The noun of the unit in messages."""
        return "query"

    @property
    def merges_instants(self) -> bool:
        """True: its windows are closed as one graph."""
        return True

    @property
    def key(self) -> UnitKey:
        """The key of the query (continuous.md, section 9)."""
        return query_key(self.query)

    def key_names(self) -> tuple[str, ...]:
        """The variable of the key; empty: one partition, as for a CONSTRUCT, which is spread where
        it is cut."""
        return () if isinstance(self.query.form, ConstructForm) else self.key_variable()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """The spread of each read; None: one partition, as for a CONSTRUCT."""
        return None if isinstance(self.query.form, ConstructForm) else query_spreads(self.query)

    def cut(self) -> Sequence[QueryUnit | ConstructSolutions | MergedGraphs]:
        """A CONSTRUCT with a key: its solutions, and their graphs; of another query, itself."""
        if not isinstance(self.query.form, ConstructForm) or self.key.variable is None:
            return (self,)
        solutions = ConstructSolutions(self)
        return solutions, MergedGraphs(solutions)

    def key_variable(self) -> tuple[Variable, ...]:
        """The variable of the key; empty: there is none."""
        return () if self.key.variable is None else (self.key.variable,)

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the query."""
        return _query_run(self.query, self.streams, context, share)

    @property
    def periods(self) -> Sequence[Schedule]:
        """Those of the reports of each window."""
        from dotr.languages.continuous.windows.reports import report_times

        found = [times.schedules for window in self.query.windows if (times := report_times(window, 0)) is not None]
        return [each for schedules in found for each in schedules]

    def warnings(self, knowledge: Knowledge, limits: Limits, static: Collection[Select]) -> Iterator[Diagnostic]:
        """A warning where the background alone answers the query, and where it has one partition
        (continuous.md, section 10)."""
        query = self.query
        if _answers_without_windows(query, knowledge, limits):
            message = f"the background alone answers {query.label}: it has solutions where every window is empty"
            hint = "Add a pattern that only a window can match."
            yield Diagnostic(WindowCode.BACKGROUND_ANSWERS, message, query.label_span, hint, Severity.WARNING)
        if reason := query_key(query).reason:
            hint = "It runs on one core; other queries run on others."
            if not knowledge.has_rules and (instead := _reason_without_rules(query)) != reason:
                reason = instead or "the level of its window is not NONE or SNAPSHOT"
                hint = (
                    hint
                    if instead
                    else "Write ENTAILMENT NONE: without Datalog and an entailment the solutions are the same, on all cores."
                )
            message = f"query {query.label} has one partition: {reason}"
            yield Diagnostic(WindowCode.ONE_PARTITION, message, query.label_span, hint, Severity.WARNING)

    def meaning(self, origin: Micros) -> UnitMeaning:
        """The query, with the origin of its windows."""
        from dotr.languages.forms import written  # loaded with state

        return UnitMeaning(self.noun, written(self.query), (origin,))

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription:
        """The windows of the query, and its place among the layers."""
        from dotr.languages.continuous.description import query_description

        return query_description(self, layer, within)

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """A line for each window."""
        from dotr.languages.continuous.description import query_retention

        return query_retention(self.query)

    def records(self, run: UnitRun, program: CompiledProgram, clock: Clock) -> Mapping[Label, UnitRecord]:
        """The record of the query."""
        from dotr.languages.continuous.explanation.records import QueryRecord

        return {self.name: QueryRecord(run, self)}

    def reach(self) -> Micros | None:
        """The maximum age in µs of elements that a report or its explanation reads."""
        from dotr.languages.continuous.explanation.records import reach_of

        return reach_of(self)

    def shown(self, attributes: Mapping[Variable, Term]) -> Mapping[Variable, Term]:
        """The attributes of an event in the order of the SELECT."""
        form = self.query.form
        return attributes if isinstance(form, AskForm) else {name: attributes[name] for name in form.query.projection if name in attributes}

    def reasons(self, recorder: FiringRecorder, proofs: ProofsByTime, follow: Callable[[AnyFiring], UnitReason | None]) -> UnitReasonFinder:
        """A finder of the reasons of the unit's events."""
        from dotr.languages.continuous.explanation.text import ReportReasons

        return ReportReasons(recorder, proofs, follow)

    def writer(self, context: WriterContext) -> UnitEventWriter:
        """The writer of the reasons of the language's events."""
        from dotr.languages.continuous.explanation.text import ReportWriter

        return context.writers.part(ReportWriter, lambda: ReportWriter(context))

    def why_not(self, replay: Replay, label: Label, question: Question) -> WhyNot:
        """The reason for which the query produced no event."""
        from dotr.languages.continuous.explanation.why_not import why_no_report

        return why_no_report(replay, self, question)


@dataclass(frozen=True, slots=True)
class ConstructSolutions(EngineUnit):
    """The solutions of a CONSTRUCT, as events that only the unit of its graphs (`MergedGraphs`)
    reads.

    The unit has the name and the state of the query, `whole`.
    """

    whole: QueryUnit

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.whole.name

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.whole.span

    @property
    def label(self) -> Label:
        """The label of the events, which differs from all labels of files."""
        return f"solutions of {self.whole.name}"

    @property
    def attributes(self) -> tuple[Variable, ...]:
        """All visible variables, sorted."""
        return tuple(sorted(set(self.whole.query.query.projection)))

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """An event for each solution."""
        return (UnitEvents(self.label, self.attributes, self.span, False),)

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """Those of the query."""
        return self.whole.reads

    @property
    def key(self) -> UnitKey:
        """The key of the query."""
        return self.whole.key

    def key_names(self) -> tuple[str, ...]:
        """The variable of the query's key."""
        return self.whole.key_variable()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """Those of the query."""
        return query_spreads(self.whole.query)

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the query, with the solutions in place of their graph."""
        query = self.whole.query
        return _query_run(replace(query, form=SelectForm(query.query)), self.whole.streams, context, share, self.label)

    @property
    def periods(self) -> Sequence[Schedule]:
        """Those of the query."""
        return self.whole.periods

    @property
    def is_inner(self) -> bool:
        """True: only the unit of their graphs reads the solutions."""
        return True

    def meaning(self, origin: Micros) -> UnitMeaning:
        """That of the query."""
        return self.whole.meaning(origin)

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription:
        """That of the query."""
        return self.whole.description(layer, within)

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """That of the query."""
        return self.whole.retention(prefixes)


@dataclass(frozen=True, slots=True)
class MergedGraphs(EngineUnit):
    """The graphs of a CONSTRUCT, each of the solutions of one report."""

    solutions: ConstructSolutions

    @property
    def whole(self) -> QueryUnit:
        """The query."""
        return self.solutions.whole

    @property
    def name(self) -> str:
        """The name of the unit, which differs from all names of files."""
        return f"graphs of {self.whole.name}"

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.whole.span

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of the query's label."""
        return self.whole.makes

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """The solutions."""
        return (UnitRead(EventSource(self.solutions.label, self.solutions.attributes), True, self.span),)

    @property
    def key(self) -> UnitKey:
        """None: a graph is that of all solutions."""
        return UnitKey(None, "its event is one graph of all solutions")

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run that merges the solutions."""
        from dotr.languages.continuous.evaluation.run import GraphRun

        return GraphRun(self.whole.query, self.solutions.attributes, context.limits)

    def meaning(self, origin: Micros) -> None:
        """None: it has no state."""
        return

    def description(self, layer: Layer, within: DescribedProgram) -> None:
        """None: the query is described as one, with its solutions."""
        return

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """None: it has no state."""
        return iter(())


def _reason_without_rules(query: ContinuousQuery) -> str:
    """The first reason against a key where no rule concludes anything, so that the level has no
    effect; empty if there is none."""
    levels = [window.block_level for window in query.windows]
    if not all(isinstance(level, EntailmentLevel) for level in levels):
        return query_key(query).reason
    windows = tuple([replace(window, level=EntailmentLevel.NONE) for window in query.windows])
    return query_key(replace(query, windows=windows)).reason


def _answers_without_windows(query: ContinuousQuery, knowledge: Knowledge, limits: Limits) -> bool:
    """True if the background alone has solutions. The one row of an aggregate over no solutions
    does not count."""
    from dotr.evaluation.triples.index import TripleIndex
    from dotr.instant.queries.evaluate import AlgebraCompiler
    from dotr.instant.queries.graph import Graph
    from dotr.instant.queries.operators import EMPTY
    from dotr.instant.queries.window_operators import ReportGraph

    group = grouping(query.query.pattern)
    if group is not None and not group.keys and not isinstance(query.form, AskForm):
        return False
    nothing = Graph(TripleIndex(), TripleIndex())
    windows = {window.name: nothing for window in query.windows if window.name is not None}
    graph = ReportGraph(knowledge.background, TripleIndex(), windows, [()] * len(query.matches), limits)
    try:
        return AlgebraCompiler().compile(query.query).has_solution(graph, EMPTY)
    except LimitExceeded:
        return True


def queries_among(units: Iterable[StreamUnit]) -> tuple[QueryUnit, ...]:
    """The continuous queries among some units."""
    return tuple(unit for unit in units if isinstance(unit, QueryUnit))


def _query_run(
    query: ContinuousQuery, streams: Sequence[GraphStream], context: UnitContext, share: BucketShare | None, label: Label | None = None
) -> UnitRun:
    """The run of a query; its closures are those of all queries of the context, where units share
    any."""
    from dotr.languages.continuous.evaluation.report import ReportEvaluator
    from dotr.languages.continuous.evaluation.run import QueryRun
    from dotr.languages.continuous.evaluation.window_closures import SharedClosures

    closures = None if context.shared is None else context.shared.part(SharedClosures, lambda: SharedClosures(context.closer))
    evaluator = ReportEvaluator(query, context.closer, context.clock, context.limits, share)
    return QueryRun(evaluator, context.origin, closures, streams, label)
