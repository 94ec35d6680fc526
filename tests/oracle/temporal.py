"""Rules over facts and events, by enumeration (semantics.md, section 4): for each rule and instant, every anchor, every binding."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dotr.model.algebra import Attribute, Call, Const, Expression, TimeOf, Var
from dotr.model.rules import Absent, Aggregate, Between, Choose, EventSource, Mode, Role, Rule, Source, Window
from dotr.model.templates import Blank, Fresh, TemplateSlot, TemplateTerm
from dotr.model.terms import TRUE, XSD, Label, Term, Triple, Variable, literal_parts
from dotr.model.time import Clock, Micros
from tests.oracle.algebra import aggregate_terms, quantile, spread
from tests.oracle.expressions import Scope, computed, holds
from tests.oracle.triple_terms import anonymous, whole
from tests.oracle.values import Duration, Number, read_duration, term_of, value_of


@dataclass(frozen=True)
class OracleEvent:
    """A fact, a tick or a composite event. `identity` distinguishes equal ones: source, time, and number.
    `delay` is that of an anchor: in a match its time is later by so much."""

    identity: tuple[object, Micros, int]
    time: Micros
    attributes: Mapping[Variable, Term]
    delay: Micros | None = 0
    """None: its value of `delayed by` is no delay, so that it is no anchor."""

    @property
    def stands(self) -> Micros:
        return self.time + (self.delay or 0)


@dataclass(frozen=True)
class Output:
    """What a firing writes."""

    time: Micros
    rule: str
    event: Label
    attributes: Mapping[Variable, Term]
    graph: frozenset[Triple]
    dropped: int


@dataclass(frozen=True)
class Binding:
    """A partial match: the events bound to labels, the aggregates, and the events that each label would consume."""

    events: Mapping[Label, OracleEvent]
    aggregates: Mapping[Variable, Term]
    used: Mapping[Label, tuple[OracleEvent, ...]]
    results: Mapping[Label, Mapping[Variable, Term]] = field(default_factory=dict)
    """For constraints, what an aggregated label stands for: its aggregate's variable, where it has a value."""
    chosen: int = 1
    """The product of the numbers of events that the clauses so far have chosen."""


@dataclass(frozen=True)
class Over:
    """An anchor at which a rule exceeds a limit, by its reported attributes: at a clause's label, or with its candidates."""

    time: Micros
    rule: str
    anchor: frozenset[tuple[Variable, Term]]
    clause: Label | None


@dataclass
class Counts:
    """The counts of a rule: anchors, the bindings left after each clause and `if`, events, and the bindings that end at each of
    them (from 1) while a condition is an error."""

    anchors: int = 0
    after: Counter[int] = field(default_factory=Counter)
    events: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    held_back: int = 0


@dataclass
class History:
    """All events so far. `last` is the time of the last instant. `decided_by_names`: blank node names alone decided something,
    so that there are many right answers."""

    clock: Clock
    last: Micros
    happened: dict[Source | Label, list[OracleEvent]] = field(default_factory=dict)
    numbers: dict[Source | Label, int] = field(default_factory=dict)
    views: dict[tuple[object, ...], list[OracleEvent]] = field(default_factory=dict)
    consumed: set[tuple[str, Label, tuple[object, Micros, int]]] = field(default_factory=set)
    firings: dict[tuple[str, tuple[Term | None, ...]], Micros] = field(default_factory=dict)
    """The time of the last firing of a rule with `once` that was not held back, by its keys."""
    decided_by_names: bool = False
    fired: int = 0
    matches: int = 100_000
    probes: int = 20_000_000
    over: set[Over] = field(default_factory=set)
    counts: dict[str, Counts] = field(default_factory=dict)
    starts: dict[tuple[str, Label], Micros] = field(default_factory=dict)
    """The time up to which a role of a rule, by its name and label, sees nothing."""

    def record(self, key: Source | Label, time: Micros, attributes: Mapping[Variable, Term]) -> None:
        known = self.happened.setdefault(key, [])
        number = sum(1 for h in known if h.time == time)
        known.append(OracleEvent((None, time, number), time, attributes))

    def of(self, role: Role) -> list[OracleEvent]:
        """The events of a role. Two roles of one rule have the same event if they read the same shared query or event:
        an inline query that hides it is another."""
        key = role.source.event if isinstance(role.source, EventSource) else role.source
        of = role.origin, self.numbers.setdefault(key, len(self.numbers))
        view = self.views.setdefault((of, role.delay, role.delayed_by, role.label), [])
        happened = self.happened.get(key, [])[len(view) :]
        view += [replace(h, identity=(of, *h.identity[1:]), delay=delay_of(role, h, self.clock)) for h in happened]
        return view

    def anchors(self, rule: Rule) -> list[OracleEvent]:
        """The possible anchors of the rule, with delays. Events after the last instant are no delayed anchors."""
        found = [h for h in self.of(rule.anchor) if (not rule.anchor.delay or h.time <= self.last) and h.delay is not None]
        return [h for h in found if self.sees(rule, rule.anchor, h)]

    def sees(self, rule: Rule, role: Role, event: OracleEvent) -> bool:
        """False for an event that was there before the role."""
        start = self.starts.get((rule.name, role.label))
        return start is None or event.time > start


