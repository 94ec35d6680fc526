"""Closure under `owl:sameAs` by rewriting to representatives (Motik, Nenov, Piro, Horrocks:
Handling owl:sameAs via Rewriting, AAAI 2015).

Idea: instead of eq-sym, eq-trans and eq-rep, a closure over one representative for each class of
equal names, repeated while it derives further equalities; then the expansion to all names
(`dotr.instant.datalog.same_as.expand`).

A small case: `<a> owl:sameAs <b>`, `<b> <p> <o>` and a rule for `<p>`. The closure is that of
`<a> <p> <o>`; the expansion adds each conclusion about `<a>` for `<b>`.

Invariant: the result equals that of the OWL 2 RL tables, triple for triple. The tables' own rules
are used if one of the equal names is not only the name of an individual (but a predicate, a class
with subclasses, a constant of a rule, or equal to a literal), or if a rule depends on names as
such.

Cost: one closure for each round of derived equalities, seldom more than two; one look-up for an
instant without equal names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Generic, Protocol, TypeVar

from dotr.evaluation.triples.index import HIDDEN, NO_ENDS, NO_TERMS, TripleIndex
from dotr.instant.datalog.closure.closed_instant import Closure, Contradiction, InstantCloser
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch, needs_more_than
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.entailment.rule_sets import REFLEXIVE
from dotr.instant.datalog.same_as.expand import SAME, MergedClasses, NameClasses, expanded_index
from dotr.model import dataclass
from dotr.model.algebra import Call, Const, Expression, TriplePattern, Var, is_chain
from dotr.model.datalog import Bind, DatalogRule, FilterItem
from dotr.model.terms import OWL, RDF_FIRST, RDF_REST, RDF_TYPE, RDFS, Term, Triple, can_be_subject, iri, is_literal

LIST_ROWS: Final = ("eq-diff2", "eq-diff3")
DIFFERENT: Final = iri(OWL + "differentFrom")
_REPLACED_ROWS: Final = frozenset(("eq-sym", "eq-trans", "eq-rep-s", "eq-rep-p", "eq-rep-o", "eq-diff1"))
_SINGLE_VALUED: Final = (iri(OWL + "FunctionalProperty"), iri(OWL + "InverseFunctionalProperty"))
_SUBPROPERTY: Final = iri(RDFS + "subPropertyOf")
_SCHEMA: Final = (*(predicate for predicate in REFLEXIVE if predicate != SAME), RDF_REST, HIDDEN + "reflexive>")
_NAME_BLIND: Final = frozenset(("<", ">", "<=", ">=", "+", "-", "*", "/", "!", "&&", "||"))
"""Operators with the same result for any IRI or blank node, mostly an error."""


@dataclass(frozen=True, slots=True)
class SameAsRules:
    """Rules for the closure over representatives, and the constants that must stay themselves.

    `derives_reflexive`: rules of the program may derive `x owl:sameAs x`, which then holds for all
      names of the class; otherwise only stated triples do, each for one name.
    """

    rules: tuple[DatalogRule, ...]
    constants: frozenset[Term]
    derives_reflexive: bool

    @staticmethod
    def from_rules(rules: Sequence[DatalogRule]) -> SameAsRules | None:
        """Rewritten rules; None where the equality rows are missing, or another rule depends on
        names as such.

        >>> SameAsRules.from_rules([]), SameAsRules.from_rules(rule_set(Entailment.RDFS))
        (None, None)
        >>> tables = rule_set(Entailment.OWL2RL)
        >>> len(SameAsRules.from_rules(tables).rules) < len(tables)
        True
        """
        if not _REPLACED_ROWS.issubset(rule.name for rule in rules if rule.of_rule_set):
            return None  # the tables need not be read
        tables, of_tables = _tables(), _shared_ids()
        if not of_tables.issubset(map(id, rules)):  # read from a file, in another process
            equal = {id(rule): rule for rule in rules if rule.of_rule_set and rule in tables}
            if len(set(equal.values())) < len(tables):
                return None
            of_tables = frozenset(equal)
        own = [rule for rule in rules if id(rule) not in of_tables]
        if not all(map(_is_name_blind, own)):
            return None
        rewritten = [rule for rule in rules if id(rule) not in of_tables or not _is_replaced(rule)]
        constants = {slot.term for rule in rules for slot in _slots(rule) if isinstance(slot, Const)}
        derives_reflexive = any(head.predicate == Const(SAME) or isinstance(head.predicate, Var) for rule in own for head in rule.head)
        return SameAsRules(tuple(rewritten), frozenset(constants), derives_reflexive)

    def are_individuals(self, names: Iterable[Term], index: TripleIndex) -> bool:
        """True where all names are names of individuals only, in every triple of an index."""
        tables = [index.by_subject.get(RDF_FIRST, NO_ENDS)]
        tables += [table[p] for p in _SCHEMA for table in (index.by_subject, index.by_object) if p in table]
        return all(
            name not in self.constants and name not in index.by_subject and not any(name in table for table in tables) for name in names
        )


@cache
def _tables() -> frozenset[DatalogRule]:
    return frozenset(rule_set(Entailment.OWL2RL))


@cache
def _shared_ids() -> frozenset[int]:
    """The objects of the tables in this process, which are compared faster than their values."""
    return frozenset(map(id, rule_set(Entailment.OWL2RL)))


def _is_replaced(rule: DatalogRule) -> bool:
    """True for a rule that needs no place over representatives: of eq-diff2 and eq-diff3 those of
    two names, since a representative is listed twice then.
    """
    return rule.name in _REPLACED_ROWS or (rule.name in LIST_ROWS and any(slot == Const(SAME) for slot in _slots(rule)))


def _slots(rule: DatalogRule) -> Iterator[Const | Var]:
    for item in (*rule.head, *rule.body):
        if isinstance(item, TriplePattern):
            yield from (item.subject, item.predicate, item.object)


def _is_name_blind(rule: DatalogRule) -> bool:
    """True for a rule that neither distinguishes equal names nor reads their equality.

    >>> from dotr.syntax.datalog import parse_datalog
    >>> from dotr.model.places import Document
    >>> def blind(text: str) -> bool:
    ...     return _is_name_blind(parse_datalog(Document("a.dlog", text), {"": "http://e/"})[0])
    >>> blind(":hot(?x) :- :val(?x, ?v), FILTER(?v > 60) .")
    True
    >>> blind(":hot(?x) :- :val(?x, ?v), FILTER(?x != :a) .")
    False
    >>> blind(f":same(?x, ?y) :- {SAME}(?x, ?y) ."), blind("[?x, :q, ?y] :- [?x, ?p, ?y] .")
    (False, False)
    """
    for item in rule.body:
        match item:
            case TriplePattern(_, Const(predicate), _) if predicate != SAME:
                pass
            case FilterItem(expression) | Bind(expression, _) if _is_name_blind_expression(expression):
                pass
            case _:
                return False
    return True


def _is_name_blind_expression(expression: Expression) -> bool:
    match expression:
        case Call(function, arguments) if function in _NAME_BLIND or is_chain(function):
            return all(map(_is_name_blind_expression, arguments))
        case Call("=" | "!=", (Var(), Const(term)) | (Const(term), Var())):
            return is_literal(term)
        case Const(term):
            return is_literal(term)
        case Var():
            return True
        case _:
            return False


def _has_same_as_schema(index: TripleIndex) -> bool:
    """True for schema about `owl:sameAs` itself, other than subproperties of it."""
    return any(SAME in index.by_subject[p] or (SAME in index.by_object[p] and p != _SUBPROPERTY) for p in index.by_subject)


class ClosedByRules(Protocol):
    """Triples closed under some rules."""

    @property
    def by_predicate(self) -> Mapping[Term, Sequence[Triple]]:
        """Predicate -> its triples."""

    @property
    def contradictions(self) -> tuple[Contradiction, ...]: ...

    def index(self) -> TripleIndex: ...


AnyClosed = TypeVar("AnyClosed", bound=ClosedByRules)


@dataclass(frozen=True, slots=True)
class RepresentativeBackground(Generic[AnyClosed]):
    """A background closed over representatives.

    `expanded`: the index of all its triples; None without equal names.
    """

    closed: AnyClosed
    contradictions: set[Contradiction]
    expanded: TripleIndex | None


def close_by_representatives(
    equality: SameAsRules, triples: list[Triple], close: Callable[[list[Triple]], AnyClosed]
) -> RepresentativeBackground[AnyClosed] | None:
    """Closes a background over representatives; None where the tables' own rules are needed.

    `close`: closes triples under `equality.rules`.
    """
    empty = TripleIndex()
    classes = MergedClasses(empty, {}, {})
    merged = _merge_stated(triples, classes, equality)
    if merged is None:
        return None
    rest, stated_reflexive = merged
    functional, inverse = ({s for s, p, o in triples if p == RDF_TYPE and o == kind} for kind in _SINGLE_VALUED)
    for one, other in _single_valued(triples, functional, inverse):
        classes.merge(one, other)
    while True:
        normal = list(dict.fromkeys(map(classes.triple, rest))) if classes.merged_names() else triples
        closed = close(normal)
        has_merged = _merge_derived(closed.by_predicate.get(SAME, ()), classes)
        if has_merged is None:
            return None
        if not has_merged:
            break
    names = classes.merged_names()
    if names:
        index = closed.index()
        if not equality.are_individuals(names, index) or _has_same_as_schema(index):
            return None
    reflexive = _derived_reflexive(closed.by_predicate.get(SAME, ()), classes) | set(map(classes.representative, stated_reflexive))
    contradictions = set(closed.contradictions)
    contradictions |= _eq_diff1(closed.by_predicate.get(DIFFERENT, ()), classes)
    if not names:
        return RepresentativeBackground(closed, contradictions, None)
    rewritten = _rewritten((triple for triples in closed.by_predicate.values() for triple in triples), classes)
    return RepresentativeBackground(
        closed,
        contradictions,
        expanded_index(rewritten.keys(), reflexive_names(reflexive, stated_reflexive, equality, classes), classes, empty),
    )


class SameAsCloser(InstantCloser):
    """Closer of instants with equality, over a background that holds all copies.

    `by_representatives`: the background could be closed over representatives.
    """

    def __init__(self, equality: SameAsRules, rules: Sequence[DatalogRule], background: TripleIndex, *, by_representatives: bool) -> None:
        self.background = background
        self._equality = equality
        self._all_rules = rules
        self._closer = Closer(RuleDispatch(equality.rules), background)
        self._table_closer: Closer | None = None
        self._parts = parts = NameClasses(background)
        self._uses_representatives = (
            by_representatives
            and not _has_same_as_schema(background)
            and (not parts.representative or equality.are_individuals(parts.representative, background))
        )
        self._equal_names = frozenset(parts.representative)
        typed = background.by_object.get(RDF_TYPE, NO_ENDS)
        self._functional, self._inverse = (frozenset(typed.get(kind, NO_TERMS)) for kind in _SINGLE_VALUED)

    def limit_to(self, limit: int) -> None:
        """Sets the maximum number of triples of a closure beyond the background."""
        for closer in (self._closer, self._table_closer):
            if closer is not None:
                closer.limit = limit

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) of an instant with these triples."""
        if not self._uses_representatives:
            return self._close_by_tables(triples)
        instant = triples if isinstance(triples, tuple) else tuple(triples)
        if (self._functional or self._inverse) and _single_valued(instant, self._functional, self._inverse):
            return self._close_by_representatives(instant)
        closure = self._closer.close(instant)
        delta = closure.delta.by_subject
        if SAME in delta or DIFFERENT in delta or (self._equal_names and self._equal_in(closure.delta)):
            return self._close_by_representatives(instant)
        if closure.contradictions and self._equal_names:
            return closure._replace(contradictions=self.told(closure.contradictions, closure.delta))
        return closure

    def _equal_in(self, delta: TripleIndex) -> set[Term]:
        """Names with equal names in the background that occur in the delta."""
        equal = self._equal_names
        names = set(equal.intersection(delta.by_subject))
        for table in (delta.by_subject, delta.by_object):
            for ends in table.values():
                names.update(equal.intersection(ends))
        return names

    def _close_by_tables(self, triples: Iterable[Triple]) -> Closure:
        if self._table_closer is None:
            self._table_closer = Closer(RuleDispatch(self._all_rules), self.background, self._closer.limit)
        closure = self._table_closer.close(triples)
        if not closure.contradictions:
            return closure
        return closure._replace(contradictions=self.told(closure.contradictions, closure.delta))

    def told(self, found: Iterable[Contradiction], delta: TripleIndex) -> tuple[Contradiction, ...]:
        """The reported form of contradictions by the tables: each once, under the representatives
        of equal names, sorted.

        `delta`: the triples of the closure without the background.
        """
        return tuple(sorted(representative_contradictions(found, delta.match(None, SAME, None), self._parts, self.background)))

    def _close_by_representatives(self, instant: tuple[Triple, ...]) -> Closure:
        classes = MergedClasses(self.background, self._parts.representative, self._parts.members)
        merged = _merge_stated(instant, classes, self._equality)
        if merged is None:
            return self._close_by_tables(instant)
        rest, stated_reflexive = merged
        for one, other in _single_valued(instant, self._functional, self._inverse):
            classes.merge(one, other)
        while True:
            closure = self._closer.close(dict.fromkeys([*map(classes.triple, rest), *classes.rewritten()]))
            has_merged = _merge_derived(closure.delta.match(None, SAME, None), classes)
            if has_merged is None:
                return self._close_by_tables(instant)
            if not has_merged:
                break
        delta = closure.delta
        are_individuals, names = self._equality.are_individuals, classes.merged_names()
        if not (
            are_individuals(names, self.background) and are_individuals({*names, *self._equal_in(delta)}, delta)
        ) or _has_same_as_schema(delta):
            return self._close_by_tables(instant)
        rewritten = _rewritten(delta, classes)
        contradictions = {_rewritten_contradiction(each, classes) for each in closure.contradictions}
        rewritten.update(dict.fromkeys(classes.rewritten(every_part=True)))
        known = self.background.triples
        reflexive = _derived_reflexive(delta.match(None, SAME, None), classes) | {
            name for name in classes.merged() if any((each, SAME, each) in known for each in classes.members(name))
        }
        reflexive |= set(map(classes.representative, stated_reflexive))
        contradictions |= _eq_diff1([*delta, *rewritten], classes)
        expanded = expanded_index(
            rewritten.keys(), reflexive_names(reflexive, stated_reflexive, self._equality, classes), classes, self.background
        )
        return Closure(self.background, expanded, tuple(sorted(contradictions)))


