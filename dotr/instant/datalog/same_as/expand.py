"""Expansion of a closure over representatives to all equal names, with shared lists.

Idea: a triple over representatives holds for all other names of their classes (eq-rep-s, eq-rep-o).
In the index by subject all names of a class share one list of objects, and in the index by object
one list of subjects, so n names with m triples each cost n·m instead of n²·m.

Invariant: the index has exactly the triples of the OWL 2 RL tables, each once, without those of the
background.

Cost: proportional to the rewritten triples and, for classes of several parts, to the pairs of
parts. Iteration costs the number of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias, cast

from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.model import dataclass
from dotr.model.terms import OWL, Term, Triple, iri

# Classes of equal names, and the representative of each class (`owl:sameAs`).
#
# Idea: the `owl:sameAs` triples of a closed background divide its names into sets of equal names, the
# *parts*. An instant may merge several parts into a *class*. The representative of a class is the
# name with the most triples in the background, then the least name.
#
# Cost: proportional to the merged names.


SAME: Final = iri(OWL + "sameAs")

ClassMembers: TypeAlias = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class NameClass:
    """A part: equal names with the same triples in the background.

    `is_known_equal`: the background has the `owl:sameAs` triples between them.
    """

    members: ClassMembers
    is_known_equal: bool = True


class NameClasses:
    """The parts of a background that have several names.

    `representative`: of each name. `members`: all names by the representative.

    >>> parts = NameClasses(TripleIndex([("<a>", SAME, "<b>"), ("<b>", SAME, "<a>")]))
    >>> parts.representative["<b>"], parts.members["<a>"]
    ('<a>', ('<a>', '<b>'))
    """

    def __init__(self, background: TripleIndex) -> None:
        self.representative: dict[Term, Term] = {}
        self.members: dict[Term, ClassMembers] = {}
        ends = background.by_subject.get(SAME, NO_ENDS)
        for name in ends:
            if name not in self.representative:
                members = tuple(sorted({name, *ends[name]}))
                if len(members) > 1:
                    self.members[members[0]] = members
                    self.representative.update(dict.fromkeys(members, members[0]))


class MergedClasses:
    """Classes of the parts that an instant merges (union by size).

    >>> classes = MergedClasses(TripleIndex([("<b>", "<p>", "<o>")]), {}, {})
    >>> classes.merge("<a>", "<b>"), classes.merge("<b>", "<c>"), classes.merge("<c>", "<a>")
    (True, True, False)
    >>> classes.representative("<a>"), [part.members for part in classes.parts("<b>")]
    ('<b>', [('<b>',), ('<a>', '<c>')])
    """

    def __init__(self, background: TripleIndex, first: Mapping[Term, Term], members: Mapping[Term, ClassMembers]) -> None:
        self._background = background
        self._first = first
        self._members = members
        self._class: dict[Term, list[Term]] = {}
        self._representative: dict[Term, Term] = {}
        self._weights: dict[Term, int] = {}

    def merge(self, one: Term, other: Term) -> bool:
        """Merges the classes of two names; False for names that are equal already."""
        a, b = self._first.get(one, one), self._first.get(other, other)
        if a == b:
            return False
        mine, others = self._class.setdefault(a, [a]), self._class.setdefault(b, [b])
        if mine is others:
            return False
        if len(mine) < len(others):
            mine, others = others, mine
        mine += others
        for part in others:
            self._class[part] = mine
        self._representative.clear()
        return True

    def representative(self, term: Term) -> Term:
        """The representative of a term; a term without equal names represents itself."""
        first = self._first.get(term, term)
        if first not in self._class:
            return first
        if first not in self._representative:
            parts = self._class[first]
            chosen = min(parts, key=lambda part: (-self._weight(part), part))
            for part in parts:
                self._representative[part] = chosen
        return self._representative[first]

    def triple(self, triple: Triple) -> Triple:
        """A triple with the representatives of its subject and object."""
        return self.representative(triple[0]), triple[1], self.representative(triple[2])

    def has_copies(self, name: Term) -> bool:
        """True for a representative with more than one name."""
        return name in self._class or name in self._members

    def merged(self) -> Iterator[Term]:
        """The representative of each merged class."""
        return iter(dict.fromkeys(map(self.representative, self._class)))

    def parts(self, name: Term) -> list[NameClass]:
        """The parts of a representative; names without triples in the background form one part."""
        parts, unknown = [], []
        for part in self._class.get(name, (name,)):
            members = self._members.get(part)
            if members is not None:
                parts.append(NameClass(members))
            elif self._weight(part):
                parts.append(NameClass((part,)))
            else:
                unknown.append(part)
        if unknown:
            parts.append(NameClass(tuple(sorted(unknown)), is_known_equal=False))
        return parts

    def merged_names(self) -> list[Term]:
        """The names of all merged classes."""
        return [each for name in self.merged() for each in self.members(name)]

    def members(self, name: Term) -> list[Term]:
        """All names of a representative, sorted."""
        return sorted(member for part in self.parts(name) for member in part.members)

    def rewritten(self, *, every_part: bool = False) -> Iterable[Triple]:
        """Background triples of merged names, rewritten to representatives.

        `every_part`: includes the triples of the representatives themselves.
        """
        triples: dict[Triple, None] = {}
        for part, name in [(part, self.representative(part)) for part in self._class]:
            if every_part or part != name:
                triples.update(dict.fromkeys(map(self.triple, self._triples_of(part))))
        return triples

    def _weight(self, part: Term) -> int:
        weight = self._weights.get(part)
        if weight is None:
            tables = (self._background.by_subject, self._background.by_object)
            weight = sum(len(table[p].get(part, NO_TERMS)) for table in tables for p in table if p != SAME)
            self._weights[part] = weight
        return weight

    def _triples_of(self, part: Term) -> Iterator[Triple]:
        """The background triples of a name, by predicate: access by end may not be built."""
        if self._weight(part):
            for p, ends in self._background.by_subject.items():
                if p != SAME:
                    yield from ((part, p, o) for o in ends.get(part, NO_TERMS))
            for p, ends in self._background.by_object.items():
                if p != SAME:
                    yield from ((s, p, part) for s in ends.get(part, NO_TERMS))


class ExpandedTriples(AbstractSet[Triple]):
    """Membership in an expanded index: rewritten triples and their copies, without the
    background's.

    `reflexive`: the names x with the triple `x owl:sameAs x`.
    """

    def __init__(
        self,
        rewritten: AbstractSet[Triple],
        reflexive: AbstractSet[Term],
        representative: Callable[[Term], Term],
        background: TripleIndex,
        index: TripleIndex,
    ) -> None:
        self._rewritten = rewritten
        self._reflexive = reflexive
        self._representative = representative
        self._background = background
        self._index = index
        self._count = sum(len(ends) for table in index.by_subject.values() for ends in table.values())

    def __contains__(self, triple: object) -> bool:
        if triple in self._rewritten:
            return triple not in self._background.triples
        s, p, o = cast(Triple, triple)
        subject, object = self._representative(s), self._representative(o)
        if p == SAME:
            return subject == object and (s != o or s in self._reflexive) and triple not in self._background.triples
        if subject == s and object == o:
            return False
        return (subject, p, object) in self._rewritten and triple not in self._background.triples

    def __iter__(self) -> Iterator[Triple]:
        return iter(self._index)

    def __len__(self) -> int:
        return self._count


def expanded_index(
    rewritten: AbstractSet[Triple], reflexive: AbstractSet[Term], classes: MergedClasses, background: TripleIndex
) -> TripleIndex:
    """Index of the copies of rewritten triples, of which none is of `owl:sameAs`.

    `reflexive`: the names x that get the triple `x owl:sameAs x`.
    >>> classes = MergedClasses(TripleIndex(), {}, {})
    >>> _ = classes.merge("<a>", "<b>")
    >>> index = expanded_index({("<a>", "<p>", "<o>")}, set(), classes, TripleIndex())
    >>> sorted(index), ("<b>", "<p>", "<o>") in index, len(index)  # doctest: +NORMALIZE_WHITESPACE
    ([('<a>', '<http://www.w3.org/2002/07/owl#sameAs>', '<b>'), ('<a>', '<p>', '<o>'),
      ('<b>', '<http://www.w3.org/2002/07/owl#sameAs>', '<a>'), ('<b>', '<p>', '<o>')], True, 4)
    """
    index = TripleIndex()
    known = background.triples
    parts: dict[Term, list[NameClass]] = {}
    shared_subjects: dict[tuple[Term, ClassMembers], None] = {}
    shared_objects: dict[tuple[Term, ClassMembers], None] = {}
    for s, p, o in rewritten:
        several = [classes.has_copies(s), classes.has_copies(o)]
        by_subject, by_object = index.by_subject.setdefault(p, {}), index.by_object.setdefault(p, {})
        if several == [False, False]:
            by_subject.setdefault(s, []).append(o)
            by_object.setdefault(o, []).append(s)
            continue
        for name in (s, o):
            if name not in parts:
                parts[name] = classes.parts(name)
        for subjects in parts[s]:
            for objects in parts[o]:
                first, second = subjects.members[0], objects.members[0]
                if (first, p, second) not in known:
                    by_subject.setdefault(first, []).extend(objects.members)
                    by_object.setdefault(second, []).extend(subjects.members)
                    shared_subjects[p, subjects.members] = None
                    shared_objects[p, objects.members] = None
    for table, shared in ((index.by_subject, shared_subjects), (index.by_object, shared_objects)):
        for p, members in shared:
            ends = table[p]
            list_of_all = ends[members[0]]
            for member in members[1:]:
                ends[member] = list_of_all
    _add_equalities(index, reflexive, classes, background)
    for p in [p for p, ends in index.by_subject.items() if not ends]:
        del index.by_subject[p], index.by_object[p]
    index.triples = cast("set[Triple]", ExpandedTriples(rewritten, reflexive, classes.representative, background, index))
    return index


def _add_equalities(index: TripleIndex, reflexive: AbstractSet[Term], classes: MergedClasses, background: TripleIndex) -> None:
    """Adds the `owl:sameAs` triples of merged classes that the background does not hold."""
    ends = index.by_subject.setdefault(SAME, {})
    index.by_object[SAME] = ends
    for name in classes.merged():
        parts = classes.parts(name)
        for part in parts:
            others = [member for other in parts if other is not part for member in other.members]
            for n, member in enumerate(part.members):
                own = others if part.is_known_equal else [*others, *part.members[:n], *part.members[n + 1 :]]
                if own:
                    ends[member] = own
    for name in sorted(reflexive):
        if (name, SAME, name) not in background.triples:
            ends[name] = [*ends.get(name, ()), name]


class TriplesByPredicate(Mapping[Term, Sequence[Triple]]):
    """The triples of an index by predicate, listed at each access.

    >>> TriplesByPredicate(TripleIndex([("<s>", "<p>", "<o>")]))["<p>"]
    [('<s>', '<p>', '<o>')]
    """

    def __init__(self, index: TripleIndex) -> None:
        self._index = index

    def __getitem__(self, predicate: Term) -> Sequence[Triple]:
        if predicate not in self._index.by_subject:
            raise KeyError(predicate)
        return list(self._index.match(None, predicate, None))

    def __iter__(self) -> Iterator[Term]:
        return iter(self._index.by_subject)

    def __len__(self) -> int:
        return len(self._index.by_subject)
