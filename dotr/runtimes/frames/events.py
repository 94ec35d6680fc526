"""Events of a program over DataFrames: the plan of operators, from rows to rows.

```
  rows ─ withWatermark ─ RowPacker ─┐
  rows ─ withWatermark ─ RowPacker ─┴─ WaitingProcessor ─ FrameLayerProcessor … ─ ResultRows
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.languages.program_json import ParsedProgram
from dotr.languages.programs import compile_program
from dotr.model.stream import NO_INPUTS, PublishedInputs
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.runtimes.frames.reading import RowSource, read_record
from dotr.runtimes.frames.shipped import ShippedJob
from dotr.runtimes.frames.starts import PARTITIONS, check_session, clock_delay, own_watermark, share_package, state_digest
from dotr.runtimes.frames.stream import Background, Stream, background_source, record_of, selected, sources_of
from dotr.runtimes.pipeline.tables import rows_of_table
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.names import KEY
from dotr.runtimes.spark.exchange.rows import SCHEMA
from dotr.temporal.layout.layers import lay_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

# Rows of DataFrames as triples of the background.
#
# Idea: each DataFrame is a table of the background, as those of `knowledge.tables`: a graph without a
# file, whose rows are read once, where the program is compiled again.


_NAME: Final = "background {}"
_MOST_ROWS: Final = 10
"""Unreadable rows of a DataFrame that are shown."""


def with_background(program: CompiledProgram, given: Sequence[Stream | Background]) -> CompiledProgram:
    """The program whose background has the triples of some DataFrames, too.

    Raises:
        Refused: a row cannot be read (K104).
    """
    own = [each for each in given if isinstance(each, Background)]
    if not own:
        return program
    spec = program.spec
    tables: dict[str, tuple[RowSource, list[str]]] = {}
    for number, each in enumerate(own, 1):
        source = background_source(program, each, [])
        records = sorted([row[0] for row in each.df.select(record_of(source)).collect()])  # names of blank nodes are of the order
        tables[_NAME.format(number)] = source, records

    def rows(path: str, settings: str) -> Iterator[tuple[int, tuple[Triple, ...]]]:
        yield from _rows(path, *tables[path]) if path in tables else rows_of_table(path, settings)

    first = len(spec.graphs)
    numbered = tuple([(first + number, "{}") for number in range(len(tables))])
    reading = replace(spec.reading, tables=(*spec.reading.tables, *numbered), rows=rows)
    return compile_program(replace(spec, graphs=(*spec.graphs, *tables), reading=reading), CachePolicy(None))


def _rows(name: str, source: RowSource, records: Sequence[str]) -> Iterator[tuple[int, tuple[Triple, ...]]]:
    """The number and the triples of each row; raises `Refused` at the end."""
    problems: list[Diagnostic] = []
    for number, record in enumerate(records, 1):
        try:
            yield number, read_record(source, record)
        except ValueError as error:
            hint = "Mend the row, or let its cell be wrong ({CELL:TYPE?}); nothing of the DataFrame was loaded."
            problems.append(Diagnostic("K104", f"{name}: {error}: {record}", None, hint))
    if len(problems) > _MOST_ROWS:
        more = f"{problems[_MOST_ROWS - 1].message}; and {len(problems) - _MOST_ROWS:,} more rows"
        problems[_MOST_ROWS - 1 :] = [replace(problems[_MOST_ROWS - 1], message=more)]
    if problems:
        raise Refused(problems)


def events(
    program: CompiledProgram,
    inputs: Sequence[Stream | Background],
    *,
    clock: str | None = None,
    explain: bool = False,
    internal: bool = False,
) -> DataFrame:
    """The events of a program over DataFrames, and the rows that could not be used.

    Args:
        program: the program, a `dotr.Program`.
        inputs: the DataFrames whose rows are elements, all streaming or all batch.
        clock: the time goes on with the machine's, by so much behind it (`"10 s"`), also while no
            row comes. What is read later than that, as after a pause of the query, is late.
        explain: add the column `because`: for an event of a rule the JSON of the events of its
            match, the anchor first; NULL for events of other languages.
        internal: show internal events too (`define internal`).

    Returns:
        A DataFrame with the columns `time`, `rule`, `event`, `attributes`, `graph`, and `dead`,
        which is NULL for events.

    Raises:
        ArgumentRefused: an input does not fit, or a setting of Spark; with all problems.

    >>> from dotr import Program
    >>> from dotr.spark import Stream, events
    >>> events(Program.from_config("configs/fire.yaml"), [])
    Traceback (most recent call last):
    dotr.errors.diagnostics.ArgumentRefused: C202 inputs have no Stream
    Name the DataFrame with the elements: [Stream(df, time=…, map=…)].
    """
    from dotr.runtimes.frames.results import EXPLAINED, RESULT, ResultRows

    rows = rows_of(program, inputs, clock=clock, explains=explain)
    shown = ResultRows(explains=explain, left_out=frozenset() if internal else program.internal)
    return rows.mapInArrow(shown, EXPLAINED if explain else RESULT)


def rows_of(
    program: CompiledProgram,
    inputs: Sequence[Stream | Background],
    published: PublishedInputs = NO_INPUTS,
    *,
    clock: str | None = None,
    explains: bool = False,
) -> DataFrame:
    """The rows of the operators (`exchange.rows`): firings, dead letters, counts.

    Args:
        published: the inputs whose elements are rows, too.
        clock: as that of `events`; `explains`: firings have the events of their matches.

    Raises:
        ArgumentRefused: as `events`.
    """
    from dotr.runtimes.frames.packing import BatchOperator, RowPacker
    from dotr.runtimes.frames.waiting import FrameLayerProcessor, WaitingProcessor

    sources = sources_of(program, inputs)
    program = with_background(program, inputs)
    streams = [each for each in inputs if isinstance(each, Stream)]
    is_batch = not streams[0].df.isStreaming
    session = streams[0].df.sparkSession
    if not is_batch:
        check_session(session, len(streams))
        share_package(session)
    partitions = int(session.conf.get(PARTITIONS) or 1)
    job, digest = frame_job(program, sources, partitions)
    shipped = ShippedJob.of(replace(job, published=published, explains=explains), program)
    delay = None if clock is None else clock_delay(clock, sources, is_batch=is_batch)
    packed = []
    for number, (stream, source) in enumerate(zip(streams, sources, strict=True)):
        rows = selected(stream.df, source)
        if delay is not None:
            rows = rows.union(heartbeats(session, delay - source.lateness))
        if not is_batch and not own_watermark(stream.df, source, clock):
            rows = rows.withWatermark("moment", f"{source.lateness} microseconds")
        rows = rows.select("time", "record")  # without `moment`: Spark removes late rows by the column that has the watermark
        packed.append(rows.mapInArrow(RowPacker(number, source.name, partitions), SCHEMA))
    rows = reduce(lambda one, other: one.union(other), packed)
    operators: list[StatefulProcessor] = [WaitingProcessor(shipped, [source.to_json() for source in sources], digest, is_batch=is_batch)]
    operators += [FrameLayerProcessor(shipped, layer, digest, is_batch=is_batch) for layer in range(job.layers)]
    for operator in operators:
        if is_batch:  # without a number of partitions: Spark makes them fit the rows
            rows = rows.repartition(KEY).sortWithinPartitions(KEY).mapInArrow(BatchOperator(operator), SCHEMA)
        else:
            rows = rows.groupBy(KEY).transformWithState(operator, SCHEMA, "append", "eventTime")
    return rows


def heartbeats(session: SparkSession, behind: Micros) -> DataFrame:
    """A row a second, which moves a watermark to the machine's time, by so many µs behind it. Its
    columns are those of `selected` rows."""
    from pyspark.sql import functions as F

    from dotr.runtimes.frames.packing import HEARTBEAT_TIME

    ticks = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    moment = F.timestamp_micros(F.unix_micros("timestamp") - F.lit(behind))
    return ticks.select(moment.alias("moment"), F.lit(HEARTBEAT_TIME).alias("time"), F.lit(None).cast("string").alias("record"))


def frame_job(program: CompiledProgram, sources: Sequence[RowSource], partitions: int) -> tuple[Job, str]:
    """The job of the operators, by which a worker runs a program in a number of partitions, and the
    digest of its state (`state_digest`).

    Rules without a key for all their clauses are cut into stages, as on Spark everywhere.
    """
    spec = replace(program.spec, cut=True)
    layout = lay_out(share_queries(program.rules.rules), spec.since, program.units, cut=True, groups=spec.groups)
    job = Job(
        program=spec.to_json(),
        parsed=ParsedProgram.of(program).to_json(spec),
        inputs=(),
        delays=(),
        unit=spec.unit.written,
        dated=any(source.is_dated for source in sources),
        zone=spec.time_zone,
        layers=layout.stateful_operators,
        buckets=partitions,
        partitions=partitions,
        batch=0,
        tasks=partitions,
        run="",
    )
    return job, state_digest(program, layout)
