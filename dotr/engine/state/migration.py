"""Migration of state from one program to another: the fate of the state of each clause, and its
places in the new layout.

Meaning: state belongs to the events of a clause. A clause whose query, own conditions, window and
consumption are those of before keeps its events, whatever else of its rule has changed; another one
starts empty and reads no event before the change; the state of a removed rule is dropped. Events
that a rule made before its change are kept by its readers. Changed background knowledge changes no
clause: stored events were extracted at their instants and are kept.

Invariant: a store shared by kept and other clauses is split (`Port.since`), so that no clause that
starts empty reads an old event. The stores are merged again at the first change after the windows
of such clauses have passed.
Cost: once per change, proportional to the state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.engine.multi_query import movable_filters, share_queries
from dotr.engine.program import CompiledProgram
from dotr.engine.router import bucket_of, own_test
from dotr.engine.state.moves import EventBlock, MovedState, united
from dotr.engine.state.schema import (
    ANY_PARTITION,
    EVERY_PARTITION,
    ClauseState,
    KnowledgeDigests,
    RuleState,
    StateOfUnit,
    StateSchema,
    knowledge_digests,
    state_schema,
)
from dotr.engine.state.segments import SegmentMap
from dotr.engine.state.units import NO_SEGMENTS, UnitSnapshot, UnitsValue
from dotr.model import dataclass
from dotr.model.event_order import tie_key
from dotr.model.rules import FactSource, Role
from dotr.model.terms import Label
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.keys import bucket
from dotr.temporal.layout.layers import Layer, Layout, Port, lay_out, role_name
from dotr.temporal.layout.retention import lookbacks, roles
from dotr.temporal.layout.stages import HeldFirings
from dotr.temporal.matching.event_store import EventTest
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.matcher.emitter import event_test
from dotr.temporal.matching.state import StateError, StateSnapshot

if TYPE_CHECKING:  # loaded where a program has units
    from dotr.engine.state.keyed import KeyedState
    from dotr.engine.unit_runs import UnitContext


class StateFate(Enum):
    """The fate of the state of a rule or unit."""

    KEPT = "keeps its state"
    PARTLY = "keeps"
    EMPTY = "starts empty"
    DROPPED = "is dropped"


_NEW: Final = "it is new"
_CHANGED: Final = "it has changed"


class RoleFate(NamedTuple):
    """The fate of the events of a clause, or of the waiting events of a delayed anchor: the places
    of the role in the rule of before (None: it starts empty) and of now, from 0 on, and the reason
    why it starts empty."""

    label: Label
    old: int | None
    new: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The fate of the state of a rule or another unit, and the reason. `moved`: it is stored in
    another place. `kind` is the noun of the unit, `roles` are the fates of the clauses of a rule."""

    rule: str
    fate: StateFate
    why: str = ""
    moved: bool = False
    kind: str = "rule"
    roles: tuple[RoleFate, ...] = ()

    @property
    def is_new(self) -> bool:
        """True for a rule that the program before did not have."""
        return self.fate is StateFate.EMPTY and self.why == _NEW

    def __str__(self) -> str:
        """
        >>> print(RuleVerdict("Fire", StateFate.EMPTY, "it has changed"))
        rule Fire starts empty: it has changed
        >>> fates = RoleFate("Start", 1, 1), RoleFate("Heavy", None, 2, "its FILTER has changed")
        >>> print(RuleVerdict("Left", StateFate.PARTLY, roles=fates))
        rule Left keeps Start; Heavy starts empty: its FILTER has changed
        """
        where = ", in another layer or under another key" if self.moved else ""
        kept = ", ".join(each.label for each in self.roles if each.old is not None)
        lost = "; ".join(f"{each.label} {StateFate.EMPTY.value}: {each.why}" for each in self.roles if each.old is None)
        about = f"{self.kind} {self.rule}"
        if self.why or not lost:
            return ": ".join(filter(None, [f"{about} {self.fate.value}{where}", self.why]))
        return f"{about} {StateFate.PARTLY.value} {kept}{where}; {lost}" if kept else f"{about}: {lost}"


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
        places = [
            ([replace(rule, clauses=()) for rule in each.rules], each.keys, each.units, each.groups) for each in (self.before, self.after)
        ]
        return places[0] != places[1]

    @property
    def knowledge_warning(self) -> str | None:
        """A warning for the user where the background knowledge has changed; None otherwise."""
        if self.before.knowledge == self.after.knowledge:
            return None
        kept = any(verdict.fate in (StateFate.KEPT, StateFate.PARTLY) for verdict in self.verdicts)
        return "The background knowledge, or a setting of it, has changed" + (
            ": events that are kept were extracted with the old one, and stay as they are." if kept else "."
        )


