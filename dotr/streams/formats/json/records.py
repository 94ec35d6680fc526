"""JSON reader: an object is an element, or with `each` every item of one of its lists. A path gives
the time, and a map makes the graph (docs/inputs.md).

Invariant: a scan gives the same records with the same `judged_time`, without triples. With `each`,
item n of the object at offset m has the offset m + n, which is inside the object, since an item has
at least two bytes.
Cost: less than twice that of `json.loads`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from typing import Any, BinaryIO, Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Span
from dotr.model.stream import Element, Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.streams.formats.json.cuts import JsonCut, document_cuts, has_object_per_line, line_cuts
from dotr.streams.formats.json.map import compile_map_of, items_of
from dotr.streams.formats.json.paths import JsonPath, parse_path
from dotr.streams.formats.lines import DAMAGED, STANDARD_INPUT, damage, damaged, open_lines
from dotr.streams.formats.map_terms import JsonNumber
from dotr.streams.formats.maps import (
    ITEM,
    RecordNumbers,
    TimeCells,
    cells_of_time,
    is_origin,
    no_time,
    origin_cells,
    origin_of,
    origin_value,
    time_cells,
)
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import START, InputFile, Message, Position, Record, beginning, limit_reason
from dotr.streams.time_formats import local_zone, note_repeated_hour, time_parser
from dotr.streams.times import ParseTime, parse_number
from dotr.syntax.turtle.jsonld import refuse_constant
from dotr.syntax.turtle.nesting import OPENING, TextLimitExceeded, check_json_nesting

_BOM: Final = "\ufeff"


DECODER: Final = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=refuse_constant)
"""A decoder that keeps the lexical form of numbers."""


def check_paths(file: InputFile, place: Span | None = None) -> None:
    """Check the map and the paths of an input; raises `Refused` with all problems."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    for key, text in (*(("time", cell) for cell in cells_of_time(file)), ("each", file.map.each)):
        try:
            if text:
                _path_of(key, text)
        except ValueError as error:
            problems.append(Diagnostic("T107", f"{key}: {error}", place, "A path is written a.b, a[0] or, for `each`, a[]."))
    try:
        compile_map_of(file)
    except Refused as refused:
        problems += refused.diagnostics
    if problems:
        raise Refused(problems)


@lru_cache(64)
def _path_of(key: str, text: str) -> JsonPath:
    """The path of the key `time` or `each`; raises ValueError where the key cannot have it."""
    path = parse_path(text)
    if path.sent and key != "time":
        raise ValueError(f"{text} is no path in the message")
    lists = path.lists
    if key == "time" and lists:
        raise ValueError(f"{text} goes through a list, and an element has one time")
    if key == "each" and (lists != (path.steps,) or path.from_message):
        raise ValueError(f"{text} names no list: a path of `each` ends with [], as in data[]")
    return path


def member_paths(spec: InputFile) -> list[str]:
    """The paths of the members beside the time, in the first object of a file; none with `each`."""
    assert spec.map is not None
    steps = _path_of("time", str(spec.map.time)).steps[:-1]
    with closing(open_lines(spec.path, START)) as lines:
        first = next(_found(lines, spec, START, False, EVERY_TIME, None), None)
    try:
        value: Any = None if first is None or spec.map.each else DECODER.decode(first.raw.decode().removeprefix(_BOM))
    except ValueError:
        return []
    for step in steps:
        value = _at(value, step)
    before = str(spec.map.time).rpartition(".")[0]
    return [f"{before}.{name}" if before else name for name in value if name.isidentifier()] if isinstance(value, dict) else []


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    assert spec.map is not None
    numbers = RecordNumbers.of(spec, position, partial(_scanned, spec)) if elements else None
    found = _found(lines, spec, position, elements, time_filter, numbers)
    return found if numbers is None else numbers.counted(found)


def _scanned(spec: InputFile, position: Position) -> Generator[Record]:
    with closing(open_lines(spec.path, position)) as lines:
        yield from records(lines, spec, position, False)


