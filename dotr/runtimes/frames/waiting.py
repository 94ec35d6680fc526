"""The first operator: elements wait in its state until the watermark has passed their instant, then
stage one closes it.

Idea: a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) in Spark's state, with four bits a digit.
An element waits in the slice of time that is named by the first digit in which its time differs
from the watermark. Example in decimal: at a watermark of 1234, 1239 waits in the slice 1239 itself,
1251 in 125_, 1400 in 14__. As the watermark enters a slice, its elements are divided among finer
ones; each element moves once a digit at most, and slices that the watermark has not reached are not
read. One timer a key is due when its first instant closes. Nothing is kept in memory between
batches, so that a batch that is repeated finds the state that it had.
Invariant: an instant has one key, and closes once: with the batch whose watermark is the first one
behind it. Batch DataFrames have no watermark: all instants close.
Cost: 1 µs an element and move, a read and a write of Spark's state a slice, beside stage one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, StatefulProcessor, StatefulProcessorHandle, ValueState

from dotr.model.stream import DeadLetter, InputElement, Reason
from dotr.model.time import Micros, Unit
from dotr.runtimes.frames.packing import HEARTBEAT, WaitingRow, packed, unpacked
from dotr.runtimes.frames.reading import RowSource
from dotr.runtimes.frames.shipped import ShippedJob
from dotr.runtimes.frames.starts import changed_rules, check_query
from dotr.runtimes.spark.buckets.operator import LayerProcessor, SparkStore
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, encode_totals, fallback_rows
from dotr.runtimes.spark.exchange.spilled_rows import SpilledDeadLetters
from dotr.runtimes.spark.pandas_probe import suppress_pandas_probe

if TYPE_CHECKING:
    from dotr.runtimes.spark.buckets.bucket_steps import BucketStore
    from dotr.runtimes.spark.exchange.rows import SparkRow

_MILLI: Final = Unit.MILLISECOND.value
_DIGIT: Final = 4
"""Bits of a digit of a time."""

_MOST_READ: Final = 20_000
"""Elements of a key whose graphs are in memory at a time, but for a longer instant."""

_MOST_WAITING: Final = 50_000
"""Elements that are in memory on their way into the state."""

SLICE_KEY: Final = "shift int, number long, part int"
SLICE_VALUE: Final = "input int, rows binary"
INDEX_VALUE: Final = "index string"

Slice: TypeAlias = tuple[int, int]
"""The times whose digits are `number` after a shift by `shift` bits."""


def slice_of(time: Micros, passed: Micros) -> Slice:
    """The slice in which an element waits, at a watermark; both are in µs.

    >>> [slice_of(time, 0x1234) for time in (0x1239, 0x1251, 0x1400)] == [(0, 0x1239), (4, 0x125), (8, 0x14)]
    True
    """
    shift = max(0, (time ^ passed).bit_length() - 1) // _DIGIT * _DIGIT
    return shift, time >> shift


class SliceState(NamedTuple):
    """The number of the parts of a slice in the state, and the least time in it (µs)."""

    parts: int
    least: Micros


class RowElement(InputElement):
    """An element of a row."""

    source: RowSource
    record: str

    @property
    def input(self) -> str:
        """The name of the input."""
        return self.source.name

    def dead_letter(self, reason: Reason, why: str) -> DeadLetter:
        """The dead letter of the element."""
        return DeadLetter(reason, self.input, "", 0, self.time, self.record, why)


class WaitingProcessor(StatefulProcessor):
    """The operator of elements that wait.

    Args:
        job: the job.
        sources: the JSON of each input.
        digest: that of the rules on which the state depends (`starts.state_digest`).
        is_batch: the DataFrames are no streams.
    """

    def __init__(self, job: ShippedJob, sources: Sequence[str], digest: str, *, is_batch: bool) -> None:
        self._shipped = job
        self._digest = digest
        self._source_texts = sources
        self._is_batch = is_batch

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables and read the job."""
        suppress_pandas_probe()
        self._handle = handle
        self._index = handle.getValueState("index", INDEX_VALUE)
        self._slices = handle.getMapState("slices", SLICE_KEY, SLICE_VALUE)
        self._job = Job.from_json(self._shipped.here())
        if not self._is_batch:
            check_query(self._job, len(self._source_texts))
        self._sources = [RowSource.from_json(text) for text in self._source_texts]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Store the packed rows of a key, and close the instants that the watermark has passed."""
        if key[0] < 0:
            yield from rows
            return
        arrived: list[WaitingRow] = []
        is_heartbeat = False
        for row in rows:
            if row.kind == HEARTBEAT:
                is_heartbeat = True
            else:
                arrived += unpacked(bytes(row.payload), row.kind)
        yield from self._closed(arrived, []) if self._is_batch else self._step(arrived, timerValues, is_heartbeat=is_heartbeat)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        """Close the instants of a key that the watermark has passed."""
        yield from self._step([], timerValues)

    def close(self) -> None:
        """Nothing to release."""

    def _step(self, arrived: Iterable[WaitingRow], timers: Any, *, is_heartbeat: bool = False) -> Iterator[Row]:
        watermark = timers.getCurrentWatermarkInMs()
        passed = watermark * _MILLI if watermark > 0 else None
        index = _SliceIndex.read(self._index.get(), self._digest)
        late: list[WaitingRow] = []
        due: list[WaitingRow] = []
        begin = 0 if passed is None else passed
        waiting = _Waiting(self._slices, index, begin)
        for slice_ in index.due(passed):
            for row in self._taken(index, slice_):
                if row.time < begin:
                    due.append(row)
                else:
                    waiting.add(row)
        for row in arrived:
            if passed is not None and row.time < passed:
                late.append(row)
            else:
                waiting.add(row)
        waiting.store()
        heartbeat = index.passed_by(passed - 1) if is_heartbeat and passed is not None else None
        if index.changed:
            self._reset_timer(index)
            self._index.update((index.to_json(),))
        if due or late or heartbeat is not None:
            yield from self._closed(due, late, heartbeat)

    def _taken(self, index: _SliceIndex, slice_: Slice) -> Iterator[WaitingRow]:
        """The elements of a slice, which is removed."""
        for part in range(index.take(slice_)):
            stored = self._slices.getValue((*slice_, part))
            assert stored is not None
            self._slices.removeKey((*slice_, part))
            yield from unpacked(bytes(stored[1]), stored[0])

    def _reset_timer(self, index: _SliceIndex) -> None:
        """Set the timer to the time at which the first instant closes: the first millisecond behind
        it, and behind 1970, where watermarks begin."""
        timer = None if index.least is None else max(1, index.least // _MILLI + 1)
        if timer != index.timer:
            if index.timer is not None:
                self._handle.deleteTimer(index.timer)
            if timer is not None:
                self._handle.registerTimer(timer)
            index.timer = timer

    def _closed(self, due: Iterable[WaitingRow], late: Iterable[WaitingRow], heartbeat: Micros | None = None) -> Iterator[Row]:
        """The rows of stage one for all elements of some instants, and for a heartbeat (µs) behind
        them."""
        from dotr.runtimes.spark.exchange.worker_cache import without_garbage_collection
        from dotr.runtimes.spark.tasks.stage_one_task import instant_lines  # here, since these load the engine

        letters = SpilledDeadLetters(self._job)
        for row in sorted(late):
            name = self._sources[row.input].name
            letters.append(
                DeadLetter(Reason.LATE, name, "", 0, row.time, row.record, "its instant has closed: the watermark had passed it")
            )
        rows = sorted(due)
        with without_garbage_collection():
            for begin, end in _whole_instants(rows):
                elements = list(self._elements(rows[begin:end], letters))
                is_last = end == len(rows)
                lines, totals = instant_lines(self._job, elements, letters, lambda time, own: own, None, heartbeat if is_last else None)
                letters = SpilledDeadLetters(self._job)
                counts = SparkRow(-2, RowKind.COUNTS, 0, encode_totals(totals))
                for line in (*lines, counts, *fallback_rows()):
                    yield Row(key=line.key, kind=line.kind, time=line.time, payload=line.payload)

    def _elements(self, rows: Iterable[WaitingRow], letters: SpilledDeadLetters) -> Iterator[RowElement]:
        """The elements of rows; a row that cannot be read is a dead letter."""
        from dotr.runtimes.frames.reading import read_record, why_unreadable

        for row in rows:
            source = self._sources[row.input]
            try:
                element = RowElement(row.time, read_record(source, row.record))
            except ValueError as error:
                reason, why = why_unreadable(error)
                letters.append(DeadLetter(reason, source.name, "", 0, row.time, row.record, why))
                continue
            element.source, element.record, element.recorded = source, row.record, source.stream
            yield element


def _whole_instants(rows: Sequence[WaitingRow], most: int = _MOST_READ) -> Iterator[tuple[int, int]]:
    """The ranges of some rows, in the order of time, that are read at a time: whole instants, and one
    range at least.

    >>> rows = [WaitingRow(time, 0, "") for time in (1, 1, 2, 3, 3, 4)]
    >>> list(_whole_instants(rows, 2)), list(_whole_instants([]))
    ([(0, 2), (2, 5), (5, 6)], [(0, 0)])
    """
    begin = 0
    while True:
        end = min(begin + most, len(rows))
        while 0 < end < len(rows) and rows[end].time == rows[end - 1].time:
            end += 1
        yield begin, end
        if end == len(rows):
            return
        begin = end


class _Waiting:
    """Elements on their way into slices of the state, at a watermark of `begin` (µs)."""

    def __init__(self, slices: MapState, index: _SliceIndex, begin: Micros) -> None:
        self._state = slices
        self._index = index
        self._begin = begin
        self._rows: dict[tuple[Slice, int], list[WaitingRow]] = {}
        self._count = 0

    def add(self, row: WaitingRow) -> None:
        """Add an element."""
        self._rows.setdefault((slice_of(row.time, self._begin), row.input), []).append(row)
        self._count += 1
        if self._count == _MOST_WAITING:
            self.store()

    def store(self) -> None:
        """Write the elements so far."""
        for (slice_, number), rows in self._rows.items():
            part = self._index.add(slice_, min([row.time for row in rows]))
            self._state.updateValue((*slice_, part), (number, packed(rows)))
        self._rows, self._count = {}, 0


class _SliceIndex:
    """The slices of a key that have elements, the digest of the rules, the timer of the key (ms), and
    the last heartbeat (µs).

    `changed`: it differs from what is stored.
    """

    def __init__(self, digest: str, slices: dict[Slice, SliceState], timer: int | None = None, heartbeat: Micros | None = None) -> None:
        self._digest = digest
        self._slices = slices
        self.timer = timer
        self._heartbeat = heartbeat
        self.changed = False

    @staticmethod
    def read(stored: tuple[str] | None, digest: str) -> _SliceIndex:
        """The index of a stored text; None: there is none yet."""
        if stored is None:
            return _SliceIndex(digest, {})
        known, slices, *rest = json.loads(stored[0])
        if known != digest:
            raise changed_rules()
        return _SliceIndex(digest, {(shift, number): SliceState(parts, least) for shift, number, parts, least in slices}, *rest)

    def to_json(self) -> str:
        """The text that `read` reads."""
        slices = [[*slice_, *state] for slice_, state in self._slices.items()]
        return json.dumps([self._digest, slices, self.timer, self._heartbeat])

    def passed_by(self, heartbeat: Micros) -> Micros | None:
        """The heartbeat (µs), if it is later than the last one."""
        if self._heartbeat is not None and heartbeat <= self._heartbeat:
            return None
        self.changed, self._heartbeat = True, heartbeat
        return heartbeat

    def due(self, passed: Micros | None) -> list[Slice]:
        """The slices with an element before a time (µs)."""
        return [] if passed is None else [slice_ for slice_, state in self._slices.items() if state.least < passed]

    def take(self, slice_: Slice) -> int:
        """Remove a slice; returns the number of its parts."""
        self.changed = True
        return self._slices.pop(slice_).parts

    def add(self, slice_: Slice, least: Micros) -> int:
        """Add a part with a least time (µs) to a slice; returns its number."""
        self.changed = True
        parts, before = self._slices.get(slice_, SliceState(0, least))
        self._slices[slice_] = SliceState(parts + 1, min(before, least))
        return parts

    @property
    def least(self) -> Micros | None:
        """The least time of all elements (µs); None without elements."""
        return min([state.least for state in self._slices.values()], default=None)


# The operator of a layer over DataFrames: that of the own source, whose batches end by Spark's
# watermark.


class _DigestedStore(SparkStore):
    """The stored state of the current key, with the digest of the rules that it depends on in front
    of its own."""

    def __init__(self, bucket: ValueState, log: MapState, digest: bytes) -> None:
        super().__init__(bucket, log)
        self._digest = digest

    def value(self) -> tuple[bytes, bytes] | None:
        stored = super().value()
        if stored is None:
            return None
        if not stored[0].startswith(self._digest):
            raise changed_rules()
        return stored[0][len(self._digest) :], stored[1]

    def set_value(self, digest: bytes, written: bytes) -> None:
        super().set_value(self._digest + digest, written)


class _NoStore:
    """The state of a key of a batch DataFrame, which ends with its one call."""

    def value(self) -> None:
        """None: there is no state yet."""

    def set_value(self, digest: bytes, written: bytes) -> None:
        """Keep nothing."""

    def read(self, log: int, position: int) -> None:
        """None: there is no state yet."""

    def write(self, log: int, position: int, lines: bytes) -> None:
        """Keep nothing."""

    def remove(self, log: int, position: int) -> None:
        """Keep nothing."""


class FrameLayerProcessor(LayerProcessor):
    """The operator of the layer with number `layer`.

    Args:
        job: the job with the background of its program.
        digest: that of the rules on which the state depends (`starts.state_digest`).
        is_batch: the DataFrames are no streams.
    """

    def __init__(self, job: ShippedJob, layer: int, digest: str, *, is_batch: bool) -> None:
        super().__init__("", layer)
        self._shipped = job
        self._digest = digest
        self._is_batch = is_batch

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables and read the job."""
        self._text = self._shipped.here()
        super().init(handle)
        if self._is_batch:
            self._cache = {}
        else:
            check_query(self._job)

    def store_of(self, bucket: ValueState, log: MapState) -> BucketStore:
        """The stored state of the current key."""
        return _NoStore() if self._is_batch else _DigestedStore(bucket, log, self._digest.encode())

    def end_of_batch(self, key: int, timers: Any) -> Sequence[SparkRow]:
        """The row with the time that the watermark has passed, or the end of the stream."""
        from dotr.model.time import LAST_MICRO, Unit
        from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow
        from dotr.runtimes.spark.exchange.worker_cache import program_of

        if self._is_batch:
            closed = LAST_MICRO - (not program_of(self._job).spec.fires_at_end)
        else:
            closed = timers.getCurrentWatermarkInMs() * Unit.MILLISECOND.value - 1
        return (SparkRow(key, RowKind.CLOSED, closed, b""),)
