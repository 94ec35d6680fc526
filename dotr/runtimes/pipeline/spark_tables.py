"""Inputs by `spark` of a configuration: tables and streams whose rows Spark reads, and their
elements.

What can be told without Spark is checked here: keys, maps, prefixes. Columns and their types are
checked where the schema is known (`runtimes.frames`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.environment import revealed
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.time import UNITS, Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.sections import InputSection
from dotr.runtimes.pipeline.tables import with_place
from dotr.streams.connectors.registry import SparkInputSection
from dotr.streams.formats.reading import check_input
from dotr.streams.records import ElementMap, Format, InputFile
from dotr.syntax.sections import SectionPlace

_KEYS: Final = frozenset({"name", "stream", "format", "spark", "watch", "lateness", "time", "map", "graph"})
"""The keys of inputs that Spark reads."""

_GRAPHS: Final = ("turtle", "ntriples", "trig", "jsonld")
"""The formats of graphs in columns."""


@dataclass(frozen=True, slots=True)
class SparkInput:
    """Table or stream that Spark reads, as an input.

    - `like`: name, lateness, prefixes, limits and the map, or the format of the graph, of elements.
    - `source`: what Spark reads, and `path` its path, relative to the working directory, or URL.
    - `time`, `graph`: the columns of times, and of graphs (None: elements are made by the map).
    - `goes_on`: rows are read until the run is stopped.
    - `place`: the input in its configuration.
    """

    like: InputFile
    source: SparkInputSection
    path: str | None
    time: str
    graph: str | None
    goes_on: bool
    place: SectionPlace

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.like.input

    @property
    def map(self) -> str | None:
        """The text of the map; None where a column holds the graph."""
        return None if self.like.map is None else self.like.map.template.text

    @property
    def streaming(self) -> bool:
        """True if rows are read as a stream, False if all are read once."""
        return self.source.streaming

    @property
    def named(self) -> str:
        """The table, path or format, for messages."""
        return self.source.table or self.path or f"the source {self.source.format}"

    @property
    def location(self) -> str | None:
        """The path as Spark reads it, whatever its working directory, or the URL."""
        return self.path if self.path is None or _is_url(self.path) else os.path.abspath(self.path)

    @property
    def identity(self) -> str:
        """The text by which a checkpoint knows the rows and how elements are made of them."""
        made = "" if self.graph is None else f"{self.graph} {self.like.format.value}"
        return repr([self.source.format, self.source.table, self.location, self.streaming, self.time, self.map, made, self.like.prefixes])

    def options(self) -> dict[str, str]:
        """The options of the source, with the values of secrets. Raises `Refused` (S124)."""
        return {key: str(value).lower() if isinstance(value, bool) else revealed(str(value)) for key, value in self.source.options.items()}


def _is_url(path: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) is not None


def spark_input(config: Config, number: int, delay: Micros) -> SparkInput:
    """The input `number` of a configuration, which Spark reads; `delay` is its lateness (µs).

    Raises `Refused` (C202, C204, and the codes of maps and prefixes) with all problems.
    """
    section, settings = config.settings.input[number], config.settings
    place, source = config.files.place("input", number), section.spark
    assert source is not None
    if problems := list(_conflicts(section, place)):
        raise Refused(problems)
    assert isinstance(section.time, str)
    mapped = None if section.map is None else ElementMap((), Document(f"map of input {section.name}", section.map))
    like = InputFile(
        section.name,
        "",
        Format(section.format) if mapped is None else Format.JSON,
        UNITS[settings.time.unit],
        delay,
        tuple(settings.prefixes.items()),
        mapped,
        nesting=settings.limits.nesting,
        record=settings.limits.record,
        zone=settings.time_zone or "",
    )
    try:
        check_input(like, place.span(), transport="spark")
    except Refused as refused:
        around = place.span("map"), config.span("prefixes")
        raise Refused([with_place(each, section.map, *around) for each in refused.diagnostics]) from None
    path = source.path
    if path is not None and not _is_url(path):
        path = place.path(path, "spark", "path")
    return SparkInput(like, source, path, section.time, section.graph, section.watch, place)


def _conflicts(section: InputSection, place: SectionPlace) -> Iterator[Diagnostic]:
    """Keys that are missing (C202), that exclude each other, or are of other inputs (C204)."""
    assert section.spark is not None
    if section.time is None:
        yield Diagnostic("C202", "a spark input needs time", place.span(), "time: COLUMN names the column that holds the time.")
    elif not isinstance(section.time, str):
        hint = "Name one column; or make one of several in a view of Spark."
        yield Diagnostic("C204", "the time of a row is one column, and this is a list", place.span("time"), hint)
    if section.map is None and section.graph is None:
        hint = 'map: "[] a :Report ; :speed {COLUMN} ." makes a row a graph; graph: COLUMN names a column that holds one.'
        yield Diagnostic("C202", "a spark input needs map, or graph", place.span(), hint)
    elif section.map is not None and section.graph is not None:
        yield Diagnostic("C204", "map and graph exclude each other", place.key_span("graph"), "Leave one of the two out.")
    elif section.graph is None and section.is_given("format"):
        message = "format is that of the column graph, and this input has a map"
        yield Diagnostic("C204", message, place.key_span("format"), "Leave format out; what Spark reads has its own: spark: { format: … }.")
    elif section.graph is not None and section.format not in _GRAPHS:
        message = f"a column holds graphs in {', '.join(_GRAPHS[:-1])} or {_GRAPHS[-1]}, not in {section.format}"
        yield Diagnostic("C204", message, place.span("format"), "Write one of these; or a map, which makes a row a graph.")
    if section.watch and not section.spark.streaming:
        message = "watch waits for new rows, and streaming: false reads all rows once"
        yield Diagnostic("C204", message, place.key_span("watch"), "Leave one of the two out.")
    for key in sorted(section.model_fields_set - _KEYS):
        hint = f"Leave it out. An input by spark has {', '.join(sorted(_KEYS - {'spark'}))}."
        yield Diagnostic("C204", f"{key} is of other inputs, and Spark reads this one", place.key_span(key), hint)


def spark_conflicts(config: Config, tables: Sequence[SparkInput]) -> Iterator[Diagnostic]:
    """Problems (C204) of inputs that do not go together: Spark reads all or none, in one query."""
    sections = config.settings.input
    other = next((number for number, each in enumerate(sections) if each.spark is None), None)
    first = next((each for each in sections if each.spark is not None), None)
    if first is not None and other is not None:
        message = f"Spark reads the input {first.name}, and dotr the input {sections[other].name}"
        hint = "Write spark for all inputs (Spark reads files and Kafka, too), or for none."
        yield Diagnostic("C204", message, config.span("input", other, "name"), hint)
    if first is not None and config.settings.spark.is_given("batch"):
        hint = "Leave it out. Options of the source bound a batch: spark: { options: { maxFilesPerTrigger: 100 } }."
        yield Diagnostic("C204", "Spark divides what it reads into batches", config.files.tree.key_span(("spark", "batch")), hint)
    for each in tables[1:]:
        before = tables[0]
        if each.streaming != before.streaming:
            ways = ["as a stream" if given.streaming else "once" for given in (before, each)]
            place, hint = each.place.key_span("spark", "streaming"), "Write streaming: false for all inputs or for none."
        elif each.goes_on != before.goes_on:
            ways = ["until stopped" if given.goes_on else "to its end" for given in (before, each)]
            place, hint = each.place.key_span("watch"), "Write watch: true for all inputs or for none: one query of Spark reads them."
        else:
            continue
        yield Diagnostic("C204", f"input {before.name} is read {ways[0]}, and input {each.name} {ways[1]}", place, hint)


def refused_in_process(tables: Sequence[SparkInput], what: str) -> Iterator[Diagnostic]:
    """The problem (C204) that Spark reads an input, and something else, as `what` tells, does not."""
    for each in tables[:1]:
        hint = "Write engine: spark, and run it with Java 17 or later."
        if what != "this run is in process":
            hint = "Write the rows to a file, such as Parquet, and name it: path in place of spark."
        yield Diagnostic("C204", f"Spark reads the input {each.name}, and {what}", each.place.key_span("spark"), hint)
