"""Replay of the inputs of a configuration, as they are now.

Idea: the files are merged as a run merges them, without locks, rate limits and outputs. A growing
input has not ended, so only instants up to its watermark are closed. It is never idle, since no
wall clock is replayed. Standard input is read from its copy in the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.languages.programs import compile_program
from dotr.model import dataclass
from dotr.model.stream import DeadLetter
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import Inputs, bounded_topics, is_recorded, present_files, read_inputs, with_replays
from dotr.runtimes.pipeline.outputs import targets_of
from dotr.runtimes.pipeline.spark_tables import refused_in_process
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.formats.reading import Reader, clock_of
from dotr.streams.formats.segments import SEGMENT, SPOOL, SPOOL_END, Segments, segment_names, spool_folder
from dotr.streams.lateness import Apart, Lateness
from dotr.streams.merge.bounded import RecordSource, instants
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.recordings import RecordingReader
from dotr.streams.records import Format, InputFile, Record, SourcedElement, with_sources

if TYPE_CHECKING:
    from dotr.streams.connectors.kafka.channels import BoundedTopics


def replay_of_config(config: Config, name: str = "") -> Replay:
    """Compile a configuration's program and find its inputs, for a replay.

    Args:
        config: the configuration.
        name: the configuration as the user named it, for suggested commands; its path by default.

    Raises:
        Refused: a file cannot be read or is wrong, with every problem found; or standard input is
            not in the checkpoint.
    """
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    try:
        program = compile_program(config.program(), config.cache_policy())
    except Refused as refused:
        problems = [*refused.diagnostics, *problems]
    if problems:
        raise Refused(dict.fromkeys(problems))
    return replay_of_inputs(config, program, inputs, name)


def replay_of_inputs(config: Config, program: CompiledProgram, inputs: Inputs, name: str = "") -> Replay:
    """A replay of a configuration's inputs through a program that is compiled already; of the run's
    recording, where an input cannot be read twice."""
    if inputs.tables:
        raise Refused(refused_in_process(inputs.tables, "what this command shows is computed in process"))
    inputs = _own_recording(config, inputs) or inputs
    if is_recorded(inputs.files):
        return _replay_of_recording(program, inputs.files[0], name or config.path)
    checkpoint = targets_of(config)[-1].path
    spool, inputs = Path(checkpoint) / SPOOL, with_replays(config, inputs, checkpoint, explained=True)
    sequences = [_Sequence((file,)) for file in present_files(inputs)]
    growing = {each.like.input for each in inputs.growing if not (each.standard and (spool / SPOOL_END).exists())}
    standard = [each.like for each in inputs.growing if each.standard]
    sequences += [_Sequence(_copied_input(config, like, spool), str(spool)) for like in standard]
    sequences += [_Sequence(_copied_messages(config, each, spool.parent), address=each.like.path) for each in inputs.growing if each.source]
    files = [file for sequence in sequences for file in sequence.files]
    topics = [bounded_topics(each) for each in inputs.topics]
    sequences += [_Sequence((file,), topics=each) for each in topics for file in each.files]
    growing |= {each.name for each in inputs.topics if not each.is_bounded}
    clock = replace(clock_of(files, program.spec.unit), zone=program.spec.time_zone)
    if not clock.dated and any(each.has_date_times() for each in topics):
        clock = replace(clock, dated=True)
    source = _InputReplay(program, sequences, growing)
    prefixes = program.rules.prefixes
    forms = dict.fromkeys((like.map.time_format, like.map.time_zone) for like in files if like.map is not None)
    return Replay(name or config.path, program, clock, prefixes, source.read, lambda: source.progress, time_forms=tuple(forms))


def _own_recording(config: Config, inputs: Inputs) -> Inputs | None:
    """The recording that a run has written, where an input cannot be read twice, or was replayed;
    None where all can be, or there is none."""
    settings = config.settings
    replayed = any(section.replay is not None for section in settings.input) and not config.start
    if settings.record is None or not (replayed or any(each.standard or each.source for each in inputs.growing)):
        return None
    path = config.files.path(settings.record, ("record",))
    return read_inputs(replace(config, recording=path), []) if Location(path).look() is not None else None


def _replay_of_recording(program: CompiledProgram, file: InputFile, name: str) -> Replay:
    """The replay of a recording: a heartbeat is an advance of time."""
    reader = RecordingReader(file, lambda warning: LOG.warning("%s", warning))

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time, elements in reader.instants():
            sourced = [each for each in elements if isinstance(each, SourcedElement)]
            places = [ElementPlace(file.path, each.record.line) for each in sourced]
            yield ReplayedInstant(time, program.on_streams(elements), places, [each.input for each in sourced])

    def progress() -> list[InputProgress]:
        return [InputProgress("", None if reader.passed is None else reader.passed - 1, reader.has_ended)]

    return Replay(name, program, clock_of([file], program.spec.unit), program.rules.prefixes, read, progress, recorded=True)


def _copied_input(config: Config, like: InputFile, spool: Path) -> tuple[InputFile, ...]:
    """The segments of the copy of standard input; raises `Refused` (C217) where its beginning is
    missing."""
    files = Segments(like, spool, framed=False).complete()
    if not files:
        number = next(number for number, section in enumerate(config.settings.input) if section.path == STANDARD_INPUT)
        reason = "its beginning is no longer in the checkpoint" if spool.is_dir() else "no checkpoint has a copy of it"
        raise refuse(
            "C217",
            f"standard input cannot be replayed: {reason}",
            config.span("input", number, "path"),
            f"Name a file that holds the input: --set input.{number}.path=FILE",
        )
    return files


def _copied_messages(config: Config, growing: GrowingInput, checkpoint: Path) -> tuple[InputFile, ...]:
    """The segments of the copy of received messages; raises `Refused` (C217) where their beginning
    is missing."""
    name = growing.like.input
    folder = spool_folder(checkpoint, name)
    files = Segments(growing.like, folder).complete()
    if not files:
        number = next(number for number, section in enumerate(config.settings.input) if section.name == name)
        reason = "their beginning is no longer in the checkpoint" if segment_names(folder) else "no checkpoint has a copy of them"
        hint = "A run on Spark keeps a copy for a while. Or name a file with the messages: path in place of " + config.transport(
            "input", number
        )
        raise refuse("C217", f"the messages of input {name} cannot be replayed: {reason}", config.span("input", number), f"{hint}.")
    return files


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Files that are read as one input, one after the other. `spool`: the folder of their copies,
    empty for files of the user. `address`: the source of messages, whose copies the files are.
    """

    files: tuple[InputFile, ...]
    spool: str = ""
    address: str = ""
    topics: BoundedTopics | None = None

    def records(self, stack: ExitStack, *, elements: bool = True) -> Iterator[Record]:
        """The records of all files. Each file is closed at its end, at the latest with the
        stack."""
        for file in self.files:
            if self.topics is not None:
                yield from with_sources(file, self.topics.records(file, elements=elements))
                continue
            reader = stack.enter_context(Reader(file, elements=elements))
            yield from with_sources(file, reader.records())
            reader.close()

    def lateness(self) -> Lateness:
        """The lateness before the first record."""
        return Lateness.of(self.files[0])

    def place(self, file: InputFile, line: int) -> ElementPlace:
        """The place of a line in the file or input that the user has named."""
        segment = SEGMENT.fullmatch(os.path.basename(file.path)) if self.spool else None
        if segment is None:
            return ElementPlace(self.address or file.path, line)
        has_header = file.format is Format.CSV and not (file.map and file.map.columns)
        return ElementPlace(STANDARD_INPUT, line + int(segment[2]) - 1 - has_header)


