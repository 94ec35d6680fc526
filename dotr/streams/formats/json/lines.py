"""NDJSON reader: a line is an element, `{"time": …, "graph": "<Turtle>"}`; other keys are ignored
(interface.md).

Invariant: a line has the same time in a scan, which parses the JSON but no graph, as in a full
reading, and the same record with the package orjson as without it.
Cost: about 2.2 µs a line with a one-triple graph, 1.7 µs in a scan; 0.2 µs less with orjson.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from dotr.model.stream import Element, Reason
from dotr.model.time import Micros, Unit
from dotr.streams.formats.json.records import reason_text
from dotr.streams.formats.lines import READABLE, ReadLine, line_records
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import InputFile, Message, Position, Record
from dotr.streams.times import parse_date_time, parse_integer
from dotr.syntax.turtle.graphs import TurtleReader
from dotr.syntax.turtle.nesting import OPENING, TextLimitExceeded, check_json_nesting, check_nesting

_BOM: Final = "\ufeff"
_BACKSLASH: Final = ord("\\")
_new: Final = tuple.__new__  # takes a third of the time of a constructor; called twice a record


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    own = time_filter.of_file()
    yield from line_records(lines, position, spec.record, _reader(spec, own), elements)
    time_filter.greatest = own.greatest


def line_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one or several objects, a line each, with the elements of those that
    pass `time_filter`.

    Where elements have the transport's time, `time` in an object is ignored.
    """
    read = _reader(spec, time_filter)

    def records(message: Message, elements: bool) -> list[Record]:
        place = message.place
        record = read(message.body, place, place + 1, place, elements, message)
        assert record is not None
        if record.why.startswith(_SEVERAL) and len(lines := message.body.split(b"\n")) > 1:
            return [record for line in lines if line.strip() for record in records(message._replace(body=line), elements)]
        return [record]

    return records


_SEVERAL: Final = "it is no JSON: extra data"
"""The beginning of the reason why a message of several objects is no object."""


def _reader(spec: InputFile, time_filter: TimeFilter) -> ReadLine:
    """The reader of consecutive lines of a file, or messages."""
    read_graph, unit, nesting = TurtleReader.of(spec.prefixes).read, spec.unit, spec.nesting
    is_wanted, decode, clock = time_filter.test_for(spec), _decoder(nesting), spec.graphs.sent_time

    def record(raw: bytes, offset: int, end: int, line: int, elements: bool, message: Message | None = None) -> Record | None:
        time: Micros | None = None
        element: Element | None = None
        try:
            # `translate` does not count escaped brackets, such as \u005b
            deep = len(raw) > nesting and (
                (_BACKSLASH in raw and b"\\u00" in raw) or len(raw) - len(raw.translate(None, OPENING)) > nesting
            )
            if deep:
                check_json_nesting(raw.decode(), nesting)
            data = decode(raw, offset if message is None else 0)
            if message is None or clock is None:
                time = _time(data, unit)
            else:
                time = message.time_by(clock)
                if not isinstance(data, dict):
                    raise ValueError("it is no JSON object")
            if is_wanted(time) and elements:
                graph = data.get("graph")
                if type(graph) is not str:
                    raise ValueError("it has no graph" if graph is None else "its graph is no text")
                if deep:
                    check_nesting(graph, nesting)
                element = _new(Element, (time, read_graph(graph)))
        except TextLimitExceeded as error:
            return Record(offset, end, line, None, None, raw, str(error), time, Reason.LIMIT)
        except (ValueError, RecursionError) as error:
            return Record(offset, end, line, None, None, raw, reason_text(error), time) if message or raw.strip() else None
        return _new(Record, (offset, end, line, time, element, raw, *READABLE))

    return record


def recorded(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """The records of a recording (`dotr.streams.merge.recordings`): a line without a graph is one
    that has a time and no element."""
    for record in records(lines, spec, position, elements):
        is_mark = record.time is None and record.stamp is not None and "graph" not in json.loads(record.raw)
        yield record._replace(time=record.stamp, why="") if is_mark else record


def _decoder(nesting: int) -> Callable[[bytes, int], Any]:
    """Decoder of the line at an offset: orjson's where it is installed and sure to find what
    `json.loads` does, else `json.loads` without its two searches for blanks.

    `nesting`: the limit of brackets in each other, which has been checked.

    >>> _decoder(64)(b'{"time": 1}\\n', 0), _decoder(64)(b" 7 ", 3)
    ({'time': 1}, 7)
    """
    decoder = json.JSONDecoder()
    scan_once, decode = decoder.scan_once, decoder.decode  # type: ignore[attr-defined]

    def decode_line(raw: bytes, offset: int) -> Any:
        text = raw.decode()
        if text[0] == "{":
            try:
                data, end = scan_once(text, 0)
            except StopIteration:  # `decode` raises the error
                pass
            else:
                if text[end:] in ("\n", "\r\n", ""):
                    return data
        return decode(text if offset else text.removeprefix(_BOM))

    try:
        from orjson import loads
    except ImportError:
        return decode_line
    if nesting > _DEPTH:
        return decode_line

    def decode_quickly(raw: bytes, offset: int) -> Any:
        try:
            data = loads(raw)
        except ValueError:  # NaN, half of a surrogate pair, and numbers beyond a double are read by `json`
            return decode_line(raw, offset)
        # 10 ** 20 is a float to orjson
        return data if type(data) is dict and type(data.get("time")) is not float else decode_line(raw, offset)

    return decode_quickly


_DEPTH: Final = 500
"""Limit of the nesting up to which both parsers of JSON read a text; `json` ends with Python's stack,
orjson at 1,024."""


def _time(data: object, unit: Unit) -> Micros:
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    time = data.get("time")
    if type(time) is int:
        return parse_integer(time, unit)
    if type(time) is str:
        try:
            return parse_date_time(time)
        except ValueError as error:
            raise ValueError(f"its time cannot be read: {error}") from None
    raise ValueError("it has no time" if time is None else "its time is neither an integer nor a date-time")
