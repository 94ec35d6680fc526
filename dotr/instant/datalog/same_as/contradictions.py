"""Contradictions among equal names, each reported once, under the representative (`owl:sameAs`).

Idea: under the rules of the tables, a contradiction about one name is also derived for each equal
name. With names replaced by their representatives these contradictions are the same one, which the
closure over representatives finds. Contradictions of the background alone are left out.

Cost: nothing without contradictions; otherwise the equalities of the instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dotr.evaluation.triples.index import NO_ENDS, TripleIndex
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.closure.instant import needs_more_than
from dotr.instant.datalog.same_as.classes import SAME, MergedClasses, NameClasses
from dotr.model.terms import OWL, Term, Triple, can_be_subject, iri

LIST_ROWS: Final = ("eq-diff2", "eq-diff3")
DIFFERENT: Final = iri(OWL + "differentFrom")


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
