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
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic, InputFailed, Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.evaluation.limits import LIMITS
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.time import UNITS, Clock, Micros, Unit
from dotr.runtimes.pipeline.config import Config, glob_files, matching_files
from dotr.runtimes.pipeline.elements import element_map, graph_settings, setting_conflicts
from dotr.runtimes.pipeline.sections import InputSection
from dotr.runtimes.pipeline.spark_tables import SparkInput, spark_conflicts, spark_input
from dotr.runtimes.pipeline.tables import with_place
from dotr.streams.connectors.registry import message_source
from dotr.streams.formats.lines import STANDARD_INPUT, standard_bytes
from dotr.streams.formats.mapping.maps import STANDARD
from dotr.streams.formats.reading import check_input, clock_of, has_date_times
from dotr.streams.merge.folders import Folder, GrowingInput, stable_files
from dotr.streams.merge.replays import moved_files
from dotr.streams.merge.tails import TailedFolder
from dotr.streams.records import (
    AllEnded,
    ElementMap,
    Format,
    GraphSettings,
    InputFile,
    MessageSource,
    Replayed,
)
from dotr.streams.time_formats import UNIX
from dotr.streams.times import parse_delay, parse_time
from dotr.syntax.quantities import parse_size
from dotr.syntax.rendering import duration_text

if TYPE_CHECKING:
    from dotr.streams.connectors.kafka.channels import BoundedTopics, OpenedTopics, TimeProbe
    from dotr.streams.connectors.kafka.topics import KafkaInput


@dataclass(frozen=True)
class Inputs:
    """Inputs of a run: `files` that exist at its start, `growing` inputs, and `rates` (records a
    second) and `paces` (seconds of event time a second) by name of input; `topics` are those of
    Kafka, and `tables` those that Spark reads. `clock`: the time goes on with the machine's, this
    much (µs) behind it; None: with elements alone. `replay_start`: where the least time of replayed
    files lies (µs since 1970); None without a replay."""

    files: tuple[InputFile, ...]
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[KafkaInput, ...] = ()
    paces: Mapping[str, float] = field(default_factory=dict)
    clock: Micros | None = None
    replay_start: Micros | None = None
    tables: tuple[SparkInput, ...] = ()


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
    tables: list[SparkInput] = []
    sections = config.settings.input
    for number, section in enumerate(sections):
        with collect_problems(problems):
            found = _input(config, section, number)
            files += found.files
            growing += found.growing
            topics += found.topics
            tables += found.tables
    problems += spark_conflicts(config, tables)
    if sum(each.standard for each in growing) > 1:
        problems.append(
            Diagnostic("C204", "standard input can be read by one input only", config.span("input"), "Name files for the others.")
        )
    present = present_files(Inputs(tuple(files), tuple(growing)))
    problems += _unix_beside_integers(config, ((file.input, partial(_has_dates, file)) for file in present))
    problems += _replay_conflicts(config)
    rates = {section.name: section.rate for section in sections if section.rate is not None}
    paces = {section.name: float(section.pace) for section in sections if section.pace is not None}
    inputs = Inputs(tuple(files), tuple(growing), rates, tuple(topics), paces, tables=tuple(tables))
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
    delays |= {each.name: each.like.delay for each in inputs.tables if each.goes_on}
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


def _replay_conflicts(config: Config) -> Iterator[Diagnostic]:
    """Problems (C204) of replays that differ: all inputs with `replay` move alike, at one pace."""
    replayed = [(number, section) for number, section in enumerate(config.settings.input) if section.replay is not None]
    for number, section in replayed[1:]:
        first = replayed[0][1]
        if (section.replay, section.pace) != (first.replay, first.pace) and section.pace is not None and first.pace is not None:
            message = f"inputs {first.name} and {section.name} are replayed each in its own way, and all that have `replay` move as one"
            hint = f"Write the same replay and the same pace for both, or leave replay out of {section.name}."
            yield Diagnostic("C204", message, config.files.tree.key_span(("input", number, "replay")), hint)


