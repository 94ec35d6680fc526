"""JSON reader: an object is an element, or with `each` every item of one of its lists. A path gives
the time, and a map makes the graph (docs/inputs.md).

Idea: an item of `each` is a record with its own text. The places of a message's items are found
first, and an item is decoded when its record is requested.
Invariant: a scan gives the same records with the same `judged_time`, without triples. Item n of the
message at offset m has the offset m + n, which is inside the message, since an item has at least
two bytes.
Cost: less than twice that of `json.loads`, for an item as for an object on a line of its own.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from typing import Any, BinaryIO, Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Span
from dotr.model.stream import Element, Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.streams.formats.content import open_text
from dotr.streams.formats.json.cuts import JsonCut, document_cuts, has_object_per_line, line_cuts
from dotr.streams.formats.json.map import JsonConstant, compile_map_of
from dotr.streams.formats.lines import DAMAGED, STANDARD_INPUT, damage, damaged, file_version, line_start
from dotr.streams.formats.mapping.json_paths import ItemFinder, ItemGroup, JsonPath, Outer, parse_lists, parse_path, path_text
from dotr.streams.formats.mapping.map_terms import JsonNumber, columns_of
from dotr.streams.formats.mapping.maps import (
    ITEM,
    RecordNumbers,
    TimeCells,
    cells_of_time,
    is_origin,
    no_time,
    origin_cells,
    origin_of,
    origin_value,
    parsed_map,
    time_cells,
)
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import SHOWN, START, InputFile, Message, Position, Record, beginning, limit_reason
from dotr.streams.time_formats import local_zone, note_repeated_hour, time_parser
from dotr.streams.times import ParseTime, parse_number
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting

_INDEX_BYTES: Final = 1 << 20
_BOM: Final = "\ufeff"
_BLANK: Final = re.compile(r"[ \t\n\r\x1e]*")
"""Blanks around an object: also the record separator of RFC 7464."""


DECODER: Final = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonConstant)
"""A decoder that keeps the lexical form of numbers."""

_scan: Final = DECODER.scan_once  # type: ignore[attr-defined]


def check_paths(file: InputFile, place: Span | None = None) -> None:
    """Check the map and the paths of an input; raises `Refused` with all problems."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    each: tuple[JsonPath, ...] = ()
    key = "each"
    try:
        each = parse_lists(file.map.each) if file.map.each else ()
        key = "time"
        for cell in cells_of_time(file):
            _time_path(cell, each)
    except ValueError as error:
        problems.append(Diagnostic("T107", f"{key}: {error}", place, "A path is written a.b, a[0] or, for `each`, a[]."))
    try:
        compile_map_of(file, each)
    except Refused as refused:
        problems += refused.diagnostics
    if problems:
        raise Refused(problems)


def _time_path(cell: str, each: Sequence[JsonPath] = ()) -> JsonPath:
    """The path of a cell of the time, as seen from an item; raises ValueError where it cannot be
    that."""
    path = parse_path(cell)
    if path.sent:
        return path
    seen = path.within(each)
    if seen.lists:
        raise ValueError(f"{path.text} goes through a list, and an element has one time")
    return seen


def member_paths(spec: InputFile) -> list[str]:
    """The paths of what stands beside the time in the first record of a file: members of its object,
    items of its list, or the other lists of `each`."""
    assert spec.map is not None
    lists = parse_lists(spec.map.each) if spec.map.each else ()
    if len(lists) > 1:
        return [f"^.{path.text}" for path in lists]
    time = _time_path(str(spec.map.time), lists)
    with closing(open_text(spec, START)) as file:
        first = next(_found(file, spec, START, False, EVERY_TIME, None), None)
    try:
        value: Any = None if first is None or time.from_message else DECODER.decode(first.raw.decode().removeprefix(_BOM))
    except ValueError:
        return []
    for step in time.steps[:-1]:
        value = _at(value, step)
    names: Iterable[str | int] = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    return [path_text((*time.steps[:-1], name)) for name in names]


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    assert spec.map is not None
    numbers = RecordNumbers.of(spec, position, partial(_scanned, spec)) if elements else None
    found = _found(lines, spec, position, elements, time_filter, numbers)
    return found if numbers is None else numbers.counted(found)


def _scanned(spec: InputFile, position: Position) -> Generator[Record]:
    with closing(open_text(spec, position)) as lines:
        yield from records(lines, spec, position, False)


