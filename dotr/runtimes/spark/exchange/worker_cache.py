"""Compiled programs and inputs of a worker process, made once per job.

The engine is imported where a program is compiled: Spark starts a process for the planner of each
query, which needs the inputs alone, and would take twice the CPU to start.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dotr.evaluation.files.trust import distrust
from dotr.model.templates import ParsedMap
from dotr.model.terms import Term
from dotr.runtimes.spark.exchange.job import Job
from dotr.streams.connectors.kafka.topics import KafkaInput
from dotr.streams.formats.mapping.maps import shapes_of
from dotr.streams.merge.file_marks import FileMark
from dotr.streams.records import InputFile

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram
    from dotr.engine.stream_terms import StreamTerms
    from dotr.instant.datalog.background.compiled_cache import CachePolicy, StoreFile
    from dotr.temporal.stage_two import StageTwo


def input_of(job: Job, number: int) -> InputFile:
    """The specification of an input, with its parsed map, and the mark of a file."""
    return _input(job.inputs[number], job.maps, number, job.marks[number] if number < len(job.marks) else "")


@lru_cache(maxsize=1 << 16)
def _input(text: str, maps: str, number: int, mark: str) -> InputFile:
    return replace(_with_map(InputFile.from_json(text), maps, number), mark=FileMark.of_json(json.loads(mark)) if mark else None)


def topics_of(job: Job) -> Sequence[KafkaInput]:
    """The specifications of the Kafka inputs, with their parsed maps."""
    return [_topic(text, job.maps, len(job.inputs) + number) for number, text in enumerate(job.topics)]


@lru_cache(maxsize=64)
def _topic(text: str, maps: str, number: int) -> KafkaInput:
    topics = KafkaInput.from_json(text)
    return replace(topics, like=_with_map(topics.like, maps, number))


def _with_map(file: InputFile, maps: str, number: int) -> InputFile:
    """The specification with the map that the driver has parsed, where the job has one."""
    if file.map is None or not maps:
        return file
    return replace(file, map=replace(file.map, parsed=_maps(maps)[number]))


@lru_cache(maxsize=4)
def _maps(text: str) -> Sequence[ParsedMap | None]:
    from dotr.languages.program_json import maps_from_json

    return maps_from_json(text)


@lru_cache(maxsize=1)
def program_of(job: Job) -> CompiledProgram:
    """The compiled program of the job, from the text that the driver has parsed where the job has
    it."""
    from dotr.engine.spec import ProgramSpec
    from dotr.languages.program_json import ParsedProgram

    spec = ProgramSpec.from_json(job.program)
    if spec.reading.tables:  # read again only where the compiled background is damaged
        from dotr.runtimes.pipeline.tables import rows_of_table

        spec = replace(spec, reading=replace(spec.reading, rows=rows_of_table))
    if job.parsed:
        program = ParsedProgram.from_json(job.parsed, spec).compiled(spec, _background_policy(job))
    else:
        from dotr.languages.programs import compile_program

        program = compile_program(spec, _background_policy(job))
    program.stage_one.expect(shapes_of([input_of(job, number) for number in range(len(job.inputs))]))
    return program


def _background_policy(job: Job) -> CachePolicy | StoreFile:
    """The compiled background at the driver's path, or at the path of the copy that Spark has
    shipped, whose folder is Spark's own; the copy is used too where others could have written to
    the path."""
    from dotr.instant.datalog.background.compiled_cache import CachePolicy, StoreFile

    if not job.store:
        return CachePolicy(None)
    path, key = Path(job.store), bytes.fromhex(job.key)
    if not os.path.exists(path) or (not job.shared and distrust(path) is not None):
        from pyspark import SparkFiles

        return StoreFile(Path(SparkFiles.get(path.name)), key, shared=True)
    return StoreFile(path, key, job.shared)


@lru_cache(maxsize=1)
def layers_of(job: Job) -> tuple[StageTwo, ...]:
    """Stage two of the job's program, by layer."""
    return program_of(job).stage_two(job.clock, explains=job.explains)


def terms_of(job: Job) -> StreamTerms:
    """A new recorder of the terms that the anchors of the job's rules require."""
    from dotr.engine.stream_terms import StreamTerms

    return StreamTerms(_required_terms(job))


@lru_cache(maxsize=1)
def _required_terms(job: Job) -> frozenset[Term]:
    from dotr.engine.stream_terms import stream_terms

    return frozenset(stream_terms(program_of(job)).wanted)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: the many objects of a batch have no cycles, and scanning them
    costs a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
