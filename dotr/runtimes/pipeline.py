"""A pipeline: a compiled program with its inputs and outputs, ready for any runtime."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dotr.config import UNITS, Config, InputSection, existing
from dotr.diagnostics import Diagnostic, Refused
from dotr.engine.program import Program, compile_program
from dotr.io import CsvMap, Format, InputFile, check_input, clock_of
from dotr.io.times import parse_delay
from dotr.model.places import Document, Span
from dotr.model.time import Clock, Micros, Unit
from dotr.outputs.writing import StreamFormat


@dataclass(frozen=True, slots=True)
class Output:
    """Where the output stream goes: a file in process, a folder on Spark. `place` is where the configuration says so."""

    format: StreamFormat
    path: str
    place: Span | None = None


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`master` is None where neither the configuration nor anything else names one; `batch` is about how many elements a batch holds."""

    master: str | None
    checkpoint: str
    batch: int
    conf: Mapping[str, str]


@dataclass(frozen=True)
class Pipeline:
    """What a runtime runs."""

    name: str
    program: Program
    inputs: tuple[InputFile, ...]
    outputs: tuple[Output, ...]
    dead_letter_path: str | None
    clock: Clock
    spark: SparkSettings

    @cached_property
    def output_paths(self) -> tuple[str, ...]:
        return tuple(output.path for output in self.outputs)


def build(config: Config, *, fresh: bool, on_spark: bool) -> Pipeline:
    """Compile a configuration's program and find its files; raises `Refused` with every problem found.

    `fresh` removes the pipeline's output and checkpoint. In process an output that exists already is refused; on Spark the checkpoint
    decides.
    """
    settings = config.settings
    problems: list[Diagnostic] = []
    inputs: list[InputFile] = []
    for number, section in enumerate(settings.input):
        try:
            inputs += _input_files(config, section, number)
        except Refused as refused:
            problems += refused.diagnostics
    try:
        program = compile_program(config.program())
    except Refused as refused:
        raise Refused([*refused.diagnostics, *problems]) from None
    if problems:
        raise Refused(problems)
    outputs = tuple(
        Output(
            StreamFormat(section.format),
            config.files.path(section.path, ("output", number, "path")),
            config.place("output", number, "path"),
        )
        for number, section in enumerate(settings.output)
    )
    dead = settings.dead_letter and config.files.path(settings.dead_letter, ("dead_letter",))
    checkpoint = (
        config.files.path(settings.spark.checkpoint, ("spark", "checkpoint"))
        if settings.spark.checkpoint
        else str(Path(outputs[0].path).parent / f"{settings.name}-checkpoint")
    )
    if fresh:
        for path in (*(output.path for output in outputs), *([dead] if dead else []), checkpoint):
            _remove(path)
    clock = clock_of(inputs, UNITS[settings.time.unit])
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    spark = SparkSettings(settings.spark.master, checkpoint, settings.spark.batch, conf)
    return Pipeline(settings.name, program, tuple(inputs), outputs, dead or None, clock, spark)


def check_inputs(config: Config) -> list[Diagnostic]:
    """The problems of a configuration's inputs."""
    problems: list[Diagnostic] = []
    for number, section in enumerate(config.settings.input):
        try:
            _input_files(config, section, number)
        except Refused as refused:
            problems += refused.diagnostics
    return problems


def _input_files(config: Config, section: InputSection, number: int) -> list[InputFile]:
    settings = config.settings
    at = ("input", number)
    unit = UNITS[settings.time.unit]
    delay = _delay(config, section, number, unit)
    csv = None
    if section.format == "csv":
        missing = [key for key in ("time", "map") if getattr(section, key) is None]
        if missing:
            raise Refused([Diagnostic("C202", f"a csv input needs {key}", config.place(*at), "See interface.md.") for key in missing])
        assert section.time is not None
        assert section.map is not None
        csv = CsvMap(section.time, Document(f"map of input {section.name}", section.map), section.delimiter)
    elif section.time is not None or section.map is not None:
        raise Refused([Diagnostic("C204", f"time and map belong to csv, not to {section.format}", config.place(*at))])
    paths = existing(config.files.path(section.path, (*at, "path")), config.place(*at, "path"))
    files = [InputFile(section.name, path, Format(section.format), unit, delay, tuple(settings.prefixes.items()), csv) for path in paths]
    for file in files:
        check_input(file, config.place(*at))
    return files


def _delay(config: Config, section: InputSection, number: int, unit: Unit) -> Micros:
    try:
        return parse_delay(section.lateness, unit)
    except ValueError as error:
        place = config.place("input", number, "lateness")
        raise Refused([Diagnostic("C205", f"lateness: {error}", place, "Write it like 30 s or 5 min.")]) from None


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
