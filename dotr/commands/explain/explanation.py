"""Execution plan of a program as data for text and drawing: queries, and rules with sources, state
and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, assert_never

from dotr.commands.check.retained_state import link_text, of_each, shown_prefixes
from dotr.engine.program import CompiledProgram
from dotr.explanations.descriptions import DescribedProgram, DrawnUnit, Paragraph, described
from dotr.instant.datalog.dependencies import relevant_rules
from dotr.instant.queries import QueryPlan, canonical, plan
from dotr.languages.registry import RuleLanguage
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Expression, Select, Var
from dotr.model.event_order import equated_pair
from dotr.model.graphs import components
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, EventSource, FactSource, Mode, Role, Rule, Window
from dotr.model.terms import Label, Prefixes, Term, Variable
from dotr.model.time import EVER, Clock, Micros
from dotr.model.traverse import conjuncts, transform
from dotr.syntax.rendering import (
    bound_text,
    constraint_text,
    duration_text,
    expression_text,
    once_text,
    period_text,
    predicate_text,
    scope_text,
    term_text,
)
from dotr.temporal.layout.keys import AnyPartition, KeyedPartitions, SinglePartition, carried_keys
from dotr.temporal.layout.layers import Layer, Layout, PlacedRule
from dotr.temporal.layout.placement import meet
from dotr.temporal.layout.retention import longest_chain, lookbacks, roles, scope_of, standing
from dotr.temporal.layout.stages import AggregatedValue
from dotr.temporal.layout.units import ProgramUnit
from dotr.temporal.matching.event_store import Measure
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.rule_templates import group_rules, reads_other_events

# Reasons for the placement of rules: partition key, layer, recursion, and evaluation of
# aggregates.
#
# Partitions and layers are read from the layout, the evaluation of an aggregate from its matcher.


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


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """Plan of a query.

    `labels` and `rules` use its answers; `how`: evaluation; `triggers`: kinds of triples that cause
    an evaluation; `datalog`: rules that derive such triples; `static`: number of static answers. A
    query of ticks has no triggers.
    """

    number: int
    labels: tuple[Label, ...]
    rules: tuple[str, ...]
    how: str
    triggers: tuple[str, ...]
    datalog: tuple[str, ...]
    static: str


@dataclass(frozen=True, slots=True)
class ClauseExplanation:
    """Plan of one role of a rule.

    `source`: number of a query, an event, or None for ticks of the clock; `scope`: window;
    `answer`: evaluation of an aggregate; `state`: stored events; `consumed`: effect of `consuming`.
    """

    selection: str
    label: Label
    source: int | Label | None
    scope: str
    timer: str
    constraints: tuple[str, ...]
    answer: str
    state: str
    consumed: str

    def written(self, source: str = "") -> str:
        """Role in one line, with the text of its source."""
        words = [self.selection, self.label, source, self.scope]
        return " ".join(filter(None, words)) + (f", {self.timer}" if self.timer else "")


@dataclass(frozen=True, slots=True)
class StageExplanation:
    """Plan of a stage of a rule that has several: the labels of its roles, its partition and its
    layer, each with a reason."""

    labels: tuple[Label, ...]
    partition: str
    placement: str


@dataclass(frozen=True, slots=True)
class RuleExplanation:
    """Plan of a rule: its roles in order, assignments, partition and layer (of several stages the
    last one's); `same_template` rules share its matcher; `internal`: its event is."""

    name: str
    documentation: str
    event: Label
    layer: int
    steps: tuple[ClauseExplanation, ...]
    condition: str
    assignments: tuple[str, ...]
    partition: str
    placement: str
    recursion: str
    same_template: tuple[str, ...]
    stages: tuple[StageExplanation, ...] = ()
    internal: bool = False
    once: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Plan of a program: background, number of stateful layers, queries, rules by layer, shared
    queries without a reader; other units by language and layer as text, by layer as drawn."""

    title: str
    knowledge: str
    stateful: int
    queries: tuple[QueryExplanation, ...]
    rules: tuple[RuleExplanation, ...]
    unread: tuple[Label, ...]
    units: tuple[Paragraph, ...] = ()
    drawn: tuple[DrawnUnit, ...] = ()


def explanation(title: str, program: CompiledProgram) -> Explanation:
    """Explanation of a compiled program."""
    return _Explainer(program).explanation(title)


class _Explainer:
    def __init__(self, program: CompiledProgram) -> None:
        self.program = program
        self.prefixes = shown_prefixes(program.spec)
        self.datalog = program.own_datalog
        self.reasons = Reasons(program.layout)
        self.numbers: dict[tuple[Select, bool], int] = {}
        for source in program.layout.streams:
            if not _is_clock(source):
                self.numbers.setdefault((canonical(source.query), source.period is not None), len(self.numbers) + 1)

    def explanation(self, title: str) -> Explanation:
        """Explanation of the program."""
        knowledge = self.program.knowledge
        text = (
            f"{knowledge.loaded:,} triples, and {knowledge.background.visible_count() - knowledge.loaded:,} derived from them once; "
            f"entailment {self.program.spec.entailment.value}; {len(self.datalog)} Datalog rule{'' if len(self.datalog) == 1 else 's'}"
        )
        every = [(layer, placed) for layer in self.program.layout.layers for placed in layer.rules]
        rules = [self.rule(layer, placed) for layer, placed in every if placed.stage.is_last]
        queries = tuple(self.queries())
        read = {label for query in queries for label in query.labels}
        unread = tuple(shared.label for shared in self.program.rules.queries if shared.label not in read)
        stateful = self.program.layout.stateful_operators
        return Explanation(title, text, stateful, queries, tuple(rules), unread, *self.units())

    def units(self) -> tuple[tuple[Paragraph, ...], tuple[DrawnUnit, ...]]:
        """The texts on the units other than rules, by language and layer, and the drawn units, by
        layer."""
        program = self.program
        units: list[ProgramUnit] = [*program.rules.rules, *program.units]
        within = DescribedProgram(units, program.closing_rules, program.knowledge.background, self.prefixes)
        texts: dict[RuleLanguage | None, list[Paragraph]] = {language: [] for language in RuleLanguage}
        drawn: list[DrawnUnit] = []
        for layer in program.layout.layers:
            for placed in layer.units:
                found = described(placed.unit).description(layer, within)
                if found is not None:
                    texts.setdefault(RuleLanguage.of(placed.unit.span.document.name), []).extend(found.text)
                    drawn.append(found.drawn)
        return tuple(chain.from_iterable(texts.values())), tuple(drawn)

    def queries(self) -> Iterable[QueryExplanation]:
        """Plans of the queries that rules read, by number."""
        users: dict[int, list[tuple[str, Label]]] = {}
        first: dict[int, FactSource] = {}
        placed = sorted((p.rule for layer in self.program.layout.layers for p in layer.rules), key=lambda rule: rule.name)
        for rule in placed:
            for role in roles(rule):
                if isinstance(role.source, FactSource) and not _is_clock(role.source):
                    number = self.number(role.source)
                    users.setdefault(number, []).append((rule.name, role.origin))
                    first.setdefault(number, role.source)
        for number, source in sorted(first.items()):
            planned = plan(source.query, self.program.knowledge.background)
            labels = tuple(dict.fromkeys(label for _, label in users[number]))
            rules = tuple(dict.fromkeys(name for name, _ in users[number]))
            answers = f"{len(planned.static):,} answer{'' if len(planned.static) == 1 else 's'}"
            datalog = relevant_rules(source.query, self.datalog)
            if source.period is not None:
                ticks = f"{answers}, each a tick" if planned.static else "no answer, so that it never ticks"
                how = f"once, of the background alone: {ticks}"
                yield QueryExplanation(number, labels, rules, how, (), datalog, "")
            else:
                triggers = ("any triple",) if planned.reads is None else tuple(sorted(map(self.kind, planned.reads)))
                static = f"{answers} of the background alone, at every instant" if planned.static else ""
                yield QueryExplanation(number, labels, rules, _how(planned), triggers or ("every instant",), datalog, static)

    def number(self, source: FactSource) -> int:
        """Number of a query; equal queries share one."""
        return self.numbers[canonical(source.query), source.period is not None]

    def kind(self, kind: tuple[Term, Term | None]) -> str:
        """Text of a kind of triples: predicate and object (None: any)."""
        predicate, value = kind
        return predicate_text(predicate, self.prefixes) + (f" {term_text(value, self.prefixes)}" if value is not None else "")

    def rule(self, layer: Layer, placed: PlacedRule) -> RuleExplanation:
        """Plan of a rule, with its last stage."""
        rule = placed.rule
        answers = aggregate_evaluation(rule, tuple(range(len(roles(rule)))), self.program.attributes[rule.event], self.prefixes)
        clauses: tuple[Clause | None, ...] = (None, *rule.clauses)
        steps = [
            self.step(rule, role, clause, answer, self.state(rule, position))
            for position, (role, clause, answer) in enumerate(zip(roles(rule), clauses, answers, strict=True))
        ]
        return RuleExplanation(
            rule.name,
            rule.documentation,
            rule.event,
            layer.number,
            tuple(steps),
            "" if rule.condition is None else expression_text(rule.condition, self.prefixes),
            tuple(f"{rule.event}.?{a.variable} = {expression_text(a.expression, self.prefixes)}" for a in rule.assignments),
            self.reasons.partition(placed),
            self.reasons.layer(placed),
            self.reasons.recursion(placed),
            self.same_template[rule.name],
            () if placed.stage.is_whole else tuple(self.stage(each) for _, each in self.stages[rule.name]),
            rule.internal,
            "" if rule.once is None else once_text(rule.once),
        )

    def stage(self, placed: PlacedRule) -> StageExplanation:
        """Plan of a stage of a rule that has several."""
        labels = tuple(role.label for role, _ in placed.roles)
        return StageExplanation(labels, self.reasons.partition(placed), self.reasons.layer(placed))

    @cached_property
    def stages(self) -> dict[str, list[tuple[Layer, PlacedRule]]]:
        """The stages of each rule in order, with their layers."""
        found: dict[str, list[tuple[Layer, PlacedRule]]] = {}
        for layer in self.program.layout.layers:
            for placed in layer.rules:
                found.setdefault(placed.rule.name, []).append((layer, placed))
        return found

    @cached_property
    def same_template(self) -> dict[str, tuple[str, ...]]:
        """Other rules with the same matcher, by rule."""
        others: dict[str, tuple[str, ...]] = {}
        numbers: dict[tuple[int, int], int] = {}
        by_places: dict[object, list[tuple[int, Rule, tuple[int, ...], tuple[str, ...]]]] = {}
        for stages in self.stages.values():
            rule = stages[0][1].rule
            ports = tuple(numbers.setdefault((layer.number, port), len(numbers)) for layer, placed in stages for _, port in placed.roles)
            places = tuple((layer.number, placed.depth) for layer, placed in stages)
            group = by_places.setdefault(places, [])
            group.append((len(group), rule, ports, self.program.attributes[rule.event]))
        for group in by_places.values():
            for same_template in group_rules(group):
                names = [group[number][1].name for number in same_template.numbers]
                others |= {name: tuple(other for other in names if other != name) for name in names}
        return others

    def step(self, rule: Rule, role: Role, clause: Clause | None, answer: str, state: str) -> ClauseExplanation:
        """Plan of a role."""
        if not isinstance(role.source, FactSource):
            source: int | Label | None = role.source.event
        else:
            source = None if _is_clock(role.source) else self.number(role.source)
        aggregates = [each.role.label for each in rule.clauses if isinstance(each, Aggregate)]
        constraints = tuple(constraint_text(constraint, aggregates, self.prefixes) for constraint in role.constraints)
        scope = "" if clause is None else scope_text(scope_of(clause))
        consumed = _consumed(clause) if role.label in rule.consuming else ""
        return ClauseExplanation(_selection(clause), role.label, source, scope, self.timer(role), constraints, answer, state, consumed)

    def timer(self, role: Role) -> str:
        """Text of an anchor's timer; empty without one."""
        if role.delay:
            by = duration_text(role.delay)
            if role.delayed_by is not None:
                value = transform(role.delayed_by, lambda part: Attribute(role.label, part.name) if isinstance(part, Var) else part)
                by = f"{expression_text(value, self.prefixes)} at most {by}"
            return f"delayed by {by}: looked at that much after it held"
        if isinstance(role.source, FactSource) and role.source.period is not None:
            each = "" if _is_clock(role.source) else ", a tick for each answer"
            return f"every {period_text(role.source.period)}{each}"
        return ""

    def state(self, rule: Rule, position: int) -> str:
        """State of a role: stored attributes, retention, and the rule that needs a longer one."""
        role = roles(rule)[position]
        layer, port = next((layer, port) for layer, placed in self.stages[rule.name] for own, port in placed.roles if own is role)
        attributes = ", ".join(f"?{name}" for name in role.source.attributes) or "no attributes"
        if not position:
            most = "" if rule.anchor.delayed_by is None else "at most "
            return f"{attributes}: wait {most}{duration_text(rule.anchor.delay)}" if rule.anchor.delay else ""
        own, needed = lookbacks(rule)[position].far, standing(rule, rule.clauses[position - 1])
        links = longest_chain(rule, rule.clauses[position - 1])
        way = f" ({', '.join(map(link_text, links))})" if len(links) > 1 else ""
        if needed is not None and own >= EVER.high:
            return f"{attributes}: kept the newest {of_each(needed.keys)}{way}"
        retention, more = max([_lookback(other, port) for other in layer.rules]), ""
        if retention > max(own, 0):  # the look-back of an empty interval is negative
            others = [other.rule.name for other in layer.rules if _lookback(other, port) == retention]
            more = f", and {bound_text(retention)} for {'this rule' if others[0] == rule.name else 'rule ' + others[0]}"
            if others[0] == rule.name:
                more += "'s other events of that kind"
        return f"{attributes}: kept {bound_text(own) if own > 0 else 'for their instant'}{way}{more}"


def _lookback(placed: PlacedRule, port: int) -> Micros:
    """Greatest lookback of a rule over the events of a port, in µs, `before` apart; -1 without
    one."""
    stage = slice(placed.stage.first, placed.stage.end)
    clauses = zip(placed.ports[1:], placed.rule.clauses[stage], lookbacks(placed.rule)[1:][stage], strict=True)
    found = [reach.far for other, clause, reach in clauses if other == port and not _is_before(clause)]
    return max(found, default=-1)


def _is_before(clause: Clause) -> bool:
    scope = scope_of(clause)
    return isinstance(scope, Window) and scope.interval == EVER


def _is_clock(source: FactSource) -> bool:
    """True for ticks without a query."""
    return source.period is not None and not source.query.projection and not source.attributes


def _how(planned: QueryPlan) -> str:
    if not planned.is_incremental:
        return f"in full, at the cost of the background: {planned.reason}"
    return "from what the instant brings" + (f", by operators: {planned.reason}" if planned.reason else "")


def _selection(clause: Clause | None) -> str:
    match clause:
        case None:
            return "from"
        case Choose(_, mode, _, count, also):
            return f"{'also ' if also else ''}{mode.value}" + ("" if count is None or mode is Mode.EACH else f" {count}")
        case Absent():
            return "not"
        case Aggregate(variable, function, distinct, attribute, fraction=fraction):
            argument = f"{'distinct ' if distinct else ''}{'*' if attribute is None else f'?{attribute}'}"
            return f"?{variable} = {function}({argument if fraction is None else f'{fraction}, {argument}'}) of"


def _consumed(clause: Clause | None) -> str:
    match clause:
        case None | Absent():
            return "no effect"
        case Choose():
            return "the event of a match is used up for this rule"
        case Aggregate(variable):
            return f"all that ?{variable} is made of is used up for this rule"
