"""Files, positions and records of inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from dotr.joins.limits import LIMITS
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Micros, Unit
from dotr.sources.times import zoneless


class Format(Enum):
    """Formats of elements (interface.md, A stream element)."""

    NDJSON = "ndjson"
    TRIG = "trig"
    NQUADS = "nquads"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ElementMap:
    """Mapping of CSV rows or JSON objects to elements.

    - `time`: the column, or the path in the object, of the time.
    - `template`: makes the graph. It is a document, so messages can refer to its lines.
    - `delimiter`, `encoding`, `decimal`: of a CSV file; the mark of decimals is a dot or a comma.
    - `time_format`: the form of times, as of `datetime.strptime`; None: ISO 8601, or integers.
    - `time_zone`: the name of the zone of date-times without one; None: UTC.
    - `each`: the path of a list in a JSON message, each item of which is an element; empty: the
      message is one element.
    - `lines`: each line is a JSON message, whatever the first line looks like.
    """

    time: str
    template: Document
    delimiter: str = ","
    time_format: str | None = None
    time_zone: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    each: str = ""
    lines: bool = False

    def to_list(self) -> list[str | bool | None]:
        """The map as a list for JSON. Settings at their defaults are omitted, as in older releases."""
        further = [self.time_format, self.time_zone, self.decimal, self.encoding, self.each, self.lines]
        return [self.time, self.template.name, self.template.text, self.delimiter, *(further if further != _NO_FURTHER else ())]

    @staticmethod
    def from_list(items: Sequence[Any]) -> ElementMap:
        """Inverse of `to_list`."""
        time, name, text, *others = items
        return ElementMap(time, Document(name, text), *others)


_NO_FURTHER: Final[list[str | bool | None]] = [None, None, ".", "utf-8", "", False]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as an ordered input.

    `input` is the name of the configured input, `delay` its declared lateness (µs), `map` makes
    elements of CSV rows and JSON objects; `prefixes` apply to inline graphs and to the map.
    `single`: every element is an instant.
    `nesting` and `record` are limits (`dotr.joins.limits`): depth of brackets, and bytes of a
    record.
    `framed`: the file is a segment of spooled messages (`dotr.sources.message_segments`).
    """

    input: str
    path: str
    format: Format
    unit: Unit = Unit.SECOND
    delay: Micros = 0
    prefixes: tuple[tuple[str, str], ...] = ()
    map: ElementMap | None = None
    single: bool = False
    nesting: int = LIMITS.nesting
    record: int = LIMITS.record
    framed: bool = False

    def to_json(self) -> str:
        """Specification as JSON, for another process. Limits at their defaults are omitted, as in
        older releases.

        >>> file = InputFile("in", "a.csv", Format.CSV, map=ElementMap("t", Document("map", "[] a {x}")))
        >>> InputFile.from_json(file.to_json()) == file
        True
        >>> InputFile.from_json(InputFile("in", "a", Format.TRIG, record=7).to_json()).record
        7
        """
        mapped = self.map and self.map.to_list()
        further: list[int | bool] = [self.nesting, self.record, *([True] if self.framed else ())]
        if further == [LIMITS.nesting, LIMITS.record]:
            further = []
        unit = self.unit.written
        return json.dumps([self.input, self.path, self.format.value, unit, self.delay, self.prefixes, mapped, self.single, *further])

    @staticmethod
    def from_json(text: str) -> InputFile:
        """Inverse of `to_json`."""
        name, path, form, unit, delay, prefixes, items, single, *further = json.loads(text)
        mapped = ElementMap.from_list(items) if items else None
        return InputFile(
            name,
            path,
            Format(form),
            Unit.from_written(unit),
            delay,
            tuple((prefix, iri) for prefix, iri in prefixes),
            mapped,
            single,
            *further,
        )


class Position(NamedTuple):
    """Start of a record: its offset in the (uncompressed) bytes of the file, and its line from 1
    on.
    """

    offset: int
    line: int


START: Final = Position(0, 1)

SHOWN: Final = 1 << 16
"""Bytes kept as the text of a record beyond its limit."""


_LONGEST_WHY: Final = 1_000


def beginning(raw: bytes, limit: int) -> bytes:
    """First bytes of a record beyond its limit, cut between characters of UTF-8.

    >>> len(beginning(b"a" + SHOWN * "é".encode(), 2 * SHOWN)), len(beginning(b"abc", 2))
    (65535, 2)
    """
    most = min(SHOWN, limit)
    end = min(most, len(raw))
    while most - 4 < end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end]


def limit_reason(limit: int, what: str = "it") -> str:
    """Reason of a record with more bytes than the limit."""
    return f"{what} has more than {limit:,} bytes (limits.record)"


class Record(NamedTuple):
    """A section of a file that is, or should be, one element. Records are consecutive without
    overlap.

    `time` (µs since 1970) is None exactly if the record is unreadable; then `why` is the error, and
    `stamp` the time, if readable.
    `element` is None in an unreadable record and in a scan.
    `reason` is UNREADABLE or, beyond a limit, LIMIT; `raw` holds the beginning alone where the
    record has more bytes than its limit.
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
        """Text of the record in UTF-8, without its line end."""
        return self.decoded("utf-8")

    def decoded(self, encoding: str) -> str:
        """Text of the record in an encoding, without its line end."""
        return self.raw.decode(encoding, "replace").removesuffix("\n").removesuffix("\r")

    def dead_letter(self, file: InputFile, reason: Reason | None = None, why: str = "") -> DeadLetter:
        """Dead letter of the record; without `reason`, of an unreadable record or one beyond a
        limit.
        """
        time = self.stamp if self.time is None else self.time
        why = why or self.why
        if len(why) > _LONGEST_WHY:  # a parser's message may contain a long term
            why = f"{why[:_LONGEST_WHY]}…"
        text = self.decoded("utf-8" if file.map is None else file.map.encoding)
        if reason is Reason.LATE and time is not None and zoneless(text, time):
            why += "; its date-time has no zone, and was read as UTC"
        return DeadLetter(reason or self.reason, file.input, file.path, self.line, time, text, why)


class SourcedElement(Element):
    """An element with its record and its file, for a dead letter after the merge."""

    file: InputFile
    record: Record

    def dead_letter(self, reason: Reason, why: str) -> DeadLetter:
        """Dead letter of the element."""
        return self.record.dead_letter(self.file, reason, why)


def with_sources(file: InputFile, records: Iterator[Record]) -> Iterator[Record]:
    """Records of a file, with `SourcedElement` as elements."""
    for record in records:
        if record.element is None:
            yield record
        else:
            element = SourcedElement(*record.element)
            element.file, element.record = file, record
            yield record._replace(element=element)
