"""A pipeline: a compiled program with its inputs and outputs, ready for any runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from dotr.config import UNITS, Config
from dotr.engine.program import CompiledProgram, compile_program
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Span
from dotr.model.time import Clock, Micros
from dotr.monitoring.dead_letter_log import WARNINGS_PER_KIND
from dotr.outputs.writing import StreamFormat
from dotr.runtimes.inputs import clock_of_inputs, files_of, checkpoint_clock, spool_problems, read_inputs, wait_until_stable
from dotr.runtimes.output_locks import OutputLocks
from dotr.runtimes.removal import Target, remove
from dotr.sinks.files import check_new, passing
from dotr.sources.records import InputFile
from dotr.sources.times import parse_delay
from dotr.sources.watched_folders import GrowingInput


@dataclass(frozen=True, slots=True)
class Output:
    """Where the output stream goes: a file in process, a folder on Spark. `place` is where the configuration says so."""

    format: StreamFormat
    path: str
    place: Span | None = None


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`master` is None where neither the configuration nor anything else names one; `batch` is about how many elements a batch holds,
    `restarts` how often a query that Spark gave up is started again without a batch in between, and `trigger` how long it is at least from
    batch to batch where inputs grow."""

    master: str | None
    checkpoint: str
    batch: int
    conf: Mapping[str, str]
    restarts: int = 3
    trigger: Micros = 0


@dataclass(frozen=True)
class Pipeline:
    """What a runtime runs. `inputs` are the files that are there, `growing` the further inputs that files appear in, or standard input;
    `rates` says how many records of a named input are read a second, at most; `told` how many dead letters of a kind are told as they
    come; `notices` are what is to be told of the inputs."""

    name: str
    program: CompiledProgram
    inputs: tuple[InputFile, ...]
    outputs: tuple[Output, ...]
    dead_letter_path: str | None
    clock: Clock
    spark: SparkSettings
    dead_letter_place: Span | None = None
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    dead_letter_warnings: int = WARNINGS_PER_KIND
    notices: Sequence[Diagnostic] = ()

    @cached_property
    def output_paths(self) -> tuple[str, ...]:
        return tuple(output.path for output in self.outputs)


DEAD_LETTERS: Final = "dead letters"


def build(config: Config, *, fresh: bool, on_spark: bool, wait: bool = True, locks: OutputLocks | None = None) -> Pipeline:
    """Compile a configuration's program and find its files; raises `Refused` with every problem found.

    `fresh` removes what older runs left, once all else is well. In process an output that exists already is refused; on Spark the
    checkpoint decides. `waiting`: files that are being written are waited for, and, where nothing else says how times are written, the
    first record. `held` is made to hold what the pipeline writes to, before anything of it is looked at.
    """
    settings = config.settings
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    if on_spark:
        problems += [problem for each in inputs.growing if each.standard for problem in spool_problems(config, each)]
    targets = _targets(config)
    problems += _path_conflicts(config, targets)
    if locks is not None and not problems:
        problems += locks.acquire(targets, settings.name)
    if not fresh and not on_spark and not problems:
        problems += _existing_outputs(targets)
    try:
        # Spark's workers are many: a store of the smallest background spares each of them reading and closing it.
        program = compile_program(config.program(), config.keeping(0) if on_spark else config.keeping())
    except Refused as refused:
        raise Refused([*refused.diagnostics, *problems]) from None
    if problems:
        raise Refused(problems)
    if fresh:
        remove(targets)
    if inputs.growing and wait:
        wait_until_stable(inputs)
    unit = UNITS[settings.time.unit]
    clock = checkpoint_clock(targets[-1].path) if on_spark else None
    notices: list[Diagnostic] = []
    clock = clock or (clock_of_inputs(inputs, unit, notices) if wait else Clock(unit, dated=False))
    outputs = tuple(
        Output(StreamFormat(section.format), target.path, target.place) for section, target in zip(settings.output, targets, strict=False)
    )
    dead = next((target for target in targets if target.what == DEAD_LETTERS), Target(DEAD_LETTERS, ""))
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    said = settings.spark
    spark = SparkSettings(said.master, targets[-1].path, said.batch, conf, said.restarts, parse_delay(said.trigger))
    return Pipeline(
        settings.name,
        program,
        inputs.files,
        outputs,
        dead.path or None,
        clock,
        spark,
        dead.place,
        inputs.growing,
        inputs.rates,
        settings.report.dead_letters,
        notices,
    )


