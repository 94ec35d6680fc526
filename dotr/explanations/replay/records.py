"""Records of units in a replay: what a unit's run passes on for explanations, by label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dotr.engine.unit_runs import EngineUnit, UnitRun
from dotr.model.stream import Firing
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.units import StreamUnit

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram


class UnitRecord:
    """Base of the records of units: one that has nothing to discard, and no starts of events.

    Attributes:
        report_count: the number of reports so far; None for a unit without reports.
    """

    @property
    def report_count(self) -> int | None:
        return None

    def start(self, firing: Firing, number: int) -> Micros | None:
        """The start of an event in µs since 1970, if the language has intervals; `number` is its
        position among equal events."""
        return None

    def count(self) -> int:
        """The number of elements that are kept and may be discarded."""
        return 0

    def discard_before(self, before: Micros) -> None:
        """Remove the elements before a time (µs since 1970)."""
        return


class RecordedUnit(EngineUnit):
    """A unit as a recorder of firings knows it."""

    __slots__ = ()

    @abstractmethod
    def records(self, run: UnitRun, program: CompiledProgram, clock: Clock) -> Mapping[Label, UnitRecord]:
        """New records of the unit's labels, which a run of the unit notifies from now on.

        Args:
            run: the run, before its first moment.
            program: the program that the unit is a part of.
            clock: the form of times in terms.
        """

    def reach(self) -> Micros | None:
        """The maximum age in µs of elements that an event or its explanation reads; None:
        unbounded."""
        return None

    def shown(self, attributes: Mapping[Variable, Term]) -> Mapping[Variable, Term]:
        """The attributes of an event in the order of its text."""
        return attributes


def recorded_unit(unit: StreamUnit) -> RecordedUnit:
    """A unit of the layout as a recorder knows it.

    Raises:
        TypeError: the class of the unit has no records.
    """
    if not isinstance(unit, RecordedUnit):
        raise TypeError(f"there is no record of a {type(unit).__name__}")
    return unit
