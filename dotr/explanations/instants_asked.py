"""Instants and elements of a replay, for answers where none is asked about."""

from __future__ import annotations

from dotr.explanations.replay import ElementPlace, RejectedElement
from dotr.explanations.survey import Asked
from dotr.expressions.times import format_time
from dotr.model.stream import DeadLetter
from dotr.model.time import Clock, Micros


class InstantsAsked:
    """Instants that are asked about, the nearest ones around them, and rejected elements.

    >>> instants = InstantsAsked(Asked(61_000_000, 61_000_000), delay=0)
    >>> instants.note(60_000_000)
    >>> instants.note(120_000_000)
    >>> instants.remarks(Clock())
    ('There is no instant at 61: the nearest are 60 and 120.',)
    """

    def __init__(self, asked: Asked, delay: Micros) -> None:
        self._asked = asked
        self._delay = delay
        self._before: Micros | None = None
        self._after: Micros | None = None
        self._rejected = 0
        self._first_rejected: DeadLetter | None = None
        self.number = 0

    def note(self, time: Micros) -> None:
        """Note an instant, by its time in µs since 1970."""
        asked = self._asked
        if asked.first <= time <= asked.last or asked.first <= time + self._delay <= asked.last:
            self.number += 1
        elif time < asked.first:
            self._before = time
        elif self._after is None:
            self._after = time

    def note_rejected(self, rejected: RejectedElement) -> None:
        """Note an element that an input rejects."""
        self._rejected += 1
        self._first_rejected = self._first_rejected or rejected.dead_letter

    def remarks(self, clock: Clock) -> tuple[str, ...]:
        """Sentences on what there is instead; empty: an instant is asked about."""
        if self.number:
            return ()
        nearest = [str(format_time(time, clock)) for time in (self._before, self._after) if time is not None]
        if nearest:
            first, last = format_time(self._asked.first, clock), format_time(self._asked.last, clock)
            where = f"at {first}" if first == last else "between the times asked about"
            return (f"There is no instant {where}: the nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(nearest)}.",)
        if self._first_rejected is None:
            return ("There is no instant: no element has come.",)
        letter = self._first_rejected
        place = ElementPlace(letter.file, letter.line)
        return (f"There is no instant: all {self._rejected:,} elements are dead letters, the first {place}: {letter.why}.",)
