"""Rows in which a lower layer says how long, after the last instant, it may still make something for a
unit (semantics.md, 8, "First and last").

Idea: after the last instant nothing waits anew, so at the end of the stream a bucket knows when its
last anchor fires, or its unit is done; a unit above is fed at all times before that. Rows go to the
buckets of those units alone that it feeds, directly or not.
Example: the last anchor in queue 0 of layer 1 fires at 40 s: the row's time is 40 s and its payload
`[1, 0]`. Before that time, something may still come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from dotr.layout.feeding import DelayedAnchors, Feeder, feeders, is_fed
from dotr.model.time import Micros
from dotr.patterns.state import State
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import RowKind, SparkRow
from dotr.runtimes.spark.worker_cache import program_of


@lru_cache(maxsize=4)
def feeders_of(job: Job) -> Mapping[str, tuple[Feeder, ...]]:
    """The feeders of each unit of the job's program, by its name."""
    return feeders(program_of(job).layout)


@lru_cache(maxsize=4)
def _listeners(job: Job) -> Mapping[Feeder, tuple[int, ...]]:
    """The keys of the buckets whose units a feeder feeds, directly or through others."""
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
    """The rows of a bucket of rules, of which `state` is that after the last instant."""
    listeners = _listeners(job)
    rows = []
    for (_, delay), queue in program_of(job).layout.layers[layer].queues.items():
        if state.waiting[queue]:
            end, payload = state.waiting[queue][-1][0] + delay, json.dumps([layer, queue]).encode()
            rows += [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in listeners.get(DelayedAnchors(layer, queue), ())]
    return rows


def unit_rows(job: Job, unit: str, end: Micros, over: Micros | None) -> list[SparkRow]:
    """The rows of a unit that is under way before the time `end`, and makes nothing whatever
    arrives from the time `over` on (None: it may always), both in µs."""
    payload = json.dumps([unit, over]).encode()
    return [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in _listeners(job).get(unit, ())]


class UnderWay:
    """What lower layers say to the units of a bucket."""

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
                if isinstance(first, str):  # all buckets of a unit that is spread say so
                    if second is None:
                        is_never_over.add(first)
                    else:
                        self._over[first] = max(second, self._over.get(first, second))
        for unit in is_never_over & self._over.keys():
            del self._over[unit]

    def is_fed(self, unit: str, time: Micros) -> bool:
        """True if something may come to a unit later than a time, which is not before the last
        instant."""

        def is_under_way(feeder: Feeder) -> bool:
            return feeder in self._ends and time < self._ends[feeder]

        def is_over(feeder: str) -> bool:
            return feeder in self._over and time >= self._over[feeder]

        return is_fed(unit, self._feeders, is_under_way, is_under_way, is_over)
