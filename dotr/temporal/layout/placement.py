"""Placement of each unit: layer, partitioning, and depth within the layer.

Idea: mutually dependent rules are one component and share one key, or one partition; components are
placed in order of dependency. A rule is in the layer of the rules whose events it reads if those
events are made in the partition that reads them, otherwise in the next layer. A rule that is cut
has a layer for each stage, each above the preceding one, and makes its events in the last.
Invariant: within a layer an event is made at a lower depth than any rule that may read it at the
same instant; events read strictly in the past impose no order. A layer has rules or units of other
languages, not both: rules are on even levels, units on odd ones. Layers are the used levels,
numbered from 0.
Cost: linear in the rules and their dependencies, except for the search of a shared key (at most
`_MAX_TRIALS`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

from dotr.model import dataclass
from dotr.model.event_order import LabelledVariable, equated_pair
from dotr.model.graphs import components
from dotr.model.rules import EventSource, FactSource, Role, Rule, Source
from dotr.model.terms import Label, Variable
from dotr.temporal.layout.keys import (
    AnyPartition,
    KeyedPartitions,
    Partitioning,
    SinglePartition,
    carried_keys,
    equality_roots,
    key_of,
    keyed_partitions,
    once_key,
    partitioning,
)
from dotr.temporal.layout.retention import positive_roles
from dotr.temporal.layout.stages import Stage, whole_stage
from dotr.temporal.layout.units import ProgramUnit, StreamUnit, makers, readings

_MAX_TRIALS = 10_000
"""The number of partitionings of a component that are tried before it gets one partition."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The layer and depth of a stage of a rule.

    `key`: for a later stage, the value bound before that is equated with the key of its first
    clause.
    """

    rule: Rule
    stage: Stage
    layer: int
    depth: int
    key: LabelledVariable | None = None


@dataclass(frozen=True, slots=True)
class Placements:
    """The placements of the stages of all rules, and the layer of each unit of another language, by
    its name."""

    rules: Sequence[Placement]
    units: Mapping[str, int]


def place_units(rules: Sequence[Rule], units: Sequence[StreamUnit] = (), *, cut: bool = False) -> Placements:
    """Places all units. Cycles that are errors must have been refused (`units.refused_cycles`).

    `cut`: rules without a key for all their clauses are cut into stages.
    """
    placer = _Placer([*rules, *units], cut=cut)
    for component in _ordered_components([*rules, *units], placer.makers):
        if isinstance(component[0], Rule):
            placer.place_component([unit for unit in component if isinstance(unit, Rule)])
        else:
            placer.place_unit(component[0])
    placed = [each for stages in placer.placements.values() for each in stages]
    used = {each.layer for each in placed} | set(placer.levels.values())
    layers = {level: number for number, level in enumerate(sorted(used))}
    return Placements(
        [replace(each, layer=layers[each.layer]) for each in placed],
        {label: layers[level] for label, level in placer.levels.items()},
    )


def _event_reads(rule: Rule, stage: Stage | None = None) -> Iterator[tuple[Role, Label, bool]]:
    """The roles that read composite events, each with the label, and whether the event may be of
    the rule's own instant; all roles of a rule, or those of one stage.
    """
    own = None if stage is None else stage.roles_of(rule)
    for label, now, _, role in readings(rule):
        if role is not None and (own is None or role in own):
            yield role, label, now


def _ordered_components(units: Sequence[ProgramUnit], makers: Mapping[Label, Sequence[ProgramUnit]]) -> list[list[ProgramUnit]]:
    """The strongly connected components of units, each after those that it reads; the order is a
    function of the names of units."""
    named = {unit.name: unit for unit in sorted(units, key=lambda unit: unit.name)}
    needs = {name: [maker.name for reading in readings(unit) for maker in makers.get(reading.label, ())] for name, unit in named.items()}
    component_of: dict[str, int | str] = {name: name for name in named}
    component_of.update(components((name, need) for name in needs for need in needs[name]))
    members: dict[int | str, list[ProgramUnit]] = {}
    order: TopologicalSorter[int | str] = TopologicalSorter()
    for name, unit in named.items():
        members.setdefault(component_of[name], []).append(unit)
        order.add(component_of[name], *(component_of[need] for need in needs[name] if component_of[need] != component_of[name]))
    return [members[component] for component in order.static_order()]


class _Placer:
    """Placement of units, component after component.

    `placements`: the stages of the rules placed so far, in which `layer` is a level (even for
    rules). `levels`: those of other units (odd).
    """

    def __init__(self, units: Sequence[ProgramUnit], *, cut: bool) -> None:
        self.makers = makers(units)
        self.placements: dict[str, tuple[Placement, ...]] = {}
        self.levels: dict[str, int] = {}
        self._cut = cut
        self._keyed: set[tuple[int, Source, Variable | None]] = set()

    def rule_makers(self, label: Label) -> list[Rule]:
        """The rules that make the events of a label."""
        return [maker for maker in self.makers.get(label, ()) if isinstance(maker, Rule)]

    def place_unit(self, unit: StreamUnit) -> None:
        """Places a unit above all units that it reads."""
        below = (maker for reading in readings(unit) for maker in self.makers[reading.label] if maker is not unit)
        self.levels[unit.name] = max((self._level(maker) + 1 | 1 for maker in below), default=1)

    def _level(self, unit: ProgramUnit) -> int:
        return self.placements[unit.name][-1].layer if isinstance(unit, Rule) else self.levels[unit.name]

    def place_component(self, rules: Sequence[Rule]) -> None:
        """Places a component, after all components that it depends on."""
        own = {rule.name for rule in rules}
        recursive = any(maker.name in own for rule in rules for _, label, _ in _event_reads(rule) for maker in self.makers.get(label, ()))
        if recursive:
            self._place_together(rules, self._shared_key(rules))
            return
        (rule,) = rules
        split = partitioning(rule, self._carried_by_makers(rule))
        if self._cut and isinstance(split, SinglePartition):
            consumed = sorted(set(rule.consuming) - {rule.anchor.label})
            placed = self._consuming_stage(rule) if consumed or rule.once is not None else self._best_chain(rule)
            if placed:
                self._add(placed)
                return
            if consumed:
                split = SinglePartition(
                    f"no attribute of {rule.anchor.label} is equated with one of every label that it consumes ({', '.join(consumed)})"
                )
        self._place_together(rules, {rule.name: whole_stage(rule, split)})

    def _place_together(self, rules: Sequence[Rule], stages: Mapping[str, Stage]) -> None:
        """Places rules of one stage each in one layer, in the order of what they read at one
        instant.
        """
        layer = max(self._lowest_layer(rule, stages[rule.name], stages) for rule in rules)
        remaining = list(rules)
        while remaining:
            labels = {rule.event for rule in remaining}
            ready = [r for r in remaining if not any(label in labels for _, label, present in _event_reads(r) if present)]
            assert ready, "a same-instant cycle"
            for rule in ready:
                stage = stages[rule.name]
                self._add((Placement(rule, stage, layer, self._depth(rule, stage, layer)),))
            remaining = [rule for rule in remaining if rule.name not in self.placements]

    def _add(self, placed: tuple[Placement, ...]) -> None:
        self.placements[placed[0].rule.name] = placed
        for each in placed:
            for role in each.stage.roles_of(each.rule):
                self._keyed.add((each.layer, role.source, key_of(each.stage.split, role)))

    def _lowest_layer(self, rule: Rule, stage: Stage, inside: Mapping[str, Stage] = MappingProxyType({})) -> int:
        """The lowest possible layer of a stage, by the makers of the events that it reads; makers
        `inside` its own component are ignored."""
        layer = 0
        for role, label, _ in _event_reads(rule, stage):
            for maker in self.makers.get(label, ()):
                if not isinstance(maker, Rule):
                    layer = max(layer, self.levels[maker.name] + 1)
                elif maker.name not in inside:
                    there = self.placements[maker.name][-1]
                    layer = max(layer, there.layer + 2 * (not meet(maker, there.stage, stage, role)))
        return layer

    def _depth(self, rule: Rule, stage: Stage, layer: int) -> int:
        makers = (maker for _, label, present in _event_reads(rule, stage) if present for maker in self.rule_makers(label))
        return max((there.depth + 1 for maker in makers if (there := self.placements[maker.name][-1]).layer == layer), default=0)

    def _consuming_stage(self, rule: Rule) -> tuple[Placement, ...]:
        """The one stage of a rule that consumes events or says `once`, under the best key of the anchor
        and every consumed clause; empty without such a key."""
        carried = self._carried_by_makers(rule)
        options = []
        for name, stage in stages_under_one_key(rule, frozenset(rule.consuming)).items():
            layer = self._lowest_layer(rule, stage)
            options.append(((layer, len(stage.replicated), name not in carried, name), stage))
        if not options:
            return ()
        (layer, *_), stage = min(options, key=lambda option: option[0])
        return (Placement(rule, stage, layer, self._depth(rule, stage, layer)),)

    def _best_chain(self, rule: Rule) -> tuple[Placement, ...]:
        """The chain of stages under the best first key: the one with the lowest last layer; then
        with the longest first stage; then one that the makers of the anchor carry; then the least
        name.
        """
        keys, carried = RuleKeys.of(rule), self._carried_by_makers(rule)
        firsts = [(name, keys.stage(0, 0, (rule.anchor.label, name))) for name in keys.anchor_keys()]
        chains = [(name, self._chain(keys, first)) for name, first in firsts or [("", keys.spread_stage())]]
        return min(chains, key=lambda each: (each[1][-1].layer, -each[1][0].stage.end, each[0] not in carried, each[0]))[1]

    def _chain(self, keys: RuleKeys, first: Stage) -> tuple[Placement, ...]:
        """The stages of a rule, given the first one.

        The key of a later stage is one of its first clause: preferably one under which another
        stage of the layer reads the stream, so that they share a port; otherwise the least by name.
        """
        rule, layer = keys.rule, self._lowest_layer(keys.rule, first)
        chain = [Placement(rule, first, layer, self._depth(rule, first, layer))]
        while (place := chain[-1].stage.end) < len(rule.clauses):
            source, options = rule.clauses[place].role.source, []
            for key in keys.of_clause[place]:
                stage = keys.stage_from(len(chain), place, key)
                layer = max(chain[-1].layer + 2, self._lowest_layer(rule, stage))
                options.append((((layer, source, key.attribute) not in self._keyed, key.attribute, key.value), stage, layer, key.value))
            _, stage, layer, value = min(options, key=lambda option: option[0])
            chain.append(Placement(rule, stage, layer, self._depth(rule, stage, layer), value))
        return tuple(chain)

    def _carried_by_makers(self, rule: Rule) -> list[Variable]:
        """The attributes of the anchor that hold the partition key of every rule that produces
        it."""
        if not isinstance(rule.anchor.source, EventSource):
            return []
        stages = [(maker, self.placements[maker.name][-1].stage.split) for maker in self.rule_makers(rule.anchor.source.event)]
        keys = [carried_keys(maker, split) if isinstance(split, KeyedPartitions) else frozenset[Variable]() for maker, split in stages]
        return sorted(frozenset.intersection(*keys)) if keys else []

    def _shared_key(self, rules: Sequence[Rule]) -> Mapping[str, Stage]:
        """The stages of a recursive component under one key that all its events share; without such
        a key, in one partition.

        With `cut`, only roles that read events of the component and consumed roles need the key;
        the others are replicated.
        """
        inside = {rule.name for rule in rules}
        edges = [
            (maker, rule, role)
            for rule in rules
            for role, label, _ in _event_reads(rule)
            for maker in self.rule_makers(label)
            if maker.name in inside
        ]
        options: dict[str, Mapping[Variable, Stage]] = {
            rule.name: {name: whole_stage(rule, split) for name, split in keyed_partitions(rule).items()} for rule in rules
        }
        found = _search(rules, options, edges)
        if found is None and self._cut:
            tied = {rule.name: {role.label for _, reader, role in edges if reader is rule} | set(rule.consuming) for rule in rules}
            found = _search(rules, {rule.name: stages_under_one_key(rule, tied[rule.name]) for rule in rules}, edges)
        if found is not None:
            return found
        events = ", ".join(sorted({rule.event for rule in rules}))
        reason = SinglePartition(f"{events} depends on itself, and no key goes all the way round")
        return {rule.name: whole_stage(rule, reason) for rule in rules}


def _search(
    rules: Sequence[Rule], options: Mapping[str, Mapping[Variable, Stage]], edges: Sequence[tuple[Rule, Rule, Role]]
) -> Mapping[str, Stage] | None:
    """A stage for each rule of a component, such that the events of every edge (maker, reader,
    role) are read in the partition that makes them; None: there is none, or `_MAX_TRIALS` were
    tried.
    """
    chosen: dict[str, Stage] = {}
    trials = 0

    def fits(name: str) -> bool:
        return all(
            meet(maker, chosen[maker.name], chosen[reader.name], role)
            for maker, reader, role in edges
            if name in (maker.name, reader.name) and maker.name in chosen and reader.name in chosen
        )

    def search(number: int) -> bool:
        nonlocal trials
        if number == len(rules):
            return True
        name = rules[number].name
        for key in sorted(options[name]):
            trials += 1
            if trials > _MAX_TRIALS:
                return False
            chosen[name] = options[name][key]
            if fits(name) and search(number + 1):
                return True
            del chosen[name]
        return False

    return MappingProxyType(chosen) if search(0) else None


def meet(maker: Rule, last: Stage, stage: Stage, role: Role) -> bool:
    """True if the events of a maker, made in its last stage, are made in the partition in which a
    stage looks them up for a role. For replicated and spread events it is false."""
    if role.label in stage.replicated or (isinstance(stage.split, AnyPartition) and stage.end > stage.first):
        return False
    return are_copartitioned(maker, last.split, stage.split, role)


def are_copartitioned(maker: Rule, split: Partitioning, reader: Partitioning, role: Role) -> bool:
    """True if the maker's events are made in the partition in which the reader looks them up."""
    match reader:
        case AnyPartition() | SinglePartition():
            return isinstance(split, SinglePartition)
        case KeyedPartitions(attribute):
            return isinstance(split, KeyedPartitions) and attribute[role.label] in carried_keys(maker, split)