def _merge_stated(triples: Iterable[Triple], classes: MergedClasses, equality: SameAsRules) -> tuple[list[Triple], set[Term]] | None:
    """Merges the names of stated equalities; returns the other triples, and the names x of `x
    owl:sameAs x`.

    None where a literal is equal to something, or where a reflexive equality is stated and rules
    may derive others.
    """
    rest = []
    reflexive = set()
    for triple in triples:
        if triple[1] != SAME:
            rest.append(triple)
        elif not can_be_subject(triple[2]) or (triple[0] == triple[2] and equality.derives_reflexive):
            return None
        elif triple[0] == triple[2]:
            reflexive.add(triple[0])
        else:
            classes.merge(triple[0], triple[2])
    return rest, reflexive


def _single_valued(triples: Iterable[Triple], functional: Container[Term], inverse: Container[Term]) -> list[tuple[Term, Term]]:
    """Pairs of names that prp-fp and prp-ifp make equal by two stated triples: as many pairs as
    names.

    >>> triples = [("<x>", "<p>", "<a>"), ("<x>", "<p>", "<b>"), ("<x>", "<p>", "<c>")]
    >>> _single_valued(triples, ["<p>"], [])
    [('<a>', '<b>'), ('<a>', '<c>')]
    """
    first: dict[tuple[Term, Term, bool], Term] = {}
    pairs = []
    for s, p, o in triples:
        if not can_be_subject(o):
            continue
        if p in functional and (one := first.setdefault((s, p, True), o)) != o:
            pairs.append((one, o))
        if p in inverse and (one := first.setdefault((o, p, False), s)) != s:
            pairs.append((one, s))
    return pairs


