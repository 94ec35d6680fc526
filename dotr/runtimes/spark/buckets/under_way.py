"""Rows with the time up to which, after the last instant, a lower layer may still produce events
for a unit (semantics.md, 8, "First and last").

Idea: after the last instant no further anchor is delayed. So at the end of the stream a bucket can
compute when its last delayed anchor fires, or its unit is done; before that time a unit above may
still receive events. A row is sent to the buckets of the units that are fed, directly or through
other units.
Example: the last anchor in queue 0 of layer 1 fires at 40 s: the row's time is 40 s and its payload
`[1, 0]`. Before that time, an event may still arrive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow
from dotr.runtimes.spark.exchange.worker_cache import program_of
from dotr.temporal.layout.feeding import DelayedAnchors, Feeder, feeders, is_fed
from dotr.temporal.matching.state import State


@lru_cache(maxsize=4)
def feeders_of(job: Job) -> Mapping[str, tuple[Feeder, ...]]:
    """The feeders of each unit of the job's program, by its name."""
    return feeders(program_of(job).layout)


@lru_cache(maxsize=4)
def _fed_buckets(job: Job) -> Mapping[Feeder, tuple[int, ...]]:
    """The keys of the buckets whose units a feeder feeds, directly or through other units."""
    direct, found = feeders_of(job), dict[Feeder, dict[int, None]]()
    for layer in program_of(job).layout.layers:
        for placed in layer.units:
            keys = job.keys(layer.number)
            own = keys if placed.is_spread else keys[placed.partition % job.buckets :][:1]
            waiting, seen = [placed.unit.name], {placed.unit.name}
            while waiting:
                for feeder in direct[waiting.pop()]:
                    found.setdefault(feeder, {}).update(dict.fromkeys(own))
                    if isinstance(feeder, str) and feeder not in seen:
                        seen.add(feeder)
                        waiting.append(feeder)
    return {feeder: tuple(keys) for feeder, keys in found.items()}


def waiting_rows(job: Job, layer: int, state: State) -> list[SparkRow]:
    """The rows of a bucket of rules at the end of the stream; `state` is its state after the last
    instant."""
    fed_buckets = _fed_buckets(job)
    rows = []
    for queue, waiting in enumerate(state.waiting):
        end = waiting.last_due()
        if end is not None:
            payload = json.dumps([layer, queue]).encode()
            rows += [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in fed_buckets.get(DelayedAnchors(layer, queue), ())]
    return rows


def unit_rows(job: Job, unit: str, end: Micros, over: Micros | None) -> list[SparkRow]:
    """The rows of a unit at the end of the stream. The unit may produce events before the time
    `end`; from the time `over` on it produces none, whatever arrives (None: it always may). Both
    are µs."""
    payload = json.dumps([unit, over]).encode()
    return [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in _fed_buckets(job).get(unit, ())]


class UnderWay:
    """The times up to which lower layers may still feed the units of a bucket, from its rows."""

    def __init__(self, job: Job, rows: Iterable[SparkRow]) -> None:
        self._feeders = feeders_of(job)
        self._ends: dict[Feeder, Micros] = {}
        self._over: dict[str, Micros] = {}
        is_never_over = set[str]()
        for row in rows:
            if row.kind == RowKind.UNDER_WAY:
                first, second = json.loads(row.payload)
                feeder: Feeder = first if isinstance(first, str) else DelayedAnchors(first, second)
                self._ends[feeder] = max(row.time, self._ends.get(feeder, row.time))
                if isinstance(first, str):  # a unit that is spread sends a row from each of its buckets
                    if second is None:
                        is_never_over.add(first)
                    else:
                        self._over[first] = max(second, self._over.get(first, second))
        for unit in is_never_over & self._over.keys():
            del self._over[unit]

    def is_fed(self, unit: str, time: Micros) -> bool:
        """True if a unit may receive an item later than `time` (µs), which is the last instant or
        later."""

        def is_under_way(feeder: Feeder) -> bool:
            return feeder in self._ends and time < self._ends[feeder]

        def is_over(feeder: str) -> bool:
            return feeder in self._over and time >= self._over[feeder]

        return is_fed(unit, self._feeders, is_under_way, is_under_way, is_over)
