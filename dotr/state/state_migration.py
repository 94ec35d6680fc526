"""Migration of state from one program to another: the fate of each rule's state, and its places in
the new layout.

Meaning: an unchanged rule keeps its state; a changed or new rule starts empty and sees no event
before the change; the state of a removed rule is dropped. So unchanged rules produce the output of
the old program, uninterrupted, and the others that of the new program started at the change.
Changed background knowledge changes no rule: stored events were extracted at their instants and
stay.

Invariant: a store shared by unchanged and other rules is split (`Port.since`), so that no new rule
sees an old event. The stores are merged again at the first change after the windows of the new
rules have passed.
Cost: once per change, proportional to the state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from dotr.engine.multi_query import movable_filters, share_queries
from dotr.engine.program import CompiledProgram
from dotr.engine.router import bucket_of
from dotr.layout.event_order import tie_key
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.layers import Layer, Layout, PlacedRule, lay_out
from dotr.layout.retention import lookbacks, roles
from dotr.model.rules import FactSource, Role
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.event_store import EventTest
from dotr.patterns.events import StoredEvent
from dotr.patterns.matcher.emitter import event_test
from dotr.patterns.state import StateError, StateSnapshot
from dotr.state.segment_store import SegmentMap
from dotr.state.state_schema import KnowledgeDigests, RuleState, StateOfUnit, StateSchema, knowledge_digests, state_schema
from dotr.state.unit_state import UnitSnapshot, UnitsValue


class StateFate(Enum):
    """The fate of a rule's state."""

    KEPT = "kept"
    EMPTY = "starts empty"
    DROPPED = "dropped"


_NEW: Final = "it is new"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The fate of the state of a rule or another unit, and the reason. `moved`: it is stored in
    another place. `kind` is the noun of the unit."""

    rule: str
    fate: StateFate
    why: str = ""
    moved: bool = False
    kind: str = "rule"

    @property
    def is_new(self) -> bool:
        """True for a rule that the program before did not have."""
        return self.fate is StateFate.EMPTY and self.why == _NEW

    def __str__(self) -> str:
        """
        >>> print(RuleVerdict("Fire", StateFate.EMPTY, "it has changed"))
        rule Fire starts empty: it has changed
        """
        fate = {StateFate.KEPT: "keeps its state", StateFate.EMPTY: "starts empty", StateFate.DROPPED: "is dropped"}[self.fate]
        where = "in another layer or under another key" if self.moved else ""
        return ": ".join(filter(None, [f"{self.kind} {self.rule} {fate}" + (f", {where}" if where else ""), self.why]))


@dataclass(frozen=True, slots=True)
class StateChange:
    """The fate of every rule, in order of name; `since`, the start of the new program's rules (µs;
    `ProgramSpec.since`); and the schemas before and after."""

    verdicts: tuple[RuleVerdict, ...]
    since: Mapping[str, Micros]
    before: StateSchema
    after: StateSchema

    @property
    def moves(self) -> bool:
        """True if the state has to be rewritten, since its places have changed."""
        before, after = self.before, self.after
        return (before.rules, before.keys, before.units) != (after.rules, after.keys, after.units)

    @property
    def knowledge_warning(self) -> str | None:
        """A warning for the user where the background knowledge has changed; None otherwise."""
        if self.before.knowledge == self.after.knowledge:
            return None
        kept = any(verdict.fate is StateFate.KEPT for verdict in self.verdicts)
        return "The background knowledge, or a setting of it, has changed" + (
            ": events that are kept were extracted with the old one, and stay as they are." if kept else "."
        )


def state_change(before: StateSchema, program: CompiledProgram, now: Micros, knowledge: KnowledgeDigests | None = None) -> StateChange:
    """The change from the state of one program to another at the time `now` (µs). `knowledge` has
    the digests of the program's background (None: they are computed)."""
    plain = lay_out(share_queries(program.rules.rules), units=program.units)
    knowledge = knowledge or knowledge_digests(program)
    if before.knowledge == knowledge.with_places:
        before = replace(before, knowledge=knowledge.meaning)
    required = state_schema(program, plain, knowledge.meaning)
    meanings = before.meanings
    unchanged = {name for name, meaning in required.meanings.items() if meanings.get(name) == meaning}
    since = _since(plain, unchanged, before.since, now)
    after = state_schema(program, lay_out(share_queries(program.rules.rules), since, program.units), required.knowledge)
    verdicts = [_verdict(each, before, after, unchanged) for each in after.every]
    now_there = {each.name for each in after.every}
    dropped = [
        RuleVerdict(each.name, StateFate.DROPPED, f"the program no longer has the {_kind(each)}", kind=_kind(each))
        for each in before.every
        if each.name not in now_there
    ]
    return StateChange(tuple(sorted([*verdicts, *dropped], key=lambda verdict: verdict.rule)), since, before, after)


