"""The sink of the query: collects the few rows of a batch on the driver, merges their contents, and
writes files named by the batch number."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from threading import Lock
from typing import Final

from pyspark.sql import DataFrame

from dotr.errors.diagnostics import DotrError
from dotr.errors.fallbacks import drain_fallbacks
from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock, Micros
from dotr.runtimes.monitoring.dead_letter_log import LOG, WARNINGS_PER_KIND, WarningLimiter
from dotr.runtimes.monitoring.totals import ReportTotals, Totals
from dotr.runtimes.spark.exchange.rows import (
    BucketSize,
    RowKind,
    decode_dead_letters,
    decode_fallbacks,
    decode_firings,
    decode_inconsistencies,
    decode_size,
    decode_totals,
    encode_dead_letters,
    encode_totals,
)
from dotr.runtimes.spark.exchange.spilled_rows import DEAD_LETTERS, FIRINGS, MergedRuns, RunPlace, blocks, remove_runs, run_place
from dotr.runtimes.spark.tasks.outputs import ExecutorOutputs
from dotr.temporal.layout.layers import Layout
from dotr.temporal.stage_two import AT_THE_CLAUSE, described_clause

_DESTINATION_SECONDS: Final = 0.5
"""Time that brokers and servers still have to take a batch when the run is stopped."""

WriteBatch = Callable[[int, Iterable[Sequence[Firing]], Iterable[DeadLetter]], Sequence[DeadLetter] | None]
"""Writes the batch of a number; the firings are in blocks of whole instants. Firings and dead letters
can be read several times. Idempotent: a batch whose number is already written is not written again.
Returns the dead letters of firings that a sink cannot accept; they are among those written."""

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
    - `cut_rules`: the rules whose branches may be in several buckets; each anchor of theirs has one
      dead letter.
    - `executors`: the outputs that executors write (None: there are none).
    - `on_due`: receives the least time (µs) at which the state acts without arrivals after a batch
      (None: never), before the batch is committed; None where no clock asks for it.

    `failure` is the error that ended the last batch, `batch_written` whether a batch is written,
    and `last_batch` Spark's number of the batch that ends the stream. Setting `abandoned` ends the
    writing under way; `stopped_at`, the time of the monotonic clock at which the run was stopped,
    lets a broker or server that does not answer end it. `begun` is Spark's number of the last batch
    that began to be written.
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
        cut_rules: Sequence[Rule] = (),
        on_due: Callable[[Micros | None], None] | None = None,
        executors: ExecutorOutputs | None = None,
    ) -> None:
        self._executors = executors
        self._cut_rules = cut_rules
        self._on_due = on_due
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
        self.stopped_at: float | None = None
        self.begun: int | None = None
        self._held, self._beginning = False, Lock()

    def __call__(self, batch: DataFrame, number: int) -> None:
        with self._beginning:
            if self._held and number != self.begun:
                raise BatchAbandoned
            self.begun = number
        try:
            if self._executors:
                rows = self._executors.write(batch, self._first + number)
            else:
                rows = [(row.kind, bytes(row.payload)) for row in batch.select("kind", "payload").collect()]
            self.process(number, rows)
            if self._on_due is not None:
                self._on_due(min((int(payload) for kind, payload in rows if kind == RowKind.DUE), default=None))
        except Exception as error:
            self.failure = error
            raise
        finally:
            if self._executors:
                self._executors.release()

    def hold(self) -> None:
        """Let no batch begin but the last one that did, which may be repeated."""
        with self._beginning:
            self._held = True

    def write_letters(self, number: int, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters between two batches of the query. `number` is Spark's number of the next
        one, whose files have the number after that of these letters."""
        counted = Totals(dead_letters=Counter(letter.reason for letter in letters))
        self.process(number, [(RowKind.DEAD, encode_dead_letters(letters)), (RowKind.COUNTS, encode_totals(counted))])
        self._first, self._last = self._first + 1, None

    def process(self, number: int, rows: Iterable[tuple[int, bytes]]) -> None:
        """Merge and write the rows of a batch, each as its kind and payload, and report its totals.
        `number` is Spark's."""
        firings: list[Firing] = []
        dead_letters: list[DeadLetter] = []
        runs: list[RunPlace] = []
        dead_runs: list[RunPlace] = []
        sizes: list[BucketSize] = []
        counted = Totals()
        fallbacks = drain_fallbacks()
        for kind, payload in rows:
            if kind in (RowKind.FIRINGS, RowKind.ELEMENTS):
                firings += decode_firings(payload)
            elif kind in (RowKind.RUN, RowKind.ELEMENT_RUN):
                runs.append(run_place(payload))
            elif kind == RowKind.DEAD:
                dead_letters += decode_dead_letters(payload)
            elif kind == RowKind.DEAD_RUN:
                dead_runs.append(run_place(payload))
            elif kind == RowKind.SHOWN:
                for letter in decode_dead_letters(payload):
                    self._warnings.report_dead_letter(self._display(letter))
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
        written = _WrittenFirings(MergedRuns(FIRINGS, firings, runs), self.check_abandoned)
        reported = _ReportedLetters(MergedRuns(DEAD_LETTERS, dead_letters, dead_runs), self._display, self._warnings, self._cut_rules)
        refused = self._write(self._first + number, written, reported) or ()
        reported.report()
        for folder in {path.parent for path in (*runs, *dead_runs)}:
            remove_runs(folder)
        for each in fallbacks:
            self._warnings.report_fallback(each)
        shown = [self._display(DeadLetter(Reason.LATE, each.input, each.file, each.line, None, "", "")) for each in counted.repeated_hours]
        self._warnings.report_repeated_hours(
            each._replace(file=letter.file) for each, letter in zip(counted.repeated_hours, shown, strict=True)
        )
        counted = replace(counted, repeated_hours=())
        for letter in refused:
            self._warnings.report_dead_letter(letter)
        if refused:
            counted += Totals(dead_letters=Counter(letter.reason for letter in refused))
        counted += Totals(dead_letters={reason: -number for reason, number in reported.duplicates.items()})
        counted += Totals(fallbacks=sum(each.times for each in fallbacks))
        if self._last is None or self._last[0] != number:
            self._last = number, self.totals
        self.totals = self._last[1] + counted
        self.batch_written = True
        self._on_written(number, counted, sizes)
        self._progress(self.totals)

    def report_ahead(self, ahead: tuple[str, str, int, Micros]) -> None:
        """Log an element that is far ahead of the machine's time: its input, file, line and time."""
        name, file, line, time = ahead
        letter = self._display(DeadLetter(Reason.CLOCK, name, file, line, time, "", ""))
        self._warnings.report_ahead(letter.file, letter.line, time, self._clock)

    def check_abandoned(self) -> None:
        """Raise `BatchAbandoned` where the run is stopped without waiting for the batch."""
        if self.abandoned:
            raise BatchAbandoned

    def check_destination(self) -> None:
        """Raise `BatchAbandoned` where a broker or server has not taken the batch soon after a
        stop."""
        self.check_abandoned()
        if self.stopped_at is not None and time.monotonic() >= self.stopped_at + _DESTINATION_SECONDS:
            LOG.warning("An output does not take the batch under way: it is left, and done again at the next start.")
            self.abandoned = True
            raise BatchAbandoned


