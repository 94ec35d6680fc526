"""Text of the events of a program's units, of any language.

Each language has one writer; reasons within other reasons are written by the writer of their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from dotr.engine.replay import ElementPlace, Replay
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.reasons import FactReason, FiringReason, SourceReason, UnitReason
from dotr.explanations.replay.firings import AnyFiring, NamedFiring, UnitFiring
from dotr.explanations.text.firing_text import FiringWriter
from dotr.explanations.text.reason_text import ReasonWriter
from dotr.explanations.text.tree import WhyTree, counted
from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
from dotr.explanations.unit import explained_unit
from dotr.model.time import Micros


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
        self._context = WriterContext(replay, reasons, self._tree, self.headline)

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
                return self._headline(firing)
            case _:
                assert_never(firing)

    def _headline(self, firing: UnitFiring) -> str:
        end = format_time(firing.time, self._replay.clock)
        name = f", {firing.names[0][1:-1]}" if firing.names else ""
        graph = "" if firing.graph is None else counted(len(firing.graph), "triple")
        text = ": ".join(filter(None, [f"{firing.label} at {end}{name}", self._reasons.attributes(firing.attributes) or graph]))
        if firing.start is None or firing.start == firing.time:
            return text
        return f"{text}; from {format_time(firing.start, self._replay.clock)} to {end}"

    def _tree(self, reason: UnitReason) -> WhyTree:
        return self._firings.tree(reason) if isinstance(reason, FiringReason) else self._writer(reason).tree(reason)

    def _writer(self, reason: UnitReason) -> UnitEventWriter:
        assert isinstance(reason.firing, UnitFiring)
        return explained_unit(reason.firing.unit).writer(self._context)

    def _name_blanks(self, reason: SourceReason) -> None:
        """Name blank nodes after the variables of the queries, in the order of the tree."""
        if isinstance(reason, FactReason):
            self._reasons.name_blanks(reason.evidence)
            return
        if not isinstance(reason, FiringReason):
            self._writer(reason).name_blanks(reason)
        for each in reason.below():
            self._name_blanks(each)
