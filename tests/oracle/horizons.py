"""The facts of a closure over a window at every point, by brute force (lars.md, section 6).

Everything is computed from scratch at each point: first the inserted facts that were not cut, then, stratum by stratum, all substitutions,
repeated until no fact and no horizon is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import Bind, FilterItem, Not, RelationAtom
from dotr.model.terms import Term
from dotr.temporal.horizons.rules import Atom, WindowFact, WindowRule
from tests.oracle.expressions import Scope, computed, holds
from tests.oracle.triple_terms import whole

FOREVER = float("inf")
Binding = dict[str, Term]


@dataclass
class WindowOracle:
    """The inserts and cuts so far, each with the point of the `advance` that received it."""

    rules: Sequence[WindowRule]
    static: Collection[WindowFact] = ()
    inserts: list[tuple[int, WindowFact, int, float]] = field(default_factory=list)
    cuts: list[tuple[int, WindowFact]] = field(default_factory=list)

    def inserted(self, k: int) -> dict[WindowFact, float]:
        """The inserted facts that hold at k, each with its greatest end."""
        result: dict[WindowFact, float] = {}
        for told, fact, start, end in self.inserts:
            is_cut = any(each == fact and start < at and told <= at <= k for at, each in self.cuts)
            if told <= k and start <= k <= end and not is_cut:
                result[fact] = max(end, result.get(fact, end))
        return result

    def model(self, k: int) -> dict[WindowFact, float]:
        """The facts that hold at k with their horizons."""
        held = self.inserted(k)
        levels = strata(self.rules)
        for level in range(max(levels, default=0) + 1):
            rules = [rule for rule, stratum in zip(self.rules, levels, strict=True) if stratum == level]
            below = set(held)
            while True:
                before = dict(held)
                for rule in rules:
                    for fact, horizon in list(self.consequences(rule, held, below)):
                        held[fact] = max(horizon, held.get(fact, horizon))
                if held == before:
                    break
        return held

    def consequences(self, rule: WindowRule, held: dict[WindowFact, float], below: set[WindowFact]) -> Iterator[tuple[WindowFact, float]]:
        for binding, horizon, is_held in self.matches(rule.atoms, {}, held):
            if not is_held:
                continue
            whole_binding = with_binds(rule, binding)
            if whole_binding is None:
                continue
            if any(isinstance(item, FilterItem) and not holds(item.condition, Scope(whole_binding)) for item in rule.body):
                continue
            known = dict.fromkeys([*below, *self.static], 0.0)
            if any(isinstance(item, Not) and next(self.matches(item.body, whole_binding, known), None) is not None for item in rule.body):
                continue
            for head in rule.head:
                fact = made(head, whole_binding)
                if len(fact) == 2 or whole(*fact) is not None:
                    yield fact, horizon

    def matches(self, atoms: Sequence[Atom], binding: Binding, held: dict[WindowFact, float]) -> Iterator[tuple[Binding, float, bool]]:
        """Substitutions, the least horizon of the premises among the stored facts, and whether there is such a premise."""
        if not atoms:
            yield binding, FOREVER, False
            return
        versions = [*((fact, FOREVER, False) for fact in self.static), *((fact, horizon, True) for fact, horizon in held.items())]
        for fact, horizon, is_held in versions:
            more = matched(atoms[0], fact, binding)
            if more is not None:
                for result, least, any_held in self.matches(atoms[1:], more, held):
                    yield result, min(least, horizon), any_held or is_held


def with_binds(rule: WindowRule, binding: Binding) -> Binding | None:
    binds = [item for item in rule.body if isinstance(item, Bind)]
    result = dict(binding)
    for bind in binds:
        term = computed(bind.expression, Scope(result))
        if term is None or result.get(bind.variable, term) != term:
            return None
        result[bind.variable] = term
    return result


def slots(atom: Atom) -> tuple[object, ...]:
    return (atom.subject, atom.predicate, atom.object) if isinstance(atom, TriplePattern) else atom.slots


def terms(fact: WindowFact) -> tuple[Term, ...]:
    return fact if len(fact) == 3 else fact[1]


def matched(atom: Atom, fact: WindowFact, binding: Binding) -> Binding | None:
    if isinstance(atom, RelationAtom) != (len(fact) == 2) or (isinstance(atom, RelationAtom) and atom.relation != fact[0]):
        return None
    result = dict(binding)
    for slot, term in zip(slots(atom), terms(fact), strict=True):
        if isinstance(slot, Const):
            if slot.term != term:
                return None
        elif result.setdefault(slot.name, term) != term:  # type: ignore[attr-defined]
            return None
    return result


def made(head: Atom, binding: Binding) -> WindowFact:
    row = tuple(slot.term if isinstance(slot, Const) else binding[slot.name] for slot in slots(head))  # type: ignore[attr-defined]
    return (row[0], row[1], row[2]) if isinstance(head, TriplePattern) else (head.relation, row)


def strata(rules: Sequence[WindowRule]) -> list[int]:
    """The strata of rules that have some; every predicate of a triple is constant where there is a NOT."""

    def name(atom: Atom) -> str:
        if isinstance(atom, RelationAtom):
            return f"relation {atom.relation}"
        return atom.predicate.term if isinstance(atom.predicate, Const) else "any"

    levels: dict[str, int] = {}
    for _ in range(len(rules) * len(rules) + 1):
        for rule in rules:
            negated = [name(atom) for item in rule.body if isinstance(item, Not) for atom in item.body]
            least = max([*(levels.get(name(atom), 0) for atom in rule.atoms), *(levels.get(each, 0) + 1 for each in negated)])
            for head in rule.head:
                levels[name(head)] = max(levels.get(name(head), 0), least)
    return [max(levels[name(head)] for head in rule.head) for rule in rules]
