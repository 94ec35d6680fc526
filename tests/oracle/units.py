"""A whole program of rules and units of other languages, by brute force: at every moment every unit in order (semantics.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dotr.languages.continuous.model import ContinuousQuery, StreamName
from dotr.languages.lars.model import LarsFile
from dotr.model.rules import EventSource, Rule
from dotr.model.stream import Element
from dotr.model.terms import Label, Triple
from dotr.model.time import Micros
from dotr.temporal.intervals.patterns import ConstructedGraphs, TemporalQuery
from tests.oracle.algebra import NamesDecide, select
from tests.oracle.calendars import ticks as ticks_of
from tests.oracle.closure import close
from tests.oracle.continuous import ContinuousQueryState, Knowledge, Streams, named
from tests.oracle.epsparql import EventMade, IntervalUnitState, TooManyPairs, View
from tests.oracle.epsparql import reads_now as present
from tests.oracle.lars import LarsFileState
from tests.oracle.program import World, fact_sources, untimed
from tests.oracle.temporal import History, Output, fire, waits_for

OracleUnit: TypeAlias = "Rule | ContinuousQueryState | LarsFileState | IntervalUnitState"


@dataclass(frozen=True)
class UnitsResult:
    """`decided_by_names`: blank node names alone decided something. `too_much`: it gave up."""

    outputs: tuple[Output, ...]
    decided_by_names: bool = False
    too_much: bool = False
    reports: Mapping[Label, int] = field(default_factory=dict)


def run_units(
    world: World,
    queries: Sequence[ContinuousQuery],
    elements: Iterable[tuple[StreamName, Element]],
    origin: Micros = 0,
    most: int | None = None,
    files: Sequence[LarsFile] = (),
    temporal: Sequence[TemporalQuery] = (),
    most_pairs: int | None = None,
) -> UnitsResult:
    """The output of a program for its streams. The name of an element's stream is that of the queries. `most_pairs`: of solutions
    that one operator of `temporal` may try before it gives up."""
    tracked = [IntervalUnitState(unit, most_pairs) for unit in temporal]
    try:
        return _run(world, queries, tracked, elements, origin, most, files)
    except NamesDecide:
        return UnitsResult((), decided_by_names=True)
    except TooManyPairs:
        return UnitsResult((), too_much=True)


def _run(
    world: World,
    queries: Sequence[ContinuousQuery],
    tracked: Sequence[IntervalUnitState],
    elements: Iterable[tuple[StreamName, Element]],
    origin: Micros,
    most: int | None,
    files: Sequence[LarsFile],
) -> UnitsResult:
    arrived = named(elements)
    instants: dict[Micros, frozenset[Triple]] = {}
    for _, time, triples in arrived:
        instants[time] = instants.get(time, frozenset()) | triples
    if not instants:
        return UnitsResult(())
    first, last = min(instants), max(instants)
    known = Knowledge(world.background, world.datalog, world.entailment, world.clock, origin)
    asked = [ContinuousQueryState(query, known) for query in queries]
    history = History(world.clock, last, matches=world.limits.matches, probes=world.limits.probes)
    streams = Streams()
    background = known.close(())
    watched = [LarsFileState(file, background, world.clock, first, last) for file in files]
    ordered = in_order_of_reading([*world.rules, *asked, *watched, *tracked])
    sources = {source for rule in world.rules for source in fact_sources(rule)}
    ticks = {source: ticks_of(source.period, first, last) for source in sources if source.period is not None}
    waiting = {*instants, *(tick for times in ticks.values() for tick in times), *(time for each in watched for time in each.times)}
    outputs: list[Output] = []
    now = first - 1
    while True:
        waiting |= {anchor.stands for rule in world.rules for anchor in history.anchors(rule)}
        waiting |= {t for each in asked if not each.is_done and not each.is_over and (t := each.next_time(now)) is not None}
        waiting = {time for time in waiting if time > now}
        if not waiting:
            break
        now = min(waiting)
        for stream, time, triples in arrived:
            if time == now:
                streams.add(stream, time, triples)
        view = View(now, world.clock, None)
        if now in instants:
            model = close(world.background | instants[now], world.datalog, world.entailment)
            view.known = model
            for shared in world.shared if tracked else ():
                view.events += [EventMade(shared.label, now, now, fact) for fact in select(untimed(shared.query), model)]
            for source in sources:
                if source.period is None:
                    for solution in select(source.query, model):
                        history.record(source, now, solution)
            for each_file in watched:
                each_file.instant(now, instants[now], model)
            for shared in world.shared:
                if any(shared.label in each_file.events_read for each_file in watched):
                    for solution in select(untimed(shared.query), model):
                        for each_file in watched:
                            each_file.happened(shared.label, now, solution)
        for source, times in ticks.items():
            if now in times:
                for solution in select(source.query, background):
                    history.record(source, now, solution)
        for unit in ordered:
            made = made_by(unit, now, history, streams, view)
            outputs += made
            if not isinstance(unit, IntervalUnitState):
                view.events += [EventMade(output.event, now, now, output.attributes) for output in made]
            if most is not None and len(outputs) > most:
                return UnitsResult((), too_much=True)
            for output in made:
                history.record(output.event, now, output.attributes)
                for each_file in watched:
                    each_file.happened(output.event, now, output.attributes)
                for name in names_of(unit, output.event):
                    streams.add(name, now, output.graph)
            if isinstance(unit, ContinuousQueryState) and is_last(unit, now, last, ordered, history, streams):
                unit.is_done = True
        for each_tracked in tracked:
            each_tracked.settle(view)
    outputs.sort(key=lambda o: (o.time, o.rule, sorted(o.attributes.items())))
    return UnitsResult(
        tuple(outputs),
        history.decided_by_names or any(each.decided_by_names for each in tracked),
        reports={each.query.label: each.reports for each in asked},
    )


def made_by(unit: OracleUnit, now: Micros, history: History, streams: Streams, view: View) -> list[Output]:
    match unit:
        case Rule():
            return fire(unit, now, history)
        case ContinuousQueryState():
            return unit.step(now, streams)
        case LarsFileState():
            return unit.step(now)
        case IntervalUnitState():
            return unit.make(view)


def names_of(unit: OracleUnit, label: Label) -> set[StreamName]:
    """The names of the stream of the graphs of a unit's events of a label."""
    match unit:
        case Rule():
            return {label}
        case ContinuousQueryState():
            return {unit.query.name, label} if unit.query.makes_graphs else set()
        case LarsFileState():
            return {label} if any(report.label == label and report.makes_graphs for report in unit.file.reports) else set()
        case IntervalUnitState():
            return {label} if unit.unit.makes_graphs else set()


