"""Rows that pass through Spark: four columns, few and large rows.

| kind | key | time | payload |
| --- | --- | --- | --- |
| CHUNK | bucket | first instant | arrivals at a bucket of a layer, by instant |
| CLOSED | bucket | closed so far | none: the time for a bucket without arrivals in the batch |
| SPAN | bucket | first instant of a task | times as text: the last instant of each stretch, the first of the next; only with timers |
| FIRINGS | below 0 | number | firings of a bucket, or of a task where no state is kept |
| RUN | below 0 | number | path of a sorted run of firings (`spilled_rows`) |
| DEAD_RUN | below 0 | number | path of a sorted run of dead letters |
| DEAD | below 0 | number | dead letters |
| FALLBACKS | below 0 | number | answered errors (`dotr.errors.fallbacks`) |
| INCONSISTENT | below 0 | 0 | first inconsistent instants of a task, each with its inconsistency |
| COUNTS | below 0 | 0 | totals |
| ENDED | below 0 | 0 | none: the stream has ended |
| STATE | below 0 | its bytes | size of a bucket |
| UNDER_WAY | bucket | end | a unit or queue of a lower layer, active before that time (`under_way`) |
| ELEMENTS | below 0 | number | elements of inputs that an output has, as FIRINGS |
| ELEMENT_RUN | below 0 | number | path of a sorted run of such elements |
| SHOWN | – | – | dead letters that the driver only logs, from the tasks of an output to the driver alone |
| DUE | below 0 | due | the time as text: when a bucket acts next without arrivals; only with a `clock` |

Rows with keys below 0 pass every operator unchanged. Payloads are JSON, or a path: data, never
code.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.errors.fallbacks import Fallback, drain_fallbacks
from dotr.errors.fallbacks import FallbackKind as FallbackKind
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Micros
from dotr.runtimes.external_sort import decode_firings as decode_firings
from dotr.runtimes.external_sort import encode_firings as encode_firings
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.names import KEY
from dotr.streams.time_formats import RepeatedHour
from dotr.temporal.matching.rule_counts import RuleCounts

if TYPE_CHECKING:  # Arrow starts threads, so it is loaded where a worker makes rows
    import pyarrow as pa

SCHEMA: Final = f"{KEY} long, kind int, time long, payload binary"
COLUMNS: Final = (KEY, "kind", "time", "payload")


class RowKind(IntEnum):
    """The kind of a row."""

    CHUNK = 0
    CLOSED = 1
    FIRINGS = 2
    DEAD = 3
    INCONSISTENT = 4
    COUNTS = 5
    SPAN = 6
    ENDED = 7
    STATE = 8
    RUN = 9
    DEAD_RUN = 10
    FALLBACKS = 11
    UNDER_WAY = 12
    DUE = 13
    ELEMENTS = 14
    ELEMENT_RUN = 15
    SHOWN = 16


class SparkRow(NamedTuple):
    """A row."""

    key: int
    kind: int
    time: Micros
    payload: bytes


class BucketSize(NamedTuple):
    """The size of a bucket: the events of each port, and its bytes as written."""

    layer: int
    bucket: int
    event_counts: tuple[int, ...]
    bytes: int


def record_batch(rows: Iterable[SparkRow]) -> pa.RecordBatch:
    """Rows as an Arrow record batch.

    Arrays are made of buffers, as Arrow would import pandas to make one of Python values. The
    payloads `b"ab"` and `b"c"` are the bytes `abc` with the offsets 0, 2 and 3.

    >>> record_batch([SparkRow(1, 2, 3, b"ab"), SparkRow(-4, 5, 6, b"c")]).to_pylist()[1]
    {'key': -4, 'kind': 5, 'time': 6, 'payload': b'c'}
    """
    import pyarrow as pa

    keys, kinds, times, payloads = list(zip(*rows, strict=True)) or [(), (), (), ()]
    count = len(keys)
    long, number, binary = pa.int64(), pa.int32(), pa.binary()
    offsets = array("i", accumulate(map(len, payloads), initial=0))
    arrays = [
        pa.Array.from_buffers(long, count, [None, pa.py_buffer(array("q", keys))]),
        pa.Array.from_buffers(number, count, [None, pa.py_buffer(array("i", kinds))]),
        pa.Array.from_buffers(long, count, [None, pa.py_buffer(array("q", times))]),
        pa.Array.from_buffers(binary, count, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(payloads))]),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def encode_dead_letters(dead_letters: Iterable[DeadLetter]) -> bytes:
    """The inverse of `decode_dead_letters`."""
    return _json_bytes([[letter.reason.value, *letter[1:]] for letter in dead_letters])


def decode_dead_letters(payload: bytes) -> list[DeadLetter]:
    """Dead letters from a payload.

    >>> letter = DeadLetter(Reason.LATE, "sensors", "a.csv", 7, 12, "x,y", "why")
    >>> decode_dead_letters(encode_dead_letters([letter])) == [letter]
    True
    """
    return [DeadLetter(Reason(reason), *rest) for reason, *rest in json.loads(payload)]


def encode_inconsistencies(inconsistencies: Iterable[tuple[Micros, str]]) -> bytes:
    """The inverse of `decode_inconsistencies`."""
    return _json_bytes(list(inconsistencies))


def decode_inconsistencies(payload: bytes) -> list[tuple[Micros, str]]:
    """Inconsistent instants from a payload.

    >>> decode_inconsistencies(encode_inconsistencies([(5, "cax-dw: …")]))
    [(5, 'cax-dw: …')]
    """
    return [(time, clash) for time, clash in json.loads(payload)]


def fallback_rows() -> list[SparkRow]:
    """A row of the fallbacks that this process has recorded since the last call; none without
    fallbacks."""
    fallbacks = drain_fallbacks()
    return [SparkRow(-1, RowKind.FALLBACKS, sum(each.times for each in fallbacks), encode_fallbacks(fallbacks))] if fallbacks else []


def encode_fallbacks(fallbacks: Iterable[Fallback]) -> bytes:
    """The inverse of `decode_fallbacks`."""
    return _json_bytes([[each.kind.name, *each[1:]] for each in fallbacks])


def decode_fallbacks(payload: bytes) -> list[Fallback]:
    """Fallbacks from a payload.

    >>> found = [Fallback(FallbackKind.QUERY, "ValueError: no", "dotr/instant/queries/plan.py:7 in at", 3)]
    >>> decode_fallbacks(encode_fallbacks(found)) == found
    True
    """
    return [Fallback(FallbackKind[kind], error, place, times) for kind, error, place, times in json.loads(payload)]


def encode_size(size: BucketSize) -> bytes:
    """The inverse of `decode_size`."""
    return _json_bytes(size)


def decode_size(payload: bytes) -> BucketSize:
    """The size of a bucket from a payload.

    >>> size = BucketSize(0, 1, (3, 0), 120)
    >>> decode_size(encode_size(size)) == size
    True
    """
    layer, bucket, event_counts, written = json.loads(payload)
    return BucketSize(layer, bucket, tuple(event_counts), written)


def encode_totals(totals: Totals) -> bytes:
    """The inverse of `decode_totals`."""
    dead_letters = {reason.value: count for reason, count in totals.dead_letters.items()}
    counts: list[object] = [totals.elements, totals.instants, totals.facts, totals.events, dead_letters]
    counts += [totals.dropped, totals.inconsistent]
    further = bool(totals.left_out or totals.repeated_hours)
    if totals.fallbacks or totals.rules or totals.terms or further:
        counts.append(totals.fallbacks)
    if totals.rules or totals.terms or further:
        rules = {name: _written_counts(each) for name, each in totals.rules.items()}
        counts += [rules, sorted(totals.terms)]
    if totals.left_out or totals.repeated_hours:
        counts.append([[*key, count] for key, count in totals.left_out.items()])
    if totals.repeated_hours:
        counts.append(totals.repeated_hours)
    return _json_bytes(counts)  # without fallbacks, rules, terms and left out cells in the form of earlier releases


def _written_counts(counts: RuleCounts) -> list[object]:
    """The counts of a rule, without those at the end that few rules have."""
    further = counts.held_back, counts.unbound_keys, counts.delay_errors
    written: list[object] = [counts.anchors, counts.events, counts.furthest]
    if counts.errors or any(further):
        written += [list(counts.errors.items()), counts.first_error]
    return [*written, *further] if any(further) else written


def _read_counts(anchors: int, events: int, furthest: int, errors: Any = (), first: Any = None, *further: int) -> RuleCounts:
    return RuleCounts(anchors, events, furthest, (), dict(errors), None if first is None else tuple(first), *further)


def decode_totals(payload: bytes) -> Totals:
    """Totals from a payload.

    >>> rules = {"Leak": RuleCounts(3, 1, 2, (), {2: 1}, (False, 9, 2, "")), "R": RuleCounts(1)}
    >>> totals = Totals(elements=2, dead_letters={Reason.LATE: 1}, inconsistent=1, rules=rules, left_out={("in", "Wert"): 3})
    >>> decode_totals(encode_totals(totals)) == totals
    True
    """
    counts = json.loads(payload)
    elements, instants, facts, events, dead, dropped, inconsistent = counts[:7]
    fallbacks = counts[7] if len(counts) > 7 else 0
    rules, terms = counts[8:10] or ({}, ())
    left_out = counts[10] if len(counts) > 10 else ()
    return Totals(
        elements,
        instants,
        facts,
        events,
        {Reason(reason): count for reason, count in dead.items()},
        dropped,
        inconsistent,
        fallbacks,
        {name: _read_counts(*each) for name, each in rules.items()},
        frozenset(terms),
        {(name, column): count for name, column, count in left_out},
        tuple(RepeatedHour(*each) for each in (counts[11] if len(counts) > 11 else ())),
    )