def _found(
    lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter, numbers: RecordNumbers | None
) -> Iterator[Record]:
    assert spec.map is not None
    is_rooted = bool(spec.map.each) and not isinstance(parse_lists(spec.map.each)[0].steps[0], str)
    opening = b"[" if is_rooted else b"{"  # an outermost list is a message where `each` begins with []
    is_document = False
    if not spec.map.lines and spec.path != STANDARD_INPUT:
        with closing(open_text(spec, START)) as start:
            is_document = not has_object_per_line(start, spec.record, opening)
    cuts: Callable[..., Iterator[JsonCut]]
    cuts = partial(document_cuts, opening=opening) if is_document else partial(line_cuts, objects=not is_rooted)
    first = position.offset
    if spec.map.each and is_document:
        starts = _message_starts(spec.path, *file_version(spec.path))
        cuts = partial(_noted, cuts, starts)
        position = starts[bisect_right(starts, first, key=lambda each: each.offset) - 1]
    elif spec.map.each:
        position = Position(line_start(lines, first), position.line)
    if first and spec.map.each:  # the position may be inside a message
        lines.seek(position.offset)
    end, line = position
    objects = ObjectReader(spec, time_filter, numbers)
    try:
        for cut in cuts(lines, *position, spec.record):
            end, line = cut.end, cut.line + cut.raw.count(b"\n")
            if end <= first:
                continue
            if end == cut.offset + len(cut.raw) and not cut.raw.endswith((b"}", b"]", b"\n")) and (broken := damage(lines)):
                yield damaged(cut.offset, cut.line, broken, cut.raw)
                return
            yield from objects.records(cut, elements, first=first)
        time_filter.greatest = objects.greatest
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield damaged(end, line, error)


@lru_cache(256)
def _message_starts(path: str, *version: int | str) -> list[Position]:
    """The starts of messages of a document that this process has found, about a megabyte apart."""
    return [START]


def _noted(cuts: Callable[..., Iterator[JsonCut]], starts: list[Position], *arguments: Any) -> Iterator[JsonCut]:
    """The cuts of a document, whose offsets are added to the `starts` of its messages."""
    for cut in cuts(*arguments):
        if cut.offset >= starts[-1].offset + _INDEX_BYTES:
            starts.append(Position(cut.offset, cut.line))
        yield cut


def object_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], Iterator[Record]]:
    """Decoder of messages of one object or list each, with the elements of those that pass
    `time_filter`."""
    records = ObjectReader(spec, time_filter).records
    return lambda message, elements: records(JsonCut(message.place, message.place + 1, message.place, message.body), elements, message)


