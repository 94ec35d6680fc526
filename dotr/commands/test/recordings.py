"""Recordings as streams of rule tests: a file in a format of inputs, or the part between two times.

If the test names a configured input, a recording is read with its settings. Otherwise the ending of
the file's name determines the format, and no element is late, as in any other stream of a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dotr.commands.test.files import RecordingSection, TestFile
from dotr.engine.replay import ElementPlace
from dotr.errors.diagnostics import Diagnostic, did_you_mean, refuse
from dotr.evaluation.limits import LIMITS
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.stream import DeadLetter, FedGraph
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Micros, Unit
from dotr.runtimes.pipeline.config import matching_files
from dotr.runtimes.pipeline.inputs import file_of_input, recording_file
from dotr.streams.formats.reading import check_input, has_date_times
from dotr.streams.merge.bounded import merged
from dotr.streams.merge.recordings import RecordingReader
from dotr.streams.records import Format, InputFile, SourcedElement

_FORMATS: Final[Mapping[str, Format]] = {
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".trig": Format.TRIG,
    ".nq": Format.NQUADS,
    ".nquads": Format.NQUADS,
}
"""Formats by the ending of a file's name, without `.gz`."""


@dataclass(frozen=True, slots=True)
class RecordedElement:
    """Element of a recording: its time in µs since 1970, its triples and its place; `shift`: the
    distance (µs) by which it was set apart."""

    time: Micros
    triples: tuple[Triple, ...]
    place: ElementPlace
    shift: Micros


@dataclass(frozen=True, slots=True)
class Recording:
    """Elements of a recording in the order of time. `dated`: its times are date-times; `notes`:
    remarks on elements that are left out; `apart`: the greatest distance (µs) by which an element
    was set apart from others of its time; `heartbeats`: the times of heartbeats; `ends`: no input
    of the recorded run had anything left."""

    elements: Sequence[RecordedElement]
    dated: bool
    notes: tuple[str, ...]
    apart: Micros = 0
    heartbeats: Sequence[Micros] = ()
    ends: bool = True


def read_recording(test: TestFile, number: int, section: RecordingSection, begin: Micros, end: Micros) -> Recording:
    """Read the recording of a case.

    Args:
        test: the test file.
        number: the number of the case, counted from 0.
        section: the case's `stream`.
        begin: the least time of an element, in µs since 1970.
        end: the greatest time of an element, in µs since 1970.

    Raises:
        Refused: the file is missing, or its format or input is unknown.
    """
    file = _file(test, number, section)
    if file.format is Format.RECORDING:
        return _of_run(test, file, begin, end)
    check_input(file, test.tree.span(("cases", number, "stream", "file")))
    rejected: list[DeadLetter] = []
    elements = [
        RecordedElement(time, _on_stream(test, element), ElementPlace(file.path, element.record.line), time - (element.record.time or 0))
        for time, together in merged([file], rejected.append, trace=True)
        if begin <= time <= end
        for element in together
        if isinstance(element, SourcedElement)
    ]
    left_out = [each for each in rejected if each.time is None or begin <= each.time <= end]
    notes = [_rejection_note(left_out)] if left_out else []
    if not elements:
        notes.append(f"no element of {file.path} lies between `from` and `to`" if not _is_whole(section) else f"{file.path} has no element")
    return Recording(elements, bool(has_date_times(file)), tuple(notes), max((each.shift for each in elements), default=0))


def _of_run(test: TestFile, file: InputFile, begin: Micros, end: Micros) -> Recording:
    """The recording of a run, with its heartbeats; of a part no end of the inputs."""
    told: list[Diagnostic] = []
    reader = RecordingReader(file, told.append)
    elements: list[RecordedElement] = []
    heartbeats: list[Micros] = []
    last = -LAST_MICRO
    for time, together in reader.instants():
        last = time
        if begin <= time <= end:
            heartbeats += [] if together else [time]
            sourced = [each for each in together if isinstance(each, SourcedElement)]
            elements += [RecordedElement(time, _on_stream(test, each), ElementPlace(file.path, each.record.line), 0) for each in sourced]
    notes = tuple(str(each) for each in told)
    return Recording(elements, bool(has_date_times(file)), notes, heartbeats=heartbeats, ends=reader.has_ended and last <= end)


def _on_stream(test: TestFile, element: SourcedElement) -> tuple[Triple, ...]:
    """The triples of an element, on the stream that its input feeds where queries read streams."""
    fed = next((each.fed for each in test.spec.inputs if each.name == element.file.input), element.recorded)
    return element.triples if fed is None else FedGraph.on(fed, element.triples)


def _is_whole(section: RecordingSection) -> bool:
    return section.begin is None and section.end is None


def _rejection_note(rejected: Sequence[DeadLetter]) -> str:
    """Note on elements that are left out, with the first one's place and reason."""
    first = rejected[0]
    more = f"; and {len(rejected) - 1} more" if len(rejected) > 1 else ""
    return f"{first.file}:{first.line} is left out ({first.reason.value}): {first.why}{more}"


def _file(test: TestFile, number: int, section: RecordingSection) -> InputFile:
    """The file of a recording, as an input."""
    span = test.tree.span(("cases", number, "stream", "file"))
    paths = matching_files(test.recording_path(section, number), span, "Relative paths are relative to the rule test.")
    if len(paths) > 1:
        raise refuse("C203", f"{section.file} names {len(paths)} files", span, "A case has one recording: name one file.")
    path = paths[0]
    if section.format == Format.RECORDING.value:
        if section.input is not None:
            hint = "Leave one of the two out."
            raise refuse("C204", "a recording has the elements of all inputs, and `input` names one", span, hint)
        return recording_file(path, test.spec.unit)
    if section.input is not None:
        return _as_input(test, section.input, path, test.tree.span(("cases", number, "stream", "input")))
    name = Path(path).name.removesuffix(".gz")
    form = _FORMATS.get(Path(name).suffix)
    if form is None:
        known = ", ".join(_FORMATS)
        hint = f"Name the configured input that reads it: input: NAME, beside `config`. Known without one: {known}; .gz too."
        reason = "a CSV recording needs the map of an input" if Path(name).suffix == ".csv" else f"the format of {section.file} is unknown"
        raise refuse("C202", reason, span, hint)
    unit: Unit = test.spec.unit
    return InputFile(name, path, form, unit, LAST_MICRO, tuple(test.prefixes.items()), nesting=LIMITS.nesting, record=LIMITS.record)


def _as_input(test: TestFile, name: str, path: str, span: Span) -> InputFile:
    if test.config is None:
        hint = "Write `config: …` in place of `rules` and `knowledge`, or leave `input` out."
        raise refuse("C204", "`input` names an input of a configuration, and this test has none", span, hint)
    file = file_of_input(test.config, name, path)
    if file is None:
        known = [each.name for each in test.config.settings.input]
        hint = did_you_mean(name, known) or f"It has {', '.join(known)}."
        raise refuse("C203", f"{test.config.path} has no input {name}", span, hint)
    return file
