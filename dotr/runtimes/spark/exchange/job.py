"""A job: everything that a worker needs, as one JSON text, so that Spark transports no objects of
dotr.

Nothing is compiled here, so that Spark's short-lived processes can read a job cheaply
(`worker_cache` compiles).
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from dotr.evaluation.files.stores import Location, configure_storage
from dotr.model import dataclass
from dotr.model.stream import NO_INPUTS, PublishedInputs
from dotr.model.time import Clock, Micros, Unit
from dotr.runtimes.spark.exchange.names import bucket_keys


@dataclass(frozen=True, slots=True)
class Job:
    """The description of a run for workers.

    - `program`, `inputs`: specifications as JSON.
    - `parsed`: the parsed texts of the program (`languages.program_json`), so that workers import
      no parser; empty: workers parse the texts.
    - `maps`: the parsed maps of the inputs, then of `topics` (`languages.program_json`), so that
      workers import no parser; empty: none has a map, or workers parse the texts.
    - `delays`: the delays of the inputs, in µs.
    - `unit`, `dated`, `zone`: the format of times.
    - `layers`, `buckets`, `partitions`: the layout of the state. Without layers there is no state,
      and the reading task runs all rules of an instant.
    - `batch`, `tasks`: approximate elements per batch, and reading tasks per batch.
    - `run`: the folder of the query, which identifies the checkpoint.
    - `store`, `key`: path of the compiled background and its hash in hexadecimal; without them each
      worker closes the background itself. `shared`: the path is used whoever may write to it.
    - `growing`: for each growing input (the last of the inputs) a JSON list: pattern (none for
      standard input), settling time, idleness, whether it is watched.
    - `rates`, `paces`: records a second, and seconds of event time a second, by input name.
    - `moved`, `start`: folder of the initial states and start offset, where state was moved from
      another query.
    - `topics`: the Kafka inputs as JSON; their partitions follow the other inputs, in the order of
      the journal of partitions.
    - `granule`: records of a granule of the index that tasks make; 0: the planner scans the inputs.
    - `marks`: the marks of the files among the inputs as JSON; empty where one is unknown.
    - `trigger`: shortest time between batches of growing inputs, in µs.
    - `clock_delay`: heartbeats follow the machine's time by so many µs; None: there are none.
    - `published`: the inputs whose elements are part of outputs.
    - `scratch`: the folder of the driver's own files where the checkpoint is at a URL; empty: they
      are in the checkpoint.
    - `storage`: the settings of stores as JSON, with secrets as `${NAME}`; empty: none.
    - `explains`: firings have the events of their matches.
    """

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
    topics: tuple[str, ...] = ()
    paces: tuple[tuple[str, float], ...] = ()
    parsed: str = ""
    granule: int = 0
    maps: str = ""
    shared: bool = False
    marks: tuple[str, ...] = ()
    zone: str = ""
    clock_delay: Micros | None = None
    published: PublishedInputs = NO_INPUTS
    explains: bool = False
    scratch: str = ""
    storage: str = ""

    @property
    def home(self) -> Location:
        """The checkpoint."""
        return Location.of(self.run).parent

    @property
    def folder(self) -> Path:
        """The folder of the driver's own files, which may be lost: the checkpoint, or a folder of
        the driver's machine."""
        return Path(self.scratch or Path(self.run).parent)

    @property
    def live(self) -> bool:
        """True if batches end as soon as instants close: inputs grow, or are limited in rate or
        pace, or are topics that tasks do not index."""
        return bool(self.growing or self.rates or self.paces or (self.topics and not self.granule))

    def to_json(self) -> str:
        """JSON text with fixed names of members; those that older releases lack are left out where
        they are empty."""
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
                **({"topics": self.topics} if self.topics else {}),
                **({"paces": self.paces} if self.paces else {}),
                **({"parsed": self.parsed} if self.parsed else {}),
                **({"granule": self.granule} if self.granule else {}),
                **({"maps": self.maps} if self.maps else {}),
                **({"shared": self.shared} if self.shared else {}),
                **({"marks": self.marks} if self.marks else {}),
                **({"zone": self.zone} if self.zone else {}),
                **({"clock_delay": self.clock_delay} if self.clock_delay is not None else {}),
                **({"explains": True} if self.explains else {}),
                **({"published": [sorted(self.published.names), self.published.order]} if self.published.names else {}),
                **({"scratch": self.scratch} if self.scratch else {}),
                **({"storage": self.storage} if self.storage else {}),
            }
        )

    @staticmethod
    @lru_cache(maxsize=4)
    def from_json(text: str) -> Job:
        """The inverse of `to_json`; the stores of this process are used as the job says.

        >>> from dataclasses import replace
        >>> job = Job("{}", ("a", "b"), (0, 5), "SECOND", False, 1, 2, 2, 1000, 2, "x")
        >>> Job.from_json(job.to_json()) == job
        True
        >>> named = replace(job, published=PublishedInputs(frozenset(["b"]), ("a", "b")))
        >>> Job.from_json(named.to_json()) == named
        True
        """
        data = json.loads(text)
        if data.get("storage"):
            configure_storage(json.loads(data["storage"]))
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
            topics=tuple(data.get("topics", ())),
            paces=tuple((name, pace) for name, pace in data.get("paces", ())),
            parsed=data.get("parsed", ""),
            granule=data.get("granule", 0),
            maps=data.get("maps", ""),
            shared=data.get("shared", False),
            marks=tuple(data.get("marks", ())),
            zone=data.get("zone", ""),
            clock_delay=data.get("clock_delay"),
            explains=data.get("explains", False),
            published=PublishedInputs(frozenset(published[0]), tuple(published[1])) if (published := data.get("published")) else NO_INPUTS,
            scratch=data.get("scratch", ""),
            storage=data.get("storage", ""),
        )

    def keys(self, layer: int) -> tuple[int, ...]:
        """The keys of a layer's buckets, in order."""
        return bucket_keys(self.layers * self.buckets, self.partitions)[layer * self.buckets : (layer + 1) * self.buckets]

    @property
    def clock(self) -> Clock:
        """The format of times."""
        return Clock(Unit.from_written(self.unit), self.dated, self.zone)
