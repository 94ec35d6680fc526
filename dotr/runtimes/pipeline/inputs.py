"""Inputs of a configuration: existing files, watched folders and standard input."""

from __future__ import annotations

import glob
import json
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.limits import LIMITS
from dotr.model.places import Span
from dotr.model.time import UNITS, Clock, Micros, Unit
from dotr.runtimes.pipeline.config import Config, glob_files, matching_files
from dotr.runtimes.pipeline.elements import element_map, graph_settings
from dotr.runtimes.pipeline.sections import InputSection
from dotr.runtimes.pipeline.tables import with_place
from dotr.streams.connectors.kafka.channels import BoundedTopics, OpenedTopics, TimeProbe
from dotr.streams.connectors.kafka.section import kafka_input
from dotr.streams.connectors.kafka.topics import KafkaInput
from dotr.streams.connectors.registry import message_source
from dotr.streams.formats.lines import STANDARD_INPUT, standard_bytes
from dotr.streams.formats.maps import NUMBER, STANDARD
from dotr.streams.formats.reading import check_input, clock_of, has_date_times
from dotr.streams.merge.folders import Folder, GrowingInput, stable_files
from dotr.streams.merge.tails import TailedFolder
from dotr.streams.records import WIDE, ElementMap, Format, GraphSettings, InputFailed, InputFile, MessageSource
from dotr.streams.time_formats import UNIX
from dotr.streams.times import parse_delay
from dotr.syntax.quantities import parse_size


@dataclass(frozen=True)
class Inputs:
    """Inputs of a run: `files` that exist at its start, `growing` inputs, and `rates` (records a
    second) and `paces` (seconds of event time a second) by name of input; `topics` are those of
    Kafka. `clock`: the time goes on with the machine's, this much (µs) behind it; None: with
    elements alone."""

    files: tuple[InputFile, ...]
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[KafkaInput, ...] = ()
    paces: Mapping[str, float] = field(default_factory=dict)
    clock: Micros | None = None


def present_files(inputs: Inputs) -> list[InputFile]:
    """The existing files of all inputs, those that go on among them."""
    tails = [each for each in inputs.growing if each.tail]
    return [
        *inputs.files,
        *(replace(each.like, path=path) for each in tails for path in glob_files(each.pattern) if not path.endswith(".gz")),
    ]


def read_inputs(config: Config, problems: list[Diagnostic]) -> Inputs:
    """Read the input sections of a configuration, or the recording in their place. Problems are
    added to `problems`, and inputs with problems are left out."""
    if config.recording:
        paths: list[str] = []
        with collect_problems(problems):
            paths = matching_files(
                config.recording, None, "Relative paths are relative to the working directory. A run with `record` writes one."
            )
        return Inputs(tuple([_own_recording(config, path) for path in paths[:1]]))
    files: list[InputFile] = []
    growing: list[GrowingInput] = []
    topics: list[KafkaInput] = []
    sections = config.settings.input
    for number, section in enumerate(sections):
        with collect_problems(problems):
            found = _input(config, section, number)
            files += found.files
            growing += found.growing
            topics += found.topics
    if sum(each.standard for each in growing) > 1:
        problems.append(
            Diagnostic("C204", "standard input can be read by one input only", config.span("input"), "Name files for the others.")
        )
    present = present_files(Inputs(tuple(files), tuple(growing)))
    problems += _unix_beside_integers(config, ((file.input, partial(_has_dates, file)) for file in present))
    rates = {section.name: section.rate for section in sections if section.rate is not None}
    inputs = Inputs(tuple(files), tuple(growing), rates, tuple(topics), paces_of(sections))
    given = config.settings.clock
    if given is None:
        return inputs
    try:
        inputs = replace(inputs, clock=parse_delay(given))
        if not inputs.clock:
            raise ValueError("an element takes time to arrive, so a clock of 0 would reject all")
    except ValueError as error:
        problems.append(Diagnostic("C205", f"clock: {error}", config.span("clock"), "Write it like 10 s or 1 min."))
    else:
        problems += _clock_conflicts(config, inputs)
    return inputs


