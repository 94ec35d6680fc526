"""Classes of equal names, and the representative of each class (`owl:sameAs`).

Idea: the `owl:sameAs` triples of a closed background divide its names into sets of equal names, the
*parts*. An instant may merge several parts into a *class*. The representative of a class is the
name with the most triples in the background, then the least name.

Cost: proportional to the merged names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.model.terms import OWL, Term, Triple, iri

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
