"""Checks of whole LARS files: relations, recursion through NOT, reports, and the warnings.

Source: lars.md, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.evaluation.expressions.kinds import time_form
from dotr.languages.declarations import declares_nothing_else
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.model import (
    Always,
    At,
    ClassName,
    DerivedAtom,
    EventAtom,
    EventName,
    LarsAtom,
    LarsFile,
    LarsHead,
    LarsLiteral,
    LarsPredicate,
    LarsRule,
    OwnRelation,
    PropertyName,
    ReportKind,
    Since,
    Sometime,
    TimeWindow,
    may_share,
    predicate_of,
    shares_any,
    slots_of_atom,
)
from dotr.languages.lars.text.statements import LarsDraft
from dotr.languages.linking import misuse_warnings
from dotr.model.algebra import Const, Expression, Slot, Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.graphs import components, shortest_path
from dotr.model.places import Span
from dotr.model.terms import Label, Variable
from dotr.model.time import Forms, TimeForm
from dotr.syntax.rendering import duration_text


def file_problems(file: LarsFile, draft: LarsDraft) -> Iterator[Diagnostic]:
    """The errors of a file as a whole.

    `file` holds the statements without syntax errors, `draft` also the words of the others: a
    relation that one of them may define is not reported as unknown.
    """
    yield from _relations(file, draft)
    yield from _recursion(file)
    yield from _reports(file, draft)


# --- relations ---


def _own_atoms(file: LarsFile) -> Iterator[tuple[RelationAtom, Span, bool]]:
    """The own atoms of a file in order of offset, and whether each defines its relation."""
    found: list[tuple[RelationAtom, Span, bool]] = []
    for fact in file.facts:
        found += [(fact.atom, fact.span, True)] if isinstance(fact.atom, RelationAtom) else []
    for rule in file.rules:
        found += [(head.atom, head.span, True) for head in rule.heads if isinstance(head.atom, RelationAtom)]
        for literal in (*rule.literals, *rule.negated):
            places = [(literal.atom, literal.atom_span)]
            if isinstance(literal.reach, Since):
                places.append((literal.reach.other, literal.reach.other_span))
            found += [(atom, span, False) for atom, span in places if isinstance(atom, RelationAtom)]
    for report in file.reports:
        found += [(report.atom, report.span, False)] if isinstance(report.atom, RelationAtom) else []
    yield from sorted(found, key=lambda each: each[1].start)


def _relations(file: LarsFile, draft: LarsDraft) -> Iterator[Diagnostic]:
    atoms = list(_own_atoms(file))
    defined = {atom.relation for atom, _, defines in atoms if defines}
    reported = {report.span for report in file.reports}
    first: dict[str, tuple[int, Span]] = {}
    for atom, span, _ in atoms:
        count, place = first.setdefault(atom.relation, (len(atom.slots), span))
        if count != len(atom.slots):
            line, column = place.line_column
            hint = f"It has {_arguments(count)} at {place.document.name}:{line}:{column}. A relation has one number of arguments."
            yield Diagnostic(LarsCode.TWO_ARITIES, f"{atom.relation} with {_arguments(len(atom.slots))}", span, hint)
        if atom.relation not in defined and atom.relation not in draft.words and span not in reported:
            hint = did_you_mean(atom.relation, sorted(defined)) or (
                f"Write a rule or a fact of {atom.relation}, EVENT {atom.relation}(…) for events of another unit, or :{atom.relation}(…)."
            )
            yield Diagnostic(LarsCode.UNKNOWN_RELATION, f"no rule and no fact gives {atom.relation}", span, hint)


def _arguments(count: int) -> str:
    return f"{count or 'no'} argument{'s' * (count != 1)}"


# --- strata ---


def _recursion(file: LarsFile) -> Iterator[Diagnostic]:
    reported: set[Span] = set()
    for edge, cycle in negative_cycles(file):
        if edge.literal.span in reported:
            continue
        reported.add(edge.literal.span)
        names = [named(predicate) for predicate in cycle]
        steps = " needs ".join([names[0], f"NOT {names[1]}", *names[2:]])
        hint = "Windows make no difference here: what NOT asks for must be known before. Let one of them read something else."
        yield Diagnostic(LarsCode.RECURSION_THROUGH_NOT, f"recursion through NOT: {steps}", edge.literal.span, hint)


def named(predicate: LarsPredicate) -> str:
    """The text for a predicate in messages.

    >>> named(PropertyName("<http://e/temp>")), named(ClassName(None)), named(OwnRelation("Busy"))
    ('<http://e/temp>', 'every class', 'Busy')
    """
    match predicate:
        case PropertyName(iri):
            return iri or "every property and class"
        case ClassName(iri):
            return iri or "every class"
        case OwnRelation(name):
            return name
        case EventName(label):
            return f"EVENT {label}"


# --- reports ---


def _reports(file: LarsFile, draft: LarsDraft) -> Iterator[Diagnostic]:
    relations = {atom.relation for atom, _, defines in _own_atoms(file) if defines}
    first: dict[str, Span] = {}
    heads_of: dict[LarsPredicate, list[DerivedAtom]] = {}
    for rule in file.rules:
        for head in rule.heads:
            heads_of.setdefault(predicate_of(head.atom), []).append(head.atom)
    every = [head for heads in heads_of.values() for head in heads]
    for report in file.reports:
        heads = heads_of.get(predicate_of(report.atom), []) if isinstance(report.atom, RelationAtom) else every
        words = {slot.term[1:-1] for slot in slots_of_atom(report.atom) if isinstance(slot, Const)}
        may_be_unparsed = bool(draft.words) and (
            not isinstance(report.atom, RelationAtom) or report.atom.relation in draft.words or bool(words & draft.words)
        )
        if not any(unify(report.atom, head) for head in heads) and not may_be_unparsed:
            hint = "REPORT outputs derived atoms: write a rule that derives it."
            if isinstance(report.atom, RelationAtom):
                others = sorted({head.relation for head in every if isinstance(head, RelationAtom)} - {report.atom.relation})
                hint = did_you_mean(report.atom.relation, others) or hint
            yield Diagnostic(LarsCode.NEVER_DERIVED, "REPORT of an atom that no rule's head gives", report.span, hint)
        if report.label in first:
            line, column = first[report.label].line_column
            hint = f"The first is at {report.span.document.name}:{line}:{column}. Write AS and another label."
            yield Diagnostic(LarsCode.LABEL_TWICE, f"two REPORTs of the label {report.label}", report.label_span, hint)
        first.setdefault(report.label, report.label_span)
        own = report.atom.relation if isinstance(report.atom, RelationAtom) else None
        if report.label in relations and report.label != own:
            hint = "Write AS and a label that is no relation of the file."
            yield Diagnostic(LarsCode.LABEL_TWICE, f"{report.label} is another relation of the file", report.label_span, hint)


def unify(one: DerivedAtom, other: DerivedAtom) -> bool:
    """True if the atoms unify, after their variables are renamed apart.

    >>> from dotr.model.algebra import Var
    >>> x, a, b = Var("x"), Const("<a>"), Const("<b>")
    >>> unify(RelationAtom("P", (x, x)), RelationAtom("P", (a, b))), unify(RelationAtom("P", (x, x)), RelationAtom("P", (a, x)))
    (False, True)
    """
    if type(one) is not type(other) or (
        isinstance(one, RelationAtom) and isinstance(other, RelationAtom) and one.relation != other.relation
    ):
        return False
    left, right = slots_of_atom(one), slots_of_atom(other)
    if len(left) != len(right):
        return False
    parent: dict[tuple[int, Slot], tuple[int, Slot]] = {}

    def root(node: tuple[int, Slot]) -> tuple[int, Slot]:
        while node in parent:
            node = parent[node]
        return node

    for mine, theirs in zip(left, right, strict=True):
        # A constant is one node for both sides; a variable is one node for each side.
        first = root((0, mine) if isinstance(mine, Const) else (1, mine))
        second = root((0, theirs) if isinstance(theirs, Const) else (2, theirs))
        if first == second:
            continue
        if isinstance(first[1], Const) and isinstance(second[1], Const):
            return False
        if isinstance(first[1], Const):
            first, second = second, first
        parent[first] = second
    return True


# --- warnings ---


def file_warnings(file: LarsFile) -> Iterator[Diagnostic]:
    """The warnings of a file without errors."""
    if not file.reports and not declares_nothing_else(file.span.document):
        hint = "Nothing leaves a file but what it REPORTs: write REPORT and the atom."
        yield _warning(LarsCode.NO_REPORT, "a file without REPORT", file.span, hint)
    for report in file.reports:
        if report.kind is ReportKind.ALL:
            distance = f"{file.resolution / 1_000_000:g} s"
            hint = f"Points are {distance} apart, with instants or without. REPORT NEW and REPORT ENDED output changes."
            yield _warning(LarsCode.EVERY_POINT, "REPORT ALL outputs all atoms that hold, at every point", report.span, hint)
    stored, derived = file.timed_predicates, file.derived
    for literal in file.literals:
        match literal.reach:
            case Sometime(TimeWindow() as window) | Always(TimeWindow() as window) | At(_, TimeWindow() as window) | Since(_, _, window):
                pass
            case _:
                continue
        nearest, farthest = window.reach(file.resolution)
        if 0 < window.interval.bounds[1] < file.resolution and nearest == 0:
            length, apart = duration_text(window.interval.bounds[1]), duration_text(file.resolution)
            message = f"a window of {length} sees its own point alone: points are {apart} apart"
            hint = f"Write RESOLUTION {length} . for points as near, a window of {apart} at least, or [0, 0] for the point itself."
            yield _warning(LarsCode.SHORT_WINDOW, message, literal.window_span or literal.span, hint)
        unstored = [
            predicate
            for atom in literal.atoms
            if not isinstance(predicate := predicate_of(atom), EventName) and _is_single(predicate) and not file.is_background(atom)
            if shares_any(predicate, derived) and not shares_any(predicate, stored)
        ]
        if farthest > 0 and nearest <= farthest and unstored:
            assert literal.window_span is not None
            name = named(unstored[0])
            content = "it has none" if nearest > 0 else "it has those of the point itself only"
            message = f"a window over {name}, which no head puts into the past: of derived atoms {content}"
            hint = f"Conclusions are not remembered. Write the head with AT, {name} AT ?t :- … AT ?t IN …, or REPORT it and read its EVENT."
            yield _warning(LarsCode.FORGOTTEN_CONCLUSIONS, message, literal.window_span, hint)
    yield from length_warnings(file, {})


def length_warnings(file: LarsFile, events: Mapping[Label, Forms]) -> Iterator[Diagnostic]:
    """L405 for each time and length that a file uses as a number; `events` has the forms of the
    attributes of events."""
    places = forms_of(file, events)
    for rule in file.rules:
        forms, expressions = _rule_forms(rule, places)
        yield from misuse_warnings(expressions, forms, LarsCode.LENGTH_AS_NUMBER, rule.span)


_Forms = Mapping[tuple[LarsPredicate, int | Variable], TimeForm]
"""The forms of the arguments of derived predicates, by predicate and place, and of the attributes
of events, by name."""


def forms_of(file: LarsFile, events: Mapping[Label, Forms]) -> _Forms:
    """The forms of arguments that rules derive, and of attributes, which are times, or lengths
    between two."""
    places: dict[tuple[LarsPredicate, int | Variable], TimeForm] = {
        (EventName(label), name): form for label, forms in events.items() for name, form in forms.items()
    }
    size = -1
    while size < len(places):
        size = len(places)
        for rule in file.rules:
            forms, _ = _rule_forms(rule, places)
            for head in rule.heads:
                for place, slot in enumerate(slots_of_atom(head.atom)):
                    if isinstance(slot, Var) and slot.name in forms:
                        places.setdefault((predicate_of(head.atom), place), forms[slot.name])
    return places


def _rule_forms(rule: LarsRule, places: _Forms) -> tuple[dict[Variable, TimeForm], list[Expression]]:
    """The forms of a rule's variables, and its expressions."""
    forms: dict[Variable, TimeForm] = {}
    for literal in (*rule.literals, *rule.negated):
        for atom in literal.atoms:
            forms |= argument_forms(atom, places)
        if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var):
            forms[literal.reach.time.name] = TimeForm(False)
    expressions: list[Expression] = []
    for item in rule.body:
        if isinstance(item, Bind):
            expressions.append(item.expression)
            if form := time_form(item.expression, forms, {}):
                forms[item.variable] = form
        elif isinstance(item, FilterItem):
            expressions.append(item.condition)
    return forms, expressions


