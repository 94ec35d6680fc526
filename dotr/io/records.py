"""What inputs are made of: files, positions in them, and records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Micros, Unit


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
    what a CSV file needs beside; `prefixes` apply to inline graphs and to the map. `single`: every element is an instant of its own."""

    input: str
    path: str
    format: Format
    unit: Unit = Unit.SECOND
    delay: Micros = 0
    prefixes: tuple[tuple[str, str], ...] = ()
    csv: CsvMap | None = None
    single: bool = False

    def to_json(self) -> str:
        """The specification as JSON, to be sent to another process.

        >>> file = InputFile("in", "a.csv", Format.CSV, csv=CsvMap("t", Document("map", "[] a {x}")))
        >>> InputFile.from_json(file.to_json()) == file
        True
        """
        csv = self.csv and [self.csv.time, self.csv.template.name, self.csv.template.text, self.csv.delimiter]
        return json.dumps([self.input, self.path, self.format.value, self.unit.written, self.delay, self.prefixes, csv, self.single])

    @staticmethod
    def from_json(text: str) -> InputFile:
        """The inverse of `to_json`."""
        name, path, form, unit, delay, prefixes, csv, single = json.loads(text)
        mapped = CsvMap(csv[0], Document(csv[1], csv[2]), csv[3]) if csv else None
        return InputFile(
            name, path, Format(form), Unit.of_written(unit), delay, tuple((prefix, iri) for prefix, iri in prefixes), mapped, single
        )


class Position(NamedTuple):
    """Where a record starts: its offset in the bytes of the (uncompressed) file, and its line, counted from 1."""

    offset: int
    line: int


START: Final = Position(0, 1)


class Record(NamedTuple):
    """A stretch of a file that is an element or should be one. Records of a file follow each other without overlap.

    `time` is None exactly if the record is unreadable; then `why` says what is wrong and `stamp` is the time that it gives nevertheless, if
    any. `element` is None where it is unreadable, and where elements are not asked for.
    """

    offset: int
    end: int
    line: int
    time: Micros | None
    element: Element | None
    raw: bytes
    why: str = ""
    stamp: Micros | None = None

    @property
    def text(self) -> str:
        """The record's own text, without the line end behind it."""
        return self.raw.decode(errors="replace").removesuffix("\n").removesuffix("\r")

    def letter(self, file: InputFile, reason: Reason, why: str = "") -> DeadLetter:
        """The dead letter of this record."""
        return DeadLetter(
            reason, file.input, file.path, self.line, self.stamp if self.time is None else self.time, self.text, why or self.why
        )


class Traced(Element):
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
            element = Traced(*record.element)
            element.file, element.record = file, record
            yield record._replace(element=element)
