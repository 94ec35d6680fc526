"""Closure under `owl:sameAs` without a copy for every name (Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015).

Idea: instead of eq-sym, eq-trans and eq-rep, a closure in which one name stands for all that are equal, done again when it has made
more names equal; and then the copies (`dotr.datalog.same_as.expand`).
Invariant: what comes out is what the tables say, triple for triple. Where a name is more than the name of an individual (a predicate, a
class with subclasses, a constant of a rule, a literal that a name is said to be equal to), or a rule looks at names as such, the tables'
own rules do the work.
Cost: a closure for each time that it makes names equal, which is seldom more than two; a look-up at an instant without equal names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from dotr.datalog.closure import Closer, Closure, Contradiction, RuleDispatch
from dotr.datalog.entailment import Entailment, rule_set
from dotr.datalog.entailment.irreflexive import REFLEXIVE
from dotr.datalog.same_as.classes import SAME, MergedClasses, NameClasses
from dotr.datalog.same_as.expand import expanded_index
from dotr.model.algebra import Call, Const, Expression, TriplePattern, Var, is_chain
from dotr.model.datalog import Bind, DatalogRule, FilterItem
from dotr.model.terms import OWL, RDF_FIRST, RDF_REST, RDF_TYPE, RDFS, Term, Triple, can_be_subject, iri, is_literal
from dotr.store.triples import HIDDEN, NO_ENDS, NO_TERMS, TripleIndex

_REPLACED: Final = frozenset(("eq-sym", "eq-trans", "eq-rep-s", "eq-rep-p", "eq-rep-o", "eq-diff1"))
_SINGLE: Final = (iri(OWL + "FunctionalProperty"), iri(OWL + "InverseFunctionalProperty"))
_LISTS: Final = ("eq-diff2", "eq-diff3")
_DIFFERENT: Final = iri(OWL + "differentFrom")
_SUBPROPERTY: Final = iri(RDFS + "subPropertyOf")
_SCHEMA: Final = (*(predicate for predicate in REFLEXIVE if predicate != SAME), RDF_REST, HIDDEN + "reflexive>")
_BLIND: Final = frozenset(("<", ">", "<=", ">=", "+", "-", "*", "/", "!", "&&", "||"))
"""What gives the same for any IRI or blank node: an error, mostly."""


@dataclass(frozen=True, slots=True)
class SameAsRules:
    """A program's rules for closing with standing names, and the terms that must stay themselves. `loops`: rules of the program's own may
    conclude that something is equal to itself, of all names of an individual; without them only what was given says so, of one name."""

    rules: tuple[DatalogRule, ...]
    constants: frozenset[Term]
    loops: bool

    @staticmethod
    def of(rules: Sequence[DatalogRule]) -> SameAsRules | None:
        """None where the rules do not have the rows of equality, or one of the others looks at names as such.

        >>> SameAsRules.of([]), SameAsRules.of(rule_set(Entailment.RDFS))
        (None, None)
        >>> len(SameAsRules.of(rule_set(Entailment.OWL2RL)).rules) < len(rule_set(Entailment.OWL2RL))
        True
        """
        tables = frozenset(rule_set(Entailment.OWL2RL))
        if not tables.issubset(rule for rule in rules if rule.of_rule_set):
            return None
        own = [rule for rule in rules if not (rule.of_rule_set and rule in tables)]
        if not all(map(_is_blind, own)):
            return None
        kept = [_of_one_name(rule) if rule in tables else rule for rule in rules if rule not in tables or rule.name not in _REPLACED]
        constants = {slot.term for rule in rules for slot in _slots(rule) if isinstance(slot, Const)}
        loops = any(head.predicate == Const(SAME) or isinstance(head.predicate, Var) for rule in own for head in rule.head)
        return SameAsRules(tuple(kept), frozenset(constants), loops)

    def is_plain(self, names: Iterable[Term], index: TripleIndex) -> bool:
        """Whether names are those of individuals, and of nothing else, in all that an index holds."""
        tables = [index.by_subject.get(RDF_FIRST, NO_ENDS)]
        tables += [table[p] for p in _SCHEMA for table in (index.by_subject, index.by_object) if p in table]
        return all(
            name not in self.constants and name not in index.by_subject and not any(name in table for table in tables) for name in names
        )


def _of_one_name(rule: DatalogRule) -> DatalogRule:
    """eq-diff2 and eq-diff3 where equal names are one name: two places of a list hold it."""
    if rule.name not in _LISTS:
        return rule
    same = next(item for item in rule.body if isinstance(item, TriplePattern) and item.predicate == Const(SAME))
    one, other = same.subject, same.object
    body = [
        replace(item, object=one) if isinstance(item, TriplePattern) and item.object == other else item
        for item in rule.body
        if item is not same
    ]
    return replace(rule, body=tuple(body))


def _slots(rule: DatalogRule) -> Iterator[Const | Var]:
    for item in (*rule.head, *rule.body):
        if isinstance(item, TriplePattern):
            yield from (item.subject, item.predicate, item.object)


def _is_blind(rule: DatalogRule) -> bool:
    """Whether a rule cannot tell equal names apart, nor see that they are equal.

    >>> from dotr.languages.datalog import parse_datalog
    >>> from dotr.model.places import Document
    >>> def blind(text: str) -> bool:
    ...     return _is_blind(parse_datalog(Document("a.dlog", text), {"": "http://e/"})[0])
    >>> blind(":hot(?x) :- :val(?x, ?v), FILTER(?v > 60) ."), blind(":hot(?x) :- :val(?x, ?v), FILTER(?x != :a) .")
    (True, False)
    >>> blind(":same(?x, ?y) :- owl:sameAs(?x, ?y) .".replace("owl:sameAs", f"{SAME}")), blind("[?x, :q, ?y] :- [?x, ?p, ?y] .")
    (False, False)
    """
    for item in rule.body:
        match item:
            case TriplePattern(_, Const(predicate), _) if predicate != SAME:
                pass
            case FilterItem(expression) | Bind(expression, _) if _is_blind_expression(expression):
                pass
            case _:
                return False
    return True


def _is_blind_expression(expression: Expression) -> bool:
    match expression:
        case Call(function, arguments) if function in _BLIND or is_chain(function):
            return all(map(_is_blind_expression, arguments))
        case Call("=" | "!=", (Var(), Const(term)) | (Const(term), Var())):
            return is_literal(term)
        case Const(term):
            return is_literal(term)
        case Var():
            return True
        case _:
            return False


def _speaks_of_equality(index: TripleIndex) -> bool:
    """Whether something is said of `owl:sameAs` itself, but that other properties are below it."""
    return any(SAME in index.by_subject[p] or (SAME in index.by_object[p] and p != _SUBPROPERTY) for p in index.by_subject)


class ClosedByRules(Protocol):
    """Triples closed under some rules."""

    @property
    def of(self) -> Mapping[Term, Sequence[Triple]]:
        """Predicate -> its triples."""

    @property
    def contradictions(self) -> tuple[Contradiction, ...]: ...

    def index(self) -> TripleIndex: ...


AnyClosed = TypeVar("AnyClosed", bound=ClosedByRules)


@dataclass(frozen=True, slots=True)
class RepresentativeBackground(Generic[AnyClosed]):
    """A background closed with standing names. `copies` are all its triples, where there are equal names."""

    closed: AnyClosed
    contradictions: set[Contradiction]
    copies: TripleIndex | None


def close_by_names(
    equality: SameAsRules, given: list[Triple], close: Callable[[list[Triple]], AnyClosed]
) -> RepresentativeBackground[AnyClosed] | None:
    """A background closed with standing names; None where the tables' own rules must do it."""
    empty = TripleIndex()
    classes = MergedClasses(empty, {}, {})
    joined = _join_given(given, classes, equality)
    if joined is None:
        return None
    rest, themselves = joined
    functional, inverse = ({s for s, p, o in given if p == RDF_TYPE and o == kind} for kind in _SINGLE)
    for one, other in _single_valued(given, functional, inverse):
        classes.join(one, other)
    while True:
        normal = list(dict.fromkeys(map(classes.triple, rest))) if classes.all_names() else given
        closed = close(normal)
        more = _join_derived(closed.of.get(SAME, ()), classes)
        if more is None:
            return None
        if not more:
            break
    names = classes.all_names()
    if names:
        index = closed.index()
        if not equality.is_plain(names, index) or _speaks_of_equality(index):
            return None
    loops = _loops(closed.of.get(SAME, ()), classes) | set(map(classes.name, themselves))
    equal = {*loops, *classes.joined()}
    contradictions = set(closed.contradictions)
    differing = closed.of.get(_DIFFERENT, ())
    listed = {o for rule, triples in contradictions if rule in _LISTS for _, p, o in triples if p == RDF_FIRST}
    if not listed <= equal:
        return None
    if any(one == other and one not in equal for one, _, other in differing):
        return None
    contradictions |= _differing(differing, loops, classes)
    if not names:
        return RepresentativeBackground(closed, contradictions, None)
    said = _said((triple for triples in closed.of.values() for triple in triples), classes)
    return RepresentativeBackground(
        closed, contradictions, expanded_index(said.keys(), reflexive_names(loops, themselves, equality, classes), classes, empty)
    )


