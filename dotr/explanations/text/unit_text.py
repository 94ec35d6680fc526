"""Text of the events of a program's units, of any language.

Each language has one writer; reasons within other reasons are written by the writer of their unit.
A further language is a further case of each function here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.proofs import TripleProof
from dotr.explanations.evidence.reasons import (
    FactReason,
    FiringReason,
    IntervalReason,
    LarsEventReason,
    PointAtom,
    ReportReason,
    SourceReason,
    UnitReason,
    lars_nodes,
)
from dotr.explanations.replay.firings import AnyFiring, NamedFiring, UnitFiring
from dotr.explanations.replay.stream import ElementPlace, Replay
from dotr.explanations.text.firing_text import FiringWriter
from dotr.explanations.text.reason_text import ReasonWriter
from dotr.explanations.text.tree import WhyTree
from dotr.model.time import Micros

if TYPE_CHECKING:  # loaded only for programs with such units
    from dotr.languages.continuous.explanation.text import ReportWriter
    from dotr.languages.epsparql.explanation.text import IntervalWriter
    from dotr.languages.lars.explanation.text import LarsWriter


class UnitWriter:
    """Writer of the events of units as trees.

    Args:
        replay: the replay, for the form of times and the places of rules.
        reasons: the writer of facts and triples.
        places: the places of the elements at a time in µs since 1970.
    """

    def __init__(self, replay: Replay, reasons: ReasonWriter, places: Callable[[Micros], Sequence[ElementPlace]]) -> None:
        self._replay = replay
        self._reasons = reasons
        self._firings = FiringWriter(replay, reasons, places, self._tree)
        self._of_reports: ReportWriter | None = None
        self._of_points: LarsWriter | None = None
        self._of_intervals: IntervalWriter | None = None

    @property
    def _reports(self) -> ReportWriter:
        if self._of_reports is None:
            from dotr.languages.continuous.explanation.text import ReportWriter

            self._of_reports = ReportWriter(self._replay, self._reasons, self._tree)
        return self._of_reports

    @property
    def _points(self) -> LarsWriter:
        if self._of_points is None:
            from dotr.languages.lars.explanation.text import LarsWriter

            self._of_points = LarsWriter(self._replay, self._reasons, self._tree, self.headline)
        return self._of_points

    @property
    def _intervals(self) -> IntervalWriter:
        if self._of_intervals is None:
            from dotr.languages.epsparql.explanation.text import IntervalWriter

            self._of_intervals = IntervalWriter(self._replay, self._reasons, self._tree, self.headline)
        return self._of_intervals

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
                text = self._reports.headline(firing)
                if firing.start is None or firing.start == firing.time:
                    return text
                start, end = (format_time(time, self._replay.clock) for time in (firing.start, firing.time))
                return f"{text}; from {start} to {end}"
            case _:
                assert_never(firing)

    def _tree(self, reason: UnitReason) -> WhyTree:
        match reason:
            case FiringReason():
                return self._firings.tree(reason)
            case ReportReason():
                return self._reports.tree(reason)
            case LarsEventReason():
                return self._points.tree(reason)
            case IntervalReason():
                return self._intervals.tree(reason)
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
            case LarsEventReason():
                self._points.name_blanks(reason)
                for source in made_in(reason):
                    self._name_blanks(source)
            case IntervalReason():
                self._intervals.name_blanks(reason)
                for part in reason.parts:
                    if part.source is not None:
                        self._name_blanks(part.source)
            case _:
                assert_never(reason)


def proofs_of(reason: SourceReason) -> Iterator[TripleProof]:
    """The proofs of all triples in the evidence of an event and of the events below it."""
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
        case LarsEventReason():
            yield from (atom.proof for atom in point_atoms(reason) if atom.proof is not None)
            for source in made_in(reason):
                yield from proofs_of(source)
        case IntervalReason():
            for part in reason.parts:
                if part.source is not None:
                    yield from proofs_of(part.source)
        case _:
            assert_never(reason)


def point_atoms(reason: LarsEventReason) -> Iterator[PointAtom]:
    """The atoms of the stream and of the background at the leaves of an event's derivations."""
    for node in lars_nodes(reason):
        yield from node.points


def made_in(reason: LarsEventReason) -> Iterator[SourceReason]:
    """The reasons of the events in the derivations of an event of a LARS file."""
    yield from (atom.made for atom in point_atoms(reason) if atom.made is not None)
