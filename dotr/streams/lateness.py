"""Admission of the elements of one input, by the order of that input alone (semantics.md, section
6).

A record is judged by its time (`Record.judged_time`), also where its graph cannot be read: a late
record is a dead letter with the reason `late`. Its graph is not parsed in formats whose time is
beside the graph (`TimeFilter`).
Invariant: the greatest time is the maximum over all records with a time so far; late ones never
change it. Every reader of inputs, in process and on Spark, judges by `Lateness.verdict`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.streams.records import InputFile, Record
from dotr.streams.times import date_times_in
from dotr.syntax.rendering import duration_text


class TimeFilter:
    """Filter of records by time, which spares a reader the graphs of all others.

    The graphs of late records, of second ones of a time, and of those outside of a range of time
    are not parsed. A reader computes the greatest time itself, and stores it in `greatest` at the
    end of a file, for the input's next file.

    Args:
        greatest: the greatest time before the first record, in µs since 1970.
        after, until: the range of times whose graphs are parsed, (after, until], in µs since 1970.
    """

    __slots__ = ("after", "greatest", "until")

    def __init__(self, greatest: Micros = -LAST_MICRO, after: Micros = -LAST_MICRO, until: Micros = LAST_MICRO) -> None:
        self.greatest = greatest
        self.after = after
        self.until = until

    def distance(self, file: InputFile) -> Micros:
        """The distance in µs from the greatest time at which a record is late, or second.

        With a greatest time g, records of (max(`after`, g - distance), `until`] pass the filter.

        >>> from dotr.streams.records import Format
        >>> file = InputFile("in", "", Format.NDJSON, delay=5)
        >>> TimeFilter().distance(file), EVERY_TIME.distance(file) > LAST_MICRO
        (6, True)
        """
        return file.delay + (not file.single) if self is not EVERY_TIME else 4 * LAST_MICRO

    def lowest(self, file: InputFile) -> Micros:
        """The time, in µs since 1970, above which the first record passes the filter."""
        return max(self.after, self.greatest - self.distance(file))

    def test_for(self, file: InputFile) -> Callable[[Micros], bool]:
        """The filter as a function of the times (µs since 1970) of consecutive messages, which
        updates `greatest`.

        >>> from dotr.streams.records import Format
        >>> passes = TimeFilter(after=2).test_for(InputFile("in", "", Format.NDJSON, delay=5))
        >>> [passes(time) for time in (2, 10, 5, 4, 11, 5)]
        [False, True, True, False, True, False]
        """
        if self is EVERY_TIME:
            return lambda time: True
        distance = self.distance(file)

        def is_wanted(time: Micros) -> bool:
            greatest = self.greatest
            if time > greatest:
                self.greatest = time
            return greatest - distance < time <= self.until and time > self.after

        return is_wanted


EVERY_TIME: Final = TimeFilter()
"""The filter that every record passes, late or not."""

BY_TIME: Final = frozenset((Reason.LATE, Reason.SECOND, Reason.IDLE))
"""The reasons that `Lateness.verdict` returns."""


class Lateness:
    """The watermark of one input, advanced by its records in their order.

    Args:
        delay: the declared lateness in µs: an element may arrive after one that is later by at most
            this.
        greatest: the greatest time before the first record, in µs since 1970.
        single: every element is an instant of its own, so an element closes its time, and a second
            one of that time is a dead letter. The delay is then 0.

    >>> lateness = Lateness(delay=5)
    >>> [lateness.verdict(time) for time in (10, 5, 4, 12, 8)] == [None, None, Reason.LATE, None, None]
    True
    >>> lateness.greatest, lateness.passed
    (12, 6)
    >>> one_each = Lateness(delay=0, single=True)
    >>> [one_each.verdict(time) for time in (10, 10, 12, 11)] == [None, Reason.SECOND, None, Reason.LATE]
    True
    >>> one_each.passed
    12
    """

    __slots__ = ("delay", "greatest", "single")

    def __init__(self, delay: Micros, greatest: Micros = -LAST_MICRO, *, single: bool = False) -> None:
        self.delay = delay
        self.greatest = greatest
        self.single = single

    def verdict(self, time: Micros, closed: Micros = -LAST_MICRO) -> Reason | None:
        """The reason why an element of this time is a dead letter, or None; advances the greatest
        time.

        `closed` (µs since 1970) is the last instant that closed while this input was idle.

        >>> Lateness(delay=5).verdict(7, closed=7)
        <Reason.IDLE: 'idle'>
        """
        greatest = self.greatest
        if time > greatest:
            self.greatest = time
        elif time == greatest:
            if self.single:
                return Reason.SECOND
        elif greatest - time > self.delay:
            return Reason.LATE
        return Reason.IDLE if time <= closed else None

    def rejection(self, file: InputFile, record: Record, closed: Micros = -LAST_MICRO) -> DeadLetter | None:
        """Dead letter of the next record, late or unreadable; None where it is admitted."""
        time = record[3]
        if time is None:
            return self.of_unreadable(file, record, closed)
        reason = self.verdict(time, closed)
        return None if reason is None else self.dead_letter(file, record, reason)

    def of_unreadable(self, file: InputFile, record: Record, closed: Micros = -LAST_MICRO) -> DeadLetter:
        """Dead letter of the next record, which has no element: late by its time, or unreadable."""
        time = record.judged_time
        reason = None if time is None else self.verdict(time, closed)
        return record.dead_letter(file) if reason is None else self.dead_letter(file, record, reason)

    def dead_letter(self, file: InputFile, record: Record, reason: Reason) -> DeadLetter:
        """Dead letter of the record last judged by `verdict`, which returned `reason`."""
        time = record.judged_time
        assert time is not None
        dated = time in date_times_in(record.text) or (file.map is not None and file.map.time_format is not None)
        return record.dead_letter(file, reason, self._reason_text(time, reason, Clock(file.unit, dated)))

    def _reason_text(self, time: Micros, reason: Reason, clock: Clock) -> str:
        if reason is Reason.IDLE:
            return "its instant had closed while its input was declared idle"
        if reason is Reason.SECOND:
            return "an element of the same time came before it, where every element is an instant (one_per_instant)"
        allowed = f", more than its input's lateness of {duration_text(self.delay)}" if self.delay else ""
        return f"an element of {format_time(self.greatest, clock)} came before this one of {format_time(time, clock)}{allowed}"

    @property
    def passed(self) -> Micros:
        """Watermark: elements of this time or earlier are no longer admitted."""
        return self.greatest - self.delay - (not self.single)
