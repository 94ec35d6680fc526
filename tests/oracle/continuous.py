"""Continuous queries by the letter (continuous.md): at every moment all contents are determined, closed and queried from scratch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from dotr.languages.continuous.model import (
    AskForm,
    ConstructForm,
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    EntailmentLevel,
    LandmarkExtent,
    Level,
    NowExtent,
    RangeExtent,
    RelationToStream,
    StreamLevel,
    StreamName,
    TriplesExtent,
)
from dotr.model.calendars import Calendar
from dotr.model.datalog import DatalogRule
from dotr.model.stream import Element
from dotr.model.terms import FALSE, TRUE, Term, Triple
from dotr.model.time import Clock, Micros
from tests.oracle.algebra import Dataset, Solution, selected
from tests.oracle.calendars import moment_after, moment_before
from tests.oracle.closure import close
from tests.oracle.content_entailment import entailed_given
from tests.oracle.match import Matching, Used
from tests.oracle.program import by_appearance, renamed
from tests.oracle.temporal import Output, instance
from tests.oracle.triple_terms import whole


@dataclass(frozen=True)
class Streamed:
    """An element of a stream, with the global names of its blank nodes. `number` distinguishes equal elements."""

    time: Micros
    triples: frozenset[Triple]
    number: int


@dataclass
class Streams:
    """All elements so far, by the stream that a name means."""

    of: dict[StreamName, list[Streamed]] = field(default_factory=dict)
    count: int = 0

    def add(self, stream: StreamName, time: Micros, triples: Iterable[Triple]) -> None:
        self.count += 1
        self.of.setdefault(stream, []).append(Streamed(time, frozenset(triples), self.count))


def named(elements: Iterable[tuple[StreamName, Element]]) -> list[tuple[StreamName, Micros, frozenset[Triple]]]:
    """Elements with the names of their blank nodes made different."""
    result = []
    for number, (stream, element) in enumerate(elements):
        triples = by_appearance(element.triples)
        result.append((stream, element.time, frozenset((renamed(s, str(number)), p, renamed(o, str(number))) for s, p, o in triples)))
    return result


@dataclass(frozen=True)
class Knowledge:
    """The background, the rules, and the form of times. `origin`: of windows."""

    background: frozenset[Triple] = frozenset()
    datalog: tuple[DatalogRule, ...] = ()
    entailment: str = "none"
    clock: Clock = field(default_factory=Clock)
    origin: Micros = 0

    def says(self, what: Iterable[Triple], given: Iterable[Triple] = ()) -> frozenset[Triple]:
        return entailed_given(what, self.background | frozenset(given), self.datalog, self.entailment)

    def close(self, triples: Iterable[Triple]) -> frozenset[Triple]:
        return close(self.background | frozenset(triples), self.datalog, self.entailment)


# --- section 3: windows ---


def is_close(window: ContinuousWindow, t: Micros, stream: Sequence[Streamed], origin: Micros) -> bool:
    match window.extent:
        case RangeExtent(width, step, _, start):
            return (t - origin) % step == 0 if start is None else t >= start + width and (t - start - width) % step == 0
        case LandmarkExtent(step, restart, _, start):
            if isinstance(restart, Calendar) and moment_after(restart, t - 1) == t and (start is None or t > start):
                return True
            if step is None:
                return False
            return (t - origin) % step == 0 if start is None else t > start and (t - start) % step == 0
        case ElementsExtent(_, step) | TriplesExtent(_, step):
            before, after = (counted(window, [e for e in stream if e.time < end]) for end in (t, t + 1))
            return before // step < after // step
        case NowExtent():
            return False


def counted(window: ContinuousWindow, elements: Sequence[Streamed]) -> int:
    return sum(len(e.triples) for e in elements) if isinstance(window.extent, TriplesExtent) else len(elements)


def content(window: ContinuousWindow, t: Micros, stream: Sequence[Streamed], origin: Micros) -> list[Streamed]:
    """The content of the window at a time: the elements so far of the window that closes next."""
    past = [e for e in stream if e.time <= t]
    match window.extent:
        case RangeExtent(width, step, lag, start):
            first = origin if start is None else start + width
            close_ = first + -(-(t - first) // step) * step
            if start is not None:
                close_ = max(close_, first)
            return [e for e in past if close_ - width < e.time <= close_ - lag]
        case LandmarkExtent(_, restart, _, start):
            least = start
            if restart is not None:
                anchor = origin if start is None else start
                if isinstance(restart, Calendar):
                    least = moment_before(restart, t)
                else:
                    least = anchor + floor((t - 1 - anchor) // restart) * restart  # the last one strictly before t
                least = least if start is None else max(least, start)
            return [e for e in past if least is None or e.time > least]
        case ElementsExtent(count, _) | TriplesExtent(count, _):
            held: list[Streamed] = []
            for time in sorted({e.time for e in past}, reverse=True):
                if counted(window, held) >= count:
                    break
                held = [e for e in past if e.time == time] + held
            return held
        case NowExtent():
            return [e for e in past if e.time == t]


def items(elements: Sequence[Streamed]) -> dict[Micros, frozenset[Triple]]:
    merged: dict[Micros, frozenset[Triple]] = {}
    for e in elements:
        merged[e.time] = merged.get(e.time, frozenset()) | e.triples
    return merged


def merge(elements: Iterable[Streamed]) -> frozenset[Triple]:
    return frozenset(t for e in elements for t in e.triples)


# --- section 5: levels ---


def block_graph(level: Level, held: Sequence[Streamed], t: Micros, stream: Sequence[Streamed], known: Knowledge) -> frozenset[Triple]:
    """The graph of a WINDOW block over a content."""
    match level:
        case EntailmentLevel.NONE:
            return merge(held)
        case EntailmentLevel.SNAPSHOT:
            return frozenset(triple for item in items(held).values() for triple in known.says(item))
        case EntailmentLevel.GRAPH | EntailmentLevel.WINDOW:
            return known.says(merge(held))
        case StreamLevel(within):
            return known.says(merge(held), merge(e for e in stream if t - within < e.time <= t))


def event_items(
    level: Level, held: Sequence[Streamed], t: Micros, stream: Sequence[Streamed], known: Knowledge
) -> dict[Micros, frozenset[Triple]]:
    """The items of a content, as EVENT matches them."""

    def seen(u: Micros, item: frozenset[Triple]) -> frozenset[Triple]:
        match level:
            case EntailmentLevel.NONE | EntailmentLevel.GRAPH:
                return item
            case EntailmentLevel.SNAPSHOT:
                return known.says(item)
            case EntailmentLevel.WINDOW:
                return known.says(item, merge(e for e in held if e.time < u))
            case StreamLevel(within):
                return known.says(item, merge(e for e in stream if t - within < e.time < u))

    return {u: seen(u, item) for u, item in items(held).items()}


# --- sections 4, 6, 7: reports and results ---


@dataclass
class ContinuousQueryState:
    """A query with its state. `before`: the solutions of its last report; `reported`: the content of each window's last report."""

    query: ContinuousQuery
    known: Knowledge
    before: list[Solution] = field(default_factory=list)
    reported: dict[int, Counter[Streamed]] = field(default_factory=dict)
    used_up: dict[int, Used] = field(default_factory=dict)
    reports: int = 0
    is_over: bool = False
    """A window went over its limit: nothing is kept, and nothing is reported any more."""
    is_done: bool = False
    """Its last report is behind it (section 4, z)."""

    def elements(self, window: ContinuousWindow, streams: Streams) -> list[Streamed]:
        return streams.of.get(window.stream, [])

    def reports_at(self, t: Micros, streams: Streams) -> list[int]:
        """The windows that report at a time."""
        return [number for number in range(len(self.query.windows)) if self.window_reports(number, t, streams)]

    def window_reports(self, number: int, t: Micros, streams: Streams) -> bool:
        window = self.query.windows[number]
        policies = window.policies
        if policies is None:
            return False
        stream = self.elements(window, streams)
        held = content(window, t, stream, self.known.origin)
        if policies.window_close and not is_close(window, t, stream, self.known.origin):
            return False
        if policies.period is not None and not is_period(window, t, self.known.origin):
            return False
        if policies.content_change:
            if not policies.window_close and policies.period is None and not any(e.time == t for e in stream):
                return False
            if Counter(held) == self.reported.get(number, Counter()):
                return False
        return not (policies.non_empty and not held)

    def step(self, t: Micros, streams: Streams) -> list[Output]:
        """The events of a time."""
        if self.is_over or self.is_done:
            return []
        for window in self.query.windows:
            limit = window.extent.limit if isinstance(window.extent, LandmarkExtent) else None
            if limit is not None and len(content(window, t, self.elements(window, streams), self.known.origin)) > limit:
                self.is_over = True
                return []
        reporting = self.reports_at(t, streams)
        for number in reporting:
            window = self.query.windows[number]
            self.reported[number] = Counter(content(window, t, self.elements(window, streams), self.known.origin))
        return self.report(t, streams) if reporting else []

    def report(self, t: Micros, streams: Streams) -> list[Output]:
        self.reports += 1
        found = self.solutions(t, streams)
        given = list(found)
        if self.query.relation is not RelationToStream.RSTREAM:
            more, fewer = (found, self.before) if self.query.relation is RelationToStream.ISTREAM else (self.before, found)
            given = list(more)
            for solution in fewer:
                if solution in given:
                    given.remove(solution)
        self.before = found
        return self.events(t, given)

    def solutions(self, t: Micros, streams: Streams) -> list[Solution]:
        """Ω(t)."""
        graphs: dict[Term, list[Triple]] = {}
        event_graphs: dict[Term, Mapping[Micros, frozenset[Triple]]] = {}
        together: set[Triple] = set()
        apart: set[Triple] = set()
        for window in self.query.windows:
            stream = self.elements(window, streams)
            held = content(window, t, stream, self.known.origin)
            seen = block_graph(window.block_level, held, t, stream, self.known)
            if window.name is None:
                if window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW):
                    together |= merge(held)
                else:
                    apart |= seen
            else:
                graphs[window.name] = sorted(seen)
                event_graphs[window.name] = event_items(window.event_level, held, t, stream, self.known)
        matches: list[list[Solution]] = []
        for number, block in enumerate(self.query.matches):
            matching = Matching(event_graphs, self.used_up.get(number, frozenset()), self.known.clock)
            found = matching.mappings(block.events, {}, None)
            matches.append([m.bindings for m in found])
            if block.consuming:
                self.used_up[number] = matching.used_up.union(*(m.used for m in found))
        dataset = Dataset(sorted(self.known.close(together) | apart), graphs, matches)
        result = selected(self.query.query, dataset, {})
        return [{"answer": TRUE if result else FALSE}] if isinstance(self.query.form, AskForm) else result

    def events(self, t: Micros, given: Sequence[Solution]) -> list[Output]:
        label, form = self.query.label, self.query.form
        if not isinstance(form, ConstructForm):
            return [Output(t, label, label, solution, frozenset(), 0) for solution in given]
        graph: set[Triple] = set()
        dropped = 0
        for number, solution in enumerate(given):
            for triple in form.template.triples:
                s, p, o = (instance(slot, solution, self.fresh(t, number)) for slot in triple)
                if s is None or p is None or o is None or whole(s, p, o) is None:
                    dropped += 1
                else:
                    graph.add((s, p, o))
        return [Output(t, label, label, {}, frozenset(graph), dropped)] if given else []

    def fresh(self, t: Micros, number: int) -> int:
        """A number of its own for each solution of each report of each query."""
        return int.from_bytes(hashlib.sha256(f"{self.query.label} {self.reports} {number}".encode()).digest()[:8])

    # --- the end ---

    def next_time(self, after: Micros) -> Micros | None:
        """The next time at which WINDOW CLOSE or PERIODIC holds; of a window with both, at which both hold."""
        times = []
        for window in self.query.windows:
            extent, policies = window.extent, window.policies
            if policies is None:
                continue
            start = extent.start if isinstance(extent, RangeExtent | LandmarkExtent) else None
            if policies.window_close and isinstance(extent, RangeExtent | LandmarkExtent):
                if isinstance(extent, LandmarkExtent) and isinstance(extent.restart, Calendar):
                    times.append(moment_after(extent.restart, after if start is None else max(after, start)))
                if extent.step is None:
                    continue
                first = extent.width if isinstance(extent, RangeExtent) else extent.step
                found = after
                for _ in range(1 if policies.period is None else 1_000):  # two lengths of seconds meet before, or never
                    found = following(found, extent.step, self.known.origin, None if start is None else start + first)
                    if policies.period is None or is_period(window, found, self.known.origin):
                        times.append(found)
                        break
            elif policies.period is not None and not policies.window_close:
                times.append(following(after, policies.period, self.known.origin, None if start is None else start + policies.period))
        return min(times, default=None)

    def holds_none(self, t: Micros, streams: Streams) -> bool:
        """No RANGE or FROM NOW window holds an element, or will later."""
        for window in self.query.windows:
            extent = window.extent
            stream = self.elements(window, streams)
            if not isinstance(extent, RangeExtent) or not stream:
                continue
            last = max(e.time for e in stream)
            close_: Micros = t
            while close_ - extent.width <= last:
                if content(window, close_, stream, self.known.origin):
                    return False
                close_ = following(close_, extent.step, self.known.origin, None if extent.start is None else extent.start + extent.width)
        return True


def following(after: Micros, step: Micros, origin: Micros, first: Micros | None) -> Micros:
    """The least `anchor + i·step` after a time; with `first`, none before that.

    >>> following(10, 5, 0, None), following(9, 5, 0, None), following(3, 5, 0, 7), following(7, 5, 0, 7)
    (15, 10, 7, 12)
    """
    anchor = origin if first is None else first
    found = anchor + ((after - anchor) // step + 1) * step
    return found if first is None else max(found, first)


def is_period(window: ContinuousWindow, t: Micros, origin: Micros) -> bool:
    assert window.policies is not None
    period = window.policies.period
    assert period is not None
    start = window.extent.start if isinstance(window.extent, RangeExtent | LandmarkExtent) else None
    return (t - origin) % period == 0 if start is None else t > start and (t - start) % period == 0
