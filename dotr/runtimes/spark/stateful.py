"""Stage two on Spark: one keyed stateful operator a layer of rules, over buckets of partition keys.

A bucket's state is one value: the bytes that the engine writes, and their digest. The engine's own object is kept between batches in the
worker that had it last; the digest says whether it is still what the store holds, so a retry or a restart can only cost time.
Rows of other layers and rows that are no arrivals pass untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from dotr.diagnostics import Refused
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import BucketSize, Kind, Line, size_payload
from dotr.runtimes.spark.trouble import Carried, marked

if TYPE_CHECKING:
    from dotr.patterns.state import State

_LIVE: Final[dict[tuple[str, int], tuple[bytes, State]]] = {}


class LayerProcessor(StatefulProcessor):
    """The operator of layer number `layer`; the job travels as text."""

    def __init__(self, job: str, layer: int) -> None:
        self._text = job
        self._layer = layer

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("bucket", "digest binary, written binary")
        self._job = Job.from_json(self._text)
        keys = self._job.keys(self._layer)
        self._bucket = {key: bucket for bucket, key in enumerate(keys)}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        bucket = self._bucket.get(key[0])
        if bucket is None:
            yield from rows
            return
        try:
            lines = [Line(row.key, row.kind, row.time, bytes(row.payload)) for row in rows]
            for line in self._step(bucket, lines):
                yield Row(key=line.key, kind=line.kind, time=line.time, payload=line.payload)
        except Refused as refused:
            raise Carried(marked(refused)) from None

    def _step(self, bucket: int, lines: list[Line]) -> list[Line]:
        from dotr.runtimes.spark.moving import begun
        from dotr.runtimes.spark.stepping import restore, step_bucket  # only where it is needed: it brings the engine with it

        stored = self._value.get()
        digest = bytes(stored[0]) if stored else b""
        name = (self._text, self._layer * self._job.buckets + bucket)
        kept = _LIVE.pop(name, None)
        state = (
            kept[1]
            if kept and kept[0] == digest
            else restore(self._job, self._layer, bytes(stored[1]) if stored else begun(self._job, self._layer, bucket))
        )
        out = step_bucket(self._job, self._layer, bucket, state, lines)
        written = state.encode()
        after = blake2b(written, digest_size=16).digest()
        if after != digest:
            self._value.update((after, written))
            size = BucketSize(self._layer, bucket, tuple(state.held), len(written))
            out.append(Line(-1 - bucket, Kind.STATE, 0, size_payload(size)))
        _LIVE[name] = after, state
        return out

    def close(self) -> None:
        """Nothing is held between calls but the cache."""