def with_replays(config: Config, inputs: Inputs, checkpoint: str | None = None, *, explained: bool = False) -> Inputs:
    """The inputs, with the files of those with `replay` moved to their start.

    `checkpoint`: the folder of the checkpoint on Spark, which keeps the move of its first run.
    `explained`: for an explanation, which needs the start of the run. Raises `Refused` (C205, C288,
    C289).
    """
    sections = {section.name: number for number, section in enumerate(config.settings.input) if section.replay is not None}
    files = [file for file in inputs.files if file.input in sections]
    if not files:
        return inputs
    number = sections[files[0].input]
    start, every = _replay_times(config, number)
    stored = None if checkpoint is None or (start is not None and not explained) or config.start else checkpoint_replay(checkpoint)
    if explained and start is None and stored is None:
        hint = "Write the start that the run printed: --start 2026-01-31T12:00:00Z; on Spark the checkpoint has it. A recording of the run "
        hint += "(record) needs none."
        message = f"input {files[0].input} is replayed from now on, and each run has another now"
        raise refuse("C289", message, config.span("input", number, "replay"), hint)
    moves = moved_files(files, lambda: time.time_ns() // 1_000 if start is None else start, every, stored and stored.shift)
    place = config.span("input", number, "replay", "every")
    if every and moves.length > every:
        hint = f"Write at least every: {duration_text(moves.length)}, or leave it out."
        message = f"the files of the replay span {duration_text(moves.length)}, and every is {duration_text(every)}"
        raise refuse("C288", message, place, hint)
    if every and any(has_date_times(file) is False and every % file.unit.value for file in files):
        message = f"every is {duration_text(every)}, and integer times count in {config.settings.time.unit}"
        raise refuse("C204", message, place, "Write a whole number of units, so that all times stay integers.")
    moved = iter(moves.files)
    all_files = tuple([next(moved) if file.input in sections else file for file in inputs.files])
    return replace(inputs, files=all_files, replay_start=moves.start)


def _replay_times(config: Config, number: int) -> tuple[Micros | None, Micros]:
    """The start of the replay of an input (None: now), and the distance of its rounds (0: one
    round), in µs; raises `Refused` (C205)."""
    section, unit = config.settings.input[number].replay, UNITS[config.settings.time.unit]
    assert section is not None
    written, about, every = config.start or section.start, "start", 0
    hint = "Write now, a date-time such as 2026-01-31T12:00:00Z, or an integer in the unit of `time`."
    try:
        start = None if written == "now" else parse_time(written, unit)
        about, hint = "every", "Write it like 1 d or 30 min."
        if section.every is not None and not (every := parse_delay(section.every, unit)):
            raise ValueError("a round takes time")
    except ValueError as error:
        own = config.start and about == "start"
        place = None if own else config.span("input", number, "replay", about)
        raise refuse("C205", f"{'--start' if own else f'replay.{about}'}: {error}", place, hint) from None
    return start, every


def checkpoint_replay(checkpoint: str) -> Replayed | None:
    """The move of the replay stored in a checkpoint; None where it is missing or unreadable."""
    try:
        return Replayed(*json.loads((Location.of(checkpoint) / "dotr.json").read())["replay"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
    from dotr.streams.connectors.kafka.channels import TimeProbe

    probe, until = TimeProbe(opened), time.monotonic() + _FIRST_SECONDS
    try:
        while (found := probe.has_date_times()) is None and not probe.is_ended and time.monotonic() < until:
            probe.wait(0.05)
        return found
    finally:
        probe.close()


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
    if section.tail and Location(path).is_url:
        return []  # which its settings exclude
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
    if not Location(path).is_url and not os.path.isdir(folder):  # a store has no empty folders
        raise refuse("C301", f"there is no folder {folder} to watch", place, "Make it first.")
    return glob_files(path, place)


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
    if section.spark is not None:
        with collect_problems(problems):
            table = spark_input(config, number, delay)
        if problems:
            raise Refused(problems)
        return Inputs((), tables=(table,))
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
    if section.replay is not None:
        with collect_problems(problems):
            _replay_times(config, number)
    problems += setting_conflicts(config, section, number, delay)
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
    received = section.received
    with collect_problems(problems):
        source = None if received is None else message_source(received, place, like, config.settings.name, parse_size(section.spool))
    if section.ldes is not None:  # its pages may have any format
        like = replace(like, format=Format.NQUADS)
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
        from dotr.streams.connectors.kafka.section import kafka_input

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
    return InputFile("recording", path, Format.RECORDING, unit, nesting=nesting, record=1 << 40)


def _own_recording(config: Config, path: str) -> InputFile:
    return recording_file(path, UNITS[config.settings.time.unit], config.settings.limits.nesting)


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
    Raises `Refused` where its section is wrong."""
    for number, section in enumerate(config.settings.input):
        if section.name == name:
            delay = _length(config, number, "lateness", section.lateness, UNITS[config.settings.time.unit])
            return _file_like(config, number, path, delay, element_map(config, section, number), graph_settings(config, section, number))
    return None


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
    """The problem (S107) of a standard input in TriG, Turtle, N-Triples or Jelly, which Spark cannot spool
    for a replay."""
    names = {Format.TRIG: "TriG", Format.TURTLE: "Turtle", Format.NTRIPLES: "N-Triples", Format.JELLY: "Jelly"}
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
    """A Kafka input up to its present end; raises `Refused` where the broker does not answer well."""
    from dotr.streams.connectors.kafka.channels import BoundedTopics

    return BoundedTopics(topics)


def open_topics(config: Config, inputs: Sequence[KafkaInput]) -> tuple[OpenedTopics, ...]:
    """The inputs with the partitions of their clusters; waits until a broker answers. Raises
    `Refused` for what cannot succeed: credentials, a certificate, an unknown topic."""
    if not inputs:
        return ()
    from dotr.streams.connectors.kafka.channels import OpenedTopics

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
there is none yet; raises the error that ended a receiver, and AllEnded where none can come."""


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
    probes = _probes(topics)
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


def _probes(topics: Sequence[OpenedTopics]) -> list[TimeProbe]:
    if not topics:
        return []
    from dotr.streams.connectors.kafka.channels import TimeProbe

    return [TimeProbe(each) for each in topics]


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
                new = (growing.like.found(file) for file in folder.new_files() if not file.change)
                has_dates = next((dates for file in new if (dates := has_date_times(file, notices)) is not None), None)
            if has_dates is not None:
                return Clock(unit, has_dates)
        if received is not None:
            try:
                if (has_dates := received()) is not None:
                    return Clock(unit, has_dates)
            except AllEnded:
                received = None
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
        unit, is_dated = json.loads((Location.of(checkpoint) / "dotr.json").read())["clock"]
        return Clock(Unit.from_written(unit), is_dated)
    except (OSError, ValueError, KeyError, TypeError):
        return None
