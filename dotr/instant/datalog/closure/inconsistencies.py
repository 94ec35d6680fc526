"""Inconsistencies: contradictions with the origin of each premise, without hidden triples."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from dotr.evaluation.triples.generalised import as_told
from dotr.instant.datalog.closure.closed_instant import Closure, Contradiction
from dotr.model.terms import Triple


class PremiseOrigin(Enum):
    """Origin of a premise: the instant, the closed background, or derived from both."""

    INSTANT = "instant"
    BACKGROUND = "background"
    DERIVED = "derived"


class Inconsistency(NamedTuple):
    """A rule with the conclusion `false`, and its premises in the order of matching."""

    rule: str
    premises: tuple[tuple[Triple, PremiseOrigin], ...]

    def __str__(self) -> str:
        """One line with all premises.

        >>> schema = (("<A>", "<d>", "<B>"), PremiseOrigin.BACKGROUND)
        >>> print(Inconsistency("cax-dw", (schema, (("<x>", "<t>", "<A>"), PremiseOrigin.INSTANT))))
        cax-dw: <A> <d> <B> (background), <x> <t> <A> (instant)
        """
        premises = ", ".join(f"{' '.join(triple)} ({origin.value})" for triple, origin in self.premises)
        return f"{self.rule}: {premises or 'a rule without a body'}"


NO_INCONSISTENCIES: Final[tuple[Inconsistency, ...]] = ()


def inconsistencies(closure: Closure, stated: Collection[Triple]) -> tuple[Inconsistency, ...]:
    """Contradictions of a closed instant, in their order.

    `stated`: the triples of the instant.

    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> background = TripleIndex([("<A>", "<disjoint>", "<B>")])
    >>> disjoint = ("<A>", "<disjoint>", "<B>")
    >>> found = Contradiction("dw", (disjoint, ("<x>", "<is>", "<A>"), ("<x>", "<is>", "<B>")))
    >>> closure = Closure(background, TripleIndex(), (found,))
    >>> print(inconsistencies(closure, [("<x>", "<is>", "<A>")])[0])
    dw: <A> <disjoint> <B> (background), <x> <is> <A> (instant), <x> <is> <B> (derived)
    """
    background, stated = closure.background.triples, frozenset(stated)

    def origin(triple: Triple) -> PremiseOrigin:
        return PremiseOrigin.INSTANT if triple in stated else PremiseOrigin.BACKGROUND if triple in background else PremiseOrigin.DERIVED

    return tuple(
        Inconsistency(found.rule, tuple((triple, origin(triple)) for triple in visible_premises(found))) for found in closure.contradictions
    )


def visible_premises(contradiction: Contradiction) -> list[Triple]:
    """Premises of a contradiction without triples of auxiliary relations.

    >>> hidden = ("<c>", "<urn:dotr:hidden:ends>", "<nil>")
    >>> visible_premises(Contradiction("r", (hidden, ("<x>", "<p>", "<x>"))))
    [('<x>', '<p>', '<x>')]
    """
    return [told for triple in contradiction.triples if (told := as_told(triple)) is not None]