class SameAsCloser:
    """A program with equality over a background that holds all copies; `by_names`: it could be closed with standing names."""

    def __init__(self, equality: SameAsRules, rules: Sequence[DatalogRule], background: TripleIndex, *, by_names: bool) -> None:
        self.background = background
        self._equality = equality
        self._all = rules
        self._closer = Closer(RuleDispatch(equality.rules), background)
        self._tables: Closer | None = None
        self._parts = parts = NameClasses(background)
        self._is_plain = (
            by_names and not _speaks_of_equality(background) and (not parts.first or equality.is_plain(parts.first, background))
        )
        self._are_equal = frozenset(parts.first)
        typed = background.by_object.get(RDF_TYPE, NO_ENDS)
        self._functional, self._inverse = (frozenset(typed.get(kind, NO_TERMS)) for kind in _SINGLE)

    def limit_to(self, most: int) -> None:
        """So many triples a closure may have beyond the background."""
        for closer in (self._closer, self._tables):
            if closer is not None:
                closer.limit = most

    def close(self, triples: Iterable[Triple]) -> Closure:
        """What K(t) has beyond the background, if the instant holds these triples."""
        if not self._is_plain:
            return self._by_tables(triples)
        given = triples if isinstance(triples, tuple) else tuple(triples)
        if (self._functional or self._inverse) and _single_valued(given, self._functional, self._inverse):
            return self._with_names(given)
        closure = self._closer.close(given)
        new = closure.delta.by_subject
        if SAME in new or _DIFFERENT in new or (self._are_equal and self._equal_in(closure.delta)):
            return self._with_names(given)
        if closure.contradictions:
            return closure._replace(contradictions=tuple(each for each in closure.contradictions if self._stands(each, ())))
        return closure

    def _stands(self, found: Contradiction, equal: Container[Term]) -> bool:
        """Whether a contradiction of eq-diff2 or eq-diff3 is one: what stands twice in the list is equal to something."""
        if found.rule not in _LISTS:
            return True
        twice = next(object for _, predicate, object in found.triples if predicate == RDF_FIRST)
        return twice in equal or twice in self._are_equal or (twice, SAME, twice) in self.background.triples

    def _equal_in(self, new: TripleIndex) -> set[Term]:
        """The background's equal names that occur in what is new."""
        equal = self._are_equal
        found = set(equal.intersection(new.by_subject))
        for table in (new.by_subject, new.by_object):
            for ends in table.values():
                found.update(equal.intersection(ends))
        return found

    def _by_tables(self, triples: Iterable[Triple]) -> Closure:
        if self._tables is None:
            self._tables = Closer(RuleDispatch(self._all), self.background, self._closer.limit)
        return self._tables.close(triples)

    def _with_names(self, given: tuple[Triple, ...]) -> Closure:
        classes = MergedClasses(self.background, self._parts.first, self._parts.members)
        joined = _join_given(given, classes, self._equality)
        if joined is None:
            return self._by_tables(given)
        rest, themselves = joined
        for one, other in _single_valued(given, self._functional, self._inverse):
            classes.join(one, other)
        while True:
            closure = self._closer.close(dict.fromkeys([*map(classes.triple, rest), *classes.said()]))
            more = _join_derived(closure.delta.match(None, SAME, None), classes)
            if more is None:
                return self._by_tables(given)
            if not more:
                break
        new = closure.delta
        is_plain, names = self._equality.is_plain, classes.all_names()
        if not (is_plain(names, self.background) and is_plain({*names, *self._equal_in(new)}, new)) or _speaks_of_equality(new):
            return self._by_tables(given)
        said = _said(new, classes)
        found = {_named(each, classes) for each in closure.contradictions}
        said.update(dict.fromkeys(classes.said(of_all=True)))
        known = self.background.triples
        loops = _loops(new.match(None, SAME, None), classes) | {
            name for name in classes.joined() if any((each, SAME, each) in known for each in classes.names(name))
        }
        loops |= {s for s, p, _ in said if p == _DIFFERENT and (s, SAME, s) in known} | set(map(classes.name, themselves))
        found = {each for each in found if self._stands(each, {*loops, *classes.joined()})}
        found |= _differing([*new, *said], loops, classes)
        copies = expanded_index(said.keys(), reflexive_names(loops, themselves, self._equality, classes), classes, self.background)
        return Closure(self.background, copies, tuple(sorted(found)))


