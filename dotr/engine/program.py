"""The compiled program: rules, queries and background knowledge, immutable, the same wherever its
specification is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from dotr.engine.multi_query import share_queries
from dotr.engine.router import Router
from dotr.engine.spec import Inconsistent, ProgramSpec, RuleSet
from dotr.engine.static_answers import StaticAnswers
from dotr.errors.diagnostics import Diagnostic, Silenced
from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.instant.datalog.background.compiled_cache import OpenedBackground
from dotr.instant.datalog.background.knowledge import Knowledge, without_collection
from dotr.instant.queries import QueryPlan, plan
from dotr.instant.stage_one import StageOne
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.datalog import DatalogRule
from dotr.model.rules import FactSource
from dotr.model.stream import Element, Fact, FedGraph, InputElement, Instant
from dotr.model.terms import Label, Triple, Variable
from dotr.model.time import Clock, Micros
from dotr.model.units import IntervalEvents, MadeGraphs
from dotr.temporal.layout.layers import Layout, MadeStream, lay_out
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.units import StreamUnit, units_by_label
from dotr.temporal.stage_two import StageTwo, stage_two_of

if TYPE_CHECKING:
    from dotr.engine.unit_layer import UnitLayer
    from dotr.engine.unit_runs import UnitContext
    from dotr.instant.datalog.background.compiled_store import CompiledStore
    from dotr.instant.datalog.background.knowledge import ClosedTriples


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled specification.

    - `warnings`: those of its files; `silenced`: those that comments allow.
    - `store`: the mapped background; None: the background is in memory.
    - `store_made`: the store was compiled in this call; `notices`: remarks on the store.
    - `units`: those of other languages than that of rules.
    - `closing_rules`: the rules of the entailment and of Datalog files, which close background,
      instants and windows.
    - `traced`: results of units have the parts of their events, for explanations.
    - `closed`: the background in memory, of which a store can be made; None where there is a store.
    """

    spec: ProgramSpec
    rules: RuleSet
    knowledge: Knowledge
    layout: Layout
    stage_one: StageOne
    warnings: tuple[Diagnostic, ...]
    silenced: tuple[Silenced, ...] = ()
    store: CompiledStore | None = None
    store_made: bool = False
    notices: tuple[Diagnostic, ...] = ()
    units: tuple[StreamUnit, ...] = ()
    closing_rules: tuple[DatalogRule, ...] = ()
    traced: bool = False
    closed: ClosedTriples | None = None

    @cached_property
    def attributes(self) -> Mapping[Label, tuple[Variable, ...]]:
        """For each composite event its attributes, sorted: the `with` variables of all rules that
        define it, or those of the unit that makes it.
        """
        variables: dict[Label, set[Variable]] = {made.label: set(made.attributes) for unit in self.units for made in unit.makes}
        for rule in self.rules.rules:
            variables.setdefault(rule.event, set()).update(a.variable for a in rule.assignments)
        return {label: tuple(sorted(names)) for label, names in variables.items()}

    @cached_property
    def internal(self) -> frozenset[Label]:
        """The events that rules define as internal: in no output but those that name them."""
        return frozenset(rule.event for rule in self.rules.rules if rule.internal)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The names of rules, then the labels that other units make."""
        return (*(rule.name for rule in self.rules.rules), *units_by_label(self.units))

    @property
    def all_attributes(self) -> tuple[Variable, ...]:
        """The attributes that some composite event can have, sorted."""
        return tuple(sorted({name for names in self.attributes.values() for name in names}))

    def stage_two(self, clock: Clock, counted: Set[str] = frozenset(), *, explains: bool = False) -> tuple[StageTwo, ...]:
        """The layers of stage two, lowest first, for a pipeline with a clock. `counted` names the
        rules of which the bindings left after each clause are counted. `explains`: firings have the
        events of their matches (`temporal.stage_two.BECAUSE`).
        """
        with without_collection():
            limits = self.spec.limits
            return tuple(
                stage_two_of(layer)(layer, self.attributes, clock, read, limits, counted, explains=explains)
                for layer, read in zip(self.layout.layers, self.events_read_above, strict=True)
            )

    @property
    def own_datalog(self) -> tuple[DatalogRule, ...]:
        """The closing rules of the program's own Datalog files."""
        return tuple(rule for rule in self.closing_rules if not rule.of_rule_set)

    @property
    def longest_gap(self) -> Micros | None:
        """The length in µs up to which no stretch between two instants has more acts of a unit than
        `limits.gap`; None where no unit has a time of its own."""
        from dotr.engine.gaps import gap_length

        return gap_length(self.stage_one.ticks, self.layout.layers, self.spec.limits.gap)

    def unit_context(self, clock: Clock) -> UnitContext:
        """Settings that the units of other languages than that of rules share, for a pipeline with
        a clock."""
        from dotr.engine.unit_runs import UnitContext

        return UnitContext(self.knowledge, self.closing_rules, clock, self.spec.limits, self.spec.origin, traced=self.traced)

    def unit_layers(self, clock: Clock) -> dict[int, UnitLayer]:
        """The layers of units of other languages than that of rules by number, with the state
        before the first instant.
        """
        if not self.units:
            return {}
        from dotr.engine.unit_layer import UnitLayer
        from dotr.engine.unit_runs import SharedParts

        context = replace(self.unit_context(clock), shared=SharedParts())
        return {
            layer.number: UnitLayer(layer, context, read)
            for layer, read in zip(self.layout.layers, self.events_read_above, strict=True)
            if layer.units
        }

    def with_since(self, since: Mapping[str, Micros]) -> CompiledProgram:
        """The program whose rules see no event before the times of `ProgramSpec.since`; it shares
        the closed background and stage one.
        """
        if since == self.spec.since:
            return self
        layout = lay_out(share_queries(self.rules.rules), since, self.units, cut=self.spec.cut, groups=self.spec.groups)
        assert layout.streams == self.layout.streams, "the start of a rule changes no fact stream"
        return replace(self, spec=replace(self.spec, since=since), layout=layout)

    @property
    def in_one_piece(self) -> CompiledProgram:
        """The program whose rules are neither cut into stages nor divided into groups; it shares
        the closed background and stage one.
        """
        layout = lay_out(share_queries(self.rules.rules), self.spec.since, self.units)
        return replace(self, spec=replace(self.spec, cut=False, groups=1), layout=layout)

    @property
    def events_read_above(self) -> list[frozenset[MadeStream]]:
        """For each layer the composite events, and the streams of their graphs, that higher layers
        read.
        """
        return [
            frozenset(
                stream
                for stream, targets in self.layout.routes.items()
                if isinstance(stream, str | MadeGraphs | IntervalEvents) and targets[-1][0] > layer.number
            )
            for layer in self.layout.layers
        ]

    def readers(self, streams: Iterable[int]) -> list[str]:
        """The names of the rules that read one of some fact streams."""
        required = set(streams)
        return sorted(
            {
                placed.rule.name
                for layer in self.layout.layers
                for placed in layer.rules
                if any(layer.ports[port].stream in required for _, port in placed.roles)
            }
        )

    def query_label(self, streams: Iterable[int]) -> str:
        """The label that rules give to the query of one of some fact streams."""
        required = set(streams)
        for layer in self.layout.layers:
            for placed in layer.rules:
                for role, port in placed.roles:
                    if layer.ports[port].stream in required:
                        return role.origin
        return ""

    @cached_property
    def acts_alone(self) -> bool:
        """True if in one process there are moments without arrivals: ticks, or units that act
        alone."""
        return bool(self.stage_one.ticks) or any(layer.acts_alone for layer in self.layout.layers)

    @cached_property
    def timed(self) -> bool:
        """True if time alone can make a unit fire: there are ticks, delayed anchors or reports."""
        return bool(self.stage_one.ticks) or any(layer.may_fire_without_events for layer in self.layout.layers)

    @cached_property
    def timed_layers(self) -> frozenset[int]:
        """The numbers of the layers in which time alone can make a unit fire."""
        ticking = {ticks.stream for ticks in self.stage_one.ticks}
        return frozenset(
            layer.number
            for layer in self.layout.layers
            if layer.may_fire_without_events or any(port.stream in ticking for port in layer.ports)
        )

    def on_streams(self, elements: Sequence[Element]) -> list[tuple[Triple, ...]]:
        """The graphs of elements of an instant. If the program has units of other languages, the
        graph of each `InputElement` is on the stream that its input feeds (`FedGraph`).
        """
        if not self.units:
            return [triples for _, triples in elements]
        fed = {each.name: each.fed for each in self.spec.inputs}
        return [
            FedGraph.on(fed.get(each.input, each.recorded or each.input), each.triples) if isinstance(each, InputElement) else each.triples
            for each in elements
        ]

    def router(self, buckets: int = 1) -> Router:
        """The router of facts and events to the layers, each in a number of buckets."""
        return Router(self.layout, buckets)

    @cached_property
    def _fact_queries(self) -> tuple[tuple[Label, QueryPlan], ...]:
        """The plan of each label's query, without hidden attributes: shared queries and the queries
        of rules.
        """
        queries: dict[tuple[Label, Select], None] = {}

        def add(label: Label, query: Select, projected: Sequence[Variable]) -> None:
            queries.setdefault((label, replace(query, projection=tuple(sorted(projected)))))

        for shared in self.rules.queries:
            add(shared.label, shared.query, shared.query.projection)
        for rule in self.rules.rules:
            for role in roles(rule):
                if isinstance(role.source, FactSource) and role.source.period is None:
                    add(role.origin, role.source.query, role.source.projected)
        return tuple((label, plan(query, self.knowledge.background)) for label, query in queries)

    @cached_property
    def projected(self) -> Mapping[Label, tuple[Variable, ...]]:
        """The labels of `facts_of_interest`, each with the attributes that its facts can have,
        sorted.
        """
        variables: dict[Label, set[Variable]] = {}
        for label, query_plan in self._fact_queries:
            variables.setdefault(label, set()).update(query_plan.select.projection)
        return {label: tuple(sorted(names)) for label, names in variables.items()}

    def facts_of_interest(self, instant: Instant) -> list[Fact]:
        """All facts of all labels at an instant, with projected attributes only; none where the
        instant is rejected.
        """
        BOUNDS.start(self.spec.limits.literal, self.spec.limits.text)
        try:
            closure = self.knowledge.close(instant.triples)
        except LimitExceeded:
            return []
        if closure.contradictions and self.stage_one.rejects:
            return []
        events: list[Fact] = []
        for label, query_plan in self._fact_queries:
            for row in query_plan.answers_at(closure):
                bound = {name: value for name, value in zip(query_plan.select.projection, row, strict=True) if value is not None}
                events.append(Fact(label, instant.time, bound))
        return events


