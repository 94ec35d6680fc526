"""Entailment rule sets: `*.dlog` beside this file; each rule has the name of its row in the W3C
tables.

Invariant: without `axiomatic` no rule derives a reflexive triple (`irreflexive.py`), and only rules
of hidden predicates have no premises.
Source: RDF 1.1 Semantics, section 9.2.1; OWL 2 Profiles (second edition), section 4.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Final, assert_never

from dotr.instant.datalog.entailment.literal_rules import is_of_literals, literal_rules
from dotr.model.algebra import Call, Const, Expression, TriplePattern, Var
from dotr.model.datalog import DatalogRule, FilterItem
from dotr.model.places import Document
from dotr.model.terms import OWL, RDFS, iri

_ROW_NAME: Final = re.compile(r"^# ([a-z]+[0-9]*(?:-[a-z0-9]+)*)$", re.MULTILINE)


class Entailment(Enum):
    """The entailment regime of the background and of every instant: none, RDFS or OWL 2 RL
    (docs/entailment.md).

    The value is the word of `Program.load` and of the configuration (`knowledge.entailment`).

    >>> Entailment("rdfs")
    <Entailment.RDFS: 'rdfs'>
    """

    NONE = "none"
    RDFS = "rdfs"
    OWL2RL = "owl2rl"


@cache
def rule_set(entailment: Entailment, *, axiomatic: bool = False) -> tuple[DatalogRule, ...]:
    """The rules of an entailment regime.

    `axiomatic`: adds the axiomatic triples, and keeps reflexive conclusions.
    A row that concludes `false` has an empty head (semantics.md, section 2).
    >>> [rule.name for rule in rule_set(Entailment.RDFS)]
    ['rdfs2', 'rdfs3', 'rdfs5', 'rdfs7', 'rdfs7', 'rdfs9', 'rdfs11']
    """
    match entailment:
        case Entailment.NONE:
            return ()
        case Entailment.RDFS | Entailment.OWL2RL:
            rows = _read(f"{entailment.value}.dlog")
            if entailment is Entailment.OWL2RL:
                rows += tuple(literal_rules(rows))
            return rows + _read(f"{entailment.value}_axioms.dlog") if axiomatic else irreflexive(rows)
        case _:
            assert_never(entailment)


def _read(name: str) -> tuple[DatalogRule, ...]:
    """The rules of a file, each under the last row name above it."""
    from dotr.syntax.datalog import parse_datalog  # not in workers, which are given parsed rules

    document = Document(name, files(__package__).joinpath(name).read_text(encoding="utf-8"))
    rows = [(found.start(), found[1]) for found in _ROW_NAME.finditer(document.text)]
    starts = [start for start, _ in rows]
    return tuple(
        replace(rule, name=rows[bisect_right(starts, rule.span.start) - 1][1], of_rule_set=True)
        for rule in parse_datalog(document, {}, is_of_rule_set=True)
        if rule.span is not None
    )


# Rule transformation: no rule instance concludes a reflexive triple.
#
# A reflexive triple is `x P x` where P is owl:sameAs, rdfs:subClassOf, rdfs:subPropertyOf,
# owl:equivalentClass or owl:equivalentProperty.
#
# Before, and after:
#
#     [?x, owl:sameAs, ?z] :- [?x, owl:sameAs, ?y], [?y, owl:sameAs, ?z] .
#     [?x, owl:sameAs, ?z] :- [?x, owl:sameAs, ?y], [?y, owl:sameAs, ?z],
#                             FILTER(!sameTerm(?x, ?z)) .
#
# Where a schema triple binds the predicate of the conclusion, the rule becomes two: one for the five
# predicates, one for all others. With that schema triple in the background, one of the two is void
# and the other needs no test of an instant's triples:
#
#     [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y] .
#     [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y],
#                     FILTER(?q NOT IN (owl:sameAs, …)) .
#     [?x, ?q, ?y] :- [?p, rdfs:subPropertyOf, ?q], [?x, ?p, ?y],
#                     FILTER(?q IN (owl:sameAs, …)), FILTER(!sameTerm(?x, ?y)) .
#
# Where the conclusion takes its predicate from a premise's predicate (eq-rep-s, eq-rep-o), one rule
# makes the whole test.

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
        case TriplePattern(_, predicate, _) if is_of_literals(predicate):
            return False
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
