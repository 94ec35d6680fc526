"""The dataset of a continuous query at a report, with a proof of each triple.

Idea: the contents of the windows are restored from the records
(`dotr.languages.continuous.explanation.records`). They are closed again at their entailment levels,
in rounds that keep a derivation of each triple
(`dotr.languages.continuous.explanation.content_proofs`); the engine keeps none. Invariant: the
graphs equal those of the run, and every triple has a proof down to elements. Cost: the closure of
the contents in rounds, at their first use. Source: continuous.md, sections 5 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Protocol

from dotr.engine.program import CompiledProgram
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.literal_limits import BOUNDS
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.proofs import ProofBuilder, TripleProof
from dotr.explanations.evidence.rounds import close_in_rounds
from dotr.explanations.evidence.rule_matches import ProvingRules
from dotr.explanations.replay.stream import StatedPlace, WindowElement
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.evaluation.match_blocks import EventMapping, MatchedItem, MatchedTriple, MatchEvaluator
from dotr.languages.continuous.explanation.content_proofs import ContentProofs
from dotr.languages.continuous.explanation.records import QueryRecord, RecordedReport
from dotr.languages.continuous.explanation.window_elements import WindowElements
from dotr.languages.continuous.model import ContinuousQuery, ContinuousWindow, EntailmentLevel, Level, StreamLevel
from dotr.model.terms import Term, Triple
from dotr.model.time import Clock, Micros
from dotr.temporal.intervals.patterns import EventPattern, MatchBlock, plain_groups


class ProvenGraph(Protocol):
    """A graph with a proof of each of its triples."""

    @property
    def index(self) -> TripleIndex:
        """Its triples."""

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple."""

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if the graph does not have it."""


class UnitedProofs:
    """The union of graphs; the proof of a triple is that of the first graph with the triple."""

    def __init__(self, parts: Sequence[ProvenGraph]) -> None:
        self._parts = parts

    @cached_property
    def index(self) -> TripleIndex:
        """The triples of all parts."""
        return TripleIndex(dict.fromkeys(triple for part in self._parts for triple in part.index))

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple."""
        return next((part.height(triple) for part in self._parts if triple in part.index), 0)

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if no graph has it."""
        return next((part.proof(triple) for part in self._parts if triple in part.index), None)


class ReportDataset:
    """The dataset of a query at a report: the default graph, the graphs of windows, the mappings.

    Args:
        program: the program, with its background.
        rules: the rules of its background.
        record: the query's record.
        report: the report.
        elements: the finder of the places of elements.
        clock: the form of times in terms.

    Attributes:
        query: the query.
        report: the report.
    """

    def __init__(
        self,
        program: CompiledProgram,
        rules: ProvingRules,
        record: QueryRecord,
        report: RecordedReport,
        elements: WindowElements,
        clock: Clock,
    ) -> None:
        self.query: ContinuousQuery = record.unit.query
        self.report = report
        self._program = program
        self._rules = rules
        self._record = record
        self._elements = elements
        self._clock = clock

    @cached_property
    def contents(self) -> Sequence[Sequence[WindowElement]]:
        """The content of each window."""
        streams = self._record.unit.streams
        return [
            [self._elements.element(stream, each) for each in self._record.content(self.report, number)]
            for number, stream in enumerate(streams)
        ]

    def history(self, window: int) -> Sequence[WindowElement]:
        """The elements that the entailment level of a window, given by its number, reads beside its
        content.
        """
        stream = self._record.unit.streams[window]
        return [self._elements.element(stream, each) for each in self._record.history(self.report, window)]

    def earlier(self, window: int) -> Sequence[WindowElement]:
        """The elements that arrived at a window before those of its content."""
        stream = self._record.unit.streams[window]
        return [self._elements.element(stream, each) for each in self._record.earlier(self.report, window)]

    def changed(self, query: ContinuousQuery, contents: Sequence[Sequence[WindowElement]]) -> ReportDataset:
        """The dataset of another query with the same windows over other contents."""
        changed = ReportDataset(self._program, self._rules, self._record, self.report, self._elements, self._clock)
        changed.query = query
        changed.contents = contents
        return changed

    # --- the graphs ---

    @cached_property
    def blocks(self) -> Mapping[Term, ProvenGraph]:
        """The graph of each named window in WINDOW blocks, by name."""
        BOUNDS.start(self._program.spec.limits.literal, self._program.spec.limits.text)
        windows = enumerate(self.query.windows)
        return {window.name: self._leveled(window.block_level, number) for number, window in windows if window.name is not None}

    @cached_property
    def items(self) -> Mapping[Term, Sequence[tuple[Micros, ProvenGraph]]]:
        """The items of each window that an EVENT reads: a time in µs since 1970 and its graph."""
        named = {window.name: number for number, window in enumerate(self.query.windows) if window.name is not None}
        read = {group.window for block in self.query.matches for group in plain_groups(block.events)}
        return {name: self._items(self.query.windows[named[name]], named[name]) for name in read}

    @cached_property
    def mappings(self) -> Sequence[Sequence[EventMapping]]:
        """The mappings of each MATCH block."""
        return [self.mappings_of(block.events, used) for block, used in zip(self.query.matches, self.report.used, strict=True)]

    def mappings_of(self, events: EventPattern, used: frozenset[MatchedTriple]) -> Sequence[EventMapping]:
        """The mappings of an event pattern, without consumed triples."""
        found = {name: [MatchedItem(time, graph.index) for time, graph in items] for name, items in self.items.items()}
        block = MatchBlock(events, consuming=False, variables=(), span=self.query.span)
        return MatchEvaluator(block, partial(time_term, clock=self._clock)).mappings(found, used)

    @cached_property
    def default(self) -> DefaultProofs:
        """The default graph: the closure of the background and the default windows."""
        BOUNDS.start(self._program.spec.limits.literal, self._program.spec.limits.text)
        stated: dict[Triple, StatedPlace] = {}
        added: list[ProvenGraph] = []
        for number, window in enumerate(self.query.windows):
            if window.name is not None:
                continue
            if window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW):
                for triple, place in _places(self.contents[number]).items():
                    stated.setdefault(triple, place)
            else:
                added.append(self._leveled(window.block_level, number))
        return DefaultProofs(self._program, self._rules, stated, added)

    @cached_property
    def graph(self) -> ReportGraph:
        """The dataset in the form over which the engine evaluates queries."""
        blocks = {name: Graph(TripleIndex(), proven.index) for name, proven in self.blocks.items()}
        default = self.default
        graph = ReportGraph(default.background, default.delta, blocks, [[each.bindings for each in found] for found in self.mappings])
        graph.removed = default.removed
        return graph

    # --- levels ---

    def _content_proofs(self, content: Mapping[Triple, StatedPlace], known: Mapping[Triple, StatedPlace] | None = None) -> ContentProofs:
        return ContentProofs(self._program.knowledge, self._rules, content, known or {})

    def _leveled(self, level: Level, window: int) -> ProvenGraph:
        content = self.contents[window]
        match level:
            case EntailmentLevel.NONE:
                return ContentProofs(self._program.knowledge, _NO_RULES, _places(content), {})
            case EntailmentLevel.SNAPSHOT:
                return UnitedProofs([self._content_proofs(_places(item)) for _, item in _by_time(content)])
            case EntailmentLevel.GRAPH | EntailmentLevel.WINDOW:
                return self._content_proofs(_places(content))
            case StreamLevel():
                return self._content_proofs(_places(content), _places(self.history(window)))

    def _items(self, window: ContinuousWindow, number: int) -> Sequence[tuple[Micros, ProvenGraph]]:
        level = window.event_level
        found: list[tuple[Micros, ProvenGraph]] = []
        before: list[WindowElement] = []
        history = self.history(number) if isinstance(level, StreamLevel) else []
        for time, item in _by_time(self.contents[number]):
            match level:
                case EntailmentLevel.NONE | EntailmentLevel.GRAPH:
                    graph = ContentProofs(self._program.knowledge, _NO_RULES, _places(item), {})
                case EntailmentLevel.SNAPSHOT:
                    graph = self._content_proofs(_places(item))
                case EntailmentLevel.WINDOW:
                    graph = self._content_proofs(_places(item), _places(before))
                    before += item
                case StreamLevel():
                    graph = self._content_proofs(_places(item), _places([each for each in history if each.time < time]))
            found.append((time, graph))
        return found


class DefaultProofs:
    """The default graph, with a proof of each triple.

    It is the union of the closure of the background with those default windows that are closed as
    one graph, and of the graphs of default windows of other levels.

    Args:
        program: the program, with its background.
        rules: the rules of its background.
        stated: the triples that are closed with the background, with their places.
        added: the graphs of default windows of other levels.
    """

    def __init__(
        self, program: CompiledProgram, rules: ProvingRules, stated: Mapping[Triple, StatedPlace], added: Sequence[ProvenGraph]
    ) -> None:
        knowledge, triples = program.knowledge, list(stated)
        closure = knowledge.close(triples)
        self.background = closure.background
        self.removed = closure.removed
        self.delta = TripleIndex(closure.delta)
        for part in added:
            for triple in part.index:
                if triple not in closure.background:
                    self.delta.add(triple)
        self._added = added
        self._closure = closure
        self._closed = close_in_rounds(rules, closure.background, triples, knowledge.lower_models(triples), closure.delta)
        self._builder = ProofBuilder(self._closed, stated)

    @property
    def index(self) -> TripleIndex:
        """The triples that the background does not have."""
        return self.delta

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple."""
        return self._closed.heights.get(triple, 0)

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if it does not hold."""
        if triple in self._closure.delta or triple in self.background:
            return self._builder.proof(triple)
        return next((part.proof(triple) for part in self._added if triple in part.index), None)


_NO_RULES = ProvingRules([])


def _places(elements: Sequence[WindowElement]) -> dict[Triple, StatedPlace]:
    """The first element that states each triple."""
    found: dict[Triple, StatedPlace] = {}
    for element in elements:
        for triple in element.triples:
            found.setdefault(triple, element)
    return found


def _by_time(elements: Sequence[WindowElement]) -> list[tuple[Micros, list[WindowElement]]]:
    """The elements by time, in the order of time: the items of a window."""
    items: dict[Micros, list[WindowElement]] = {}
    for each in elements:
        items.setdefault(each.time, []).append(each)
    return [(time, items[time]) for time in sorted(items)]
