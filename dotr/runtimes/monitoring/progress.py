"""Progress of a run in event time: closed instants, watermarks and lags of inputs, stored events.

The watermark of an input is a time such that no element of it or an earlier time follows
(semantics.md, section 6). The lag of an input is the distance of its watermark from the greatest
one; the input with the greatest lag delays the others. Both are in event time, independent of the
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.terms import Label
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.runtimes.monitoring.totals import Totals
from dotr.streams.sinks.batches import ServedCounts
from dotr.temporal.layout.layers import Layer


@dataclass(frozen=True, slots=True)
class InputProgress:
    """Progress of an input, by its name in the configuration.

    - `watermark`: µs since 1970; None before the first record.
    - `ended`: True if all of the input is read.
    - `connected`: True while its broker answers, or its server listens; None where it has neither.
    """

    name: str
    watermark: Micros | None
    ended: bool = False
    connected: bool | None = None


@dataclass(frozen=True, slots=True)
class StoredCount:
    """Number of events of a label that a layer of rules has stored."""

    layer: int
    label: str
    events: int


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Figures of Spark's last batch: number, ms, rows and memory (bytes) of its state stores."""

    number: int
    milliseconds: int
    state_rows: int
    state_memory: int


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run at one moment.

    - `closed`: all instants up to this time (µs since 1970) are closed and processed; None: none
      is.
    - `state_bytes`: bytes of the state as written; None in process.
    - `batch`: the last batch on Spark; None in process.
    - `heartbeat`: the last heartbeat of the clock (µs since 1970); None: there was none.
    - `served`: the counts of the streams that outputs serve, which go on.
    """

    closed: Micros | None = None
    inputs: Sequence[InputProgress] = ()
    stored: Sequence[StoredCount] = ()
    state_bytes: int | None = None
    batch: BatchFigures | None = None
    heartbeat: Micros | None = None
    served: Sequence[ServedCounts] = ()

    def lag(self, each: InputProgress) -> Micros | None:
        """Lag of an input in µs: 0 once it has ended, None before its first record.

        >>> slow, fast, new = InputProgress("slow", 5), InputProgress("fast", 12), InputProgress("new", None)
        >>> progress = RunProgress(inputs=[slow, fast, new])
        >>> progress.lag(slow), progress.lag(fast), progress.lag(new)
        (7, 0, None)
        """
        if each.watermark is None:
            return None
        return 0 if each.ended else max(0, max(other.watermark for other in self.inputs if other.watermark is not None) - each.watermark)


ReportProgress: TypeAlias = Callable[[RunProgress], None]
"""Callback that receives the progress of a run from time to time."""


def ignore_progress(progress: RunProgress) -> None:
    """Discard the progress."""


def with_served(report: ReportProgress, served: Callable[[], Sequence[ServedCounts]]) -> ReportProgress:
    """A callback that adds the counts of served streams to the progress; `report` itself where it
    discards the progress."""
    return report if report is ignore_progress else lambda progress: report(replace(progress, served=served()))


def progress_by_input(
    files: Iterable[tuple[str, Micros, bool]], closed: Micros | None, connections: Mapping[str, bool] | None = None
) -> tuple[InputProgress, ...]:
    """Progress of inputs, in the order of their first files.

    Each of `files` has the name of its input, its watermark (µs since 1970), and True if it has
    ended. The watermark of an input is the smallest of its files that have not ended, and at least
    `closed`. `connections` has `InputProgress.connected` by input.

    >>> progress_by_input([("a", 5, False), ("a", 9, False), ("b", 3, True)], 4)
    (InputProgress(name='a', watermark=5, ended=False, connected=None), InputProgress(name='b', watermark=4, ended=True, connected=None))
    """
    by_name: dict[str, list[tuple[Micros, bool]]] = {}
    for name, watermark, ended in files:
        by_name.setdefault(name, []).append((watermark, ended))
    inputs = []
    for name, each in by_name.items():
        open_files = [watermark for watermark, ended in each if not ended]
        watermark = min(open_files) if open_files else max(watermark for watermark, _ in each)
        if closed is not None and abs(closed) < LAST_MICRO:
            watermark = max(watermark, closed)
        inputs.append(
            InputProgress(name, watermark if abs(watermark) < LAST_MICRO // 2 else None, not open_files, (connections or {}).get(name))
        )
    return tuple(inputs)


def port_labels(layers: Sequence[Layer]) -> tuple[tuple[str, ...], ...]:
    """Labels of the ports of each layer: the queries or events that rules read at the port, or the
    unit of another language that reads it."""
    return tuple(map(_labels, layers))


def _labels(layer: Layer) -> tuple[str, ...]:
    origins: list[set[Label]] = [set() for _ in layer.ports]
    for placed in layer.rules:
        for role, port in placed.roles:
            origins[port].add(role.origin)
        if placed.once is not None:
            origins[placed.once].add(f"once of {placed.rule.name}")
        if placed.stage.enters is not None:
            origins[placed.ports[0]].add(f"bindings of {placed.rule.name}")
    for unit in layer.units:
        for port in unit.ports:
            origins[port].add(f"{unit.unit.noun} {unit.unit.name}")
    return tuple(map(_joined, map(sorted, origins)))


def _joined(names: Sequence[Label]) -> str:
    """Names as one text, of which three are shown.

    >>> _joined(["A", "B"]), _joined(["A", "B", "C", "D"])
    ('A, B', 'A, B, C and 1 more')
    """
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def stored_events(labels: Sequence[Sequence[str]], counts: Sequence[Sequence[int]]) -> tuple[StoredCount, ...]:
    """Stored events by layer and label, summed over ports of one label, without zero counts.

    `labels` and `counts` are parallel: a sequence for each layer, with an item for each port.

    >>> stored_events([["A", "B", "B"]], [[0, 2, 3]])
    (StoredCount(layer=0, label='B', events=5),)
    """
    events: dict[tuple[int, str], int] = {}
    for layer, (names, numbers) in enumerate(zip(labels, counts, strict=True)):
        for name, number in zip(names, numbers, strict=True):
            if number:
                events[layer, name] = events.get((layer, name), 0) + number
    return tuple(StoredCount(layer, name, number) for (layer, name), number in events.items())


# Latest figures of a run: written by the run, read by any thread.
#
# Invariant: totals and progress are immutable and replaced as a whole, so a reader never sees a
# partial update.


@dataclass(frozen=True, slots=True)
class Figures:
    """Totals and progress of a run at one moment.

    - `pipeline`, `engine`: the names of the pipeline and the runtime.
    - `seconds`: since the start of the run.
    - `rules`: the names of the rules, in the order of the files.
    - `clock`: the format of the pipeline's times.
    - `steps`: the names of the clauses of each rule, and `if`.
    """

    pipeline: str
    engine: str
    seconds: float
    totals: Totals = field(default_factory=Totals)
    progress: RunProgress = field(default_factory=RunProgress)
    rules: tuple[str, ...] = ()
    clock: Clock = field(default_factory=Clock)
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def step(self, rule: str, place: int) -> str:
        """The name of a clause of a rule by its place, from 1; of a unit in another language
        `FILTER`."""
        names = self.steps.get(rule, ())
        return names[place - 1] if 0 < place <= len(names) else "FILTER"


class LatestFigures:
    """Holder of the latest figures.

    `clock`, `rules`, `steps` and the callback `on_change` are set by the run. `on_change` is called
    after each update of the totals, in the thread of the run.
    """

    def __init__(self, pipeline: str, engine: str) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._started = time.monotonic()
        self._totals = Totals()
        self._progress = RunProgress()
        self.clock = Clock()
        self.steps: Mapping[str, Sequence[str]] = {}
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
        return Figures(
            self._pipeline, self._engine, time.monotonic() - self._started, self._totals, self._progress, self.rules, self.clock, self.steps
        )
