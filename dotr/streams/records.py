"""Files, positions and records of inputs, and the connections that receive messages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from dotr.errors.diagnostics import DotrError, Refused
from dotr.evaluation.limits import LIMITS
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, InputElement, Reason
from dotr.model.templates import ParsedMap
from dotr.model.time import Micros, Unit
from dotr.streams.merge.file_marks import FileMark, FoundFile
from dotr.streams.times import zoneless


class LaterModule:
    """Module that is imported when a name of it is first used.

    >>> LaterModule("dotr.streams.times").parse_delay("2 s")
    2000000
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(import_module(self._name), name)
        return value


class Format(Enum):
    """Formats of elements (interface.md, A stream element)."""

    NDJSON = "ndjson"
    TRIG = "trig"
    NQUADS = "nquads"
    CSV = "csv"
    JSON = "json"
    TEXT = "text"
    PARQUET = "parquet"
    TURTLE = "turtle"
    NTRIPLES = "ntriples"
    JSONLD = "jsonld"
    JELLY = "jelly"
    RECORDING = "recording"

    @property
    def media_type(self) -> str:
        """The usual media type.

        >>> Format.TRIG.media_type
        'application/trig'
        """
        return CONTENT_TYPES[self][0]


CONTENT_TYPES: Final = {
    Format.NDJSON: ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/json"),
    Format.JSON: ("application/json", "text/json", "+json"),
    Format.CSV: ("text/csv", "application/csv"),
    Format.TEXT: ("text/plain", "application/json", "text/json"),
    Format.TURTLE: ("text/turtle", "application/turtle", "application/x-turtle"),
    Format.NTRIPLES: ("application/n-triples",),
    Format.TRIG: ("application/trig", "application/x-trig"),
    Format.NQUADS: ("application/n-quads", "text/x-nquads"),
    Format.JSONLD: ("application/ld+json", "application/x-ld+ndjson", "application/json", "+json"),
    Format.JELLY: ("application/x-jelly-rdf",),
}
"""The media types of each format of messages, the usual one first; `+json`: any type with this suffix."""

WIDE: Final = frozenset(("utf-16", "utf-16-le", "utf-16-be"))
"""The encodings with several bytes for each character of ASCII that files may have."""

COLUMNS: Final = "columns"
"""The value of `each` by which every column of a row is a record."""

ROWS: Final = "rows"
"""The value of `each` in a copy of rows whose columns are records."""


class SentTime(Enum):
    """Sources of the time of an element outside of its text. The values are those of `time` in a
    configuration.

    - TIMESTAMP: the transport's time of the message.
    - RECEIVED: the clock's time when the message was spooled.
    """

    TIMESTAMP = "$timestamp"
    RECEIVED = "$received"


SENT_TIMES: Final = {each.value: each for each in SentTime}
"""Sources of times by their names."""


class Times(Enum):
    """The time of an element that has several distinct ones; ONE: it is unreadable. The values are
    those of `times` in a configuration.
    """

    ONE = "one"
    LATEST = "latest"
    EARLIEST = "earliest"


class Message(NamedTuple):
    """A message of a transport, with its properties; or, without a body, the origin of a record of
    a file, of which `place` is the number.

    - `body`: the bytes.
    - `place`: the number of the message in its input: the offset in Kafka, the ordinal in a spool.
    - `timestamp`: the transport's time in µs since 1970 (Kafka: the record's); None without one.
    - `received`: the time in µs since 1970 at which the message was spooled; None if it was not.
    - `key`, `headers`: of a record of Kafka, or the headers of a request, publication or answer;
      the key of a server-sent event is its ID.
    - `topic`, `partition`: of Kafka or MQTT; the topic of a server-sent event is its name.
    - `file`: the name of the file, relative to the folder of the configuration.
    - `item`: the number of the item of `each`, from 1 on.
    - `why`, `reason`: of what is no message but a dead letter, such as one for messages that are
      lost; empty: it is a message.
    """

    body: bytes
    place: int
    timestamp: Micros | None = None
    received: Micros | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    topic: str = ""
    partition: int = 0
    file: str = ""
    item: str = ""
    why: str = ""
    reason: Reason = Reason.UNREADABLE

    def time_by(self, clock: SentTime) -> Micros:
        """The time (µs since 1970) of the given source; raises ValueError where there is none.

        >>> Message(b"", 0, timestamp=5_000).time_by(SentTime.TIMESTAMP)
        5000
        """
        time = self.at(clock)
        if time is None:
            raise ValueError(f"its transport gives it no time ({clock.value})")
        return time

    def at(self, clock: SentTime) -> Micros | None:
        """The time (µs since 1970) of the given source; None where there is none."""
        return self.timestamp if clock is SentTime.TIMESTAMP else self.received

    @property
    def sent(self) -> Micros | None:
        """The message's own timestamp in µs since 1970: the transport's, else that of reception;
        None without one."""
        return self.received if self.timestamp is None else self.timestamp