@dataclass
class _InputReplay:
    """Inputs that are read from their beginning with each call of `read`.

    `growing`: the names of the inputs that have not ended; `progress`: after the latest reading.
    """

    program: CompiledProgram
    sequences: Sequence[_Sequence]
    growing: set[str]
    progress: list[InputProgress] = field(default_factory=list)

    def read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        """The instants that are closed, in the order of time."""
        passed = self._passed_by_growing_inputs()
        bound = min(passed.values(), default=LAST_MICRO)
        self.progress = []
        latest: list[Record] = []

        def noted(records: Iterator[Record]) -> Iterator[Record]:
            for record in records:
                latest[:] = [record]
                yield record

        with ExitStack() as stack:
            sources = [RecordSource(sequence.files[0], noted(sequence.records(stack)), sequence.lateness()) for sequence in self.sequences]
            places = {id(file): sequence for sequence in self.sequences for file in sequence.files}

            def reject(dead_letter: DeadLetter) -> None:
                held = [each for source in sources if isinstance(source.lateness, Apart) for each in source.lateness.held]
                own = [each.record for each in held if (each.file.input, each.record.line) == (dead_letter.input, dead_letter.line)]
                element = (own or latest)[0].element
                if isinstance(element, SourcedElement):
                    place = places[id(element.file)].place(element.file, dead_letter.line)
                    dead_letter = dead_letter._replace(file=place.file, line=place.line)
                on_reject(RejectedElement(dead_letter, None if element is None else element.triples))

            for time, elements in instants(sources, reject):
                if time > bound:
                    break
                sourced = [element for element in elements if isinstance(element, SourcedElement)]
                yield ReplayedInstant(
                    time,
                    self.program.on_streams(sourced),
                    [places[id(element.file)].place(element.file, element.record.line) for element in sourced],
                    [element.input for element in sourced],
                )
            self.progress = self._progress(sources, passed)

    def _passed_by_growing_inputs(self) -> dict[str, Micros]:
        """The watermark of each input that grows, from a scan of its times."""
        passed = dict.fromkeys(self.growing, -LAST_MICRO)
        for sequence in self.sequences:
            name = sequence.files[0].input
            if name in passed:
                lateness = sequence.lateness()
                with ExitStack() as stack:
                    for record in sequence.records(stack, elements=False):
                        if (time := record.judged_time) is not None:
                            lateness.verdict(time)
                passed[name] = max(passed[name], lateness.passed)
        return passed

    def _progress(self, sources: Sequence[RecordSource], passed: dict[str, Micros]) -> list[InputProgress]:
        greatest: dict[str, Micros] = dict(passed)
        for source in sources:
            name = source.file.input
            if name not in passed:
                greatest[name] = max(greatest.get(name, -LAST_MICRO), source.lateness.passed)
        return [InputProgress(name, None if time <= _NO_ELEMENT else time, name not in passed) for name, time in greatest.items()]


_NO_ELEMENT: Final = -LAST_MICRO // 2
"""The bound of watermarks before all times, of inputs without elements."""
