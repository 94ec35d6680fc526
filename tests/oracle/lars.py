"""LARS files by the letter (lars.md, section 2): at every point the file is evaluated afresh, by naive fix-point, on all points so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    EventAtom,
    LarsAtom,
    LarsFile,
    LarsItem,
    LarsLiteral,
    LarsNot,
    LarsReport,
    LarsRule,
    ReportKind,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
)
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.terms import RDF_TYPE, Label, Term, Triple, Variable
from dotr.model.time import Clock, Micros
from tests.oracle.algebra import NamesDecide
from tests.oracle.expressions import Scope, computed, holds, time_term
from tests.oracle.temporal import Output
from tests.oracle.triple_terms import anonymous, whole

Ground: TypeAlias = tuple[str, tuple[Term, ...]]
"""An atom without variables: ("", s p o), ("own NAME", arguments), ("event NAME", attribute, value, attribute, value, …)."""
Values: TypeAlias = Mapping[Variable, Term]
Point: TypeAlias = int


def point_of(time: Micros, resolution: Micros) -> Point:
    """Point k is the times in ((k − 1)·r, k·r].

    >>> [point_of(time, 10) for time in (-10, -9, 0, 1, 10, 11)]
    [-1, 0, 0, 1, 1, 2]
    """
    return -(-time // resolution)


def triple(t: Triple) -> Ground:
    return "", t


def event(label: Label, attributes: Values) -> Ground:
    return f"event {label}", tuple(chain.from_iterable(sorted(attributes.items())))


# --- atoms ---


def matches(atom: LarsAtom, grounds: Iterable[Ground], given: Values) -> Iterator[Values]:
    """The values of the atom's variables, compatible with the given ones, with which the atom is one of the ground atoms."""
    for kind, terms in grounds:
        found = dict(given)
        match atom:
            case TriplePattern(s, p, o):
                if kind != "":
                    continue
                pairs = list(zip((s, p, o), terms, strict=True))
            case RelationAtom(name, slots):
                if kind != f"own {name}" or len(terms) != len(slots):
                    continue
                pairs = list(zip(slots, terms, strict=True))
            case EventAtom(label, attributes):
                has = dict(zip(terms[::2], terms[1::2], strict=True)) if kind == f"event {label}" else {}
                if kind != f"event {label}" or any(name not in has for name, _ in attributes):
                    continue
                pairs = [(slot, has[name]) for name, slot in attributes]
        if all((slot.term if isinstance(slot, Const) else found.setdefault(slot.name, term)) == term for slot, term in pairs):
            yield found


def put_in(atom: TriplePattern | RelationAtom, values: Values) -> Ground:
    def term(slot: Slot) -> Term:
        return slot.term if isinstance(slot, Const) else values[slot.name]

    if isinstance(atom, RelationAtom):
        return f"own {atom.relation}", tuple(term(slot) for slot in atom.slots)
    return "", (term(atom.subject), term(atom.predicate), term(atom.object))


def is_class_atom(atom: LarsAtom) -> bool:
    return isinstance(atom, TriplePattern) and atom.predicate == Const(RDF_TYPE)


def is_background(file: LarsFile, atom: LarsAtom) -> bool:
    if not isinstance(atom, TriplePattern) or not isinstance(atom.predicate, Const):
        return False
    names = {atom.predicate.term}
    if is_class_atom(atom) and isinstance(atom.object, Const):
        names.add(atom.object.term)
    return bool(names & file.background)


# --- the stream of a file ---


@dataclass
class Line:
    """D, with the time of the last instant or event in a point that has an atom."""

    file: LarsFile
    background: frozenset[Ground]
    clock: Clock
    first: Point
    last: Point
    streamed: dict[Point, dict[Ground, Micros]] = field(default_factory=dict)

    def add(self, time: Micros, ground: Ground) -> None:
        at = self.streamed.setdefault(point_of(time, self.file.resolution), {})
        at[ground] = max(time, at.get(ground, time))

    def kept(self, k: Point, atom: LarsAtom, window: TupleWindow, values: Values) -> tuple[range, set[tuple[Ground, Point]]]:
        """The points of a tuple window for a literal with some values of PER's variables, and the atoms that it holds."""
        pairs: list[tuple[Point, Micros, tuple[Term, ...], tuple[Term, ...], Ground]] = []
        for u, at in self.streamed.items():
            for ground, time in at.items():
                if u > k or not self.first <= u:
                    continue
                match window.counted:
                    case Counted.ALL:
                        counts = ground[0] == ""
                    case Counted.MATCHING:
                        counts = any(True for _ in matches(atom, [ground], {}))
                    case Counted.PER:
                        counts = any(True for _ in matches(atom, [ground], {name: values[name] for name in window.per}))
                if counts:
                    pairs.append((u, time, tuple(map(anonymous, ground[1])), ground[1], ground))
        pairs.sort()
        held = pairs[-window.count :]
        if len(pairs) > len(held) and pairs[-len(held) - 1][:3] == held[0][:3]:
            raise NamesDecide
        begin = held[0][0] if len(held) == window.count else self.first
        return range(begin, k + 1), {(ground, u) for u, _, _, _, ground in held}


