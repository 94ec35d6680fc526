"""Triples whose subject is a literal, which only the rows of a rule set see.

`"5" <p> <o>` is kept as `"5" <urn:dotr:hidden:of/p> <o>`, beside `<p> hidden:of` with that
predicate as its object, and `"5" rdf:type <c>` as `"5" hidden:literalType <c>`: the predicate is
hidden, so that no query meets it.
"""

from __future__ import annotations

from typing import Final

from dotr.evaluation.triples.index import HIDDEN
from dotr.model.terms import RDF_TYPE, Term, Triple

LITERAL_TYPE: Final = f"{HIDDEN}literalType>"
SHARED_TYPE: Final = f"{HIDDEN}sharedType>"
"""Of a literal, the types of all literals of its value."""
OF: Final = f"{HIDDEN}of>"
READ: Final = f"{HIDDEN}read>"
SAME_VALUE: Final = f"{HIDDEN}sameValue>"
OF_LITERALS: Final = frozenset(
    (LITERAL_TYPE, SHARED_TYPE, OF, READ, SAME_VALUE, *(f"{HIDDEN}{name}>" for name in ("compared", "typed", "typedAll")))
)
"""The auxiliary relations about literals."""
_PREFIX: Final = f"{HIDDEN}of/"


def property_of_literals(predicate: Term) -> Term:
    """The hidden predicate of the triples of a property whose subjects are literals.

    >>> property_of_literals("<http://e/p>"), property_of_literals("_:b")
    ('<urn:dotr:hidden:of/http://e/p>', '<urn:dotr:hidden:of/_:b>')
    """
    return f"{_PREFIX}{predicate[1:-1] if predicate[0] == '<' else predicate}>"


def as_told(triple: Triple) -> Triple | None:
    """The triple that an explanation names; None for one of an auxiliary relation.

    >>> as_told(('"5"', "<urn:dotr:hidden:of/http://e/p>", "<o>")), as_told(("<l>", "<urn:dotr:hidden:cell>", "<c>"))
    (('"5"', '<http://e/p>', '<o>'), None)
    """
    subject, predicate, object = triple
    if not predicate.startswith(HIDDEN):
        return triple
    if predicate == LITERAL_TYPE:
        return subject, RDF_TYPE, object
    if not predicate.startswith(_PREFIX):
        return None
    name = predicate[len(_PREFIX) : -1]
    return subject, name if name[0] == "_" else f"<{name}>", object
