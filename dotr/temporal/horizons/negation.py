"""Rewriting of NOT: each NOT becomes NOT of one atom whose variables are bound.

    Calm(?s) :- Sensor(?s), NOT (High(?s, ?v), Sure(?v))

becomes

    Calm(?s) :- Sensor(?s), NOT not0(?s)
    not0(?s) :- High(?s, ?v), Sure(?v)

An auxiliary fact that follows from static facts alone is not held: it is a static row, and `in` of
the static rows evaluates the body over static facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

from dotr.evaluation.joins.order import JoinItem
from dotr.instant.datalog.strata.stratification import strata
from dotr.model.algebra import Const, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, Not, RelationAtom
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.facts import HeldFacts, StaticFacts
from dotr.temporal.horizons.joins import exists_static
from dotr.temporal.horizons.routes import RuleRoutes
from dotr.temporal.horizons.rules import Atom, FactRow, WindowRule, check_rules


class StaticMatches(Collection[FactRow]):
    """The rows of an auxiliary relation that follow from static facts alone; for `in` only."""

    def __init__(self, test: Callable[..., bool]) -> None:
        self._test = test

    def __contains__(self, row: object) -> bool:
        return bool(self._test(*cast("tuple[Any, ...]", row)))

    def __iter__(self) -> Any:
        raise TypeError("rows of NOT are asked for one by one")

    def __len__(self) -> int:
        raise TypeError("rows of NOT are asked for one by one")


def with_bound_negations(rules: Sequence[WindowRule], static: StaticFacts) -> list[WindowRule]:
    """The rules, each NOT replaced by NOT of a bound atom, with the rules of auxiliary relations.

    The static rows of auxiliary relations are added to `static`.
    """
    result: list[WindowRule] = []
    for rule in rules:
        if not any(isinstance(item, Not) for item in rule.body):
            result.append(rule)
            continue
        bound = _bound_by(rule.body)
        body: list[JoinItem] = []
        for item in rule.body:
            if isinstance(item, Not) and not (len(item.body) == 1 and bound.issuperset(free_variables(item))):
                keys = tuple(name for name in free_variables(item) if name in bound)
                atom = RelationAtom(f"dotr:not {len(result)} {rule.name}", tuple(map(Var, keys)))
                auxiliary = WindowRule(f"NOT of {rule.name}", (atom,), item.body, rule.of_rule_set)
                result.append(auxiliary)
                static.rows[atom.relation] = StaticMatches(exists_static(auxiliary, static, keys))
                item = Not(cast("tuple[TriplePattern, ...]", (atom,)))
            body.append(item)
        result.append(replace(rule, body=tuple(body)))
    return result


def _bound_by(body: Sequence[JoinItem]) -> set[Variable]:
    bound = {name for item in body if isinstance(item, TriplePattern | RelationAtom | TermPattern) for name in free_variables(item)}
    return bound | {item.variable for item in body if isinstance(item, Bind)}


def rule_strata(rules: Sequence[WindowRule]) -> list[int]:
    """The stratum of each rule, in the order of `rules`: as in
    `dotr.instant.datalog.strata.stratification`, relations being predicates.

    Raises `Refused` for recursion through NOT.
    """

    def pattern(atom: Atom) -> TriplePattern:
        return atom if isinstance(atom, TriplePattern) else TriplePattern(Var("s"), Const(f"<{atom.relation}>"), Var("o"))

    def as_datalog(rule: WindowRule) -> DatalogRule:
        negated = [Not(tuple(map(pattern, item.body))) for item in rule.body if isinstance(item, Not)]
        return DatalogRule(rule.name, tuple(map(pattern, rule.head)), (*map(pattern, rule.atoms), *negated))

    return strata(list(map(as_datalog, rules)))


def strata_of(rules: Sequence[DatalogRule | WindowRule], static: StaticFacts, held: HeldFacts) -> tuple[list[RuleRoutes], frozenset[str]]:
    """The rules of each stratum, the lowest first, and the names of auxiliary relations.

    Raises `ValueError` for a rule that the closure does not support, `Refused` for recursion
    through NOT.
    """
    rules = [rule for rule in rules if not isinstance(rule, DatalogRule) or WindowRule.of(rule).atoms]
    window_rules = [rule if isinstance(rule, WindowRule) else WindowRule.of(rule) for rule in rules]
    check_rules(window_rules)
    if not any(map(_has_not, window_rules)):
        datalog = [rule for rule in rules if isinstance(rule, DatalogRule)]
        return [RuleRoutes(datalog, [rule for rule in rules if isinstance(rule, WindowRule)], static, held)], frozenset()
    if any(rule.of_rule_set for rule in rules):
        raise ValueError("a rule set is closed in every stratum: close rules with NOT and a rule set anew")
    declared = set(static.rows)
    bound = with_bound_negations(window_rules, static)
    # Rules of `.dlog` files without NOT stay `DatalogRule`s, so that routing specialises them by the static schema.
    texts = {id(window): rule for window, rule in zip(window_rules, rules, strict=True) if isinstance(rule, DatalogRule)}
    strata: dict[int, tuple[list[DatalogRule], list[WindowRule]]] = {}
    for rule, number in zip(bound, rule_strata(bound), strict=True):
        of_text, others = strata.setdefault(number, ([], []))
        text = texts.get(id(rule))
        if text is None or _has_not(rule):
            others.append(rule)
        else:
            of_text.append(text)
    return [RuleRoutes(*strata.get(number, ([], [])), static, held) for number in range(max(strata) + 1)], frozenset(
        static.rows.keys() - declared
    )


def _has_not(rule: WindowRule) -> bool:
    return any(isinstance(item, Not) for item in rule.body)
