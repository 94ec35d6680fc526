"""A program takes over the state of another: what each rule keeps, and how that is put where the new layout looks for it.

Meaning: a rule that means what it meant keeps all; one that does not, or is new, starts empty, and sees nothing older than the change; what
was there for a rule that is gone is dropped. So the output of what is unchanged is that of the old program, uninterrupted; that of the
rest is the new program's, started then. Other background knowledge changes no rule: the events that were extracted with the old one are
kept, as what held at their instants.

Invariant: a store that unchanged rules and others would share is made two (`Port.since`), so that nothing old is ever seen by a new
rule; they are one again at the first change after the new rules' windows have passed. Cost: once, at the change, what the state holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dotr.engine.multi_query import moved_filters, share_queries
from dotr.engine.program import CompiledProgram
from dotr.engine.router import bucket_of
from dotr.layout.event_order import tie_key
from dotr.layout.layers import Layer, Layout, PlacedRule, lay_out
from dotr.layout.retention import lookbacks, roles
from dotr.model.rules import FactSource, Role
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.event_store import EventTest
from dotr.patterns.events import StoredEvent
from dotr.patterns.matcher.emitter import event_test
from dotr.patterns.state import StateSnapshot
from dotr.state.state_schema import RuleState, StateSchema, state_schema


class StateFate(Enum):
    """What becomes of a rule's state."""

    KEPT = "kept"
    EMPTY = "starts empty"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What becomes of a rule's state, and why; `moved`: it is looked for elsewhere than it was."""

    rule: str
    fate: StateFate
    why: str = ""
    moved: bool = False

    def __str__(self) -> str:
        """
        >>> print(RuleVerdict("Fire", StateFate.EMPTY, "it has changed"))
        rule Fire starts empty: it has changed
        """
        said = {StateFate.KEPT: "keeps its state", StateFate.EMPTY: "starts empty", StateFate.DROPPED: "is dropped"}[self.fate]
        where = "in another layer or under another key" if self.moved else ""
        return ": ".join(filter(None, [f"rule {self.rule} {said}" + (f", {where}" if where else ""), self.why]))


@dataclass(frozen=True, slots=True)
class StateChange:
    """What becomes of every rule, by name; since when the new program's rules are (`ProgramSpec.since`), and what its state is of. `moves`:
    state must be written anew, for its places are other ones."""

    verdicts: tuple[RuleVerdict, ...]
    since: Mapping[str, Micros]
    before: StateSchema
    after: StateSchema

    @property
    def moves(self) -> bool:
        before, after = self.before, self.after
        return (before.rules, before.keys) != (after.rules, after.keys)

    @property
    def knowledge_warning(self) -> str | None:
        """What is to be said where the background is another one; None: it is not."""
        if self.before.knowledge == self.after.knowledge:
            return None
        kept = any(verdict.fate is StateFate.KEPT for verdict in self.verdicts)
        return "The background knowledge, or a setting of it, has changed" + (
            ": events that are kept were extracted with the old one, and stay as they are." if kept else "."
        )


def state_change(before: StateSchema, program: CompiledProgram, now: Micros) -> StateChange:
    """What a program makes of the state that another has left when time had come to `now`."""
    plain = lay_out(share_queries(program.rules.rules))
    wanted = state_schema(program, plain)
    meant = before.meanings
    kept = {name for name, meaning in wanted.meanings.items() if meant.get(name) == meaning}
    since = _since(plain, kept, before.since, now)
    after = state_schema(program, lay_out(share_queries(program.rules.rules), since), wanted.knowledge)
    was = {held.name: held for held in before.rules}
    verdicts = [_verdict(held, was, before, after, kept) for held in after.rules]
    gone = [
        RuleVerdict(name, StateFate.DROPPED, "the program has no such rule any more")
        for name in was.keys() - {held.name for held in after.rules}
    ]
    return StateChange(tuple(sorted([*verdicts, *gone], key=lambda verdict: verdict.rule)), since, before, after)


def _since(layout: Layout, kept: set[str], before: Mapping[str, Micros], now: Micros) -> dict[str, Micros]:
    """Since when each rule is that is not older than all it could look back to, where others at its stores are."""
    found: dict[str, Micros] = {}
    for layer in layout.layers:
        for placed in layer.rules:
            name = placed.rule.name
            if name not in kept:
                found[name] = now
            elif name in before and now - before[name] <= _lookback(placed):
                found[name] = before[name]
        readers: dict[int, set[Micros | None]] = defaultdict(set)
        for placed in layer.rules:
            for port in _storing_ports(placed):
                readers[port].add(found.get(placed.rule.name))
        for placed in layer.rules:
            if placed.rule.name not in kept and all(readers[port] == {now} for port in _storing_ports(placed)):
                del found[placed.rule.name]
    return found


def _lookback(placed: PlacedRule) -> Micros:
    """How far a rule looks back."""
    return max(reach.far for reach in lookbacks(placed.rule))


def _storing_ports(placed: PlacedRule) -> Sequence[int]:
    """The ports of a rule at which events stay: those of its clauses, and its anchor's where anchors wait."""
    return placed.ports if placed.rule.anchor.delay else placed.ports[1:]


