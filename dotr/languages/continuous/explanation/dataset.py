"""The dataset of a continuous query at a report, with a proof of each triple.

Idea: the contents of the windows are restored from the records
(`dotr.languages.continuous.explanation.records`). They are closed again at their entailment levels,
in rounds that keep a derivation of each triple
(`dotr.languages.continuous.explanation.dataset`); the engine keeps none. Invariant: the
graphs equal those of the run, and every triple has a proof down to elements. Cost: the closure of
the contents in rounds, at their first use. Source: continuous.md, sections 5 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Protocol

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import StatedPlace, WindowElement
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import BOUNDS
from dotr.evaluation.triples.generalised import as_told
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.explanations.evidence.proofs import (
    BackgroundTriple,
    DerivedTriple,
    ProofBuilder,
    RuleCondition,
    StatedTriple,
    TripleProof,
    conditions_of,
)
from dotr.explanations.evidence.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.evidence.rule_matches import ProvingRules, RuleMatch
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.derivations import StratumDelta
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.evaluation.match_blocks import EventMapping, MatchedItem, MatchedTriple, MatchEvaluator
from dotr.languages.continuous.explanation.records import QueryRecord, RecordedReport, WindowElements
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


# Proofs of the triples that a window's content entails (continuous.md, section 5: V(X | Y)).
#
# V(X | Y) holds the triples with a derivation that uses the content X, given further triples Y and
# the background.
#
# Idea: Y and the background are closed in rounds (`dotr.explanations.evidence.rounds`). V then begins
# with X and with the triples that NOT or AGGREGATE derive only with X. Each round adds the
# conclusions of matches with a premise in V, also if the background has them already. A premise that
# enters V in a later round, or never, is proved from Y and the background, so that proofs are
# well-founded.
#
# Example: X is `:s1 :at :hall`; the background has `:hall :in :east` and `:s1 :in :east`. V has
# `:s1 :in :east` too, by the rule `:in(?a, ?c) :- :at(?a, ?b), :in(?b, ?c)` with one premise of X and
# one of the background.
# Invariant: the triples are those of `dotr.instant.datalog.content_entailment` (a property test).
# Cost: the closure of X and Y in rounds.


class ContentProofs:
    """The triples of V(X | Y), with a proof of each.

    Args:
        knowledge: the background, closed.
        rules: the rules of the background (`dotr.explanations.evidence.proofs.program_rules`).
        content: the triples of the content, X, each with the place of its first element.
        known: the further triples, Y, likewise.

    Raises `LimitExceeded` at the first use if the closure exceeds a limit.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        rules: ProvingRules,
        content: Mapping[Triple, StatedPlace],
        known: Mapping[Triple, StatedPlace],
    ) -> None:
        self._knowledge = knowledge
        self._rules = rules
        self._content = content
        self._known = known
        self._heights: dict[Triple, int] = {}
        self._matches: dict[Triple, RuleMatch] = {}
        self._built: dict[tuple[Triple, bool], TripleProof] = {}

    @cached_property
    def index(self) -> TripleIndex:
        """The triples of V, without hidden ones."""
        return TripleIndex(triple for triple in self._entailed if not is_hidden(triple[1]))

    def height(self, triple: Triple) -> int:
        """The height of the proof of a triple of V."""
        return self._entailed.get(triple, 0)

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if it is not in V."""
        return self._proof(triple) if triple in self._entailed else None

    @cached_property
    def _closed(self) -> RoundsClosure:
        """The background and Y, closed in rounds. NOT and AGGREGATE read the models that include
        X."""
        content_and_known = list(dict.fromkeys([*self._known, *self._content]))
        closure = self._knowledge.close(content_and_known)
        models = self._knowledge.lower_models(content_and_known)
        return close_in_rounds(self._rules, closure.background, self._known, models, closure.delta)

    @cached_property
    def _entailed(self) -> dict[Triple, int]:
        """The height of each triple of V, including hidden ones."""
        heights = self._heights
        if not self._rules.rules:
            heights.update(dict.fromkeys(self._content, 0))
            return heights
        background, delta, by_known = self._closed.background, self._closed.delta, self._closed.derivations
        newest = list(self._content)
        heights.update(dict.fromkeys(newest, 0))
        for triple in self._beyond_known(by_known):
            heights.setdefault(triple, 0)
            self._matches.setdefault(triple, by_known[triple])
            newest.append(triple)
        height = 0
        while newest:
            _add(delta, background, newest)
            height += 1
            found: dict[Triple, RuleMatch] = {}
            for match in (match for triple in newest for match in self._rules.matches_with(triple, background, delta)):
                for triple in match.conclusions():
                    if triple not in heights and (triple not in found or match.tie_order < found[triple].tie_order):
                        found[triple] = match
            newest = sorted(found)
            heights.update(dict.fromkeys(newest, height))
            self._matches.update(found)
        return heights

    def _beyond_known(self, derived: Mapping[Triple, RuleMatch]) -> list[Triple]:
        """The triples derived from Y that depend on X only through NOT or AGGREGATE."""
        if not any(rule.is_nonmonotonic for rule in self._rules.rules):
            return []
        before = self._knowledge.close(list(self._known))
        retracted = before.removed or ()
        return [triple for triple in derived if triple not in before.delta and (triple not in before.background or triple in retracted)]

    # --- proofs ---

    def _proof(self, triple: Triple) -> TripleProof:
        """The proof of a triple of V. The traversal is iterative, since proofs may be high."""
        pending = [(triple, True)]
        while pending:
            each = pending[-1]
            missing = [premise for premise in self._premises(*each) if premise not in self._built]
            if missing:
                pending += missing
            else:
                pending.pop()
                if each not in self._built:
                    self._built[each] = self._with_built_premises(*each)
        return self._built[triple, True]

    def _match(self, triple: Triple, *, by_content: bool) -> RuleMatch | None:
        return self._matches.get(triple) if by_content else self._closed.derivations.get(triple)

    def _place(self, triple: Triple, *, by_content: bool) -> StatedPlace | None:
        return (self._content if by_content else self._known).get(triple)

    def _premises(self, triple: Triple, by_content: bool) -> Sequence[tuple[Triple, bool]]:
        if self._place(triple, by_content=by_content) is not None or (match := self._match(triple, by_content=by_content)) is None:
            return ()
        return self._visible(triple, match, by_content=by_content)

    def _with_built_premises(self, triple: Triple, by_content: bool) -> TripleProof:
        place = self._place(triple, by_content=by_content)
        if place is not None:
            return StatedTriple(triple, place)
        match = self._match(triple, by_content=by_content)
        if match is None:
            return BackgroundTriple(as_told(triple) or triple)
        premises = tuple(self._built[premise] for premise in self._visible(triple, match, by_content=by_content))
        conditions: tuple[RuleCondition, ...] = () if match.rule.rule.of_rule_set else tuple(conditions_of(match, self._closed))
        return DerivedTriple(as_told(triple) or triple, match.rule.rule, premises, conditions)

    def _visible(self, triple: Triple, match: RuleMatch, *, by_content: bool) -> Sequence[tuple[Triple, bool]]:
        """The premises of a match, each with True if its proof uses the content.

        Such a premise has a lesser height in V than its conclusion. Premises of auxiliary relations
        are replaced by the premises that derive them.
        """
        premises: dict[tuple[Triple, bool], None] = {}
        limit = self._heights[triple] if by_content else 0
        pending = [(each, by_content and self._heights.get(each, limit) < limit) for each in reversed(match.premises)]
        while pending:
            each, uses_content = pending.pop()
            hidden = self._match(each, by_content=uses_content)
            if as_told(each) is not None or hidden is None:
                if as_told(each) is not None:
                    premises[each, uses_content] = None
                continue
            below = self._heights[each] if uses_content else 0
            pending += [(deeper, uses_content and self._heights.get(deeper, below) < below) for deeper in reversed(hidden.premises)]
        return tuple(premises)


def _add(delta: StratumDelta, background: TripleIndex, triples: Iterable[Triple]) -> None:
    for triple in triples:
        if triple not in background.triples:
            delta.add(triple)