class ObjectReader:
    """Reader of the elements of consecutive messages.

    `columns` are those of a table whose rows are the objects.
    """

    def __init__(
        self,
        spec: InputFile,
        time_filter: TimeFilter = EVERY_TIME,
        numbers: RecordNumbers | None = None,
        columns: frozenset[str] = frozenset(),
    ) -> None:
        assert spec.map is not None
        self._numbers = numbers
        cells = origin_cells(spec)
        self._origin = origin_of(spec) if cells or any(map(is_origin, cells_of_time(spec))) else None
        self._numbers_items = ITEM in cells
        self.greatest, self._lowest, self._until = time_filter.greatest, time_filter.lowest(spec), time_filter.until
        if time_filter is EVERY_TIME:
            self.greatest = -LAST_MICRO  # not that of another file
        self._distance = time_filter.distance(spec)
        each = parse_lists(spec.map.each) if spec.map.each else ()
        self._make = compile_map_of(spec, each, columns)
        self._clock = spec.map.sent_time
        self._times = [
            (text, [JsonPath((cell,)) if cell in columns else _time_path(cell, each) for cell in text.cells])
            for text in time_cells(spec.map.time)
        ]
        is_plain = len(self._times) == 1 and not self._times[0][0].is_template and not any(path.sent for path in self._times[0][1])
        self._time = self._times[0][1][0] if is_plain and not self._clock else None
        self._time_text = self._times[0][0].written if self._times else ""
        self._parse: ParseTime = time_parser(spec.map.time_format, spec.map.time_zone)
        self._formatted = spec.map.time_format is not None
        self._zone, self._input, self._path = local_zone(spec.map.time_format, spec.map.time_zone), spec.input, spec.path
        self._unit = spec.unit
        self._nesting = spec.nesting
        self._limit = spec.record
        texts = () if columns else (*columns_of(parsed_map(spec).template), *cells_of_time(spec))
        read = [parse_path(text) for text in texts]
        self._finder = ItemFinder(spec.map.each, read, spec.nesting, _scan) if each else None
        self._lists = ItemFinder("[]", (), spec.nesting, _scan)
        self._is_side_by_side = len(each) > 1
        self._file = spec
        # an item may be a list where a path begins with an index, and any value where a path names the item itself
        seen = [path.within(each) for path in read if not path.sent]
        is_list = any(path.steps and isinstance(path.steps[0], int) for path in seen)
        self._kinds = (object,) if () in [path.steps for path in seen] else (dict, list) if is_list or self._is_side_by_side else (dict,)

    def records(self, cut: JsonCut, elements: bool, sent: Message | None = None, first: int = 0) -> Iterator[Record]:
        """The records of a cut, from the offset `first` on: one for each object, or for each item.
        Those of a transport's message (`sent`) have the place of the message.
        """
        begin, limit, line, whole, too_long = cut
        if too_long:
            yield Record(begin, limit, line, None, None, beginning(whole, self._limit), limit_reason(self._limit), reason=Reason.LIMIT)
            return
        offset, used, done = begin, 0, 0  # the next object's offset, and the bytes of the first `done` characters
        try:
            text = whole.decode()
            if not (begin or sent) and text.startswith(_BOM):
                text, used = text[1:], 3
            at = _blank_end(text, 0)
            finder = self._finder or (self._lists if sent is not None and text.startswith("[", at) else None)
            if finder is None and text.count("{") + text.count("[") > self._nesting:
                check_json_nesting(text, self._nesting)
            while at < len(text) or sent is not None:
                start, (found, stop) = at, finder.find(text, at) if finder is not None else _decoded(text, at)
                at = _blank_end(text, stop)
                end, raw = limit, whole[offset - begin :]
                if at < len(text):  # another object follows in the line
                    if sent is not None or text[at] != text[start] or text[at] not in "{[":
                        raise json.JSONDecodeError("Extra data", text, at)
                    used += _size(text, done, stop)
                    end, raw = begin + used, whole[offset - begin : used]
                if finder is not None:
                    yield from self._items(text, found, JsonCut(offset, end, line, raw), elements, sent, first)
                elif offset >= first:
                    yield self.record(offset, end, line, raw, found, (found,), elements, sent, b"\\u" in raw)
                if at == len(text):
                    return
                used, done = used + _size(text, stop, at), at
                offset = begin + used
        except (ValueError, RecursionError) as error:
            reason = Reason.LIMIT if isinstance(error, TextLimitExceeded) else Reason.UNREADABLE
            if isinstance(error, json.JSONDecodeError):  # whose column is that in the object's own text
                error = json.JSONDecodeError(error.msg, text[done:], error.pos - done)
            yield Record(offset, limit, line, None, None, whole[offset - begin :], reason_text(error), reason=reason)

    def _items(
        self, text: str, groups: Sequence[ItemGroup], cut: JsonCut, elements: bool, sent: Message | None, first: int
    ) -> Iterator[Record]:
        """The records of the items of a message, from the offset `first` on."""
        offset, end, line, raw, _ = cut
        if not groups and offset >= first:
            yield Record(offset, end, line, None, None, b"", "its list is empty", reason=Reason.EMPTY)
        has_escapes = b"\\u" in raw
        if has_escapes:  # what is around the items, each once
            _check_text(list({id(value): value for group in groups for value in group.outer}.values()))
        if self._finder is None and groups and not any(text[at] in "{[" for at in groups[0].starts[0]):
            raise ValueError("it is no JSON object")
        before, last = 0, sum(len(group.starts[0]) for group in groups) - 1
        for numbers, outer, starts, ends in groups:
            prefix = "".join(f"{number}." for number in numbers)
            for at in range(max(0, first - offset - before), len(starts[0])):
                if self._is_side_by_side:
                    texts = [text[start[at] : stop[at]] for start, stop in zip(starts, ends, strict=True)]
                    own, item = f"[{','.join(texts)}]", [_scan(each, 0)[0] for each in texts]
                else:
                    own, item = text[starts[0][at] : ends[0][at]], _scan(text, starts[0][at])[0]
                raw = own.encode()
                if len(raw) > SHOWN:
                    raw = beginning(raw, SHOWN)
                number = before + at
                begin, until = (offset, end) if sent is not None else (offset + number, end if number == last else offset + number + 1)
                around = outer if self._finder is not None else (item,)  # the item of a list without `each` is a message
                is_escaped = has_escapes and "\\u" in own
                yield self.record(begin, until, line, raw, item, around, elements, sent, is_escaped, f"{prefix}{at + 1}")
            before += len(starts[0])

    def record(
        self,
        offset: int,
        end: int,
        line: int,
        raw: bytes,
        item: Any,
        outer: Sequence[Any],
        elements: bool,
        sent: Message | None,
        is_escaped: bool,
        number: str = "",
    ) -> Record:
        """The record of an object, or of an item with a number."""
        time: Micros | None = None
        element = None
        try:
            if self._clock and sent is not None:
                time = sent.time_by(self._clock)
            if not isinstance(item, self._kinds):
                raise ValueError("it is no JSON object")
            if time is None:
                path = self._time
                time = self._first_time(item, outer, sent) if path is None else self._micros(_value_at(item, outer, path), self._time_text)
            is_wanted = elements and self._lowest < time <= self._until
            if time > self.greatest:
                self.greatest = time
                self._lowest = max(self._lowest, time - self._distance)
            elif self._zone and time < self.greatest:
                note_repeated_hour(self._file.input, self._file.path, line, time, self._zone, raw.decode(errors="replace"))
            if is_escaped:
                _check_text(item)
            if is_wanted:
                around = sent or self._origin
                if around is not None and (self._numbers is not None or self._numbers_items):
                    place = around.place if self._numbers is None else self._numbers.last + 1
                    around = around._replace(place=place, item=number)
                element = Element(time, self._make(item, outer, around)[0])
        except (ValueError, RecursionError) as error:
            why = reason_text(error)
            if number:
                where = Record(0, 0, 0, None, None, b"", item=number).item_name(self._file)
            return Record(offset, end, line, None, None, raw, f"{where}: {why}" if number else why, time, Reason.UNREADABLE, number)
        return Record(offset, end, line, time, element, raw, "", None, Reason.UNREADABLE, number)

    def _first_time(self, item: Any, outer: Sequence[Any], sent: Message | None) -> Micros:
        """The time by the first text of which all cells are there; raises ValueError with the
        reason."""
        for text, paths in self._times:
            if text.sent is not None:
                if sent is not None and (time := sent.at(text.sent)) is not None:
                    return time
                continue
            around = sent or self._origin
            values = [origin_value(around, path.sent) if path.sent else _value_at(item, outer, path) for path in paths]
            if None not in values:
                return self._micros(_joined(text, values), text.written)
        if not self._times:  # a row of a table
            return 0
        raise ValueError(f"it has no time: {no_time([text for text, _ in self._times])}")

    def _micros(self, value: Any, written: str) -> Micros:
        """The time of a value, whose path is `written`, in µs since 1970; raises ValueError with
        the reason."""
        if value is None:
            raise ValueError(f"it has no {written}")
        if not isinstance(value, str) or isinstance(value, JsonConstant):
            raise ValueError(f"its time, {written}, is neither text nor a number")
        if not value.isascii():
            _check_text(value)
        try:
            if isinstance(value, JsonNumber) and not self._formatted and not value.lstrip("-").isdecimal():
                return parse_number(value, self._unit)
            return self._parse(str(value), self._unit)
        except ValueError as error:
            raise ValueError(f"its time, {written}: {error}") from None


