"""Solutions of a query's last report, and the output of RSTREAM, ISTREAM and DSTREAM.

Idea: solutions are bags. RSTREAM outputs the bag of the report, ISTREAM the bag minus that of the
last report, DSTREAM the bag of the last report minus that of the report. Where the inserted and
deleted rows are known, both differences are their net counts, and the bags are not compared.
Cost: the inserted and deleted rows, or the bag where a report was evaluated in full; for RSTREAM
its output, and nothing where that is unchanged.
Source: continuous.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.languages.continuous.evaluation.maintained_solutions import SolutionChanges
from dotr.languages.continuous.model import RelationToStream


class LastSolutions:
    """The bag of solutions of the last report.

    >>> last = LastSolutions(RelationToStream.ISTREAM)
    >>> last.output(SolutionChanges([("<a>",), ("<b>",)], [], True))
    [('<a>',), ('<b>',)]
    >>> last.output(SolutionChanges([("<c>",), ("<a>",)], [("<a>",)], False)), list(last.rows())
    ([('<c>',)], [('<a>',), ('<b>',), ('<c>',)])
    >>> last.undo()
    >>> list(last.rows())
    [('<a>',), ('<b>',)]
    >>> last = LastSolutions(RelationToStream.RSTREAM)
    >>> last.output(SolutionChanges([("<a>",)], [], True)) is last.output(SolutionChanges([], [], False))
    True
    """

    def __init__(self, relation: RelationToStream) -> None:
        self._relation = relation
        self._bag: Counter[AnswerRow] = Counter()
        self._before: Counter[AnswerRow] | None = None
        self._net: dict[AnswerRow, int] = {}
        self._uncounted: list[AnswerRow] | None = None  # RSTREAM: rows that are not in the bag yet
        self._last_output: list[AnswerRow] | None = None  # RSTREAM: the list that the last report returned

    def rows(self) -> Iterable[AnswerRow]:
        """All rows with their multiplicity; none for RSTREAM, whose output needs no last report."""
        return () if self._relation is RelationToStream.RSTREAM else self._bag.elements()

    def restore(self, rows: Iterable[AnswerRow]) -> None:
        """Replaces the rows of the last report by those that `rows` returned."""
        self._bag, self._last_output = Counter(rows), None

    def output(self, changes: SolutionChanges) -> list[AnswerRow]:
        """The output rows of a report, whose solutions become those of the last report.

        The list must not be changed: RSTREAM returns the same list again where nothing has changed.
        """
        if changes.is_initial:
            return self._output_of_all(changes.inserted)
        if self._last_output is not None and not changes.inserted and not changes.deleted:
            self._before, self._net = None, {}
            return self._last_output
        if self._uncounted is not None:
            self._bag, self._uncounted = Counter(self._uncounted), None
        net: dict[AnswerRow, int] = {}
        for row in changes.inserted:
            net[row] = net.get(row, 0) + 1
        for row in changes.deleted:
            net[row] = net.get(row, 0) - 1
        self._before, self._net = None, net
        self._add(net, 1)
        match self._relation:
            case RelationToStream.RSTREAM:
                self._last_output = list(self._bag.elements())
                return self._last_output
            case RelationToStream.ISTREAM:
                return [row for row, times in net.items() if times > 0 for _ in range(times)]
            case RelationToStream.DSTREAM:
                return [row for row, times in net.items() if times < 0 for _ in range(-times)]
            case other:
                assert_never(other)

    def _output_of_all(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        """The output of a report that was evaluated in full."""
        if self._relation is RelationToStream.RSTREAM:
            self._uncounted, self._last_output, self._before, self._net = rows, rows, None, {}
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
        """Reverts the last `output`, whose report failed afterwards."""
        if self._before is not None:
            self._bag, self._before = self._before, None
        else:
            self._add(self._net, -1)
        self._net, self._last_output = {}, None
