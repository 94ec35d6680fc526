"""Contradictions among equal names, each told once, under the representative (`owl:sameAs`).

Idea: closed by the rows of the tables, a contradiction about one name is one about each name
equal to it. With the representative in each name's place they are one, the one that closing over
representatives finds. A background's own contradiction is not told of again.

Cost: none without contradictions; with some, that of the equalities that an instant brings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dotr.datalog.closure import Contradiction, needs_more_than
from dotr.datalog.same_as.classes import SAME, MergedClasses, NameClasses
from dotr.model.terms import OWL, Term, Triple, can_be_subject, iri
from dotr.store.triples import NO_ENDS, TripleIndex

LIST_ROWS: Final = ("eq-diff2", "eq-diff3")
DIFFERENT: Final = iri(OWL + "differentFrom")


def representative_contradictions(
    found: Iterable[Contradiction], equalities: Iterable[Triple], parts: NameClasses, background: TripleIndex
) -> set[Contradiction]:
    """Contradictions by the tables, as closing over representatives finds them.

    Args:
        found: the contradictions.
        equalities: the `owl:sameAs` triples that the closure has beyond the background.
        parts: the equal names of the background.
        background: closed; contradictions of its triples alone are left out.

    Where a name is equal to a literal, each contradiction stays as it is.

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
    told = set()
    for each in new:
        if each.rule == "eq-diff1":
            differing = different_names(each.triples[0][0], classes)
            if needs_more_than(background, differing.triples) or classes.representative(each.triples[0][0]) in merged:
                told.add(differing)
            continue
        is_listed = each.rule in LIST_ROWS  # over representatives, two members of a list are one
        premises = [triple for triple in each.triples if not (is_listed and triple[1] == SAME)]
        rewritten = Contradiction(each.rule, tuple(sorted(set(map(classes.triple, premises)))))
        is_by_itself = is_listed and any(p == SAME and not classes.has_copies(classes.representative(s)) for s, p, _ in each.triples)
        if is_by_itself or needs_more_than(background, rewritten.triples):
            told.add(rewritten)
    return told


def different_names(name: Term, classes: MergedClasses) -> Contradiction:
    """The eq-diff1 of a class of equal names: its representative, and the least other name."""
    one = classes.representative(name)
    other = next((each for each in classes.members(one) if each != one), one)
    return Contradiction("eq-diff1", tuple(sorted([(one, SAME, other), (one, DIFFERENT, other)])))
