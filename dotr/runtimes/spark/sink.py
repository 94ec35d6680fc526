"""The sink of the query: collects the few rows of a batch on the driver, merges their contents, and
writes files named by the batch number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from dotr.errors.diagnostics import DotrError
from dotr.errors.fallbacks import drain_fallbacks
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock
from dotr.monitoring.dead_letter_log import WARNINGS_PER_KIND, WarningLimiter
from dotr.monitoring.totals import ReportTotals, Totals
from dotr.runtimes.spark.rows import (
    BucketSize,
    RowKind,
    decode_dead_letters,
    decode_fallbacks,
    decode_firings,
    decode_inconsistencies,
    decode_size,
    decode_totals,
)
from dotr.runtimes.spark.spilled_rows import DEAD_LETTERS, FIRINGS, blocks, merge_runs, remove_runs, run_path

WriteBatch = Callable[[int, Iterator[Sequence[Firing]], Iterator[DeadLetter]], None]
"""Writes a batch by number; the firings come in blocks of whole instants. Idempotent: the files are
named by the batch number."""

OnBatchWritten = Callable[[int, Totals, Sequence[BucketSize]], None]
"""Called after a batch is written, with its number, its totals, and the sizes of the buckets that
it changed."""


def ignore_totals(number: int, counted: Totals, sizes: Sequence[BucketSize]) -> None:
    """Discard the totals."""


class BatchAbandoned(DotrError):
    """Raised to end the writing of a batch when the run is stopped."""


class Sink:
    """The function that Spark calls once per batch, or again with the same number after a crash.

    Parameters:
    - `write`: writes the firings and dead letters of a batch.
    - `progress`: receives the totals of this run after each batch.
    - `display`: maps the path of a dead letter to the user's path.
    - `clock`: the format of times in warnings.
    - `first`: the number of the query's first batch, which Spark numbers 0.
    - `on_written`: receives the figures of each written batch.
    - `warning_limit`: the number of dead letters of a kind that are shown as warnings.

    `failure` is the error that ended the last batch, `batch_written` whether a batch is written,
    and `last_batch` Spark's number of the batch that ends the stream. Setting `abandoned` ends the
    writing under way.
    """

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
        """Merge and write the rows of a batch, and report its totals."""
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

    def _until_abandoned(self, blocks: Iterable[Sequence[Firing]]) -> Iterator[Sequence[Firing]]:
        for block in blocks:
            if self.abandoned:
                raise BatchAbandoned
            yield block

    def _reported(self, dead_letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Dead letters with display paths; the first of each kind are logged as warnings. Empty messages
        are only counted.
        """
        for letter in map(self._display, dead_letters):
            if letter.reason is Reason.EMPTY:
                continue
            self._warnings.report_dead_letter(letter)
            yield letter


class _CountedFirings:
    """An iterable of firings that counts them and their dropped triples."""

    def __init__(self, firings: Iterable[Sequence[Firing]]) -> None:
        self._firings = firings
        self.events = self.dropped = 0

    def __iter__(self) -> Iterator[Sequence[Firing]]:
        for block in self._firings:
            self.events += len(block)
            self.dropped += sum(firing.dropped for firing in block)
            yield block