def _clock_conflicts(config: Config, inputs: Inputs) -> Iterator[Diagnostic]:
    """Problems (C204) of inputs and their settings that do not go with the pipeline's clock."""
    sections, tree = config.settings.input, config.files.tree
    paces = [section.pace for section in sections]
    delays = {each.like.input: each.like.delay for each in inputs.growing if not each.tail or each.watching}
    delays |= {each.name: each.like.delay for each in inputs.topics if not each.is_bounded}
    delays |= {each.input: each.delay for each in inputs.files if any(paces)}  # a replay grows with its clock
    if not delays and not any(paces):
        hint = "Leave clock out; or write pace: 1 for each input, which replays the files as time goes on."
        yield Diagnostic("C204", "no input grows: files that are there in full do not wait for a clock", tree.key_span(("clock",)), hint)
    for number, section in enumerate(sections):
        if any(paces) and (section.pace is None or section.pace != paces[0]):
            key: tuple[str | int, ...] = ("input", number) if section.pace is None else ("input", number, "pace")
            own = "no pace" if section.pace is None else f"pace {section.pace:g}"
            other = next((f"{each:g}" for each in paces if each is not None and each != section.pace), "")
            message = f"input {section.name} has {own}, another has pace {other}, and one clock is at one time"
            yield Diagnostic("C204", message, tree.key_span(key), "Write the same pace for all inputs, or leave clock out.")
        if section.idle == "never":
            hint = "Leave idle out: the clock closes what waits for a silent input."
            yield Diagnostic("C204", "idle: never waits without end, and clock does not", tree.key_span(("input", number, "idle")), hint)
        if inputs.clock is not None and delays.get(section.name, 0) > inputs.clock:
            message = f"input {section.name} may be {section.lateness} late, and clock lets it be {config.settings.clock} behind only"
            yield Diagnostic("C204", message, tree.key_span(("clock",)), "Write a clock of at least the lateness of each input that grows.")


def _unix_beside_integers(config: Config, others: Iterable[tuple[str, Callable[[], bool | None]]]) -> Iterator[Diagnostic]:
    """Problems (C204) of inputs with numbers since 1970, which are date-times, beside one whose times
    are integers of the unit: the first of `others`, each the name of an input, and a function that
    is False where its times are integers."""
    sections = config.settings.input
    unix = [number for number, section in enumerate(sections) if section.time_format in UNIX]
    names = {sections[number].name for number in unix}
    other = next((name for name, has_dates in others if unix and name not in names and has_dates() is False), None)
    for number in unix if other is not None else ():
        form = sections[number].time_format
        message = f"the times of input {sections[number].name} ({form}) are date-times, and those of {other} are integers"
        hint = f"If those of {other} count from 1970 too, write time_format for it as well: {', '.join(UNIX)}."
        yield Diagnostic("C204", message, config.span("input", number, "time_format"), hint)


def _has_dates(file: InputFile) -> bool | None:
    """True if a file has date-times; None where it has no readable record, or cannot be opened."""
    with suppress(Refused):  # of a file that goes on a dead letter
        return has_date_times(file)
    return None


def check_first_times(config: Config, inputs: Inputs, topics: Sequence[OpenedTopics]) -> None:
    """Check the times of the first messages of standard input and of topics beside those of inputs
    with numbers since 1970, if they come within two seconds; raises `Refused` (C204)."""
    others: list[tuple[str, Callable[[], bool | None]]] = [
        *((each.like.input, partial(_standard_input_has_dates, each.like, [], _FIRST_SECONDS)) for each in inputs.growing if each.standard),
        *((each.topics.name, partial(_topics_have_dates, each)) for each in topics),
    ]
    if problems := list(_unix_beside_integers(config, others)):
        raise Refused(problems)


_FIRST_SECONDS: Final = 2.0