# Keys of clauses: the attributes of a clause's event that its constraints equate with a value
# bound before (semantics.md, 4; SPARQL `=`).
#
# Idea: any event that a clause with a key selects has the value of the key, so it is in the bucket of
# that value. Keys of one equality class have equal values in every binding: consecutive clauses whose
# keys are of one class are evaluated in one bucket.
# Example: in `from A and each B [?r = A.?r] and last C [?r = B.?r && ?p = B.?q]` the clause C has the
# keys ?r, of the class of A.?r, and ?p, of the class of B.?q.


class ClauseKey(NamedTuple):
    """A key of a clause.

    - `attribute`: of the clause's event.
    - `value`: the attribute of a label bound before, or the variable of an aggregate, with which it
      is equated.
    - `equality_class`: named by its first member.
    """

    attribute: Variable
    value: LabelledVariable
    equality_class: LabelledVariable


@dataclass(frozen=True, slots=True)
class RuleKeys:
    """The keys of each clause of a rule, sorted.

    `members`: by equality class and positive label, the first attribute by name of the label's in
    the class.
    """

    rule: Rule
    of_clause: tuple[tuple[ClauseKey, ...], ...]
    members: Mapping[LabelledVariable, Mapping[Label, Variable]]

    @staticmethod
    def of(rule: Rule) -> RuleKeys:
        """The keys of a rule."""
        root = equality_roots(rule)
        of_clause = []
        for clause in rule.clauses:
            pairs = dict.fromkeys(filter(None, map(equated_pair, clause.role.constraints)))
            keys = [ClauseKey(name, (other.label, other.name), root((other.label, other.name))) for name, other in pairs]
            of_clause.append(tuple(sorted(keys)))
        members: dict[LabelledVariable, dict[Label, Variable]] = {}
        for role in positive_roles(rule):
            for name in role.source.attributes:
                members.setdefault(root((role.label, name)), {}).setdefault(role.label, name)
        return RuleKeys(rule, tuple(of_clause), members)

    def anchor_keys(self) -> list[Variable]:
        """The attributes of the anchor that may key the first stage: those that are equated with a
        key of the first clause that has one.
        """
        first = next((keys for keys in self.of_clause if keys), ())
        return sorted({key.equality_class[1] for key in first if key.equality_class[0] == self.rule.anchor.label})

    def stage_from(self, number: int, place: int, key: ClauseKey) -> Stage:
        """The later stage that begins with a clause, under one of its keys."""
        stage = self.stage(number, place, key.equality_class)
        assert isinstance(stage.split, KeyedPartitions)
        keyed = {**stage.split.attribute, self.rule.clauses[place].role.label: key.attribute}
        return replace(stage, split=KeyedPartitions(MappingProxyType(keyed)))

    def stage(self, number: int, first: int, equality_class: LabelledVariable, end: int | None = None) -> Stage:
        """The stage under an equality class that begins with the clause at `first`.

        It ends before the first clause whose keys are all of other classes; or at `end`, where
        clauses without a key of the class are replicated.
        """
        later = {clause.role.label for clause in self.rule.clauses[first:]}
        attribute = {label: name for label, name in self.members.get(equality_class, {}).items() if label not in later}
        replicated = set()
        place = first
        while place < (len(self.of_clause) if end is None else end):
            label, keys = self.rule.clauses[place].role.label, self.of_clause[place]
            own = next((key.attribute for key in keys if key.equality_class == equality_class), None)
            if own is not None:
                attribute[label] = own
            elif not keys or end is not None:
                replicated.add(label)
            else:
                break
            place += 1
        return Stage(number, first, place, KeyedPartitions(MappingProxyType(attribute)), frozenset(replicated))

    def spread_stage(self) -> Stage:
        """The first stage of a rule without `anchor_keys`: the clauses before the first one with a
        key.

        Anchors are spread over the buckets; ticks without attributes have one partition.
        """
        end = next((place for place, keys in enumerate(self.of_clause) if keys), len(self.of_clause))
        anchor = self.rule.anchor
        if isinstance(anchor.source, FactSource) and anchor.source.period is not None and not anchor.source.attributes:
            return Stage(0, 0, end, SinglePartition(f"{anchor.label} ticks without an attribute that could spread its ticks"))
        return Stage(0, 0, end, AnyPartition(), frozenset(clause.role.label for clause in self.rule.clauses[:end]))


def stages_under_one_key(rule: Rule, tied: Collection[Label]) -> dict[Variable, Stage]:
    """The stages that evaluate a whole rule under an attribute of its anchor, by that attribute.

    The attribute must also key the clauses of the labels in `tied`; other clauses that it does not
    key are replicated.
    """
    keys, end = RuleKeys.of(rule), len(rule.clauses)
    stages = {name: keys.stage(0, 0, (rule.anchor.label, name), end) for name in rule.anchor.source.attributes}
    keyed = {name: stage for name, stage in stages.items() if not stage.replicated & set(tied)}
    return keyed if rule.once is None else {name: stage for name, stage in keyed.items() if once_key(rule, stage.split) is not None}
