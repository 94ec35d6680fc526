"""What one task of a batch reads, as data: a range of time, and of each input a stretch of records."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dotr.model.time import Micros
from dotr.runtimes.spark.planning import END, Cut, Offset


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a task reads of one input: from a record up to `stop`, of which it owns what stands before `own` (END: all)."""

    input: int
    offset: int
    line: int
    greatest: Micros
    stop: int
    own: int


@dataclass(frozen=True, slots=True)
class Task:
    """The elements with times in (after, until]. `closed` is the batch's last time in its last task, which tells it to all buckets."""

    after: Micros
    until: Micros
    closed: Micros | None
    stretches: tuple[Stretch, ...]

    @staticmethod
    def of_cut(start: Offset, cut: Cut, closed: Micros) -> Task:
        return Task(
            start.time,
            cut.time,
            closed if cut.time == closed else None,
            tuple(
                Stretch(number, place.offset, place.line, place.greatest, stop, after.offset)
                for number, (place, after, stop) in enumerate(zip(start.places, cut.places, cut.stops, strict=True))
                if place.offset not in (END, stop)
            ),
        )

    def to_json(self) -> str:
        stretches = [[s.input, s.offset, s.line, s.greatest, s.stop, s.own] for s in self.stretches]
        return json.dumps([self.after, self.until, self.closed, stretches])

    @staticmethod
    def of_json(text: str) -> Task:
        """The inverse of `to_json`.

        >>> task = Task(1, 5, None, (Stretch(0, 10, 2, 1, 90, 80),))
        >>> Task.of_json(task.to_json()) == task
        True
        """
        after, until, closed, stretches = json.loads(text)
        return Task(after, until, closed, tuple(Stretch(*each) for each in stretches))