class _WrittenFirings:
    """The firings of a batch in blocks, which can be read several times. `check` is called before each
    block."""

    def __init__(self, firings: Iterable[Firing], check: Callable[[], None]) -> None:
        self._firings = firings
        self._check = check

    def __iter__(self) -> Iterator[Sequence[Firing]]:
        for block in blocks(self._firings):
            self._check()
            yield block


class _ReportedLetters:
    """The dead letters of a batch with display paths, the first of each kind logged as warnings
    when they are first read. Empty messages are only counted. Where several buckets report the same
    anchor of a cut rule, one dead letter is kept; `duplicates` counts the others once all are read.
    """

    def __init__(
        self,
        letters: Iterable[DeadLetter],
        display: Callable[[DeadLetter], DeadLetter],
        warnings: WarningLimiter,
        cut_rules: Sequence[Rule] = (),
    ) -> None:
        self._letters = letters
        self._cut_rules = cut_rules
        self.duplicates: Mapping[Reason, int] = {}
        self._display = display
        self._warnings = warnings
        self._reported = 0
        self._is_read = False

    def __iter__(self) -> Iterator[DeadLetter]:
        written: Iterable[DeadLetter] = (letter for letter in self._letters if letter.reason is not Reason.EMPTY)
        found, kept = Counter[Reason](), Counter[Reason]()
        if self._cut_rules:
            written = one_letter_per_anchor_by_rule(_counted(written, found), self._cut_rules)
        for number, letter in enumerate(map(self._display, written)):
            if number >= self._reported:
                self._reported = number + 1
                self._warnings.report_dead_letter(letter)
            if self._cut_rules:
                kept[letter.reason] += 1
            yield letter
        self._is_read = True
        self.duplicates = found - kept

    def report(self) -> None:
        """Log the warnings where no sink has read the dead letters."""
        if not self._is_read:
            for _ in self:
                pass


