"""Background and delta of an instant as one graph, without copying either.

Invariant: the two share no triple (a restated background triple is not in the delta), so that their
union is their concatenation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from dotr.evaluation.limits import NO_LIMITS, Limits
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.model.terms import Term, Triple


class Graph:
    """K(t): the closed background and the closed delta of an instant.

    `removed`: the triples that `background` masks, if it is a view. `budget`: the number of triples
    and solutions that a query may still visit, counted down. `max_rows`: the number of solutions
    that an operator may return.
    """

    __slots__ = ("background", "budget", "delta", "indexes", "limits", "max_rows", "removed")

    def __init__(self, background: TripleIndex, delta: TripleIndex, removed: TripleIndex | None = None, limits: Limits = NO_LIMITS) -> None:
        self.removed = removed
        self.limits = limits
        self.budget, self.max_rows = limits.probes, limits.rows
        self.background = background
        self.delta = delta
        self.indexes = (background, delta)

    def match(self, subject: Term | None, predicate: Term | None, object: Term | None) -> Iterator[Triple]:
        """The triples that match; None matches any term. The background comes first."""
        return chain(self.background.match(subject, predicate, object), self.delta.match(subject, predicate, object))

    def spend(self, work: int) -> None:
        """Subtracts visited triples and solutions from the budget. Raises `LimitExceeded` below
        0."""
        self.budget -= work
        if self.budget < 0:
            self.limits.check_probes(self.limits.probes - self.budget)

    def objects(self, subject: Term, predicate: Term) -> Iterable[Term]:
        """The objects of a subject and a predicate, each once. Raises `LimitExceeded`."""
        known = self.background.by_subject.get(predicate, NO_ENDS).get(subject, NO_TERMS)
        added = self.delta.by_subject.get(predicate, NO_ENDS).get(subject, NO_TERMS)
        self.spend(1 + len(known) + len(added))
        return known + added if known and added else known or added

    def nodes(self) -> Iterator[Term]:
        """The subjects and objects of all triples, each once."""
        seen: set[Term] = set()
        for part in self.indexes:
            for predicate in part.predicates():
                for term in chain(part.by_subject[predicate], part.by_object[predicate]):
                    if term not in seen:
                        seen.add(term)
                        yield term

    def predicates(self) -> Iterator[Term]:
        """The predicates of all triples, each once."""
        yield from self.background.predicates()
        yield from (predicate for predicate in self.delta.predicates() if predicate not in self.background.by_subject)

    def size(self, subject: Term | None, predicate: Term | None, object: Term | None) -> float:
        """The estimated number of matching triples; exact for a predicate with one end."""
        total = 0.0
        for part in self.indexes:
            if predicate is None:
                total += sum(_size(part, subject, each, object) for each in part.predicates())
            else:
                total += _size(part, subject, predicate, object)
        return total

    def fanouts(self, predicate: Term | None) -> tuple[float, float, float]:
        """The estimated number of triples of a predicate, and their mean numbers per subject and
        per object.
        """
        if predicate is None:
            sizes = [self.fanouts(each) for each in self.predicates()]
            return sum(s[0] for s in sizes), sum(s[1] for s in sizes), sum(s[2] for s in sizes)
        subjects = sum(len(part.by_subject.get(predicate, ())) for part in self.indexes)
        objects = sum(len(part.by_object.get(predicate, ())) for part in self.indexes)
        count = float(max(subjects, objects))
        return count, count / max(1, subjects), count / max(1, objects)


def _size(part: TripleIndex, subject: Term | None, predicate: Term, object: Term | None) -> float:
    if subject is not None:
        objects = part.by_subject.get(predicate, {}).get(subject, ())
        return len(objects) if object is None else float((subject, predicate, object) in part)
    subjects = part.by_object.get(predicate, {})
    return float(max(len(subjects), len(part.by_subject.get(predicate, ())))) if object is None else len(subjects.get(object, ()))
