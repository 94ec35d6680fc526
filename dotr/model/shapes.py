"""Shapes of graphs: predicates and classes, in order, common to all elements of a mapped input."""

from __future__ import annotations

from typing import NamedTuple

from dotr.model.terms import Term


class ShapedTriple(NamedTuple):
    """A triple of a shape.

    - `object`: the same in all graphs of the shape; None: any term.
    """

    predicate: Term
    object: Term | None = None


class GraphShape(NamedTuple):
    """Common shape of graphs: `_:0` is the subject of all triples, whose predicates are these.

    Each predicate occurs once, in this order.

    >>> from dotr.model.terms import RDF_TYPE
    >>> GraphShape((ShapedTriple(RDF_TYPE, "<http://e/Reading>"), ShapedTriple("<http://e/value>"))).position("<http://e/value>")
    1
    """

    triples: tuple[ShapedTriple, ...]

    def position(self, predicate: Term) -> int | None:
        """The number of the triple with a predicate, counted from 0; None without one."""
        return next((number for number, each in enumerate(self.triples) if each.predicate == predicate), None)