def _targets(config: Config) -> tuple[Target, ...]:
    """What the pipeline writes to: the outputs in order, the dead letters if they are kept, the checkpoint."""
    settings = config.settings
    found = [
        Target("output", config.files.path(section.path, ("output", number, "path")), config.place("output", number, "path"))
        for number, section in enumerate(settings.output)
    ]
    beside = Path(found[0].path).parent
    if settings.dead_letter:
        found.append(Target(DEAD_LETTERS, config.files.path(settings.dead_letter, ("dead_letter",)), config.place("dead_letter")))
    if settings.spark.checkpoint:
        where = ("spark", "checkpoint")
        found.append(Target("checkpoint", config.files.path(settings.spark.checkpoint, where), config.place(*where), checkpoint=True))
    else:
        name = re.sub(r"[^\w.-]+", "-", settings.name)
        found.append(Target("checkpoint", str(beside / f"{name}-checkpoint"), config.place("name"), checkpoint=True))
    return tuple(found)


def _path_conflicts(config: Config, targets: Sequence[Target]) -> list[Diagnostic]:
    """Paths that would be written over each other, or over what the pipeline reads or where it is run."""
    read = {config.path: "the configuration", os.getcwd(): "the working directory"}
    settings = config.settings
    lists = (("rules", settings.rules), ("knowledge.datalog", settings.knowledge.datalog), ("knowledge.graphs", settings.knowledge.graphs))
    for location, patterns in lists:
        keys = tuple(location.split("."))
        read |= {path: f"named by {location}" for path, _ in config.files.existing(patterns, keys, [])}
    for number, section in enumerate(settings.input):
        with suppress(Refused):
            read |= dict.fromkeys(files_of(config, section, number), f"the input {section.name}")
    known = [(Path(path).resolve(), path, what) for path, what in read.items()]
    problems: list[Diagnostic] = []
    seen: list[tuple[Path, Target]] = []
    for target in targets:
        if passing(target.path):
            continue
        path = Path(target.path).resolve()
        why, hint = "", "Choose a path that nothing else has."
        if re.search(r"\w\w:/", target.path) and target.place != config.place("name"):
            why, hint = "is on no disk of this machine", "Name a local or mounted folder."
        for other, name, what in known:
            if not why and (other == path or path in other.parents):
                why = f"is {what}" if other == path else f"holds {name}, {what}"
        for other, mate in seen:
            if not why and (other == path or path in other.parents or other in path.parents):
                why = f"and the {mate.what} {mate.path} stand in each other's way"
        if why:
            problems.append(Diagnostic("C206", f"the {target.what} {target.path} {why}", target.place, hint))
        else:
            seen.append((path, target))
    return problems


def _existing_outputs(targets: Sequence[Target]) -> list[Diagnostic]:
    """One problem for all that older runs left."""
    found: list[Diagnostic] = []
    there: list[str] = []
    for target in targets:
        try:
            if not target.checkpoint:
                check_new(target.path, target.place)
        except Refused as refused:
            found += refused.diagnostics
            there.append(target.path)
    if len(there) < 2 or {problem.code for problem in found} != {"I201"}:
        return found
    return [replace(found[0], message=f"{', '.join(there[:-1])} and {there[-1]} are there already")]


def check_files(config: Config) -> list[Diagnostic]:
    """The problems of a configuration's inputs and outputs that show without running it."""
    problems: list[Diagnostic] = []
    read_inputs(config, problems)
    return problems + _path_conflicts(config, _targets(config))
