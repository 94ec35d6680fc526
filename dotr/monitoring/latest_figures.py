"""The latest figures of a run, for those who ask while it goes on: the run writes, any thread reads.

Invariant: a reading is of one moment: totals and standing are replaced whole, never changed in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dotr.model.time import Clock
from dotr.monitoring.progress import RunProgress
from dotr.monitoring.totals import Totals


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run has done, and where it stands, so many seconds after its start. `clock` is how the pipeline writes time."""

    pipeline: str
    engine: str
    seconds: float
    totals: Totals = field(default_factory=Totals)
    progress: RunProgress = field(default_factory=RunProgress)
    clock: Clock = field(default_factory=Clock)


class LatestFigures:
    """Holds the latest figures; `heard` is called when there are new totals."""

    def __init__(self, pipeline: str, engine: str) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._started = time.monotonic()
        self._totals = Totals()
        self._progress = RunProgress()
        self.clock = Clock()
        self.on_change: Callable[[], None] = lambda: None

    def update_totals(self, totals: Totals) -> None:
        """Take the totals so far."""
        self._totals = totals
        self.on_change()

    def update_progress(self, standing: RunProgress) -> None:
        """Take where the run stands; the totals follow."""
        self._progress = standing

    def read(self) -> Figures:
        """The figures as they are now."""
        return Figures(self._pipeline, self._engine, time.monotonic() - self._started, self._totals, self._progress, self.clock)