def argument_forms(atom: LarsAtom, places: _Forms) -> dict[Variable, TimeForm]:
    """The forms of an atom's variables, by those of its places."""
    slots = atom.attributes if isinstance(atom, EventAtom) else enumerate(slots_of_atom(atom))
    key = predicate_of(atom)
    return {slot.name: places[key, place] for place, slot in slots if isinstance(slot, Var) and (key, place) in places}


def _is_single(predicate: LarsPredicate) -> bool:
    """False of a variable property or class, which is any property or class."""
    return predicate not in (PropertyName(None), ClassName(None))


def _warning(code: LarsCode, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, hint, Severity.WARNING)


# Strata of a LARS file: its rules in the order in which the perfect model is computed.
#
# Idea: strata are the strongly connected components of the dependency graph of predicates. A head
# depends on the predicates of its rule's body, whatever their windows. Invariant: a predicate under
# NOT is in a lower stratum. The heads of one rule may be in several strata.
# Source: lars.md, sections 2 and 3; Apt, Blair, Walker 1988.


class LarsDependency(NamedTuple):
    """An edge of the dependency graph: a rule with `head` reads the derived `read` in `literal`."""

    head: LarsPredicate
    read: LarsPredicate
    literal: LarsLiteral
    negated: bool


def dependencies(file: LarsFile) -> Iterator[LarsDependency]:
    """The dependencies between derived predicates; a variable predicate or class reads all.

    Cost: linear in the atoms, but for those with a variable predicate or class.
    """
    derived = sorted(file.derived, key=str)
    known = set(derived)
    open_ended = [each for each in derived if _is_variable(each)]
    for rule in file.rules:
        heads = sorted({predicate_of(head.atom) for head in rule.heads}, key=str)
        for negated, literals in ((False, rule.literals), (True, rule.negated)):
            for literal in literals:
                for atom in literal.atoms:
                    if file.is_background(atom):
                        continue
                    predicate = predicate_of(atom)
                    if _is_variable(predicate):
                        possible = derived
                    else:
                        possible = sorted({*open_ended, predicate} & known, key=str) if open_ended else [predicate][: predicate in known]
                    for read in possible:
                        if may_share(predicate, read):
                            for head in heads:
                                yield LarsDependency(head, read, literal, negated)