def delay_of(role: Role, anchor: OracleEvent, clock: Clock) -> Micros | None:
    """The delay of an anchor: a constant, or what an expression over it says, in seconds or as a duration without months."""
    if role.delayed_by is None:
        return role.delay
    term = computed(role.delayed_by, Scope(anchor.attributes, {role.label: (anchor.time, anchor.attributes)}, clock))
    plain = term is not None and term.endswith(f"^^<{XSD}duration>")  # P1Y, P0M, … : no case of a test has one that says 0 months
    value = None if term is None else (read_duration(literal_parts(term)[0]) if plain else value_of(term))
    if isinstance(value, Duration):
        exact = Fraction(value.seconds)
    elif isinstance(value, Number) and math.isfinite(value.value):
        exact = Fraction(value.value)
    else:
        return None
    return round(exact * 1_000_000) if exact >= 0 and round(exact * 1_000_000) <= role.delay else None


def tie_key(happening: OracleEvent, names: bool) -> list[tuple[Variable, Term]]:
    """(name, value) pairs sorted by name, with all blank nodes equal, or with their names."""
    return [(v, t if names else anonymous(t)) for v, t in sorted(happening.attributes.items())]


def position(happening: OracleEvent) -> tuple[object, ...]:
    return happening.time, tie_key(happening, False), tie_key(happening, True)


def same_but_for_names(a: OracleEvent, b: OracleEvent) -> bool:
    return a.time == b.time and tie_key(a, False) == tie_key(b, False) and tie_key(a, True) != tie_key(b, True)


def fire(rule: Rule, now: Micros, history: History) -> list[Output]:
    """All firings of a rule at a time that may have an anchor of it."""
    outputs = []
    counts = history.counts.setdefault(rule.name, Counts())
    anchors = sorted((h for h in history.anchors(rule) if h.stands == now), key=position)
    if (rule.consuming or rule.once) and any(same_but_for_names(a, b) for a in anchors for b in anchors):
        history.decided_by_names = True
    for anchor in anchors:
        start = Binding({}, {}, {})
        if not constrained(rule.anchor, anchor, start, history):
            continue
        counts.anchors += 1
        bindings = [Binding({rule.anchor.label: anchor}, {}, {rule.anchor.label: (anchor,)})]
        over: set[Over] = set()
        tried = 0
        errors: Counter[int] = Counter()
        for place, clause in enumerate(rule.clauses):
            extended: list[Binding] = []
            for binding in bindings:
                tried += len(candidates_tried(rule, clause, binding, history))
                further = list(extend(rule, clause, binding, history))
                errors[place + 1] += isinstance(clause, Choose) and not further and errs(rule, clause, binding, history)
                if isinstance(clause, Choose) and binding.chosen * len(further) > history.matches:
                    over = over or {Over(now, rule.name, reported(rule, anchor), clause.role.label)}  # the first such clause
                else:
                    extended += [replace(each, chosen=binding.chosen * len(further)) for each in further]
            bindings = extended
            counts.after[place] += len(bindings)
        if tried > history.probes:
            over, bindings, errors = {Over(now, rule.name, reported(rule, anchor), None)}, [], Counter()
        history.over |= over
        complete = [b for b in bindings if rule.condition is None or holds(rule.condition, scope(b, history))]
        if rule.condition is not None:
            counts.after[len(rule.clauses)] += len(complete)
            errors[len(rule.clauses) + 1] += sum(is_error([rule.condition], scope(b, history)) for b in bindings)
        counts.errors += errors
        if rule.once is not None:
            every = len(complete)
            complete = [b for b in complete if goes_off(rule, b, now, history)]
            counts.held_back += every - len(complete)
        counts.events += len(complete)
        outputs += [output(rule, now, b, history) for b in complete]
        # Consumption takes effect only now. Consuming the anchor has no effect: each anchor is seen once.
        for binding in () if over else complete:
            for label in rule.consuming:
                history.consumed |= {(rule.name, label, h.identity) for h in binding.used.get(label, ())}
    return outputs


