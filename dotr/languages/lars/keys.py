"""Partition keys of LARS files: for each predicate, the place of the key's term in an atom.

Idea: each predicate gets a place (subject or object, an argument, an attribute) such that in each
rule one variable occurs at the places of all atoms. All atoms that a rule joins then have the same
key, so that atoms of other keys have no effect. The places are found by backtracking over the
rules: a variable is chosen for each rule in turn, and restricts each predicate to the places at
which the variable occurs in all its atoms.
Example: `Hot(?v, ?s) :- :temp(?s, ?v) IN [3 s]` with ?s gives argument 1 of Hot, the subject of
:temp.
Source: lars.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from dotr.languages.lars.model import (
    Always,
    At,
    ClassName,
    Counted,
    EventAtom,
    EventName,
    LarsAtom,
    LarsFile,
    LarsLiteral,
    LarsPredicate,
    LarsRule,
    OwnRelation,
    PropertyName,
    Since,
    Sometime,
    TupleWindow,
    may_share,
    predicate_of,
    variables_of_atom,
)
from dotr.model import dataclass
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.datalog import RelationAtom
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Term, Variable
from dotr.model.units import InstantTriples
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import ReadSpread

Place: TypeAlias = int | str
"""A place in an atom: of a triple 0 (the subject) or 2 (the object), of an own relation the index
of an argument, of an event the name of an attribute.
"""

KeyOfRow: TypeAlias = Callable[[Sequence[object]], object]
"""The key of a row of terms: a term, or None."""

_Places: TypeAlias = Mapping[LarsPredicate, frozenset[Place]]
_MOST_CHOICES: Final = 10_000


@dataclass(frozen=True, slots=True)
class LarsKey:
    """The place of each predicate, and the variable of each rule by its name; both empty where the
    file has one partition, for the given reason.
    """

    places: Mapping[LarsPredicate, Place]
    variables: Mapping[str, Variable]
    reason: str

    @property
    def unit_key(self) -> UnitKey:
        """The key for messages: the variable of the first rule, or the reason."""
        return UnitKey(next(iter(self.variables.values()), None), self.reason)

    @property
    def objects(self) -> frozenset[Term]:
        """The properties whose triples are keyed by their objects; other triples are keyed by
        subjects."""
        places = {each.iri: place for each, place in self.places.items() if isinstance(each, PropertyName)}
        return frozenset(iri for iri, place in places.items() if iri is not None and place == 2)

    def of_triples(self) -> KeyOfRow:
        """The key of each triple."""
        objects = self.objects
        return lambda triple: triple[2] if triple[1] in objects else triple[0]

    def of_events(self, label: Label) -> KeyOfRow:
        """The key of each event of a label, whose row lists each name before its term; None where
        it lacks the name.

        >>> LarsKey({EventName("High"): "room"}, {}, "").of_events("High")(["level", '"3"', "room", "<a>"])
        '<a>'
        """
        place = self.places.get(EventName(label))

        def key_of(event: Sequence[object]) -> object:
            names = event[::2]
            return event[2 * names.index(place) + 1] if place in names else None

        return key_of

    def of_rows(self, predicate: LarsPredicate, names: Sequence[Variable] = ()) -> KeyOfRow | None:
        """The key of each row of a predicate (`dotr.languages.lars.closure.rows`), which further
        terms may follow; None: the rows have no key. `names`: the attributes of an event."""
        match predicate:
            case PropertyName(None):
                return self.of_triples()
            case PropertyName(iri):
                return itemgetter(int(iri in self.objects))
            case ClassName():
                return itemgetter(0)
            case OwnRelation():
                place = self.places.get(predicate)
                return itemgetter(place) if isinstance(place, int) else None
            case EventName():
                name = self.places.get(predicate)
                return itemgetter(names.index(str(name))) if name in names else None


def lars_key(file: LarsFile) -> LarsKey:
    """The key of a file, or the reason why it has none.

    >>> from dotr.languages.lars.reading import compile_lars
    >>> from dotr.languages.lars.model import OwnRelation
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
    """The reason why the tuple window of a literal excludes a key; empty: it does not."""
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
    """Own relations that have facts and no rules."""
    facts = {predicate_of(fact.atom) for fact in file.facts if isinstance(fact.atom, RelationAtom)}
    return frozenset(facts - file.derived)


def _atoms(rule: LarsRule) -> Iterator[LarsAtom]:
    yield from (head.atom for head in rule.heads)
    for literal in (*rule.literals, *rule.negated):
        yield from literal.atoms


def _choices(rule: LarsRule, atoms: list[LarsAtom]) -> list[Variable]:
    """The variables that occur at a possible place in all atoms, and in PER of all tuple
    windows."""
    names = [name for name in variables_of_atom(atoms[0]) if all(_places_of(name, atom) for atom in atoms)]
    for literal in (*rule.literals, *rule.negated):
        match literal.reach:
            case Sometime(TupleWindow(_, _, per)) | Always(TupleWindow(_, _, per)) | At(_, TupleWindow(_, _, per)):
                names = [name for name in names if name in per]
            case _:
                pass
    return names