def _since(layout: Layout, unchanged: set[str], before: Mapping[str, Micros], now: Micros) -> dict[str, Micros]:
    """The start of each rule younger than its lookback that shares a store with older rules."""
    found: dict[str, Micros] = {}
    for layer in layout.layers:
        for placed in layer.rules:
            name = placed.rule.name
            if name not in unchanged:
                found[name] = now
            elif name in before and now - before[name] <= _lookback(placed):
                found[name] = before[name]
        readers: dict[int, set[Micros | None]] = defaultdict(set)
        for placed in layer.rules:
            for port in _storing_ports(placed):
                readers[port].add(found.get(placed.rule.name))
        for placed in layer.rules:
            if placed.rule.name not in unchanged and all(readers[port] == {now} for port in _storing_ports(placed)):
                del found[placed.rule.name]
    return found


def _lookback(placed: PlacedRule) -> Micros:
    """The lookback of a rule, in µs."""
    return max(reach.far for reach in lookbacks(placed.rule))


def _storing_ports(placed: PlacedRule) -> Sequence[int]:
    """The ports at which a rule stores events: its clauses', and a delayed anchor's."""
    return placed.ports if placed.rule.anchor.delay else placed.ports[1:]


def _kind(state: RuleState | StateOfUnit) -> str:
    return "rule" if isinstance(state, RuleState) else state.kind


def _verdict(state: RuleState | StateOfUnit, before: StateSchema, after: StateSchema, unchanged: set[str]) -> RuleVerdict:
    olds: dict[str, RuleState | StateOfUnit] = {each.name: each for each in before.every}
    nows: dict[str, RuleState | StateOfUnit] = {each.name: each for each in after.every}
    name, kind, old = state.name, _kind(state), olds.get(state.name)
    if old is None or type(old) is not type(state):
        return RuleVerdict(name, StateFate.EMPTY, _NEW, kind=kind)
    if name in unchanged:
        return RuleVerdict(name, StateFate.KEPT, moved=_is_moved(old, state, before, after), kind=kind)
    if old.digest != state.digest:
        return RuleVerdict(name, StateFate.EMPTY, "it has changed", kind=kind)
    for other in sorted({*old.reads, *state.reads}):
        if other not in nows:
            why = f"it reads what {_kind(olds[other])} {other} made, which was removed"
        elif other not in olds:
            why = f"it reads what {_kind(nows[other])} {other} makes, which is new"
        elif olds[other].digest != nows[other].digest:
            why = f"it reads what {_kind(nows[other])} {other} makes, which has changed"
        else:
            continue
        return RuleVerdict(name, StateFate.EMPTY, why, kind=kind)
    return RuleVerdict(name, StateFate.EMPTY, "what it reads has changed", kind=kind)


