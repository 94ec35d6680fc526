"""EP-SPARQL by the letter (ep-sparql.md): every solution so far is stored, every pair is tried, nothing expires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dotr.model.algebra import Bgp, Call, Const, Expression, Filter, Join, Pattern, Select, TriplePattern, Var
from dotr.model.templates import Blank, Fresh, Template, TemplateSlot, leaves
from dotr.model.terms import XSD, Label, Term, Triple, Variable, literal
from dotr.model.time import Clock, Micros
from dotr.model.traverse import transform
from dotr.temporal.intervals.patterns import (
    DURATION,
    END,
    START,
    Alternatives,
    Chain,
    Combination,
    ConstructedGraphs,
    EventRead,
    InstantAnswers,
    InstantGroup,
    IntervalPattern,
    SelectedSolutions,
    TemporalOperator,
    TemporalQuery,
    UsePolicy,
)
from tests.oracle.algebra import Solution, agree, select, solutions
from tests.oracle.expressions import Scope, computed, holds, time_term
from tests.oracle.temporal import Output, instance
from tests.oracle.triple_terms import anonymous, whole
from tests.oracle.values import Duration, duration_text, length


class TooManyPairs(Exception):
    """Raised for more solutions than a test should take time for."""


@dataclass(frozen=True, eq=False)
class Found:
    """A solution (µ, s, e). Equal solutions are counted separately."""

    mapping: Solution
    start: Micros
    end: Micros


@dataclass(frozen=True)
class EventMade:
    """An event of any language, or a fact of a shared query. `start` is its time, except for those of `.epsparql`."""

    label: Label
    start: Micros
    time: Micros
    attributes: Mapping[Variable, Term]


@dataclass(frozen=True)
class GraphMade:
    """A constructed graph (G, s, t), and the template that made it."""

    graph: frozenset[Triple]
    start: Micros
    time: Micros
    template: Template


@dataclass
class View:
    """The data of a moment, so far: K(t) of an instant, events and constructed graphs of this time."""

    now: Micros
    clock: Clock
    known: frozenset[Triple] | None
    events: list[EventMade] = field(default_factory=list)
    graphs: list[GraphMade] = field(default_factory=list)


# --- durations are ordered and equal by length (2.2) ---

COMPARED = ("<", ">", "<=", ">=", "=", "!=")


def with_lengths(expression: Expression) -> Expression:
    """The expression with renamed comparisons, which `tests.oracle.expressions` evaluates for durations, too."""

    def renamed(part: Expression) -> Expression:
        return Call(f"LENGTH {part.function}", part.arguments) if isinstance(part, Call) and part.function in COMPARED else part

    return transform(expression, renamed)


# --- bounds (3) ---


def least(*limits: Micros | None) -> Micros | None:
    return min((limit for limit in limits if limit is not None), default=None)


def limit(conditions: Iterable[Expression]) -> Micros | None:
    """The least d of conjuncts `getDURATION() <= d` and the like."""
    found: list[Micros | None] = []
    for condition in conditions:
        match condition:
            case Call("&&", parts):
                found.append(limit(parts))
            case Call("<=" | "=", (Var(name), Const(term))) | Call(">=" | "=", (Const(term), Var(name))) if name == DURATION:
                seconds = length(term)
                found.append(None if seconds is None else int(seconds * 1_000_000 // 1))
            case Call("<", (Var(name), Const(term))) | Call(">", (Const(term), Var(name))) if name == DURATION:
                seconds = length(term)
                found.append(None if seconds is None else int(-(-seconds * 1_000_000 // 1)) - 1)
    return least(*found)


# --- patterns ---


class Node:
    """A pattern with its state. `fresh` returns its solutions that end now; `settle` ends the moment."""

    def fresh(self, view: View) -> list[Found]:
        raise NotImplementedError

    def settle(self, view: View) -> None:
        raise NotImplementedError


@dataclass
class Leaf(Node):
    pattern: InstantGroup | EventRead

    def fresh(self, view: View) -> list[Found]:
        if isinstance(self.pattern, EventRead):
            events = [event for event in view.events if event.label == self.pattern.label]
            return [Found(self.renamed(event.attributes), event.start, event.time) for event in events]
        found = []
        query = self.pattern.query
        query = Select(query.projection, of_lengths(query.pattern))
        if view.known is not None:
            found += [Found(mapping, view.now, view.now) for mapping in select(query, view.known)]
        for made in view.graphs:
            if may_read(self.pattern, made.template):
                found += [Found(mapping, made.start, made.time) for mapping in solutions(query, sorted(made.graph), {})]
        return found

    def renamed(self, attributes: Mapping[Variable, Term]) -> Solution:
        assert isinstance(self.pattern, EventRead)
        return {variable: attributes[name] for name, variable in self.pattern.attributes if name in attributes}

    def settle(self, view: View) -> None:
        pass


def of_lengths(pattern: Pattern) -> Pattern:
    """The pattern with comparisons of durations in the FILTERs of its groups."""
    match pattern:
        case Filter(inner, conditions):
            return Filter(of_lengths(inner), tuple(map(with_lengths, conditions)))
        case Join(left, right):
            return Join(of_lengths(left), of_lengths(right))
        case _:
            return pattern


def may_read(group: InstantGroup, template: Template) -> bool:
    """2.1: every triple pattern unifies with some triple of the template. Only basic groups read graphs."""
    triples = [item for part in parts(group.pattern) for item in part.patterns]
    if not group.triples:
        return False
    return all(
        any(
            all(unifies(slot, made) for slot, made in zip((t.subject, t.predicate, t.object), row, strict=True)) for row in template.triples
        )
        for t in triples
        if isinstance(t, TriplePattern)
    )


def parts(pattern: Pattern) -> list[Bgp]:
    match pattern:
        case Bgp():
            return [pattern]
        case Join(left, right):
            return parts(left) + parts(right)
        case _:
            return parts(pattern.pattern) if hasattr(pattern, "pattern") else []


def unifies(slot: Var | Const, made: TemplateSlot) -> bool:
    if isinstance(slot, Var):
        return True
    if isinstance(made, Blank | Fresh):
        return False
    return not isinstance(made, Const) or made == slot


@dataclass
class United(Node):
    branches: list[Node]

    def fresh(self, view: View) -> list[Found]:
        return [found for branch in self.branches for found in branch.fresh(view)]

    def settle(self, view: View) -> None:
        for branch in self.branches:
            branch.settle(view)


@dataclass
class Ended(Node):
    inner: Node
    chain: Chain

    def fresh(self, view: View) -> list[Found]:
        result = []
        for found in self.inner.fresh(view):
            mapping = dict(found.mapping)
            for name, expression in self.chain.bindings:
                term = computed(with_lengths(expression), scope(mapping, found.start, found.end, view.clock))
                if term is not None:
                    mapping[name] = term
            inside = scope(mapping, found.start, found.end, view.clock)
            short = self.chain.within is None or found.end - found.start <= self.chain.within
            if short and all(holds(with_lengths(condition), inside) for condition in self.chain.filters):
                result.append(Found(mapping, found.start, found.end))
        return result

    def settle(self, view: View) -> None:
        self.inner.settle(view)


def scope(mapping: Mapping[Variable, Term], start: Micros, end: Micros, clock: Clock) -> Scope:
    length_text = literal(duration_text(Duration(Fraction(end - start, 1_000_000))), XSD + "duration")
    return Scope({**mapping, START: time_term(start, clock), END: time_term(end, clock), DURATION: length_text}, {}, clock)


@dataclass
class Pair(Node):
    """An operator. `bound` applies where it may select, `within` always."""

    operator: TemporalOperator
    left: Node
    right: Node
    condition: tuple[Expression, ...]
    within: Micros | None
    bound: Micros | None
    policy: UsePolicy
    report_names: Callable[[], None]
    most: int | None
    lefts: list[Found] = field(default_factory=list)
    rights: list[Found] = field(default_factory=list)
    used: set[int] = field(default_factory=set)

    @property
    def is_past(self) -> bool:
        return self.operator in (TemporalOperator.SEQ, TemporalOperator.OPTIONALSEQ)

    def fresh(self, view: View) -> list[Found]:
        later = self.right.fresh(view)
        earlier = [] if self.is_past else self.left.fresh(view)
        self.lefts += earlier
        self.rights += later
        if self.most is not None and (len(self.lefts) + 1) * (len(self.rights) + 1) > self.most:
            raise TooManyPairs
        return self.all_of(earlier, later, view) if self.policy is UsePolicy.UNRESTRICTED else self.chosen(earlier, later, view)

    def settle(self, view: View) -> None:
        """Stores the left solutions that end now: later solutions start after them."""
        if self.is_past:
            self.lefts += self.left.fresh(view)
        self.left.settle(view)
        self.right.settle(view)

    def all_of(self, earlier: list[Found], later: list[Found], view: View) -> list[Found]:
        match self.operator:
            case TemporalOperator.SEQ | TemporalOperator.EQUALS | TemporalOperator.AND:
                pairs = [(a, b) for a in self.lefts for b in self.rights if max(a.end, b.end) == view.now]
                return [combined(a, b) for a, b in pairs if self.combine(a, b, view.clock)]
            case TemporalOperator.OPTIONALSEQ:
                return [c for b in later for c in [combined(a, b) for a in self.lefts if self.combine(a, b, view.clock)] or [b]]
            case TemporalOperator.EQUALSOPTIONAL:
                return [c for a in earlier for c in [combined(a, b) for b in later if self.combine(a, b, view.clock)] or [a]]

    def chosen(self, earlier: list[Found], later: list[Found], view: View) -> list[Found]:
        """2.3: each solution selects an unused one, and both are consumed."""
        result: list[Found] = []
        if self.operator is TemporalOperator.EQUALSOPTIONAL:
            for a in self.ascending(earlier):
                b = self.choose([b for b in self.rights if self.combine(a, b, view.clock)])
                result.append(a if b is None else self.use(a, b))
            return result
        for b in self.ascending(later):
            taken = self.choose([a for a in self.lefts if self.combine(a, b, view.clock)])
            if taken is not None:
                result.append(self.use(taken, b))
            elif self.operator is TemporalOperator.OPTIONALSEQ:
                result.append(b)
        if self.operator is TemporalOperator.AND:
            for a in self.ascending([a for a in earlier if id(a) not in self.used]):
                other = self.choose([b for b in self.rights if self.combine(a, b, view.clock)])
                if other is not None:
                    result.append(self.use(a, other))
        return result

    def use(self, a: Found, b: Found) -> Found:
        self.used |= {id(a), id(b)}
        return combined(a, b)

    def choose(self, candidates: list[Found]) -> Found | None:
        unused = [each for each in candidates if id(each) not in self.used]
        if not unused:
            return None
        ordered = self.ascending(unused)
        return ordered[0] if self.policy is UsePolicy.CHRONOLOGICAL else ordered[-1]

    def ascending(self, found: list[Found]) -> list[Found]:
        keys: dict[object, set[object]] = {}
        for each in found:
            keys.setdefault(place(each, names=False), set()).add(str(place(each, names=True)))
        if any(len(named) > 1 for named in keys.values()):
            self.report_names()
        return sorted(found, key=lambda each: (place(each, names=False), place(each, names=True)))

    def combine(self, a: Found, b: Found, clock: Clock) -> bool:
        """True if two solutions combine: the operator's relation, compatibility, every enclosing WITHIN, and F or the bound."""
        start, end = min(a.start, b.start), max(a.end, b.end)
        if self.is_past and not a.end < b.start:
            return False
        if self.operator in (TemporalOperator.EQUALS, TemporalOperator.EQUALSOPTIONAL) and (a.start, a.end) != (b.start, b.end):
            return False
        if not agree(a.mapping, b.mapping) or (self.within is not None and end - start > self.within):
            return False
        if self.operator in (TemporalOperator.OPTIONALSEQ, TemporalOperator.EQUALSOPTIONAL):
            inside = scope({**a.mapping, **b.mapping}, start, end, clock)
            return all(holds(with_lengths(condition), inside) for condition in self.condition)
        return self.policy is UsePolicy.UNRESTRICTED or self.bound is None or end - start <= self.bound