@dataclass(frozen=True, slots=True)
class ElementMap:
    """Mapping of rows of CSV or Parquet, or of JSON objects, to elements.

    - `time`: the column, or the path in the object, of the time; a template of such cells, or
      several of these, of which the first that is there counts (`maps.time_cells`); none of a
      table of the background, whose rows have the time 0.
    - `template`: makes the graph. It is a document, so messages can refer to its lines.
    - `delimiter`, `decimal`: of a CSV file; the decimal mark is a dot or a comma.
    - `encoding`: of the text; one of `WIDE` is recoded to UTF-8 as it is read.
    - `time_format`: the format of times, as in `datetime.strptime`, or `unix`, `unix_ms`, …; None:
      ISO 8601, or integers.
    - `time_zone`: the name of the zone that applies to date-times without one; None: UTC.
    - `each`: the path of a list in a JSON message, each item of which is an element, or the paths
      of lists side by side with a comma between them; of a row `COLUMNS`; empty: the message or row
      is one element.
    - `lines`: True if each line is a JSON message; otherwise the first line decides.
    - `columns`: the columns of CSV data without a header; empty: the first line is the header.
    - `skip`: the number of lines before the header or the first row; `comment`: what begins a line
      that is no record; empty: every line is one.
    - `folder`: the folder (an absolute path) that the names of files in the graph are relative to.
    - `parsed`: the parsed template, where another process has parsed it.
    """

    time: str | tuple[str, ...]
    template: Document
    delimiter: str = ","
    time_format: str | None = None
    time_zone: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    each: str = ""
    lines: bool = False
    columns: tuple[str, ...] = ()
    skip: int = 0
    comment: str = ""
    folder: str = ""
    parsed: ParsedMap | None = field(default=None, compare=False)

    @property
    def sent_time(self) -> SentTime | None:
        """The source outside of the text that gives the time; None where the text has it."""
        return _sent_time(self.time)

    @property
    def is_dated(self) -> bool:
        """True if times are date-times in a form of their own, or put together of several cells."""
        times = [self.time] if isinstance(self.time, str) else self.time
        return self.time_format is not None or any("{" in each and not _ONE_CELL.fullmatch(each) for each in times)

    @property
    def codec(self) -> str:
        """The encoding of the text as it is read."""
        return "utf-8" if self.encoding in WIDE else self.encoding

    def to_list(self) -> list[Any]:
        """The map as a list for JSON, without `parsed`. Settings at their defaults are omitted, as
        in older releases."""
        named = {key: value for key, value in (("skip", self.skip), ("comment", self.comment), ("folder", self.folder)) if value}
        columns = [list(self.columns), *([named] if named else [])] if self.columns or named else []
        further = [self.time_format, self.time_zone, self.decimal, self.encoding, self.each, self.lines]
        settings = [*further, *columns] if columns or further != _NO_FURTHER else []
        time = self.time if isinstance(self.time, str) else list(self.time)
        return [time, self.template.name, self.template.text, self.delimiter, *settings]

    @staticmethod
    def from_list(items: Sequence[Any]) -> ElementMap:
        """Inverse of `to_list`."""
        time, name, text, delimiter, *others = items
        time = time if isinstance(time, str) else tuple(time)
        named: dict[str, Any] = others[7] if others[7:] else {}
        return ElementMap(time, Document(name, text), delimiter, *others[:6], *map(tuple, others[6:7]), **named)


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Settings of messages that are RDF.

    - `time`: the path to the message's time, of predicates as terms, such as `<http://e/a>` or
      `<http://e/a>/^<http://e/b>`, or the value of a `SentTime`; empty: prov:generatedAtTime.
    - `contexts`: the JSON-LD documents used for remote contexts, by IRI.
    - `context`: the JSON-LD document that is the context of messages without one; empty: none.
    - `base`: the IRI that relative IRIs of JSON-LD are resolved against; empty: none.
    - `times`: the time of an element with several distinct ones.
    """

    time: str = ""
    contexts: tuple[tuple[str, str], ...] = ()
    context: str = ""
    base: str = ""
    times: Times = Times.ONE

    @property
    def sent_time(self) -> SentTime | None:
        """The source outside of the text that gives the time; None where the text has it."""
        return _sent_time(self.time)

    def to_list(self) -> list[Any]:
        """The settings as a list for JSON. The last ones are omitted at their defaults, as in older
        releases.

        >>> settings = GraphSettings("<http://e/at>", times=Times.LATEST)
        >>> GraphSettings.from_list(settings.to_list()) == settings, GraphSettings().to_list()
        (True, ['', (), ''])
        """
        further = [self.base, self.times.value]
        return [self.time, self.contexts, self.context, *(further if further != ["", Times.ONE.value] else ())]

    @staticmethod
    def from_list(items: Sequence[Any]) -> GraphSettings:
        """Inverse of `to_list`."""
        time, contexts, context, *further = items
        base, times = further or ("", Times.ONE)
        return GraphSettings(time, tuple((iri, text) for iri, text in contexts), context, base, Times(times))


def _sent_time(time: str | tuple[str, ...]) -> SentTime | None:
    return SENT_TIMES.get(time) if isinstance(time, str) else None


_ONE_CELL: Final = re.compile(r'\{[^{}]*\}|"(?:[^"\\]|\\.)*"')
"""A time of one cell: `{Date}`, or a name in quotes."""

_NO_FURTHER: Final[list[Any]] = [None, None, ".", "utf-8", "", False]


class Replayed(NamedTuple):
    """The replay of a file that is there in full.

    - `shift`: the distance (µs) by which its times move in the first round.
    - `every`: by how much later (µs) each further round lies; 0: there is one round.
    """

    shift: Micros
    every: Micros = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as an ordered input, with all settings to read it.

    - `input`: the name of the configured input.
    - `unit`: the unit of integer times.
    - `delay`: the declared lateness (µs).
    - `prefixes`: of inline graphs and of the map.
    - `map`: makes elements of CSV rows and JSON objects; None for other formats.
    - `single`: every element is an instant.
    - `nesting`, `record`: limits (`dotr.evaluation.limits`): depth of brackets, and bytes of a
      record.
    - `graphs`: the settings of RDF messages.
    - `framed`: the file is a segment of spooled messages (`dotr.streams.formats.segments`).
    - `ahead`: the greatest distance (µs) of an element's time behind the timestamp of its message;
      None: any.
    - `apart`: elements of one time are set one microsecond apart, in their order.
    - `mark`: the file as of its first opening, of which no further bytes are read; None: as of each
      opening. It is not in the JSON.
    - `change`: the file is not read: this sentence on a change of it is its one record.
    - `zone`: the name of the zone in which messages show times; empty: UTC.
    - `replayed`: the times of the elements move (`replay`); None: they are those of the file.
    - `copied_from`: the file of which `path` is a copy, for cells of the record's origin; empty:
      none. It is not in the JSON, as `mark` and `change`.
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
    graphs: GraphSettings = GraphSettings()
    framed: bool = False
    ahead: Micros | None = None
    apart: bool = False
    zone: str = ""
    replayed: Replayed | None = None
    mark: FileMark | None = field(default=None, compare=False)
    change: str = ""
    copied_from: str = ""

    @property
    def size(self) -> int | None:
        """The number of bytes that are read; None: all."""
        return None if self.mark is None else self.mark.offset

    def found(self, file: FoundFile) -> InputFile:
        """Another file with these settings."""
        return replace(self, path=file.path, mark=file.mark, change=file.change)

    def in_round(self, number: int) -> InputFile:
        """The file in one round of its replay, from 0 on; a file without a replay is itself.

        >>> InputFile("in", "a", Format.TRIG, replayed=Replayed(-5, 60)).in_round(2).replayed
        Replayed(shift=115, every=0)
        """
        own = self.replayed
        return self if own is None else replace(self, replayed=Replayed(own.shift + number * own.every))

    @property
    def shift(self) -> Micros:
        """The distance (µs) by which its times move."""
        return 0 if self.replayed is None else self.replayed.shift

    @property
    def record_of_change(self) -> Record:
        """The one record of a change."""
        return Record(0, 0, 1, None, None, b"", self.change, reason=Reason.CHANGED)

    @property
    def dead_letter_of_change(self) -> DeadLetter:
        """The dead letter of a change."""
        return self.record_of_change.dead_letter(self)

    def to_json(self) -> str:
        """Specification as JSON, for another process. Limits at their defaults are omitted, as in
        older releases.

        >>> file = InputFile("in", "a.csv", Format.CSV, map=ElementMap("t", Document("map", "[] a {x}")))
        >>> InputFile.from_json(file.to_json()) == file
        True
        >>> InputFile.from_json(InputFile("in", "a", Format.TRIG, record=7).to_json()).record
        7
        >>> InputFile.from_json(InputFile("in", "a", Format.TRIG, apart=True).to_json()).apart
        True
        >>> InputFile.from_json(InputFile("in", "a", Format.TRIG, replayed=Replayed(7, 9)).to_json()).replayed
        Replayed(shift=7, every=9)
        """
        mapped = self.map and self.map.to_list()
        further: list[Any] = [self.nesting, self.record, self.graphs.to_list(), self.framed]
        if self.ahead is not None:
            further.append(self.ahead)
        elif not self.framed:
            further = further[:3] if self.graphs != GraphSettings() else further[:2]
        if further == [LIMITS.nesting, LIMITS.record]:
            further = []
        unit, single = self.unit.written, _APART if self.apart else self.single
        named = {key: value for key, value in (("zone", self.zone), ("replayed", self.replayed)) if value not in ("", None)}
        further += [named] if named else []
        return json.dumps([self.input, self.path, self.format.value, unit, self.delay, self.prefixes, mapped, single, *further])

    @staticmethod
    def from_json(text: str) -> InputFile:
        """Inverse of `to_json`."""
        name, path, form, unit, delay, prefixes, items, single, *further = json.loads(text)
        mapped = ElementMap.from_list(items) if items else None
        named: dict[str, Any] = further.pop() if further and isinstance(further[-1], dict) else {}
        if "replayed" in named:
            named["replayed"] = Replayed(*named["replayed"])
        file = InputFile(
            name,
            path,
            Format(form),
            Unit.from_written(unit),
            delay,
            tuple((prefix, iri) for prefix, iri in prefixes),
            mapped,
            single is True,
            *further[:2],
            *map(GraphSettings.from_list, further[2:3]),
            *further[3:],
            **named,
        )
        return replace(file, apart=single == _APART)


_APART: Final = "apart"
"""The value of `one_per_instant` in the JSON of an input whose elements are set apart."""


class Position(NamedTuple):
    """Start of a record: its offset in the decompressed bytes, and its line, from 1 on."""

    offset: int
    line: int


START: Final = Position(0, 1)

SHOWN: Final = 1 << 16
"""Length (bytes) of the beginning that is kept of a record beyond its limit."""


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
    """A section of a file for one element. Records are consecutive, without overlap.

    - `offset`, `end`: the range of bytes [offset, end); `line`: the number of the first line.
    - `time`: µs since 1970; None exactly if the record is unreadable. A scan reads only times, so a
      readable record of a scan may be unreadable in a full reading.
    - `element`: None in an unreadable record, in a scan, and outside of a filter of times.
    - `raw`: the bytes; only the beginning where they exceed the limit.
    - `why`: the error of an unreadable record, and `stamp` its time, if that is readable.
    - `reason`: the kind of that error: UNREADABLE, LIMIT, EMPTY, LOST, AHEAD or CHANGED.
    - `item`: the number of an item of `each` in its message, such as `2`, or `1.2` in nested lists.
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
    item: str = ""

    @property
    def judged_time(self) -> Micros | None:
        """The time that lateness is judged by, in µs since 1970: that of the element, or the one
        beside an unreadable graph; None without a time, or if it is ahead of its message.

        A scan and a full reading give the same time.
        """
        if self.time is not None:
            return self.time
        return None if self.reason is Reason.AHEAD else self.stamp

    @property
    def text(self) -> str:
        """Text of the record in UTF-8, without its line end."""
        return self.decoded("utf-8")

    def decoded(self, encoding: str) -> str:
        """Text of the record in an encoding, without its line end."""
        return self.raw.decode(encoding, "replace").removesuffix("\n").removesuffix("\r")

    def dead_letter(self, file: InputFile, reason: Reason | None = None, why: str = "") -> DeadLetter:
        """Dead letter of the record; `reason` and `why` default to its own."""
        time = self.stamp if self.time is None else self.time
        if why and self.item:
            why = f"{self.item_name(file)}: {why}"
        why = why or self.why
        if len(why) > _LONGEST_WHY:  # a parser's message may contain a long term
            why = f"{why[:_LONGEST_WHY]}…"
        if file.record != LIMITS.record and self.reason is Reason.LIMIT:
            why = why.replace("(limits.record)", "(limits.record, or the input's max_bytes)")
        text, encoding = self.decoded("utf-8" if file.map is None else file.map.codec), ""
        if "\ufffd" in text and not self._is_text("utf-8" if file.map is None else file.map.codec):
            line = self.raw.removesuffix(b"\n").removesuffix(b"\r")
            text, encoding = base64.b64encode(line[:SHOWN]).decode(), "base64"
        if reason is Reason.LATE and time is not None and zoneless(text, time - file.shift):
            why += "; its date-time has no zone, and was read as UTC"
        return DeadLetter(reason or self.reason, file.input, file.path, self.line, time, text, why, encoding)

    def item_name(self, file: InputFile) -> str:
        """The name of the item of `each` in dead letters.

        >>> file = InputFile("in", "", Format.JSON, map=ElementMap("t", Document("map", ""), each="entry[]"))
        >>> Record(0, 1, 1, None, None, b"", item="2").item_name(file)
        'item 2 of entry[]'
        """
        return f"item {self.item} of {(file.map and file.map.each) or '[]'}"

    def _is_text(self, encoding: str) -> bool:
        try:
            self.raw.decode(encoding)
        except UnicodeDecodeError:
            return False
        return True


