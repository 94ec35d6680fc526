"""Coverage of units other than rules by the cases of rule tests.

A continuous query has three outcomes: a report, an event, a report without an event. Any other unit
has one outcome for each of its labels: an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dotr.explanations.replay.firings import FiringRecorder, UnitFiring
from dotr.explanations.replay.stream import Replay
from dotr.model.terms import Label
from dotr.temporal.layout.units import StreamQuery, units_by_label


@dataclass
class UnitCoverage:
    """The outcomes of a label of a unit.

    - `reports`: the number of reports; None: its language has none.
    - `events`: the number of its events; `empty_reports`: the number of reports without one.
    """

    label: Label
    file: str
    reports: int | None
    events: int = 0
    empty_reports: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """The outcomes that can occur."""
        return ("an event",) if self.reports is None else ("a report", "an event", "a report without an event")

    @property
    def missing(self) -> tuple[str, ...]:
        """The outcomes that never occurred."""
        occurred = {"an event": self.events, "a report": self.reports or 0, "a report without an event": self.empty_reports}
        return tuple(text for text in self.texts if not occurred[text])

    def line(self) -> str:
        """The label in a line.

        >>> UnitCoverage("Hot", "q.rspql", 3, events=2).line()
        'Hot: 3 reports, 2 events; never: a report without an event'
        """
        parts = [] if self.reports is None else [_counted(self.reports, "report")]
        never = f"; never: {', '.join(self.missing)}" if self.missing else ""
        return f"{self.label}: {', '.join([*parts, _counted(self.events, 'event')])}{never}"

    def report(self) -> dict[str, object]:
        """The label as plain data for JSON."""
        return {"unit": self.label, "file": self.file, "reports": self.reports, "events": self.events, "never": list(self.missing)}


def coverage_of_units(replay: Replay) -> Iterator[UnitCoverage]:
    """The outcomes of all units other than rules over one replay."""
    units = replay.program.units
    if not units:
        return
    recorder = FiringRecorder.of(replay, [unit.name for unit in units])
    events: dict[Label, int] = {}
    times: dict[Label, set[int]] = {}
    for firings in recorder.run():
        for each in firings:
            if isinstance(each, UnitFiring):
                events[each.label] = events.get(each.label, 0) + 1
                times.setdefault(each.label, set()).add(each.time)
    for label, unit in units_by_label(units).items():
        coverage = UnitCoverage(label, unit.span.document.name, None, events.get(label, 0))
        if isinstance(unit, StreamQuery):
            coverage.reports = len(recorder.records[label].reports)
            coverage.empty_reports = coverage.reports - len(times.get(label, ()))
        yield coverage


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
