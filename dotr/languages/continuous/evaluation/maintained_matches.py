"""Incremental evaluation of MATCH blocks from report to report (continuous.md, section 11).

Idea: an EVENT is a relation: one row for each solution over an item, with the item's time. An item
that enters the window inserts its rows; an item that leaves the window deletes them. A plain SEQ
joins two relations by their shared variables where the left mapping ends before the right one
begins. So a block of plain SEQs is a tree of incremental operators. FIRST, LAST, the policies of
SEQ and CONSUMING choose among all mappings of a report: these blocks are evaluated in full at each
report (`match_blocks`).
Example: `EVENT <w> { ?x :a 1 } SEQ EVENT <w> { ?x :b 1 }` with the rows (x, 3) and (x, 5) on both
sides: of the four pairs only (left (x, 3), right (x, 5)) is in order of time.
Cost: one look-up for each item of the window, and the inserted and deleted rows with their pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.continuous.evaluation.match_blocks import MatchedItem, MatchEvaluator
from dotr.model.terms import Term, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.answers.changes import GraphChanges, ReportWork, RowChanges
from dotr.temporal.answers.joins import MaintainedJoin, RowMerge
from dotr.temporal.answers.operators import MaintainedOperator, MaintainedProjection
from dotr.temporal.intervals.patterns import EventPattern, MatchBlock, Ordered, PlainGroup, SequencePolicy


class EventRows(MaintainedOperator):
    """The solutions of an EVENT over the items of its window.

    The last term of a row is the item's time as a text (`ordered_text`).
    """

    __slots__ = ("_came", "_known", "_went", "evaluator", "group", "size")

    def __init__(self, evaluator: MatchEvaluator, group: PlainGroup, number: int) -> None:
        super().__init__((*evaluator.names_of(group), f".event{number}"))
        self.evaluator = evaluator
        self.group = group
        self._known: dict[Micros, tuple[TripleIndex, list[AnswerRow]]] = {}
        self._came: list[AnswerRow] = []
        self._went: list[AnswerRow] = []
        self.size = 0

    def move(self, items: Iterable[MatchedItem]) -> None:
        """Replaces the items of the last report; call it before `changes`.

        An item with the same time and the identical index is unchanged, and its rows are reused.
        """
        before, self._known = self._known, {}
        for time, triples in items:
            known = before.get(time)
            if known is not None and known[0] is triples:
                self._known[time] = known
                del before[time]
                continue
            rows = self._rows(time, triples)
            self._known[time] = (triples, rows)
            self._came += rows
        for _, rows in before.values():
            self._went += rows

    def _rows(self, time: Micros, triples: TripleIndex) -> list[AnswerRow]:
        stamp = ordered_text(time)
        return [(*[found.get(name) for name in self.names[:-1]], stamp) for found in self.evaluator.bindings_of(self.group, time, triples)]

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        if any(change.is_initial for change in graphs.values()):
            self._came, self._went = [row for _, rows in self._known.values() for row in rows], []
            self.size = 0
        changes = RowChanges(self._came, self._went)
        self._came, self._went = [], []
        work.look_at(len(changes.inserted) + len(changes.deleted))
        self.size += len(changes.inserted) - len(changes.deleted)
        work.keep(self.size)
        return changes

    def clear(self) -> None:
        self._came, self._went = [], []


def ordered_text(time: Micros) -> str:
    """A time in µs as a text of fixed length, so that texts are ordered as times are.

    >>> ordered_text(-5) < ordered_text(3) < ordered_text(20)
    True
    """
    return f"{time + LAST_MICRO:020}"


class _SequenceMerge(RowMerge):
    """The merge of two rows; None unless the left mapping ends before the right one begins."""

    __slots__ = ("_begin", "_end")

    def __init__(self, left: tuple[Variable, ...], right: tuple[Variable, ...], keys: Sequence[Variable], end: str, begin: str) -> None:
        super().__init__(left, right, keys)
        self._end, self._begin = left.index(end), right.index(begin)

    def __call__(self, left: AnswerRow, right: AnswerRow) -> AnswerRow | None:
        return super().__call__(left, right) if left[self._end] < right[self._begin] else None  # type: ignore[operator]


class _MaintainedPattern(NamedTuple):
    """An operator, with the columns that have the first and the last time of its mappings."""

    operator: MaintainedOperator
    first: Variable
    last: Variable


class MaintainedMatch:
    """A MATCH block of plain SEQs: `operator` yields its mappings, `events` are its EVENTs."""

    def __init__(self, evaluator: MatchEvaluator) -> None:
        self.events: list[EventRows] = []
        self._evaluator = evaluator
        found = self._compiled(evaluator.block.events).operator
        self.operator: MaintainedOperator = MaintainedProjection(found, evaluator.block.variables)

    def _compiled(self, events: EventPattern) -> _MaintainedPattern:
        if isinstance(events, PlainGroup):
            rows = EventRows(self._evaluator, events, len(self.events))
            self.events.append(rows)
            return _MaintainedPattern(rows, rows.names[-1], rows.names[-1])
        assert isinstance(events, Ordered), "the block is plain"
        left, right = self._compiled(events.left), self._compiled(events.right)
        keys = sorted({*left.operator.names} & {*right.operator.names})
        merge = _SequenceMerge(left.operator.names, right.operator.names, keys, left.last, right.first)
        return _MaintainedPattern(MaintainedJoin(left.operator, right.operator, keys, merge), left.first, right.last)

    def move(self, items: Mapping[Term, Sequence[MatchedItem]]) -> None:
        """Passes the items of each window at a report, by the window's name, to the EVENTs."""
        for each in self.events:
            each.move(items[each.group.window])


def maintained_matches(evaluators: Sequence[MatchEvaluator]) -> tuple[MaintainedMatch | None, ...]:
    """The incremental operators of MATCH blocks, in their order; None for a block that has none."""
    return tuple(MaintainedMatch(each) if is_plain(each.block) else None for each in evaluators)


def is_plain(block: MatchBlock) -> bool:
    """True for a block of EVENTs and plain SEQs without CONSUMING."""
    return not block.consuming and all(_has_no_choice(each) for each in _parts(block.events))


def _has_no_choice(events: EventPattern) -> bool:
    return isinstance(events, PlainGroup) or (isinstance(events, Ordered) and events.policy is SequencePolicy.UNRESTRICTED)


def _parts(events: EventPattern) -> Iterator[EventPattern]:
    yield events
    if isinstance(events, Ordered):
        yield from _parts(events.left)
        yield from _parts(events.right)
