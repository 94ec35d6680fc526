"""What inputs are made of: files, positions in them, and records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from dotr.joins.limits import LIMITS
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Micros, Unit
from dotr.sources.times import zoneless


class Format(Enum):
    """How elements are written (interface.md, A stream element)."""

    NDJSON = "ndjson"
    TRIG = "trig"
    NQUADS = "nquads"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class CsvMap:
    """What makes a row an element: the column of its time, and a template. The template is a document: messages
    name it."""

    time: str
    template: Document
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as an input of its own, in its own order. `input` is the configured input's name, `delay` its declared lateness, `csv`
    what a CSV file needs beside; `prefixes` apply to inline graphs and to the map. `single`: every element is an instant of its own.
    `nesting` and `record` are limits (`dotr.joins.limits`): the depth of brackets in a record, and its bytes."""

    input: str
    path: str
    format: Format
    unit: Unit = Unit.SECOND
    delay: Micros = 0
    prefixes: tuple[tuple[str, str], ...] = ()
    csv: CsvMap | None = None
    single: bool = False
    nesting: int = LIMITS.nesting
    record: int = LIMITS.record

    def to_json(self) -> str:
        """The specification as JSON, to be sent to another process. Limits at their defaults are left out, as before there were any.

        >>> file = InputFile("in", "a.csv", Format.CSV, csv=CsvMap("t", Document("map", "[] a {x}")))
        >>> InputFile.from_json(file.to_json()) == file
        True
        >>> InputFile.from_json(InputFile("in", "a", Format.TRIG, record=7).to_json()).record
        7
        """
        csv = self.csv and [self.csv.time, self.csv.template.name, self.csv.template.text, self.csv.delimiter]
        limits = [] if (self.nesting, self.record) == (LIMITS.nesting, LIMITS.record) else [self.nesting, self.record]
        unit = self.unit.written
        return json.dumps([self.input, self.path, self.format.value, unit, self.delay, self.prefixes, csv, self.single, *limits])

    @staticmethod
    def from_json(text: str) -> InputFile:
        """The inverse of `to_json`."""
        name, path, form, unit, delay, prefixes, csv, single, *limits = json.loads(text)
        mapped = CsvMap(csv[0], Document(csv[1], csv[2]), csv[3]) if csv else None
        return InputFile(
            name,
            path,
            Format(form),
            Unit.from_written(unit),
            delay,
            tuple((prefix, iri) for prefix, iri in prefixes),
            mapped,
            single,
            *limits,
        )


class Position(NamedTuple):
    """Where a record starts: its offset in the bytes of the (uncompressed) file, and its line, counted from 1."""

    offset: int
    line: int


START: Final = Position(0, 1)

SHOWN: Final = 1 << 16
"""Bytes of a record beyond its limit that are kept as its text."""


_LONGEST_WHY: Final = 1_000


def beginning(raw: bytes, limit: int) -> bytes:
    """The beginning of the bytes of a record beyond its limit, without the part of a character at its end.

    >>> len(beginning(b"a" + SHOWN * "é".encode(), 2 * SHOWN)), len(beginning(b"abc", 2))
    (65535, 2)
    """
    most = min(SHOWN, limit)
    end = min(most, len(raw))
    while most - 4 < end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end]


def beyond(limit: int, what: str = "it") -> str:
    """The reason of a record with more bytes than the limit."""
    return f"{what} has more than {limit:,} bytes (limits.record)"


class Record(NamedTuple):
    """A stretch of a file that is an element or should be one. Records of a file follow each other without overlap.

    `time` is None exactly if the record is unreadable; then `why` says what is wrong and `stamp` is the time that it gives nevertheless, if
    any. `element` is None where it is unreadable, and where elements are not asked for. `reason` is UNREADABLE or, beyond a limit, LIMIT;
    of a record with more bytes than its limit `raw` is the beginning alone.
    """

    offset: int
    end: int
    line: int
    time: Micros | None
    element: Element | None
    raw: bytes
    why: str = ""
    stamp: Micros | None = None
    reason: Reason = Reason.UNREADABLE

    @property
    def text(self) -> str:
        """The record's own text, without the line end behind it."""
        return self.raw.decode(errors="replace").removesuffix("\n").removesuffix("\r")

    def letter(self, file: InputFile, reason: Reason | None = None, why: str = "") -> DeadLetter:
        """The dead letter of this record; without a reason, of one that is unreadable or beyond a limit."""
        time = self.stamp if self.time is None else self.time
        why = why or self.why
        if len(why) > _LONGEST_WHY:  # a parser's message may hold a term of any length
            why = f"{why[:_LONGEST_WHY]}…"
        if reason is Reason.LATE and time is not None and zoneless(self.text, time):
            why += "; its date-time has no zone, and was read as UTC"
        return DeadLetter(reason or self.reason, file.input, file.path, self.line, time, self.text, why)


class SourcedElement(Element):
    """An element that remembers the record it was, and in which file, so that it can become a dead letter after it was merged."""

    file: InputFile
    record: Record

    def letter(self, reason: Reason, why: str) -> DeadLetter:
        """The dead letter of the element."""
        return self.record.letter(self.file, reason, why)


def traced(file: InputFile, records: Iterator[Record]) -> Iterator[Record]:
    """The records of a file, with elements that remember them."""
    for record in records:
        if record.element is None:
            yield record
        else:
            element = SourcedElement(*record.element)
            element.file, element.record = file, record
            yield record._replace(element=element)
