"""Schema of the configuration. Unknown keys and wrong types are errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from dotr.config.validation import Field, Section
from dotr.joins.limits import LIMITS
from dotr.model.time import Unit
from dotr.sources.times import parse_delay

UNITS: Final[Mapping[str, Unit]] = {
    "us": Unit.MICROSECOND,
    "ms": Unit.MILLISECOND,
    "s": Unit.SECOND,
    "min": Unit.MINUTE,
    "h": Unit.HOUR,
    "d": Unit.DAY,
}


class TimeSection(Section):
    """Unit of integer time stamps."""

    unit: Literal["us", "ms", "s", "min", "h", "d"] = "s"


class KnowledgeSection(Section):
    """Background knowledge."""

    graphs: list[str] = Field(default=[], description="RDF files in any format, .gz too; globs")
    datalog: list[str] = Field(default=[], description="Datalog files; globs")
    entailment: Literal["none", "rdfs", "owl2rl"] = "none"
    axiomatic: bool = Field(default=False, description="also the axiomatic and reflexive triples of the entailment")
    cache: str | None = Field(default=None, min_length=1, description="a folder for compiled backgrounds; the user's cache folder if none")
    inconsistent: Literal["report", "reject"] = Field(
        default="report",
        description="an inconsistent instant: a warning, or all its elements become dead letters",
    )


class LimitsSection(Section):
    """Limits of an instant; beyond one of them its elements become dead letters (reason limit)."""

    triples: int = Field(default=LIMITS.triples, gt=0, description="triples of an instant beyond the background, given and derived")
    rows: int = Field(default=LIMITS.rows, gt=0, description="answers of a query at an instant")
    probes: int = Field(
        default=LIMITS.probes, gt=0, description="triples and rows that a query reads at an instant, and candidates that one anchor tries"
    )
    matches: int = Field(
        default=LIMITS.matches, gt=0, description="the product of the numbers of events that the clauses of a branch chose"
    )
    literal: int = Field(default=LIMITS.literal, gt=0, description="characters of a literal that an expression computes")
    nesting: int = Field(default=LIMITS.nesting, gt=0, le=512, description="the depth of brackets in a record; beyond 512 parsers may die")
    record: int = Field(default=LIMITS.record, gt=0, description="bytes of a record, decompressed")


def _check_delimiter(value: str) -> None:
    if value in '"\r\n':
        raise ValueError("a quote or a line end separates no columns")


class InputSection(Section):
    """Input stream of elements, from one or several files."""

    name: str = Field(min_length=1)
    format: Literal["ndjson", "trig", "nquads", "csv"]
    path: str = Field(min_length=1, description="a file or a glob; .gz too; - is standard input")
    watch: bool = Field(default=False, description="read new files too, until stopped; the path is a glob")
    settle: str | int | None = Field(
        default=None, description="watch: a file unchanged for this long is complete; 1 s; 0 s for files renamed into place"
    )
    idle: str | int | None = Field(
        default=None, description="watch, standard input: after this long without an element, instants close without waiting for this input"
    )
    one_per_instant: bool = Field(
        default=False, description="every element is an instant: it closes at once, and a second one is a dead letter"
    )
    rate: int | None = Field(default=None, gt=0, description="the most elements of the input that are read a second")
    lateness: str | int = Field(default=0, description="a declared delay, such as 30 s")
    time: str | None = Field(default=None, description="csv: the column that holds the time")
    map: str | None = Field(default=None, description="csv: the template that makes a row's graph")
    delimiter: str = Field(default=",", min_length=1, max_length=1, check=_check_delimiter, description="csv: the separator of columns")


class OutputSection(Section):
    """Output stream."""

    format: Literal["ndjson", "trig", "nquads"] = "ndjson"
    path: str = Field(min_length=1)


class SparkSection(Section):
    """Settings of the Spark runtime."""

    master: str | None = Field(default=None, description="local[*] where spark-submit names none")
    checkpoint: str | None = Field(default=None, description="a folder; beside the first output where none is named")
    batch: int = Field(default=200_000, gt=0, description="the approximate number of elements of a batch; a long one counts as several")
    trigger: str | int = Field(
        default="0 s", check=parse_delay, description="inputs that grow: the least time from the start of a batch to that of the next"
    )
    restarts: int = Field(default=3, ge=0, description="the most restarts of a failed Spark query without a completed batch in between")
    conf: dict[str, str | int | bool] = Field(default={}, description="Spark's own configuration")


def _check_address(value: str | int | None) -> None:
    port = str(value).rpartition(":")[2]
    if value is not None and not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError("an address is HOST:PORT, or a port")


class MetricsSection(Section):
    """Metrics of a run in progress."""

    prometheus: str | int | None = Field(
        default=None,
        check=_check_address,
        description="the address that serves /metrics, such as 127.0.0.1:9464; a port alone is on loopback",
    )


def _check_codes(value: Sequence[str]) -> None:
    if wrong := next((code for code in value if not re.fullmatch(r"[A-Z]\d{3}", code)), None):
        raise ValueError(f"{wrong} is no code; one is a letter and three digits, such as D502")


class ReportSection(Section):
    """Warnings and dead letters on the terminal."""

    accept: list[str] = Field(
        default=[], check=_check_codes, description="codes of warnings that are known, such as D502: neither check nor run shows them"
    )
    dead_letters: int = Field(default=3, ge=0, description="the most that are printed for each input and reason; the summary counts all")


class Settings(Section):
    """Whole configuration of a pipeline."""

    name: str = Field(min_length=1)
    prefixes: dict[str, str] = Field(default={})
    time: TimeSection = TimeSection()
    knowledge: KnowledgeSection = KnowledgeSection()
    rules: list[str] = Field(min_length=1, description="rule files; globs")
    limits: LimitsSection = LimitsSection()
    input: list[InputSection] = Field(min_length=1)
    output: list[OutputSection] = Field(min_length=1)
    dead_letter: str | None = Field(default=None, description="a file (a folder on Spark) for what cannot be processed")
    engine: Literal["spark", "local"] = "spark"
    spark: SparkSection = SparkSection()
    metrics: MetricsSection = MetricsSection()
    report: ReportSection = ReportSection()
