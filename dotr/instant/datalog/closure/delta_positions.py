"""Positions of a rule where a delta triple can match, and the part of the rule that the schema
specialises.

A *position* is a triple pattern of a body. A position is *fixed* where its predicate selects the
matching triples, and *free* where nearly every triple matches: the predicate is a variable, or the
predicate is rdf:type with a variable class. That variable is the *key* of the position.

The *schema* of a free position are the other atoms that contain the key and no variable that the
triple itself binds. In `[?x, rdf:type, ?d] :- [?c, rdfs:subClassOf, ?d], [?x, rdf:type, ?c]` the
subclass atom is the schema of the second position, whose key is ?c. The rule is evaluated partially
over the background's schema triples, once for each key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import HIDDEN, TripleIndex
from dotr.model.algebra import Const, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, FilterItem, GroupAggregate, Not, RelationAtom
from dotr.model.terms import OWL, RDF, RDF_REIFIES, RDF_TYPE, RDFS, Term, Variable, iri
from dotr.model.traverse import free_variables

_VOCABULARIES: Final = (f"<{RDF}", f"<{RDFS}", f"<{OWL}", HIDDEN)
_OF_INDIVIDUALS: Final = (iri(OWL + "sameAs"), iri(OWL + "differentFrom"), RDF_REIFIES)
_MAX_SCHEMA_ENDS: Final = 10_000
"""A predicate with more ends is no schema, unless it belongs to a vocabulary."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaPosition:
    """A triple pattern of a rule's body; `key` is None for a fixed position."""

    rule: DatalogRule
    pattern: TriplePattern
    number: int
    key: Variable | None
    stratum: int = 0

    def others(self) -> list[JoinItem]:
        """The other items of the body."""
        return [item for number, item in enumerate(self.rule.body) if number != self.number]


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch:
    """Entry of a route: a position with its key; or, with `position` None, dormant positions
    (`schema_triggers`) to activate.
    """

    position: DeltaPosition | None
    key: Term | None = None
    schema_triggers: tuple[DeltaPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaSplit:
    """The other items of a body: the schema, and the rest for the instant."""

    schema: tuple[JoinItem, ...]
    rest: tuple[JoinItem, ...]


def delta_positions(rule: DatalogRule, stratum: int = 0) -> list[DeltaPosition]:
    """The positions of a rule, in the order of the body."""
    return [
        DeltaPosition(rule, item, number, _key(item), stratum) for number, item in enumerate(rule.body) if isinstance(item, TriplePattern)
    ]


def _key(pattern: TriplePattern) -> Variable | None:
    predicate, object = pattern.predicate, pattern.object
    if isinstance(predicate, Var):
        return predicate.name
    return object.name if isinstance(object, Var) and predicate.term == RDF_TYPE else None


def split_schema(position: DeltaPosition, background: TripleIndex) -> SchemaSplit:
    """Splits the other items of a free position: atoms reached from the key and their conditions,
    and the rest.
    """
    assert position.key is not None
    reachable = {position.key}
    triple_variables = set(free_variables(position.pattern)) - reachable
    rest = position.others()
    schema: list[JoinItem] = []

    def is_schema(item: JoinItem) -> bool:
        names = set(free_variables(item))
        match item:
            case TriplePattern():
                return not names & triple_variables and bool(names & reachable) and _is_schema_atom(item, names, position.key, background)
            case FilterItem():
                return bool(schema) and names <= reachable
            case Bind():
                return bool(schema) and names <= reachable and item.variable not in triple_variables
            case Not() | GroupAggregate() | TermPattern() | RelationAtom():
                return False

    while found := next((item for item in rest if is_schema(item)), None):
        rest.remove(found)
        schema.append(found)
        reachable.update(free_variables(found))
        if isinstance(found, Bind):
            reachable.add(found.variable)
    return SchemaSplit(tuple(schema), tuple(rest))


def _is_schema_atom(pattern: TriplePattern, variables: set[Variable], key: Variable | None, background: TripleIndex) -> bool:
    if not isinstance(pattern.predicate, Const):
        return False
    predicate = pattern.predicate.term
    if predicate == RDF_TYPE:
        return isinstance(pattern.object, Const) and (key in variables or _is_vocabulary(pattern.object.term))
    if predicate.startswith(_VOCABULARIES) and predicate not in _OF_INDIVIDUALS:
        return True
    return (
        key in variables
        and len(background.by_subject.get(predicate, ())) + len(background.by_object.get(predicate, ())) <= _MAX_SCHEMA_ENDS
    )


def _is_vocabulary(term: Term) -> bool:
    return term.startswith(_VOCABULARIES)
