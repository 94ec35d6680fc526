"""Matches of Datalog rules with all their variables, forward from a triple or backward from a
conclusion.

Idea: the closure of a run (`dotr.instant.datalog.closure.instant`) generates functions that yield
only conclusions. Here a generated function yields the terms of all variables of a body, from which
premises, conditions and conclusions follow. Forward from a triple of `:at`, the function for
`:in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z)` is given `x` and `y`, and skips the first atom (`k0` is
`:in`; simplified):

    def derive(background, delta, append, v_x, v_y):
        b0 = background.by_subject.get(k0, NO_ENDS)
        d1 = delta.by_subject.get(k0, NO_ENDS)
        for v_z in b0.get(v_y, NO_TERMS) + d1.get(v_y, NO_TERMS):
            append((v_x, v_y, v_z))

Cost: about 0.3 ms to generate a function; rules of one form share the compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from dotr.engine.spec import ProgramSpec
from dotr.evaluation.expressions.identity import is_different
from dotr.evaluation.joins.compile import Row
from dotr.evaluation.joins.order import Side, ordered
from dotr.evaluation.triples.generalised import OF, property_of_literals
from dotr.evaluation.triples.index import NO_ENDS, TripleIndex, is_auxiliary, is_hidden
from dotr.instant.datalog.closure.derivations import SAME_AS, TURNING_ROWS, RuleWriter, StratumDelta, bindings_of
from dotr.instant.datalog.entailment import rule_set
from dotr.instant.datalog.strata.stratification import AtomKey, is_nonmonotonic, key_of, strata
from dotr.model import dataclass
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.datalog import Bind, DatalogRule, GroupAggregate
from dotr.model.terms import Term, Triple, Variable, can_be_subject, is_blank, is_iri, is_literal
from dotr.model.traverse import free_variables
from dotr.syntax.datalog import parse_datalog

_RowFunction: TypeAlias = Callable[..., None]
Bindings: TypeAlias = Mapping[Variable, Term]
"""The terms of a rule's variables; a variable that nothing binds is left out."""


def background_rules(spec: ProgramSpec) -> list[DatalogRule]:
    """The Datalog rules of a program, then the rows of its entailment regime.

    Raises `Refused` for Datalog with errors.
    """
    datalog = [rule for document in spec.datalog for rule in parse_datalog(document, spec.prefixes)]
    return [*datalog, *rule_set(spec.entailment, axiomatic=spec.axiomatic)]


class RuleMatch(NamedTuple):
    """A match of a rule: the terms of its variables, and the triples of its atoms in their
    order."""

    rule: ProvingRule
    bindings: Bindings
    premises: tuple[Triple, ...]

    @property
    def tie_order(self) -> tuple[int, tuple[Triple, ...]]:
        """The sort key among matches whose conclusions have one height."""
        return self.rule.number, self.premises

    def conclusions(self) -> Iterator[Triple]:
        """The conclusions, in the order of the heads: RDF triples, and generalised ones of a rule
        set."""
        rule = self.rule.rule
        for head in rule.head:
            triple = instance(head, self.bindings)
            if triple is None:
                continue
            is_rdf = can_be_subject(triple[0]) and is_iri(triple[1])
            if is_rdf or (rule.of_rule_set and (is_auxiliary(triple[1]) or (can_be_subject(triple[0]) and is_blank(triple[1])))):
                yield triple
            elif rule.name in TURNING_ROWS and is_literal(triple[0]):
                of = property_of_literals(triple[1])
                yield from ((triple[0], of, triple[2]), (triple[1], OF, of))

    @property
    def contradicted(self) -> DatalogRule | None:
        """The rule that concludes `false`, dt-diff where the match would make two different
        literals the same; None for another match."""
        rule = self.rule.rule
        if not rule.head:
            return rule
        if rule.of_rule_set and rule.head[0].predicate == SAME_AS:
            triple = instance(rule.head[0], self.bindings)
            if triple is not None and triple[0] < triple[2] and is_different(triple[0], triple[2]):
                return replace(rule, name="dt-diff", head=())
        return None


