"""Reasons of the events of a LARS file: a derivation at a point, down to elements with their times.

Idea: the model of the point is computed again (`dotr.languages.lars.explanation.records`), and one
derivation of the reported row is taken from it (`dotr.languages.lars.closure.proof`). A streamed
triple is followed to its instant, where it has a proof; an event to the reasons of its unit. A row
of REPORT ENDED is derived at the point before; its premises that no longer hold are the reason of
its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

from dotr.evaluation.expressions import term_in
from dotr.explanations.evidence.event_reasons import UnitReasonFinder
from dotr.explanations.evidence.proofs import TripleProof
from dotr.explanations.evidence.reasons import SourceReason, UnitReason
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.languages.lars.closure.proof import LarsProof, LarsReason
from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.explanation.records import LarsRecord
from dotr.languages.lars.model import (
    Always,
    At,
    ClassName,
    EventAtom,
    EventName,
    LarsAtom,
    LarsFile,
    LarsHead,
    LarsItem,
    LarsLiteral,
    LarsNot,
    LarsPredicate,
    LarsReport,
    LarsRule,
    OwnRelation,
    PropertyName,
    ReportKind,
    Since,
    Sometime,
    slots_of_atom,
)
from dotr.model import dataclass
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.places import Span
from dotr.model.rules import FactSource
from dotr.model.terms import RDF_TYPE, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.rules import FactRow, Point

# Probe rules for LARS files, whose rows count the solutions of each prefix of a body.
#
# Idea: the engine itself evaluates the prefixes, with windows, NOT and recursion. For the rule
# `Q(?x) :- A(?x) IN [5 s], B(?x), NOT C(?x)` the file gets three probe rules:
#
#     part 1 (?x) :- A(?x) IN [5 s]
#     part 2 (?x) :- A(?x) IN [5 s], B(?x)
#     part 3 (?x) :- A(?x) IN [5 s], B(?x), NOT C(?x)


class BodyPart(NamedTuple):
    """A prefix of a body as a relation.

    - `relation`: its name in a closure.
    - `names`: its columns.
    - `item`: its last item.
    """

    relation: str
    names: tuple[Variable, ...]
    item: LarsItem

    def bindings(self, row: FactRow) -> dict[Variable, Term]:
        """The bindings of a row."""
        return dict(zip(self.names, row, strict=True))

    def agrees(self, row: FactRow, bound: Mapping[Variable, Term]) -> bool:
        """True unless a row has another term for a bound variable."""
        return all(bound.get(name, term) == term for name, term in self.bindings(row).items())


def with_parts(file: LarsFile, rule: LarsRule) -> tuple[LarsFile, list[BodyPart]]:
    """A file with a probe rule for each prefix of a body, and these prefixes, the shortest first.

    Conditions are moved behind the items that bind their variables.
    """
    items = in_order(rule.body)
    parts, rules = [], []
    for number in range(1, len(items) + 1):
        here = items[:number]
        part, probe = _probe(rule, f"part {number}", here, _bound_by(here))
        parts.append(part)
        rules.append(probe)
    return replace(file, rules=(*file.rules, *rules)), parts


def with_negated(file: LarsFile, rule: LarsRule, item: LarsNot) -> tuple[LarsFile, BodyPart]:
    """A file with a probe rule for the literals under a NOT, and that rule's body."""
    part, probe = _probe(rule, "under NOT", item.literals, _bound_by(item.literals))
    return replace(file, rules=(*file.rules, probe)), part


def with_times(file: LarsFile, rule: LarsRule, literals: Sequence[LarsLiteral]) -> tuple[LarsFile, BodyPart]:
    """A file with a probe rule for some literals and the times of their atoms, and that rule's body:
    `A(?x) ALWAYS IN [5 s]` is probed as `A(?x) AT ?0 IN [5 s]`. A literal without a window, or with
    SINCE, keeps its form."""
    timed = [
        replace(literal, reach=At(Var(str(number)), literal.reach.window)) if isinstance(literal.reach, Sometime | Always) else literal
        for number, literal in enumerate(literals)
    ]
    part, probe = _probe(rule, "times", timed, _bound_by(timed))
    return replace(file, rules=(*file.rules, probe)), part


