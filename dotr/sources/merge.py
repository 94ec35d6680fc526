"""Inputs merged by time: instants complete, in time order, read no further ahead than the delays ask for (semantics.md, section 6).

Idea: each file gives its elements in time order (those not late, held back by its delay); the files wait in a table by the time
of their next element, and a heap holds the times. So a heap operation is paid per instant, not per element.
Invariant: when an instant is given, no file has an element of its time, or of an earlier one, left that is not late.
Cost: below 1 µs an element besides reading it. Memory: one element a file, and what lies within a file's delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from dotr.model.stream import DeadLetter, Element
from dotr.model.time import Micros
from dotr.sources.lateness import Lateness
from dotr.sources.reading import Reader
from dotr.sources.records import InputFile, Record, traced

OnReject: TypeAlias = Callable[[DeadLetter], None]


class RecordSource(NamedTuple):
    """A file's records from some position on, and the judge of their lateness, who knows the greatest time before it."""

    file: InputFile
    records: Iterator[Record]
    lateness: Lateness


def merged(files: Sequence[InputFile], dead: OnReject, *, trace: bool = False) -> Iterator[tuple[Micros, list[Element]]]:
    """The instants of whole files: each time with its elements, in the order of the files and within a file in its own.

    What is late or unreadable goes to `dead` when it is met. Every file is opened at once; raises `Refused` where one cannot be.
    `trace`: the elements are `Traced`.
    """
    readers: list[Reader] = []
    try:
        for file in files:
            readers.append(Reader(file))  # noqa: PERF401 (those opened are closed if a later one cannot be)
        records = [traced(reader.file, reader.records()) if trace else reader.records() for reader in readers]
        sources = [
            RecordSource(reader.file, own, Lateness(reader.file.delay, single=reader.file.single))
            for reader, own in zip(readers, records, strict=True)
        ]
        yield from instants(sources, dead)
    finally:
        for reader in readers:
            reader.close()


def instants(sources: Sequence[RecordSource], dead: OnReject) -> Iterator[tuple[Micros, list[Element]]]:
    """The instants of sources: as `merged`, from wherever the sources start."""
    inputs = [in_time_order(source, dead) for source in sources]
    if len(sources) == 1 and sources[0].file.single:  # nothing to merge
        for element in inputs[0]:
            yield element[0], [element]
        return
    heads: list[Element] = []
    waiting: dict[Micros, list[int]] = {}
    times: list[Micros] = []
    for number, elements in enumerate(inputs):
        head = next(elements, None)
        if head is None:
            heads.append(_NONE)
            continue
        heads.append(head)
        if head.time in waiting:
            waiting[head.time].append(number)
        else:
            waiting[head.time] = [number]
            heappush(times, head.time)
    while times:
        now = heappop(times)
        numbers = waiting.pop(now)
        numbers.sort()
        together: list[Element] = []
        for number in numbers:
            together.append(heads[number])
            for element in inputs[number]:
                time = element[0]
                if time == now:
                    together.append(element)
                    continue
                heads[number] = element
                others = waiting.get(time)
                if others is None:
                    waiting[time] = [number]
                    heappush(times, time)
                else:
                    others.append(number)
                break
        yield now, together


_NONE = Element(0, ())


def in_time_order(source: RecordSource, dead: OnReject) -> Iterator[Element]:
    """The elements of a source in time order, those of one time in the file's order; what is late or unreadable goes to `dead`."""
    file, records, lateness = source
    return _held_back(file, records, lateness, dead) if lateness.delay else _as_they_come(file, records, lateness, dead)


def _as_they_come(file: InputFile, records: Iterator[Record], lateness: Lateness, dead: OnReject) -> Iterator[Element]:
    verdict = lateness.verdict
    for record in records:
        element = record[4]
        if element is None:
            dead(record.letter(file))
        elif (reason := verdict(element[0])) is None:
            yield element
        else:
            dead(lateness.dead_letter(file, record, reason))


def _held_back(file: InputFile, records: Iterator[Record], lateness: Lateness, dead: OnReject) -> Iterator[Element]:
    held: list[tuple[Micros, int, Element]] = []
    for number, record in enumerate(records):
        letter = lateness.rejection(file, record)
        if letter is not None:
            dead(letter)
        else:
            element = record[4]
            assert element is not None
            heappush(held, (element[0], number, element))
            passed = lateness.passed
            while held[0][0] <= passed:
                yield heappop(held)[2]
    while held:
        yield heappop(held)[2]