def _is_moved(old: RuleState | StateOfUnit, now: RuleState | StateOfUnit, before: StateSchema, after: StateSchema) -> bool:
    """True if the state is in another layer, or under another key."""
    if isinstance(old, RuleState) and isinstance(now, RuleState):
        keys = [[schema.keys[rule.layer][port] for port in rule.ports] for schema, rule in ((before, old), (after, now))]
        return old.layer != now.layer or keys[0] != keys[1]
    if isinstance(old, StateOfUnit) and isinstance(now, StateOfUnit):
        return (old.layer, old.key) != (now.layer, now.key)
    return True


@dataclass(slots=True)
class _PartialState:
    """A part of the new state of one partition."""

    events: list[list[StoredEvent]]
    consumed: list[list[tuple[Micros, int]]]
    waiting: list[list[StoredEvent]]


class StateMigrator:
    """Redistributes the old state, one bucket at a time, for a program compiled with the change's
    `since`."""

    def __init__(self, before: StateSchema, after: StateSchema, program: CompiledProgram, clock: Clock, buckets: int) -> None:
        self._layers = program.layout.layers
        assert tuple(map(len, after.keys)) == tuple(len(layer.ports) for layer in self._layers), "the layout differs from the examined one"
        self._buckets = buckets
        old_rules = {rule.name: rule for rule in before.rules}
        meant, means = before.meanings, after.meanings
        self._clock, self._limits = clock, program.spec.limits
        self._old_keys = {unit.name: unit.key for unit in before.units}
        self._units = {unit.name: unit for unit in after.units if meant.get(unit.name) == means[unit.name]}
        self._placed_units = {placed.unit.name: placed.unit for placed in program.layout.units}
        written = {rule.name: rule for rule in program.rules.rules}
        places = {placed.rule.name: placed for layer in self._layers for placed in layer.rules}
        self._consuming: dict[int, list[tuple[RuleState, PlacedRule, Layer, int]]] = defaultdict(list)
        self._stores: dict[int, dict[tuple[int, int, int], EventTest | None]] = defaultdict(dict)
        self._queues: dict[int, dict[tuple[int, int, int, int], EventTest | None]] = defaultdict(dict)
        for rule in after.rules:
            old = old_rules.get(rule.name)
            if old is None or meant[rule.name] != means[rule.name]:
                continue
            layer = self._layers[rule.layer]
            placed = places[rule.name]
            if placed.rule.consuming:
                self._consuming[old.layer].append((old, placed, layer, rule.first_consumed))
            for number, role in enumerate(roles(written[rule.name])):
                test = _role_test(role, roles(placed.rule)[number], clock)
                here, there = old.ports[number], rule.ports[number]
                if number:
                    self._stores[old.layer][here, rule.layer, there] = test
                elif old.queue is not None and rule.queue is not None:
                    self._queues[old.layer][old.queue, rule.layer, rule.queue, there] = test

    def redistribute_units(self, bucket: int, value: UnitsValue, segments: SegmentMap) -> dict[tuple[int, int], UnitsValue]:
        """The state of the units of a bucket as parts by (new layer, new bucket), without those that
        start empty. Raises StateError."""
        found: dict[tuple[int, int], UnitsValue] = {}
        for name, snapshot in value.snapshots(segments).items():
            if name in self._units:
                for target, (rest, entries) in self._parts_of_unit(name, bucket, snapshot).items():
                    part = UnitsValue(value.passed, [(name, rest, len(entries))], entries, None)
                    place = self._units[name].layer, target
                    found[place] = merge_units([found[place], part], value.passed) if place in found else part
        return found

    def _parts_of_unit(self, name: str, bucket: int, snapshot: UnitSnapshot) -> Mapping[int, UnitSnapshot]:
        """The state of a unit in an old bucket, by new bucket. One that was spread stays in its bucket;
        one that is spread from now on is divided by its key.
        """
        before, now = self._old_keys[name], self._units[name]
        if before == now.key:
            return {bucket if now.key else now.partition % self._buckets: snapshot}
        unit = self._placed_units[name]
        if before:
            raise StateError(f"that of {name} was divided by another key ({', '.join(before)})")
        if not isinstance(unit, IntervalUnit):
            # A LARS file reports its own keys alone; atoms of others go with their windows. A query takes
            # over its share of what one partition kept.
            return dict.fromkeys(range(self._buckets), snapshot)
        from dotr.state.unit_division import divided  # loaded where a state is divided

        return dict(enumerate(divided(unit, snapshot, self._clock, self._limits, self._buckets)))

    def redistribute(self, layer: int, bucket: int, state: StateSnapshot) -> dict[tuple[int, int], StateSnapshot]:
        """The state of a bucket of an old layer as parts by (new layer, new bucket)."""
        found: dict[tuple[int, int], _PartialState] = {}

        def part_of(number: int, event: StoredEvent, port: int) -> _PartialState:
            return part_at(number, bucket_of(self._layers[number].ports[port], event.values, self._buckets, event.time))

        def part_at(number: int, target: int) -> _PartialState:
            if (number, target) not in found:
                there = self._layers[number]
                sets = there.first_consumed[-1]
                found[number, target] = _PartialState([[] for _ in there.ports], [[] for _ in range(sets)], [[] for _ in there.queues])
            return found[number, target]

        for (here, number, there), test in self._stores[layer].items():
            for event in state.events[here]:
                if test is None or test(event.time, event.values):
                    part_of(number, event, there).events[there].append(event)
        for (here, number, queue, port), test in self._queues[layer].items():
            for event in state.waiting[here]:
                if test is None or test(event.time, event.values):
                    part_of(number, event, port).waiting[queue].append(event)
        for old, placed, new, first in self._consuming[layer]:
            labels = [role.label for role in roles(placed.rule)]
            places = sorted({place for label in placed.rule.consuming if (place := labels.index(label))})
            for number, place in enumerate(places):
                used = set(state.consumed[old.first_consumed + number])
                if used:
                    for event in state.events[old.ports[place]]:
                        if event[:2] in used:
                            part_of(new.number, event, placed.ports[place]).consumed[first + number].append(event[:2])
        return {place: StateSnapshot(part.events, part.consumed, part.waiting, state.passed) for place, part in found.items()}


