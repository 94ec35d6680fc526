"""The inputs that a configuration names: the files that are there, and what they grow by."""

from __future__ import annotations

import glob
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dotr.config import UNITS, Config, InputSection, existing
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.model.places import Document, Span
from dotr.model.time import Clock, Micros, Unit
from dotr.sources.lines import STANDARD_INPUT, standard_bytes
from dotr.sources.reading import check_input, clock_of, dated
from dotr.sources.records import CsvMap, Format, InputFile
from dotr.sources.times import parse_delay
from dotr.sources.watched_folders import Folder, GrowingInput, stable_files


@dataclass(frozen=True)
class Inputs:
    """`files` were there when the run started; `rates` are by the names of inputs."""

    files: tuple[InputFile, ...]
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)


def read_inputs(config: Config, problems: list[Diagnostic]) -> Inputs:
    """The inputs, as far as they can be used; adds what is wrong with the others."""
    files: list[InputFile] = []
    growing: list[GrowingInput] = []
    sections = config.settings.input
    for number, section in enumerate(sections):
        with collect_problems(problems):
            there, further = _input(config, section, number)
            files += there
            growing += further
    if sum(each.standard for each in growing) > 1:
        problems.append(
            Diagnostic("C204", "standard input can be read by one input only", config.place("input"), "Name files for the others.")
        )
    return Inputs(tuple(files), tuple(growing), {section.name: section.rate for section in sections if section.rate is not None})


@contextmanager
def collect_problems(problems: list[Diagnostic]) -> Iterator[None]:
    """Takes what is refused inside into a list, each problem once."""
    try:
        yield
    except Refused as refused:
        problems += [problem for problem in refused.diagnostics if problem not in problems]


def files_of(config: Config, section: InputSection, number: int) -> list[str]:
    """The files of an input that are there now; raises `Refused` where there has to be one and is none."""
    at = ("input", number, "path")
    if section.path == STANDARD_INPUT:
        return []
    path, place = config.files.path(section.path, at), config.place(*at)
    if not section.watch:
        return existing(path, place)
    if not glob.has_magic(path):
        hint = (
            f"For the files that appear in it write {os.path.join(path, '*')}"
            if os.path.isdir(path)
            else "Write a glob such as data/*.ndjson"
        )
        raise refuse("C204", f"watch waits for files to appear, and {path} is no pattern", place, hint)
    folder = path[: next(i for i, letter in enumerate(path) if letter in "*?[")].rpartition("/")[0] or "."
    if not os.path.isdir(folder):
        raise refuse("C301", f"there is no folder {folder} to watch", place, "Make it first.")
    return sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))


def _input(config: Config, section: InputSection, number: int) -> tuple[list[InputFile], list[GrowingInput]]:
    at = ("input", number)
    unit = UNITS[config.settings.time.unit]
    problems: list[Diagnostic] = []
    delay: Micros = 0
    idle: Micros | None = None
    settle: Micros = 0
    csv: CsvMap | None = None
    paths: list[str] = []
    with collect_problems(problems):
        delay = _length(config, number, "lateness", section.lateness, unit)
    with collect_problems(problems):
        idle = None if section.idle is None else _length(config, number, "idle", section.idle, Unit.SECOND)
    with collect_problems(problems):
        settle = _length(config, number, "settle", section.settle if section.settle is not None else "1 s", Unit.SECOND)
    with collect_problems(problems):
        csv = _csv_map(config, section, number)
    with collect_problems(problems):
        paths = files_of(config, section, number)
    problems += _setting_conflicts(config, section, number, delay)
    if problems:
        raise Refused(problems)
    prefixes = tuple(config.settings.prefixes.items())
    limits = config.settings.limits
    like = InputFile(
        section.name, "", Format(section.format), unit, delay, prefixes, csv, section.one_per_instant, limits.nesting, limits.record
    )
    files = [replace(like, path=path) for path in paths]
    for file in files or [like]:
        with collect_problems(problems):
            check_input(file, config.place(*at))
    if problems:
        raise Refused(dict.fromkeys(_with_place(problem, config, number) for problem in problems))
    if section.path == STANDARD_INPUT:
        return [], [GrowingInput(replace(like, path=STANDARD_INPUT), idle=idle)]
    if section.watch:
        return files, [GrowingInput(like, config.files.path(section.path, (*at, "path")), settle, idle)]
    return files, []