def goes_off(rule: Rule, binding: Binding, now: Micros, history: History) -> bool:
    """True if `once` does not hold a firing back: none of equal keys was at this moment or less than the pause before."""
    assert rule.once is not None
    inner = scope(binding, history)
    values = {a.variable: computed(a.expression, inner) for a in rule.assignments}
    keys = rule.name, tuple(values[key] for key in rule.once.keys)
    before = history.firings.get(keys)
    if before is not None and (before == now or now - before < rule.once.pause):
        return False
    history.firings[keys] = now
    return True


def scope(binding: Binding, history: History) -> Scope:
    """The scope of `if` and `with`: bound labels, and aggregates as variables."""
    return Scope(binding.aggregates, {label: (h.time, h.attributes) for label, h in binding.events.items()}, history.clock)


def constrained(role: Role, candidate: OracleEvent, binding: Binding, history: History) -> bool:
    """True if a candidate satisfies its constraints, over its own attributes as variables and the labels bound before."""
    inner = candidate_scope(role, candidate, binding, history)
    return all(holds(constraint, inner) for constraint in role.constraints)


def candidate_scope(role: Role, candidate: OracleEvent, binding: Binding, history: History) -> Scope:
    events = {**binding.events, role.label: candidate}
    seen = {label: (h.time, h.attributes) for label, h in events.items()}
    return Scope(candidate.attributes, {**seen, **{label: (0, result) for label, result in binding.results.items()}}, history.clock)


def is_error(conditions: Sequence[Expression], inner: Scope) -> bool:
    """True if a conjunction is an error: none of the conditions is false, and one has no truth."""
    truths = [computed(Call("!", (each,)), inner) for each in conditions]
    return TRUE not in truths and None in truths


def errs(rule: Rule, clause: Choose, binding: Binding, history: History) -> bool:
    """True if the conditions of a candidate that name another event are an error. The equality of an attribute with another event's
    selects the candidates, as do the conditions without another event."""
    every = [each for constraint in clause.role.constraints for each in conjuncts(constraint)]
    known = selecting(clause.role)
    lane = candidates(rule, replace(clause.role, constraints=tuple(known)), clause.window, binding, history)
    taken = {h.identity for h in binding.events.values()}
    rest = [each for each in every if each not in known]
    return any(is_error(rest, candidate_scope(clause.role, h, binding, history)) for h in lane if h.identity not in taken)


def candidates(rule: Rule, role: Role, where: Window | Between, binding: Binding, history: History) -> list[OracleEvent]:
    """The events in the interval that satisfy the constraints and are not consumed, in order of time and ties."""
    found = []
    for event in history.of(role):
        if not history.sees(rule, role, event):
            continue
        if isinstance(where, Window):
            inside = where.interval.holds(reference=binding.events[where.reference].stands, candidate=event.time)
        else:
            low, high = sorted((binding.events[where.first].stands, binding.events[where.second].stands))
            inside = low < event.time < high
        if inside and (rule.name, role.label, event.identity) not in history.consumed and constrained(role, event, binding, history):
            found.append(event)
    return sorted(found, key=position)