def combined(a: Found, b: Found) -> Found:
    return Found({**a.mapping, **b.mapping}, min(a.start, b.start), max(a.end, b.end))


def place(found: Found, *, names: bool) -> tuple[Micros, Micros, tuple[tuple[Variable, Term], ...]]:
    """Its place in the order ≺."""
    return found.end, found.start, tuple((name, term if names else anonymous(term)) for name, term in sorted(found.mapping.items()))


# --- units ---


@dataclass
class IntervalUnitState:
    """A unit with its state."""

    unit: TemporalQuery
    most: int | None = None
    decided_by_names: bool = False
    root: Node | None = None
    fired: int = 0

    def __post_init__(self) -> None:
        if self.unit.where is not None:
            self.root = self.node(self.unit.where, None, None)

    def names(self) -> None:
        self.decided_by_names = True

    def node(self, pattern: IntervalPattern, within: Micros | None, longest: Micros | None) -> Node:
        """The node of a pattern. `within`: the least enclosing WITHIN; `longest`: the least limit of FILTERs that applies."""
        match pattern:
            case InstantGroup() | EventRead():
                return Leaf(pattern)
            case Alternatives(branches):
                return United([self.node(branch, within, longest) for branch in branches])
            case Chain(inner, _, filters, own):
                return Ended(self.node(inner, least(within, own), least(longest, limit(filters))), pattern)
            case Combination(operator, left, right, condition):
                inside = limit(condition)
                optional_left = operator is TemporalOperator.OPTIONALSEQ
                optional_right = operator is TemporalOperator.EQUALSOPTIONAL
                first = self.node(left, within, inside if optional_left else longest)
                second = self.node(right, within, least(longest, inside) if optional_right else longest)
                bound = least(within, longest)
                return Pair(operator, first, second, condition, within, bound, self.unit.policy, self.names, self.most)

    def make(self, view: View) -> list[Output]:
        """The events of this moment, which are added to the view."""
        unit = self.unit
        outputs: list[Output] = []
        if isinstance(unit.form, InstantAnswers):
            answers = [] if view.known is None else select(unit.form.query, view.known)
            for answer in answers:
                outputs.append(Output(view.now, unit.label, unit.label, answer, frozenset(), 0))
                view.events.append(EventMade(unit.label, view.now, view.now, answer))
            return outputs
        assert self.root is not None
        seen: set[object] = set()
        for found in self.root.fresh(view):
            match unit.form:
                case SelectedSolutions(_, columns, distinct):
                    attributes = self.columns(columns, found, view.clock)
                    key = (tuple(sorted(attributes.items())), found.start)
                    if distinct and key in seen:
                        continue
                    seen.add(key)
                    graph, dropped = frozenset[Triple](), 0
                case ConstructedGraphs(_, template):
                    names = {leaf.name for leaf in leaves(template) if isinstance(leaf, Var)}
                    attributes = {name: term for name, term in found.mapping.items() if name in names}
                    graph, dropped = self.graph(template, attributes)
                    view.graphs.append(GraphMade(graph, found.start, found.end, template))
            outputs.append(Output(view.now, unit.label, unit.label, attributes, graph, dropped))
            view.events.append(EventMade(unit.label, found.start, found.end, attributes))
        return outputs

    def settle(self, view: View) -> None:
        if self.root is not None:
            self.root.settle(view)

    def columns(self, columns: Sequence[tuple[Variable, Expression | None]], found: Found, clock: Clock) -> Solution:
        known = dict(found.mapping)
        shown: Solution = {}
        for name, expression in columns:
            term = (
                known.get(name) if expression is None else computed(with_lengths(expression), scope(known, found.start, found.end, clock))
            )
            if term is not None:
                shown[name] = known[name] = term
        return shown

    def graph(self, template: Template, attributes: Mapping[Variable, Term]) -> tuple[frozenset[Triple], int]:
        self.fired += 1
        graph, dropped = set(), 0
        number = hash((self.unit.label, self.fired))
        for triple in template.triples:
            s, p, o = (instance(slot, attributes, number) for slot in triple)
            if s is None or p is None or o is None or whole(s, p, o) is None:
                dropped += 1
            else:
                graph.add((s, p, o))
        return frozenset(graph), dropped


def reads_now(unit: TemporalQuery, labels: set[Label], template: Template | None) -> bool:
    """True if a unit reads, at the same moment, events of the labels or the graphs of a template of a STREAM."""

    def present(pattern: IntervalPattern) -> list[InstantGroup | EventRead]:
        match pattern:
            case InstantGroup() | EventRead():
                return [pattern]
            case Combination(operator, left, right):
                past = operator in (TemporalOperator.SEQ, TemporalOperator.OPTIONALSEQ)
                return ([] if past else present(left)) + present(right)
            case Alternatives(branches):
                return [leaf for branch in branches for leaf in present(branch)]
            case Chain(inner):
                return present(inner)

    for leaf in present(unit.where) if unit.where is not None else []:
        if isinstance(leaf, EventRead) and leaf.label in labels:
            return True
        if isinstance(leaf, InstantGroup) and template is not None and may_read(leaf, template):
            return True
    return False