def _join_given(given: Iterable[Triple], classes: MergedClasses, equality: SameAsRules) -> tuple[list[Triple], set[Term]] | None:
    """Joins the names that triples say are equal; the other triples, and the names that are said to be equal to themselves. None where one
    says it of what is no name, or of a name and itself where rules may say that of others."""
    rest = []
    themselves = set()
    for triple in given:
        if triple[1] != SAME:
            rest.append(triple)
        elif not can_be_subject(triple[2]) or (triple[0] == triple[2] and equality.loops):
            return None
        elif triple[0] == triple[2]:
            themselves.add(triple[0])
        else:
            classes.join(triple[0], triple[2])
    return rest, themselves


def _single_valued(given: Iterable[Triple], functional: Container[Term], inverse: Container[Term]) -> list[tuple[Term, Term]]:
    """Names that prp-fp and prp-ifp make equal by two given triples. The rows find all pairs, these are as many as names.

    >>> _single_valued([("<x>", "<p>", "<a>"), ("<x>", "<p>", "<b>"), ("<x>", "<p>", "<c>"), ("<y>", "<p>", "<c>")], ["<p>"], [])
    [('<a>', '<b>'), ('<a>', '<c>')]
    """
    first: dict[tuple[Term, Term, bool], Term] = {}
    pairs = []
    for s, p, o in given:
        if not can_be_subject(o):
            continue
        if p in functional and (one := first.setdefault((s, p, True), o)) != o:
            pairs.append((one, o))
        if p in inverse and (one := first.setdefault((o, p, False), s)) != s:
            pairs.append((one, s))
    return pairs


