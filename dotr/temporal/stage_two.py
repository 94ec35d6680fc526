"""Stage two: one layer's step, from events that arrive at an instant to output graphs.

Invariant: `step` is a function of the partition's state, the time and the arrivals. State is data
that `encode` and `restore` move between processes. Fresh names are a function of the match, so a
replay writes the same graph.
Cost: about 3 µs a firing where many rules fire on the same events; the text that depends on the
events alone is written once for all of these rules.
Memory: where the caller takes firings in chunks, a moment's firings are never all in memory; its
composite events that other rules read are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.errors.fallbacks import FallbackKind, error_line, record_fallback, reraise_in_tests
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import BOUNDS, LIMITS, LimitExceeded, Limits
from dotr.model.event_order import AttributeValues
from dotr.model.rules import Absent, Choose, Clause, FactSource
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.units import MadeGraphs
from dotr.temporal.items import graph_row
from dotr.temporal.layout.layers import Layer, MadeStream
from dotr.temporal.layout.retention import positive_roles
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.matching.event_store import PortStore
from dotr.temporal.matching.events import Match, MatchBuffer, SearchStart, StoredEvent
from dotr.temporal.matching.lone_facts import LoneFactFailed
from dotr.temporal.matching.operator import Arrival, Arrivals, CompiledGroup, Operator
from dotr.temporal.matching.rule_counts import LayerCounter, RuleCounts
from dotr.temporal.matching.rule_failures import AnchorLimit, LimitExcess, RuleFailure
from dotr.temporal.matching.state import State
from dotr.temporal.templates import InstantiateTemplate, compile_template, digest_of, match_text

CompositeEvent: TypeAlias = tuple[MadeStream, Arrival]
"""A composite event that higher layers read, or its graph where the graphs are read as a stream."""


class LayerResult(NamedTuple):
    """The result of one step of a layer's partition.

    - `firings`: the firings, without those already emitted in chunks.
    - `events`: the composite events that higher layers read, and their graphs where these are read
      as a stream.
    - `failed`: a dead letter for each anchor at which a rule failed twice or exceeded a limit, with
      the rule and its place.
    """

    firings: list[Firing]
    events: list[CompositeEvent]
    failed: Sequence[DeadLetter] = ()


class _RuleWriter(NamedTuple):
    """The compiled template of a rule and the constants of its firings.

    - `read_above`: flags of what higher layers read, `_EVENTS` and `_GRAPHS`; 0: nothing.
    - `labels`: those of its positive roles. Rules with equal labels, or equal attributes, share one
      tuple, which is then compared by identity.
    """

    rule: str
    encoded: bytes
    event: Label
    read_above: int
    labels: tuple[Label, ...]
    attributes: tuple[Variable, ...]
    has_fresh_names: bool
    instantiate: InstantiateTemplate


class _RuleWriters(dict[int, _RuleWriter]):
    """The writers of a layer's rules by number, each compiled when its rule first fires: of many
    rules most rarely fire.
    """

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], above: Set[MadeStream]) -> None:
        self._layer = layer
        self._attributes = attributes
        self._above = above
        self._interned: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __missing__(self, number: int) -> _RuleWriter:
        rule = self._layer.rules[number].rule
        labels, names = tuple(role.label for role in positive_roles(rule)), self._attributes[rule.event]
        labels, names = self._interned.setdefault(labels, labels), self._interned.setdefault(names, names)
        template = compile_template(rule.template, names)
        writer = self[number] = _RuleWriter(
            rule.name,
            rule.name.encode(),
            rule.event,
            _EVENTS * (rule.event in self._above) + _GRAPHS * (MadeGraphs(rule.event) in self._above),
            labels,
            names,
            template.has_fresh_names,
            template.instantiate,
        )
        return writer


EmitFirings: TypeAlias = Callable[[list[Firing]], None]
"""A consumer of the firings of a moment in chunks, in no order, while the moment is evaluated."""


class EmissionFailed(BaseException):
    """A failure of the caller that takes firings; a `BaseException`, so that handlers of rule
    failures do not catch it.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class StageTwo:
    """A compiled layer and the templates of its rules. `above` are the composite events, and the
    streams of their graphs, that higher layers read; `counted` names the rules of which the
    bindings left after each clause are counted. `explains`: the first attribute of each firing is
    `BECAUSE`.
    """

    def __init__(
        self,
        layer: Layer,
        attributes: Mapping[Label, tuple[Variable, ...]],
        clock: Clock,
        above: Set[MadeStream],
        limits: Limits = LIMITS,
        counted: Set[str] = frozenset(),
        *,
        explains: bool = False,
    ) -> None:
        self._layer = layer
        self._limits = limits
        self._clock = clock
        self._explains = explains
        self._operator = self._compiled(layer, attributes, clock, limits, counted)
        self._names = [placed.rule.name for placed in layer.rules]
        self._writers = _RuleWriters(layer, attributes, above)

    def _compiled(
        self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits, counted: Set[str]
    ) -> Operator:
        """The operator of the layer."""
        return Operator(layer, attributes, clock, limits, counted)

    def start(self, borrowed: Mapping[int, PortStore] = MappingProxyType({})) -> State:
        """The state of a partition before the first instant; `borrowed` are stores by port that
        another state owns and updates."""
        return self._operator.start(borrowed)

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self._operator.restore(written)

    def counter(self) -> LayerCounter:
        """A new counter. States with the same counter are counted together."""
        return self._operator.counter()

    def rule_counts(self, counter: LayerCounter) -> dict[str, RuleCounts]:
        """The counts by the name of the rule, of rules with an anchor, an event, a partial match
        or an error."""
        counted = counter.counts(self._names).items()
        return {name: each for name, each in counted if each.anchors or each.events or each.furthest or each.errors or each.delay_errors}

    def next_due(self, state: State) -> Micros | None:
        """The time of the next delayed anchor; None: there is none."""
        return self._operator.next_due(state)

    def keep(self, state: State, time: Micros, arrivals: Arrivals, *, ended: bool = False) -> None:
        """Store events that arrive after the step of their moment, for later windows and delayed
        anchors."""
        self._operator.keep(state, time, arrivals, ended=ended)

    def step(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        partition: int = 0,
        *,
        ended: bool = False,
        emit: EmitFirings | None = None,
    ) -> LayerResult:
        """The result of a moment; changes the state in place.

        The time is later than all earlier ones, and not later than `next_due`. `ended`: the moment
        is after the last instant. `emit` receives firings in chunks where a moment has many.
        """
        BOUNDS.start(self._limits.literal, self._limits.text)
        operator = self._operator
        if emit is None:
            matched, chunks = operator.step(state, time, arrivals, partition, ended=ended), None
        else:
            chunks = _ChunkWriter(self, time, emit, state.counter.events)
            try:
                matched = operator.step(state, time, arrivals, partition, ended=ended, emit=chunks.write)
            except EmissionFailed as failure:
                raise failure.error from None
        if not matched and not operator.failures and (chunks is None or chunks.is_empty):
            return NOTHING
        return self._result(state, time, matched, chunks)

    def step_fact(self, state: State, time: Micros, port: int, values: AttributeValues, *, emit: EmitFirings | None = None) -> LayerResult:
        """The result of `step` at an instant with one fact, which arrives at one port."""
        operator = self._operator
        take = (state.take_facts or operator.take_facts(state))[port]
        if take is None:
            return self.step(state, time, {port: [(0, values)]}, emit=emit)
        BOUNDS.start(self._limits.literal, self._limits.text)
        chunks = None
        try:
            matched = take(time, values)
        except LoneFactFailed as failed:
            chunks = None if emit is None else _ChunkWriter(self, time, emit, state.counter.events)
            try:
                matched = operator.resume_fact(state, port, failed, None if chunks is None else chunks.write)
            except EmissionFailed as failure:
                raise failure.error from None
        if not matched and not operator.failures and (chunks is None or chunks.is_empty):
            return NOTHING
        return self._result(state, time, matched, chunks)

    def _result(self, state: State, time: Micros, matched: Sequence[Match], chunks: _ChunkWriter | None) -> LayerResult:
        """The result of a step that has matches, failures, or chunks of firings emitted before."""
        operator = self._operator
        result = self.write_firings(time, matched, {} if chunks is None else chunks.repeats)
        written = state.counter.events
        for firing in result.firings:
            written[firing[1]] += 1
        if chunks is not None and not chunks.is_empty:
            result = LayerResult(result.firings, chunks.events + result.events, [*chunks.failed, *result.failed])
        if operator.failures:
            letters = [self._dead_letter(time, each) for each in operator.failures]
            operator.failures.clear()
            result = result._replace(failed=[*dict.fromkeys(letters), *result.failed])
        return result

    def write_firings(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """The firings of matches, without those whose graphs cannot be written. `repeats` counts
        equal matches by digest, earlier chunks included.
        """
        before = repeats.copy() if repeats else {}
        try:
            return self._write(time, matched, repeats)
        except LimitExceeded:
            repeats.clear()
            repeats.update(before)
            return self._write_by_anchor(time, matched, repeats)
        except Exception as error:
            repeats.clear()
            repeats.update(before)
            return self._write_each(time, matched, repeats, error)

    def _write_by_anchor(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """The firings of those rules and anchors whose graphs have no more computed text than one
        anchor may have.
        """
        firings: list[Firing] = []
        events: list[CompositeEvent] = []
        failed: list[DeadLetter] = []
        for (number, _), group in groupby(matched, key=lambda match: (match[0], id(match[2][0]))):
            matches = list(group)
            BOUNDS.restart()
            try:
                result = self._write(time, matches, repeats)
            except LimitExceeded:
                failed.append(self._dead_letter(time, LimitExcess(number, matches[0][2][0], AnchorLimit.TEXT)))
            else:
                firings += result.firings
                events += result.events
        BOUNDS.restart()
        return LayerResult(firings, events, failed)

    def _write_each(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int], first: Exception) -> LayerResult:
        """The firings of the matches that can be written one by one, after `first` was raised for
        all together.
        """
        reraise_in_tests(first, FallbackKind.GRAPHS)
        writable: list[Match] = []
        failed: list[DeadLetter] = []
        for each in matched:
            try:
                self._write(time, [each], {})
            except Exception as error:
                number, _, bound, _ = each
                failed.append(self._dead_letter(time, RuleFailure(number, bound[0], error_line(error))))
            else:
                writable.append(each)
        if not failed:
            record_fallback(first, FallbackKind.GRAPHS)
        return self._write(time, writable, repeats)._replace(failed=failed)

    def _dead_letter(self, time: Micros, failure: RuleFailure | LimitExcess) -> DeadLetter:
        placed = self._layer.rules[failure.rule]
        rule, names = placed.rule, placed.rule.anchor.source.attributes
        attributes = {name: term for name, term in zip(names, failure.anchor[2], strict=True) if term is not None}
        if isinstance(failure, RuleFailure):
            reason, text = Reason.FAILED, json.dumps({"event": rule.anchor.label, "attributes": attributes}, ensure_ascii=False)
            why = f"rule {rule.name} fails at it: {failure.error}"
        else:
            source, limits = rule.anchor.source, self._limits
            shown = {name: term for name, term in attributes.items() if not isinstance(source, FactSource) or name in source.projected}
            anchor = f"{rule.anchor.label} {json.dumps(shown, ensure_ascii=False)}"
            match failure.limit:
                case AnchorLimit.MATCHES:
                    most = f"{limits.matches:,} matches of a branch"
                case AnchorLimit.PROBES:
                    most = f"{limits.probes:,} candidates tried"
                case AnchorLimit.TEXT:
                    most = f"{limits.text:,} bytes of computed terms"
                case _:
                    assert_never(failure.limit)
            clause = AT_THE_CLAUSE + described_clause(rule.clauses[failure.place - 1]) if failure.place else ""
            reason, text = Reason.LIMIT, rule.name
            why = f"rule {rule.name} goes over a limit at its anchor {anchor}: more than {most}{clause}"
        return DeadLetter.of_unit(reason, rule.name, rule.span, time, why, text)

    def _write(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """The firings of matches. Matches of the same events are adjacent, and their firings share
        texts and attributes, which are compared by identity with those of the last match.
        """
        writers, new = self._writers, tuple.__new__
        firings: list[Firing] = []
        events: list[CompositeEvent] = []
        text, digest = b"", b""
        last_bound: object = None
        last_labels: object = None
        last_values: object = None
        last_names: object = None
        pairs: _Pairs = ()
        for number, ordinal, bound, values in matched:
            rule, encoded, event, read_above, labels, names, has_fresh_names, instantiate = writers[number]
            if has_fresh_names:
                if bound is not last_bound or labels is not last_labels:
                    text = match_text(time, _named(labels, bound), 0)
                    last_bound, last_labels = bound, labels
                digest = digest_of(encoded, text)
                if digest in repeats:
                    again = repeats[digest] = repeats[digest] + 1
                    digest = digest_of(encoded, match_text(time, _named(labels, bound), again))
                else:
                    repeats[digest] = 0
            if values is not last_values or names is not last_names:
                pairs = tuple([(name, value) for name, value in zip(names, values, strict=True) if value is not None])
                last_values, last_names = values, names
            graph, dropped = instantiate(values, digest)
            firings.append(new(Firing, (time, rule, event, pairs, graph, dropped)))
            if read_above:
                if read_above & _EVENTS:
                    events.append((event, (ordinal, values)))
                if read_above & _GRAPHS:
                    events.append((MadeGraphs(event), (ordinal, graph_row(graph))))
        if self._explains:
            firings = [self._explained(*each) for each in zip(firings, matched, strict=True)]
        return LayerResult(firings, events)

    def _explained(self, firing: Firing, match: Match) -> Firing:
        """The firing with the bound events of its match as JSON, the anchor first:
        `{"Smoke": {"time": 12, "attributes": {"room": "<http://e/hall>"}}}`."""
        number, _, bound, _ = match
        events = {}
        for role, (time, _, values) in zip(positive_roles(self._layer.rules[number].rule), bound, strict=True):
            source = role.source
            shown = source.projected if isinstance(source, FactSource) else source.attributes
            pairs = zip(source.attributes, values, strict=False)  # a rule that is cut carries what it reads
            attributes = {name: value for name, value in pairs if value is not None and name in shown}
            events[role.label] = {"time": format_time(time - role.least_delay, self._clock), "attributes": attributes}
        return firing._replace(attributes=((BECAUSE, json.dumps(events, ensure_ascii=False)), *firing.attributes))


class _ChunkWriter:
    """The firings of a moment that has many, in chunks.

    Equal matches have equal anchors, and matches of one anchor are adjacent, so `repeats` is
    cleared at each new anchor.
    """

    def __init__(self, stage: StageTwo, time: Micros, emit: EmitFirings, written: dict[str, int]) -> None:
        self._stage = stage
        self._time = time
        self._emit = emit
        self._written = written
        self._anchor: AttributeValues | None = None
        self.is_empty = True
        self.repeats: dict[bytes, int] = {}
        self.events: list[CompositeEvent] = []
        self.failed: list[DeadLetter] = []

    def write(self, matched: list[Match]) -> None:
        """Write matches as firings, a chunk at a time."""
        self.is_empty = False
        for start in range(0, len(matched), _CHUNK_SIZE):
            chunk = matched[start : start + _CHUNK_SIZE]
            if chunk[0][2][0][2] != self._anchor:
                self.repeats.clear()
            self._anchor = chunk[-1][2][0][2]
            result = self._stage.write_firings(self._time, chunk, self.repeats)
            self.events += result.events
            self.failed += result.failed
            for firing in result.firings:
                self._written[firing[1]] += 1
            try:
                self._emit(result.firings)
            except Exception as error:
                raise EmissionFailed(error) from error


BECAUSE: Final = ""
"""The name of the attribute that explains a firing, which no variable has."""

AT_THE_CLAUSE: Final = ", at the clause "
"""The text before the clause in the reason of a dead letter of a limit."""


def described_clause(clause: Clause) -> str:
    """A clause in the syntax of the rule language, without its window."""
    label = clause.role.label
    match clause:
        case Choose(_, mode, _, count, also):
            return f"{'also ' if also else ''}{mode.value} {label if count is None else f'{count} {label}'}"
        case Absent():
            return f"not {label}"
        case _:
            return f"?{clause.variable} = {clause.function.lower()}(…) of {label}"


def _named(labels: Sequence[Label], bound: Sequence[StoredEvent]) -> list[tuple[Label, Micros, AttributeValues]]:
    return [(label, time, values) for label, (time, _, values) in zip(labels, bound, strict=True)]


NOTHING: Final = LayerResult([], [])
"""The result of a step without firings, events and dead letters; it must not be changed."""

_EVENTS: Final = 1
_GRAPHS: Final = 2

_CHUNK_SIZE: Final = 5_000
"""Matches in a chunk of firings."""

_Pairs: TypeAlias = tuple[tuple[Variable, Term], ...]


# Stage two of a layer in which rules are cut into stages of their clauses (scale.md, section 1).
#
# Bindings that leave a stage are events for higher layers, like composite events; the router delivers
# each to the bucket of its next key.
#
# Operator of a layer with stages of rules: bindings arrive, and bindings leave.
#
# Idea: bindings arrive at their own ports at the time of their anchors, after the events of that time
# have been stored. The bindings that leave a stage are collected apart from matches, as rows for the
# ports of the next layers.
# Invariant: results do not depend on the order of bindings: the output is sorted by its content, and
# a rule that consumes has one stage.


class StageOperator(Operator):
    """A compiled layer in which rules have stages. `sent` collects the leaving bindings until
    `drain_bindings`."""

    def __init__(
        self,
        layer: Layer,
        attributes: Mapping[Label, tuple[Variable, ...]],
        clock: Clock,
        limits: Limits = LIMITS,
        counted: Set[str] = frozenset(),
    ) -> None:
        super().__init__(layer, attributes, clock, limits, counted)
        self._is_single_depth = False
        self.lone_groups = self._lone_groups()
        self._binding_ports = [number for number, port in enumerate(layer.ports) if isinstance(port.stream, BindingStream)]
        self._leaves = {number: stream for number, placed in enumerate(layer.rules) if (stream := placed.stage.leaves) is not None}
        self._sent: list[Match] = []

    def drain_bindings(self) -> list[tuple[BindingStream, Arrival]]:
        """The bindings that have left since the last call, each with its stream."""
        leaves = self._leaves
        found: list[tuple[BindingStream, Arrival]] = [(leaves[rule], (0, values)) for rule, _, _, values in self._sent]
        self._sent.clear()
        return found

    def _step_by_depth(
        self, state: State, time: Micros, arrivals: Arrivals, present: dict[int, list[StoredEvent]], buffer: MatchBuffer, *, ended: bool
    ) -> None:
        for port in self._binding_ports:
            if port in arrivals:
                present[port] = [(time, ordinal, values) for ordinal, values in arrivals[port]]
        super()._step_by_depth(state, time, arrivals, present, buffer, ended=ended)

    def _run_group(
        self, group: CompiledGroup, anchors: Sequence[SearchStart], remaining: Iterator[SearchStart], state: State, buffer: MatchBuffer
    ) -> None:
        matcher = group.matcher
        if matcher.decode is not None:
            starts: Sequence[SearchStart] = matcher.decode(anchors)  # type: ignore[arg-type]
            anchors, remaining = starts, iter(starts)
        super()._run_group(group, anchors, remaining, state, MatchBuffer(self._sent, 0, None) if matcher.sends else buffer)


class CutStageTwo(StageTwo):
    """A compiled layer with stages of rules that are cut."""

    _operator: StageOperator

    def _compiled(
        self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits, counted: Set[str]
    ) -> Operator:
        return StageOperator(layer, attributes, clock, limits, counted)

    def step(
        self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False, emit: EmitFirings | None = None
    ) -> LayerResult:
        """The result of a moment; `events` include the bindings that leave a stage."""
        result = super().step(state, time, arrivals, partition, ended=ended, emit=emit)
        sent = self._operator.drain_bindings()
        return result._replace(events=[*result.events, *sent]) if sent else result


def stage_two_of(layer: Layer) -> type[StageTwo]:
    """The class of a layer's stage two; a layer without cut rules has no cost for them."""
    return StageTwo if all(placed.stage.is_whole for placed in layer.rules) else CutStageTwo
