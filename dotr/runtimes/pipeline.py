"""Pipeline: a compiled program with its inputs and outputs, the argument of every runtime."""

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
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.model.places import Span
from dotr.model.time import Clock, Micros
from dotr.monitoring.dead_letter_log import WARNINGS_PER_KIND
from dotr.runtimes.inputs import checkpoint_clock, clock_of_inputs, files_of, read_inputs, spool_problems, wait_until_stable
from dotr.runtimes.output_locks import OutputLocks
from dotr.runtimes.removal import Target, remove
from dotr.sinks.events import OutputFormat, OutputTerms, TableFormat, output_format
from dotr.sinks.files import check_new, keeps_nothing
from dotr.sinks.parquet import parquet_problem
from dotr.sources.records import InputFile
from dotr.sources.times import parse_delay
from dotr.sources.watched_folders import GrowingInput


@dataclass(frozen=True, slots=True)
class Output:
    """Target of the output stream: a file in process, a folder on Spark. `place` is its span in the
    configuration."""

    format: OutputFormat
    path: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of a run on Spark.

    `master`: None leaves it to spark-submit; `batch`: approximate number of elements of a batch;
    `restarts`: restarts of a failed query without a batch in between; `trigger`: least time in µs
    between the starts of two batches of growing inputs.
    """

    master: str | None
    checkpoint: str
    batch_elements: int
    conf: Mapping[str, str]
    restarts: int = 3
    trigger_interval: Micros = 0


@dataclass(frozen=True)
class Pipeline:
    """Compiled program with inputs and outputs.

    `inputs`: existing files; `growing`: watched folders and standard input; `rates`: greatest
    number of records a second, and `paces`: of seconds of event time, by name of input;
    `dead_letter_warnings`: number of dead letters of a kind that are logged; `notices`: notices on
    the inputs.
    """

    name: str
    program: CompiledProgram
    inputs: tuple[InputFile, ...]
    outputs: tuple[Output, ...]
    dead_letter_path: str | None
    clock: Clock
    spark: SparkSettings
    dead_letter_span: Span | None = None
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    dead_letter_warnings: int = WARNINGS_PER_KIND
    notices: Sequence[Diagnostic] = ()
    paces: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def output_paths(self) -> tuple[str, ...]:
        return tuple(output.path for output in self.outputs)

    @property
    def output_terms(self) -> OutputTerms:
        """The format of times, the attributes and the prefixes of all outputs."""
        return OutputTerms(self.clock, self.program.all_attributes, self.program.rules.prefixes)


DEAD_LETTERS: Final = "dead letters"


def build(config: Config, *, fresh: bool, on_spark: bool, wait: bool = True, locks: OutputLocks | None = None) -> Pipeline:
    """Compile a configuration's program and find its files; raises `Refused` with every problem
    found.

    `fresh`: remove outputs and checkpoint of older runs, after all checks; without it an existing
    output is refused in process, while on Spark the checkpoint decides. `wait`: wait for files that
    are being written and, where the time format is unknown otherwise, for the first record.
    `locks`: acquires locks on all targets before they are read.
    """
    settings = config.settings
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    if on_spark:
        problems += [problem for each in inputs.growing if each.standard for problem in spool_problems(config, each)]
    targets = targets_of(config)
    problems += [*_path_conflicts(config, targets), *_table_problems(config, targets)]
    if locks is not None and not problems:
        problems += locks.acquire(targets, settings.name)
    if not fresh and not on_spark and not problems:
        problems += _existing_outputs(targets)
    try:
        # On Spark even the smallest background is compiled: no worker reads and closes it again.
        program = compile_program(config.program(), config.cache_policy(0) if on_spark else config.cache_policy())
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
        Output(output_format(section.format), target.path, target.span) for section, target in zip(settings.output, targets, strict=False)
    )
    dead_letters = next((target for target in targets if target.purpose == DEAD_LETTERS), Target(DEAD_LETTERS, ""))
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    section = settings.spark
    trigger = parse_delay(section.trigger)
    spark = SparkSettings(section.master, targets[-1].path, section.batch, conf, section.restarts, trigger)
    return Pipeline(
        settings.name,
        program,
        inputs.files,
        outputs,
        dead_letters.path or None,
        clock,
        spark,
        dead_letters.span,
        inputs.growing,
        inputs.rates,
        settings.report.dead_letters,
        notices,
        paces=inputs.paces,
    )


def targets_of(config: Config) -> tuple[Target, ...]:
    """Targets of a pipeline: outputs in order, dead letters if configured, the checkpoint last."""
    settings = config.settings
    for number in range(len(settings.output)):
        if (transport := config.transport("output", number)) != "path":
            raise refuse(
                "C204", f"outputs by {transport} cannot be written yet", config.span("output", number, transport), "Name a file: path."
            )
    targets = [
        Target("output", config.files.path(section.path, ("output", number, "path")), config.span("output", number, "path"))
        for number, section in enumerate(settings.output)
    ]
    beside = Path(targets[0].path).parent
    if settings.dead_letter:
        targets.append(Target(DEAD_LETTERS, config.files.path(settings.dead_letter, ("dead_letter",)), config.span("dead_letter")))
    if settings.spark.checkpoint:
        where = ("spark", "checkpoint")
        targets.append(Target("checkpoint", config.files.path(settings.spark.checkpoint, where), config.span(*where), checkpoint=True))
    else:
        name = re.sub(r"[^\w.-]+", "-", settings.name)
        targets.append(Target("checkpoint", str(beside / f"{name}-checkpoint"), config.span("name"), checkpoint=True))
    return tuple(targets)


def _path_conflicts(config: Config, targets: Sequence[Target]) -> list[Diagnostic]:
    """Problems of targets that overlap each other, an input or the working directory (C206)."""
    used_paths = {config.path: "the configuration", os.getcwd(): "the working directory"}
    settings = config.settings
    lists = (("rules", settings.rules), ("knowledge.datalog", settings.knowledge.datalog), ("knowledge.graphs", settings.knowledge.graphs))
    for location, patterns in lists:
        keys = tuple(location.split("."))
        used_paths |= {path: f"named by {location}" for path, _ in config.files.matching_files(patterns, keys, [])}
    for number, section in enumerate(settings.input):
        with suppress(Refused):
            used_paths |= dict.fromkeys(files_of(config, section, number), f"the input {section.name}")
    known = [(Path(path).resolve(), path, what) for path, what in used_paths.items()]
    problems: list[Diagnostic] = []
    accepted: list[tuple[Path, Target]] = []
    for target in targets:
        if keeps_nothing(target.path):
            continue
        path = Path(target.path).resolve()
        conflict, hint = "", "Choose a path that nothing else has."
        if re.search(r"\w\w:/", target.path) and target.span != config.span("name"):
            conflict, hint = "is on no disk of this machine", "Name a local or mounted folder."
        for other, name, what in known:
            if not conflict and (other == path or path in other.parents):
                conflict = f"is {what}" if other == path else f"holds {name}, {what}"
        for other, earlier in accepted:
            if not conflict and (other == path or path in other.parents or other in path.parents):
                conflict = f"and the {earlier.purpose} {earlier.path} stand in each other's way"
        if conflict:
            problems.append(Diagnostic("C206", f"the {target.purpose} {target.path} {conflict}", target.span, hint))
        else:
            accepted.append((path, target))
    return problems


def _table_problems(config: Config, targets: Sequence[Target]) -> list[Diagnostic]:
    """Problems of outputs in Parquet."""
    parquet = [
        target
        for section, target in zip(config.settings.output, targets, strict=False)
        if output_format(section.format) is TableFormat.PARQUET
    ]
    return [problem for target in parquet if (problem := parquet_problem(target.path, target.span))]


def _existing_outputs(targets: Sequence[Target]) -> list[Diagnostic]:
    """Problems of existing outputs; plain cases are joined to one problem."""
    problems: list[Diagnostic] = []
    existing: list[str] = []
    for target in targets:
        try:
            if not target.checkpoint:
                check_new(target.path, target.span)
        except Refused as refused:
            problems += refused.diagnostics
            existing.append(target.path)
    if len(existing) < 2 or {problem.code for problem in problems} != {"I201"}:
        return problems
    return [replace(problems[0], message=f"{', '.join(existing[:-1])} and {existing[-1]} are there already")]


def check_files(config: Config) -> list[Diagnostic]:
    """Problems of a configuration's inputs and outputs that a check without a run can detect."""
    problems: list[Diagnostic] = []
    read_inputs(config, problems)
    targets = targets_of(config)
    return [*problems, *_path_conflicts(config, targets), *_table_problems(config, targets)]
