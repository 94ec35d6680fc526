"""A job: all that a worker has to know, as one JSON text, so that Spark carries text and no objects of ours.

Nothing is compiled here, so that Spark's own processes, which come and go, can look at a job at little cost (`compiled` does).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from dotr.model.time import Clock, Micros, Unit
from dotr.runtimes.spark.keys import bucket_keys


@dataclass(frozen=True, slots=True)
class Job:
    """`program` and `inputs` are specifications as JSON; `delays` are the inputs', and `unit` and `dated` say how time is written.
    State is laid out by `layers`, `buckets` and Spark's `partitions`; without layers there is none, and whoever reads an instant runs all
    rules on it. A batch holds about `batch` elements and is read by `tasks` tasks. `run` tells one checkpoint from another. `store` is the
    compiled background and `key`, in hexadecimal, what it was made for; without one every worker closes the background for itself. The
    last of the inputs are those that grow: `growing` has for each, as JSON, the pattern (none for standard input), how long a file stands
    still, the declared idleness, and whether it is still watched; `rates` are by names of inputs. Where state has come from another query,
    `moved` is the folder of what buckets begin with, and `start` the offset that reading begins at. `trigger` is how long it is at least
    from batch to batch where inputs grow."""

    program: str
    inputs: tuple[str, ...]
    delays: tuple[Micros, ...]
    unit: str
    dated: bool
    layers: int
    buckets: int
    partitions: int
    batch: int
    tasks: int
    run: str
    store: str = ""
    key: str = ""
    growing: tuple[str, ...] = ()
    rates: tuple[tuple[str, int], ...] = ()
    moved: str = ""
    start: str = ""
    trigger: Micros = 0

    @property
    def live(self) -> bool:
        """Whether a batch ends wherever something has closed, since not all of the input is there, or may be read at once."""
        return bool(self.growing or self.rates)

    def to_json(self) -> str:
        return json.dumps(
            {
                "program": self.program,
                "inputs": self.inputs,
                "delays": self.delays,
                "unit": self.unit,
                "dated": self.dated,
                "layers": self.layers,
                "buckets": self.buckets,
                "partitions": self.partitions,
                "batch": self.batch,
                "tasks": self.tasks,
                "run": self.run,
                "store": self.store,
                "key": self.key,
                "growing": self.growing,
                "rates": self.rates,
                "moved": self.moved,
                "start": self.start,
                "trigger": self.trigger,
            }
        )

    @staticmethod
    @lru_cache(maxsize=4)
    def from_json(text: str) -> Job:
        """The inverse of `to_json`.

        >>> job = Job("{}", ("a", "b"), (0, 5), "SECOND", False, 1, 2, 2, 1000, 2, "x")
        >>> Job.from_json(job.to_json()) == job
        True
        """
        data = json.loads(text)
        return Job(
            program=data["program"],
            inputs=tuple(data["inputs"]),
            delays=tuple(data["delays"]),
            unit=data["unit"],
            dated=data["dated"],
            layers=data["layers"],
            buckets=data["buckets"],
            partitions=data["partitions"],
            batch=data["batch"],
            tasks=data["tasks"],
            run=data["run"],
            store=data["store"],
            key=data["key"],
            growing=tuple(data["growing"]),
            rates=tuple((name, rate) for name, rate in data["rates"]),
            moved=data["moved"],
            start=data["start"],
            trigger=data["trigger"],
        )

    def keys(self, layer: int) -> tuple[int, ...]:
        """The keys of a layer's buckets, in order."""
        return bucket_keys(self.layers * self.buckets, self.partitions)[layer * self.buckets : (layer + 1) * self.buckets]

    @property
    def clock(self) -> Clock:
        return Clock(Unit.from_written(self.unit), self.dated)
