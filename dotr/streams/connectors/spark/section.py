"""Sections of inputs that Spark reads, and of outputs that it writes: tables, files and streams of
its own sources."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import Field, model_validator

from dotr.errors.diagnostics import refuse
from dotr.streams.connectors.spark.tables import TableDestination
from dotr.syntax.sections import Section, SectionPlace


class SparkInputSection(Section):
    """Table or stream that Spark reads."""

    format: str | None = Field(
        default=None,
        min_length=1,
        description="the name of a source of Spark, such as delta, iceberg, parquet, csv, kafka or jdbc; that of the table if none",
    )
    table: str | None = Field(default=None, min_length=1, description="a table of Spark's catalog, such as bronze.readings")
    path: str | None = Field(default=None, min_length=1, description="a file, a folder or a glob, or a URL that Spark can read")
    options: dict[str, str | int | float | bool] = Field(default={}, description="options of the source; a secret one is ${NAME}")
    columns: str | None = Field(
        default=None,
        alias="schema",
        min_length=1,
        description='the columns and their types as Spark\'s DDL, such as "ts TIMESTAMP, room STRING"; those that Spark finds if none',
    )
    streaming: bool = Field(
        default=True,
        description="true: rows are read as a stream, and a further run goes on behind them; false: all rows are read once, and all "
        "instants close",
    )

    @model_validator(mode="after")
    def _check_source(self) -> SparkInputSection:
        if self.table is not None and self.path is not None:
            raise ValueError("table and path exclude each other")
        if self.format is None and self.table is None:
            raise ValueError("it needs a format, or a table of the catalog")
        if self.table is not None and self.columns is not None:
            raise ValueError("a table has its columns: leave schema out")
        return self


class SparkOutputSection(Section):
    """Table that Spark writes, by its executors."""

    format: str = Field(
        min_length=1,
        description="the name of a sink of Spark: delta, iceberg, parquet, orc, json, csv, avro, jdbc or another (connectors.md)",
    )
    table: str | None = Field(
        default=None,
        min_length=1,
        description="a table of Spark's catalog, which must be there, such as gold.events; jdbc: one of the database",
    )
    path: str | None = Field(default=None, min_length=1, description="a folder, or a URL that Spark can write to")
    mode: Literal["append"] = Field(default="append", description="rows are added to those that are there")
    options: dict[str, str | int | float | bool] = Field(default={}, description="options of the sink; a secret one is ${NAME}")

    @model_validator(mode="after")
    def _check_sink(self) -> SparkOutputSection:
        if self.table is not None and self.path is not None:
            raise ValueError("table and path exclude each other")
        if self.table is None and self.path is None:
            raise ValueError("it needs a table or a path")
        return self


def table_destination(section: SparkOutputSection, place: SectionPlace, *, on_spark: bool) -> TableDestination:
    """The table of an output, or of dead letters; `on_spark` is the runtime. Raises `Refused` (C204)
    where no executor is there to write it."""
    if not on_spark:
        hint = "Write engine: spark, and run it with Java 17 or later; or name a file: path."
        raise refuse("C204", "Spark writes the output, and this run is in process", place.key_span(), hint)
    path = section.path or ""
    if path and "://" not in path and not path.startswith("file:"):
        path = os.path.abspath(place.path(path, "path"))
    options = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in section.options.items()}
    return TableDestination(section.format.lower(), section.table or "", path, tuple(options.items()), place.key_span())
