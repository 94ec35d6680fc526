"""Conclusions that rules can draw from graphs of known shapes, by predicate and object.

Idea: the predicate of a triple of a shape is known, and rules are routed by predicates. Beginning
with the shapes, the rules of each route are followed through the background's schema: with `:speed
rdfs:domain :Report` and `:Report rdfs:subClassOf :Thing`, a graph `[] :speed …` leads to the types
`:Report` and `:Thing` alone.
Invariant: every triple that a closure adds to an instant of such graphs is among the conclusions.
There is no result (None) if a rule may find a contradiction, computes terms, joins further triples,
or is dormant until schema triples arrive.
Cost: evaluated once for a program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.closed_instant import InstantCloser
from dotr.instant.datalog.closure.delta_rules import Dispatch, bind_schema
from dotr.instant.datalog.closure.instant import computes_terms
from dotr.model.algebra import Const
from dotr.model.datalog import FilterItem
from dotr.model.templates import GraphShape, ShapedTriple
from dotr.model.terms import Term, Variable


class ShapeConclusions(NamedTuple):
    """Conclusions of rules from an instant of graphs of some shapes.

    - `kinds`: predicates of conclusions, each with the object, or None for any.
    - `derivations`: an upper bound of the number of derivations for a graph.
    """

    kinds: frozenset[ShapedTriple]
    derivations: int

    def has(self, predicate: Term, object: Term | None) -> bool:
        """True if a conclusion may have a predicate and an object (None: any).

        >>> found = ShapeConclusions(frozenset({ShapedTriple("<p>", "<a>"), ShapedTriple("<q>")}), 1)
        >>> found.has("<p>", "<b>"), found.has("<p>", None), found.has("<q>", "<b>")
        (False, True, True)
        """
        if object is None:
            return any(kind.predicate == predicate for kind in self.kinds)
        return ShapedTriple(predicate, object) in self.kinds or ShapedTriple(predicate) in self.kinds


class _Unknown(Exception):
    """A rule whose conclusions cannot be derived from the shapes alone."""


def shape_conclusions(shapes: Collection[GraphShape], closer: InstantCloser) -> ShapeConclusions | None:
    """The conclusions of a closer's rules from graphs of some shapes; None where they depend on
    more than the shapes.

    >>> from dotr.instant.datalog.closure.instant import Closer, RuleDispatch
    >>> from dotr.model.algebra import TriplePattern, Var
    >>> from dotr.model.datalog import DatalogRule
    >>> speed, fast = (TriplePattern(Var("x"), Const(p), Var("y")) for p in ("<speed>", "<has>"))
    >>> closer = Closer(RuleDispatch([DatalogRule("r", (fast,), (speed,))]), TripleIndex())
    >>> shape_conclusions([GraphShape((ShapedTriple("<speed>"),))], closer).kinds
    frozenset({ShapedTriple(predicate='<has>', object=None)})
    """
    found: dict[ShapedTriple, None] = {}
    pending = [each for shape in shapes for each in shape.triples]
    done: set[ShapedTriple] = set()
    derivations = 0
    try:
        while pending:
            kind = pending.pop()
            if kind in done:
                continue
            done.add(kind)
            dispatches = closer.dispatches_of(kind.predicate, kind.object)
            if dispatches is None:
                return None
            for dispatch in dispatches:
                for conclusion in _conclusions(dispatch, kind, closer.background):
                    derivations += 1
                    found[conclusion] = None
                    pending.append(conclusion)
    except _Unknown:
        return None
    terms = 1 + max([len(shape.triples) for shape in shapes], default=0)
    return ShapeConclusions(frozenset(found), derivations * terms * terms)


def _conclusions(dispatch: Dispatch, kind: ShapedTriple, background: TripleIndex) -> Iterator[ShapedTriple]:
    """The kinds of conclusions of one delta rule from triples of a kind."""
    position = dispatch.position
    if position is None or not position.rule.head or computes_terms(position.rule):
        raise _Unknown
    solutions: list[dict[Variable, Term | None]] = [{}]
    rest: Collection[JoinItem] = position.others()
    if dispatch.key is not None:
        bindings = bind_schema(position, dispatch.key, background)
        rest = bindings.rest
        solutions = [{**bindings.terms, **dict(zip(bindings.names, row, strict=True))} for row in bindings.rows]
    if not all(isinstance(item, FilterItem) for item in rest):
        raise _Unknown
    for terms in solutions:
        for head in position.rule.head:
            predicate, value = (slot.term if isinstance(slot, Const) else terms.get(slot.name) for slot in (head.predicate, head.object))
            if predicate is None and head.predicate == position.pattern.predicate:
                predicate = kind.predicate
            if predicate is None:
                raise _Unknown
            if value is None and head.object == position.pattern.object:
                value = kind.object
            yield ShapedTriple(predicate, value)