def _probe(rule: LarsRule, name: str, items: Sequence[LarsItem], names: tuple[Variable, ...]) -> tuple[BodyPart, LarsRule]:
    head = LarsHead(RelationAtom(name, tuple(map(Var, names))), None, rule.span)
    return BodyPart(f"own {name}", names, items[-1]), LarsRule(name, (head,), tuple(items), rule.span)


def in_order(body: Sequence[LarsItem]) -> list[LarsItem]:
    """The items of a body, with each condition after the items that bind its variables."""
    everything = set(_bound_by(body))
    ordered: list[LarsItem] = []
    waiting = list(body)
    while waiting:
        bound = set(_bound_by(ordered))
        chosen = next((item for item in waiting if isinstance(item, LarsLiteral) or _needed(item) & everything <= bound), waiting[0])
        ordered.append(chosen)
        waiting.remove(chosen)
    return ordered


def _needed(item: LarsItem) -> set[Variable]:
    """The variables that an item reads before it can be evaluated."""
    match item:
        case FilterItem(condition):
            return set(free_variables(condition))
        case Bind(expression, _):
            return set(free_variables(expression))
        case LarsNot(literals):
            return set(_bound_by(literals))
        case LarsLiteral():
            return set()


def _bound_by(items: Sequence[LarsItem]) -> tuple[Variable, ...]:
    """The variables that items bind, each once."""
    found: dict[Variable, None] = {}
    for item in items:
        if isinstance(item, LarsLiteral):
            found.update(dict.fromkeys(item.variables))
        elif isinstance(item, Bind):
            found[item.variable] = None
    return tuple(found)


MOST_POINTS: Final = 100
"""Maximum number of points that are followed for an atom that holds at each of several points."""


@dataclass(frozen=True, eq=False)
class PointAtom:
    """An atom of the stream at a point, or of the background.

    Attributes:
        time: the time of its element or event in µs since 1970; None for the background.
        proof: the proof of a triple at its instant; None for an event.
        made: the reason of an event; None for a triple, and beyond the maximum depth.
        attributes: the attributes of the event.
    """

    time: Micros | None
    proof: TripleProof | None
    made: SourceReason | None
    attributes: Mapping[Variable, Term] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LarsNode:
    """A node of the derivation of an atom of a LARS file.

    Attributes:
        reason: the derivation: the atom, its points and the rule that concludes it.
        atom: the atom.
        rule: the rule; None for an atom of the stream or of the background.
        bindings: the terms of the rule's variables, as far as its head and premises bind them.
        points: for an atom of the stream, its origin at each point.
        premises: the atoms that the rule's literals match.
        fact: the place of a fact of the file; None for other atoms.
        time: for a conclusion `AT` a point, its time in µs since 1970.
    """

    reason: LarsReason
    atom: GroundAtom
    rule: LarsRule | None
    bindings: Mapping[Variable, Term]
    points: tuple[PointAtom, ...]
    premises: tuple[LarsNode, ...]
    fact: Span | None = None
    time: Micros | None = None


