"""Rules of a stratum over its background: forward derivation and backward support.

Forward: delta rules over the unchanged background (`dotr.instant.datalog.closure.instant`), and
derivations over any background where triples are masked
(`dotr.instant.datalog.closure.derivations`). Backward: support of a masked triple.

Cost: rules are indexed when a stratum is created; functions are generated at their first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.closure.delta_rules import DeltaPosition
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Derivation, Push, bindings_of, derivation, support
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch, missing_predicates
from dotr.instant.datalog.closure.lower_strata import LowerModel
from dotr.instant.datalog.strata.nonmonotonic_triggers import TriggerAtoms
from dotr.instant.datalog.strata.stratification import AtomKey, key_of, strata
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Triple
from dotr.model.traverse import free_variables

RuleInStratum: TypeAlias = tuple[DatalogRule, int]
"""A rule and its stratum; rules of a rule set belong to stratum 0."""

EMPTY_INDEX: Final = TripleIndex()


class StratifiedProgram:
    """A program by its strata, and the rule set that is closed in each.

    `depth`: the number of strata. `shares_index`: without a rule set, the rules of a stratum read
      nothing that a higher stratum derives. `triggers`: (stratum, its trigger atoms).
    """

    def __init__(self, rules: Sequence[DatalogRule]) -> None:
        program = [rule for rule in rules if not rule.of_rule_set]
        self.regime: list[RuleInStratum] = [(rule, 0) for rule in rules if rule.of_rule_set]
        self._numbered: list[RuleInStratum] = list(zip(program, strata(program), strict=True))
        self.depth = max(stratum for _, stratum in self._numbered) + 1
        self.shares_index = not self.regime
        self.triggers = [(stratum, TriggerAtoms(self.rules_at(stratum))) for stratum in range(1, self.depth)]

    def rules_at(self, stratum: int) -> list[RuleInStratum]:
        """The rules of a stratum."""
        return [each for each in self._numbered if each[1] == stratum]

    def up_to(self, stratum: int) -> list[RuleInStratum]:
        """The rules that the model of a stratum is closed under."""
        return [*self.regime, *(each for each in self._numbered if each[1] <= stratum)]

    def active(self, stratum: int) -> list[RuleInStratum]:
        """The rules that close a stratum over those below."""
        return self.rules_at(stratum) if self.shares_index else self.up_to(stratum)


def dispatch_of(numbered: Iterable[RuleInStratum]) -> RuleDispatch:
    """Rules with their strata, as a closer takes them."""
    rules = list(numbered)
    return RuleDispatch((rule for rule, _ in rules), (stratum for _, stratum in rules))


def lower_models(indexes: Sequence[TripleIndex]) -> list[LowerModel]:
    """For each stratum the background model of the strata below; empty for the lowest."""
    return [LowerModel(EMPTY_INDEX, EMPTY_INDEX), *(LowerModel(index, EMPTY_INDEX) for index in indexes)]


@dataclass(eq=False)
class HeadInStratum:
    """A head of a rule of some stratum."""

    rule: DatalogRule
    stratum: int
    head: TriplePattern

    @cached_property
    def support(self) -> Derivation:
        """Test of the rule with the variables of the head bound."""
        return support(self.rule, self.stratum, free_variables(self.head))


class StratumRules:
    """A stratum over its background.

    `active`: the rules that close the stratum; `heads`: the rules that can derive its triples.
    `triggers`: (stratum, trigger atoms) of lower and own strata; `models`: the background model of
      NOT and AGGREGATE by stratum.
    `limit`: maximum number of triples beyond the background; set before the first instant.
    """

    def __init__(
        self,
        index: TripleIndex,
        active: Sequence[RuleInStratum],
        heads: Sequence[RuleInStratum],
        triggers: Sequence[tuple[int, TriggerAtoms]],
        models: Sequence[LowerModel],
    ) -> None:
        self.index = index
        self.limit = LIMITS.triples
        self.triggers = triggers
        self.models = models
        self._derivations: dict[DeltaPosition, Derivation] = {}
        self._active = active
        self._head_rules = heads
        self._heads: dict[AtomKey, list[HeadInStratum]] | None = None

    @cached_property
    def dispatch(self) -> RuleDispatch:
        """The active rules by route."""
        return dispatch_of(self._active)

    @cached_property
    def closer(self) -> Closer:
        """Closer of instants while no triple is masked."""
        return Closer(self.dispatch, self.index, self.limit)

    def reads_any(self, delta: TripleIndex) -> bool:
        """True where a rule reads a predicate of the delta."""
        fixed = self.dispatch.fixed
        return self.dispatch.has_free or any(predicate in fixed for predicate in delta.by_subject)

    def derive_from(
        self, triple: Triple, background: TripleIndex, delta: TripleIndex, push: Push, alarms: list[ConstraintViolation]
    ) -> None:
        """Conclusions of a triple by the rules of this stratum, over any background."""
        for position in self._positions(triple):
            terms = bindings_of(position.pattern, triple)
            if terms is not None:
                derive = self._derivations.get(position)
                if derive is None:
                    if position.rule.of_rule_set and missing_predicates(position.others(), background, delta):
                        continue
                    names = free_variables(position.pattern)
                    derive = self._derivations[position] = derivation(position.rule, position.stratum, names, position.number)
                derive(background, delta, push, alarms, *terms.values())

    def _positions(self, triple: Triple) -> Iterator[DeltaPosition]:
        predicate = triple[1]
        routes = self.dispatch.fixed.get(predicate)
        if routes is not None:
            for object in (None, triple[2]):
                for dispatch in routes.get(object, ()):
                    if dispatch.position is not None:
                        yield dispatch.position
        for position in chain(self.dispatch.free, *self.dispatch.of_literals.values()):
            if position.rule.of_rule_set or isinstance(position.pattern.predicate, Const) or not is_hidden(predicate):
                yield position

    def is_supported(self, triple: Triple, background: TripleIndex, delta: TripleIndex) -> bool:
        """True where a rule of this stratum or a lower one derives a triple."""
        if self._heads is None:
            self._heads = {}
            for rule, stratum in self._head_rules:
                for head in rule.head:
                    self._heads.setdefault(key_of(head), []).append(HeadInStratum(rule, stratum, head))
        _, predicate, object = triple
        matches: list[bool] = []
        for key in ((predicate, object), (predicate, None), (None, object), (None, None)):
            for each in self._heads.get(key, ()):
                terms = bindings_of(each.head, triple)
                if terms is not None and not (each.rule.of_rule_set and missing_predicates(each.rule.body, background, delta)):
                    each.support(background, delta, matches.append, *terms.values())
                    if matches:
                        return True
        return False
