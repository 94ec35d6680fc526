"""A derivation of each conclusion of a LARS file at a point, down to atoms of the stream and of B.

Idea: backward from the requested fact, all matches of rules that conclude it are found, then those
of their premises. The derivation of least height is selected, so none is circular. Rules that only
copy an atom into the relation of a window are left out: the atom is shown with the point that has
it.

`Q(?x) :- Hot(?x) ALWAYS IN [1 s]` and `Hot(?x) AT ?t :- :temp(?x, ?v) AT ?t IN [5 s]`, at 3:

    Q(:a) at 3, by the first rule
        Hot(:a) at 2, by the second rule
            :temp(:a, 70) at 2
        Hot(:a) at 3, by the second rule
            :temp(:a, 75) at 3

Cost: all derivations of the fact and of its premises; the closure is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dotr.languages.lars.closure.maintained import LarsClosure
from dotr.languages.lars.closure.relations import EACH_POINT, RelationKind, RelationMeaning
from dotr.languages.lars.closure.rows import AtomRows
from dotr.model.algebra import Const
from dotr.model.terms import Term
from dotr.temporal.horizons.facts import INSERTED
from dotr.temporal.horizons.rules import FactRow, Point, WindowFact


class LarsReason(NamedTuple):
    """An atom with its derivation.

    - `first`, `last`: the first and the last point at which the atom holds by this derivation; None
      for an atom of B, which holds at every point.
    - `rule`: the rule that concludes it, as file:line; None for an atom of the stream or of B.
    - `premises`: those of the rule's match, without atoms under NOT.
    """

    rows: AtomRows
    row: FactRow
    first: Point | None
    last: Point | None
    rule: str | None = None
    premises: tuple[LarsReason, ...] = ()


class _LeastDerivation(NamedTuple):
    height: int
    rule: str
    premises: tuple[WindowFact, ...]


class LarsProof:
    """Derivations of facts that hold at the last point of a closure, which must have been
    evaluated.

    The closure must not advance while the object is used.
    """

    def __init__(self, closure: LarsClosure) -> None:
        assert closure.point is not None, "no point has been evaluated"
        assert closure.first is not None
        self._closure: Final = closure
        self._point: Final = closure.point
        self._first: Final = closure.first
        self._best: dict[WindowFact, _LeastDerivation] = {}
        self._matches: dict[WindowFact, list[tuple[str, tuple[WindowFact, ...]]]] = {}

    def of_report(self, number: int, row: FactRow) -> LarsReason | None:
        """The reason of a row of a REPORT at the last point; None where it does not hold.

        `row`: the terms of the report's attributes, as `LarsClosure.advance` gives them.
        """
        return self.of_fact(self._fact_of_report(number, row))

    def of_fact(self, fact: WindowFact) -> LarsReason | None:
        """The reason of a row of a relation at the last point; None where it does not hold."""
        if self._closure.closure.horizon(fact) is None:
            return None
        return next(iter(self._reasons(fact)), None)

    def leaves_of_report(self, number: int, row: FactRow) -> list[tuple[WindowFact, LarsReason]]:
        """The leaves of the derivation of a row of a REPORT that are atoms: each fact with its
        reason, in depth-first order; empty where the row does not hold.
        """
        root = self._fact_of_report(number, row)
        if self._closure.closure.horizon(root) is None:
            return []
        found: dict[WindowFact, LarsReason] = {}
        visited, stack = {root}, [root]
        while stack:
            fact = stack.pop()
            meaning = self._closure.rules.meanings.get(fact[0])
            if not self._is_leaf(fact):
                if fact not in self._best:
                    self._search(fact)
                unvisited = [premise for premise in self._best[fact].premises if premise not in visited]
                visited.update(unvisited)
                stack += reversed(unvisited)
            elif meaning is not None:
                found[fact] = self._leaf(fact, meaning)
        return list(found.items())

    def _fact_of_report(self, number: int, row: FactRow) -> WindowFact:
        report = self._closure.rules.reports[number]
        terms = dict(zip((name for name, _ in report.names), row, strict=True))
        return report.relation, tuple([slot.term if isinstance(slot, Const) else terms[slot.name] for slot in report.slots])

    # --- search ---

    def _search(self, goal: WindowFact) -> None:
        """Finds the least derivation of the goal and of each fact that a derivation of it may use.

        All matches are collected backward from the goal; then the least heights are a fixpoint.
        """
        stack = [goal]
        while stack:
            fact = stack.pop()
            if fact in self._matches or self._is_leaf(fact):
                continue
            found = [(rule, tuple(premises)) for rule, premises in self._closure.closure.derivations(fact)]
            self._matches[fact] = found
            stack += [premise for _, premises in found for premise in premises]
        changed = True
        while changed:
            changed = False
            for fact, matches in self._matches.items():
                for rule, premises in matches:
                    heights = [self._height(premise) for premise in premises]
                    if all(height is not None for height in heights):
                        derivation = _LeastDerivation(1 + max((height or 0 for height in heights), default=0), rule, premises)
                        if fact not in self._best or derivation < self._best[fact]:
                            changed = changed or fact not in self._best or derivation.height < self._best[fact].height
                            self._best[fact] = derivation

    def _height(self, fact: WindowFact) -> int | None:
        if self._is_leaf(fact):
            return 0
        best = self._best.get(fact)
        return None if best is None else best.height

    def _is_leaf(self, fact: WindowFact) -> bool:
        """True for a fact that needs no derivation: an inserted one, or one of B.

        A rule may conclude it, too: `P(:a) . P(:a) :- P(:a), :q(:b) .` derives P(:a) from itself
        alone.
        """
        closure = self._closure.closure
        return closure.is_inserted(fact) or fact in closure.static

    # --- reasons ---

    def _reasons(self, fact: WindowFact) -> Iterator[LarsReason]:
        """The reason of a fact; where a rule only copies atoms into a relation, those of its
        premises.
        """
        meaning = self._closure.rules.meanings.get(fact[0])
        if self._is_leaf(fact):
            if meaning is not None:
                yield self._leaf(fact, meaning)
            return
        if fact not in self._best:
            self._search(fact)
        _, rule, premises = self._best[fact]
        below = tuple(dict.fromkeys(reason for premise in premises if premise[0] != EACH_POINT for reason in self._reasons(premise)))
        if meaning is None or rule == fact[0]:
            yield from below
            return
        row: FactRow = fact[1]  # type: ignore[assignment]
        if meaning.kind is RelationKind.PUT:
            point = self._point_of(row[-1])
            yield LarsReason(meaning.rows, row[:-1], point, point, rule, below)
        else:
            yield LarsReason(meaning.rows, row, self._point, self._point, rule, below)

    def _leaf(self, fact: WindowFact, meaning: RelationMeaning) -> LarsReason:
        kind, rows, window = meaning
        row: FactRow = fact[1]  # type: ignore[assignment]
        cell = self._closure.closure.held.cells.get(fact)
        if cell is None or kind is RelationKind.BACKGROUND:
            return LarsReason(rows, row, None, None)
        if kind is RelationKind.BEFORE:
            start = self._point_of(row[-1]) + 1
            return LarsReason(rows, row[:-1], start, self._point)
        if kind is RelationKind.ALWAYS:
            begin, end = self._closure.points_of(window, row)
            return LarsReason(rows, row, begin, end)
        if isinstance(window, str):
            point = self._point_of(row[-1]) if kind is RelationKind.AT else self._closure.last_kept(window, row)
        else:
            assert window is not None
            point = cell[INSERTED] - window[1]
        return LarsReason(rows, row[:-1] if kind in (RelationKind.AT, RelationKind.RUN) else row, point, point)

    def _point_of(self, time: Term) -> Point:
        """The point of a time, found backward from the last point to the one before the line's
        first.
        """
        return next(u for u in range(self._point, self._first - 2, -1) if self._closure.time_of(u) == time)