def _merge_derived(derived: Iterable[Triple], classes: MergedClasses) -> bool | None:
    """Merges derived equalities; True for a new one, None where one is of a literal."""
    has_merged = False
    for name, _, other in derived:
        if not can_be_subject(other):
            return None
        has_merged |= classes.merge(name, other)
    return has_merged


def _rewritten(closed: Iterable[Triple], classes: MergedClasses) -> dict[Triple, None]:
    """Triples over representatives, without equalities, in their order."""
    return dict.fromkeys(classes.triple(triple) for triple in closed if triple[1] != SAME)


def _rewritten_contradiction(contradiction: Contradiction, classes: MergedClasses) -> Contradiction:
    return Contradiction(contradiction.rule, tuple(sorted(set(map(classes.triple, contradiction.triples)))))


def _derived_reflexive(equalities: Iterable[Triple], classes: MergedClasses) -> set[Term]:
    """Representatives x with a derived `x owl:sameAs x`, which holds for the whole class."""
    return {classes.representative(one) for one, _, other in equalities if one == other}


def reflexive_names(derived: Iterable[Term], stated: set[Term], equality: SameAsRules, classes: MergedClasses) -> set[Term]:
    """All names x with `x owl:sameAs x`: whole classes where a rule derives it, otherwise the
    stated ones.
    """
    return {each for name in derived for each in classes.members(name)} if equality.derives_reflexive else stated


