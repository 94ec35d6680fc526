"""Parsed maps of inputs, sent along with the specification or parsed from its text, the shapes of
the graphs that they generate, and the cells of times and of the origin of a record."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right, insort
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.stores import Location
from dotr.model.algebra import Const
from dotr.model.places import Document, Span
from dotr.model.stream import Reason
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, GraphShape, ParsedMap, ShapedTriple, Template
from dotr.model.time import LAST_MICRO
from dotr.streams.formats.lines import file_version
from dotr.streams.formats.mapping.map_terms import JsonNumber, columns_of
from dotr.streams.records import SENT_TIMES, ElementMap, Format, InputFile, Message, Position, Record, SentTime


def parsed_map(file: InputFile) -> ParsedMap:
    """The map of an input of CSV rows or JSON objects.

    >>> from dotr.streams.records import ElementMap, Format
    >>> file = InputFile("in", "a.csv", Format.CSV, map=ElementMap("t", Document("map", "<x:s> <x:p> {x}")))
    >>> parsed_map(file).template.triples[0][2].column
    'x'

    Raises:
        Refused: with all errors in the text of the map.
    """
    assert file.map is not None
    return file.map.parsed or _parsed(file.map.template, file.prefixes)


def is_mapping(text: str) -> bool:
    """True if a `map` names a file with a mapping, and is no template.

    >>> is_mapping("rooms.rml.ttl"), is_mapping("<x:{a}> a <x:y.ttl>")
    (True, False)
    """
    return text.endswith(".ttl") and "{" not in text and "\n" not in text


@lru_cache(256)
def _parsed(document: Document, prefixes: tuple[tuple[str, str], ...]) -> ParsedMap:
    from dotr.syntax.turtle.parser import parse_map  # imported here, since Spark's workers receive parsed maps

    return parse_map(Span(document, 0, len(document.text)), dict(prefixes))


def shape_of(template: Template) -> GraphShape | None:
    """The shape of a map's graphs, for rows without empty cells.

    None unless all triples have the same blank node as subject, and distinct predicates.

    >>> from dotr.syntax.turtle.parser import parse_template
    >>> from dotr.model.places import Document, Span
    >>> def shape(text: str) -> GraphShape | None:
    ...     return shape_of(parse_template(Span(Document("map", text), 0, len(text)), {"": "http://e/"}, cells=True))
    >>> [(each.predicate, each.object) for each in shape("[] a :Reading ; :value {value} .").triples][1]
    ('<http://e/value>', None)
    >>> shape(":room{room} :value {value} .") is shape("[] :value {low}, {high} .") is None
    True
    """
    triples: list[ShapedTriple] = []
    subjects = {subject for subject, _, _ in template.triples}
    for subject, predicate, value in template.triples:
        if (
            not isinstance(subject, Blank)
            or not isinstance(predicate, Const)
            or not isinstance(value, Const | Cell | CellIri | CellLiteral)
        ):
            return None
        triples.append(ShapedTriple(predicate.term, value.term if isinstance(value, Const) else None))
    is_plain = len(subjects) == 1 and len({each.predicate for each in triples}) == len(triples)
    return GraphShape(tuple(triples)) if is_plain else None


def shapes_of(files: Iterable[InputFile]) -> list[GraphShape]:
    """The distinct shapes of the graphs of inputs of CSV and text."""
    maps = {(file.map, file.prefixes): file for file in files if file.map is not None and file.format in (Format.CSV, Format.TEXT)}
    shapes = dict.fromkeys(shape_of(parsed_map(file).template) for file in maps.values())
    return [shape for shape in shapes if shape is not None]


# Cells of the origin of a record: what its transport says of it, outside of its text.

NUMBER: Final = "$number"
"""The cell that is the number of the record in its file, from 1 on; of Kafka the offset."""

ITEM: Final = "$item"
"""The cell that is the number of the item of `each`, from 1 on."""

VALUE: Final = "$value"
"""The cell that is the whole text of a record of the format text."""

FILES: Final = "path"
STANDARD: Final = "standard input"
_ORIGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "$topic": ("kafka", "mqtt"),
    "$key": ("kafka",),
    "$partition": ("kafka",),
    "$offset": ("kafka",),
    "$timestamp": ("kafka",),
    "$header": ("kafka", "mqtt", "http"),
    "$file": (FILES,),
    "$stem": (FILES,),
    NUMBER: (FILES, "kafka"),
    "$id": ("sse",),
    "$event": ("sse",),
    ITEM: (FILES, STANDARD, "kafka", "mqtt", "http", "sse", "websocket"),
}
"""The transports that have each cell."""

_WITH_LEVELS: Final = ("$topic", "$file")
_ORIGIN: Final = re.compile(r"(\$[a-z]+)(?:\[(-?[0-9]{1,9})\]|\.(.+))?")
_ENDINGS: Final = re.compile(r"(?<=.)(?:\.[A-Za-z][A-Za-z0-9_]*)+$")


class OriginCell(NamedTuple):
    """A cell of the origin of a record: its name, the level of a topic or path that it names, and
    the header."""

    name: str
    level: int | None = None
    header: str = ""


@lru_cache(256)
def origin_cell(text: str) -> OriginCell:
    """The cell that a text describes; raises ValueError where there is none.

    >>> origin_cell("$topic[-1]"), origin_cell("$header.unit")
    (OriginCell(name='$topic', level=-1, header=''), OriginCell(name='$header', level=None, header='unit'))
    >>> origin_cell("$key[1]")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a record has no $key[1]: write $topic, $topic[0], $key, ...
    """
    found = _ORIGIN.fullmatch(text)
    name, level, header = found.groups() if found else ("", None, None)
    if name not in _ORIGINS or (level and name not in _WITH_LEVELS) or (header is not None) != (name == "$header"):
        known = "$topic, $topic[0], $key, $partition, $offset, $timestamp, $header.NAME, $id, $event, $file, $file[-2], $stem, "
        known += "$number or $item"
        raise ValueError(f"a record has no {text}: write {known}")
    return OriginCell(name, None if level is None else int(level), (header or "").strip('"').lower())


def is_origin(cell: str) -> bool:
    """True if a cell of a map is one of the origin of a record."""
    try:
        return cell.startswith("$") and bool(origin_cell(cell))
    except ValueError:
        return False


def origin_value(origin: Message | None, cell: str) -> str | None:
    """The text, or the JSON number, of a cell of the origin of a record; None where the origin
    lacks it.

    Raises ValueError for a key or a header that is not UTF-8.

    >>> message = Message(b"", 7, 5_000, key=b"a", headers=(("unit", b"C"), ("unit", b"K")), topic="home/attic")
    >>> [origin_value(message, cell) for cell in ("$key", "$topic[-1]", "$topic[2]", "$offset", "$timestamp", "$header.unit")]
    ['a', 'attic', None, '7', '5', 'K']
    >>> [origin_value(Message(b"", 1, file="in/pump-1.csv.gz"), cell) for cell in ("$file", "$file[-2]", "$stem")]
    ['in/pump-1.csv.gz', 'in', 'pump-1']
    """
    if origin is None:
        return None
    name, level, header = origin_cell(cell)
    match name:
        case "$key" | "$id":
            raw = origin.key
        case "$event":
            return origin.topic or "message"
        case "$topic" | "$file":
            text = origin.topic if name == "$topic" else origin.file
            levels = text.split("/")
            return text if level is None else levels[level] if -len(levels) <= level < len(levels) else None
        case "$stem":
            return _ENDINGS.sub("", origin.file.rpartition("/")[2])
        case "$partition":
            return JsonNumber(origin.partition)
        case "$offset" | "$number":
            return JsonNumber(origin.place)
        case "$item":
            return origin.item if "." in origin.item else JsonNumber(origin.item)
        case "$timestamp":
            return None if origin.timestamp is None else JsonNumber(origin.timestamp // 1000)
        case _:
            raw = next((value for each, value in reversed(origin.headers) if each.lower() == header), None)
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        raise ValueError(f"its {cell} is not UTF-8") from None


def origin_cells(file: InputFile) -> tuple[str, ...]:
    """The cells of the origin of a record that the map of an input has, in order."""
    return () if file.map is None else tuple(filter(is_origin, columns_of(parsed_map(file).template)))


def origin_of(file: InputFile) -> Message:
    """The origin of the records of a file, without their numbers."""
    assert file.map is not None
    path = file.copied_from or file.path
    folder = file.map.folder
    if Location(path).is_url or Location(folder).is_url:
        return Message(b"", 0, file=path.removeprefix(f"{folder}/"))
    return Message(b"", 0, file=os.path.relpath(path, folder or None) if path else "")


def check_origins(file: InputFile, transport: str, place: Span | None) -> None:
    """Check that a transport has the cells of a map, or of the time at `place`, that are of the
    origin of a record; raises `Refused` (T107, T109)."""
    assert file.map is not None
    document, problems = file.map.template, list[Diagnostic]()
    for cell in dict.fromkeys([*origin_cells(file), *filter(is_origin, cells_of_time(file))]):
        having = _ORIGINS[origin_cell(cell).name]
        code, hint = "T107", f"A column or member of that name is written in quotes: {{{json.dumps(cell)}}}."
        if cell == ITEM and not (file.map.each and file.format is Format.JSON):
            message = f"{cell} is the number of an item of `each`, which the input does not have"
        elif transport in having:
            continue
        elif cell == NUMBER:
            code, hint = "T109", "Files have numbers, and Kafka has offsets; give what arrives a number of its own."
            inside = transport if transport == STANDARD else "a message"
            message = f"{{{cell}}} is the number of a record in its file, and {inside} is in none"
        else:
            has, who = ("files", "Files") if having == (FILES,) else ("messages of a broker", f"Messages by {' and '.join(having)}")
            whose = "files" if transport == FILES else transport if transport == STANDARD else f"messages by {transport}"
            message, hint = f"{cell} is a property of {has}, not of {whose}", f"{who} have it. {hint}"
        found = cell_problem(document, cell, code, message, hint)
        problems.append(found if f"{{{cell}}}" in document.text else replace(found, span=place))
    if problems:
        raise Refused(problems)


def cell_problem(document: Document, cell: str, code: str, message: str, hint: str) -> Diagnostic:
    """The problem of a cell of a map, at its place, perhaps with a type behind it."""
    start = next((at for end in "}:" if (at := document.text.find("{" + cell + end)) >= 0), 0)
    return Diagnostic(code, message, Span(document, start, start + len(cell) + 2), hint)


# Times of records: a cell, a template of cells, or the first of several that is there.


class TimeCells(NamedTuple):
    """A text from which the time of a record is read.

    - `written`: as the configuration has it.
    - `cells`: the columns or paths of its cells, in their order, as they are written.
    - `pattern`: the text, with `%s` for each cell; of a name that stands alone `%s`.
    - `sent`: the time of the transport, which has no cells; None: the record has it.
    """

    written: str
    cells: tuple[str, ...]
    pattern: str = "%s"
    sent: SentTime | None = None

    @property
    def is_template(self) -> bool:
        """True if the time has text of its own, or several cells."""
        return self.pattern != "%s"


_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_TIME_CELL: Final = re.compile(r'\{((?:"(?:[^"\\]|\\.)*"|[^{}"])*)\}')
_SENT_CELLS: Final = ("$file", "$stem", "$topic", VALUE)


@lru_cache(256)
def time_cells(time: str | tuple[str, ...]) -> tuple[TimeCells, ...]:
    """The texts that `time` of an input names, of which the first that is there counts; raises
    ValueError where one is no text of cells.

    >>> [(each.pattern, each.cells) for each in time_cells(("{Date} {Time}", "at"))]
    [('%s %s', ('Date', 'Time')), ('%s', ('at',))]
    >>> time_cells('"a{b}"')[0].cells, time_cells("$timestamp")[0].sent
    (('"a{b}"',), <SentTime.TIMESTAMP: '$timestamp'>)
    >>> time_cells("{Date} {}")
    Traceback (most recent call last):
    ValueError: {Date} {} has a pair of braces without a name
    """
    return tuple(_time_cells(each) for each in ((time,) if isinstance(time, str) else time))


def _time_cells(text: str) -> TimeCells:
    if (sent := SENT_TIMES.get(text)) is not None:
        return TimeCells(text, (), sent=sent)
    if "{" not in _QUOTED.sub("", text):
        if not text.strip():
            raise ValueError("an empty text names no time")
        return TimeCells(text, (text,))
    cells = tuple(found[1].strip() for found in _TIME_CELL.finditer(text))
    rest = _TIME_CELL.sub("\0", text)
    if "" in cells:
        raise ValueError(f"{text} has a pair of braces without a name")
    if "{" in rest or "}" in rest:
        raise ValueError(f"{text} has a brace that opens or closes no cell")
    for cell in cells:
        if cell.startswith("$") and not cell.startswith(_SENT_CELLS) and not cell[1:].isdecimal():
            alone = " stands alone, or in a list" if cell in SENT_TIMES else " is no part of a time"
            raise ValueError(f"{{{cell}}}{alone}: of what is beside a record {text} may have {{$file}}, {{$stem}} and {{$topic[n]}}")
        if Cell.of(cell).type is not None:
            raise ValueError(f"{{{cell}}} has a type, and a time has none: write {{{json.dumps(cell)}}} if that is its name")
    return TimeCells(text, cells, rest.replace("%", "%%").replace("\0", "%s"))


def cells_of_time(file: InputFile) -> tuple[str, ...]:
    """The cells from which the time of a record is read, each once."""
    assert file.map is not None
    return tuple(dict.fromkeys(cell for text in time_cells(file.map.time) for cell in text.cells))


def no_time(texts: Sequence[TimeCells]) -> str:
    """The reason why none of some texts gives a record its time.

    >>> no_time(time_cells("{Date} {Time}")), no_time(time_cells(("eventTime", "lastTimestamp")))
    ('Date or Time is not there', 'eventTime and lastTimestamp are not there')
    """
    if len(texts) > 1:
        return f"{' and '.join(each.written for each in texts)} are not there"
    return f"{' or '.join(dict.fromkeys(texts[0].cells))} is not there"


def column_name(cell: str) -> str:
    """The name of the column that a cell names, without the quotes around a name that needs them.

    >>> column_name("Zeit"), column_name('"a{b}:date"'), column_name('"a"b"')
    ('Zeit', 'a{b}:date', '"a"b"')
    """
    try:
        return str(json.loads(cell)) if cell[:1] == cell[-1:] == '"' else cell
    except ValueError:
        return cell


def written_name(name: str) -> str:
    """The cell that names a column, in quotes where its name would be read as something else.

    >>> written_name("Zeit"), written_name("$t"), written_name("a:date")
    ('Zeit', '"$t"', '"a:date"')
    """
    is_plain = name[:1] not in ("", "$", '"') and not set(name) & set("{}\r\n") and Cell.of(name).type is None and name == name.strip()
    return name if is_plain else json.dumps(name, ensure_ascii=False)


# Numbers of records, for maps with the cell `{$number}`.
#
# Idea: records are counted as they are yielded, so that the number of the next one is known where its
# triples are made. Where reading begins amid a file, the records before are counted by a scan from
# the last place whose number is known in this process.
# Cost: one scan of the file a process, at most, if its ranges are read in order.

ScanRecords: TypeAlias = Callable[[Position], Generator[Record]]
"""Scan of the records of a file from a position on, without elements."""

_STRIDE: Final = 16_384


@lru_cache(256)
def _counted(mapped: ElementMap, path: str, *version: int | str) -> list[tuple[int, int]]:
    """Offsets of records of a file that are counted, and the numbers of records before them,
    ascending."""
    return [(0, 0)]


class RecordNumbers:
    """Count of the records of a file. `last`: the number of the last record that was yielded."""

    __slots__ = ("_known", "last")

    def __init__(self, last: int, known: list[tuple[int, int]] | None = None) -> None:
        self.last = last
        self._known: list[tuple[int, int]] = [] if known is None else known

    @staticmethod
    def of(file: InputFile, position: Position, scan: ScanRecords) -> RecordNumbers | None:
        """The count of the records before a position; None where the map has no numbers."""
        if file.map is None or NUMBER not in origin_cells(file):
            return None
        known = _counted(file.map, file.path, *file_version(file.path))
        offset, number = known[bisect_right(known, (position.offset, LAST_MICRO)) - 1]
        numbers = RecordNumbers(number, known)
        if offset == position.offset:
            return numbers
        with closing(scan(Position(offset, 1))) as records:
            for record in numbers.counted(records):
                if record.offset >= position.offset:
                    numbers.last -= record.reason is not Reason.EMPTY
                    break
        return numbers

    def counted(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records, which are counted."""
        known = self._known
        for record in records:
            if not self.last % _STRIDE and self.last and (record.offset, self.last) not in known:
                insort(known, (record.offset, self.last))
            self.last += record.reason is not Reason.EMPTY  # a message without items has no number
            yield record