def state_change(before: StateSchema, program: CompiledProgram, now: Micros, knowledge: KnowledgeDigests | None = None) -> StateChange:
    """The change from the state of one program to another at the time `now` (µs). `knowledge` has
    the digests of the program's background (None: they are computed)."""
    rules, cut, groups = share_queries(program.rules.rules), program.spec.cut, program.spec.groups
    plain = lay_out(rules, units=program.units, cut=cut, groups=groups)
    knowledge = knowledge or knowledge_digests(program)
    if before.knowledge == knowledge.with_places:
        before = replace(before, knowledge=knowledge.meaning)
    required = state_schema(program, plain, knowledge.meaning)
    old = {rule.name: rule for rule in before.rules}
    starting = {
        role_name(rule.name, each.label) for rule in required.rules for each in role_fates(old.get(rule.name), rule) if each.old is None
    }
    since = _since(plain, starting, before.since, now)
    after = state_schema(program, lay_out(rules, since, program.units, cut=cut, groups=groups), required.knowledge)
    verdicts = [_verdict(each, before, after) for each in after.states]
    new_names = {each.name for each in after.states}
    dropped = [
        RuleVerdict(each.name, StateFate.DROPPED, f"the program no longer has the {_kind(each)}", kind=_kind(each))
        for each in before.states
        if each.name not in new_names
    ]
    return StateChange(tuple(sorted([*verdicts, *dropped], key=lambda verdict: verdict.rule)), since, before, after)


def role_fates(old: RuleState | None, now: RuleState) -> list[RoleFate]:
    """The fates of the roles of a rule that have state: its clauses, and an anchor that is delayed,
    or was. `old` is its state before; None: the rule is new."""
    places = {each.label: place for place, each in enumerate(old.clauses or now.clauses)} if old is not None else {}
    found = []
    for number, clause in enumerate(now.clauses):
        if not number and now.queue is None and (old is None or old.queue is None):
            continue
        place = places.get(clause.label)
        if old is None or place is None or (not number) != (not place):
            why = _NEW
        elif old.digest == now.digest:
            why = ""
        elif not old.clauses:  # an earlier release did not write them down
            why = _CHANGED
        elif not number and None in (old.queue, now.queue):
            why = "it was not delayed before" if old.queue is None else "it is not delayed any more"
        else:
            why = _difference(old.clauses[place], clause, is_anchor=not number)
        found.append(RoleFate(clause.label, None if why else place, number, why))
    return found


def _difference(old: ClauseState, now: ClauseState, *, is_anchor: bool) -> str:
    """The reason why the events of a clause are not those that it needs now; empty: they are."""
    if old.query != now.query or (old.attributes != now.attributes and not now.reads_events):
        return "its query has changed"
    if old.filter != now.filter:
        return "its FILTER has changed"
    if old.window != now.window:
        return f"its {'delay' if is_anchor else 'window'} has changed"
    if old.consumed != now.consumed:
        return "its consumption has changed"
    return "of each key the newest event alone was kept" if old.newest not in ("", now.newest) else ""