def merge_units(parts: Iterable[UnitsValue], passed: Micros | None) -> UnitsValue:
    """The state of a bucket of units as its parts, after the instant `passed` (µs)."""
    parts = list(parts)
    return UnitsValue(passed, [unit for part in parts for unit in part.units], [log for part in parts for log in part.inside], None)


def _role_test(role: Role, shared: Role, clock: Clock) -> EventTest | None:
    """A test whether a stored event is still a fact of the role's stream; None: always.

    Filters that became constraints of the role are tested by the matcher. Filters inside the shared
    query are the same for all readers of the stream.
    """
    if not isinstance(role.source, FactSource):
        return None
    moved = movable_filters(role.source)
    if not moved or len(shared.constraints) == len(moved) + len(role.constraints):
        return None
    return event_test(moved, role.source.attributes, clock)


def merge_parts(layer: Layer, parts: Iterable[StateSnapshot], passed: Micros | None) -> StateSnapshot:
    """The state of a partition as the union of its parts, which may overlap."""
    parts = list(parts)

    def union(
        lists: Callable[[StateSnapshot], Sequence[Sequence[StoredEvent]]], number: int, names: Sequence[Variable]
    ) -> list[StoredEvent]:
        events = {event[:2]: event for part in parts for event in lists(part)[number]}
        return sorted(events.values(), key=lambda event: (event.time, tie_key(names, event.values), event.ordinal))

    return StateSnapshot(
        [union(lambda part: part.events, number, port.attributes) for number, port in enumerate(layer.ports)],
        [sorted({pair for part in parts for pair in part.consumed[number]}) for number in range(layer.first_consumed[-1])],
        [union(lambda part: part.waiting, queue, layer.ports[port].attributes) for (port, _), queue in layer.queues.items()],
        passed,
    )