def extend(rule: Rule, clause: Choose | Absent | Aggregate, binding: Binding, history: History) -> Iterator[Binding]:
    if isinstance(clause, Choose):
        role = clause.role
        taken = set() if clause.also else {h.identity for h in binding.events.values()}
        found = [h for h in candidates(rule, role, clause.window, binding, history) if h.identity not in taken]
        some = chosen(clause, found, history)
        if rule.once and any(same_but_for_names(a, b) for a in some for b in some):
            history.decided_by_names = True
        for event in some:
            events, used = {**binding.events, role.label: event}, {**binding.used, role.label: (event,)}
            yield replace(binding, events=events, used=used)
    elif isinstance(clause, Absent):
        if not candidates(rule, clause.role, clause.scope, binding, history):
            yield binding
    else:
        found = candidates(rule, clause.role, clause.scope, binding, history)
        if clause.attribute is not None:
            found = [h for h in found if clause.attribute in h.attributes]
        term = aggregate(clause, found)
        result = {} if term is None else {clause.variable: term}
        used = {**binding.used, clause.role.label: tuple(found)}
        results = {**binding.results, clause.role.label: result}
        yield Binding(binding.events, {**binding.aggregates, **result}, used, results, binding.chosen)


def reported(rule: Rule, anchor: OracleEvent) -> frozenset[tuple[Variable, Term]]:
    """The attributes of an anchor that are visible to a user."""
    source = rule.anchor.source
    names = source.attributes if isinstance(source, EventSource) else source.projected
    return frozenset((name, term) for name, term in anchor.attributes.items() if name in names)


def conjuncts(constraint: Expression) -> list[Expression]:
    if isinstance(constraint, Call) and constraint.function == "&&":
        return [each for argument in constraint.arguments for each in conjuncts(argument)]
    return [constraint]


def names_other(constraint: Expression, own: Label) -> bool:
    match constraint:
        case Attribute():
            return True
        case TimeOf(label):
            return label != own
        case Call(_, arguments):
            return any(names_other(argument, own) for argument in arguments)
        case _:
            return False


def equated(constraint: Expression) -> Variable | None:
    match constraint:
        case Call("=", (Var(name), Attribute())) | Call("=", (Attribute(), Var(name))):
            return name
        case _:
            return None


def candidates_tried(rule: Rule, clause: Choose | Absent | Aggregate, binding: Binding, history: History) -> list[OracleEvent]:
    """The events in the interval that satisfy the clause's equalities and its conditions without other labels, as far as they are tried."""
    role = clause.role
    where = clause.window if isinstance(clause, Choose) else clause.scope
    every = [each for constraint in role.constraints for each in conjuncts(constraint)]
    known = selecting(role)
    lane = candidates(rule, replace(role, constraints=tuple(known)), where, binding, replace(history, consumed=set()))
    good = {h.identity for h in candidates(rule, role, where, binding, history)}
    if isinstance(clause, Aggregate):
        lane = [h for h in lane if clause.attribute is None or clause.attribute in h.attributes]
        near = isinstance(clause.scope, Window) and clause.scope.reference == rule.anchor.label
        quick = clause.function.upper() in ("MIN", "MAX") or not clause.distinct or near
        return [] if quick and len(known) == len(every) and role.label not in rule.consuming else lane
    if isinstance(clause, Absent):
        return until(lane, good, 1)
    if clause.mode is Mode.EACH:
        return lane
    taken = set() if clause.also else {h.identity for h in binding.events.values()}
    lane = lane[::-1] if clause.mode is Mode.LAST else lane
    return until(lane, good - taken, clause.count or 1)


def selecting(role: Role) -> list[Expression]:
    """The conditions by which events are looked up: an equality for each attribute, and those that name no other event."""
    every = [each for constraint in role.constraints for each in conjuncts(constraint)]
    keys: dict[Variable, Expression] = {}
    for constraint in every:
        name = equated(constraint)
        if name is not None:
            keys.setdefault(name, constraint)
    return [each for each in every if each in keys.values() or not names_other(each, role.label)]