def _since(layout: Layout, starting: Set[str], before: Mapping[str, Micros], now: Micros) -> dict[str, Micros]:
    """The start (µs) of each role that is younger than its lookback and shares a store with older
    ones. `starting` names the roles that start empty."""
    found: dict[str, Micros] = {}
    places: dict[str, tuple[int, int]] = {}
    for layer in layout.layers:
        for placed in layer.rules:
            rule = placed.rule
            far = dict(zip([role.label for role in roles(rule)], lookbacks(rule), strict=True))
            for role, port in placed.roles:
                if role is rule.anchor and not placed.delay:  # its events are not stored
                    continue
                name = role_name(rule.name, role.label)
                places[name] = layer.number, port
                since = now if name in starting else before.get(name, before.get(rule.name))
                if since is not None and now - since <= far[role.label].far:
                    found[name] = since
    readers: dict[tuple[int, int], set[Micros | None]] = defaultdict(set)
    for name, place in places.items():
        readers[place].add(found.get(name))
    return {name: since for name, since in found.items() if name not in starting or readers[places[name]] != {now}}


def _kind(state: RuleState | StateOfUnit) -> str:
    return "rule" if isinstance(state, RuleState) else state.kind


def _verdict(state: RuleState | StateOfUnit, before: StateSchema, after: StateSchema) -> RuleVerdict:
    name, kind = state.name, _kind(state)
    old = next((each for each in before.states if each.name == name), None)
    if isinstance(old, RuleState) and isinstance(state, RuleState):
        fates, once = tuple(role_fates(old, state)), _once_changed(old, state)
        moved = _is_moved(old, state, before, after)
        if all(each.old is not None for each in fates):
            elsewhere = "" if old.digest == state.digest else "it has changed outside of its clauses"
            return RuleVerdict(name, StateFate.KEPT, once or elsewhere, moved, roles=fates)
        fate = StateFate.EMPTY if all(each.old is None for each in fates) else StateFate.PARTLY
        return RuleVerdict(name, fate, "" if old.clauses else _CHANGED, moved, roles=fates)
    if isinstance(old, StateOfUnit) and isinstance(state, StateOfUnit):
        if old.digest == state.digest:
            return RuleVerdict(name, StateFate.KEPT, "", (old.layer, old.key) != (state.layer, state.key), kind)
        return RuleVerdict(name, StateFate.EMPTY, _CHANGED, kind=kind)
    return RuleVerdict(name, StateFate.EMPTY, _NEW, kind=kind)


def _once_changed(old: RuleState, now: RuleState) -> str:
    """Text on a rule whose firings before are forgotten, since its `once` is another one."""
    if old.once == now.once:
        return ""
    change = "it no longer says `once`" if now.once is None else "`once` is new" if old.once is None else "`once` has other keys"
    return f"{change}, and no earlier firing holds back another"


def _is_moved(old: RuleState, now: RuleState, before: StateSchema, after: StateSchema) -> bool:
    """True if events that are kept, or the anchors, are in another layer, or under another key."""
    pairs = [(0, 0), *((each.old, each.new) for each in role_fates(old, now) if each.old is not None)]
    places = [(old.places[there], now.places[here]) for there, here in pairs]
    return any(there[0] != here[0] or before.keys[there[0]][there[1]] != after.keys[here[0]][here[1]] for there, here in places)


@dataclass(slots=True)
class _PartialState:
    """A part of the new state of one partition."""

    events: list[list[EventBlock]]
    consumed: list[list[tuple[Micros, int]]]
    waiting: list[list[EventBlock]]


class _Target(NamedTuple):
    """The place of stored or waiting events in the new layout: a layer, and in it a store or queue,
    and the port whose key is theirs. `test` passes those that are still facts of the role's stream
    (None: all). `columns` are the old columns of the new ones, where these differ (-1: none)."""

    layer: int
    slot: int
    port: int
    test: EventTest | None
    columns: tuple[int, ...] | None = None


