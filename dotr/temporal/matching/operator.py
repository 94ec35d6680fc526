"""Operator: one layer of rules as a function of a partition's state, a time, and the arrivals.

Idea: the arrivals of an instant are stored, then rules are evaluated depth by depth. Before each
depth, the composite events that its rules read are complete, sorted by tie key, and stored. The
events of a port with a delayed anchor wait in a queue per delay, in the order in which they become
due. Due anchors are addressed like ports, numbered from -1 down.
Invariant: `step` depends on the state and its arguments alone: no clock, no random number.
Cost: an instant costs its arrivals and the rules that they anchor, independent of the number of
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from operator import length_hint
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from dotr.errors.fallbacks import FallbackKind, error_line, record_fallback, reraise_in_tests
from dotr.evaluation.limits import LIMITS, LimitExceeded, Limits
from dotr.model import dataclass
from dotr.model.algebra import Expression
from dotr.model.event_order import AttributeValues, tie_key
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer, PlacedRule, Port, PortNeeds
from dotr.temporal.layout.retention import AnchorDelay, Standing, anchor_delay
from dotr.temporal.layout.stages import HeldFirings
from dotr.temporal.matching.event_store import (
    EventTest,
    FiringStore,
    IndexSpec,
    InsertEvents,
    Measure,
    NewestEvents,
    PortStore,
    RunStore,
    StandingStore,
    compile_insert,
)
from dotr.temporal.matching.events import (
    FLUSH_SIZE,
    AnchorQueue,
    DelayOf,
    EmitMatches,
    Match,
    MatchBuffer,
    QueueByValue,
    ReadTerms,
    SearchStart,
    StoredEvent,
    anchor_of,
)
from dotr.temporal.matching.lone_facts import MANY_FACTS, LoneFactFailed, LoneGroup, PortInsertion, TakeFact, compile_lone_fact
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.candidates import AnchorLimitExceeded
from dotr.temporal.matching.matcher.compile import FindMatches, Matcher
from dotr.temporal.matching.matcher.emitter import compile_delay, event_condition, event_test, table_finder, terms_reader
from dotr.temporal.matching.rule_counts import LayerCounter
from dotr.temporal.matching.rule_failures import LimitExcess, RuleFailure, SingleRule, isolate_rules, match_exactly
from dotr.temporal.matching.rule_templates import NumberedRule, PositionalStage, RuleTemplate, group_rules
from dotr.temporal.matching.state import State

Arrival: TypeAlias = tuple[int, AttributeValues]
"""The ordinal and the values of an event that arrives at a port."""

Arrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""The arrivals of one instant by port; the facts of a port in tie order."""


NO_GROUP: Final = -1
"""Entry of `lone_groups` for a port whose facts anchor no group."""

MANY_GROUPS: Final = -2
"""Entry of `lone_groups` for a port whose facts anchor several groups, or groups that are evaluated
by depth or after a delay."""

