"""A pipeline: a compiled program with its inputs and outputs, ready for any runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from dotr.config import UNITS, Config, InputSection, existing
from dotr.diagnostics import Diagnostic, Refused, refuse
from dotr.engine.program import Program, compile_program
from dotr.io import CsvMap, Format, InputFile, check_input, check_new, clock_of, passing
from dotr.io.times import parse_delay
from dotr.model.places import Document, Span
from dotr.model.time import Clock, Micros, Unit
from dotr.outputs.writing import StreamFormat
from dotr.runtimes.removal import Target, remove


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
    dead_letter_place: Span | None = None

    @cached_property
    def output_paths(self) -> tuple[str, ...]:
        return tuple(output.path for output in self.outputs)


DEAD_LETTERS: Final = "dead letters"


def build(config: Config, *, fresh: bool, on_spark: bool) -> Pipeline:
    """Compile a configuration's program and find its files; raises `Refused` with every problem found.

    `fresh` removes what older runs left, once all else is well. In process an output that exists already is refused; on Spark the
    checkpoint decides.
    """
    settings = config.settings
    problems: list[Diagnostic] = []
    inputs = _inputs(config, problems)
    targets = _targets(config)
    problems += _clashes(config, targets)
    if not fresh and not on_spark and not problems:
        problems += _there_already(targets)
    try:
        # Spark's workers are many: a store of the smallest background spares each of them reading and closing it.
        program = compile_program(config.program(), config.keeping(0) if on_spark else config.keeping())
    except Refused as refused:
        raise Refused([*refused.diagnostics, *problems]) from None
    if problems:
        raise Refused(problems)
    clock = clock_of(inputs, UNITS[settings.time.unit])
    if fresh:
        remove(targets)
    outputs = tuple(
        Output(StreamFormat(section.format), target.path, target.place) for section, target in zip(settings.output, targets, strict=False)
    )
    dead = next((target for target in targets if target.what == DEAD_LETTERS), Target(DEAD_LETTERS, ""))
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    spark = SparkSettings(settings.spark.master, targets[-1].path, settings.spark.batch, conf)
    return Pipeline(settings.name, program, tuple(inputs), outputs, dead.path or None, clock, spark, dead.place)


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


def _clashes(config: Config, targets: Sequence[Target]) -> list[Diagnostic]:
    """Paths that would be written over each other, or over what the pipeline reads or where it is run."""
    read = {config.path: "the configuration", os.getcwd(): "the working directory"}
    settings = config.settings
    lists = (("rules", settings.rules), ("knowledge.datalog", settings.knowledge.datalog), ("knowledge.graphs", settings.knowledge.graphs))
    for location, patterns in lists:
        keys = tuple(location.split("."))
        read |= {path: f"named by {location}" for path, _ in config.files.existing(patterns, keys, [])}
    for number, section in enumerate(settings.input):
        with suppress(Refused):
            read |= dict.fromkeys(existing(config.files.path(section.path, ("input", number, "path")), None), f"the input {section.name}")
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


def _there_already(targets: Sequence[Target]) -> list[Diagnostic]:
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
    _inputs(config, problems)
    return problems + _clashes(config, _targets(config))


def _inputs(config: Config, problems: list[Diagnostic]) -> list[InputFile]:
    found: list[InputFile] = []
    for number, section in enumerate(config.settings.input):
        with collecting(problems):
            found += _input_files(config, section, number)
    return found


@contextmanager
def collecting(problems: list[Diagnostic]) -> Iterator[None]:
    """Takes what is refused inside into a list, each problem once."""
    try:
        yield
    except Refused as refused:
        problems += [problem for problem in refused.diagnostics if problem not in problems]


def _input_files(config: Config, section: InputSection, number: int) -> list[InputFile]:
    at = ("input", number)
    unit = UNITS[config.settings.time.unit]
    problems: list[Diagnostic] = []
    with collecting(problems):
        delay = _delay(config, section, number, unit)
    with collecting(problems):
        csv = _csv_map(config, section, number)
    with collecting(problems):
        paths = existing(config.files.path(section.path, (*at, "path")), config.place(*at, "path"))
    if problems:
        raise Refused(problems)
    prefixes = tuple(config.settings.prefixes.items())
    files = [InputFile(section.name, path, Format(section.format), unit, delay, prefixes, csv) for path in paths]
    for file in files:
        with collecting(problems):
            check_input(file, config.place(*at))
    if problems:
        raise Refused(dict.fromkeys(_placed(problem, config, number) for problem in problems))
    return files


def _csv_map(config: Config, section: InputSection, number: int) -> CsvMap | None:
    """What a CSV input needs beside; raises `Refused` where it lacks some of it, or another format has it."""
    place = config.place("input", number)
    if section.format != "csv":
        if section.time is not None or section.map is not None:
            key = "time" if section.time is not None else "map"
            message = f"{key} belongs to csv, not to {section.format}"
            raise refuse("C204", message, config.files.tree.key(("input", number, key)), "Leave it out, or write format: csv")
        return None
    if section.time is None or section.map is None:
        needed = {
            "time": "time: COLUMN names the column that holds the time.",
            "map": 'map: "[] a :Report ; :speed {COLUMN} ." makes a row a graph.',
        }
        raise Refused(
            Diagnostic("C202", f"a csv input needs {key}", place, hint) for key, hint in needed.items() if getattr(section, key) is None
        )
    return CsvMap(section.time, Document(f"map of input {section.name}", section.map), section.delimiter)


def _placed(problem: Diagnostic, config: Config, number: int) -> Diagnostic:
    """A problem of a map or of a prefix, with its place in the configuration."""
    if problem.code == "I105":
        return replace(problem, span=config.place("prefixes"))
    section = config.settings.input[number]
    span, around = problem.span, config.place("input", number, "map")
    if span is None or section.map is None or span.document.text != section.map:
        return problem
    start = around.text.find(section.map)
    if start >= 0:  # else it is folded or escaped there, and its own lines are shown
        problem = replace(problem, span=Span(around.document, around.start + start + span.start, around.start + start + span.end))
    hint = problem.hint.replace("eclare it: PREFIX", "eclare it under `prefixes`:") if problem.code == "T103" else problem.hint
    return replace(problem, hint=hint)


def _delay(config: Config, section: InputSection, number: int, unit: Unit) -> Micros:
    try:
        return parse_delay(section.lateness, unit)
    except ValueError as error:
        place = config.place("input", number, "lateness")
        raise Refused([Diagnostic("C205", f"lateness: {error}", place, "Write it like 30 s or 5 min.")]) from None
