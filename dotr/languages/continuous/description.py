"""Descriptions of continuous queries: streams, windows, reports, state, partition and layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from dotr.evaluation.limits import NO_LIMITS
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.descriptions import DescribedProgram, DrawnUnit, Paragraph, UnitDescription
from dotr.languages.continuous.evaluation.maintained_matches import maintained_matches
from dotr.languages.continuous.evaluation.match_blocks import MatchEvaluator
from dotr.languages.continuous.evaluation.window_closures import recomputed_windows, tracked_graphs
from dotr.languages.continuous.keys import query_key
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
    StreamQuery,
    TriplesExtent,
)
from dotr.model.calendars import Calendar
from dotr.model.datalog import DatalogRule
from dotr.model.units import FedGraphs, GraphStream, MadeGraphs
from dotr.syntax.rendering import duration_text
from dotr.temporal.answers.plan import DEFAULT_GRAPH, maintained_plan
from dotr.temporal.intervals.patterns import plain_groups
from dotr.temporal.layout.layers import Layer


def query_description(unit: StreamQuery, layer: Layer, within: DescribedProgram) -> UnitDescription:
    """The description of a query in its layer."""
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
    parts: list[tuple[str, Sequence[str]]] = []
    drawn: list[tuple[str, GraphStream | None]] = [(f"{query.label}: {makes}", None)]
    for window, stream in zip(query.windows, unit.streams, strict=True):
        name, extent, kept = window.name or "(default)", extent_text(window.extent), kept_by_window(window)
        reports, level = _reports(window.policies), _level(window, is_matched=window.name in matched)
        parts += [("window", [f"{name} on {_stream(stream)}: {extent}"])]
        parts += [("  reports", [reports]), ("  level", [level]), ("  state", [kept])]
        drawn += [(f"{name}: {extent}", stream), (f"reports {reports}; {level}; keeps {kept}", None)]
    key = query_key(query)
    below = sorted({stream.label for stream in unit.streams if isinstance(stream, MadeGraphs)})
    partition = f"one partition, on one core: {key.reason}" if key.reason else f"keyed by ?{key.variable}"
    reads = f"it reads {', '.join(below)}, made in layers before" if below else "it reads inputs alone"
    placement = f"{layer.number}: {reads}"
    parts += [
        ("asked", [_evaluation(query, within.closing_rules, within.background)]),
        ("partition", [partition]),
        ("layer", [placement]),
        ("read by", [", ".join(within.readers.get(query.label, ())) or "no unit"]),
    ]
    drawn += [(partition, None), (f"layer {placement}", None)]
    text = Paragraph(f"Continuous query {query.label}: {makes}", parts)
    return UnitDescription([text], DrawnUnit(query.label, layer.number, drawn, [query.label]))


def query_retention(query: ContinuousQuery) -> Iterator[str]:
    """A line for each window of a query, with the part of its stream that it keeps."""
    for window in query.windows:
        yield f"{query.label}: {f'window {window.name}' if window.name else 'its window'} keeps {kept_by_window(window)}"


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


def _stream(stream: GraphStream) -> str:
    match stream:
        case MadeGraphs(label):
            return f"the graphs of {label}"
        case FedGraphs(name):
            return f"the input stream {name}"


def _level(window: ContinuousWindow, *, is_matched: bool) -> str:
    """The level of entailment of a window; `is_matched`: an EVENT reads it."""
    level = window.block_level
    if isinstance(level, StreamLevel):
        return f"STREAM WITHIN {duration_text(level.within)}"
    if level is not EntailmentLevel.GRAPH:
        return str(level.value)
    of_event = "SNAPSHOT: each item closed by itself" if window.level is None else "each item as it came"
    return "GRAPH: the window closed as one graph" + (f"; for EVENT {of_event}" if is_matched else "")


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
            every = restart.capitals if isinstance(restart, Calendar) else duration_text(0 if restart is None else restart)
            steps = "" if step is None else f"STEP {duration_text(step)} "
            return f"LANDMARK {steps}{f'LIMIT {limit}' if restart is None else f'RESTARTING EVERY {every}'}"
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
        case LandmarkExtent(limit=limit):
            return f"{limit} elements" if extent.longest is None else f"elements of {duration_text(extent.longest)}"
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
