"""Units of a program put together: labels as one space, streams by name, cycles (semantics.md, 8).

A name of a stream is looked up among the names of CONSTRUCT queries, then the labels of units whose
events have graphs, the streams that inputs feed, and the names of inputs (continuous.md, 2). A
program without inputs takes every other name as that of a stream of its caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.languages.rules import RESERVED
from dotr.languages.unit_codes import UnitCode
from dotr.layout.units import FedGraphs, GraphStream, MadeGraphs, StreamQuery, cycles_of_queries
from dotr.model.continuous import AskForm, ContinuousQuery, ContinuousWindow, SelectForm
from dotr.model.places import Span
from dotr.model.rules import Rule
from dotr.model.stream_names import InputStream
from dotr.model.terms import Label, Variable
from dotr.model.units import UnitEvents

ANSWER: Variable = "answer"
"""The attribute of the events of an ASK."""


def attributes_of(query: ContinuousQuery) -> tuple[Variable, ...]:
    """The attributes that the events of a query can have, sorted (continuous.md, section 6)."""
    match query.form:
        case SelectForm(select):
            return tuple(sorted(set(select.projection)))
        case AskForm():
            return (ANSWER,)
        case _:
            return ()


def events_of(queries: Sequence[ContinuousQuery]) -> tuple[UnitEvents, ...]:
    """The events of queries, as rules know them."""
    return tuple(UnitEvents(query.label, attributes_of(query), query.label_span) for query in queries)


def label_problems(units: Sequence[UnitEvents]) -> Iterator[Diagnostic]:
    """Labels that two units have (D222), and those that no rule can read (D223, warning)."""
    first: dict[Label, UnitEvents] = {}
    for unit in units:
        if first.setdefault(unit.label, unit) is not unit:
            line, column = first[unit.label].span.line_column
            at = f"{first[unit.label].span.document.name}:{line}:{column}"
            hint = f"The first is at {at}. Labels are one space: rename one."
            yield Diagnostic(UnitCode.LABEL_OF_UNIT, f"two units have the label {unit.label}", unit.span, hint)
        if unit.label.lower() in RESERVED:
            hint = "It is a word of the rule language. Choose another label, if a rule is to read it."
            yield Diagnostic(UnitCode.UNREADABLE_LABEL, f"no rule can read {unit.label} by label", unit.span, hint, Severity.WARNING)


@dataclass(frozen=True, slots=True)
class ResolvedQueries:
    """Queries with the streams that they read, and the problems found."""

    queries: tuple[StreamQuery, ...]
    problems: tuple[Diagnostic, ...]


def resolve_queries(queries: Sequence[ContinuousQuery], rules: Sequence[Rule], inputs: Sequence[InputStream]) -> ResolvedQueries:
    """Find the streams of all windows; reports D224, D225 and D404."""
    names = _StreamNames(queries, rules, inputs)
    problems: list[Diagnostic] = []
    resolved: list[StreamQuery] = []
    for query in queries:
        streams = [names.stream_of(window, problems) for window in query.windows]
        known = tuple(stream for stream in streams if stream is not None)
        if len(known) == len(streams):
            resolved.append(StreamQuery(query, known, attributes_of(query)))
    if not problems:
        problems += _cycles(rules, resolved)
    return ResolvedQueries(tuple(resolved), tuple(problems))


class _StreamNames:
    """Names of streams of a program, and what each means."""

    def __init__(self, queries: Sequence[ContinuousQuery], rules: Sequence[Rule], inputs: Sequence[InputStream]) -> None:
        self._known: dict[str, GraphStream] = {}
        self._without_graphs: dict[str, str] = {}
        self._is_open = not inputs
        for query in queries:
            if query.makes_graphs:
                self._known.setdefault(query.name, MadeGraphs(query.label))
        labels = {query.label: query.makes_graphs for query in queries} | {rule.event: True for rule in rules}
        for label, has_graphs in labels.items():
            if has_graphs:
                self._known.setdefault(label, MadeGraphs(label))
            else:
                self._without_graphs[label] = label
        for query in queries:
            if not query.makes_graphs and query.name not in self._known:
                self._without_graphs[query.name] = query.label
        for each in inputs:
            self._known.setdefault(each.fed, FedGraphs(each.fed))
        for each in inputs:
            self._known.setdefault(each.name, FedGraphs(each.fed))

    def stream_of(self, window: ContinuousWindow, problems: list[Diagnostic]) -> GraphStream | None:
        """The stream of a window; None, with a problem, where its name means nothing."""
        name = window.stream
        if name in self._known:
            return self._known[name]
        if name in self._without_graphs:
            problems.append(_no_graphs(self._without_graphs[name], window.stream_span))
            return None
        if self._is_open:
            return FedGraphs(name)
        known = sorted(self._known)
        hint = did_you_mean(name, known) or f"Streams are {', '.join(known)}: `stream:` of an input, the name of an input, or a label."
        problems.append(Diagnostic(UnitCode.UNKNOWN_STREAM, f"there is no stream {name}", window.stream_span, hint))
        return None


def _no_graphs(label: Label, span: Span) -> Diagnostic:
    hint = "Only events with graphs are a stream: those of rules and of CONSTRUCT."
    return Diagnostic(UnitCode.NO_GRAPHS, f"the events of {label} have no graphs, so they are no stream", span, hint)


def _cycles(rules: Sequence[Rule], queries: Sequence[StreamQuery]) -> Iterator[Diagnostic]:
    for cycle in cycles_of_queries(rules, queries):
        way = " needs ".join(cycle.labels)
        hint = "A continuous query is in no cycle, not even through the past. Let one of them read something else."
        yield Diagnostic(UnitCode.CYCLE_OF_UNITS, f"a cycle: {way}", cycle.span, hint)
