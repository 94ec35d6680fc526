"""The moments of one bucket over one batch: instants that something arrives from, ticks, and delayed anchors, in the order of time.

Idea: a bucket goes as far as the last instant that the batches so far have brought, whatever lies between that and what is closed: what
is ticked, and what waits, after it depends on whether another instant comes. Ticks are the same in every bucket, so each makes its own.
At the end of the stream what still waits becomes due, and nothing else. Invariant: all buckets of all layers are told of the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.engine.router import Router
from dotr.engine.stage_two import StageTwo
from dotr.model.time import LAST_MICRO, Micros
from dotr.patterns.operator import Arrival
from dotr.patterns.state import State

Ports = dict[int, list[Arrival]]


class TicksHere(NamedTuple):
    """What a bucket is handed at each multiple of a period."""

    period: Micros
    ports: Ports


class Moment(NamedTuple):
    """What arrives at a time; `ended`: after the last instant of the stream."""

    time: Micros
    arrivals: Ports
    ended: bool


def ticks_here(program: CompiledProgram, router: Router, layer: int, bucket: int) -> list[TicksHere]:
    """The ticks of a bucket of a layer."""
    handed = ((each, router.facts({each.stream: each.rows})[layer].get(bucket)) for each in program.stage_one.ticks)
    return [TicksHere(each.period, ports) for each, ports in handed if ports]


def moments(
    stage: StageTwo,
    state: State,
    ticks: Sequence[TicksHere],
    arrived: Iterable[tuple[Micros, Ports]],
    spans: Sequence[tuple[Micros, Micros]],
    closed: Micros,
) -> Iterator[Moment]:
    """The moments of a batch, each to be stepped through before the next is asked for. `spans` are the first and last instants of
    stretches of the batch, and `closed` is its end, `LAST_MICRO` where the stream has ended; `state.passed` goes on to its last instant."""
    passed = state.passed if state.passed is not None or not spans else min(spans)[0] - 1
    if passed is None:
        return  # before the first instant
    last = max([passed, *(each[1] for each in spans)])
    until = LAST_MICRO if closed == LAST_MICRO else last

    def moment(time: Micros, arrivals: Ports) -> Moment:
        ended = time > last
        return Moment(time, arrivals if ended else _ticking(ticks, time, arrivals), ended)

    def between(after: Micros, before: Micros) -> Iterator[Moment]:
        """The moments that lie between two."""
        while True:
            times = [tick for each in ticks if (tick := _next(after, each.period)) <= last]
            due = stage.due(state)
            after = min(times if due is None else [*times, due], default=before)
            if after >= before:
                return
            yield moment(after, {})

    for time, arrivals in arrived:
        yield from between(passed, time)
        yield moment(time, arrivals)
        passed = time
    yield from between(passed, until + 1)
    state.passed = last


def _next(after: Micros, period: Micros) -> Micros:
    return (after // period + 1) * period


def _ticking(ticks: Sequence[TicksHere], time: Micros, arrivals: Ports) -> Ports:
    """What arrives, with the ticks of the time."""
    return {**arrivals, **{port: list(events) for each in ticks if time % each.period == 0 for port, events in each.ports.items()}}
