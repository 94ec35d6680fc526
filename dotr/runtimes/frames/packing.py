"""Rows of an input, packed: many elements become few rows of Spark, each of one waiting key.

Idea: a stateful operator of PySpark takes its rows one by one, at a cost above that of an element.
So the elements of an Arrow batch are grouped by their waiting key, a hash of the time, and the
elements of a key are one row. All elements of an instant have one key, whatever their input.
Cost: 0.3 µs an element, by Arrow alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Micros
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.names import bucket_keys
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, encode_dead_letters, encode_totals, record_batch
from dotr.runtimes.spark.pandas_probe import suppress_pandas_probe

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
"""An odd factor that spreads times which are multiples of a second or a minute (Knuth, vol. 3, 6.4),
as a signed integer of 64 bits."""

_LOWER_BITS: Final = 33
"""Bits of a product that are left out of the hash: its upper ones depend on all bits of the time."""


HEARTBEAT: Final = -1
"""The kind of a packed row without elements: a heartbeat of the clock has come, in the place of the
number of an input."""

HEARTBEAT_TIME: Final = -(1 << 63)
"""The time of a row that is a heartbeat, and no element."""


class WaitingRow(NamedTuple):
    """An element before it is read: its time in µs since 1970, the number of its input, and its
    record."""

    time: Micros
    input: int
    record: str


class RowPacker:
    """A function from Arrow batches of `selected` rows to packed rows, for `mapInArrow`.

    Args:
        number, name: those of the input.
        partitions: the number of waiting keys, and of the partitions of operators.
    """

    def __init__(self, number: int, name: str, partitions: int) -> None:
        self._number = number
        self._name = name
        self._partitions = partitions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        suppress_pandas_probe()
        for batch in batches:
            if batch.num_rows:
                yield record_batch(self._rows(batch.column("time"), batch.column("record")))

    def _rows(self, times: pa.Array, records: pa.Array) -> list[SparkRow]:
        """The packed rows of the elements with some times and records."""
        import pyarrow as pa
        import pyarrow.compute as pc

        out: list[SparkRow] = []
        keys = bucket_keys(self._partitions, self._partitions)
        if records.null_count:
            is_element = pc.not_equal(times, pa.scalar(HEARTBEAT_TIME, pa.int64())).fill_null(True)
            if not pc.all(is_element).as_py():
                out.append(SparkRow(keys[0], HEARTBEAT, 0, b""))
                times, records = times.filter(is_element), records.filter(is_element)
        if times.null_count or records.null_count:
            out += self._unreadable(times, records)
            readable = pc.and_(pc.is_valid(times), pc.is_valid(records))
            times, records = times.filter(readable), records.filter(readable)
        numbers = waiting_numbers(times, self._partitions)
        order = pc.sort_indices(numbers)
        numbers, times, records = numbers.take(order), times.take(order), records.take(order)
        runs = pc.run_end_encode(numbers, run_end_type=pa.int32())
        start = 0
        for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            payload = _packed(times.slice(start, end - start), records.slice(start, end - start))
            out.append(SparkRow(keys[number], self._number, 0, payload))
            start = end
        return out

    def _unreadable(self, times: pa.Array, records: pa.Array) -> list[SparkRow]:
        """The rows of the dead letters of elements without a time or a graph, and of their count."""
        letters = [
            DeadLetter(
                Reason.UNREADABLE,
                self._name,
                "",
                0,
                time,
                record or "",
                "its time is NULL or out of range" if time is None else "its graph is NULL",
            )
            for time, record in zip(times.to_pylist(), records.to_pylist(), strict=True)
            if time is None or record is None
        ]
        counted = Totals(dead_letters={Reason.UNREADABLE: len(letters)})
        return [
            SparkRow(-1, RowKind.DEAD, len(letters), encode_dead_letters(letters)),
            SparkRow(-2, RowKind.COUNTS, 0, encode_totals(counted)),
        ]


def waiting_numbers(times: pa.Array, partitions: int) -> pa.Array:
    """The number of the waiting key of each time (µs since 1970).

    >>> import pyarrow as pa
    >>> sorted(set(waiting_numbers(pa.array(range(0, 60_000_000, 1_000_000)), 3).to_pylist()))
    [0, 1, 2]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    product = pc.multiply(times, pa.scalar(_GOLDEN, pa.int64()))
    hashed = pc.shift_right(product.view(pa.uint64()), pa.scalar(_LOWER_BITS, pa.uint64())).cast(pa.int64())
    return pc.subtract(hashed, pc.multiply(pc.divide(hashed, partitions), partitions))