def _setting_conflicts(config: Config, section: InputSection, number: int, delay: Micros) -> Iterator[Diagnostic]:
    """What does not go together in an input's settings."""

    def problem(key: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic("C204", message, config.files.tree.key(("input", number, key)), hint)

    watches = "watch" in section.model_fields_set  # it may have been turned off for one run
    grows = watches or section.path == STANDARD_INPUT
    if section.one_per_instant and delay:
        yield problem(
            "one_per_instant",
            "an input whose every element is an instant has no lateness",
            "Leave one of the two out: to be put in order, elements have to wait for each other.",
        )
    if section.settle is not None and not watches:
        yield problem("settle", "settle says when a file of a watched folder is complete", "Write watch: true, or leave it out.")
    if section.idle is not None and not grows:
        yield problem("idle", "an input that is there in full is never idle", "Leave it out, or write watch: true.")
    if section.watch and section.path == STANDARD_INPUT:
        yield problem("watch", "standard input is no folder to watch", "Leave watch out.")


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


def _with_place(problem: Diagnostic, config: Config, number: int) -> Diagnostic:
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


def _length(config: Config, number: int, key: str, value: str | int, unit: Unit) -> Micros:
    try:
        return parse_delay(value, unit)
    except ValueError as error:
        place = config.place("input", number, key)
        raise Refused([Diagnostic("C205", f"{key}: {error}", place, "Write it like 30 s or 5 min.")]) from None


def spool_problems(config: Config, growing: GrowingInput) -> Iterator[Diagnostic]:
    """Why standard input cannot be kept for a replay, where it cannot."""
    if growing.like.format is Format.TRIG:
        number = next(number for number, section in enumerate(config.settings.input) if section.path == STANDARD_INPUT)
        hint = "Send N-Quads (format: nquads), name files, or run with --engine local."
        message = "Spark reads standard input a record at a time, and a record of TriG needs the declarations before it"
        yield Diagnostic("S107", message, config.place("input", number, "path"), hint)


def wait_until_stable(inputs: Inputs) -> None:
    """Waits until the files that are there in watched folders are complete."""
    for growing in inputs.growing:
        stable_files([file.path for file in inputs.files if growing.pattern and file.input == growing.like.input], growing.settle)


def clock_of_inputs(inputs: Inputs, unit: Unit, notices: list[Diagnostic]) -> Clock:
    """How times are written: as the files that are there say; where there are none, as the first record says, which is waited for.
    `notices` takes what is to be told of the times."""
    if inputs.files or not inputs.growing:
        return clock_of(inputs.files, unit, notices)
    looks = [(each, None if each.standard else Folder(each.pattern, each.settle, ())) for each in inputs.growing]
    while True:
        for growing, folder in looks:
            if folder is None:
                said = _standard_input_has_dates(growing.like, notices)
            else:
                said = next(
                    (said for path in folder.look() if (said := dated(replace(growing.like, path=path), notices)) is not None), None
                )
            if said is not None:
                return Clock(unit, said)
        if all(folder is None for _, folder in looks):  # standard input has ended, and said nothing
            return Clock(unit, dated=False)
        time.sleep(0.05)


def _standard_input_has_dates(like: InputFile, notices: list[Diagnostic]) -> bool | None:
    """What the first record of standard input says; None where it ends without one."""
    waiting = standard_bytes()
    while True:
        more = waiting.more()
        whole = waiting.held if not more or waiting.held[:2] == b"\x1f\x8b" else waiting.held[: waiting.held.rfind(b"\n") + 1]
        with tempfile.NamedTemporaryFile() as file:
            file.write(whole)
            file.flush()
            try:
                said = dated(replace(like, path=file.name), notices)
            except Refused:  # a CSV file without its header, so far
                said = None
        if said is not None or not more:
            return said


def checkpoint_clock(checkpoint: str) -> Clock | None:
    """How the runs that made a checkpoint wrote times; None where there is none, or it does not say."""
    try:
        unit, is_dated = json.loads((Path(checkpoint.removeprefix("file://")) / "dotr.json").read_text())["clock"]
        return Clock(Unit.from_written(unit), is_dated)
    except (OSError, ValueError, KeyError, TypeError):
        return None
