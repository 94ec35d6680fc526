"""Admission of the elements of one input, by the order of that input alone (semantics.md, section
6).

A record is judged by its time (`Record.judged_time`), also where its graph cannot be read: a late
record is a dead letter with the reason `late`. Its graph is not parsed in formats whose time is
beside the graph (`TimeFilter`).
Invariant: the greatest time is the maximum over all records with a time so far; late ones never
change it. Every reader of inputs, in process and on Spark, judges by `Lateness.verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from dotr.model.calendars import zone_of
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.streams.records import InputFile, Record, SourcedElement
from dotr.streams.times import date_times_in


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

    def before(self, shift: Micros) -> TimeFilter:
        """The filter of records whose times are still to be moved by a distance (µs)."""
        return self if self is EVERY_TIME else TimeFilter(self.greatest - shift, self.after - shift, self.until - shift)

    def of_file(self) -> TimeFilter:
        """The filter for the records of one file, whose greatest time is stored at its end."""
        return self if self is EVERY_TIME else TimeFilter(self.greatest, self.after, self.until)

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
        return max(self._after(file), self.greatest - self.distance(file))

    def _after(self, file: InputFile) -> Micros:
        """The time behind which graphs are parsed; of elements that are set apart, the one that they
        have in the file may be earlier than `after`."""
        return -LAST_MICRO if file.apart else self.after

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
        distance, after = self.distance(file), self._after(file)

        def is_wanted(time: Micros) -> bool:
            greatest = self.greatest
            if time > greatest:
                self.greatest = time
            return greatest - distance < time <= self.until and time > after

        return is_wanted


EVERY_TIME: Final = TimeFilter()
"""The filter that every record passes, late or not."""

BY_TIME: Final = frozenset((Reason.LATE, Reason.SECOND, Reason.IDLE, Reason.CLOCK))
"""The reasons that `Lateness.verdict` returns."""


_YEAR: Final = 366 * 86_400_000_000
"""A year in µs: integers that are further behind the clock do not count from 1970."""


class Lateness:
    """The watermark of one input, advanced by its records in their order.

    Args:
        delay: the declared lateness in µs: an element may arrive after one that is later by at most
            this.
        greatest: the greatest time before the first record, in µs since 1970.
        single: every element is an instant of its own, so an element closes its time, and a second
            one of that time is a dead letter. The delay is then 0.

    `heartbeat`: the last heartbeat of the pipeline's clock, up to which no element is admitted; the
    merge sets it.

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

    __slots__ = ("delay", "greatest", "heartbeat", "shift", "single")

    def __init__(self, delay: Micros, greatest: Micros = -LAST_MICRO, *, single: bool = False) -> None:
        self.delay = delay
        self.greatest = greatest
        self.single = single
        self.shift: Micros = 0
        self.heartbeat: Micros = -LAST_MICRO

    @staticmethod
    def of(file: InputFile, greatest: Micros = -LAST_MICRO, shift: Micros = 0) -> Lateness:
        """The watermark of a file with a greatest time, and the distance in µs by which the last
        element of that time was set apart."""
        return Apart(greatest, shift) if file.apart else Lateness(file.delay, greatest, single=file.single)

    def verdict(self, time: Micros, closed: Micros = -LAST_MICRO) -> Reason | None:
        """The reason why an element of this time is a dead letter, or None; advances the greatest
        time.

        `closed` (µs since 1970) is the last instant that closed while this input was idle, or the
        last heartbeat where that is later.

        >>> lateness = Lateness(delay=5)
        >>> lateness.heartbeat = 6
        >>> lateness.verdict(7, closed=7), lateness.verdict(6, closed=7), lateness.verdict(8, closed=7)
        (<Reason.IDLE: 'idle'>, <Reason.CLOCK: 'clock'>, None)
        """
        greatest = self.greatest
        if time > greatest:
            self.greatest = time
        elif time == greatest:
            if self.single:
                return Reason.SECOND
        elif greatest - time > self.delay:
            return Reason.LATE
        return None if time > closed else self._closed_by(time)

    def _closed_by(self, time: Micros) -> Reason:
        return Reason.CLOCK if time <= self.heartbeat else Reason.IDLE

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
        dated = _is_dated(file, record.text, time - file.shift)
        return record.dead_letter(file, reason, self._reason_text(time, reason, Clock(file.unit, dated, file.zone)))

    def _reason_text(self, time: Micros, reason: Reason, clock: Clock) -> str:
        from dotr.evaluation.expressions.values.times import format_time  # a planner without dead letters needs no expressions
        from dotr.syntax.rendering import duration_text

        if reason is Reason.IDLE:
            return "its instant had closed while its input was declared idle"
        if reason is Reason.CLOCK:
            # 3.812 s are told as 4 s, 0.2 s as 200 ms
            behind = self.heartbeat + 1 - time
            unit = next((each for each in (1_000_000, 1_000) if behind >= each), 1)
            text = f"behind the clock by {duration_text((behind + unit // 2) // unit * unit)}"
            from_zero = not clock.dated and behind > _YEAR
            return f"{text}; integers count from 1970 (a replay of others: the same pace for all inputs)" if from_zero else text
        if reason is Reason.SECOND:
            return "an element of the same time came before it, where every element is an instant (one_per_instant)"
        allowed = f", more than its input's lateness of {duration_text(self.delay)}" if self.delay else ""
        return f"an element of {format_time(self.greatest, clock)} came before this one of {format_time(time, clock)}{allowed}"

    @property
    def passed(self) -> Micros:
        """Watermark: elements of this time or earlier are no longer admitted."""
        return self.greatest - self.delay - (not self.single)


