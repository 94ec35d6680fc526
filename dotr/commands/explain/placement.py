"""Reasons for the placement of rules: partition key, layer, recursion, and evaluation of
aggregates.

Partitions and layers are read from the layout, the evaluation of an aggregate from its matcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from dotr.model.algebra import Expression
from dotr.model.event_order import equated_pair
from dotr.model.graphs import components
from dotr.model.rules import Aggregate, Between, EventSource, Role, Rule
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import Clock
from dotr.model.traverse import conjuncts
from dotr.syntax.rendering import constraint_text
from dotr.temporal.layout.keys import AnyPartition, KeyedPartitions, SinglePartition, carried_keys
from dotr.temporal.layout.layers import Layout, PlacedRule
from dotr.temporal.layout.placement import meet
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.stages import AggregatedValue
from dotr.temporal.matching.event_store import Measure
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.rule_templates import group_rules, reads_other_events

_ANSWERS: Final[Mapping[Measure, str]] = {
    Measure.COUNT: "slides: a look-up of the window's ends, O(log n) an answer",
    Measure.SUM: "slides: sums so far, O(1) an event and O(log n) an answer",
    Measure.LEAST: "slides: the least of each block of events, O(1) an event and O(log n) an answer",
    Measure.GREATEST: "slides: the greatest of each block of events, O(1) an event and O(log n) an answer",
    Measure.DISTINCT: "slides: the window's values with their counts, O(1) an event that enters or leaves",
    Measure.SORTED: "slides: the window's numbers in their order, O(log n) an event that enters or leaves, and an answer",
    Measure.MOMENTS: "slides: the window's sum and sum of squares, O(1) an event that enters or leaves",
}


class Reasons:
    """Reasons for the placement of one program's rules."""

    def __init__(self, layout: Layout) -> None:
        self._has_state = layout.stateful_operators > 0
        self._placed = {placed.rule.name: placed for layer in layout.layers for placed in layer.rules}  # the last stage of each
        self._layers = {placed.rule.name: layer.number for layer in layout.layers for placed in layer.rules}
        self._stages: dict[str, list[tuple[int, PlacedRule]]] = {}
        for layer in layout.layers:
            for placed in layer.rules:
                self._stages.setdefault(placed.rule.name, []).append((layer.number, placed))
        self._producers: dict[Label, list[PlacedRule]] = {}
        for placed in self._placed.values():
            self._producers.setdefault(placed.rule.event, []).append(placed)
        needs = [(name, maker) for name, placed in self._placed.items() for _, maker in self._events_read(placed.rule)]
        self._self_recursive = {name for name, maker in needs if name == maker}
        self._component = components(needs)

    def _events_read(self, rule: Rule) -> Iterator[tuple[Label, str]]:
        """Events that a rule reads, with the rules that define them."""
        for role in roles(rule):
            if isinstance(role.source, EventSource):
                for maker in self._producers.get(role.source.event, ()):  # none where a query makes it
                    yield role.source.event, maker.rule.name

    def partition(self, placed: PlacedRule) -> str:
        """Partitioning of the events of a rule, or of a stage of it, with its reason."""
        split = placed.split
        if not self._has_state and not isinstance(split, AnyPartition):
            return "any: each instant is on its own, for nothing is remembered"
        match split:
            case KeyedPartitions():
                return f"by the value of {_key_text(placed)}: {self._key_reason(placed, split)}"
            case SinglePartition(why):
                return f"one partition, on one core: {why}"
            case AnyPartition() if placed.stage.replicated:
                return f"any: anchors are spread by their values and times{_replicated(placed)}"
            case AnyPartition():
                return "any: each anchor is on its own, for there is no clause"
            case _:
                assert_never(split)

    def _key_reason(self, placed: PlacedRule, split: KeyedPartitions) -> str:
        rule = placed.rule
        if not placed.stage.is_first:
            return f"bindings come from stage {placed.stage.number}{_replicated(placed)}"
        source = rule.anchor.source
        key = split.attribute[rule.anchor.label]
        is_made_under_key = (
            isinstance(source, EventSource)
            and source.event in self._producers
            and all(
                isinstance(maker.split, KeyedPartitions) and key in carried_keys(maker.rule, maker.split)
                for maker in self._producers[source.event]
            )
        )
        reasons = [f"{rule.anchor.origin} is made under it"] if is_made_under_key else []
        if not rule.clauses:
            return " and ".join(reasons) or "the rule has no clause"
        tied = [role.label for role in placed.clause_roles if role.label not in placed.stage.replicated]
        if len(tied) == len(rule.clauses):
            return " and ".join(["equalities tie every clause to the anchor", *reasons])
        equalities = [f"equalities tie {_listed(tied)} to the anchor"] if tied else []
        return " and ".join([*equalities, *reasons]) + _replicated(placed)

    def layer(self, placed: PlacedRule) -> str:
        """Number of the layer of a rule, or of a stage of it, with its reason."""
        number = next(layer for layer, own in self._stages[placed.rule.name] if own is placed)
        events: dict[Label, None] = {}
        moved: dict[Label, str] = {}
        for role, _ in placed.roles:
            if isinstance(role.source, EventSource):
                events[role.source.event] = None
                for maker in self._producers.get(role.source.event, ()):  # none where a query makes it
                    if self._layers[maker.rule.name] < number and not meet(maker.rule, maker.stage, placed.stage, role):
                        has_no_key = role.label in placed.stage.replicated or isinstance(placed.split, AnyPartition)
                        moved[role.source.event] = "made" if has_no_key else "made under another key,"
        query_events = {label: None for label in events if label not in self._producers}
        if query_events:
            return f"{number}: {_listed(query_events)} {_are(query_events)} made by a continuous query, in a layer before"
        if moved:
            how = next(iter(moved.values())) if len(set(moved.values())) == 1 else "made"
            return f"{number}: {_listed(list(moved))} {_are(moved)} {how} in a layer before"
        if not placed.stage.is_first:
            return f"{number}: above stage {placed.stage.number}"
        if not events:
            return f"{number}: it reads no events of rules"
        return f"{number}: {_listed(events)} {_are(events)} read in the partition that makes {'it' if len(events) == 1 else 'them'}"

    def recursion(self, placed: PlacedRule) -> str:
        """Rules and events of a rule's recursion; empty without one."""
        name = placed.rule.name
        members = sorted(other for other, number in self._component.items() if number == self._component.get(name))
        if len(members) < 2 and name not in self._self_recursive:
            return ""
        events = sorted({event for member in members for event, maker in self._events_read(self._placed[member].rule) if maker in members})
        together = f"rules {_listed(members)} need each other's {_listed(events)}" if len(members) > 1 else f"{events[0]} needs {events[0]}"
        one = "one partition" if isinstance(placed.split, SinglePartition) else f"one key ({_key(placed)})"
        return f"{together}, strictly in the past; so {'they have' if len(members) > 1 else 'it has'} {one}"