@dataclass(frozen=True, eq=False)
class LarsEventReason(UnitReason):
    """An event of a LARS file.

    Attributes:
        firing: the event.
        report: the REPORT that makes it.
        before: the time of the point before, in µs since 1970.
        is_first: True if there is no point before.
        node: the derivation of the row, for ENDED at the point before; None if it is not found.
        ended: for ENDED, the atoms of the derivation that have left their windows.
        refuted: for ENDED without such atoms, the NOT items that fail now, each with the atoms that
            hold.
    """

    firing: UnitFiring
    report: LarsReport
    before: Micros
    is_first: bool
    node: LarsNode | None
    ended: tuple[LarsNode, ...] = ()
    refuted: tuple[tuple[LarsNot, tuple[LarsNode, ...]], ...] = ()

    def below(self) -> Iterator[SourceReason]:
        """The reasons of the events in the derivations."""
        yield from (atom.made for atom in self._point_atoms() if atom.made is not None)

    def own_proofs(self) -> Iterator[TripleProof]:
        """The proofs of the streamed triples in the derivations."""
        yield from (atom.proof for atom in self._point_atoms() if atom.proof is not None)

    def nodes(self) -> Iterator[LarsNode]:
        """All nodes of the derivations, in no defined order."""
        pending = [*([] if self.node is None else [self.node]), *self.ended, *(node for _, found in self.refuted for node in found)]
        while pending:
            node = pending.pop()
            yield node
            pending += node.premises

    def _point_atoms(self) -> Iterator[PointAtom]:
        """The atoms of the stream and of the background at the leaves of the derivations."""
        for node in self.nodes():
            yield from node.points


@dataclass(frozen=True, eq=False)
class LarsReasons(UnitReasonFinder):
    """Finder of the reasons of recorded events of LARS files."""

    def of(self, firing: UnitFiring, name: Term | None = None) -> LarsEventReason:
        """The reasons of an event."""
        record = self.recorder.record(firing.label, LarsRecord)
        assert record is not None, "the event is of a LARS file"
        point = firing.time // record.resolution
        reports = enumerate(record.file.reports)
        number, report = next((number, report) for number, report in reports if report.label == firing.label)
        row: FactRow = tuple([firing.attributes[name] for name in report.attributes])
        held = point - 1 if report.kind is ReportKind.ENDED else point
        model = record.model(held)
        proof = LarsProof(model)
        reason, leaves = proof.of_report(number, row), proof.leaves_of_report(number, row)
        nodes = _NodeBuilder(self, record, firing.time)
        node = None if reason is None else nodes.node(reason)
        ended: list[LarsNode] = []
        refuted: list[tuple[LarsNot, tuple[LarsNode, ...]]] = []
        if report.kind is ReportKind.ENDED:
            later = record.model(point)
            static = later.closure.static
            missing = [leaf for fact, leaf in leaves if later.closure.horizon(fact) is None and fact not in static]
            ended = [nodes.node(leaf) for leaf in dict.fromkeys(missing)]
            if not ended and node is not None:
                refuted = list(nodes.refuted(node, point))
        is_first = record.first == point
        return LarsEventReason(firing, report, (point - 1) * record.resolution, is_first, node, tuple(ended), tuple(refuted))