def until(lane: list[OracleEvent], good: set[tuple[object, Micros, int]], count: int) -> list[OracleEvent]:
    """The first candidates, up to the one that completes the number of good ones."""
    tried: list[OracleEvent] = []
    for each in lane:
        tried.append(each)
        count -= each.identity in good
        if not count:
            break
    return tried


def chosen(clause: Choose, found: list[OracleEvent], history: History) -> list[OracleEvent]:
    if clause.mode is Mode.EACH:
        return found
    count = 1 if clause.count is None else clause.count
    taken = found[-count:] if clause.mode is Mode.LAST else found[:count]
    if any(same_but_for_names(a, b) for a in taken for b in found if b not in taken):
        history.decided_by_names = True
    return taken


def aggregate(clause: Aggregate, found: list[OracleEvent]) -> Term | None:
    """F over the events that have the attribute; of no events, count and sum are 0 and the others unbound."""
    if clause.attribute is None:
        return term_of(Number("integer", Fraction(len(found))))
    name = clause.function.upper()
    terms = [h.attributes[clause.attribute] for h in found]
    if clause.distinct:
        terms = sorted(set(terms))
    if name in ("MEDIAN", "QUANTILE"):
        return quantile(terms, Fraction(clause.fraction or "1/2"))
    if name in ("VARIANCE", "STDDEV"):
        return spread(terms, root=name == "STDDEV")
    if not terms and name == "AVG":
        return None
    return aggregate_terms(name, terms)


def output(rule: Rule, now: Micros, binding: Binding, history: History) -> Output:
    inner = scope(binding, history)
    values = {a.variable: computed(a.expression, inner) for a in rule.assignments}
    attributes = {v: t for v, t in values.items() if t is not None}
    history.fired += 1
    graph, dropped = set(), 0
    for triple in rule.template.triples:
        s, p, o = (instance(slot, attributes, history.fired) for slot in triple)
        if s is None or p is None or o is None or whole(s, p, o) is None:
            dropped += 1
        else:
            graph.add((s, p, o))
    return Output(now, rule.name, rule.event, attributes, frozenset(graph), dropped)


def instance(slot: TemplateSlot, attributes: Mapping[Variable, Term], firing: int) -> Term | None:
    """A place of the template; names are fresh for every firing (here by its number: compare up to names)."""
    if isinstance(slot, Const):
        return slot.term
    if isinstance(slot, Var):
        return attributes.get(slot.name)
    if isinstance(slot, TemplateTerm):
        s, p, o = (instance(part, attributes, firing) for part in (slot.subject, slot.predicate, slot.object))
        return None if s is None or p is None or o is None else whole(s, p, o)
    assert isinstance(slot, Fresh | Blank)
    digest = hashlib.sha256(f"{firing} {slot}".encode()).hexdigest()[:32]
    return f"<urn:dotr:{digest}>" if isinstance(slot, Fresh) else f"_:fresh{digest}"


def waits_for(rule: Rule) -> set[Label]:
    """The events of the same instant that a rule may read: of its anchor, and of clauses whose interval includes distance 0."""
    least: dict[Label, Micros] = {rule.anchor.label: 0}
    labels = {rule.anchor.source.event} if isinstance(rule.anchor.source, EventSource) and not rule.anchor.least_delay else set()
    for clause in rule.clauses:
        where = clause.window if isinstance(clause, Choose) else clause.scope
        # Strictly between two bound events is never the present.
        distance = least[where.reference] + where.interval.bounds[0] if isinstance(where, Window) else 1
        least[clause.role.label] = distance
        if distance == 0 and isinstance(clause.role.source, EventSource):
            labels.add(clause.role.source.event)
    return labels


def in_order(rules: tuple[Rule, ...]) -> list[Rule]:
    """Every rule after those that define the events of the same instant that it reads."""
    waiting, ordered = sorted(rules, key=lambda rule: rule.name), []
    while waiting:
        ready = [r for r in waiting if not any(other.event in waits_for(r) for other in waiting)]
        if not ready:
            raise ValueError("a same-instant cycle")
        ordered += ready
        waiting = [r for r in waiting if r not in ready]
    return ordered