class StateMigrator:
    """Redistributes the old state, one bucket at a time, for a program compiled with the change's
    `since`. `old_buckets` is the number of buckets before (None: as many as now)."""

    def __init__(
        self, before: StateSchema, after: StateSchema, program: CompiledProgram, clock: Clock, buckets: int, old_buckets: int | None = None
    ) -> None:
        self._layers = program.layout.layers
        assert tuple(map(len, after.keys)) == tuple(len(layer.ports) for layer in self._layers), "the layout differs from the examined one"
        self._buckets = buckets
        self._old_buckets = old_buckets or buckets
        self._keys = before.keys, after.keys
        self._clock, self._program = clock, program
        self._old_keys = {unit.name: unit.key for unit in before.units}
        old_units = {unit.name: unit.digest for unit in before.units}
        self._units = {unit.name: unit for unit in after.units if old_units.get(unit.name) == unit.digest}
        self._placed_units = {placed.unit.name: placed.unit for placed in program.layout.units}
        self._keyed_states: dict[str, KeyedState] = {}
        self._consuming: dict[int, list[tuple[int, int, int, _Target]]] = defaultdict(list)
        self._stores: dict[tuple[int, int], dict[tuple[int, int], _Target]] = defaultdict(dict)
        self._queues: dict[tuple[int, int], dict[tuple[int, int], _Target]] = defaultdict(dict)
        self._sources: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        self._mapped: set[tuple[int, int]] = set()
        written = {rule.name: rule for rule in program.rules.rules}
        shared = {placed.rule.name: placed.rule for layer in self._layers for placed in layer.rules}
        old_rules = {rule.name: rule for rule in before.rules}
        for rule in after.rules:
            if rule.name in old_rules:
                self._find_places(old_rules[rule.name], rule, roles(written[rule.name]), roles(shared[rule.name]))
                self._find_firings(old_rules[rule.name], rule)

    def _find_places(self, old: RuleState, rule: RuleState, written: Sequence[Role], shared: Sequence[Role]) -> None:
        """Note the old and the new places of the roles of a rule that keep their events."""
        consumed = [[place for place, clause in enumerate(each.clauses or rule.clauses) if clause.consumed] for each in (old, rule)]
        for each in role_fates(old, rule):
            if each.old is None:
                continue
            (old_layer, old_port), (new_layer, new_port) = old.places[each.old], rule.places[each.new]
            test = _role_test(written[each.new], shared[each.new], self._clock)
            columns = None
            if old.clauses and (before := old.clauses[each.old].attributes) != rule.clauses[each.new].attributes:
                columns = tuple(before.index(name) if name in before else -1 for name in rule.clauses[each.new].attributes)
                self._mapped.add((new_layer, new_port))
            target = _Target(new_layer, new_port, new_port, test, columns)
            if each.new:
                self._stores[old_layer, old_port][new_layer, new_port] = target
                self._sources[new_layer, new_port].add((old_layer, old_port))
                if each.new in consumed[1]:
                    numbers = old.first_consumed + consumed[0].index(each.old), rule.first_consumed + consumed[1].index(each.new)
                    self._consuming[old_layer].append((old_port, *numbers, target))
            elif old.queue is not None and rule.queue is not None:
                self._queues[old_layer, old.queue][new_layer, rule.queue] = target._replace(slot=rule.queue)

    def _find_firings(self, old: RuleState, rule: RuleState) -> None:
        """Note the old and the new place of the firings of a rule whose `once` has the keys of
        before."""
        if rule.once is not None and old.once == rule.once:
            (old_layer, old_port), (new_layer, new_port) = old.places[-1], rule.places[-1]
            self._stores[old_layer, old_port][new_layer, new_port] = _Target(new_layer, new_port, new_port, None)
            self._sources[new_layer, new_port].add((old_layer, old_port))

    @cached_property
    def _context(self) -> UnitContext:
        return self._program.unit_context(self._clock)

    def kept_order(self, layer: int) -> frozenset[int]:
        """The ports of a new layer at which simultaneous events of one key come from one store of
        one bucket, in their order."""
        before, now = self._keys

        def is_kept(port: int) -> bool:
            sources = self._sources[layer, port]
            old = [before[number][place] for number, place in sources]
            if (layer, port) in self._mapped:
                return False
            return len(sources) == 1 and old[0] != ANY_PARTITION and (old[0] in (None, EVERY_PARTITION) or old[0] == now[layer][port])

        return frozenset(port for port in range(len(now[layer])) if is_kept(port))

    def redistribute_units(self, bucket: int, value: UnitsValue, segments: SegmentMap) -> dict[tuple[int, int], UnitsValue]:
        """The state of the units of a bucket as parts by (new layer, new bucket), without those
        that start empty. Raises StateError."""
        found: dict[tuple[int, int], UnitsValue] = {}
        for name, snapshot in value.snapshots(segments).items():
            if name in self._units:
                for target, (rest, entries) in self._parts_of_unit(name, bucket, snapshot).items():
                    part = UnitsValue(value.passed, [(name, rest, len(entries))], entries, None)
                    place = self._units[name].layer, target
                    found[place] = self.unite_units([found[place], part], value.passed) if place in found else part  # of other units
        return found

    def _parts_of_unit(self, name: str, bucket: int, snapshot: UnitSnapshot) -> Mapping[int, UnitSnapshot]:
        """The state of a unit in an old bucket, by new bucket. The state stays in its bucket where
        the unit is spread over the same number of buckets as before, and is divided by the unit's
        key where the unit is newly spread, or over another number.
        """
        before, now = self._old_keys[name], self._units[name]
        if not now.key and not before:
            return {now.partition % self._buckets: snapshot}
        if before == now.key and self._old_buckets == self._buckets:
            return {bucket: snapshot}
        if before not in ((), now.key):
            raise StateError(f"that of {name} was divided by another key ({', '.join(before)})")
        was_in = (bucket, self._old_buckets) if before else None
        return dict(enumerate(self._keyed_state(name).divided(snapshot, self._buckets, was_in)))

    def _keyed_state(self, name: str) -> KeyedState:
        """The parts of the state of a unit. Raises StateError for a unit without a key."""
        if name not in self._keyed_states:
            from dotr.engine.unit_runs import engine_unit  # loaded where a state is divided

            found = engine_unit(self._placed_units[name]).run(self._context).keyed_state()
            if found is None:
                raise StateError(f"that of {name} cannot be divided over {self._buckets} buckets")
            self._keyed_states[name] = found
        return self._keyed_states[name]

    def unite_units(self, parts: Iterable[UnitsValue], passed: Micros | None) -> UnitsValue:
        """The state of a bucket of units, united from its parts, after the instant `passed` (µs).
        The parts of one unit are those of different keys. Raises StateError."""
        found: dict[str, list[UnitSnapshot]] = {}
        for part in parts:
            for name, snapshot in part.snapshots(NO_SEGMENTS).items():
                found.setdefault(name, []).append(snapshot)
        units: list[tuple[str, str, int]] = []
        inside: list[Sequence[StoredEvent]] = []
        for name, snapshots in found.items():
            rest, entries = snapshots[0] if len(snapshots) == 1 else self._keyed_state(name).united(snapshots)
            units.append((name, rest, len(entries)))
            inside += entries
        return UnitsValue(passed, units, inside, None)

    def redistribute(self, layer: int, bucket: int, state: StateSnapshot) -> dict[tuple[int, int], StateSnapshot]:
        """The state of a bucket of an old layer as parts by (new layer, new bucket)."""
        return {place: part.snapshot for place, part in self.divide(layer, bucket, MovedState.of_snapshot(state)).items()}

    def divide(self, layer: int, bucket: int, state: MovedState) -> dict[tuple[int, int], MovedState]:
        """The state of a bucket of an old layer, as blocks, as parts by (new layer, new bucket).
        Events that every bucket has are moved from bucket 0."""
        found: dict[tuple[int, int], _PartialState] = {}

        def part_at(number: int, target: int) -> _PartialState:
            if (number, target) not in found:
                new = self._layers[number]
                sets = new.first_consumed[-1]
                found[number, target] = _PartialState([[] for _ in new.ports], [[] for _ in range(sets)], [[] for _ in new.queues])
            return found[number, target]

        for store, blocks in enumerate(state.events):
            if bucket and self._keys[0][layer][store] == EVERY_PARTITION:
                continue
            for target in self._stores[layer, store].values():
                for block in blocks:
                    for place, part in self._parts_of(block, target):
                        part_at(target.layer, place).events[target.slot].append(part)
        for queue, blocks in enumerate(state.waiting):
            for target in self._queues[layer, queue].values():
                for block in blocks:
                    for place, part in self._parts_of(block, target):
                        part_at(target.layer, place).waiting[target.slot].append(part)
        for port, old_set, new_set, target in self._consuming[layer]:
            consumed = set(state.consumed[old_set])
            for block in state.events[port] if consumed else ():
                consumed_at = [at for at, event in enumerate(zip(block.times, block.ordinals, strict=True)) if event in consumed]
                for place, part in self._parts_of(block.chosen(consumed_at), target):
                    part_at(target.layer, place).consumed[new_set] += zip(part.times, part.ordinals, strict=True)
        return {place: MovedState(part.events, part.consumed, part.waiting, state.passed) for place, part in found.items()}

    def _parts_of(self, block: EventBlock, target: _Target) -> Iterator[tuple[int, EventBlock]]:
        """The parts of a block by new bucket."""
        if target.columns is not None:
            block = block.mapped(target.columns)
        if target.test is not None:
            block = block.chosen([at for at, (time, _, values) in enumerate(block.events()) if target.test(time, values)])
        if not block.times:
            return
        port = self._layers[target.layer].ports[target.port]
        if port.is_replicated:
            passes = own_test(self._layers[target.layer], target.port) if self._buckets > 1 else None
            if passes is not None:
                block = block.chosen([at for at, values in enumerate(block.rows()) if passes(values)])
            yield from ((number, block) for number in range(self._buckets) if block.times)
            return
        if self._buckets == 1:
            yield 0, block
            return
        if port.key is None and not port.spread:
            yield bucket_of(port, (), self._buckets, None), block
            return
        by_bucket: dict[int, list[int]] = {}
        for at, number in enumerate(self._buckets_of(block, port)):
            by_bucket.setdefault(number, []).append(at)
        for number, places in sorted(by_bucket.items()):
            yield number, block if len(places) == len(block.times) else block.chosen(places)

    def _buckets_of(self, block: EventBlock, port: Port) -> Sequence[int]:
        """The bucket of each event of a block at a port that is keyed or spread."""
        buckets, key = self._buckets, port.key_position
        if key is None:
            return [bucket_of(port, row, buckets, time) for row, time in zip(block.rows(), block.times, strict=True)]
        shift = port.shift(buckets)
        return block.buckets_by(key, lambda term: (bucket(term, buckets) + shift) % buckets)


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
    return merge_blocks(layer, map(MovedState.of_snapshot, parts), passed).snapshot