def _join_derived(derived: Iterable[Triple], classes: MergedClasses) -> bool | None:
    """Joins the names that a closure says are equal; whether that was news. None where it says it of what is no name."""
    more = False
    for name, _, other in derived:
        if not can_be_subject(other):
            return None
        more |= classes.join(name, other)
    return more


def _said(closed: Iterable[Triple], classes: MergedClasses) -> dict[Triple, None]:
    """What a closure says with standing names, equality left out, in its order."""
    return dict.fromkeys(classes.triple(triple) for triple in closed if triple[1] != SAME)


def _named(found: Contradiction, classes: MergedClasses) -> Contradiction:
    return Contradiction(found.rule, tuple(sorted(set(map(classes.triple, found.triples)))))


def _loops(equalities: Iterable[Triple], classes: MergedClasses) -> set[Term]:
    """The standing names of those that a program's own rules make equal to themselves; what holds of one of them holds of all."""
    return {classes.name(one) for one, _, other in equalities if one == other}


def reflexive_names(loops: Iterable[Term], themselves: set[Term], equality: SameAsRules, classes: MergedClasses) -> set[Term]:
    """All names that are to be said to be equal to themselves: of a class, where a rule concludes it, else those of which it was given."""
    return {each for name in loops for each in classes.names(name)} if equality.loops else themselves


def _differing(triples: Iterable[Triple], loops: set[Term], classes: MergedClasses) -> set[Contradiction]:
    """eq-diff1: names of one class that are said to differ. One pair of names speaks for all of a class."""
    found: dict[Term, Contradiction] = {}
    for one, predicate, other in triples:
        if predicate == _DIFFERENT and (name := classes.name(one)) == classes.name(other) and name not in found:
            two = other if one != other else next((each for each in classes.names(name) if each != one), one)
            if one != two or name in loops:
                found[name] = Contradiction("eq-diff1", tuple(sorted([(one, SAME, two), (one, _DIFFERENT, two)])))
    return set(found.values())
