r"""Recordings: what a run in process took, as its instants closed: elements and heartbeats, a JSON
object a line, in the order of time.

`{"time", "input", "stream", "graph"}` is an element, its graph in N-Triples; `{"time"}` a
heartbeat; `{"time", "end": true}` the end of all inputs, which a run that was stopped lacks;
`{"time", "reload"}` a change of the program while it ran.
Invariant: lines are passed to the operating system before the events that follow from them, so a
killed run has lost none of its instants, though its last line may be cut; an instant of which a
line is cut has made no event, and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from json.encoder import encode_basestring
from typing import Any, Final

from dotr.errors.diagnostics import Diagnostic, Refused, Severity, refuse
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.streams.formats.lines import open_lines
from dotr.streams.formats.reading import Reader
from dotr.streams.formats.writing import ntriples
from dotr.streams.records import START, InputFile, Record, SourcedElement
from dotr.streams.sinks.files import FileSink


def recorded_streams(path: str) -> dict[str, str]:
    """The stream that each input of a recording feeds; none where the file cannot be read."""
    found: dict[str, str] = {}
    with suppress(Refused, OSError, EOFError, ValueError), open_lines(path, START) as lines:
        for line in lines:
            if b'"graph"' in line and isinstance(data := json.loads(line), dict):
                found[str(data.get("input"))] = str(data.get("stream"))
    return found


class RecordingWriter:
    """The recording of a run, at a new file.

    `streams`: the stream that each input feeds. Raises `Refused` where the file exists or cannot be
    written.
    """

    def __init__(self, path: str, clock: Clock, streams: Mapping[str, str]) -> None:
        self._sink = FileSink(path)
        self._clock = clock
        self._heads = {name: f'"input": {encode_basestring(name)}, "stream": {encode_basestring(fed)}' for name, fed in streams.items()}
        self._written: Micros = -LAST_MICRO

    def instant(self, time: Micros, elements: Sequence[SourcedElement]) -> None:
        """Write the elements of an instant; raises `WriteFailed`."""
        begin = f'{{"time": {self._time(time)}, '
        self._write(time, [f'{begin}{self._heads[each.input]}, "graph": {encode_basestring(ntriples(each[1]))}}}\n' for each in elements])

    def heartbeat(self, time: Micros) -> None:
        """Write a heartbeat, unless a line is as late; raises `WriteFailed`."""
        if time > self._written:
            self._write(time, [f'{{"time": {self._time(time)}}}\n'])

    def reload(self, time: Micros, configuration: str) -> None:
        """Write that the program was read again, after the instant of a time, from a configuration;
        raises `WriteFailed`."""
        self._write(time, [f'{{"time": {self._time(time)}, "reload": {encode_basestring(configuration)}}}\n'])

    def close(self, *, ended: bool) -> None:
        """Close the file; `ended`: all inputs have ended. Raises `WriteFailed`."""
        if ended and self._written > -LAST_MICRO:
            self._write(self._written, [f'{{"time": {self._time(self._written)}, "end": true}}\n'])
        self._sink.close()

    def _time(self, time: Micros) -> str:
        written = format_time(time, self._clock)
        return str(written) if isinstance(written, int) else encode_basestring(written)

    def _write(self, time: Micros, texts: Sequence[str]) -> None:
        self._written = time
        self._sink.write(texts)
        self._sink.flush()


_HINT: Final = "A recording is written by a run with the key record; its lines are in the order of time."


class RecordingReader:
    """The instants and heartbeats of a recording, as often as they are read.

    - `has_ended`: the recorded run has read its inputs to their ends; known after the last line.
    - `passed`: the time of the last line read, in µs since 1970; None before the first.
    - `tell`: receives a warning of a last line that is cut (I138), and of each change of the
      program (I140), once each.
    """

    def __init__(self, file: InputFile, tell: Callable[[Diagnostic], object]) -> None:
        self.file = file
        self.has_ended = False
        self.passed: Micros | None = None
        self._tell = tell
        self._told: set[int] = set()

    def instants(self) -> Iterator[tuple[Micros, list[Element]]]:
        """Each time (µs since 1970) with its elements; a heartbeat has none. Raises `Refused`
        (I139) at a line that is no line of a recording."""
        self.has_ended, self.passed = False, None
        files: dict[str, InputFile] = {}
        open_instant: list[Element] = []
        with Reader(self.file) as reader:
            last = b""
            for record in reader.records():
                if record.time is None:
                    if record.raw.endswith(b"\n"):
                        raise self._refused(record)
                    # '{"time": 5, "inp' below '{"time": 5, "input": …' is a further element of that instant, which has made no event
                    is_part = b"," in record.raw and record.raw.partition(b",")[0] == last.partition(b",")[0]
                    self._tell_cut(record, len(open_instant), is_part=is_part)
                    if is_part:
                        open_instant = []
                    break
                if self.passed is not None and record.time < self.passed:
                    raise self._refused(record, "its time is before that of the line above")
                data = json.loads(record.raw)
                if record.time != self.passed and open_instant:
                    yield open_instant[0].time, open_instant
                    open_instant = []
                if record.element is not None:
                    open_instant.append(self._element(record, data, files))
                elif record.time != self.passed:
                    yield record.time, []
                self.passed, last = record.time, record.raw
                self.has_ended = data.get("end") is True
                if "reload" in data:
                    what = f" ({data['reload']})" if isinstance(data["reload"], str) else ""
                    hint = "One program reads the whole recording: events before this line may differ from those that the run wrote."
                    self._warn("I140", record, f"here the run read its program again{what}", hint)
            if open_instant:
                yield open_instant[0].time, open_instant

    def _element(self, record: Record, data: dict[str, Any], files: dict[str, InputFile]) -> SourcedElement:
        """The element of a line, with the input that it names as its own."""
        name = data.get("input")
        if not isinstance(name, str):
            raise self._refused(record, "it names no input")
        assert record.element is not None
        element = SourcedElement(*record.element)
        if name not in files:
            files[name] = replace(self.file, input=name)
        element.file, element.record = files[name], record
        element.recorded = data.get("stream") if isinstance(data.get("stream"), str) else None
        return element

    def _refused(self, record: Record, why: str = "") -> Refused:
        return refuse("I139", f"{self.file.path}:{record.line}: this is no line of a recording: {why or record.why}", None, _HINT)

    def _tell_cut(self, record: Record, elements: int, *, is_part: bool) -> None:
        """Tell of a cut line below so many elements of the instant before, or of its own."""
        hint = "It is read up to the line before; what the run took after that is lost."
        if is_part:
            hint = f"It is read up to the instant before: the lines of this one ({elements}) are left out, since they are not all."
        elif elements and b"," not in record.raw:
            hint += " If the line was of the same instant, that instant is not whole."
        self._warn("I138", record, "the recording ends amid a line, so the run was killed there", hint)

    def _warn(self, code: str, record: Record, message: str, hint: str) -> None:
        """Tell a warning of a line, once."""
        if record.line not in self._told:
            self._told.add(record.line)
            self._tell(Diagnostic(code, f"{self.file.path}:{record.line}: {message}", None, hint, Severity.WARNING))