def compile_units(
    spec: ProgramSpec,
    rules: RuleSet,
    units: Sequence[StreamUnit],
    closing_rules: Sequence[DatalogRule],
    closed: OpenedBackground,
    static: StaticAnswers,
) -> CompiledProgram:
    """The program of rules and units whose texts are parsed and checked, without warnings.

    Args:
        spec: the specification, of which the texts are not read.
        rules: the rules; units: those of other languages.
        closing_rules: those of the entailment and of Datalog files.
        closed: the background, closed under them.
        static: the stored answers of the background alone; new ones are added, and not yet written.

    Raises:
        StaticLimitExceeded: a query has too many answers over the background alone.
    """
    layout = lay_out(share_queries(rules.rules), spec.since, units, cut=spec.cut, groups=spec.groups)
    stage_one = StageOne(
        closed.knowledge,
        layout.streams,
        static.answers,
        rejects=spec.inconsistent is Inconsistent.REJECT,
        limits=spec.limits,
        triples=layout.instant_triples,
    )
    closed.knowledge.limit_to(spec.limits.triples)
    return CompiledProgram(
        spec,
        rules,
        closed.knowledge,
        layout,
        stage_one,
        warnings=(),
        store=closed.store,
        store_made=closed.is_new,
        notices=closed.warnings,
        units=tuple(units),
        closing_rules=tuple(closing_rules),
        closed=closed.closed,
    )
