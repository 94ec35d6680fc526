"""Explanations of continuous queries: streams, windows, reports, state, partition and layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from dotr.engine.program import CompiledProgram
from dotr.evaluation.limits import NO_LIMITS
from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.continuous.evaluation.maintained_matches import maintained_matches
from dotr.languages.continuous.evaluation.match_blocks import MatchEvaluator
from dotr.languages.continuous.evaluation.window_closures import recomputed_windows, tracked_graphs
from dotr.languages.continuous.model import (
    AskForm,
    ConstructForm,
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    EntailmentLevel,
    Extent,
    LandmarkExtent,
    NowExtent,
    RangeExtent,
    ReportPolicies,
    SelectForm,
    StreamLevel,
    TriplesExtent,
)
from dotr.languages.continuous.unit import QueryUnit, query_of
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Label
from dotr.model.units import FedGraphs, GraphStream, MadeGraphs
from dotr.syntax.rendering import duration_text
from dotr.temporal.answers.plan import DEFAULT_GRAPH, maintained_plan
from dotr.temporal.intervals.patterns import plain_groups
from dotr.temporal.layout.layers import Layer
from dotr.temporal.layout.units import ProgramUnit, readings


@dataclass(frozen=True, slots=True)
class WindowExplanation:
    """One window of a query: its name, stream, extent, reports, level and state.

    `source`: the stream, for drawings."""

    name: str
    stream: str
    extent: str
    reports: str
    level: str
    kept: str
    source: GraphStream


@dataclass(frozen=True, slots=True)
class ContinuousExplanation:
    """Plan of a continuous query, a text for each part.

    `makes`: its events; `layer`: its layer and the reason; `readers`: the units that read its
    events or graphs.
    """

    label: Label
    makes: str
    windows: tuple[WindowExplanation, ...]
    evaluation: str
    partition: str
    layer: str
    readers: tuple[str, ...] = ()
    number: int = 0

    @property
    def drawn(self) -> DrawnUnit:
        """The query as a drawing shows it."""
        lines: list[tuple[str, GraphStream | None]] = [(f"{self.label}: {self.makes}", None)]
        for window in self.windows:
            lines.append((f"{window.name}: {window.extent}", window.source))
            lines.append((f"reports {window.reports}; {window.level}; keeps {window.kept}", None))
        lines += [(self.partition, None), (f"layer {self.layer}", None)]
        return DrawnUnit(self.label, self.number, tuple(lines), (self.label,))


class DrawnUnit(NamedTuple):
    """A unit other than a rule in a drawing.

    - `name`: its name; `layer`: the number of its layer.
    - `lines`: its text, each line with the stream that it is about.
    - `events`: the labels of its events.
    """

    name: str
    layer: int
    lines: tuple[tuple[str, GraphStream | None], ...]
    events: tuple[Label, ...]


def explained_queries(program: CompiledProgram) -> tuple[ContinuousExplanation, ...]:
    """Explanations of the continuous queries of a program, by layer."""
    rules = program.closing_rules
    readers: dict[Label, list[str]] = {}
    units: list[ProgramUnit] = [*program.rules.rules, *program.units]
    for unit in units:
        for reading in readings(unit):
            readers.setdefault(reading.label, []).append(unit.name)
    return tuple(
        _explained(layer, query, rules, program.knowledge.background, tuple(dict.fromkeys(readers.get(placed.unit.name, ()))))
        for layer in program.layout.layers
        for placed in layer.units
        if (query := query_of(placed.unit)) is not None
    )


def lines_of(query: ContinuousExplanation) -> Iterator[str]:
    r"""The explanation of a query as text.

    >>> window = WindowExplanation("<w>", "the input stream in", "RANGE 10 s STEP 5 s", "WINDOW CLOSE", "GRAPH", "10 s", FedGraphs("in"))
    >>> print("\n".join(lines_of(ContinuousExplanation("Hot", "RSTREAM of ?x", (window,), "anew", "one", "0"))))
    Continuous query Hot: RSTREAM of ?x
      window     <w> on the input stream in: RANGE 10 s STEP 5 s
        reports  WINDOW CLOSE
        level    GRAPH
        state    10 s
      asked      anew
      partition  one
      layer      0
      read by    no unit
    """
    yield f"Continuous query {query.label}: {query.makes}"
    for window in query.windows:
        yield f"  window     {window.name} on {window.stream}: {window.extent}"
        yield f"    reports  {window.reports}"
        yield f"    level    {window.level}"
        yield f"    state    {window.kept}"
    yield f"  asked      {query.evaluation}"
    yield f"  partition  {query.partition}"
    yield f"  layer      {query.layer}"
    yield f"  read by    {', '.join(query.readers) or 'no unit'}"


def _explained(
    layer: Layer, unit: QueryUnit, rules: Sequence[DatalogRule], background: TripleIndex, readers: tuple[str, ...]
) -> ContinuousExplanation:
    query = unit.query
    match query.form:
        case SelectForm():
            makes = f"{query.relation.value} of {', '.join(f'?{name}' for name in unit.attributes) or 'no attributes'}, without a graph"
        case ConstructForm():
            makes = f"{query.relation.value} of one graph a report"
        case AskForm():
            makes = f"{query.relation.value} of ?answer, without a graph"
        case other:
            assert_never(other)
    matched = {group.window for block in query.matches for group in plain_groups(block.events)}
    windows = tuple(_window(window, stream, window.name in matched) for window, stream in zip(query.windows, unit.streams, strict=True))
    reason = unit.key.reason
    below = sorted({stream.label for stream in unit.streams if isinstance(stream, MadeGraphs)})
    reads = f"it reads {', '.join(below)}, made in layers before" if below else "it reads inputs alone"
    return ContinuousExplanation(
        query.label,
        makes,
        windows,
        _evaluation(query, rules, background),
        f"one partition, on one core: {reason}" if reason else f"keyed by ?{unit.key.variable}",
        f"{layer.number}: {reads}",
        readers,
        layer.number,
    )


def _evaluation(query: ContinuousQuery, rules: Sequence[DatalogRule], background: TripleIndex) -> str:
    """The evaluation of a query: the parts that are maintained from report to report, and those
    that are evaluated in full."""
    blocks = maintained_matches([MatchEvaluator(block, str) for block in query.matches])
    operators = [None if each is None else each.operator for each in blocks]
    plan = maintained_plan(query.query, tracked_graphs(query, rules), NO_LIMITS, background, operators)
    reasons = " and ".join(_UNFOLLOWED if each == DEFAULT_GRAPH else each for each in plan.in_full)
    if plan.whole is not None:
        text = "its solutions are kept from report to report; a report costs what changed"
    elif plan.parts:
        parts = "; ".join(" ".join(f"?{name}" for name in part.shown) or "no variable" for part in plan.parts)
        text = f"in full at each report, for {reasons}, over parts whose solutions are kept: those of {parts}"
    else:
        text = f"in full at each report, for {reasons}"
    anew = [window.name or "(default)" for window in recomputed_windows(query, rules)]
    return f"{text}; closed anew at each report: {', '.join(anew)}" if anew else text


_UNFOLLOWED: Final = "a default graph of several windows or under NOT or AGGREGATE"


def _window(window: ContinuousWindow, stream: GraphStream, is_matched: bool) -> WindowExplanation:
    """The explanation of a window; `is_matched`: an EVENT reads it."""
    match stream:
        case MadeGraphs(label):
            source = f"the graphs of {label}"
        case FedGraphs(name):
            source = f"the input stream {name}"
    level = window.block_level
    shown = f"STREAM WITHIN {duration_text(level.within)}" if isinstance(level, StreamLevel) else level.value
    if level is EntailmentLevel.GRAPH:
        shown = "GRAPH: the window closed as one graph"
        if is_matched:
            shown += "; for EVENT SNAPSHOT: each item closed by itself" if window.level is None else "; for EVENT each item as it came"
    kept = kept_by_window(window)
    return WindowExplanation(window.name or "(default)", source, extent_text(window.extent), _reports(window.policies), shown, kept, stream)


def kept_by_window(window: ContinuousWindow) -> str:
    """Part of its stream that a window stores, with the additional state of its level."""
    level = window.block_level
    history = f", and the last {duration_text(level.within)} of the stream" if isinstance(level, StreamLevel) and level.within else ""
    return kept_text(window.extent) + history


def extent_text(extent: Extent) -> str:
    """The extent of a window as it is written.

    >>> extent_text(RangeExtent(10_000_000, 5_000_000)), extent_text(ElementsExtent(3, 1))
    ('RANGE 10 s STEP 5 s', 'ELEMENTS 3 STEP 1')
    """
    match extent:
        case RangeExtent(width, step, lag, _):
            between = f"RANGE {duration_text(width)}" if not lag else f"FROM NOW-{duration_text(width)} TO NOW-{duration_text(lag)}"
            return f"{between} STEP {duration_text(step)}"
        case LandmarkExtent(step, restart, limit, _):
            bound = f"RESTARTING EVERY {duration_text(restart)}" if restart is not None else f"LIMIT {limit}"
            return f"LANDMARK STEP {duration_text(step)} {bound}"
        case ElementsExtent(count, step):
            return f"ELEMENTS {count} STEP {step}"
        case TriplesExtent(count, step):
            return f"TRIPLES {count} STEP {step}"
        case NowExtent():
            return "NOW"
        case other:
            assert_never(other)


def kept_text(extent: Extent) -> str:
    """Part of its stream that a window stores.

    >>> kept_text(RangeExtent(10_000_000, 5_000_000)), kept_text(NowExtent())
    ('elements of 10 s', 'nothing after its time')
    """
    match extent:
        case RangeExtent(width):
            return f"elements of {duration_text(width)}"
        case LandmarkExtent(_, restart, limit, _):
            return f"elements of {duration_text(restart)}" if restart is not None else f"{limit} elements"
        case ElementsExtent(count):
            return f"{count} elements, and those of the same times"
        case TriplesExtent(count):
            return f"elements with {count} triples, and those of the same times"
        case NowExtent():
            return "nothing after its time"
        case other:
            assert_never(other)


def _reports(policies: ReportPolicies | None) -> str:
    if policies is None:
        return "never; it is read when another window reports"
    words = []
    if policies.window_close:
        words.append("WINDOW CLOSE")
    if policies.period is not None:
        words.append(f"PERIODIC {duration_text(policies.period)}")
    if policies.content_change:
        words.append("CONTENT CHANGE")
    if policies.non_empty:
        words.append("NON-EMPTY CONTENT")
    return " AND ".join(words)
