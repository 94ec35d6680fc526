"""Gaps: stretches of time between two instants in which a unit would act too often (semantics.md,
6).

Idea: a unit with a time of its own acts at most once a period: a tick, a report, a point. So only a
stretch longer than `gap_length` can have more acts than `limits.gap`; in such a stretch each unit
is notified of its end (`UnitRun.open_gap`), counts its acts there, and skips all of them where they
are too many. On Spark a task passes on the stretches of its instants that no such gap divides.
Invariant: what is skipped is a function of the instants, and of the unit's state at the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dotr.engine.unit_runs import engine_unit
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.calendars import Calendar, Schedule
from dotr.model.places import Span
from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer

if TYPE_CHECKING:
    from dotr.instant.stage_one import TickStream


class Gap(NamedTuple):
    """A stretch of time without instants: between `after` and `before`, both excluded, in µs."""

    after: Micros
    before: Micros

    @lru_cache(256)  # noqa: B019 - gaps are values
    def ticks(self, period: Schedule) -> int:
        """The number of ticks of a period in the gap.

        >>> Gap(0, 10).ticks(5), Gap(-1, 10).ticks(5), Gap(1, 4).ticks(5)
        (1, 2, 0)
        """
        if isinstance(period, Calendar):
            return period.count(self.after + 1, self.before)
        return (self.before - 1) // period - self.after // period


def least_length(period: Schedule, most: int) -> Micros:
    """A length in µs in which a period has `most` ticks at most. Moments of a calendar may be nearer
    than its step, where a clock is put forward, but no two steps in a row have more than three.

    >>> from dotr.model.calendars import calendar_of
    >>> least_length(5, 3), least_length(calendar_of("hour", None, "UTC"), 3)
    (15, 3600000000)
    """
    return most // 2 * period.step if isinstance(period, Calendar) else most * period


def gap_length(ticks: Iterable[TickStream], layers: Iterable[Layer], most: int) -> Micros | None:
    """The length in µs up to which no stretch between two instants has more than `most` acts of a
    unit; None where no unit has a time of its own."""
    lengths = [least_length(each.period, most) for each in ticks]
    for layer in layers:
        for placed in layer.units:
            periods = engine_unit(placed.unit).periods
            # The union of n series has more than m times only where one of them has more than m // n.
            lengths += [least_length(period, most // len(periods)) for period in periods]
    return min(lengths, default=None)


def stretches(times: Sequence[Micros], longest: Micros | None) -> list[tuple[Micros, Micros]]:
    """The first and the last of each sequence of times between which no gap is longer than `longest`.

    >>> stretches([1, 2, 9, 10], 5), stretches([1, 9], None), stretches([], 5)
    ([(1, 2), (9, 10)], [(1, 9)], [])
    """
    if not times:
        return []
    if longest is None:
        return [(times[0], times[-1])]
    cuts = [number for number in range(1, len(times)) if times[number] - times[number - 1] > longest]
    return [(times[start], times[end - 1]) for start, end in zip([0, *cuts], [*cuts, len(times)], strict=True)]


def gaps_of(passed: Micros | None, spans: Iterable[tuple[Micros, Micros]], longest: Micros | None) -> list[Gap]:
    """The gaps longer than `longest` between stretches of instants, and between them and the last
    instant before (None: there is none), in order.

    >>> gaps_of(0, [(20, 21), (9, 10)], 5), gaps_of(None, [(9, 10)], 5)
    ([Gap(after=0, before=9), Gap(after=10, before=20)], [])
    """
    if longest is None:
        return []
    found: list[Gap] = []
    for first, last in sorted(spans):
        if passed is not None and first - passed > longest:
            found.append(Gap(passed, first))
        passed = last
    return found


def skipped_ticks(ticks: Iterable[TickStream], gap: Gap, most: int) -> set[int]:
    """The streams of ticks that have more than `most` ticks in a gap."""
    return {each.stream for each in ticks if gap.ticks(each.period) > most}


def tick_letters(
    ticks: Iterable[TickStream], layers: Iterable[Layer], streams: Set[int], gap: Gap, most: int, clock: Clock
) -> Iterator[DeadLetter]:
    """The dead letters of a gap in which some streams of ticks are skipped, which have more than
    `most` ticks there: one for each rule of the layers that they anchor."""
    periods = {each.stream: each.period for each in ticks if each.stream in streams}
    for layer in layers if periods else ():
        for placed in layer.rules:
            stream = layer.ports[placed.ports[0]].stream
            if placed.stage.is_first and isinstance(stream, int) and stream in periods:
                yield gap_letter(placed.rule, placed.rule.span, gap, gap.ticks(periods[stream]), most, clock)


def gap_letter(unit: Rule | str, span: Span, gap: Gap, number: int, most: int, clock: Clock) -> DeadLetter:
    """The dead letter of a unit whose acts in a gap, `number` of them, are skipped.

    Args:
        unit: the rule, or the name of another unit; `span` is its place.
        most: `limits.gap`.
        clock: the form of times.
    """
    name = unit.name if isinstance(unit, Rule) else unit
    begin, end = format_time(gap.after, clock), format_time(gap.before, clock)
    why = f"{name} would act {number:,} times between {begin} and {end}, and may {most:,} times (limits.gap): none of it happens"
    return DeadLetter.of_unit(Reason.GAP, name, span, gap.before, why)