def _counted(letters: Iterable[DeadLetter], found: Counter[Reason]) -> Iterator[DeadLetter]:
    """The dead letters, counted by reason as they pass."""
    for letter in letters:
        found[letter.reason] += 1
        yield letter


# Deduplication of dead letters of rules that are cut into stages: one an anchor (semantics.md, 8).
#
# Idea: the bindings of one anchor are in several buckets, and each bucket may exceed a limit or fail.
# Of equal dead letters one is written; of dead letters for one anchor and several clauses, that of
# the clause that is first in the rule, which an uncut rule would report.

_OF_RULES: Final = (Reason.LIMIT, Reason.FAILED)


def cut_rules(layout: Layout) -> list[Rule]:
    """The rules of a layout that are cut into stages."""
    return [placed.rule for layer in layout.layers for placed in layer.rules if placed.stage.is_last and not placed.stage.is_whole]


def one_letter_per_anchor(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> list[DeadLetter]:
    """Dead letters of one batch, with one for each anchor of a rule.

    Args:
        letters: the dead letters of all buckets and layers.
        rules: the rules of the program.

    Returns:
        the letters in their order, without further ones for the same anchor.

    >>> late = DeadLetter(Reason.LATE, "a", "a.csv", 7, 12, "x", "why")
    >>> failed = DeadLetter(Reason.FAILED, "rule R", "r.dotr", 3, 12, "{}", "rule R fails at it: no")
    >>> one_letter_per_anchor([late, failed, late, failed], []) == [late, failed, late]
    True
    """
    position_of_clause = {
        (f"rule {rule.name}", described_clause(clause)): number for rule in reversed(rules) for number, clause in enumerate(rule.clauses)
    }
    kept: list[DeadLetter] = []
    first: dict[tuple[Reason, str, Micros | None, str, str], tuple[int, int]] = {}  # the index in `kept`, and the position of the clause
    for letter in letters:
        if letter.reason not in _OF_RULES or not letter.input.startswith("rule "):
            kept.append(letter)
            continue
        anchor, _, clause = letter.why.rpartition(AT_THE_CLAUSE) if letter.reason is Reason.LIMIT else (letter.why, "", "")
        key = letter.reason, letter.input, letter.time, letter.text, anchor
        position = position_of_clause.get((letter.input, clause), 0)
        known = first.get(key)
        if known is None:
            first[key] = len(kept), position
            kept.append(letter)
        elif position < known[1]:
            first[key] = known[0], position
            kept[known[0]] = letter
    return kept


def one_letter_per_anchor_by_rule(letters: Iterable[DeadLetter], rules: Sequence[Rule]) -> Iterator[DeadLetter]:
    """Dead letters of one batch, sorted by input, with one for each anchor of some rules; others
    are yielded unchanged. The letters of only one rule at a time are in memory."""
    inputs = {f"rule {rule.name}" for rule in rules}
    for source, group in groupby(letters, attrgetter("input")):
        if source in inputs:
            yield from one_letter_per_anchor(group, rules)
        else:
            yield from group
