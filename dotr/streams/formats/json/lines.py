"""NDJSON reader: a line is an element, `{"time": …, "graph": "<Turtle>"}`; other keys are ignored
(interface.md).

Invariant: a line has the same time in a scan, which parses the JSON but no graph, as in a full
reading.
Cost: about 6 µs a line with a one-triple graph, 1.8 µs in a scan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from dotr.model.stream import Element, Reason
from dotr.model.terms import Triple
from dotr.model.time import Micros, Unit
from dotr.streams.formats.json.records import reason_text
from dotr.streams.formats.lines import line_records
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import InputFile, Message, Position, Record
from dotr.streams.times import parse_date_time, parse_integer
from dotr.syntax.turtle.graphs import PrefixHeader, read_turtle
from dotr.syntax.turtle.nesting import OPENING, TextLimitExceeded, check_json_nesting, check_nesting

_BOM: Final = "\ufeff"
_BACKSLASH: Final = ord("\\")


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    before, unit, nesting = PrefixHeader(dict(spec.prefixes)).prepend_to, spec.unit, spec.nesting
    decode = _decoder()
    greatest, lowest, until, distance = time_filter.greatest, time_filter.lowest(spec), time_filter.until, time_filter.distance(spec)

    def record(raw: bytes, offset: int, end: int, line: int) -> Record | None:
        nonlocal greatest, lowest
        time: Micros | None = None
        element: Element | None = None
        try:
            text = raw.decode()
            # `translate` does not count escaped brackets, such as \u005b
            deep = len(raw) > nesting and (
                (_BACKSLASH in raw and b"\\u00" in raw) or len(raw) - len(raw.translate(None, OPENING)) > nesting
            )
            if deep:
                check_json_nesting(text, nesting)
            data = decode(text, offset)
            time = _time(data, unit)
            is_wanted = elements and lowest < time <= until
            if time > greatest:
                greatest = time
                if time - distance > lowest:
                    lowest = time - distance
            if is_wanted:
                element = Element(time, _triples(data, before, nesting if deep else 0))
        except TextLimitExceeded as error:
            return Record(offset, end, line, None, None, raw, str(error), time, Reason.LIMIT)
        except (ValueError, RecursionError) as error:
            return Record(offset, end, line, None, None, raw, reason_text(error), time) if raw.strip() else None
        return Record(offset, end, line, time, element, raw)

    yield from line_records(lines, position, spec.record, record)
    time_filter.greatest = greatest


def _triples(data: dict[str, Any], before: Callable[[str], str], nesting: int) -> tuple[Triple, ...]:
    """The triples of an object's graph; `nesting`: their limit, if it has to be checked, else 0."""
    graph = data.get("graph")
    if type(graph) is not str:
        raise ValueError("it has no graph" if graph is None else "its graph is no text")
    if nesting:
        check_nesting(graph, nesting)
    return read_turtle(before(graph), graph)


def _decoder() -> Callable[[str, int], Any]:
    """Decoder of the line at an offset: `json.loads`, without its two searches for blanks.

    >>> _decoder()('{"time": 1}\\n', 0), _decoder()(' 7 ', 3)
    ({'time': 1}, 7)
    """
    decoder = json.JSONDecoder()
    scan_once, decode = decoder.scan_once, decoder.decode  # type: ignore[attr-defined]

    def decode_line(text: str, offset: int) -> Any:
        if text[0] == "{":
            try:
                data, end = scan_once(text, 0)
            except StopIteration:  # `decode` raises the error
                pass
            else:
                if text[end:] in ("\n", "\r\n", ""):
                    return data
        return decode(text if offset else text.removeprefix(_BOM))

    return decode_line


def line_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one or several objects, a line each, with the elements of those that
    pass `time_filter`.

    Where elements have the transport's time, `time` in an object is ignored.
    """
    is_wanted = time_filter.test_for(spec)
    before, unit, nesting = PrefixHeader(dict(spec.prefixes)).prepend_to, spec.unit, spec.nesting
    decode, clock = json.JSONDecoder().decode, spec.graphs.sent_time

    def records(message: Message, elements: bool) -> list[Record]:
        raw, place = message.body, message.place
        time: Micros | None = None
        try:
            text = raw.decode()
            deep = len(raw) - len(raw.translate(None, OPENING)) > nesting or b"\\u00" in raw
            if deep:
                check_json_nesting(text, nesting)
            data = decode(text.removeprefix(_BOM))
            if clock is None:
                time = _time(data, unit)
            else:
                time = message.time_by(clock)
                if not isinstance(data, dict):
                    raise ValueError("it is no JSON object")
            if not (is_wanted(time) and elements):
                return [Record(place, place + 1, place, time, None, raw)]
            element = Element(time, _triples(data, before, nesting if deep else 0))
        except TextLimitExceeded as error:
            return [Record(place, place + 1, place, None, None, raw, str(error), time, Reason.LIMIT)]
        except (ValueError, RecursionError) as error:
            lines = raw.split(b"\n") if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data" else []
            if len(lines) > 1:
                return [record for line in lines if line.strip() for record in records(message._replace(body=line), elements)]
            return [Record(place, place + 1, place, None, None, raw, reason_text(error), time)]
        return [Record(place, place + 1, place, time, element, raw)]

    return records


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