def _is_dated(file: InputFile, text: str, time: Micros) -> bool:
    """True if the time of a record is a date-time in its text, also a local one of the input's zone,
    or is that of its message."""
    times, zone = date_times_in(text), file.map and file.map.time_zone
    if time in times or (zone and time + zone_of(zone).offset(time) in times):
        return True
    return (file.map or file.graphs).sent_time is not None or (file.map is not None and file.map.is_dated)


# Elements of one time that are set apart (`one_per_instant: apart`).


class Decided(NamedTuple):
    """A record whose time is certain, or which is a dead letter.

    - `time`: in µs since 1970, of an element that is set apart later than in its file.
    - `file`, `number`: the file, and its number in the input.
    - `record`: its element, if it has one, has `time`.
    """

    time: Micros
    file: InputFile
    number: int
    record: Record
    letter: DeadLetter | None


class Apart(Lateness):
    """The watermark of an input whose elements of one time are set one microsecond apart, in their
    order.

    Of three elements of the time t, which are followed by one of t + 2 µs, the first stays at t,
    the second moves to t + 1, and the third would reach the next time: it is a dead letter. So
    elements behind the first of a time are held until the next time is known. Records that cannot
    be read count by their times.

    - `held`: the elements behind the first of the greatest time.

    >>> from dotr.streams.records import Format
    >>> file = InputFile("a", "a.ndjson", Format.NDJSON)
    >>> records = [Record(at, at + 1, at, time, None, b"") for at, time in enumerate((10, 10, 10, 9, 12, 12))]
    >>> apart = Apart()
    >>> decided = [each for record in records for each in apart.decided(file, record)]
    >>> [(each.record.offset, each.time, each.letter and each.letter.reason.value) for each in decided]
    [(0, 10, None), (3, 9, 'late'), (1, 11, None), (2, 12, 'second'), (4, 12, None)]
    >>> [each.time for each in apart.released()]
    [13]
    """

    __slots__ = ("held",)

    def __init__(self, greatest: Micros = -LAST_MICRO, shift: Micros = 0) -> None:
        super().__init__(0, greatest)
        self.shift = shift
        self.held: list[Decided] = []

    def verdict(self, time: Micros, closed: Micros = -LAST_MICRO) -> Reason | None:
        """The reason why an element of this time is a dead letter at once, or None; `shift` is then
        the distance by which the element is set apart."""
        if time < self.greatest:
            return Reason.LATE
        self.shift = self.shift + 1 if time == self.greatest else 0
        self.greatest = time
        return None if time + self.shift > closed else self._closed_by(time + self.shift)

    def decided(self, file: InputFile, record: Record, closed: Micros = -LAST_MICRO, number: int = 0) -> Iterator[Decided]:
        """The records that are certain with the next one: those held before it, and the record
        itself, unless it is held."""
        time = record.judged_time
        if time is not None and time > self.greatest:
            yield from self.released(time - 1)
            for each in self.held:
                yield each._replace(letter=self.second(each))
            self.held = []
        letter = self.rejection(file, record, closed)
        if time is None or not self.shift or (letter is not None and letter.reason in BY_TIME):
            yield Decided(time or 0, file, number, record, letter)
        else:
            time += self.shift
            self.held.append(Decided(time, file, number, moved(record, time), letter))

    def released(self, until: Micros = LAST_MICRO) -> Iterator[Decided]:
        """The held records up to a time, which are held no longer."""
        yield from (each for each in self.held if each.time <= until)
        self.held = [each for each in self.held if each.time > until]

    @staticmethod
    def second(each: Decided) -> DeadLetter:
        """Dead letter of a record that would be set apart up to the next time of its input."""
        why = "set one microsecond apart for each element of its time before it, it would reach the input's next time"
        return each.record.dead_letter(each.file, Reason.SECOND, f"{why} (one_per_instant: apart)")


def moved_records(records: Iterator[Record], shift: Micros, own: TimeFilter, time_filter: TimeFilter) -> Iterator[Record]:
    """The records of a replayed file, with their times moved by a distance (µs).

    `own` is `time_filter` before the move: that of the records as the file has them.
    """
    for record in records:
        _, _, _, time, _, _, _, stamp, _, _ = record
        if time is not None:
            record = moved(record, time + shift)._replace(time=time + shift)
        yield record if stamp is None else record._replace(stamp=stamp + shift)
    if own is not EVERY_TIME:
        time_filter.greatest = max(time_filter.greatest, own.greatest + shift)


def moved(record: Record, time: Micros) -> Record:
    """A record whose element has another time."""
    element = record.element
    if element is None:
        return record
    moved = Element(time, element.triples)
    if isinstance(element, SourcedElement):
        moved = SourcedElement(*moved)
        moved.file, moved.record = element.file, element.record
    return record._replace(element=moved)
