"""Types of the closure of windows: points, facts, rules over triples and relations, changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from dotr.evaluation.joins.order import JoinItem
from dotr.model import dataclass
from dotr.model.algebra import Const, TriplePattern, slots_of
from dotr.model.datalog import DatalogRule, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Term, Triple

Point: TypeAlias = int
"""A whole number of any kind: a point of a `.lars` file, or a time in µs since 1970."""

FactRow: TypeAlias = tuple[Term, ...]
RelationFact: TypeAlias = tuple[str, FactRow]
"""A relation and one of its rows."""

WindowFact: TypeAlias = Triple | RelationFact
Atom: TypeAlias = TriplePattern | RelationAtom

SettledFacts: TypeAlias = "list[tuple[Point, list[list[Any]]]]"
"""Cells of settled facts, grouped by their new horizon, in descending order."""

FOREVER: Final = sys.maxsize - 1
"""The horizon of a fact that never expires; only a cut ends it."""
STATIC: Final = sys.maxsize
"""The horizon of a static fact inside joins."""
NEVER: Final = -sys.maxsize
"""The horizon of a fact that does not hold."""

CONTRADICTION: Final = "dotr:contradiction"
"""The relation of the matches of rules without a head. A row is the rule's name, then subject,
predicate and object of each matched triple."""


def contradiction_head(row: str, body: Sequence[object]) -> RelationAtom:
    """The head of a rule whose matches are contradictions."""
    return RelationAtom(CONTRADICTION, (Const(row), *(slot for item in body if isinstance(item, TriplePattern) for slot in slots_of(item))))


@dataclass(frozen=True, slots=True, eq=False)
class WindowRule:
    """`head, … :- body` over triples and relations.

    `body`: atoms, NOT, FILTER and BIND in any order, at least one atom among them; no AGGREGATE.
    `of_rule_set`: as in `DatalogRule`.
    """

    name: str
    head: tuple[Atom, ...]
    body: tuple[JoinItem, ...]
    of_rule_set: bool = False

    @classmethod
    def of(cls, rule: DatalogRule) -> WindowRule:
        """A rule of a `.dlog` file or a rule set; without a head it concludes a `CONTRADICTION`."""
        head: tuple[Atom, ...] = rule.head or (contradiction_head(rule.name, rule.body),)
        return cls(rule.name, head, rule.body, rule.of_rule_set)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The positive atoms of the body."""
        return tuple(item for item in self.body if isinstance(item, TriplePattern | RelationAtom))


class FactChanges:
    """The facts that began and ended between two points, each once.

    `renewed`, of a view only: facts that hold at both points and whose horizon may have changed. It
    may have decreased only where facts can be overdeleted.

    `find`: computes the three lists lazily, after a rebuild: at the first access, or before the
    closure moves on.
    """

    __slots__ = ("__weakref__", "_began", "_ended", "_find", "_renewed")

    def __init__(
        self,
        began: Sequence[WindowFact] = (),
        ended: Sequence[WindowFact] = (),
        find: Callable[[], tuple[Sequence[WindowFact], Sequence[WindowFact], Sequence[WindowFact]]] | None = None,
        renewed: Sequence[WindowFact] = (),
    ) -> None:
        self._began = began
        self._ended = ended
        self._find = find
        self._renewed = renewed

    def find(self) -> None:
        """Computes lazy changes; must be called before the closure moves on."""
        if self._find is not None:
            self._began, self._ended, self._renewed = self._find()
            self._find = None

    @property
    def began(self) -> Sequence[WindowFact]:
        """The facts that hold now and did not before."""
        self.find()
        return self._began

    @property
    def ended(self) -> Sequence[WindowFact]:
        """The facts that held before and do not now."""
        self.find()
        return self._ended

    @property
    def renewed(self) -> Sequence[WindowFact]:
        """The facts of a view that hold at both points and whose horizon may have changed."""
        self.find()
        return self._renewed

    def __repr__(self) -> str:
        return f"FactChanges(began={self.began}, ended={self.ended})"


def check_rules(rules: Sequence[WindowRule]) -> None:
    """Raises `ValueError` for a rule that the closure does not support."""
    for rule in rules:
        if any(isinstance(item, GroupAggregate) for item in rule.body):
            raise ValueError(f"rule {rule.name}: AGGREGATE is not kept from point to point; close it anew")
        if not rule.atoms:
            raise ValueError(f"rule {rule.name}: no atom in its body; insert its conclusion, or give it a premise that holds")
        if any(
            isinstance(item, Not) and not all(isinstance(each, TriplePattern | RelationAtom) for each in item.body) for item in rule.body
        ):
            raise ValueError(f"rule {rule.name}: NOT of something else than atoms")