class SourcedElement(InputElement):
    """An element with its record and its file, for a dead letter after the merge."""

    file: InputFile
    record: Record

    @property
    def input(self) -> str:
        """The name of the input."""
        return self.file.input

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


class ReceivingFailed(DotrError):
    """End of a receiver for a reason that may pass: its port was lost, its credentials expired."""


class AllEnded(DotrError):
    """The end of all receivers, none of which has had a readable message."""


class Inbox(Protocol):
    """The queue or spool that a receiver delivers its messages to."""

    @property
    def last(self) -> Message | None:
        """The last message that earlier runs have stored; None where there is none."""

    def earlier(self) -> Iterator[list[Message]]:
        """Messages of earlier runs that are still stored, in lists, of which the newest is first."""

    def offer(self, messages: Sequence[Message], kept: Callable[[], None]) -> bool:
        """Accept all of some messages, or none; False where the inbox is full.

        The inbox sets their `place` and `received`. The callback `kept` is called once, when the
        messages are stored: written to the disk, or queued in process. It may be called in any
        thread, also before this call returns, and must not block. It is never called for messages
        that were not accepted, or that could not be written.
        """

    def wait_for_capacity(self, seconds: float, size: int = 0) -> bool:
        """Wait, `seconds` at most, for space for a message of `size` bytes; True if there is."""


class Receiver(Protocol):
    """A connection that offers messages to an inbox, from threads of its own."""

    @property
    def connected(self) -> bool:
        """True while messages can arrive."""

    @property
    def failure(self) -> Refused | ReceivingFailed | None:
        """The error that ended the receiver, and that ends the run; None while it works."""

    @property
    def ended(self) -> bool:
        """True once the sender has said that no further message comes, and all are offered."""

    def is_drained(self) -> bool:
        """True if nothing that was sent waits to be read and offered, or the sender cannot be
        reached; callable in any thread."""

    def start(self, inbox: Inbox) -> None:
        """Begin to offer messages; raises `Refused` where that cannot succeed (a port in use)."""

    def stop(self) -> None:
        """End the connection. No message is offered once this has returned."""


class MessageSource(Protocol):
    """Specification of a receiver, a frozen value."""

    @property
    def address(self) -> str:
        """The address without secrets: the `file` of dead letters."""

    def receiver(self) -> Receiver:
        """A receiver, not yet started; raises `Refused` where its library is missing."""
