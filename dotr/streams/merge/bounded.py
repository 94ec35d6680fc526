"""Merge of inputs by time: complete instants in time order, with minimal read-ahead (semantics.md,
section 6).

Idea: each file yields its admitted elements in time order, delayed by its lateness. A table groups
the files by the time of their next element, and a heap holds the times, so that heap operations are
per instant, not per element.
Invariant: when an instant is emitted, no file holds a further admissible element of that or an
earlier time.
Cost: below 1 µs an element besides reading. Memory: one element a file, and the elements within its
delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple, TypeAlias

from dotr.model.stream import DeadLetter, Element
from dotr.model.time import Micros
from dotr.streams.formats.reading import Reader
from dotr.streams.lateness import Apart, Lateness, TimeFilter
from dotr.streams.records import InputFile, Record, with_sources

OnReject: TypeAlias = Callable[[DeadLetter], None]


class RecordSource(NamedTuple):
    """Records of a file from a position on, and the lateness state of the file at that position."""

    file: InputFile
    records: Iterator[Record]
    lateness: Lateness


def merged(files: Sequence[InputFile], on_reject: OnReject, *, trace: bool = False) -> Iterator[tuple[Micros, list[Element]]]:
    """Instants of complete files, in time order: each time (µs since 1970) with its elements,
    ordered by file and by position in the file.

    `on_reject` receives the dead letters of late and unreadable records as they are read. All files
    are opened first; raises `Refused` where one cannot be opened. `trace`: the elements are
    `SourcedElement`.
    """
    readers: list[Reader] = []
    try:
        for file in files:
            readers.append(Reader(file, time_filter=TimeFilter()))  # noqa: PERF401 (`finally` closes the readers that were opened)
        records = [with_sources(reader.file, reader.records()) if trace else reader.records() for reader in readers]
        sources = [RecordSource(reader.file, own, Lateness.of(reader.file)) for reader, own in zip(readers, records, strict=True)]
        yield from instants(sources, on_reject)
    finally:
        for reader in readers:
            reader.close()


def instants(sources: Sequence[RecordSource], on_reject: OnReject) -> Iterator[tuple[Micros, list[Element]]]:
    """Instants of sources from their positions on, as those of `merged`."""
    inputs = [in_time_order(source, on_reject) for source in sources]
    if len(sources) == 1 and sources[0].file.single:  # nothing to merge
        for element in inputs[0]:
            yield element[0], [element]
        return
    heads: list[Element] = []
    numbers_by_time: dict[Micros, list[int]] = {}
    times: list[Micros] = []
    for number, elements in enumerate(inputs):
        head = next(elements, None)
        if head is None:
            heads.append(_NONE)
            continue
        heads.append(head)
        if head.time in numbers_by_time:
            numbers_by_time[head.time].append(number)
        else:
            numbers_by_time[head.time] = [number]
            heappush(times, head.time)
    while times:
        now = heappop(times)
        numbers = numbers_by_time.pop(now)
        numbers.sort()
        instant: list[Element] = []
        for number in numbers:
            instant.append(heads[number])
            for element in inputs[number]:
                time = element[0]
                if time == now:
                    instant.append(element)
                    continue
                heads[number] = element
                others = numbers_by_time.get(time)
                if others is None:
                    numbers_by_time[time] = [number]
                    heappush(times, time)
                else:
                    others.append(number)
                break
        yield now, instant


_NONE = Element(0, ())


def in_time_order(source: RecordSource, on_reject: OnReject) -> Iterator[Element]:
    """Admitted elements of a source in time order, and in file order where times are equal.

    `on_reject` receives the dead letters of all other records.
    """
    file, records, lateness = source
    if isinstance(lateness, Apart):
        return _set_apart(file, records, lateness, on_reject)
    return _delayed(file, records, lateness, on_reject) if lateness.delay else _in_file_order(file, records, lateness, on_reject)


def _in_file_order(file: InputFile, records: Iterator[Record], lateness: Lateness, on_reject: OnReject) -> Iterator[Element]:
    verdict = lateness.verdict
    for record in records:
        element = record[4]
        if element is None:
            on_reject(lateness.of_unreadable(file, record))
        elif element[0] > lateness.greatest:  # the common case of `verdict`, inlined
            lateness.greatest = element[0]
            yield element
        elif (reason := verdict(element[0])) is None:
            yield element
        else:
            on_reject(lateness.dead_letter(file, record, reason))


def _set_apart(file: InputFile, records: Iterator[Record], lateness: Apart, on_reject: OnReject) -> Iterator[Element]:
    decided = chain.from_iterable(lateness.decided(file, record) for record in records)
    for each in chain(decided, lateness.released()):  # which is called behind the last record
        if each.letter is not None:
            on_reject(each.letter)
        elif (element := each.record.element) is not None:
            yield element


def _delayed(file: InputFile, records: Iterator[Record], lateness: Lateness, on_reject: OnReject) -> Iterator[Element]:
    buffered: list[tuple[Micros, int, Element]] = []
    for number, record in enumerate(records):
        dead_letter = lateness.rejection(file, record)
        if dead_letter is not None:
            on_reject(dead_letter)
        else:
            element = record[4]
            assert element is not None
            heappush(buffered, (element[0], number, element))
            passed = lateness.passed
            while buffered[0][0] <= passed:
                yield heappop(buffered)[2]
    while buffered:
        yield heappop(buffered)[2]