def labels_of(unit: OracleUnit) -> list[Label]:
    match unit:
        case Rule():
            return [unit.event]
        case ContinuousQueryState():
            return [unit.query.label]
        case LarsFileState():
            return [report.label for report in unit.file.reports]
        case IntervalUnitState():
            return [unit.unit.label]


def reads_now(unit: OracleUnit, other: OracleUnit) -> bool:
    match unit:
        case Rule():
            return bool(waits_for(unit) & {*labels_of(other)})
        case ContinuousQueryState():
            return any(window.stream in names_of(other, label) for window in unit.query.windows for label in labels_of(other))
        case LarsFileState():
            return bool(unit.events_read & {*labels_of(other)})
        case IntervalUnitState():
            form = other.unit.form if isinstance(other, IntervalUnitState) else None
            template = form.template if isinstance(form, ConstructedGraphs) else None
            return present(unit.unit, {*labels_of(other)}, template)


def name_of(unit: OracleUnit) -> str:
    match unit:
        case Rule():
            return unit.name
        case ContinuousQueryState():
            return unit.query.label
        case LarsFileState():
            return unit.file.name
        case IntervalUnitState():
            return unit.unit.label


def in_order_of_reading(units: Sequence[OracleUnit]) -> list[OracleUnit]:
    """Every unit after those whose events of the same time it reads."""
    waiting, ordered = sorted(units, key=name_of), list[OracleUnit]()
    while waiting:
        ready = [unit for unit in waiting if not any(reads_now(unit, other) for other in waiting)]
        if not ready:
            raise ValueError("a cycle of what is read now")
        ordered += ready
        waiting = [unit for unit in waiting if not any(unit is other for other in ready)]
    return ordered


def is_last(unit: ContinuousQueryState, now: Micros, last: Micros, units: Sequence[OracleUnit], history: History, streams: Streams) -> bool:
    """True if this is z or later: a time of WINDOW CLOSE or PERIODIC from which on the query's windows stay empty."""
    if now < last or unit.next_time(now - 1) != now or any(is_under_way(each, now, last, units, history) for each in feeders(unit, units)):
        return False
    return unit.holds_none(now, streams)


def feeders(unit: OracleUnit, units: Sequence[OracleUnit]) -> list[OracleUnit]:
    return [other for other in units if reads_now(unit, other)]


def is_under_way(unit: OracleUnit, now: Micros, last: Micros, units: Sequence[OracleUnit], history: History) -> bool:
    """True if a unit may make events after this moment, which is not before the last instant."""
    if isinstance(unit, ContinuousQueryState):
        if unit.is_done or unit.is_over:
            return False
        return unit.next_time(now) is not None or any(is_under_way(each, now, last, units, history) for each in feeders(unit, units))
    if isinstance(unit, LarsFileState):
        return now < unit.times[-1]
    if isinstance(unit, IntervalUnitState):
        return any(is_under_way(each, now, last, units, history) for each in feeders(unit, units))
    if any(anchor.stands > now for anchor in history.anchors(unit)):
        return True
    if unit.anchor.delay or not isinstance(unit.anchor.source, EventSource):
        return False
    label = unit.anchor.source.event
    return any(label in labels_of(other) and is_under_way(other, now, last, units, history) for other in units)
