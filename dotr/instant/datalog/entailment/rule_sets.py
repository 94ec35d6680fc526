"""Entailment rule sets: `*.dlog` beside this file; each rule has the name of its row in the W3C
tables.

Invariant: without `axiomatic` no rule derives a reflexive triple (`irreflexive.py`), and only rules
of hidden predicates have no premises.
Source: RDF 1.1 Semantics, section 9.2.1; OWL 2 Profiles (second edition), section 4.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from importlib.resources import files
from itertools import chain, combinations
from typing import Final, assert_never

from dotr.evaluation.triples.generalised import LITERAL_TYPE, OF, READ, SAME_VALUE, SHARED_TYPE
from dotr.evaluation.triples.index import HIDDEN
from dotr.model.algebra import Call, Const, Expression, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_NIL, RDF_TYPE, RDFS, Variable, iri

# Rows over literals as subjects, and over equal values, made from the rows of the tables.
#
# Idea: the triple `"5" ?p ?o`, which is no RDF, is kept as `"5" ?q ?o` with `?p hidden:of ?q`, and
# `"5" rdf:type ?c` as `"5" hidden:literalType ?c`. A row is repeated for each choice of the variables
# that are literals; the patterns with such a subject are those of the hidden predicate:
#
#     [?x, rdf:type, ?d] :- [?c, rdfs:subClassOf, ?d], [?x, rdf:type, ?c] .
#     [?x, hidden:literalType, ?d] :- [?c, rdfs:subClassOf, ?d], [?x, hidden:literalType, ?c] .
#
# A literal keeps its term: where another pattern binds it, its type is one of its value,
# `?x hidden:sharedType ?c`, which no row concludes from alone.
#
# A variable that several patterns have as an object is compared by value in a further rule:
#
#     [?x, owl:sameAs, ?y] :- [?p, rdf:type, owl:InverseFunctionalProperty],
#                             [?x, ?p, ?z], [?y, ?p, ?z] .
#     [?x, owl:sameAs, ?y] :- [?p, rdf:type, owl:InverseFunctionalProperty],
#                             [?x, ?p, ?z], [?z, hidden:sameValue, ?w], [?y, ?p, ?w] .
#
# Cost: rules without such triples in background and instant are dormant, and cost nothing.


_READ, _SAME_VALUE, _ALL = Const(READ), Const(SAME_VALUE), Const(f"{HIDDEN}all>")
_TYPE: Final = Const(RDF_TYPE)
_LITERAL_TYPE: Final = Const(LITERAL_TYPE)
_SHARED_TYPE: Final = Const(SHARED_TYPE)
_NOTHING: Final = Const(iri(OWL + "Nothing"))
_SAME: Final = Const(iri(OWL + "sameAs"))
_VALUES: Final = tuple(Const(iri(OWL + name)) for name in ("hasValue", "targetValue"))
_WITHOUT: Final = ("eq-", "list-", "reflexive", "literals", "dt-", "prp-key")
"""Rows that literals as subjects do not take part in."""


def literal_rules(rules: Sequence[DatalogRule]) -> Iterator[DatalogRule]:
    """The further rules of some rows.

    >>> from dotr.syntax.datalog import parse_datalog
    >>> from dotr.model.places import Document
    >>> text = f"[?x, {RDF_TYPE}, ?d] :- [?c, <http://e/sub>, ?d], [?x, {RDF_TYPE}, ?c] ."
    >>> [(rule.head[0].predicate.term, len(rule.body)) for rule in literal_rules(parse_datalog(Document("a.dlog", text), {}))]
    [('<urn:dotr:hidden:literalType>', 2)]
    """
    for rule in rules:
        further = [] if rule.name.startswith(_WITHOUT) else [_over_literals(rule, some) for some in _choices(_subjects(rule))]
        yield from further
        for each in () if rule.name.startswith(_WITHOUT[:-1]) else (rule, *further):
            yield from (_by_value(each, some) for some in _choices(_compared(each)))


def is_of_literals(predicate: Slot) -> bool:
    """True for the predicate of a pattern or head whose subject is a literal."""
    return predicate in (_LITERAL_TYPE, _SHARED_TYPE) or (isinstance(predicate, Var) and predicate.name.startswith("of_"))


def _choices(names: Sequence[Variable]) -> Iterable[tuple[Variable, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(1, len(names) + 1))


def _is_of_individuals(pattern: BodyItem) -> bool:
    """True for a pattern of data: any property, any class, or the class of contradictions."""
    match pattern:
        case TriplePattern(_, Var(), _):
            return True
        case TriplePattern(_, predicate, object):
            return predicate == _ALL or (predicate == _TYPE and (isinstance(object, Var) or object == _NOTHING))
        case _:
            return False


def _subjects(rule: DatalogRule) -> list[Variable]:
    """The variables that may be literals in a pattern or a head of data, as its subject."""
    patterns = [item for item in rule.body if isinstance(item, TriplePattern)]
    data = [*filter(_is_of_individuals, patterns), *(head for head in rule.head if head.predicate == _TYPE)]
    names = {each.subject for each in patterns if not _is_of_individuals(each)} | {each.predicate for each in patterns}
    classes = {each.object for each in patterns if each.predicate == _TYPE}
    found = dict.fromkeys(each.subject for each in data if isinstance(each, TriplePattern) and isinstance(each.subject, Var))
    return [each.name for each in found if each not in names and each not in classes]


def _over_literals(rule: DatalogRule, some: Sequence[Variable]) -> DatalogRule:
    """The rule with some variables as literals."""
    body: list[BodyItem] = []
    schema: dict[BodyItem, None] = {}
    heads: list[TriplePattern] = []
    known = set[Variable]()  # those that a pattern of literals binds
    firm = {slot for item in rule.body for slot in _ends(item)}  # those whose term a pattern of data binds
    firm |= {head.subject for head in rule.head if head.predicate == _ALL}
    chosen: set[Slot] = set(map(Var, some))
    for item in rule.body:
        if isinstance(item, TriplePattern) and _is_of_individuals(item) and item.subject in chosen and item.predicate != _ALL:
            known.update(name for name in some if Var(name) == item.subject)
            if item.predicate == _TYPE:
                item = replace(item, predicate=_SHARED_TYPE if item.subject in firm else _LITERAL_TYPE)
                firm.add(item.subject)
            else:
                assert isinstance(item.predicate, Var)
                of = Var(f"of_{item.predicate.name}")
                schema[TriplePattern(item.predicate, Const(OF), of)] = None
                item = replace(item, predicate=of)
        body.append(item)
    for head in rule.head:
        if head.subject not in chosen or head.predicate == _SAME or head.predicate == _ALL:
            heads.append(head)
        elif head.predicate == _TYPE:
            heads.append(replace(head, predicate=_LITERAL_TYPE))
            if isinstance(head.subject, Var) and head.subject.name not in known:
                schema[TriplePattern(head.object, _READ, Const(RDF_NIL))] = None
        elif isinstance(head.predicate, Var):
            of = Var(f"of_{head.predicate.name}")
            heads += [replace(head, predicate=of), TriplePattern(head.predicate, Const(OF), of)]
            schema[Bind(Call(f"{HIDDEN}property>", (head.predicate,)), of.name)] = None
    tests = [FilterItem(Call("ISLITERAL", (Var(name),))) for name in some if name not in known]
    return replace(rule, head=tuple(heads), body=(*schema, *body, *tests))


def _ends(item: BodyItem) -> tuple[Slot, ...]:
    """The subject and the object of a pattern of a property."""
    return (item.subject, item.object) if isinstance(item, TriplePattern) and isinstance(item.predicate, Var) else ()


def _literals(item: BodyItem) -> Iterator[tuple[str, Variable]]:
    """The places and variables of a pattern of data that may be literals, and are compared as
    such."""
    if isinstance(item, TriplePattern) and (isinstance(item.predicate, Var) or item.predicate in _VALUES):
        if isinstance(item.subject, Var) and isinstance(item.predicate, Var) and is_of_literals(item.predicate):
            yield "subject", item.subject.name
        if isinstance(item.object, Var):
            yield "object", item.object.name


def _compared(rule: DatalogRule) -> list[Variable]:
    """The variables that may be literals in several places of the body."""
    names = [name for item in rule.body for _, name in _literals(item)]
    subjects = {item.subject for item in rule.body if isinstance(item, TriplePattern) and not is_of_literals(item.predicate)}
    return [name for name in dict.fromkeys(names) if names.count(name) > 1 and Var(name) not in subjects]


def _by_value(rule: DatalogRule, some: Sequence[Variable]) -> DatalogRule:
    """The rule with another literal of the same value in the second place of some variables."""
    body: list[BodyItem] = []
    seen = set[Variable]()
    for item in rule.body:
        for place, name in _literals(item):
            assert isinstance(item, TriplePattern)
            if name in some and name in seen:
                other = Var(f"value_{name}")
                body.append(TriplePattern(Var(name), _SAME_VALUE, other))
                item = replace(item, subject=other) if place == "subject" else replace(item, object=other)
            seen.add(name)
        body.append(item)
    return replace(rule, body=tuple(body))


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