def _found(
    lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter, numbers: RecordNumbers | None
) -> Iterator[Record]:
    assert spec.map is not None
    cuts = line_cuts
    if not spec.map.lines and spec.path != STANDARD_INPUT:
        with closing(open_lines(spec.path, START)) as start:
            cuts = line_cuts if has_object_per_line(start, spec.record) else document_cuts
    if spec.map.each and position.offset:  # the position may be inside an object
        with closing(open_lines(spec.path, START, size=spec.size)) as again:
            yield from _records(again, spec, START, position.offset, cuts, elements, time_filter, numbers)
    else:
        yield from _records(lines, spec, position, 0, cuts, elements, time_filter, numbers)


def _records(
    lines: BinaryIO,
    spec: InputFile,
    position: Position,
    first: int,
    cuts: Callable[..., Iterator[JsonCut]],
    elements: bool,
    time_filter: TimeFilter,
    numbers: RecordNumbers | None,
) -> Iterator[Record]:
    """Records from a position on, without those before the offset `first`."""
    end, line = position
    objects = ObjectReader(spec, time_filter, numbers)
    try:
        for cut in cuts(lines, *position, spec.record):
            end, line = cut.end, cut.line + cut.raw.count(b"\n")
            if end <= first:
                continue
            if end == cut.offset + len(cut.raw) and not cut.raw.endswith((b"}", b"\n")) and (broken := damage(lines)):
                yield damaged(cut.offset, cut.line, broken, cut.raw)
                return
            for record in objects.records(cut, elements):
                if record.offset >= first:
                    yield record
        time_filter.greatest = objects.greatest
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield damaged(end, line, error)


def object_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], Iterator[Record]]:
    """Decoder of messages of one object each, with the elements of those that pass
    `time_filter`."""
    records = ObjectReader(spec, time_filter).records
    return lambda message, elements: records(JsonCut(message.place, message.place + 1, message.place, message.body), elements, message)


