"""Stage two on Spark: one keyed stateful operator per layer of rules or other units, over buckets
of partition keys.

The stored state of a bucket is a value and, where large, a map of log segments
(`engine.state.bucket`). Decoded state stays cached in the worker that used it last. Rows of other
layers and rows without arrivals pass unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle, ValueState

from dotr.errors.diagnostics import Refused
from dotr.runtimes.spark.exchange import names as stored_names
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, encode_diagnostics
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.pandas_probe import suppress_pandas_probe

if TYPE_CHECKING:
    from dotr.runtimes.spark.buckets.bucket_steps import BucketStore
    from dotr.runtimes.spark.buckets.worker import BucketCache
    from dotr.runtimes.spark.exchange.rows import SparkRow

_CACHE: Final[BucketCache] = {}


class SparkStore:
    """The stored state of the current key as a `BucketStore`."""

    def __init__(self, bucket: ValueState, log: MapState) -> None:
        self._bucket = bucket
        self._log = log

    def value(self) -> tuple[bytes, bytes] | None:
        stored = self._bucket.get()
        return (bytes(stored[0]), bytes(stored[1])) if stored else None

    def set_value(self, digest: bytes, written: bytes) -> None:
        self._bucket.update((digest, written))

    def read(self, log: int, position: int) -> bytes | None:
        stored = self._log.getValue((log, position))
        return None if stored is None else bytes(stored[0])

    def write(self, log: int, position: int, lines: bytes) -> None:
        self._log.updateValue((log, position), (lines,))

    def remove(self, log: int, position: int) -> None:
        self._log.removeKey((log, position))


class LayerProcessor(StatefulProcessor):
    """The operator of the layer with number `layer`; `job` is its JSON text."""

    def __init__(self, job: str, layer: int) -> None:
        self._text = job
        self._layer = layer
        self._store: BucketStore
        self._cache: BucketCache

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables and read the job."""
        suppress_pandas_probe()
        self._cache = _CACHE
        value = handle.getValueState(stored_names.BUCKET, stored_names.BUCKET_VALUE)
        self._store = self.store_of(value, handle.getMapState(stored_names.LOG, stored_names.LOG_KEY, stored_names.LOG_VALUE))
        self._job = Job.from_json(self._text)
        keys = self._job.keys(self._layer)
        self._bucket = {key: bucket for bucket, key in enumerate(keys)}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Process the rows of one key; rows of keys that are no bucket of this layer pass
        unchanged."""
        bucket = self._bucket.get(key[0])
        if bucket is None:
            yield from rows
            return
        from dotr.runtimes.spark.buckets.worker import process_batch
        from dotr.runtimes.spark.exchange.rows import SparkRow  # here, since these load the engine

        try:
            lines = [SparkRow(row.key, row.kind, row.time, bytes(row.payload)) for row in rows]
            lines += self.end_of_batch(key[0], timerValues)
            for line in process_batch(self._job, self._layer, bucket, lines, self._store, self._cache):
                yield Row(key=line.key, kind=line.kind, time=line.time, payload=line.payload)
        except Refused as refused:
            raise CarriedDiagnostics(encode_diagnostics(refused)) from None

    def store_of(self, bucket: ValueState, log: MapState) -> BucketStore:
        """The stored state of the current key."""
        return SparkStore(bucket, log)

    def end_of_batch(self, key: int, timers: Any) -> Sequence[SparkRow]:
        """The row with the time up to which a batch is complete, where no task sends it."""
        return ()

    def close(self) -> None:
        """Nothing to release."""