# A packed row is the number of its elements, their times, the ends of their records in bytes, and the
# bytes of the records: two elements at 7 and 9 µs with the records `a` and `bc` are
# 2 | 7 9 | 1 3 | abc.


def _packed(times: pa.Array, records: pa.Array) -> bytes:
    """Some elements of Arrow arrays as a packed row."""
    count, first = len(times), records.offset
    _, ends, text = records.buffers()
    offsets = array("i", ends[4 * first : 4 * (first + count + 1)].to_pybytes())
    base = offsets[0]
    stamps = times.buffers()[1][8 * times.offset : 8 * (times.offset + count)].to_pybytes()
    relative = array("i", [end - base for end in offsets[1:]]) if base else offsets[1:]
    data = b"" if text is None else text[base : offsets[-1]].to_pybytes()
    return b"".join((array("i", [count]).tobytes(), stamps, relative.tobytes(), data))


def packed(rows: Sequence[WaitingRow]) -> bytes:
    """Some elements as a packed row; their input is not part of it.

    >>> unpacked(packed([WaitingRow(7, 3, "é"), WaitingRow(9, 3, "b")]), 3)
    [WaitingRow(time=7, input=3, record='é'), WaitingRow(time=9, input=3, record='b')]
    """
    texts = [row.record.encode("utf-8", "surrogatepass") for row in rows]
    ends = array("i", accumulate(map(len, texts)))
    return b"".join((array("i", [len(rows)]).tobytes(), array("q", [row.time for row in rows]).tobytes(), ends.tobytes(), *texts))


def unpacked(payload: bytes, number: int) -> list[WaitingRow]:
    """The elements of a packed row of the input with a number."""
    count = int.from_bytes(payload[:4], "little")
    times, ends = array("q", payload[4 : 4 + 8 * count]), array("i", payload[4 + 8 * count : 4 + 12 * count])
    data = payload[4 + 12 * count :]
    text = data.decode("utf-8", "surrogatepass")
    source: str | bytes = text if len(text) == len(data) else data  # ends count bytes: of ASCII alone they count characters too
    begin = 0
    found: list[WaitingRow] = []
    for time, end in zip(times, ends, strict=True):
        record = source[begin:end]
        found.append(WaitingRow(time, number, record if isinstance(record, str) else record.decode("utf-8", "surrogatepass")))
        begin = end
    return found


_MOST_BYTES: Final = 4_000_000
"""Payloads of an Arrow batch, but for a longer row."""


class BatchOperator:
    """A function from the rows of a partition, sorted by key, to those of an operator of batch
    DataFrames, for `mapInArrow`.

    Nothing is left for another batch, so that Spark opens no state, and may have any number of
    partitions: few for few rows.

    Args:
        operator: the operator, which is called once for each key.
    """

    def __init__(self, operator: StatefulProcessor) -> None:
        self._operator = operator

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self._operator.init(_NoVariables())  # type: ignore[arg-type]
        made: list[SparkRow] = []
        size = 0
        for key, rows in groupby(_rows(batches), lambda row: row.key):
            found: Iterator[Any] = self._operator.handleInputRows((key,), rows, None)  # type: ignore[arg-type]
            for row in found:
                made.append(row)
                size += len(row.payload)
                if size > _MOST_BYTES:
                    yield record_batch(made)
                    made, size = [], 0
        yield record_batch(made)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[SparkRow]:
    for batch in batches:
        yield from map(SparkRow, *(column.to_pylist() for column in batch.columns))


class _NoVariables:
    """The handle of an operator that has no state."""

    def getValueState(self, name: str, schema: str) -> None:
        """None: there is no such variable."""

    def getMapState(self, name: str, key: str, value: str) -> None:
        """None: there is no such variable."""