def _verdict(held: RuleState, was: Mapping[str, RuleState], before: StateSchema, after: StateSchema, kept: set[str]) -> RuleVerdict:
    old = was.get(held.name)
    if old is None:
        return RuleVerdict(held.name, StateFate.EMPTY, "it is new")
    if held.name in kept:
        keys = [[each.keys[rule.layer][port] for port in rule.ports] for each, rule in ((before, old), (after, held))]
        return RuleVerdict(held.name, StateFate.KEPT, moved=old.layer != held.layer or keys[0] != keys[1])
    if old.digest != held.digest:
        return RuleVerdict(held.name, StateFate.EMPTY, "it has changed")
    now = {rule.name: rule for rule in after.rules}
    for name in sorted({*old.reads, *held.reads}):
        if name not in now:
            return RuleVerdict(held.name, StateFate.EMPTY, f"it reads what rule {name} made, which is gone")
        if name not in was:
            return RuleVerdict(held.name, StateFate.EMPTY, f"it reads what rule {name} makes, which is new")
        if was[name].digest != now[name].digest:
            return RuleVerdict(held.name, StateFate.EMPTY, f"it reads what rule {name} makes, which has changed")
    return RuleVerdict(held.name, StateFate.EMPTY, "what it reads has changed")


@dataclass(slots=True)
class _PartialState:
    """A part of one partition's new state."""

    events: list[list[StoredEvent]]
    consumed: list[list[tuple[Micros, int]]]
    waiting: list[list[StoredEvent]]


class StateMigrator:
    """Puts what one partition of the old state holds where the new program, compiled with the change's `since`, looks for it."""

    def __init__(self, before: StateSchema, after: StateSchema, program: CompiledProgram, clock: Clock, buckets: int) -> None:
        self._layers = program.layout.layers
        assert tuple(map(len, after.keys)) == tuple(len(layer.ports) for layer in self._layers), (
            "the program is laid out as it was examined"
        )
        self._buckets = buckets
        was = {held.name: held for held in before.rules}
        meant, means = before.meanings, after.meanings
        written = {rule.name: rule for rule in program.rules.rules}
        places = {placed.rule.name: placed for layer in self._layers for placed in layer.rules}
        self._consuming: dict[int, list[tuple[RuleState, PlacedRule, Layer, int]]] = defaultdict(list)
        self._stores: dict[int, dict[tuple[int, int, int], EventTest | None]] = defaultdict(dict)
        self._queues: dict[int, dict[tuple[int, int, int, int], EventTest | None]] = defaultdict(dict)
        for held in after.rules:
            old = was.get(held.name)
            if old is None or meant[held.name] != means[held.name]:
                continue
            layer = self._layers[held.layer]
            placed = places[held.name]
            if placed.rule.consuming:
                self._consuming[old.layer].append((old, placed, layer, held.first_consumed))
            for number, role in enumerate(roles(written[held.name])):
                test = _role_test(role, roles(placed.rule)[number], clock)
                here, there = old.ports[number], held.ports[number]
                if number:
                    self._stores[old.layer][here, held.layer, there] = test
                elif old.queue is not None and held.queue is not None:
                    self._queues[old.layer][old.queue, held.layer, held.queue, there] = test

    def redistribute(self, layer: int, bucket: int, state: StateSnapshot) -> dict[tuple[int, int], StateSnapshot]:
        """What a bucket of a layer held, as parts of the states of the new layers and buckets."""
        found: dict[tuple[int, int], _PartialState] = {}

        def piece(number: int, event: StoredEvent, port: int) -> _PartialState:
            return at(number, bucket_of(self._layers[number].ports[port], event.values, self._buckets))

        def at(number: int, target: int) -> _PartialState:
            if (number, target) not in found:
                there = self._layers[number]
                sets = there.first_consumed[-1]
                found[number, target] = _PartialState([[] for _ in there.ports], [[] for _ in range(sets)], [[] for _ in there.queues])
            return found[number, target]

        for (here, number, there), test in self._stores[layer].items():
            for event in state.events[here]:
                if test is None or test(event.time, event.values):
                    piece(number, event, there).events[there].append(event)
        for (here, number, queue, port), test in self._queues[layer].items():
            for event in state.waiting[here]:
                if test is None or test(event.time, event.values):
                    piece(number, event, port).waiting[queue].append(event)
        for old, placed, new, first in self._consuming[layer]:
            labels = [role.label for role in roles(placed.rule)]
            places = sorted({place for label in placed.rule.consuming if (place := labels.index(label))})
            for number, place in enumerate(places):
                used = set(state.consumed[old.first_consumed + number])
                if used:
                    for event in state.events[old.ports[place]]:
                        if event[:2] in used:
                            piece(new.number, event, placed.ports[place]).consumed[first + number].append(event[:2])
        return {place: StateSnapshot(part.events, part.consumed, part.waiting, state.passed) for place, part in found.items()}


def _role_test(role: Role, shared: Role, clock: Clock) -> EventTest | None:
    """Which of the events that were kept are facts of the role's stream now. Filters that the role has as constraints are tested there;
    where the query itself has them, all that read the stream have the same."""
    if not isinstance(role.source, FactSource):
        return None
    moved = moved_filters(role.source)
    if not moved or len(shared.constraints) == len(moved) + len(role.constraints):
        return None
    return event_test(moved, role.source.attributes, clock)


def merge_parts(layer: Layer, pieces: Iterable[StateSnapshot], passed: Micros | None) -> StateSnapshot:
    """The state of a partition from all its parts."""
    parts = list(pieces)

    def together(
        of: Callable[[StateSnapshot], Sequence[Sequence[StoredEvent]]], number: int, names: Sequence[Variable]
    ) -> list[StoredEvent]:
        events = {event[:2]: event for part in parts for event in of(part)[number]}
        return sorted(events.values(), key=lambda event: (event.time, tie_key(names, event.values), event.ordinal))

    return StateSnapshot(
        [together(lambda part: part.events, number, port.attributes) for number, port in enumerate(layer.ports)],
        [sorted({pair for part in parts for pair in part.consumed[number]}) for number in range(layer.first_consumed[-1])],
        [together(lambda part: part.waiting, queue, layer.ports[port].attributes) for (port, _), queue in layer.queues.items()],
        passed,
    )