def _is_variable(predicate: LarsPredicate) -> bool:
    return predicate in (PropertyName(None), ClassName(None))


def negative_cycles(file: LarsFile) -> list[tuple[LarsDependency, tuple[LarsPredicate, ...]]]:
    """The dependencies under NOT that are part of a cycle, in the order of the file, each with the
    shortest cycle: the head, the negated predicate, …, the head.
    """
    edges = list(dependencies(file))
    component = _components(file, edges)
    reads: dict[LarsPredicate, list[LarsPredicate]] = {}
    for edge in edges:
        reads.setdefault(edge.head, []).append(edge.read)
    for others in reads.values():
        others.sort(key=str)
    found = []
    for edge in edges:
        if edge.negated and component[edge.head] == component[edge.read]:
            path = shortest_path(edge.read, edge.head, lambda predicate: reads.get(predicate, ()))
            found.append((edge, (edge.head, *path)))
    return found


def strata(file: LarsFile) -> tuple[tuple[LarsRule, ...], ...]:
    """The rules by stratum, lowest first. Within a stratum they are in the order of the file.

    A rule with heads of several strata is in each of them, with its heads of that stratum. Each
    group of mutually dependent predicates is a stratum.
    """
    component = _components(file, list(dependencies(file)))
    by_stratum: dict[int, list[LarsRule]] = {}
    for rule in file.rules:
        heads: dict[int, list[LarsHead]] = {}
        for head in rule.heads:
            heads.setdefault(component[predicate_of(head.atom)], []).append(head)
        for number, own in heads.items():
            by_stratum.setdefault(number, []).append(replace(rule, heads=tuple(own)))
    return tuple(tuple(by_stratum[number]) for number in sorted(by_stratum))


def _components(file: LarsFile, edges: list[LarsDependency]) -> dict[LarsPredicate, int]:
    """The component of each derived predicate: equal in a cycle, lower for a predicate read."""
    pairs = [(edge.head, edge.read) for edge in edges]
    return components([*pairs, *((predicate, predicate) for predicate in sorted(file.derived, key=str))])
