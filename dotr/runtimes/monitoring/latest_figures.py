"""Latest figures of a run: written by the run, read by any thread.

Invariant: totals and progress are immutable and replaced as a whole, so a reader never sees a
partial update.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dotr.model.time import Clock
from dotr.runtimes.monitoring.progress import RunProgress
from dotr.runtimes.monitoring.totals import Totals


@dataclass(frozen=True, slots=True)
class Figures:
    """Totals and progress of a run at one moment.

    - `pipeline`, `engine`: the names of the pipeline and the runtime.
    - `seconds`: since the start of the run.
    - `rules`: the names of the rules, in the order of the files.
    - `clock`: the format of the pipeline's times.
    """

    pipeline: str
    engine: str
    seconds: float
    totals: Totals = field(default_factory=Totals)
    progress: RunProgress = field(default_factory=RunProgress)
    rules: tuple[str, ...] = ()
    clock: Clock = field(default_factory=Clock)


class LatestFigures:
    """Holder of the latest figures.

    `clock`, `rules` and the callback `on_change` are set by the run. `on_change` is called after
    each update of the totals, in the thread of the run.
    """

    def __init__(self, pipeline: str, engine: str) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._started = time.monotonic()
        self._totals = Totals()
        self._progress = RunProgress()
        self.clock = Clock()
        self.rules: tuple[str, ...] = ()
        self.on_change: Callable[[], None] = lambda: None

    def update_totals(self, totals: Totals) -> None:
        """Replace the totals, and call `on_change`."""
        self._totals = totals
        self.on_change()

    def update_progress(self, progress: RunProgress) -> None:
        """Replace the progress; an update of the totals follows, which calls `on_change`."""
        self._progress = progress

    def read(self) -> Figures:
        """The figures of this moment; callable in any thread."""
        return Figures(self._pipeline, self._engine, time.monotonic() - self._started, self._totals, self._progress, self.rules, self.clock)