def _eq_diff1(triples: Iterable[Triple], classes: MergedClasses) -> set[Contradiction]:
    """eq-diff1: different names of one class; one pair of names for each class."""
    contradictions: dict[Term, Contradiction] = {}
    for one, predicate, other in triples:
        if predicate != DIFFERENT:
            continue
        name = classes.representative(one)
        if name == classes.representative(other) and name not in contradictions:
            contradictions[name] = different_names(name, classes)
    return set(contradictions.values())


# Contradictions among equal names, each reported once, under the representative.
#
# Idea: under the rules of the tables, a contradiction about one name is also derived for each equal
# name. With names replaced by their representatives these contradictions are the same one, which
# the closure over representatives finds. Contradictions of the background alone are left out.
# Cost: nothing without contradictions; otherwise the equalities of the instant.


def representative_contradictions(
    found: Iterable[Contradiction], equalities: Iterable[Triple], parts: NameClasses, background: TripleIndex
) -> set[Contradiction]:
    """The contradictions that the closure over representatives finds, given those that the rules of
    the tables find.

    Args:
        found: the contradictions by the tables.
        equalities: the `owl:sameAs` triples of the closure that are not in the background.
        parts: the equal names of the background.
        background: closed; contradictions of its triples alone are left out.

    If a name is equal to a literal, contradictions are not rewritten.

    >>> equal = [("<a>", SAME, "<b>"), ("<b>", SAME, "<a>")]
    >>> found = [Contradiction("prp-irp", ((name, "<p>", name),)) for name in ("<a>", "<b>")]
    >>> representative_contradictions(found, equal, NameClasses(TripleIndex()), TripleIndex())
    {Contradiction(rule='prp-irp', triples=(('<a>', '<p>', '<a>'),))}
    """
    classes = MergedClasses(background, parts.representative, parts.members)
    new = [each for each in found if needs_more_than(background, each.triples)]
    if not all(map(can_be_subject, background.by_object.get(SAME, NO_ENDS))):
        return set(new)
    for one, _, other in equalities:
        if not can_be_subject(other):
            return set(new)
        classes.merge(one, other)
    merged = set(classes.merged())
    reported = set()
    for each in new:
        if each.rule == "eq-diff1":
            differing = different_names(each.triples[0][0], classes)
            if needs_more_than(background, differing.triples) or classes.representative(each.triples[0][0]) in merged:
                reported.add(differing)
            continue
        is_listed = each.rule in LIST_ROWS  # over representatives, two equal members of a list are the same
        premises = [triple for triple in each.triples if not (is_listed and triple[1] == SAME)]
        rewritten = Contradiction(each.rule, tuple(sorted(set(map(classes.triple, premises)))))
        if needs_more_than(background, rewritten.triples):
            reported.add(rewritten)
    return reported


def different_names(name: Term, classes: MergedClasses) -> Contradiction:
    """The eq-diff1 of a class of equal names: its representative, and the least other name; of a
    name alone, that it differs from itself (eq-ref)."""
    one = classes.representative(name)
    other = next((each for each in classes.members(one) if each != one), None)
    return Contradiction("eq-diff1", tuple(sorted([(one, SAME, other), (one, DIFFERENT, other)]) if other else [(one, DIFFERENT, one)]))