def instance(pattern: TriplePattern, bindings: Bindings) -> Triple | None:
    """The triple of a pattern under bindings; None if a variable is unbound.

    >>> from dotr.model.algebra import Var
    >>> instance(TriplePattern(Var("x"), Const("<p>"), Var("y")), {"x": "<a>", "y": "<b>"})
    ('<a>', '<p>', '<b>')
    """

    def term(slot: Slot) -> Term | None:
        return slot.term if isinstance(slot, Const) else bindings.get(slot.name)

    subject, predicate, value = term(pattern.subject), term(pattern.predicate), term(pattern.object)
    return None if subject is None or predicate is None or value is None else (subject, predicate, value)


@dataclass(frozen=True, eq=False)
class ProvingRule:
    """A rule with the functions that list its matches, generated at their first use.

    - `number`: its position in the program.
    - `stratum`: the number of the model that its NOT and AGGREGATE read.
    """

    rule: DatalogRule
    number: int
    stratum: int
    _functions: dict[tuple[tuple[Variable, ...], int | None, Side], _RowFunction] = field(default_factory=dict)

    @cached_property
    def atoms(self) -> tuple[TriplePattern, ...]:
        """The atoms of the body outside NOT and AGGREGATE."""
        return tuple(item for item in self.rule.body if isinstance(item, TriplePattern))

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that the body binds, in the order of the text."""
        names: dict[Variable, None] = {}
        for item in self.rule.body:
            match item:
                case TriplePattern():
                    names.update(dict.fromkeys(free_variables(item)))
                case Bind(_, variable):
                    names[variable] = None
                case GroupAggregate(_, keys, results):
                    names.update(dict.fromkeys((*keys, *(name for name, _ in results))))
                case _:
                    pass
        return tuple(names)

    @cached_property
    def is_nonmonotonic(self) -> bool:
        """True for a rule with NOT or AGGREGATE."""
        return is_nonmonotonic(self.rule)

    def may_match(self, background: TripleIndex, delta: TripleIndex, side: Side = Side.BOTH) -> bool:
        """False if an atom with a constant predicate has no triple on the given side."""
        indexes = (background, delta) if side is Side.BOTH else (background,)
        for predicate, value in self._keys:
            if value is None:
                if not any(predicate in index.by_subject for index in indexes):
                    return False
            elif not any(index.by_object.get(predicate, NO_ENDS).get(value) for index in indexes):
                return False
        return True

    @cached_property
    def _keys(self) -> tuple[tuple[Term, Term | None], ...]:
        keys = dict.fromkeys(map(key_of, self.atoms))
        return tuple((predicate, value) for predicate, value in keys if predicate is not None)

    def matches(
        self, bound: Bindings, background: TripleIndex, delta: StratumDelta, *, skip: int | None = None, side: Side = Side.BOTH
    ) -> Iterator[RuleMatch]:
        """The matches of the rule under some bindings.

        Args:
            bound: the bindings.
            background: the background.
            delta: the triples of the instant.
            skip: the number of a body item that the bindings satisfy already.
            side: the index that the atoms read.
        """
        given = tuple(bound)
        function = self._functions.get((given, skip, side))
        if function is None:
            function = self._functions[given, skip, side] = self._function(given, skip, side)
        rows: list[Row] = []
        function(background, delta, rows.append, *bound.values())
        for row in rows:
            bindings = {name: term for name, term in zip(self.variables, row, strict=True) if term is not None}
            premises = tuple(triple for atom in self.atoms if (triple := instance(atom, bindings)) is not None)
            yield RuleMatch(self, bindings, premises)

    def _function(self, given: tuple[Variable, ...], skip: int | None, side: Side) -> _RowFunction:
        """The function that appends the rows; for `:in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z)` with `?x` given:

        >>> from inspect import getsource
        >>> from dotr.syntax.datalog import parse_datalog
        >>> from dotr.model.places import Document
        >>> document = Document("a.dlog", ":in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z) .")
        >>> ((rule, _),) = ProvingRules(parse_datalog(document, {"": "http://e/"})).reading(("<a>", "<http://e/at>", "<b>"))
        >>> print(getsource(rule._function(("x",), None, Side.BOTH)))
            def derive(background, delta, append, v_x):
                b0 = background.by_subject.get(k0, NO_ENDS)
                d1 = delta.by_subject.get(k0)
                b2 = background.by_subject.get(k1, NO_ENDS)
                d3 = delta.by_subject.get(k1)
                for v_y in (b0.get(v_x, NO_TERMS) if d1 is None else b0.get(v_x, NO_TERMS) + d1.get(v_x, NO_TERMS)):
                    for v_z in (b2.get(v_y, NO_TERMS) if d3 is None else b2.get(v_y, NO_TERMS) + d3.get(v_y, NO_TERMS)):
                        append((v_x, v_y, v_z))
        <BLANKLINE>
        """
        writer = RuleWriter("derive", self.rule, self.stratum)
        writer.begin(["background", "delta", "append", *map(writer.bind, given)])
        rest = [item for number, item in enumerate(self.rule.body) if number != skip]
        writer.write_steps(ordered(rest, given, side, None))
        writer.emit("append", writer.row(self.variables))
        writer.end()
        function: _RowFunction = writer.function()
        return function


class ProvingRules:
    """The rules of a program, indexed by the atoms of their bodies and heads.

    The order of the rules is the tie order of their matches.

    >>> from dotr.syntax.datalog import parse_datalog
    >>> from dotr.model.places import Document
    >>> document = Document("a.dlog", ":in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z) .")
    >>> rules = ProvingRules(parse_datalog(document, {"": "http://e/"}))
    >>> [(rule.rule.name, number) for rule, number in rules.reading(("<a>", "<http://e/in>", "<b>"))]
    [('a.dlog:1', 1)]
    """

    def __init__(self, rules: Sequence[DatalogRule]) -> None:
        program = [rule for rule in rules if not rule.of_rule_set]
        stratum = {id(rule): number for rule, number in zip(program, strata(program), strict=True)}
        self.rules = [ProvingRule(rule, number, stratum.get(id(rule), 0)) for number, rule in enumerate(rules)]
        self._bodies: dict[AtomKey, list[tuple[ProvingRule, int]]] = {}
        self._heads: dict[AtomKey, list[tuple[ProvingRule, TriplePattern]]] = {}
        for each in self.rules:
            for number, item in enumerate(each.rule.body):
                if isinstance(item, TriplePattern):
                    self._bodies.setdefault(key_of(item), []).append((each, number))
            for head in each.rule.head:
                self._heads.setdefault(key_of(head), []).append((each, head))

    def reading(self, triple: Triple) -> Iterator[tuple[ProvingRule, int]]:
        """The body atoms that a triple may match: each rule with the number of the body item."""
        hidden = is_hidden(triple[1])
        for key in _keys_of(triple):
            for rule, number in self._bodies.get(key, ()):
                if not hidden or key[0] is not None or rule.rule.of_rule_set:
                    yield rule, number

    def matches_with(self, triple: Triple, background: TripleIndex, delta: StratumDelta) -> Iterator[RuleMatch]:
        """The matches of all rules in which an atom matches a triple."""
        for rule, number in self.reading(triple):
            pattern = rule.rule.body[number]
            assert isinstance(pattern, TriplePattern)
            bound = bindings_of(pattern, triple)
            if bound is not None and rule.may_match(background, delta):
                yield from rule.matches(bound, background, delta, skip=number)

    def concluding(self, triple: Triple) -> Iterator[tuple[ProvingRule, Bindings]]:
        """The rules with a head that matches a triple, each with the bindings of that head."""
        for key in _keys_of(triple):
            for rule, head in self._heads.get(key, ()):
                bound = bindings_of(head, triple)
                if bound is not None:
                    yield rule, bound


def _keys_of(triple: Triple) -> tuple[AtomKey, ...]:
    _, predicate, value = triple
    return (predicate, value), (predicate, None), (None, value), (None, None)