@dataclass(frozen=True, eq=False)
class _NodeBuilder:
    """Builder of the nodes of one event's derivations.

    - `reasons`: the finder, for proofs and events of other units.
    - `record`: the record of the file.
    - `time`: the time of the event in µs since 1970, for background atoms.
    """

    reasons: LarsReasons
    record: LarsRecord
    time: Micros

    def node(self, reason: LarsReason) -> LarsNode:
        """The node of a derivation, with the elements and events at its leaves."""
        atom = ground(reason.rows, reason.row)
        if reason.rule is None:
            return LarsNode(reason, atom, None, {}, tuple(self._points(reason, atom)), (), self._fact_span(reason))
        rule = next(each for each in self.record.file.rules if each.name == reason.rule)
        has_time = any(head.at is not None and unified(head.atom, atom, {}) is not None for head in rule.heads)
        time = reason.last * self.record.resolution if has_time and reason.last is not None else None
        return LarsNode(reason, atom, rule, self._bindings(rule, reason, atom), (), tuple(map(self.node, reason.premises)), None, time)

    def refuted(self, node: LarsNode, point: Point) -> Iterator[tuple[LarsNot, tuple[LarsNode, ...]]]:
        """The NOT items of a derivation that fail at a later point, with the atoms that now
        hold."""
        for item in node.rule.body if node.rule is not None else ():
            if isinstance(item, LarsNot) and node.rule is not None:
                file, part = with_negated(self.record.file, node.rule, item)
                model = self.record.line(file).at(point)
                rows = sorted([fact[1] for fact, _ in model.closure.facts() if fact[0] == part.relation and isinstance(fact[1], tuple)])
                agreeing = [row for row in rows if part.agrees(row, node.bindings)]
                reason = LarsProof(model).of_fact((part.relation, agreeing[0])) if agreeing else None
                if reason is not None:
                    yield item, tuple(map(self.node, reason.premises))
        for premise in node.premises:
            yield from self.refuted(premise, point)

    # --- atoms ---

    def _points(self, reason: LarsReason, atom: GroundAtom) -> Iterator[PointAtom]:
        if reason.first is None or reason.last is None:
            proof = self.reasons.proofs.at(self.time).proof(atom.triple) if atom.triple is not None else None
            yield PointAtom(None, None if proof is None else self.reasons.proofs.extend(proof), None)
            return
        for point in range(reason.first, min(reason.last, reason.first + MOST_POINTS - 1) + 1):
            yield self._at(reason, atom, point)

    def _at(self, reason: LarsReason, atom: GroundAtom, point: Point) -> PointAtom:
        """The origin of an atom at a point."""
        atoms = self.record.atoms_at(point)
        if atom.triple is not None:
            time = atoms.triples.get(atom.triple)
            if time is None:
                return PointAtom(point * self.record.resolution, None, None)
            proof = self.reasons.proofs.at(time).proof(atom.triple)
            return PointAtom(time, None if proof is None else self.reasons.proofs.extend(proof), None)
        label = reason.rows.predicate
        assert isinstance(label, EventName), "own atoms have no origin in the stream"
        for event, time in sorted(atoms.events.get(label.label, {}).items()):
            if reason.rows.row_of_event(event) == reason.row:
                attributes = dict(zip(event[::2], event[1::2], strict=True))
                return PointAtom(time, None, self._made(label.label, time, attributes), attributes)
        return PointAtom(point * self.record.resolution, None, None)

    def _made(self, label: str, time: Micros, attributes: Mapping[Variable, Term]) -> SourceReason | None:
        """The reason of an event that the file reads; `time`: in µs since 1970."""
        source = dict(self.record.events)[label]
        if isinstance(source, FactSource):
            names = source.attributes
            return self.reasons.proofs.fact(RecordedEvent(0, time, 0, names, tuple([attributes.get(name) for name in names])), source)
        maker = self.reasons.recorder.firing_with(label, time, attributes)
        return None if maker is None else self.reasons.follow(maker)

    def _fact_span(self, reason: LarsReason) -> Span | None:
        """The place of a fact of the file; None for an atom of the stream."""
        if reason.first is not None:
            return None
        terms = ground(reason.rows, reason.row).terms
        for fact in self.record.file.facts:
            if tuple([slot.term for slot in slots_of_atom(fact.atom) if isinstance(slot, Const)]) == terms:
                return fact.span
        return None

    # --- bindings ---

    def _bindings(self, rule: LarsRule, reason: LarsReason, atom: GroundAtom) -> Mapping[Variable, Term]:
        """The terms of a rule's variables in a match, as far as its head and premises bind them."""
        found: dict[Variable, Term] = {}
        for head in rule.heads:
            given = unified(head.atom, atom, {})
            if given is not None:
                found = dict(given)
                if head.at is not None and reason.last is not None:
                    found[head.at] = self._time_of(reason.last)
                break
        found = dict(self._matched(rule.literals, reason.premises, found) or found)
        for item in rule.body:
            if isinstance(item, Bind) and item.variable not in found:
                term = term_in(item.expression, lambda part: found.get(part.name) if isinstance(part, Var) else None)
                if term is not None:
                    found[item.variable] = term
        return found

    def _matched(
        self, literals: tuple[LarsLiteral, ...], premises: tuple[LarsReason, ...], bound: Mapping[Variable, Term]
    ) -> Mapping[Variable, Term] | None:
        """Bindings that unify each literal with one of the premises; None: there are none."""
        if not literals:
            return bound
        literal, *rest = literals
        for premise in premises:
            for atom in reversed(literal.atoms):
                given = unified(atom, ground(premise.rows, premise.row), bound)
                if given is None:
                    continue
                if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var) and premise.last is not None:
                    time = self._time_of(premise.last)
                    if given.setdefault(literal.reach.time.name, time) != time:
                        continue
                if isinstance(literal.reach, Since):
                    other = self._matched_other(literal, premises, given)
                    given = dict(other or given)
                found = self._matched(tuple(rest), premises, given)
                if found is not None:
                    return found
        return None

    def _matched_other(
        self, literal: LarsLiteral, premises: tuple[LarsReason, ...], bound: Mapping[Variable, Term]
    ) -> Mapping[Variable, Term] | None:
        return next(
            (given for premise in premises if (given := unified(literal.atom, ground(premise.rows, premise.row), bound)) is not None),
            None,
        )

    def _time_of(self, point: Point) -> Term:
        return self.record.time_term(point)


