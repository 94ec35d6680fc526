"""Rule transformation: no rule instance concludes a reflexive triple.

A reflexive triple is `x P x` where P is owl:sameAs, rdfs:subClassOf, rdfs:subPropertyOf,
owl:equivalentClass or owl:equivalentProperty.

Before, and after:

    [?x, owl:sameAs, ?z] :- [?x, owl:sameAs, ?y], [?y, owl:sameAs, ?z] .
    [?x, owl:sameAs, ?z] :- [?x, owl:sameAs, ?y], [?y, owl:sameAs, ?z],
                            FILTER(!sameTerm(?x, ?z)) .

Where a schema triple binds the predicate of the conclusion, the rule becomes two: one for the five
predicates, one for all others. With that schema triple in the background, one of the two is void
and the other needs no test of an instant's triples:

    [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y] .
    [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y],
                    FILTER(?q NOT IN (owl:sameAs, …)) .
    [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y],
                    FILTER(?q IN (owl:sameAs, …)), FILTER(!sameTerm(?x, ?y)) .

Where the conclusion takes its predicate from a premise's predicate (eq-rep-s, eq-rep-o), one rule
makes the whole test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dotr.model.algebra import Call, Const, Expression, TriplePattern, Var
from dotr.model.datalog import DatalogRule, FilterItem
from dotr.model.terms import OWL, RDFS, iri

REFLEXIVE: Final = (
    iri(OWL + "sameAs"),
    iri(RDFS + "subClassOf"),
    iri(RDFS + "subPropertyOf"),
    iri(OWL + "equivalentClass"),
    iri(OWL + "equivalentProperty"),
)


def irreflexive(rules: tuple[DatalogRule, ...]) -> tuple[DatalogRule, ...]:
    """The rules with filters that exclude reflexive conclusions."""
    return tuple(result for rule in rules for result in _guarded(rule))


def _guarded(rule: DatalogRule) -> Iterator[DatalogRule]:
    plain = tuple(head for head in rule.head if not _may_be_reflexive(head, rule))
    if plain or not rule.head:
        yield replace(rule, head=plain)
    for head in rule.head:
        if head in plain or head.subject == head.object:
            continue
        different = _call("!", _call("SAMETERM", head.subject, head.object))
        listed, unlisted = (_call(name, head.predicate, *map(Const, REFLEXIVE)) for name in ("IN", "NOT IN"))
        tests: list[tuple[Expression, ...]]
        if isinstance(head.predicate, Const):
            tests = [(different,)]
        elif _is_bound_as_node(head.predicate, rule):
            tests = [(unlisted,), (listed, different)]
        else:
            tests = [(_call("||", different, unlisted),)]
        for conditions in tests:
            yield replace(rule, head=(head,), body=rule.body + tuple(map(FilterItem, conditions)))


def _may_be_reflexive(head: TriplePattern, rule: DatalogRule) -> bool:
    match head:
        case TriplePattern(Const(subject), _, Const(object_)) if subject != object_:
            return False
        case TriplePattern(subject, predicate, object_) if TriplePattern(object_, predicate, subject) in rule.body:
            # A reflexive conclusion equals the premise.
            return subject == object_
        case TriplePattern(_, Const(predicate), _):
            return predicate in REFLEXIVE
        case _:
            return True


def _is_bound_as_node(variable: Var, rule: DatalogRule) -> bool:
    return any(isinstance(item, TriplePattern) and variable in (item.subject, item.object) for item in rule.body)


def _call(function: str, *arguments: Expression) -> Call:
    return Call(function, arguments)