def _key_text(placed: PlacedRule) -> str:
    """The attributes that have the value of a stage's key: `A.?room = B.?room`."""
    rule, split, entered = placed.rule, placed.split, placed.stage.enters
    assert isinstance(split, KeyedPartitions)
    parts = [f"{role.label}.?{split.attribute[role.label]}" for role in roles(rule) if role.label in split.attribute]
    if entered is not None and isinstance(entered.key, AggregatedValue):
        clause = rule.clauses[entered.key.place - 1]
        assert isinstance(clause, Aggregate)
        parts.insert(0, f"?{clause.variable}")
    return " = ".join(parts)


def _replicated(placed: PlacedRule) -> str:
    """The labels of a stage whose events are replicated to every bucket, as the end of a reason."""
    labels = [role.label for role in placed.clause_roles if role.label in placed.stage.replicated]
    if not labels:
        return ""
    are, their = ("is", "its") if len(labels) == 1 else ("are", "their")
    return f"; {_listed(labels)} {are} replicated: every bucket has {their} events"


def _key(placed: PlacedRule) -> str:
    split = placed.split
    return f"?{split.attribute[placed.rule.anchor.label]} of {placed.rule.anchor.label}" if isinstance(split, KeyedPartitions) else "any"


def _are(words: Mapping[str, object]) -> str:
    return "is" if len(words) == 1 else "are"


def _listed(words: Sequence[str] | Mapping[str, None]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def aggregate_evaluation(rule: Rule, ports: tuple[int, ...], attributes: tuple[Variable, ...], prefixes: Prefixes) -> tuple[str, ...]:
    """Evaluation of each role's aggregate; empty for roles without one."""
    (template,) = group_rules([(0, rule, ports, attributes)])
    index_specs = compile_matcher(template, [0], Clock()).index_specs
    texts = [""]
    for clause, spec in zip(rule.clauses, index_specs, strict=True):
        if not isinstance(clause, Aggregate):
            texts.append("")
        elif spec.measure is not None:
            texts.append(_ANSWERS[spec.measure])
        else:
            texts.append(f"computed again from the window's events at each anchor: {_no_measure_reason(rule, clause, prefixes)}")
    return tuple(texts)


def _no_measure_reason(rule: Rule, clause: Aggregate, prefixes: Prefixes) -> str:
    """Reason for an aggregate without an incremental measure."""
    if clause.role.label in rule.consuming:
        return f"{clause.role.label} is consumed"
    aggregates = [each.role.label for each in rule.clauses if isinstance(each, Aggregate)]
    others = [constraint_text(c, aggregates, prefixes) for c in _unindexed_constraints(clause.role)]
    if others:
        return f"{_listed(others)} relate{'s' if len(others) == 1 else ''} it to another event by more than an equality"
    if isinstance(clause.scope, Between) or clause.scope.reference != rule.anchor.label:
        return "what is distinct is counted only in windows that hang on the anchor"
    return "its constraints need more than an index of equalities"


def _unindexed_constraints(role: Role) -> list[Expression]:
    """Constraints on other events that no index of equalities evaluates."""
    constraints: list[Expression] = []
    keyed: set[Variable] = set()
    for constraint in (c for written in role.constraints for c in conjuncts(written)):
        pair = equated_pair(constraint)
        if pair is not None and pair[0] not in keyed:
            keyed.add(pair[0])
        elif reads_other_events(constraint, role.label):
            constraints.append(constraint)
    return constraints