# --- atoms without variables ---


class GroundAtom(NamedTuple):
    """An atom without variables.

    - `predicate`: its predicate.
    - `terms`: its terms, in the order of `slots_of_atom`.
    - `names`: for an event, the attributes of its terms.
    """

    predicate: LarsPredicate
    terms: FactRow
    names: tuple[Variable, ...] = ()

    @property
    def triple(self) -> Triple | None:
        """The triple; None for an atom of an own relation and for an event."""
        if not isinstance(self.predicate, PropertyName | ClassName):
            return None
        return self.terms[0], self.terms[1], self.terms[2]


def ground(rows: AtomRows, row: FactRow) -> GroundAtom:
    """The ground atom of a row of a relation.

    >>> ground(AtomRows(PropertyName("<e:p>")), ("<e:a>", '"1"')).triple
    ('<e:a>', '<e:p>', '"1"')
    """
    match rows.predicate:
        case PropertyName(str(iri)):
            return GroundAtom(rows.predicate, (row[0], iri, row[1]))
        case ClassName(str(iri)):
            return GroundAtom(rows.predicate, (row[0], RDF_TYPE, iri))
        case ClassName(None):
            return GroundAtom(rows.predicate, (row[0], RDF_TYPE, row[1]))
        case _:
            return GroundAtom(rows.predicate, row, rows.names)


def unified(atom: LarsAtom, given: GroundAtom, bound: Mapping[Variable, Term]) -> dict[Variable, Term] | None:
    """The bindings `bound`, extended so that an atom equals a ground atom; None: there are none.

    >>> from dotr.model.algebra import Var
    >>> given = ground(AtomRows(OwnRelation("Near")), ("<e:a>", "<e:b>"))
    >>> unified(RelationAtom("Near", (Var("x"), Const("<e:b>"))), given, {"y": "<e:c>"})
    {'y': '<e:c>', 'x': '<e:a>'}
    """
    if not _is_of(atom, given):
        return None
    found = dict(bound)
    for slot, term in zip(slots_of_atom(atom), given.terms, strict=True):
        if (slot.term if isinstance(slot, Const) else found.setdefault(slot.name, term)) != term:
            return None
    return found


def _is_of(atom: LarsAtom, given: GroundAtom) -> bool:
    match atom, given.predicate:
        case TriplePattern(), PropertyName() | ClassName():
            return True
        case RelationAtom(name), OwnRelation(relation):
            return name == relation and len(atom.slots) == len(given.terms)
        case EventAtom(label), EventName(other):
            return label == other and tuple(name for name, _ in atom.attributes) == given.names
        case _:
            return False