_NOTHING_BORROWED: Final[Mapping[int, PortStore]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGroup:
    """A compiled rule group.

    - `number`: its place among the groups of the layer.
    - `find`: that of its matcher.
    - `anchor`: the port (below 0: the queue) of its anchors.
    - `indexes`: the (port, index) of each clause; then that of the firings of each rule, where the
      rules say `once`.
    - `rules`: the numbers of its rules.
    - `unbuffered_anchors`: the number of anchors whose matches need no buffer.
    """

    number: int
    matcher: Matcher
    find: FindMatches
    anchor: int
    indexes: tuple[tuple[int, int], ...]
    rules: tuple[int, ...]
    unbuffered_anchors: int


@dataclass(frozen=True, slots=True, eq=False)
class _CompiledPort:
    """A compiled port.

    - `holds_facts`: its events are facts of stage one, or none arrive.
    - `is_stored`: a clause looks its events up.
    - `retention`: that of its events in µs.
    - `whole`, `newest`: those of `StandingStore`.
    """

    holds_facts: bool
    is_stored: bool
    retention: Micros
    insertion: PortInsertion
    insert: InsertEvents
    whole: Micros | None = None
    newest: tuple[NewestEvents, ...] = ()
    holds_firings: bool = False

    def store(self) -> PortStore:
        """A new store of the port's events."""
        if self.holds_firings:
            return FiringStore(self.retention)
        if self.newest:
            return StandingStore(self.retention, len(self.insertion.specs), self.insert, self.whole, self.newest)
        return PortStore(self.retention, len(self.insertion.specs), self.insert)

    @property
    def may_drop_log(self) -> bool:
        """True if its events are those of the runs of one index, which hold nothing else."""
        if len(self.insertion.specs) != 1 or self.holds_firings:
            return False
        (spec,) = self.insertion.specs
        return spec.constants is None and spec.measure in (None, Measure.ABOVE, Measure.BELOW)


class _DelayByValue(NamedTuple):
    """A queue whose delays are values of the events: the port, the delay of an event, the expression
    with the terms that it reads, and its rules by number, each with the number of its group and the
    test whether an event is its anchor."""

    port: int
    delay_of: DelayOf
    value: Expression
    terms: ReadTerms
    rules: Sequence[tuple[int, int, EventTest]]


def _compile_port(port: Port, retention: Micros | None, needs: PortNeeds, specs: Sequence[IndexSpec], clock: Clock) -> _CompiledPort:
    """A port with indexes of its events."""
    insertion = PortInsertion(
        specs,
        [event_condition(spec.own, port.attributes, clock) if spec.own else None for spec in specs],
        [table_finder(spec.constants, port.attributes) if spec.constants else None for spec in specs],
        port.attributes,
    )
    insert = compile_insert(insertion.specs, insertion.tests, insertion.finders)
    newest = tuple([NewestEvents(*_needed_of_key(each, port.attributes, clock)) for each in needs.standing])
    holds_firings = isinstance(port.stream, HeldFirings)
    holds_facts = isinstance(port.stream, int) or holds_firings
    return _CompiledPort(holds_facts, bool(specs), retention or 0, insertion, insert, needs.whole, newest, holds_firings)


def _needed_of_key(standing: Standing, attributes: Sequence[Variable], clock: Clock) -> tuple[tuple[int, ...], EventTest | None, Micros]:
    test = event_test(standing.own, attributes, clock) if standing.own else None
    return tuple(map(attributes.index, standing.keys)), test, standing.far


class Operator:
    """A compiled layer.

    `attributes` are the attribute names of the composite events, by label. `failures` collects
    failing rules and exceeded limits until its reader removes them. `counted` are the names of the
    rules whose bindings are counted after each clause; each of these has its own matcher.
    """

    def __init__(
        self,
        layer: Layer,
        attributes: Mapping[Label, tuple[Variable, ...]],
        clock: Clock,
        limits: Limits = LIMITS,
        counted: Set[str] = frozenset(),
    ) -> None:
        self.layer = layer
        self._clock = clock
        self._limits = limits
        self._attributes = attributes
        self._single_rules: dict[int, list[SingleRule]] = {}
        self.failures: list[RuleFailure | LimitExcess] = []
        specs_of_port: list[dict[IndexSpec, int]] = [{} for _ in layer.ports]
        *first_consumed, self._consumed_sets = self._first_consumed = layer.first_consumed
        self._delays = layer.queues
        stages = {number: positional_stage(placed, layer) for number, placed in enumerate(layer.rules)}
        self._stages = {number: stage for number, stage in stages.items() if stage is not None}
        depths = 1 + max((placed.depth for placed in layer.rules), default=0)
        self._groups: list[CompiledGroup] = []
        self._anchored: list[dict[int, list[CompiledGroup]]] = [{} for _ in range(depths)]
        for depth in range(depths):
            rules = [self._numbered(number) for number, placed in enumerate(layer.rules) if placed.depth == depth]
            groups = group_rules([each for each in rules if each[1].name not in counted], self._stages)
            groups += [group for each in rules if each[1].name in counted for group in group_rules([each])]
            for rule_group in groups:
                consumed = [first_consumed[number] for number in rule_group.numbers]
                if layer.rules[rule_group.numbers[0]].rule.name in counted:
                    matcher = compile_matcher(rule_group, consumed, clock, limits, counted=True)
                else:
                    matcher = compile_matcher(rule_group, consumed, clock, limits)
                source = self._source_of(rule_group.template)
                group = CompiledGroup(
                    len(self._groups),
                    matcher,
                    matcher.find,
                    source,
                    (*_indexes_of(rule_group.template, matcher, specs_of_port), *self._firings_of(rule_group.numbers)),
                    rule_group.numbers,
                    matcher.unbuffered_anchors(FLUSH_SIZE),
                )
                self._anchored[depth].setdefault(source, []).append(group)
                self._groups.append(group)
        self._ports = self._compiled_ports(specs_of_port)
        self._delays_by_value = self._compiled_delays()
        self._lone_facts: dict[tuple[int, bool], Callable[[State, PortStore], TakeFact] | None] = {}
        self._run_inserts: dict[int, InsertEvents] = {}
        self._is_single_depth = depths == 1 and all(port.holds_facts for port in self._ports)
        self.lone_groups = self._lone_groups()
        self._complete = self._completion(depths)
        read = {port.stream for port in layer.ports}
        self._composite_labels = [placed.rule.event if placed.rule.event in read else None for placed in layer.rules]

    def _compiled_ports(self, specs_of_port: Sequence[Mapping[IndexSpec, int]]) -> list[_CompiledPort]:
        layer = self.layer
        ports = zip(layer.ports, layer.retention, layer.needs, specs_of_port, strict=True)
        return [_compile_port(port, retention, needs, list(specs), self._clock) for port, retention, needs, specs in ports]

    def _compiled_delays(self) -> dict[int, _DelayByValue]:
        """The queues whose delays are values of the events, by number."""
        found: dict[int, _DelayByValue] = {}
        for (port, delay), number in self._delays.items():
            if delay.value is not None:
                rules = [
                    (rule, group.number, event_test(anchor.constraints, anchor.source.attributes, self._clock))
                    for group in self._groups
                    for rule in group.rules
                    if group.anchor == -1 - number
                    for anchor in (self.layer.rules[rule].rule.anchor,)
                ]
                names = self.layer.ports[port].attributes
                found[number] = _DelayByValue(
                    port, compile_delay(delay, names, self._clock), delay.value, terms_reader([delay.value], names, self._clock), rules
                )
        return found

    def _firings_of(self, rules: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The (port, index) of the firings of each rule, where the rules say `once`."""
        for number in rules:
            if (port := self.layer.rules[number].once) is not None:
                yield port, 0

    def _numbered(self, number: int) -> NumberedRule:
        return numbered_rule(number, self.layer, self._attributes[self.layer.rules[number].rule.event])

    def _source_of(self, template: RuleTemplate) -> int:
        """The port (below 0: the queue) of the anchors, or of the bindings that enter a stage."""
        anchor = template.anchor
        if template.stage is not None and template.stage.enters is not None:
            return template.stage.port
        delay = AnchorDelay(anchor.delay, anchor.delayed_by)
        return -1 - self._delays[anchor.port, delay] if anchor.delay else anchor.port

    def _lone_groups(self) -> list[int]:
        """For each port the number of the only group that its facts anchor, or `NO_GROUP`, or
        `MANY_GROUPS` where `take_facts` has no function.

        Where port 0 anchors group 0, port 1 none, and port 2 groups 1 and 2: `[0, -1, -2]`.
        """
        if not self._is_single_depth or self._delays:
            return [MANY_GROUPS] * len(self.layer.ports)
        anchored = [self._anchored[0].get(port, ()) for port in range(len(self.layer.ports))]
        return [MANY_GROUPS if len(groups) > 1 else groups[0].number if groups else NO_GROUP for groups in anchored]

    def _completion(self, depths: int) -> list[list[tuple[int, Label]]]:
        """The event ports that are complete before each depth, and after the last."""
        last: dict[Label, int] = {}
        for placed in self.layer.rules:
            last[placed.rule.event] = max(placed.depth, last.get(placed.rule.event, 0))
        complete: list[list[tuple[int, Label]]] = [[] for _ in range(depths + 1)]
        for number, port in enumerate(self.layer.ports):
            if isinstance(port.stream, str):
                complete[last[port.stream] + 1 if port.stream in last else 0].append((number, port.stream))
        return complete

    def start(self, borrowed: Mapping[int, PortStore] = _NOTHING_BORROWED) -> State:
        """The state before the first instant. `borrowed`: by port, stores that another state
        owns."""
        stores = [borrowed[number] if number in borrowed else port.store() for number, port in enumerate(self._ports)]
        indexes = [[stores[port].indexes[index] for port, index in group.indexes] for group in self._groups]
        return State(stores, [set() for _ in range(self._consumed_sets)], indexes, self._queues(), self.counter())

    def _queues(self) -> list[AnchorQueue]:
        """The empty queues of delayed anchors."""
        by_value = self._delays_by_value
        return [
            QueueByValue(delay.most, by_value[number].delay_of) if number in by_value else AnchorQueue(delay.most)
            for (_, delay), number in self._delays.items()
        ]

    def counter(self) -> LayerCounter:
        """A new counter of the rules, all counts 0."""
        return LayerCounter([group.matcher.counter() for group in self._groups], [placed.rule.name for placed in self.layer.rules])

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self.start().restore(written)

    def next_due(self, state: State) -> Micros | None:
        """The time (µs) at which the next delayed anchor is due."""
        return min([due for waiting in state.waiting if (due := waiting.next_due()) is not None], default=None)

    def step(
        self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False, emit: EmitMatches | None = None
    ) -> list[Match]:
        """Evaluates the layer at a time (µs) later than all before and not later than `next_due`.

        Composite events of lower layers may arrive in any order. `partition` numbers the partition,
        so that ordinals of events of different partitions differ. With `ended`, the last instant is
        over and arrivals start no delay. `emit` receives matches in parts where there are many; the
        rest is returned.
        """
        stores = state.stores
        present: dict[int, list[StoredEvent]] = {}
        matches: list[Match] = []
        base = (self.layer.number << 24 | partition) << 32
        if self._delays:
            for number, waiting in enumerate(state.waiting):
                if waiting.next_due() == time:
                    present[-1 - number] = waiting.pop_due(time)
        for port, events in arrivals.items():
            compiled = self._ports[port]
            if compiled.holds_facts:
                if len(events) == 1:
                    ((ordinal, values),) = events
                    stored = [(time, ordinal, values)]
                else:
                    stored = [(time, ordinal, values) for ordinal, values in events]
                present[port] = stored
                if compiled.is_stored:
                    stores[port].add(stored)
        if self._delays_by_value and not ended:
            for port in list(present):
                self._delay_by_value(state, port, time, present)
        state.countdown -= 1
        if not state.countdown:
            state.sweep(time)
        if self._is_single_depth:
            anchored, indexes, counters = self._anchored[0], state.indexes, state.counter.groups
            for port, stored in present.items():
                for group in anchored.get(port, ()):
                    remaining, before = iter(stored), len(matches)
                    if emit is not None and len(stored) + before > group.unbuffered_anchors:
                        buffer = MatchBuffer(matches, base, emit)
                        self._run_group(group, stored, remaining, state, buffer)
                        base = buffer.base
                        continue
                    try:
                        number = group.number
                        group.find(remaining, indexes[number], state.consumed, matches, base, counters[number])
                    except Exception as error:
                        buffer = MatchBuffer(matches, base, emit)
                        self._resume(group, stored, remaining, before, error, state, buffer)
                        base = buffer.base
        else:
            buffer = MatchBuffer(matches, base, emit, self._composite_labels)
            self._step_by_depth(state, time, arrivals, present, buffer, ended=ended)
        if self._delays and not ended:
            for ((port, _), number), waiting in zip(self._delays.items(), state.waiting, strict=True):
                if number not in self._delays_by_value:
                    waiting.extend(present.get(port, ()))
        return matches

    def _delay_by_value(self, state: State, port: int, time: Micros, present: dict[int, list[StoredEvent]]) -> None:
        """Lets the events of a port that are present wait for delays of their own; those without a
        delay are due now, after those that have waited."""
        for number, queue in self._delays_by_value.items():
            if queue.port != port:
                continue
            waiting, events = state.waiting[number], present[port]
            waiting.extend(events)
            if waiting.next_due() == time:
                present.setdefault(-1 - number, []).extend(waiting.pop_due(time))
            for event in (event for event in events if queue.delay_of(event[0], event[2]) is None):
                for rule, group, is_anchor in queue.rules:
                    if is_anchor(time, event[2]):
                        state.counter.groups[group].fail(rule, 0, event, queue.value, queue.terms(time, event[2]))

    def take_facts(self, state: State) -> list[TakeFact | None]:
        """Sets and returns the lone-fact functions of a state by port; None where a port needs
        `step`.

        A function evaluates a time at which one fact, with number 0, is the only arrival of
        partition 0. If it raises `LoneFactFailed`, `resume_fact` returns the matches.
        """
        ports = enumerate(self.lone_groups)
        state.take_facts = [None if group == MANY_GROUPS else self._counting_taker(state, port, MANY_FACTS) for port, group in ports]
        return state.take_facts

    def _counting_taker(self, state: State, port: int, facts: int, take: TakeFact | None = None) -> TakeFact:
        """The lone-fact function `take` of a port (None: the interpreted one), which replaces itself
        with a generated one after a number of facts."""
        step = take or partial(self._step_fact, state, port)

        def counting(time: Micros, values: AttributeValues) -> Sequence[Match]:
            nonlocal facts
            facts -= 1
            if not facts and state.take_facts is not None:
                generated = self._generated_taker(state, port)
                if generated is not None:
                    state.take_facts[port] = generated
                    return generated(time, values)
            return step(time, values)

        return counting

    def _generated_taker(self, state: State, port: int) -> TakeFact | None:
        """The generated lone-fact function of a port. From now on its store does without a log if it
        can, until the log is asked for; then it has one for four times as many facts as are stored."""
        compiled, logged = self._ports[port], state.stores[port]
        if not compiled.may_drop_log or not RunStore.can_replace(logged):
            make = self._lone_fact(port)
            return None if make is None else make(state, logged)
        make = self._lone_fact(port, has_log=False)
        if make is None:
            return None

        def put(store: PortStore) -> None:
            state.stores = (*state.stores[:port], store, *state.stores[port + 1 :])

        def put_back() -> None:
            put(store.with_log())
            with_log = self._lone_fact(port)
            if state.take_facts is not None and with_log is not None:
                facts = max(MANY_FACTS, 4 * len(logged.log))
                state.take_facts[port] = self._counting_taker(state, port, facts, with_log(state, logged))

        if port not in self._run_inserts:
            of_port = compiled.insertion
            self._run_inserts[port] = compile_insert(of_port.specs, of_port.tests, of_port.finders, takes_all=True)
        store = RunStore(logged, self._run_inserts[port], put_back)
        put(store)
        return make(state, store)

    def _lone_fact(self, port: int, *, has_log: bool = True) -> Callable[[State, PortStore], TakeFact] | None:
        """The factory of the generated function of a port; None if each anchor is counted exactly,
        or every binding is counted."""
        if (port, has_log) not in self._lone_facts:
            number = self.lone_groups[port]
            lone = self._groups[number].matcher.lone if number >= 0 else None
            search = None if lone is None else lone()
            make = None
            if number < 0 or search is not None:
                group = None if search is None else LoneGroup(number, search, self.layer.number << 56)
                compiled = self._ports[port]
                make = compile_lone_fact(compiled.insertion, compiled.retention, group, has_sweeps=bool(compiled.newest), has_log=has_log)
            self._lone_facts[port, has_log] = make
        return self._lone_facts[port, has_log]

    def _step_fact(self, state: State, port: int, time: Micros, values: AttributeValues) -> list[Match]:
        """The matches of `step` in partition 0 at a time (µs) at which one fact, with number 0, is
        the only arrival; `lone_groups` of the port is not `MANY_GROUPS`.

        If it raises `LoneFactFailed`, `resume_fact` returns the matches.
        """
        event = (time, 0, values)
        if self._ports[port].is_stored:
            state.stores[port].add_one(event)
        state.countdown -= 1
        if not state.countdown:
            state.sweep(time)
        matches: list[Match] = []
        number = self.lone_groups[port]
        if number >= 0:
            try:
                self._groups[number].find(
                    (event,), state.indexes[number], state.consumed, matches, self.layer.number << 56, state.counter.groups[number]
                )
            except Exception as error:
                raise LoneFactFailed(event, error) from error
        return matches

    def resume_fact(self, state: State, port: int, failed: LoneFactFailed, emit: EmitMatches | None = None) -> list[Match]:
        """The matches of a fact at which a lone-fact function has failed, evaluated rule by rule if
        necessary."""
        group, matches = self._groups[self.lone_groups[port]], list[Match]()
        self._resume(group, (failed.event,), iter(()), 0, failed.error, state, MatchBuffer(matches, self.layer.number << 56, emit))
        return matches

    def keep(self, state: State, time: Micros, arrivals: Arrivals, *, ended: bool) -> None:
        """Stores events of a time (µs), in tie order, after its step. Their ports had no arrivals
        in that step, and they anchor no matches at that time.
        """
        for port, events in arrivals.items():
            stored = [(time, ordinal, values) for ordinal, values in events]
            if self._ports[port].is_stored:
                state.stores[port].add(stored)
            for (delayed, _), number in self._delays.items():
                if delayed == port and not ended:
                    state.waiting[number].extend(stored)

    def _step_by_depth(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        present: dict[int, list[StoredEvent]],
        buffer: MatchBuffer,
        *,
        ended: bool,
    ) -> None:
        """Depth by depth: completes the events that the rules read, then evaluates the rules."""
        for depth, complete in enumerate(self._complete):
            for port, label in complete:
                events = [*arrivals.get(port, ()), *buffer.events.get(label, ())]
                if len(events) > 1:
                    names = self.layer.ports[port].attributes
                    events.sort(key=lambda event: tie_key(names, event[1]))
                if events:
                    stored = [(time, ordinal, values) for ordinal, values in events]
                    present[port] = stored
                    if self._ports[port].is_stored:
                        state.stores[port].add(stored)
                    if self._delays_by_value and not ended:
                        self._delay_by_value(state, port, time, present)
            if depth == len(self._anchored):
                break
            for group in _anchored_groups(self._anchored[depth], present):
                stored = present[group.anchor]
                self._run_group(group, stored, iter(stored), state, buffer)
            buffer.collect_events()

    def _run_group(
        self, group: CompiledGroup, anchors: Sequence[SearchStart], remaining: Iterator[SearchStart], state: State, buffer: MatchBuffer
    ) -> None:
        """Evaluates a group at the remaining anchors and flushes the buffer when it is full."""
        indexes, counter = state.indexes[group.number], state.counter.groups[group.number]
        while length_hint(remaining):
            buffer.flush()
            before = len(buffer.matches)
            try:
                group.find(buffer.until_full(remaining), indexes, state.consumed, buffer.matches, buffer.base, counter)
            except Exception as error:
                self._retry_anchor(group, anchors, remaining, before, error, state, buffer)
        buffer.flush()

    def _resume(
        self,
        group: CompiledGroup,
        anchors: Sequence[SearchStart],
        remaining: Iterator[SearchStart],
        before: int,
        error: Exception,
        state: State,
        buffer: MatchBuffer,
    ) -> None:
        """Retries the anchor at which a group failed, then evaluates the remaining anchors."""
        self._retry_anchor(group, anchors, remaining, before, error, state, buffer)
        self._run_group(group, anchors, remaining, state, buffer)

    def _retry_anchor(
        self,
        group: CompiledGroup,
        anchors: Sequence[SearchStart],
        remaining: Iterator[SearchStart],
        before: int,
        error: Exception,
        state: State,
        buffer: MatchBuffer,
    ) -> None:
        """Retries the anchor at which a group failed; `before` is the number of matches before
        the group."""
        start, matches = anchors[len(anchors) - length_hint(remaining) - 1], buffer.matches
        anchor = anchor_of(start)
        while len(matches) > before and matches[-1][2][0] is anchor:
            matches.pop()
        indexes, counter = state.indexes[group.number], state.counter.groups[group.number]
        counter.forget(anchor)
        if isinstance(error, AnchorLimitExceeded | LimitExceeded):
            self.failures += match_exactly(group.matcher, indexes, start, state, buffer, counter)
            if isinstance(error, LimitExceeded):  # the matches so far have as much computed text
                buffer.emit()
        else:
            self._retry_failed(group, start, state, buffer, error)

    def _retry_failed(self, group: CompiledGroup, start: SearchStart, state: State, buffer: MatchBuffer, first: Exception) -> None:
        """Retries a group at the anchor of the error `first` and notes the rules that fail
        again."""
        reraise_in_tests(first, FallbackKind.RULES)
        indexes, mark = state.indexes[group.number], len(buffer.matches)
        before, counter = len(self.failures), state.counter.groups[group.number]
        again = counter.repeating()
        try:
            group.find(iter((start,)), indexes, state.consumed, buffer.matches, buffer.base, again)
        except (AnchorLimitExceeded, LimitExceeded):
            del buffer.matches[mark:]
            counter.forget(anchor_of(start))
            self.failures += match_exactly(group.matcher, indexes, start, state, buffer, counter)
        except Exception as error:
            del buffer.matches[mark:]
            counter.forget(anchor_of(start))
            if len(group.rules) == 1:
                self.failures.append(RuleFailure(group.rules[0], anchor_of(start), error_line(error)))
            else:
                singly = self._rules_singly(group)
                self.failures += isolate_rules(singly, start, state, buffer, counter, is_counted=again.has_anchors)
        if not any(isinstance(each, RuleFailure) for each in self.failures[before:]):
            record_fallback(first, FallbackKind.RULES)

    def _rules_singly(self, group: CompiledGroup) -> list[SingleRule]:
        """The rules of a group, each compiled by itself."""
        if group.number not in self._single_rules:
            self._single_rules[group.number] = [self._compile_single(rule) for rule in group.rules]
        return self._single_rules[group.number]

    def _compile_single(self, rule: int) -> SingleRule:
        (group,) = group_rules([self._numbered(rule)], self._stages)
        matcher = compile_matcher(group, [self._first_consumed[rule]], self._clock, self._limits)
        specs_of_port: list[dict[IndexSpec, int]] = [{} for _ in self.layer.ports]
        indexes = _indexes_of(group.template, matcher, specs_of_port)
        ports = self._compiled_ports(specs_of_port)
        placed = self.layer.rules[rule]
        anchor = placed.rule.anchor
        delay_of = compile_delay(anchor_delay(anchor), anchor.source.attributes, self._clock)
        return SingleRule(rule, matcher, indexes, lambda: [port.store() for port in ports], delay_of, placed.once)


def _indexes_of(template: RuleTemplate, matcher: Matcher, specs_of_port: Sequence[dict[IndexSpec, int]]) -> tuple[tuple[int, int], ...]:
    """The (port, index) of each clause; new indexes are added to those of their ports."""
    clauses = zip(template.own_clauses, matcher.index_specs, strict=True)
    found = [(step.role.port, specs_of_port[step.role.port], spec) for step, spec in clauses]
    return tuple([(port, specs.setdefault(spec, len(specs))) for port, specs, spec in found])


def numbered_rule(number: int, layer: Layer, attributes: tuple[Variable, ...]) -> NumberedRule:
    """A rule of a layer by its number, with the ports of the roles of its stage and the attributes
    of its composite event."""
    placed = layer.rules[number]
    stage = placed.stage
    before, after = (-1,) * stage.first, (-1,) * (len(placed.rule.clauses) - stage.end)
    anchor = placed.ports[0] if stage.is_first else -1
    return number, placed.rule, (anchor, *before, *placed.ports[1:], *after), attributes


def positional_stage(placed: PlacedRule, layer: Layer) -> PositionalStage | None:
    """The part of a rule that a layer evaluates; None if the layer evaluates the whole rule under
    one key."""
    stage = placed.stage
    if stage.is_whole and not stage.replicated:
        return None
    ports = enumerate(placed.ports[1:], stage.first + 1)
    replicated = tuple([place for place, port in ports if layer.ports[port].is_replicated])
    return PositionalStage(stage.first + 1, stage.end, placed.ports[0], replicated, stage.enters, stage.leaves)


def _anchored_groups(anchored: Mapping[int, Sequence[CompiledGroup]], present: Mapping[int, object]) -> Sequence[CompiledGroup]:
    """The groups whose anchor port has events, enumerated from the smaller side."""
    if len(present) <= len(anchored):
        return [group for port in present for group in anchored.get(port, ())]
    return [group for port, groups in anchored.items() if port in present for group in groups]
