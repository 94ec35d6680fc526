"""Stage two of one bucket over one batch: what has arrived, put in order of time, goes through the engine's step instant by instant."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count, repeat
from typing import TypeAlias

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.patterns.operator import Arrival
from dotr.patterns.state import State, StateError
from dotr.runtimes.spark.compiled import layers_of, program_of, uncollected
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.moments import TicksHere, moments, ticks_here
from dotr.runtimes.spark.moving import unreadable
from dotr.runtimes.spark.rows import Kind, Line, counts_payload, dead_payload, firings_payload
from dotr.runtimes.totals import Totals

Instants: TypeAlias = list[tuple[Micros, dict[int, list[Arrival]]]]
"""What arrives at a bucket: by time, then by port."""


def chunk_payload(instants: Instants) -> bytes:
    """The inverse of `instants_of`: each term once, then for each instant and port the ordinals, and the numbers of the terms in turn."""
    numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
    number = numbers.__getitem__
    listed = [
        [
            time,
            [
                [
                    port,
                    len(arrivals[0][1]),
                    [ordinal for ordinal, _ in arrivals],
                    list(map(number, chain.from_iterable([v for _, v in arrivals]))),
                ]
                for port, arrivals in ports.items()
            ],
        ]
        for time, ports in instants
    ]
    return json.dumps([list(numbers), listed], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def instants_of(payload: bytes) -> Instants:
    """
    >>> instants: Instants = [(5, {0: [(0, ('"a"', None)), (7, ('"a"', '"b"'))], 2: [(0, ())]})]
    >>> instants_of(chunk_payload(instants)) == instants
    True
    """
    terms, listed = json.loads(payload)
    term = terms.__getitem__
    return [
        (
            time,
            {
                port: list(zip(ordinals, zip(*[map(term, numbers)] * width, strict=True) if width else repeat(()), strict=bool(width)))
                for port, width, ordinals, numbers in ports
            },
        )
        for time, ports in listed
    ]


def in_order(chunks: Iterable[Instants]) -> Iterator[tuple[Micros, dict[int, list[Arrival]]]]:
    """The instants of several chunks in the order of time, those of one time as one.

    >>> list(in_order([[(9, {0: [(0, ())]})], [(5, {}), (9, {0: [(1, ())]})]]))
    [(5, {}), (9, {0: [(0, ()), (1, ())]})]
    """
    current: tuple[Micros, dict[int, list[Arrival]]] | None = None
    for instant in sorted((instant for chunk in chunks for instant in chunk), key=lambda instant: instant[0]):
        if current is not None and current[0] == instant[0]:
            for port, arrivals in instant[1].items():
                current[1].setdefault(port, []).extend(arrivals)
            continue
        if current is not None:
            yield current
        current = instant
    if current is not None:
        yield current


def restore(job: Job, layer: int, written: bytes) -> State:
    """A bucket's state from what the store holds (nothing: the state before the first instant)."""
    stage = layers_of(job)[layer]
    try:
        return stage.restore(written) if written else stage.start()
    except StateError as error:
        raise unreadable(error) from None


@lru_cache(maxsize=1 << 12)
def _ticks(job: Job, layer: int, bucket: int) -> Sequence[TicksHere]:
    program = program_of(job)
    return ticks_here(program, program.router(job.buckets), layer, bucket)


def step_bucket(job: Job, layer: int, bucket: int, state: State, lines: Iterable[Line]) -> list[Line]:
    """Steps the state through a batch; returns the bucket's firings, and chunks for the layers above."""
    with uncollected():
        return _stepped(job, layer, bucket, state, lines)


def _stepped(job: Job, layer: int, bucket: int, state: State, lines: Iterable[Line]) -> list[Line]:
    stage, program = layers_of(job)[layer], program_of(job)
    step, router = stage.step, program.router(job.buckets)
    keys = [job.keys(number) for number in range(job.layers)]
    firings: list[Firing] = []
    failed: list[DeadLetter] = []
    above: dict[int, Instants] = {}
    chunks: list[Instants] = []
    spans: list[tuple[Micros, Micros]] = []
    closed: Micros | None = None
    for line in lines:
        if line.kind == Kind.CHUNK:
            chunks.append(instants_of(line.payload))
        elif line.kind == Kind.CLOSED:
            closed = line.time
        elif line.kind == Kind.SPAN:
            spans.append((line.time, int(line.payload)))
    batch: Iterable[tuple[Micros, dict[int, list[Arrival]], bool]] = ((time, arrivals, False) for time, arrivals in in_order(chunks))
    if program.timed:
        assert closed is not None, "every bucket is told what time it is"
        batch = moments(stage, state, _ticks(job, layer, bucket), in_order(chunks), spans, closed)
    for time, arrivals, ended in batch:
        done = step(state, time, arrivals, bucket, ended=ended)
        firings += done.firings
        if done.failed:
            failed += done.failed
        if done.events and layer + 1 < job.layers:
            for number, deliveries in enumerate(router.events(done.events, layer)):
                for target, ports in deliveries.items():
                    above.setdefault(keys[number][target], []).append((time, ports))
    if program.timed:
        closed = state.passed
    if closed is not None:
        state.expire(closed + 1)
    out = [Line(key, Kind.CHUNK, instants[0][0], chunk_payload(instants)) for key, instants in above.items()]
    if firings:
        out.append(Line(-1 - bucket, Kind.FIRINGS, 0, firings_payload(firings)))
    if failed:
        out.append(Line(-1 - bucket, Kind.DEAD, 0, dead_payload(failed)))
        out.append(Line(-1 - bucket, Kind.COUNTS, 0, counts_payload(Totals(dead={Reason.FAILED: len(failed)}))))
    return out
