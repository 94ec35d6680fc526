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

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.same_as.classes import SAME, ClassMembers, MergedClasses, NameClass
from dotr.model.terms import Term, Triple


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
