"""Which names stand for one individual, and which of them stands for all.

Idea: a background that holds all copies says by its `owl:sameAs` which names are equal; these are its *parts*. An instant may join several
to a *class*. One name, the one that the background says most about (then the least), stands for the class while it is closed.
Cost: proportional to the names joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.model.terms import OWL, Term, Triple, iri
from dotr.store.triples import NO_ENDS, NO_TERMS, TripleIndex

SAME: Final = iri(OWL + "sameAs")

ClassMembers: TypeAlias = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class NameClass:
    """Equal names of which the background says the same. `joined`: it says too that they are equal."""

    members: ClassMembers
    is_known_equal: bool = True


class NameClasses:
    """The names that a background has for one individual each; only individuals with several names.

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
    """Parts of a background, joined at an instant.

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
        """Says that two names are equal; whether that is news."""
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
        """The name that stands for the term's class."""
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
        """A triple with the names that stand for its ends."""
        return self.representative(triple[0]), triple[1], self.representative(triple[2])

    def has_copies(self, name: Term) -> bool:
        """Whether a name that stands for its class stands for others too."""
        return name in self._class or name in self._members

    def merged(self) -> Iterator[Term]:
        """The name of each class that was joined here."""
        return iter(dict.fromkeys(map(self.representative, self._class)))

    def parts(self, name: Term) -> list[NameClass]:
        """The parts of the class that a name stands for; those of which the background says nothing are put together."""
        found, fresh = [], []
        for part in self._class.get(name, (name,)):
            members = self._members.get(part)
            if members is not None:
                found.append(NameClass(members))
            elif self._weight(part):
                found.append(NameClass((part,)))
            else:
                fresh.append(part)
        if fresh:
            found.append(NameClass(tuple(sorted(fresh)), is_known_equal=False))
        return found

    def merged_names(self) -> list[Term]:
        """The names of all classes that were joined here."""
        return [each for name in self.merged() for each in self.members(name)]

    def members(self, name: Term) -> list[Term]:
        """All the names of a class, sorted."""
        return sorted(member for part in self.parts(name) for member in part.members)

    def rewritten(self, *, every_part: bool = False) -> Iterable[Triple]:
        """What the background says of parts that another name stands for now, said of that name; or of all parts that were joined."""
        found: dict[Triple, None] = {}
        for part, name in [(part, self.representative(part)) for part in self._class]:
            if every_part or part != name:
                found.update(dict.fromkeys(map(self.triple, self._triples_of(part))))
        return found

    def _weight(self, part: Term) -> int:
        weight = self._weights.get(part)
        if weight is None:
            tables = (self._background.by_subject, self._background.by_object)
            weight = sum(len(table[p].get(part, NO_TERMS)) for table in tables for p in table if p != SAME)
            self._weights[part] = weight
        return weight

    def _triples_of(self, part: Term) -> Iterator[Triple]:
        """The background's triples with this end, found by predicate: an access by end may not have been built."""
        if self._weight(part):
            for p, ends in self._background.by_subject.items():
                if p != SAME:
                    yield from ((part, p, o) for o in ends.get(part, NO_TERMS))
            for p, ends in self._background.by_object.items():
                if p != SAME:
                    yield from ((s, p, part) for s in ends.get(part, NO_TERMS))
