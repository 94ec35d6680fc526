"""Solutions of a query's last report, and what the next one gives of its own (continuous.md, 6).

Idea: ISTREAM gives each row as often as it is there more often than before, DSTREAM as often as it
was there more often. Where only what came and went is known, that is its difference as bags, and
the bag is not looked through.
Cost: what came and went, or the bag where a report begins anew; RSTREAM its output, and nothing
where that is as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from dotr.engine.kept_solutions import SolutionChanges
from dotr.joins.branch_loops import AnswerRow
from dotr.model.continuous import RelationToStream


class LastSolutions:
    """The bag of solutions of the last report.

    >>> last = LastSolutions(RelationToStream.ISTREAM)
    >>> last.give(SolutionChanges([("<a>",), ("<b>",)], [], True))
    [('<a>',), ('<b>',)]
    >>> last.give(SolutionChanges([("<c>",), ("<a>",)], [("<a>",)], False)), list(last.rows())
    ([('<c>',)], [('<a>',), ('<b>',), ('<c>',)])
    >>> last.undo()
    >>> list(last.rows())
    [('<a>',), ('<b>',)]
    >>> last = LastSolutions(RelationToStream.RSTREAM)
    >>> last.give(SolutionChanges([("<a>",)], [], True)) is last.give(SolutionChanges([], [], False))
    True
    """

    def __init__(self, relation: RelationToStream) -> None:
        self._relation = relation
        self._bag: Counter[AnswerRow] = Counter()
        self._before: Counter[AnswerRow] | None = None
        self._net: dict[AnswerRow, int] = {}
        self._anew: list[AnswerRow] | None = None  # RSTREAM: the rows, where no bag of them is made yet
        self._told: list[AnswerRow] | None = None  # RSTREAM: the rows as the last report gave them

    def rows(self) -> Iterable[AnswerRow]:
        """All rows, each as often as it is there; none for RSTREAM, which compares with nothing."""
        return () if self._relation is RelationToStream.RSTREAM else self._bag.elements()

    def restore(self, rows: Iterable[AnswerRow]) -> None:
        """Takes the rows of `rows`."""
        self._bag, self._told = Counter(rows), None

    def give(self, changes: SolutionChanges) -> list[AnswerRow]:
        """The rows that a report gives, in a list that must not be changed: RSTREAM gives the same
        one again where nothing came or went.
        """
        if changes.is_anew:
            return self._give_anew(changes.came)
        if self._told is not None and not changes.came and not changes.went:
            self._before, self._net = None, {}
            return self._told
        if self._anew is not None:
            self._bag, self._anew = Counter(self._anew), None
        net: dict[AnswerRow, int] = {}
        for row in changes.came:
            net[row] = net.get(row, 0) + 1
        for row in changes.went:
            net[row] = net.get(row, 0) - 1
        self._before, self._net = None, net
        self._add(net, 1)
        match self._relation:
            case RelationToStream.RSTREAM:
                self._told = list(self._bag.elements())
                return self._told
            case RelationToStream.ISTREAM:
                return [row for row, times in net.items() if times > 0 for _ in range(times)]
            case RelationToStream.DSTREAM:
                return [row for row, times in net.items() if times < 0 for _ in range(-times)]
            case other:
                assert_never(other)

    def _give_anew(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        if self._relation is RelationToStream.RSTREAM:
            self._anew, self._told, self._before, self._net = rows, rows, None, {}
            return rows
        before, self._bag = self._bag, Counter(rows)
        self._before = before
        return list((self._bag - before if self._relation is RelationToStream.ISTREAM else before - self._bag).elements())

    def _add(self, net: dict[AnswerRow, int], sign: int) -> None:
        bag = self._bag
        get = bag.get
        for row, times in net.items():
            if times:
                number = get(row, 0) + sign * times
                if number:
                    bag[row] = number
                else:
                    del bag[row]

    def undo(self) -> None:
        """Takes back the last report, which failed after it was given."""
        if self._before is not None:
            self._bag, self._before = self._before, None
        else:
            self._add(self._net, -1)
        self._net, self._told = {}, None