class ObjectReader:
    """Reader of the elements of consecutive objects.

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
        self._make = compile_map_of(spec, columns)
        self._clock = spec.map.sent_time
        self._times = [
            (each, [JsonPath((cell,)) if cell in columns else _path_of("time", cell) for cell in each.cells])
            for each in time_cells(spec.map.time)
        ]
        is_plain = len(self._times) == 1 and not self._times[0][0].is_template and not any(path.sent for path in self._times[0][1])
        self._time = self._times[0][1][0] if is_plain and not self._clock else None
        self._time_text = self._times[0][0].written
        self._each = _path_of("each", spec.map.each) if spec.map.each else None
        self._each_text = spec.map.each
        self._parse: ParseTime = time_parser(spec.map.time_format, spec.map.time_zone)
        self._formatted = spec.map.time_format is not None
        self._zone, self._input, self._path = local_zone(spec.map.time_format, spec.map.time_zone), spec.input, spec.path
        self._unit = spec.unit
        self._nesting = spec.nesting
        self._limit = spec.record

    def records(self, cut: JsonCut, elements: bool, sent: Message | None = None, decoded: Any = None) -> Iterator[Record]:
        """The records of an object: one, or one for each item. Those of a transport's message
        (`sent`) have the place of the message. `decoded` is the object; None: the cut's text.
        """
        offset, end, line, raw, too_long = cut
        if too_long:
            yield Record(offset, end, line, None, None, beginning(raw, self._limit), limit_reason(self._limit), reason=Reason.LIMIT)
            return
        try:
            message = self._decoded(raw, 0 if sent else offset) if decoded is None else decoded
            items = [message] if self._each is None else self._items(message)
        except TextLimitExceeded as error:
            yield Record(offset, end, line, None, None, raw, str(error), reason=Reason.LIMIT)
            return
        except (ValueError, RecursionError) as error:
            yield Record(offset, end, line, None, None, raw, reason_text(error))
            return
        last = len(items) - 1
        for number, item in enumerate(items):
            start, stop = offset + number, end if number == last else offset + number + 1
            if sent:
                start, stop = offset, end
            time: Micros | None = None
            try:
                if self._clock and sent:
                    time = sent.time_by(self._clock)
                if not isinstance(item, dict):
                    raise ValueError("it is no JSON object")
                if time is None:
                    path = self._time
                    if path is None:
                        time = self._first_time(item, message, sent)
                    else:
                        time = self._micros(message if path.from_message else item, path, self._time_text)
                is_wanted = elements and self._lowest < time <= self._until
                if time > self.greatest:
                    self.greatest = time
                    self._lowest = max(self._lowest, time - self._distance)
                elif self._zone and time < self.greatest:
                    note_repeated_hour(self._input, self._path, line, time, self._zone, raw.decode(errors="replace"))
                if b"\\u" in raw and self._each is None:
                    _check_text(item)
                around = sent or self._origin
                if around is not None and (self._numbers is not None or self._numbers_items):
                    place = around.place if self._numbers is None else self._numbers.last + 1
                    around = around._replace(place=place, item=str(number + 1))
                triples = self._make(item, message, around)[0] if is_wanted else ()
            except (ValueError, RecursionError) as error:
                where = f"item {number + 1} of {self._each_text}: " if self._each else ""
                yield Record(start, stop, line, None, None, raw, where + reason_text(error), time)
            else:
                yield Record(start, stop, line, time, Element(time, triples) if is_wanted else None, raw)

    def _decoded(self, raw: bytes, offset: int) -> Any:
        text = raw.decode()
        if len(raw) - len(raw.translate(None, OPENING)) > self._nesting:
            check_json_nesting(text, self._nesting)
        message = DECODER.decode(text if offset else text.removeprefix(_BOM))
        if b"\\u" in raw and self._each is not None:  # without `each`, `records` checks the text after it has read the time
            _check_text(message)
        return message

    def _items(self, message: Any) -> list[Any]:
        assert self._each is not None
        value = message
        for step in self._each.steps[:-1]:
            value = _at(value, step)
        if value is None:
            raise ValueError(f"it has no {self._each_text.removesuffix('[]')}")
        return list(items_of(value))

    def _first_time(self, item: Any, message: Any, sent: Message | None) -> Micros:
        """The time by the first text of which all cells are there; raises ValueError with the
        reason."""
        for text, paths in self._times:
            if text.sent is not None:
                if sent is not None and (time := sent.at(text.sent)) is not None:
                    return time
                continue
            around = sent or self._origin
            values = [
                origin_value(around, path.sent) if path.sent else _value_at(message if path.from_message else item, path) for path in paths
            ]
            if None not in values:
                return self._micros(_joined(text, values), _ITSELF, text.written)
        raise ValueError(f"it has no time: {no_time([text for text, _ in self._times])}")

    def _micros(self, item: Any, path: JsonPath, written: str) -> Micros:
        """The time of an item in µs since 1970, by a path that is written so; raises ValueError with
        the reason."""
        value = item
        for step in path.steps:
            value = _at(value, step)
        if value is None:
            raise ValueError(f"it has no {written}")
        if isinstance(value, bool) or not isinstance(value, str):
            raise ValueError(f"its time, {written}, is neither text nor a number")
        if not value.isascii():
            _check_text(value)
        try:
            if isinstance(value, JsonNumber) and not self._formatted and not value.lstrip("-").isdecimal():
                return parse_number(value, self._unit)
            return self._parse(str(value), self._unit)
        except ValueError as error:
            raise ValueError(f"its time, {written}: {error}") from None


_ITSELF: Final = JsonPath(())


def _value_at(value: Any, path: JsonPath) -> Any:
    """The value of a path in an item; None where it is null or not there."""
    for step in path.steps:
        value = _at(value, step)
    return value


def _joined(text: TimeCells, values: Sequence[Any]) -> Any:
    """The value of a text of cells: that of its one cell, or the text with all of them.

    Where one of them is no text and no number, the result is that one, which is no time.
    """
    if not text.is_template:
        return values[0]
    wrong = next((value for value in values if isinstance(value, bool) or not isinstance(value, str)), None)
    return text.pattern % tuple(values) if wrong is None else wrong


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
