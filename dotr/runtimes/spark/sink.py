"""The end of a batch: its few rows come to the driver, what they bring is put in order, and is written as files named by the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from dotr.errors.diagnostics import DotrError
from dotr.errors.fallbacks import drain_fallbacks
from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.monitoring.dead_letter_log import WARNINGS_PER_KIND, WarningLimiter
from dotr.monitoring.totals import ReportTotals, Totals
from dotr.runtimes.spark.rows import BucketSize, RowKind, decode_totals, decode_dead_letters, decode_firings, decode_fallbacks, decode_inconsistencies, decode_size
from dotr.runtimes.spark.spilled_rows import FIRINGS, DEAD_LETTERS, blocks, remove_runs, merge_runs, run_path

WriteBatch = Callable[[int, Iterator[Sequence[Firing]], Iterator[DeadLetter]], None]
"""Writes a batch under its number, firings some whole instants at a time; the same batch twice leaves what once leaves."""

OnBatchWritten = Callable[[int, Totals, Sequence[BucketSize]], None]
"""Told of a batch that is written: its number, what it counted, and how much the buckets hold that it changed."""


def ignore_totals(number: int, counted: Totals, sizes: Sequence[BucketSize]) -> None:
    """Nobody asks."""


class BatchAbandoned(DotrError):
    """The run has been stopped, and the batch is not written to its end."""


class Sink:
    """Called by Spark once a batch, or again with the same number after a crash. `failure` is what stopped it; `begun`: a batch is
    written. `names` gives a dead
    letter the file's name as the user knows it. `first` is the number under which the query's first batch is written. `ended` is Spark's
    number of the batch that was the last. `told`: of so many dead letters of a kind the user is told as they come. Once it is `left`, what
    is being written is not written to its end."""

    def __init__(
        self,
        write: WriteBatch,
        progress: ReportTotals,
        display: Callable[[DeadLetter], DeadLetter],
        clock: Clock,
        first: int = 0,
        on_written: OnBatchWritten = ignore_totals,
        warning_limit: int = WARNINGS_PER_KIND,
    ) -> None:
        self._first = first
        self._write = write
        self._progress = progress
        self._display = display
        self._clock = clock
        self._on_written = on_written
        self._warnings = WarningLimiter(warning_limit)
        self._last: tuple[int, Totals] | None = None
        self.totals = Totals()
        self.batch_written = False
        self.failure: Exception | None = None
        self.last_batch: int | None = None
        self.abandoned = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        try:
            self.process(number, [(row.kind, bytes(row.payload)) for row in batch.select("kind", "payload").collect()])
        except Exception as error:
            self.failure = error
            raise

    def process(self, number: int, rows: Iterable[tuple[int, bytes]]) -> None:
        """Puts a batch's rows in order, writes them, and tells of them."""
        firings: list[Firing] = []
        dead_letters: list[DeadLetter] = []
        runs: list[Path] = []
        dead_runs: list[Path] = []
        sizes: list[BucketSize] = []
        counted = Totals()
        fallbacks = drain_fallbacks()
        for kind, payload in rows:
            if kind == RowKind.FIRINGS:
                firings += decode_firings(payload)
            elif kind == RowKind.RUN:
                runs.append(run_path(payload))
            elif kind == RowKind.DEAD:
                dead_letters += decode_dead_letters(payload)
            elif kind == RowKind.DEAD_RUN:
                dead_runs.append(run_path(payload))
            elif kind == RowKind.INCONSISTENT:
                for time, clash in decode_inconsistencies(payload):
                    self._warnings.report_inconsistency(time, clash, self._clock)
            elif kind == RowKind.FALLBACKS:
                fallbacks += decode_fallbacks(payload)
            elif kind == RowKind.ENDED:
                self.last_batch = number
            elif kind == RowKind.STATE:
                sizes.append(decode_size(payload))
            elif kind == RowKind.COUNTS:
                counted += decode_totals(payload)
        written = _CountedFirings(self._until_abandoned(blocks(merge_runs(FIRINGS, firings, runs))))
        self._write(self._first + number, iter(written), self._reported(merge_runs(DEAD_LETTERS, dead_letters, dead_runs)))
        for folder in {path.parent for path in (*runs, *dead_runs)}:
            remove_runs(folder)
        for each in fallbacks:
            self._warnings.report_fallback(each)
        counted += Totals(events=written.events, dropped=written.dropped, fallbacks=sum(each.times for each in fallbacks))
        if self._last is None or self._last[0] != number:
            self._last = number, self.totals
        self.totals = self._last[1] + counted
        self.batch_written = True
        self._on_written(number, counted, sizes)
        self._progress(self.totals)

    def _until_abandoned(self, firings: Iterable[Sequence[Firing]]) -> Iterator[Sequence[Firing]]:
        for block in firings:
            if self.abandoned:
                raise BatchAbandoned
            yield block

    def _reported(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Dead letters with the names of their files that the user knows; of the first ones he is told."""
        for letter in map(self._display, letters):
            self._warnings.report_dead_letter(letter)
            yield letter


class _CountedFirings:
    """Firings, counted as they pass."""

    def __init__(self, firings: Iterable[Sequence[Firing]]) -> None:
        self._firings = firings
        self.events = self.dropped = 0

    def __iter__(self) -> Iterator[Sequence[Firing]]:
        for block in self._firings:
            self.events += len(block)
            self.dropped += sum(firing.dropped for firing in block)
            yield block
