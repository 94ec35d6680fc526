"""Remarks for questions whose times include no instant: the nearest instants, or rejected
elements."""

from __future__ import annotations

from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.stream import ElementPlace, RejectedElement
from dotr.explanations.why_not.survey import RequestedAnchors
from dotr.model.stream import DeadLetter
from dotr.model.time import Clock, Micros


class RequestedInstants:
    """Counter of the requested instants, with the nearest other instants and the rejected elements.

    Args:
        requested: the requested anchors.
        delay: the delay of the anchor in µs.

    Attributes:
        number: the number of requested instants so far.

    >>> instants = RequestedInstants(RequestedAnchors(61_000_000, 61_000_000), delay=0)
    >>> instants.note(60_000_000)
    >>> instants.note(120_000_000)
    >>> instants.remarks(Clock())
    ('There is no instant at 61: the nearest are 60 and 120.',)
    """

    def __init__(self, requested: RequestedAnchors, delay: Micros) -> None:
        self._requested = requested
        self._delay = delay
        self._before: Micros | None = None
        self._after: Micros | None = None
        self._rejected = 0
        self._first_rejected: DeadLetter | None = None
        self.number = 0

    def note(self, time: Micros) -> None:
        """Record an instant, by its time in µs since 1970."""
        requested = self._requested
        if requested.first <= time <= requested.last or requested.first <= time + self._delay <= requested.last:
            self.number += 1
        elif time < requested.first:
            self._before = time
        elif self._after is None:
            self._after = time

    def note_rejected(self, rejected: RejectedElement) -> None:
        """Record an element that an input rejects."""
        self._rejected += 1
        self._first_rejected = self._first_rejected or rejected.dead_letter

    def remarks(self, clock: Clock) -> tuple[str, ...]:
        """Sentences on the nearest instants or on rejected elements; empty if an instant is
        requested."""
        if self.number:
            return ()
        nearest = [str(format_time(time, clock)) for time in (self._before, self._after) if time is not None]
        if nearest:
            first, last = format_time(self._requested.first, clock), format_time(self._requested.last, clock)
            where = f"at {first}" if first == last else "between the times asked about"
            return (f"There is no instant {where}: the nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(nearest)}.",)
        if self._first_rejected is None:
            return ("There is no instant: no element has come.",)
        letter = self._first_rejected
        place = ElementPlace(letter.file, letter.line)
        return (f"There is no instant: all {self._rejected:,} elements are dead letters, the first {place}: {letter.why}.",)
