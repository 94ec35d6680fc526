"""Delta rules: generated functions, one for each rule and position, that derive the conclusions of
a rule from a delta triple.

    delta_rule(s, p, o, delta, push, active, alarms)
    delta_rule(triples, delta, push, active, alarms)      # `bulk`: loops over the triples

A delta rule joins the triple with the background, which is fixed at compilation, and with `delta`,
which contains the triple already. Conclusions are passed to `push`, known ones, too; contradictions
are appended to `alarms` as (rule, triples). `active` is the list of general delta rules
(`dotr.instant.datalog.closure.instant`).

The rule of `routed_delta_rule`'s example, `[?a, <in>, ?b] :- [?a, <at>, ?c], [?c, <in>, ?b]`, from
its first atom:

    def delta_rule(s, p, o, delta, push, active, alarms):
        d1 = delta.by_subject.get(k1)
        for v_b in (
            b2.get(o, NO_TERMS) if d1 is None else b2.get(o, NO_TERMS) + d1.get(o, NO_TERMS)
        ):
            push((s, k1, v_b))

A delta rule for a key contains the schema: one row becomes constants, several rows become a loop.

Cost: about 30 µs to generate; rules of one shape share the compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from dotr.evaluation.joins.compile import Row, compile_join
from dotr.evaluation.joins.order import JoinItem, Side, ordered
from dotr.evaluation.triples.index import HIDDEN, UNSEEN, TripleIndex
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Push, RuleWriter, may_be_false
from dotr.model import dataclass
from dotr.model.algebra import Const, PathPattern, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, FilterItem, GroupAggregate, Not, RelationAtom
from dotr.model.terms import OWL, RDF, RDF_REIFIES, RDF_TYPE, RDFS, Term, Variable, iri, is_iri
from dotr.model.traverse import free_variables

DeltaRule: TypeAlias = Callable[[Term, Term, Term, TripleIndex, Push, "list[DeltaRule]", "list[ConstraintViolation]"], None]
SubjectConclusions: TypeAlias = frozenset[tuple[Term, Term]]
"""(predicate, object) pairs concluded of a subject."""

NO_CONCLUSIONS: Final[SubjectConclusions] = frozenset()

_ARGUMENTS = ("s", "p", "o", "delta", "push", "active", "alarms")
_BULK_ARGUMENTS = ("triples", "delta", "push", "active", "alarms")


def schema_rows(schema: Sequence[JoinItem], bound: dict[Variable, Term], projection: Sequence[Variable], index: TripleIndex) -> list[Row]:
    """The distinct rows of `projection` that the background has for a schema.

    `bound`: terms of variables that are bound before.
    """
    join = compile_join(schema, list(bound), Side.BACKGROUND, projection, index=index, hidden=True)
    return list(dict.fromkeys(join(index, index, *bound.values())))


def general_delta_rule(position: DeltaPosition, index: TripleIndex, *, bulk: bool = False) -> DeltaRule:
    """Delta rule for any triple; the generated code checks the whole pattern."""
    writer = _matching_writer(position, index, routed=False, bulk=bulk)
    return _finish(writer, position.rule, position.others())


def routed_delta_rule(position: DeltaPosition, index: TripleIndex, *, bulk: bool = False) -> DeltaRule:
    """Delta rule for triples with the pattern's constant predicate and object.

    >>> at = TriplePattern(Var("a"), Const("<at>"), Var("c"))
    >>> inside = TriplePattern(Var("c"), Const("<in>"), Var("b"))
    >>> rule = DatalogRule("r", (TriplePattern(Var("a"), Const("<in>"), Var("b")),), (at, inside))
    >>> index = TripleIndex([("<c>", "<in>", "<b>")])
    >>> found: list[Triple] = []
    >>> delta_rule = routed_delta_rule(DeltaPosition(rule, at, 0, None), index)
    >>> delta_rule("<a>", "<at>", "<c>", TripleIndex(), found.append, [], [])
    >>> from inspect import getsource
    >>> print(getsource(delta_rule))
        def delta_rule(s, p, o, delta, push, active, alarms):
            d1 = delta.by_subject.get(k1)
            for v_b in (b2.get(o, NO_TERMS) if d1 is None else b2.get(o, NO_TERMS) + d1.get(o, NO_TERMS)):
                push((s, k1, v_b))
    <BLANKLINE>
    >>> found
    [('<a>', '<in>', '<b>')]
    """
    writer = _matching_writer(position, index, routed=True, bulk=bulk)
    return _finish(writer, position.rule, position.others())


@dataclass(frozen=True, slots=True)
class SchemaBindings:
    """The schema of one key.

    `terms`: the binding of the key. `names`: the variables that the rest of the rule needs. `rows`:
    their bindings in the background. `rest`: the remaining items of the body.
    """

    terms: Mapping[Variable, Term]
    names: tuple[Variable, ...]
    rows: tuple[Row, ...]
    rest: tuple[JoinItem, ...]


def bind_schema(position: DeltaPosition, key: Term, index: TripleIndex) -> SchemaBindings:
    """Evaluates the schema of a free position for one key."""
    assert position.key is not None
    parts = split_schema(position, index)
    heads = [name for head in position.rule.head for name in free_variables(head)]
    read = position.rule.body if may_be_false(position.rule) else parts.rest  # premises of a contradiction are told whole
    later = [name for item in read for name in _variables_of(item)]
    found = {name for item in parts.schema for name in _variables_of(item)} - {position.key}
    needed = tuple(name for name in dict.fromkeys([*heads, *later]) if name in found)
    bound = {position.key: key}
    return SchemaBindings(bound, needed, tuple(schema_rows(parts.schema, bound, needed, index)), parts.rest)


def keyed_delta_rule(position: DeltaPosition, bindings: SchemaBindings, index: TripleIndex, *, bulk: bool = False) -> DeltaRule:
    """Delta rule for triples whose predicate (or class) is the key, with the background's schema
    built in.

    `[?x, a, ?d] :- [?x, a, ?c], [?c, <sub>, ?d]` for the class `<A>`, with two superclasses in the
    background (the rows `r2`):

        def delta_rule(s, p, o, delta, push, active, alarms):
            for v_d, in r2:
                push((s, k1, v_d))
    """
    writer = _writer(position, index, bulk)
    for name, term in bindings.terms.items():
        writer.bind_constant(name, term)
    _match(writer, position.pattern, routed=True)
    if len(bindings.rows) == 1:
        for name, known in zip(bindings.names, bindings.rows[0], strict=True):
            assert known is not None
            writer.bind_constant(name, known)
        return _finish(writer, position.rule, bindings.rest)
    rest = _test_early(writer, bindings.rest, index)
    writer.write_rows(bindings.names, bindings.rows, rest, lambda: writer.conclude(position.rule))
    return _compiled(writer)


def subject_conclusions(position: DeltaPosition, bindings: SchemaBindings) -> tuple[SubjectConclusions, bool]:
    """The constant conclusions of a keyed delta rule about one end of every triple, and whether
    that end is the subject; none where a conclusion is not constant.

    >>> from dotr.model.terms import RDF_TYPE
    >>> of = TriplePattern(Var("x"), Const(RDF_TYPE), Var("c"))
    >>> sub = TriplePattern(Var("c"), Const("<sub>"), Var("d"))
    >>> rule = DatalogRule("r", (TriplePattern(Var("x"), Const(RDF_TYPE), Var("d")),), (of, sub))
    >>> position = DeltaPosition(rule, of, 0, "c")
    >>> index = TripleIndex([("<A>", "<sub>", "<B>"), ("<A>", "<sub>", "<C>")])
    >>> conclusions, of_subject = subject_conclusions(position, bind_schema(position, "<A>", index))
    >>> sorted(object for _, object in conclusions), of_subject
    (['<B>', '<C>'], True)
    """
    subjects = {head.subject for head in position.rule.head}
    subject = subjects.pop() if len(subjects) == 1 and not bindings.rest else None
    if (
        subject == Var(position.key or "")
        or subject not in (position.pattern.subject, position.pattern.object)
        or isinstance(subject, Const)
    ):
        return NO_CONCLUSIONS, False
    conclusions = set[tuple[Term, Term]]()
    for row in bindings.rows:
        terms = {**bindings.terms, **dict(zip(bindings.names, row, strict=True))}
        for head in position.rule.head:
            predicate, object = (slot.term if isinstance(slot, Const) else terms.get(slot.name) for slot in (head.predicate, head.object))
            if predicate is None or object is None or not is_iri(predicate):
                return NO_CONCLUSIONS, False
            conclusions.add((predicate, object))
    return frozenset(conclusions), subject == position.pattern.subject


def _variables_of(item: JoinItem | object) -> tuple[Variable, ...]:
    if isinstance(item, Bind):
        return (*free_variables(item), item.variable)
    if isinstance(item, GroupAggregate):
        return (*item.keys, *(name for name, _ in item.results))
    return free_variables(item) if isinstance(item, JoinItem) else ()


def _test_early(writer: RuleWriter, items: Sequence[JoinItem], index: TripleIndex) -> tuple[JoinItem, ...]:
    """Emits the conditions that need the triple alone; returns the other items."""
    early = [i for i in items if not isinstance(i, TriplePattern | Bind | GroupAggregate) and writer.names.keys() >= set(free_variables(i))]
    writer.write_steps(ordered(early, writer.names, [], index))
    return tuple(item for item in items if item not in early)


def _writer(position: DeltaPosition, index: TripleIndex, bulk: bool) -> RuleWriter:
    writer = RuleWriter("delta_rule", position.rule, position.stratum, index=index)
    writer.in_bulk = bulk
    writer.begin(_BULK_ARGUMENTS if bulk else _ARGUMENTS)
    if bulk:
        writer.loop("s, p, o", "triples")
    return writer


def _matching_writer(position: DeltaPosition, index: TripleIndex, *, routed: bool, bulk: bool) -> RuleWriter:
    writer = _writer(position, index, bulk)
    _match(writer, position.pattern, routed=routed)
    return writer


def _match(writer: RuleWriter, pattern: TriplePattern, *, routed: bool) -> None:
    """Binds the pattern's variables to the triple, and compares the other slots.

    `routed`: routing has already compared a constant predicate and then a constant object, or the
    key.
    """
    is_routed = routed and writer.known_term(pattern.predicate) is not None
    if not writer.hidden and writer.name_of(pattern.predicate) is None:
        writer.skip_if(f"p.startswith({writer.parameter('h', UNSEEN)})")
    free: set[Variable] = set()
    for argument, slot in (("p", pattern.predicate), ("o", pattern.object), ("s", pattern.subject)):
        bound = writer.name_of(slot)
        if bound is None and not isinstance(slot, Const):
            writer.names[slot.name] = argument
            free.add(slot.name)
        elif not (is_routed and argument != "s" and (isinstance(slot, Const) or slot.name not in free)):
            writer.skip_if(f"{argument} != {bound}")


def _finish(writer: RuleWriter, rule: DatalogRule, rest: Sequence[JoinItem]) -> DeltaRule:
    writer.write_chosen(rest, lambda: writer.conclude(rule))
    return _compiled(writer)


def _compiled(writer: RuleWriter) -> DeltaRule:
    writer.end()
    function: DeltaRule = writer.function()
    return function


# Positions of a rule where a delta triple can match, and the part of the rule that the schema
# specialises.
#
# A *position* is a triple pattern of a body. A position is *fixed* where its predicate selects the
# matching triples, and *free* where nearly every triple matches: the predicate is a variable, or the
# predicate is rdf:type with a variable class. That variable is the *key* of the position.
#
# The *schema* of a free position are the other atoms that contain the key and no variable that the
# triple itself binds. In `[?x, rdf:type, ?d] :- [?c, rdfs:subClassOf, ?d], [?x, rdf:type, ?c]` the
# subclass atom is the schema of the second position, whose key is ?c. The rule is evaluated partially
# over the background's schema triples, once for each key.

_VOCABULARIES: Final = (f"<{RDF}", f"<{RDFS}", f"<{OWL}", HIDDEN)
_OF_INDIVIDUALS: Final = (iri(OWL + "sameAs"), iri(OWL + "differentFrom"), RDF_REIFIES)
_MAX_SCHEMA_ENDS: Final = 10_000
"""A predicate with more ends is no schema, unless it belongs to a vocabulary."""
_KEPT_SPLITS: Final = 4096


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
    return (_split_of_row(position) if position.rule.of_rule_set else None) or _split(position, background)


@lru_cache(_KEPT_SPLITS)
def _split_of_row(position: DeltaPosition) -> SchemaSplit | None:
    """The split of a row, if it is the same over any background."""
    predicates = {item.predicate for item in position.others() if isinstance(item, TriplePattern)}
    return None if any(Const(each) in predicates for each in _OF_INDIVIDUALS) else _split(position, TripleIndex())


def _split(position: DeltaPosition, background: TripleIndex) -> SchemaSplit:
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
            case Not() | GroupAggregate() | PathPattern() | TermPattern() | RelationAtom():
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
