"""Events of a program's units in words, whatever their language.

Each kind of unit has one writer; a reason within another one is written by the writer of its unit.
A unit of another language is one more case of each function here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from dotr.explanations.firing_text import FiringWriter
from dotr.explanations.firings import AnyFiring, NamedFiring, UnitFiring
from dotr.explanations.proofs import TripleProof
from dotr.explanations.reason_text import ReasonWriter
from dotr.explanations.reasons import FactReason, FiringReason, ReportReason, SourceReason, UnitReason
from dotr.explanations.replay import ElementPlace, Replay
from dotr.explanations.why_tree import WhyTree
from dotr.model.time import Micros

if TYPE_CHECKING:  # loaded where a program has a query
    from dotr.explanations.report_text import ReportWriter


class UnitWriter:
    """Writer of the events of units as trees.

    Args:
        replay: the replay, for the form of times and the places of rules.
        reasons: the writer of facts and triples.
        places: the places of the elements of a time.
    """

    def __init__(self, replay: Replay, reasons: ReasonWriter, places: Callable[[Micros], Sequence[ElementPlace]]) -> None:
        self._replay = replay
        self._reasons = reasons
        self._firings = FiringWriter(replay, reasons, places, self._tree)
        self._of_reports: ReportWriter | None = None

    @property
    def _reports(self) -> ReportWriter:
        if self._of_reports is None:
            from dotr.explanations.report_text import ReportWriter

            self._of_reports = ReportWriter(self._replay, self._reasons, self._tree)
        return self._of_reports

    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event."""
        self._name_blanks(reason)
        return self._tree(reason)

    def headline(self, firing: AnyFiring) -> str:
        """An event in one line: its label, time, name and attributes."""
        match firing:
            case NamedFiring():
                return self._firings.headline(firing)
            case UnitFiring():
                return self._reports.headline(firing)
            case _:
                assert_never(firing)

    def _tree(self, reason: UnitReason) -> WhyTree:
        match reason:
            case FiringReason():
                return self._firings.tree(reason)
            case ReportReason():
                return self._reports.tree(reason)
            case _:
                assert_never(reason)

    def _name_blanks(self, reason: SourceReason) -> None:
        """Name blank nodes after the variables of the queries, in the order of the tree."""
        match reason:
            case FactReason():
                self._reasons.name_blanks(reason.evidence)
            case FiringReason():
                for source in reason.sources.values():
                    self._name_blanks(source)
            case ReportReason():
                self._reports.name_blanks(reason)
                for made in reason.made.values():
                    self._name_blanks(made)
            case _:
                assert_never(reason)


def proofs_of(reason: SourceReason) -> Iterator[TripleProof]:
    """The proofs of all triples that an event, and the events below it, used."""
    match reason:
        case FactReason():
            yield from reason.proofs.values()
        case FiringReason():
            for source in reason.sources.values():
                yield from proofs_of(source)
        case ReportReason():
            for solution in reason.solutions:
                yield from solution.proofs.values()
            for made in reason.made.values():
                yield from proofs_of(made)
        case _:
            assert_never(reason)