# --- one point ---


@dataclass
class Evaluation:
    """The file at point k: v, on the points from the first to k."""

    line: Line
    k: Point
    v: dict[Point, set[Ground]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.points = range(self.line.first, self.k + 1)
        self.v = {u: set(self.line.streamed.get(u, ())) for u in self.points}
        for rules in in_strata(self.line.file):
            while any(self.apply(rule) for rule in rules):
                pass

    def has(self, u: Point, atom: LarsAtom) -> set[Ground]:
        return set(self.line.background) if is_background(self.line.file, atom) else self.v[u] | self.line.background

    def window(self, window: TimeWindow) -> list[Point]:
        r = self.line.file.resolution
        return [u for u in self.points if window.interval.holds(reference=self.k * r, candidate=u * r)]

    def time(self, u: Point) -> Term:
        return time_term(u * self.line.file.resolution, self.line.clock)

    def apply(self, rule: LarsRule) -> bool:
        """Applies the rule; True if it derives something new."""
        new: set[tuple[Ground, Point]] = set()
        for values in self.bodies(rule.body, {}):
            for head in rule.heads:
                u = self.k if head.at is None else next(u for u in self.points if self.time(u) == values[head.at])
                ground = put_in(head.atom, values)
                if ground not in self.v[u]:
                    new.add((ground, u))
        for ground, u in new:
            self.v[u].add(ground)
        return bool(new)

    def bodies(self, body: Sequence[LarsItem], given: Values) -> list[Values]:
        """The values with which a body holds. Its order has no meaning: literals first, then BINDs, tests, and NOT."""
        found = [given]
        literals = [item for item in body if isinstance(item, LarsLiteral)]
        for literal in literals:
            found = distinct(more for values in found for more in self.solutions(literal, values))
        binds = [item for item in body if isinstance(item, Bind)]
        while binds:
            ready = [b for b in binds if not variables(b.expression) & {other.variable for other in binds}]
            assert ready, "circular BIND"
            for bind in ready:
                terms = [(values, computed(bind.expression, Scope(values, clock=self.line.clock))) for values in found]
                found = [{**values, bind.variable: term} for values, term in terms if term is not None]
                binds.remove(bind)
        for literal in literals:
            found = [values for values in found if self.lasted(literal, values)]
        for item in body:
            if isinstance(item, FilterItem):
                found = [values for values in found if holds(item.condition, Scope(values, clock=self.line.clock))]
            if isinstance(item, LarsNot):
                found = [values for values in found if not self.bodies(item.literals, values)]
        return found

    def solutions(self, literal: LarsLiteral, given: Values) -> Iterator[Values]:
        """The values with which a literal holds; for SINCE, those of its second atom."""
        atom = literal.atom
        match literal.reach:
            case None:
                yield from matches(atom, self.has(self.k, atom), given)
            case Since(other, _, window):
                for u in self.window(window):
                    yield from matches(other, self.has(u, other), given)
            case Sometime(TimeWindow() as window) | Always(TimeWindow() as window) | At(_, TimeWindow() as window):
                yield from self.in_window(literal, given, {u: self.has(u, atom) for u in self.window(window)})
            case Sometime(TupleWindow() as window) | Always(TupleWindow() as window) | At(_, TupleWindow() as window):
                everything = self.line.background.union(*self.line.streamed.values())
                for values in distinct(matches(atom, everything, given)):
                    points, kept = self.line.kept(self.k, atom, window, values)
                    held = {u: set(self.line.background) for u in points}
                    for ground, u in kept:
                        if not is_background(self.line.file, atom):
                            held[u].add(ground)
                    yield from self.in_window(literal, values, held)

    def in_window(self, literal: LarsLiteral, given: Values, held: Mapping[Point, set[Ground]]) -> Iterator[Values]:
        match literal.reach:
            case Sometime():
                for u in held:
                    yield from matches(literal.atom, held[u], given)
            case Always():
                for values in matches(literal.atom, set().union(*held.values()), given):
                    if all(any(True for _ in matches(literal.atom, held[u], values)) for u in held):
                        yield values
            case At(time, _):
                for u in held:
                    for values in matches(literal.atom, held[u], given):
                        if isinstance(time, Var):
                            if values.get(time.name, self.time(u)) == self.time(u):
                                yield {**values, time.name: self.time(u)}
                        elif time.term == self.time(u):
                            yield values

    def lasted(self, literal: LarsLiteral, values: Values) -> bool:
        """The condition of SINCE: some u of the window has the second atom, and every later point has the first."""
        match literal.reach:
            case Since(other, _, window):
                return any(
                    any(True for _ in matches(other, self.has(u, other), values))
                    and all(any(True for _ in matches(literal.atom, self.has(w, literal.atom), values)) for w in self.points if w > u)
                    for u in self.window(window)
                )
            case _:
                return True

    def rows(self, report: LarsReport) -> set[tuple[tuple[Variable, Term], ...]]:
        """R(k)."""
        return {tuple(sorted(values.items())) for values in matches(report.atom, self.v[self.k] - self.line.background, {})}


def distinct(found: Iterable[Values]) -> list[Values]:
    return [dict(items) for items in dict.fromkeys(tuple(sorted(values.items())) for values in found)]


def variables(expression: object) -> set[Variable]:
    if isinstance(expression, Var):
        return {expression.name}
    return {v for a in getattr(expression, "arguments", ()) for v in variables(a)}


# --- strata ---


def may_meet(one: LarsAtom, other: LarsAtom) -> bool:
    """True if two atoms may have one predicate; a variable matches all."""
    if isinstance(one, TriplePattern) and isinstance(other, TriplePattern):
        if not isinstance(one.predicate, Const) or not isinstance(other.predicate, Const):
            return True
        if one.predicate != other.predicate:
            return False
        return (
            not is_class_atom(one) or not (isinstance(one.object, Const) and isinstance(other.object, Const)) or one.object == other.object
        )
    return isinstance(one, RelationAtom) and isinstance(other, RelationAtom) and one.relation == other.relation


def in_strata(file: LarsFile) -> list[list[LarsRule]]:
    """The rules, each with one head, by the least stratum that they can have."""
    rules = [LarsRule(rule.name, (head,), rule.body, rule.span) for rule in file.rules for head in rule.heads]
    strata = [0] * len(rules)
    for _ in range(len(rules) + 2):
        before = list(strata)
        for i, rule in enumerate(rules):
            for negated, literals in ((0, rule.literals), (1, rule.negated)):
                for atom in (atom for literal in literals for atom in literal.atoms if not is_background(file, atom)):
                    # All heads of one predicate are in one stratum, or what reads it would be too early.
                    feeders = [strata[j] for j, other in enumerate(rules) if may_meet(other.heads[0].atom, atom)]
                    strata[i] = max([strata[i], *(stratum + negated for stratum in feeders)])
        if strata == before:
            return [
                [rule for rule, stratum in zip(rules, strata, strict=True) if stratum == level]
                for level in range(max(strata, default=0) + 1)
            ]
    raise ValueError("recursion through NOT")


# --- a file on its way ---


@dataclass
class LarsFileState:
    """A file with its state: `first` and `last` are the times of the first and the last instant."""

    file: LarsFile
    closed_background: frozenset[Triple]
    clock: Clock
    first: Micros
    last: Micros

    def __post_init__(self) -> None:
        r = self.file.resolution
        facts = frozenset(put_in(fact.atom, {}) for fact in self.file.facts)
        background = frozenset(map(triple, self.closed_background)) | facts
        self.line = Line(self.file, background, self.clock, point_of(self.first, r), point_of(self.last, r))
        self.before: dict[LarsReport, set[tuple[tuple[Variable, Term], ...]]] = {}
        self.points = 0

    @property
    def times(self) -> list[Micros]:
        """The times of all points."""
        return [k * self.file.resolution for k in range(self.line.first, self.line.last + 1)]

    @property
    def events_read(self) -> set[Label]:
        return {atom.label for literal in self.file.literals for atom in literal.atoms if isinstance(atom, EventAtom)}

    def instant(self, time: Micros, asserted: frozenset[Triple], closed: frozenset[Triple]) -> None:
        """I(t) and K(t)."""
        for each in (asserted if self.file.asserted else closed) - self.closed_background:
            self.line.add(time, triple(each))

    def happened(self, label: Label, time: Micros, attributes: Values) -> None:
        if label in self.events_read:
            self.line.add(time, event(label, attributes))

    def step(self, now: Micros) -> list[Output]:
        """The events of the point with this time."""
        if now not in self.times:
            return []
        self.points += 1
        k = now // self.file.resolution
        evaluation = Evaluation(self.line, k)
        outputs: list[Output] = []
        for report in self.file.reports:
            rows, before = evaluation.rows(report), self.before.get(report, set())
            told = {ReportKind.NEW: rows - before, ReportKind.ENDED: before - rows, ReportKind.ALL: rows}[report.kind]
            self.before[report] = rows
            outputs += [self.output(report, now, dict(row)) for row in sorted(told)]
        return outputs

    def output(self, report: LarsReport, now: Micros, row: Values) -> Output:
        graph: frozenset[Triple] = frozenset()
        dropped = 0
        if isinstance(report.atom, TriplePattern):
            _, (s, p, o) = put_in(report.atom, row)
            graph, dropped = (frozenset({(s, p, o)}), 0) if whole(s, p, o) is not None else (graph, 1)
        return Output(now, report.label, report.label, row, graph, dropped)