def _value_at(item: Any, outer: Sequence[Any], path: JsonPath) -> Any:
    """The value of a path in an item, or around it; None where it is null or not there."""
    value = item
    for step in path.steps:
        value = outer[step.level] if isinstance(step, Outer) else _at(value, step)
    return value


def _joined(text: TimeCells, values: Sequence[Any]) -> Any:
    """The value of a text of cells: that of its one cell, or the text with all of them.

    Where one of them is no text and no number, the result is that one, which is no time.
    """
    if not text.is_template:
        return values[0]
    wrong = next((value for value in values if isinstance(value, bool) or not isinstance(value, str)), None)
    return text.pattern % tuple(values) if wrong is None else wrong


def _blank_end(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """The value at a place of a text, and its end."""
    try:
        decoded: tuple[Any, int] = _scan(text, at)
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", text, error.value) from None
    return decoded


def _size(text: str, start: int, stop: int) -> int:
    """The number of bytes of a part of a text."""
    return stop - start if text.isascii() else len(text[start:stop].encode())


def _check_text(message: Any) -> None:
    """Raise UnicodeEncodeError where an object holds half of a surrogate pair."""
    json.dumps(message, ensure_ascii=False).encode()


def _at(value: Any, step: object) -> Any:
    """The member or item of a value, None where it has none."""
    if isinstance(step, str):
        return value.get(step) if isinstance(value, dict) else None
    return value[step] if isinstance(step, int) and isinstance(value, list) and len(value) > step else None


def reason_text(error: Exception) -> str:
    """Reason why an object is unreadable, from the error that its reader raised.

    >>> reason_text(RecursionError())
    'it is nested too deeply'
    """
    match error:
        case json.JSONDecodeError():
            message = error.msg.removesuffix(" at")  # "Invalid control character at"
            return f"it is no JSON: {message[:1].lower()}{message[1:]} at column {error.colno}"
        case UnicodeDecodeError():
            return f"it is not UTF-8 (byte {error.start})"
        case UnicodeEncodeError():
            return "it has half of a surrogate pair, which is no character"
        case RecursionError():
            return "it is nested too deeply"
        case ValueError() if str(error).startswith("Exceeds the limit"):
            return f"it has an integer of more than {sys.get_int_max_str_digits():,} digits"
        case _:
            return str(error)