def merge_blocks(layer: Layer, parts: Iterable[MovedState], passed: Micros | None, kept_order: Set[int] = frozenset()) -> MovedState:
    """The state of a partition as the union of its parts, which may overlap, in order of time.

    Args:
        layer: that of the partition.
        parts: the parts, whose blocks are in order of time.
        passed: the last time up to which ticks have fired in it (µs).
        kept_order: the ports at which events of one time are in order already, and in one part each
            (`StateMigrator.kept_order`).
    """
    parts = list(parts)

    def union(logs: Iterable[Sequence[EventBlock]], port: int, *, is_kept: bool) -> list[EventBlock]:
        tie_order = None if is_kept else partial(tie_key, layer.ports[port].attributes)
        is_in_one_part = is_kept or isinstance(layer.ports[port].stream, HeldFirings)  # firings of one time have no ordinals
        block = united([block for log in logs for block in log], tie_order, overlap=not is_in_one_part)
        return [block] if block.times else []

    return MovedState(
        [union((part.events[number] for part in parts), number, is_kept=number in kept_order) for number in range(len(layer.ports))],
        [sorted({pair for part in parts for pair in part.consumed[number]}) for number in range(layer.first_consumed[-1])],
        [union((part.waiting[queue] for part in parts), port, is_kept=False) for (port, _), queue in layer.queues.items()],
        passed,
    )
