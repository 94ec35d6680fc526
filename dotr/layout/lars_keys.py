"""Keys of LARS files: the places by whose terms a file may stand in several partitions.

Idea: each predicate gets a place (subject or object, an argument, an attribute) such that in each
rule one variable stands at the places of all atoms. What a rule joins then has one key, so that the
atoms of other keys make no difference. For each rule a variable is chosen in turn; the choice
leaves to each predicate the places at which the variable stands in all its atoms.
Source: lars.md, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.layout.keys import UnitKey
from dotr.model.algebra import TriplePattern, Var
from dotr.model.datalog import RelationAtom
from dotr.model.lars import (
    Always,
    At,
    ClassName,
    Counted,
    EventAtom,
    LarsAtom,
    LarsFile,
    LarsLiteral,
    LarsPredicate,
    LarsRule,
    PropertyName,
    Sometime,
    TupleWindow,
    may_share,
    predicate_of,
    variables_of_atom,
)
from dotr.model.terms import Variable

Place: TypeAlias = int | str
"""Of triples 0 (the subject) or 2 (the object), of an own relation the number of an argument, of an
event the name of an attribute."""

_Places: TypeAlias = Mapping[LarsPredicate, frozenset[Place]]
_MOST_CHOICES: Final = 10_000


@dataclass(frozen=True, slots=True)
class LarsKey:
    """The place of each predicate and the variable of each rule, by name; or, without them, the
    reason for one partition.
    """

    places: Mapping[LarsPredicate, Place]
    variables: Mapping[str, Variable]
    reason: str

    @property
    def unit_key(self) -> UnitKey:
        """The key as a unit tells it: the variable of the first rule."""
        return UnitKey(next(iter(self.variables.values()), None), self.reason)


def lars_key(file: LarsFile) -> LarsKey:
    """The key of a file, or why it has none.

    >>> from dotr.languages.lars import compile_lars
    >>> from dotr.model.lars import OwnRelation
    >>> from dotr.model.places import Document
    >>> def key(text):
    ...     (file,) = compile_lars([Document("a.lars", text)], {"": "http://e/"}).checked().files
    ...     return lars_key(file)
    >>> key("Hot(?v, ?s) :- :temp(?s, ?v) IN [3 s], NOT :off(?s, true) . REPORT Hot(?v, ?s) .").places[OwnRelation("Hot")]
    1
    >>> key("Both(?x, ?y) :- :on(?x, true), :on(?y, true) . REPORT Both(?x, ?y) .").reason
    'no variable stands in all atoms of the rule at line 1'
    """
    for literal in file.literals:
        if reason := _counts_all(literal):
            return LarsKey({}, {}, reason)
    keyed = _facts_alone(file)
    rules = [
        (rule, [atom for atom in _atoms(rule) if not file.is_background(atom) and predicate_of(atom) not in keyed]) for rule in file.rules
    ]
    rules = [(rule, atoms) for rule, atoms in rules if atoms]
    for rule, atoms in rules:
        if not _choices(rule, atoms):
            return LarsKey({}, {}, f"no variable stands in all atoms of the rule at line {rule.span.line_column[0]}")
    found = _KeySearch(rules).found()
    if found is None:
        return LarsKey({}, {}, "no place of each property, class, relation and event suits all rules")
    places, variables = found
    return LarsKey({predicate: min(allowed, key=str) for predicate, allowed in places.items()}, variables, "")


def _counts_all(literal: LarsLiteral) -> str:
    """The reason against a key that a tuple window gives; empty without one."""
    match literal.reach:
        case Sometime(TupleWindow(count, counted)) | Always(TupleWindow(count, counted)) | At(_, TupleWindow(count, counted)):
            line = literal.span.line_column[0]
            if counted is Counted.ALL:
                return f"[LAST {count}] at line {line} counts all triples"
            if counted is Counted.MATCHING:
                return f"[LAST {count} MATCHING] at line {line} counts the atoms of all keys: PER counts for each"
        case _:
            pass
    return ""


def _facts_alone(file: LarsFile) -> frozenset[LarsPredicate]:
    """Own relations that only facts give."""
    facts = {predicate_of(fact.atom) for fact in file.facts if isinstance(fact.atom, RelationAtom)}
    return frozenset(facts - file.derived)


def _atoms(rule: LarsRule) -> Iterator[LarsAtom]:
    yield from (head.atom for head in rule.heads)
    for literal in (*rule.literals, *rule.negated):
        yield from literal.atoms


def _choices(rule: LarsRule, atoms: list[LarsAtom]) -> list[Variable]:
    """The variables that stand in all atoms, and that PER names in all windows."""
    names = [name for name in variables_of_atom(atoms[0]) if all(_places_of(name, atom) for atom in atoms)]
    for literal in (*rule.literals, *rule.negated):
        match literal.reach:
            case Sometime(TupleWindow(_, _, per)) | Always(TupleWindow(_, _, per)) | At(_, TupleWindow(_, _, per)):
                names = [name for name in names if name in per]
            case _:
                pass
    return names


def _places_of(name: Variable, atom: LarsAtom) -> frozenset[Place]:
    """The places at which a variable stands, of those that a key may have."""
    variable = Var(name)
    match atom:
        case TriplePattern(subject, _, object_):
            match predicate_of(atom):
                case PropertyName(str()):
                    return frozenset(place for place, slot in ((0, subject), (2, object_)) if slot == variable)
                case _:
                    return frozenset((0,) if subject == variable else ())
        case RelationAtom(_, slots):
            return frozenset(place for place, slot in enumerate(slots) if slot == variable)
        case EventAtom(_, attributes):
            return frozenset(attribute for attribute, slot in attributes if slot == variable)


class _KeySearch:
    """Choice of a variable for each rule, with the places that it leaves; it gives up after many."""

    def __init__(self, rules: list[tuple[LarsRule, list[LarsAtom]]]) -> None:
        self._rules = rules
        self._predicates = {predicate_of(atom) for _, atoms in rules for atom in atoms}
        self._tried = 0

    def found(self) -> tuple[_Places, Mapping[str, Variable]] | None:
        """The places and the variables; None where there are none."""
        chosen: dict[str, Variable] = {}
        stack: list[tuple[_Places, Iterator[Variable]]] = [({}, self._variables(0))]
        while stack and self._tried < _MOST_CHOICES:
            places, variables = stack[-1]
            if len(stack) > len(self._rules):
                return places, chosen
            rule, atoms = self._rules[len(stack) - 1]
            for name in variables:
                self._tried += 1
                narrowed = self._narrowed(places, name, atoms)
                if narrowed is not None:
                    chosen[f"{rule.name} {rule.span.start}"] = name
                    stack.append((narrowed, self._variables(len(stack))))
                    break
            else:
                stack.pop()
        return None

    def _variables(self, number: int) -> Iterator[Variable]:
        return iter(_choices(*self._rules[number]) if number < len(self._rules) else ())

    def _narrowed(self, places: _Places, name: Variable, atoms: list[LarsAtom]) -> _Places | None:
        """The places that are left where the variable stands at all of them; None: none are."""
        left = dict(places)
        for atom in atoms:
            allowed = _places_of(name, atom)
            own = predicate_of(atom)
            # A variable predicate or class has the place of all that it may be.
            is_one = not isinstance(own, PropertyName | ClassName) or own.iri is not None
            for predicate in (own,) if is_one else [each for each in self._predicates if may_share(own, each)]:
                narrowed = left.get(predicate, allowed) & allowed
                if not narrowed:
                    return None
                left[predicate] = narrowed
        return left