def _topics_have_dates(opened: OpenedTopics) -> bool | None:
    """True where the first message of topics has a date-time, False for an integer, None where none
    comes within two seconds."""
    probe, until = TimeProbe(opened), time.monotonic() + _FIRST_SECONDS
    try:
        while (found := probe.has_date_times()) is None and not probe.is_ended and time.monotonic() < until:
            probe.wait(0.05)
        return found
    finally:
        probe.close()


def paces_of(sections: Sequence[InputSection]) -> dict[str, float]:
    """The paces of inputs by name, in seconds of event time a second."""
    return {section.name: float(section.pace) for section in sections if section.pace is not None}


@contextmanager
def collect_problems(problems: list[Diagnostic]) -> Iterator[None]:
    """Context that adds the problems of a `Refused` to a list, each once."""
    try:
        yield
    except Refused as refused:
        problems += [problem for problem in refused.diagnostics if problem not in problems]


def files_of(config: Config, section: InputSection, number: int) -> list[str]:
    """The existing files of input `number`; empty for standard input and other transports. Raises
    `Refused` where a required file or watched folder is missing."""
    at = ("input", number, "path")
    if section.path == STANDARD_INPUT or config.transport("input", number) != "path":
        return []
    path, place = config.files.path(section.path, at), config.span(*at)
    if not (section.watch or section.goes_on):
        return matching_files(path, place)
    if not glob.has_magic(path) and not section.tail:
        hint = (
            f"For the files that appear in it write {os.path.join(path, '*')}"
            if os.path.isdir(path)
            else "Write a glob such as data/*.ndjson"
        )
        raise refuse("C204", f"watch waits for files to appear, and {path} is no pattern", place, hint)
    if section.tail and os.path.exists(path) and not os.path.isfile(path):
        hint = f"For the files in it write {os.path.join(path, '*')}." if os.path.isdir(path) else "A pipe is standard input: path: -"
        raise refuse("C204", f"tail is of files, and {path} is none", place, hint)
    folder = path[: next((i for i, letter in enumerate(path) if letter in "*?["), len(path))].rpartition("/")[0] or "."
    if not os.path.isdir(folder):
        raise refuse("C301", f"there is no folder {folder} to watch", place, "Make it first.")
    return glob_files(path)


def _input(config: Config, section: InputSection, number: int) -> Inputs:
    at = ("input", number)
    source: MessageSource | None = None
    unit = UNITS[config.settings.time.unit]
    problems: list[Diagnostic] = []
    delay: Micros = 0
    idle: Micros | None = None
    settle: Micros = 0
    mapped: ElementMap | None = None
    graphs = GraphSettings()
    paths: list[str] = []
    with collect_problems(problems):
        delay = _length(config, number, "lateness", section.lateness, unit)
    with collect_problems(problems):
        idle = None if section.idle in (None, "never") else _length(config, number, "idle", section.idle, Unit.SECOND)
    with collect_problems(problems):
        settle = _length(config, number, "settle", section.settle if section.settle is not None else "1 s", Unit.SECOND)
    with collect_problems(problems):
        mapped = element_map(config, section, number)
    if section.tail and mapped is not None and section.format == "json":
        mapped = replace(mapped, lines=True)
    with collect_problems(problems):
        graphs = graph_settings(config, section, number)
    with collect_problems(problems):
        paths = files_of(config, section, number)
    problems += _setting_conflicts(config, section, number, delay)
    ahead: Micros | None = None
    with collect_problems(problems):
        ahead = None if section.ahead is None else _length(config, number, "ahead", section.ahead, unit)
    if section.format == Format.RECORDING.value and not problems:
        problems += _recording_conflicts(config, section, number, paths)
        if not problems:
            return Inputs((_own_recording(config, paths[0]),))
    if problems:
        raise Refused(problems)
    like = replace(_file_like(config, number, "", delay, mapped, graphs), ahead=ahead)
    files = [] if section.tail else [replace(like, path=path) for path in paths]
    transport = config.transport("input", number)
    place = config.files.place(*at, transport)
    received = section.mqtt or section.http
    with collect_problems(problems):
        source = None if received is None else message_source(received, place, like, config.settings.name)
    for file in files or [like]:
        with collect_problems(problems):
            check_input(file, config.span(*at), transport=STANDARD if section.path == STANDARD_INPUT else transport)
            if file.apart and file.path and has_date_times(file) is False:
                _check_apart([file], file.unit, config.files.tree.key_span((*at, "one_per_instant")))
    if problems:
        raise Refused(dict.fromkeys(_with_place(problem, config, number) for problem in problems))
    if source is not None:
        return Inputs((), (GrowingInput(replace(like, path=source.address), idle=idle, source=source, spool=parse_size(section.spool)),))
    if section.kafka is not None:
        return Inputs((), topics=(kafka_input(section.kafka, place, like, idle),))
    if section.path == STANDARD_INPUT:
        return Inputs((), (GrowingInput(replace(like, path=STANDARD_INPUT), idle=idle),))
    if section.tail:
        pattern = config.files.path(section.path, (*at, "path"))
        return Inputs((), (GrowingInput(like, pattern, settle, idle, tail=True, watching=section.goes_on),))
    if section.watch:
        return Inputs(tuple(files), (GrowingInput(like, config.files.path(section.path, (*at, "path")), settle, idle),))
    return Inputs(tuple(files))