def _places_of(name: Variable, atom: LarsAtom) -> frozenset[Place]:
    """The places of an atom at which a variable occurs, of those that a key may have."""
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
    """Backtracking search of a variable for each rule; it ends after `_MOST_CHOICES` choices."""

    def __init__(self, rules: list[tuple[LarsRule, list[LarsAtom]]]) -> None:
        self._rules = rules
        self._predicates = {predicate_of(atom) for _, atoms in rules for atom in atoms}
        self._tried = 0

    def found(self) -> tuple[_Places, Mapping[str, Variable]] | None:
        """The possible places of each predicate and the variables; None: the search has failed."""
        chosen: dict[str, Variable] = {}
        places: dict[LarsPredicate, frozenset[Place]] = {}
        # For each rule: the places before the choice for the rule before it, and its further variables.
        stack: list[tuple[dict[LarsPredicate, frozenset[Place] | None], Iterator[Variable]]] = [({}, self._variables(0))]
        while stack and self._tried < _MOST_CHOICES:
            if len(stack) > len(self._rules):
                return places, chosen
            rule, atoms = self._rules[len(stack) - 1]
            for name in stack[-1][1]:
                self._tried += 1
                narrowed = self._narrowed(places, name, atoms)
                if narrowed is not None:
                    chosen[f"{rule.name} {rule.span.start}"] = name
                    stack.append(({predicate: places.get(predicate) for predicate in narrowed}, self._variables(len(stack))))
                    places.update(narrowed)
                    break
            else:
                for predicate, allowed in stack.pop()[0].items():
                    if allowed is None:
                        del places[predicate]
                    else:
                        places[predicate] = allowed
        return None

    def _variables(self, number: int) -> Iterator[Variable]:
        return iter(_choices(*self._rules[number]) if number < len(self._rules) else ())

    def _narrowed(self, places: _Places, name: Variable, atoms: list[LarsAtom]) -> _Places | None:
        """The places of the predicates of these atoms at which the variable occurs too; None: a
        predicate has none.
        """
        remaining: dict[LarsPredicate, frozenset[Place]] = {}
        for atom in atoms:
            allowed = _places_of(name, atom)
            own = predicate_of(atom)
            # A variable predicate or class restricts all predicates that it may match.
            is_one = not isinstance(own, PropertyName | ClassName) or own.iri is not None
            for predicate in (own,) if is_one else [each for each in self._predicates if may_share(own, each)]:
                narrowed = remaining.get(predicate, places.get(predicate, allowed)) & allowed
                if not narrowed:
                    return None
                remaining[predicate] = narrowed
        return remaining


# Streams that a LARS file reads, and their spreading by the places of its predicates (lars.md,
# section 4).
#
# Idea: all atoms that a rule joins have the same key, so all premises for a key are in its bucket,
# and the background is in every bucket. A bucket also derives conclusions from background and facts
# for keys of other buckets; these may be wrong, so that a bucket reports rows of its own keys alone.


EventReads: TypeAlias = tuple[tuple[Label, EventSource | FactSource], ...]
"""The sources of the events that a file reads, by label in alphabetic order."""


def lars_key_names(file: LarsFile, events: EventReads) -> tuple[str, ...]:
    """The predicates of a file with their places, as texts for state, sorted; empty: the file has
    one partition.
    """
    if lars_spreads(file, events) is None:
        return ()
    found = []
    for predicate, place in lars_key(file).places.items():
        match predicate:
            case PropertyName(iri):
                found.append(f"property {iri or ''} {place}")
            case ClassName(iri):
                found.append(f"class {iri or ''} {place}")
            case OwnRelation(name):
                found.append(f"relation {name} {place}")
            case EventName(label):
                found.append(f"event {label} {place}")
    return tuple(sorted(found))


def lars_spreads(file: LarsFile, events: EventReads) -> Sequence[ReadSpread] | None:
    """The spread of each read of a file; None: the file has one partition."""
    key = lars_key(file)
    if not key.places:
        return None
    found = [] if triples_read(file) is None else [ReadSpread((), False, key.objects)]
    for label, source in events:
        place = key.places.get(EventName(label))
        if not isinstance(place, str):
            return None
        found.append(ReadSpread((source.attributes.index(place),), False))
    return found


def labels_read(file: LarsFile, events: EventReads) -> Mapping[int, tuple[Label, EventSource | FactSource]]:
    """The labels that are read, by the number of their read; a read that is missing here is that
    of triples.
    """
    return dict(enumerate(events, 0 if triples_read(file) is None else 1))


def atoms_read(file: LarsFile) -> list[tuple[LarsAtom, Span]]:
    """The atoms of all literals, with their places."""
    found: list[tuple[LarsAtom, Span]] = []
    for literal in file.literals:
        found.append((literal.atom, literal.atom_span))
        if isinstance(literal.reach, Since):
            found.append((literal.reach.other, literal.reach.other_span))
    return found


def triples_read(file: LarsFile) -> InstantTriples | None:
    """The triples of instants that a file reads; None: it reads none.

    They are those of the properties of its literals and REPORTs; of all properties if a predicate
    is a variable, or if `[LAST n]` counts all triples.
    """
    predicates: set[Term] = set()
    atoms = [atom for atom, _ in atoms_read(file)] + [report.atom for report in file.reports]
    for atom in atoms:
        if not isinstance(atom, TriplePattern) or file.is_background(atom):
            continue
        if not isinstance(atom.predicate, Const):
            return InstantTriples(file.asserted, None)
        predicates.add(atom.predicate.term)
    for literal in file.literals:
        match literal.reach:
            case Sometime(TupleWindow(_, Counted.ALL)) | Always(TupleWindow(_, Counted.ALL)) | At(_, TupleWindow(_, Counted.ALL)):
                return InstantTriples(file.asserted, None)
            case _:
                pass
    return InstantTriples(file.asserted, frozenset(predicates)) if predicates else None