def recording_file(path: str, unit: Unit, nesting: int = LIMITS.nesting) -> InputFile:
    """A recording as a file; its lines are longer than the records were, and are not bounded."""
    return InputFile("recording", path, Format.RECORDING, unit, nesting=nesting, record=_UNBOUNDED)


def _own_recording(config: Config, path: str) -> InputFile:
    return recording_file(path, UNITS[config.settings.time.unit], config.settings.limits.nesting)


_UNBOUNDED: Final = 1 << 40


def is_recorded(files: Sequence[InputFile]) -> bool:
    """True if the input of a run or a replay is a recording, which stands for all inputs."""
    return len(files) == 1 and files[0].format is Format.RECORDING


def _recording_conflicts(config: Config, section: InputSection, number: int, paths: Sequence[str]) -> Iterator[Diagnostic]:
    """Problems (C204) of an input that is a recording: it stands for all inputs, in one file."""

    def problem(key: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic("C204", message, config.files.tree.key_span(("input", number, key)), hint)

    if len(config.settings.input) > 1 or len(paths) != 1:
        hint = "Leave the other inputs out: the recording has their elements."
        yield problem("format", "a recording is one file, in place of all inputs", hint)
    for key in sorted(section.model_fields_set - {"name", "format", "path"}):
        yield problem(key, f"{key} was decided when the recording was written", "Leave it out.")
    for key in ("clock", "record"):
        if config.settings.is_given(key):
            place = config.files.tree.key_span((key,))
            yield Diagnostic("C204", f"{key} is of a run, and a recording is read again", place, "Leave it out.")


def _check_apart(files: Iterable[InputFile], unit: Unit, place: Span | None = None) -> None:
    """Check that integer times of inputs can be set a microsecond apart; raises `Refused` (C204)."""
    name = next((file.input for file in files if file.apart), None)
    if name is not None and unit is not Unit.MICROSECOND:
        message = f"input {name} has integer times, which cannot be a microsecond apart (one_per_instant: apart)"
        raise refuse("C204", message, place, "Write time: { unit: us } if they are microseconds; or give them as date-times.")


def _file_like(config: Config, number: int, path: str, delay: Micros, mapped: ElementMap | None, graphs: GraphSettings) -> InputFile:
    """A file as an input of a configuration, with its declared lateness, map and settings."""
    settings = config.settings
    section = settings.input[number]
    return InputFile(
        section.name,
        path,
        Format(section.format),
        UNITS[settings.time.unit],
        delay,
        tuple(settings.prefixes.items()),
        mapped,
        section.one_per_instant is True,
        settings.limits.nesting,
        settings.limits.record if section.max_bytes is None else parse_size(section.max_bytes),
        graphs,
        apart=section.one_per_instant == "apart",
        zone=settings.time_zone or "",
    )


def file_of_input(config: Config, name: str, path: str) -> InputFile | None:
    """The file at `path` with the settings of the input `name`; None where there is no such input.

    Raises `Refused` where the section of the input is wrong.
    """
    for number, section in enumerate(config.settings.input):
        if section.name == name:
            delay = _length(config, number, "lateness", section.lateness, UNITS[config.settings.time.unit])
            return _file_like(config, number, path, delay, element_map(config, section, number), graph_settings(config, section, number))
    return None


def grows(section: InputSection) -> bool:
    """True if records of an input may come after a run has begun."""
    if section.kafka is not None:
        return section.kafka.endingOffsets is None
    return section.watch or section.goes_on or section.path == STANDARD_INPUT or section.http is not None or section.mqtt is not None


def _setting_conflicts(config: Config, section: InputSection, number: int, delay: Micros) -> Iterator[Diagnostic]:
    """Problems of settings that exclude each other in one input."""

    def problem(key: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic("C204", message, config.files.tree.key_span(("input", number, key)), hint)

    watches = section.is_given("watch") or section.tail  # also true for `watch: false`, set for one run
    receives = section.http is not None or section.mqtt is not None
    if section.one_per_instant and delay:
        yield problem(
            "one_per_instant",
            "an input whose elements are set apart has no lateness"
            if section.one_per_instant == "apart"
            else "an input whose every element is an instant has no lateness",
            "Leave one of the two out: to be put in order, elements have to wait for each other.",
        )
    if section.settle is not None and not watches:
        yield problem("settle", "settle says when a file of a watched folder is complete", "Write watch: true, or leave it out.")
    if section.idle is not None and not watches and not grows(section):
        yield problem("idle", "an input that is there in full is never idle", "Leave it out, or write watch: true.")
    if section.watch and not section.path:
        yield problem("watch", "watch is of files", "Leave watch out.")
    if section.ahead is not None and not receives and section.kafka is None:
        hint = "Leave it out: a line of a file has no timestamp beside its own time. Messages by kafka, mqtt or http have one."
        yield problem("ahead", "ahead is counted from the timestamp of a message, and this input has none", hint)
    if section.is_given("spool") and not receives:
        yield problem("spool", "spool is the size of the copy of what is received", "Leave it out: what can be read again is not copied.")
    if section.watch and section.path == STANDARD_INPUT:
        yield problem("watch", "standard input is no folder to watch", "Leave watch out.")
    if section.tail:
        yield from (problem("tail", message, hint) for message, hint in _tail_conflicts(section))


_TAILED_FORMATS: Final = ("csv", "json", "ndjson", "text")


def _tail_conflicts(section: InputSection) -> Iterator[tuple[str, str]]:
    """Messages and hints of what excludes `tail` in an input."""
    if not section.path or "://" in section.path:
        yield "tail is of files", "Leave tail out: what a broker or server sends goes on by itself."
    elif section.path == STANDARD_INPUT:
        yield "tail is of files, and standard input goes on by itself", "Leave tail out."
    elif section.path.endswith(".gz"):
        yield (
            f"tail is of files that are appended to, and {section.path} is compressed",
            "Leave tail out; or name the file before it is compressed.",
        )
    if section.encoding in WIDE:
        yield f"tail reads lines of bytes, and {section.encoding} is recoded from its start", "Leave tail out, or recode the data."
    if f"{{{NUMBER}}}" in (section.map or ""):
        yield (
            f"{{{NUMBER}}} is the number of a record in its whole file, and a file that goes on is read from where it was",
            "Leave one out.",
        )
    if section.format not in _TAILED_FORMATS:
        yield (
            f"tail reads a record a line, and a record of {section.format} has no line end of its own",
            f"Write one of {', '.join(_TAILED_FORMATS)}; or leave tail out.",
        )


def _with_place(problem: Diagnostic, config: Config, number: int) -> Diagnostic:
    """Move the span of a problem in a map or prefix to its place in the configuration."""
    section = config.settings.input[number]
    return with_place(problem, section.map, config.span("input", number, "map"), config.span("prefixes"))


def _length(config: Config, number: int, key: str, value: str | int, unit: Unit) -> Micros:
    try:
        return parse_delay(value, unit)
    except ValueError as error:
        place = config.span("input", number, key)
        raise Refused([Diagnostic("C205", f"{key}: {error}", place, "Write it like 30 s or 5 min.")]) from None


def spool_problems(config: Config, growing: GrowingInput) -> Iterator[Diagnostic]:
    """The problem (S107) of a standard input in TriG, Turtle or N-Triples, which Spark cannot spool
    for a replay.
    """
    names = {Format.TRIG: "TriG", Format.TURTLE: "Turtle", Format.NTRIPLES: "N-Triples"}
    if growing.standard and growing.like.format in names:
        number = next(number for number, section in enumerate(config.settings.input) if section.path == STANDARD_INPUT)
        hint = "Send N-Quads (format: nquads), name files, or run with --engine local."
        message = f"Spark reads standard input a record at a time, and a record of {names[growing.like.format]} needs what is before it"
        yield Diagnostic("S107", message, config.span("input", number, "path"), hint)


def wait_until_stable(inputs: Inputs) -> None:
    """Wait until the existing files of watched folders are complete."""
    for growing in inputs.growing:
        stable_files([file.path for file in inputs.files if growing.pattern and file.input == growing.like.input], growing.settle)


def bounded_topics(topics: KafkaInput) -> BoundedTopics:
    """A Kafka input up to its present end; raises `Refused` where the broker does not answer, or
    answers with an error."""
    return BoundedTopics(topics)


def open_topics(config: Config, inputs: Sequence[KafkaInput]) -> tuple[OpenedTopics, ...]:
    """The inputs with the partitions of their clusters; waits until a broker answers.

    Raises `Refused`, with the place of the input, for what cannot succeed: credentials, a
    certificate, an unknown topic.
    """
    opened: list[OpenedTopics] = []
    problems: list[Diagnostic] = []
    for topics in inputs:
        try:
            opened.append(OpenedTopics(topics))
        except InputFailed as failed:
            number = next(number for number, section in enumerate(config.settings.input) if section.name == topics.name)
            problems.append(replace(failed.diagnostic, span=config.files.tree.key_span(("input", number, "kafka"))))
    if problems:
        raise Refused(problems)
    return tuple(opened)


FirstHasDates: TypeAlias = Callable[[], bool | None]
"""True where the first readable message received has a date-time, False for an integer, None where
there is none yet; raises the error that ended a receiver."""


def clock_of_inputs(
    inputs: Inputs,
    unit: Unit,
    notices: list[Diagnostic],
    topics: Sequence[OpenedTopics] = (),
    received: FirstHasDates | None = None,
) -> Clock:
    """The clock of a pipeline: the time format of the existing files, or of the first record, for
    which the call waits.

    `unit` is that of integer times; notices about times are added to `notices`; `topics` are the
    Kafka inputs, and `received` returns the time format of the messages of inputs that have a
    source. Raises `Refused` where an input cannot be read.
    """
    if inputs.files or not (inputs.growing or topics):
        return clock_of(inputs.files, unit, notices)
    files = [each for each in inputs.growing if each.source is None]
    sources = [(each, None if each.standard else Folder(each.pattern, each.settle, ())) for each in files]
    probes = [TimeProbe(each) for each in topics]
    try:
        clock = _awaited_clock(sources, probes, unit, notices, received)
        if clock is None:
            return Clock(unit, dated=False)  # standard input has ended without a record
        if not clock.dated:
            _check_apart([*(each.like for each in inputs.growing), *(each.topics.like for each in topics)], unit)
        return clock
    except InputFailed as failed:
        raise Refused([failed.diagnostic]) from None
    finally:
        for probe in probes:
            probe.close()


def clock_of_present(inputs: Inputs, unit: Unit, notices: list[Diagnostic], *, unit_given: bool) -> Clock:
    """The clock of a pipeline whose time goes on by itself: the time format of the files that are
    there; without a record in them integers if their unit is written (`unit_given`), else
    date-times."""
    found = [has_date_times(file, notices) for file in inputs.files]
    found += [_tailed_files_have_dates(each, notices) for each in inputs.growing if each.tail]
    dated = not unit_given if all(each is None for each in found) else any(found)
    if not dated:
        _check_apart([*(each.like for each in inputs.growing), *(each.like for each in inputs.topics)], unit)
    return Clock(unit, dated)


def _awaited_clock(
    sources: Sequence[tuple[GrowingInput, Folder | None]],
    probes: Sequence[TimeProbe],
    unit: Unit,
    notices: list[Diagnostic],
    received: FirstHasDates | None,
) -> Clock | None:
    while True:
        for probe in probes:
            found = probe.has_date_times()
            if found is not None:
                return Clock(unit, found)
        for growing, folder in sources:
            if folder is None:
                has_dates = _standard_input_has_dates(growing.like, notices)
            elif growing.tail:
                has_dates = _tailed_files_have_dates(growing, notices)
            else:
                has_dates = next(
                    (
                        has_dates
                        for file in folder.new_files()
                        if not file.change and (has_dates := has_date_times(growing.like.found(file), notices)) is not None
                    ),
                    None,
                )
            if has_dates is not None:
                return Clock(unit, has_dates)
        if received is not None:
            if (has_dates := received()) is not None:
                return Clock(unit, has_dates)
        elif all(folder is None or not growing.watching for growing, folder in sources) and all(probe.is_ended for probe in probes):
            return None
        time.sleep(0.01 if probes else 0.05)


def _standard_input_has_dates(like: InputFile, notices: list[Diagnostic], seconds: float | None = None) -> bool | None:
    """True where the first record of standard input has a date-time, False for an integer, None
    where there is no record, or none within some seconds."""
    waiting, more = standard_bytes(), True
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        text = waiting.buffered
        lines = text.rfind(b"\n") + 1 or text.rfind(b"\r") + 1 if like.format is Format.CSV else text.rfind(b"\n") + 1
        complete = text if not more or text[:2] == b"\x1f\x8b" else text[:lines]
        with tempfile.NamedTemporaryFile() as file:
            file.write(complete)
            file.flush()
            try:
                has_dates = has_date_times(replace(like, path=file.name), notices)
            except Refused:  # a CSV file whose header is incomplete so far
                has_dates = None
        if has_dates is not None or not more:
            return has_dates
        if not select.select([0], [], [], None if until is None else max(0.0, until - time.monotonic()))[0]:
            return None
        more = waiting.read_ahead()


def _tailed_files_have_dates(growing: GrowingInput, notices: list[Diagnostic]) -> bool | None:
    """True where the first whole record of files that go on has a date-time, False for an integer,
    None where there is none."""
    folder = TailedFolder(replace(growing, watching=False))
    try:
        for series in folder.appeared():
            while (piece := series.next_piece()) is not None:
                with tempfile.NamedTemporaryFile() as file:
                    file.write(piece.head + piece.data)
                    file.flush()
                    if (has_dates := has_date_times(replace(folder.like, path=file.name), notices)) is not None:
                        return has_dates
    finally:
        folder.close()
    return None


def checkpoint_clock(checkpoint: str) -> Clock | None:
    """The clock stored in a checkpoint; None where it is missing or unreadable."""
    try:
        unit, is_dated = json.loads((Path(checkpoint.removeprefix("file://")) / "dotr.json").read_text())["clock"]
        return Clock(Unit.from_written(unit), is_dated)
    except (OSError, ValueError, KeyError, TypeError):
        return None
