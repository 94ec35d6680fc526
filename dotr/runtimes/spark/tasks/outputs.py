"""Outputs that executors write: the rows of a batch become rows of tables, files and messages in
the tasks that have them, and the driver receives counts.

Idea: a batch is evaluated once. Files and messages are written while its rows pass to the driver,
which gets all but the firings; for tables the rows are kept (`persist`), and each table is a
DataFrame over them.
Invariant: a task has the firings of its buckets in the order of the output, and its files are
named by batch and task, so a repeated batch replaces them; files of tasks that it no longer has are
removed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dotr.errors.diagnostics import Diagnostic, DotrError, Refused
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.runtimes.external_sort import BLOCK_SIZE
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, encode_diagnostics
from dotr.runtimes.spark.exchange.rows import RowKind, decode_dead_letters, decode_firings, encode_dead_letters, encode_totals
from dotr.runtimes.spark.exchange.spilled_rows import DEAD_LETTERS, FIRINGS, MergedRuns, RunPlace, SpilledKind, blocks, read_run, run_place
from dotr.runtimes.spark.exchange.worker_cache import without_garbage_collection
from dotr.runtimes.spark.pandas_probe import suppress_pandas_probe
from dotr.streams.connectors.opening import Destination, Output, chosen_batches
from dotr.streams.connectors.spark.tables import EVENT_COLUMNS, LETTER_COLUMNS, Repetition, TableDestination, event_rows, letter_rows
from dotr.streams.sinks.batches import BatchHistory, BatchSink, Check, check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import PathDestination, WriteFailed, batch_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

# Tables written by executors: a batch is a DataFrame of rows, and is in a table once, or as often
# as the table's format promises.
#
# Invariant: a batch has a number in its checkpoint, and a repeated batch has the rows of its first
# attempt. Delta keeps the number of the last batch itself (`txnAppId`, `txnVersion`); of Iceberg it
# is looked up in the summaries of snapshots; a folder of files is replaced. Any other sink has the
# rows of a repeated batch a second time.


_COMMITS: Final = 1_000
"""Commits of a Delta table among which the last batch is looked for."""

_TRIED: Final = "_dotr"
"""A folder without rows, which readers leave out: it tells at the start whether Spark can write."""

_WITHOUT_MAPS: Final = ("jdbc", "csv", "xml")
"""Formats whose columns hold no map: attributes are the text of a JSON object there."""

_FORBIDDEN: Final = re.compile(
    r"AccessControlException|Access ?Denied|permission denied|INSUFFICIENT_PERMISSIONS|not authorized|403 Forbidden", re.IGNORECASE
)
_UNKNOWN: Final = re.compile(
    r"DATA_SOURCE_NOT_FOUND|FAILED_READ_SOURCE|ClassNotFoundException|No suitable driver|DELTA_CONFIGURE_SPARK_SESSION|_NOT_LOADED"
)
_MISSING: Final = re.compile(
    r"(?:TABLE_OR_VIEW|SCHEMA|PATH|CATALOG|DELTA_TABLE)_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|DELTA_MISSING_DELTA_TABLE|NoSuch(?:Table|Namespace)"
    r"|find a catalog to handle|does not exist|doesn't exist|no such table|REQUIRES_SINGLE_PART_NAMESPACE",
    re.IGNORECASE,
)
_NO_STORE: Final = re.compile(r"No FileSystem for scheme|FileSystem not found")
_OCCUPIED: Final = re.compile(r"LOCATION_ALREADY_EXISTS|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION")
_SCHEMA: Final = re.compile(r"DELTA_METADATA_MISMATCH|DELTA_FAILED_TO_MERGE_FIELDS|INCOMPATIBLE_DATA_FOR_TABLE|COLUMN_NOT_FOUND")
_REASON: Final = re.compile(r"(?:^|\n)(?:Caused by: |: )?(?:[\w.$]+(?:Exception|Error): )?(.+)")


class TableFailed(WriteFailed):
    """Failure of a write to a table that a repetition would not mend."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class TableWriter:
    """The batches of one table. `identity` is the ID of the checkpoint, unique among those that
    write to the table; `columns` are those of the rows, as Spark's DDL."""

    def __init__(self, destination: TableDestination, identity: str, columns: str = EVENT_COLUMNS) -> None:
        self.destination = destination
        self._identity = identity
        text = destination.format in _WITHOUT_MAPS
        self._columns: dict[str, str] = dict(re.findall(r"(\w+) (\w+(?:<[^>]*>)?)", columns))
        self._texts = [name for name, kind in self._columns.items() if text and kind.startswith("MAP")]
        self._columns |= dict.fromkeys(self._texts, "STRING")
        self._further: dict[str, str] = {}
        self._last: int | None = None
        self._is_in_doubt = False

    def open(self, session: SparkSession, *, in_doubt: bool = True) -> int | None:
        """Check that the table can be written, make it where it is not there, and look for its last
        batch where one may be in it that is not in the checkpoint.

        Returns the number of that batch; None where there is none, or the table does not tell.
        Raises `Refused` (S175 to S179) where the table is not there and cannot be made, or is of
        another schema, where Spark does not know the format, or where the user has no permission.
        """
        try:
            if self.destination.repetition is Repetition.FOLDER:
                self._writer(self._no_rows(session)).mode("overwrite").save(f"{self.destination.path}/{_TRIED}")
            else:
                self._check(session)
            if in_doubt:
                self._last = self._last_batch(session)
        except Refused:
            raise
        except Exception as error:
            raise Refused([self._problem(error) or self._diagnostic("S179", f"cannot be opened: {self._reason(error)}", "")]) from None
        return self._last

    def write(self, rows: DataFrame, number: int) -> None:
        """Write the rows of the batch `number`, unless they are in the table. Raises `TableFailed` for
        an error that stays, and the errors of Spark."""
        destination, kept = self.destination, (self._identity, str(number))
        try:
            if self._is_in_doubt:
                self._last, self._is_in_doubt = self._last_batch(rows.sparkSession), False
            if self._last is not None and number <= self._last:
                return
            writer = self._writer(rows)
            match destination.repetition:
                case Repetition.TRANSACTION:
                    writer = writer.option("txnAppId", f"dotr {self._identity} {destination}").option("txnVersion", str(number))
                    writer = writer.option("userMetadata", " ".join(("dotr", *kept)))
                case Repetition.SNAPSHOT:
                    for name, value in zip(("checkpoint", "batch"), kept, strict=True):
                        writer = writer.option(f"snapshot-property.dotr.{name}", value)
                case Repetition.FOLDER:
                    writer.mode("overwrite").save(f"{destination.path}/batch={self._identity}-{number:012}")
                    return
                case Repetition.ROWS:
                    pass
            self._append(writer)
        except Exception as error:
            self._is_in_doubt = destination.repetition is Repetition.SNAPSHOT
            if (problem := self._problem(error)) is not None:
                raise TableFailed(problem) from None
            if destination.without_secrets(str(error)) != str(error):
                raise TableFailed(self._diagnostic("S179", f"cannot be written: {self._reason(error)}", "")) from None
            raise

    def _append(self, writer: DataFrameWriter) -> None:
        """Write rows to the table, which Spark makes where it is not there."""
        destination = self.destination
        if destination.path:
            writer.save(destination.path)
        elif destination.format == "jdbc":
            writer.option("dbtable", destination.table).save()
        else:
            writer.saveAsTable(destination.table)

    def _no_rows(self, session: SparkSession) -> DataFrame:
        kinds = self._columns | dict.fromkeys(self._texts, "MAP<STRING, STRING>")
        return session.range(0).selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in kinds.items()))

    def _writer(self, rows: DataFrame) -> DataFrameWriter:
        """The writer of rows with the columns of the table."""
        shown = [f"to_json({name}) AS {name}" if name in self._texts else name for name in self._columns]
        shown += [f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in self._further.items()]
        return rows.selectExpr(*shown).write.format(self.destination.format).mode("append").options(**self.destination.revealed_options())

    def _reader(self, session: SparkSession) -> DataFrameReader:
        return session.read.format(self.destination.format).options(**self.destination.revealed_options())

    def _check(self, session: SparkSession) -> None:
        """Check the format and the columns of the table, or make it; raises `Refused` (S177), and the
        errors of Spark."""
        destination = self.destination
        try:
            if destination.path:
                found = self._reader(session).load(destination.path)
            elif destination.format == "jdbc":
                found = self._reader(session).option("dbtable", destination.table).load()
            else:
                found = session.table(destination.table)
        except Exception as error:
            if _UNKNOWN.search(str(error)) or not _MISSING.search(str(error)) or (destination.path and destination.format == "iceberg"):
                raise
            if destination.table:  # at a path the first batch makes it
                self._append(self._writer(self._no_rows(session)))
            return
        if destination.table and destination.format != "jdbc":
            described = session.sql(f"DESCRIBE TABLE EXTENDED {destination.table}").where("col_name = 'Provider'").first()
            if described is not None and described["data_type"].lower() != destination.format:
                provider = described["data_type"].lower()
                raise Refused([self._diagnostic("S177", f"is of the format {provider}, not {destination.format}", f"Write {provider}.")])
        there = {field.name.lower(): (field.name, field.dataType.simpleString()) for field in found.schema}
        wrong = [f"{name} {kind}" for name, kind in self._columns.items() if not _fits(kind, there.get(name, ("", ""))[1])]
        if wrong:
            made = f"ALTER TABLE {destination.table} ADD COLUMNS ({', '.join(wrong)})" if destination.table else "another path"
            hint = f"A table of rows of dotr has these columns, and any others, which stay empty. Use another one, or {made}."
            raise Refused([self._diagnostic("S177", f"has no {', no '.join(wrong)}", hint)])
        self._further = {name: kind for key, (name, kind) in there.items() if key not in self._columns}

    def _last_batch(self, session: SparkSession) -> int | None:
        """The last batch of the checkpoint in the table; None where it does not tell."""
        destination = self.destination
        if destination.repetition is Repetition.TRANSACTION:
            if destination.path and self._last is None and not self._exists(session):
                return None
            name = destination.table or f"delta.`{destination.path}`"
            kept = session.sql(f"DESCRIBE HISTORY {name} LIMIT {_COMMITS}").where(f"userMetadata LIKE 'dotr {self._identity} %'")
            number = "max(CAST(split(userMetadata, ' ')[2] AS BIGINT)) AS number"
        elif destination.repetition is Repetition.SNAPSHOT:
            path = f"{destination.path}#snapshots"
            found = session.table(f"{destination.table}.snapshots") if destination.table else self._reader(session).load(path)
            kept = found.where(f"summary['dotr.checkpoint'] = '{self._identity}'")
            number = "max(CAST(summary['dotr.batch'] AS BIGINT)) AS number"
        else:
            return None
        row = kept.selectExpr(number).first()
        return None if row is None else row["number"]

    def _exists(self, session: SparkSession) -> bool:
        try:
            self._reader(session).load(self.destination.path)
        except Exception as error:
            if _MISSING.search(str(error)):
                return False
            raise
        return True

    def _problem(self, error: Exception) -> Diagnostic | None:
        """The problem that an error of Spark tells, where it stays; None for others."""
        text, reason, destination = str(error), self._reason(error), self.destination
        if _FORBIDDEN.search(text):
            return self._diagnostic("S178", f"may not be written by this user: {reason}", "Ask for the right to read and write it.")
        if _NO_STORE.search(text):
            hint = "Is its scheme right? Name the store's jar, for S3 spark.jars.packages: org.apache.hadoop:hadoop-aws:3.5.0."
            return self._diagnostic("S179", f"cannot be opened, as Spark has no file system for its URL: {reason}", hint)
        if _UNKNOWN.search(text):
            hint = "Name its package in spark.conf, as spark.jars.packages, and the extensions that it asks for (docs/connectors.md)."
            return self._diagnostic("S176", f"is of the format {destination.format}, which this Spark does not have: {reason}", hint)
        if _MISSING.search(text):
            if destination.path:
                return self._diagnostic("S175", f"is not there: {reason}", "Is the path right?")
            hint = "A run makes a table, but not its schema or catalog: CREATE SCHEMA makes the one; spark.conf has the other."
            return self._diagnostic("S175", f"is not there and cannot be made: {reason}", hint)
        if _OCCUPIED.search(text):
            hint = "A catalog in memory ends with its session: keep one (docs/connectors.md), or write path in place of table."
            return self._diagnostic("S175", f"is not in the catalog, and its files are there: {reason}", hint)
        if _SCHEMA.search(text):
            return self._diagnostic("S177", f"has other columns: {reason}", "Use another table, or add the columns to it.")
        return None

    def _reason(self, error: Exception) -> str:
        """The first line of an error that says something, without secrets."""
        text = self.destination.without_secrets(str(error)).strip()
        lines = [found[1] for found in _REASON.finditer(text) if not found[1].startswith(("An error occurred while", "at "))]
        return (lines or [text])[0][:300]

    def _diagnostic(self, code: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic(code, f"{self.destination} {message}", self.destination.span, hint)


def _fits(wanted: str, found: str) -> bool:
    """True if a column of a table takes values of a type.

    >>> _fits("TIMESTAMP", "timestamp_ntz"), _fits("MAP<STRING, STRING>", "map<string,string>"), _fits("STRING", "int")
    (True, True, False)
    """
    kind = wanted.lower().replace(" ", "")
    return found.removesuffix("_ntz") == kind or (kind == "string" and found.startswith(("varchar", "char")))


T = TypeVar("T")

_ROWS: Final = "kind INT, payload BINARY"
_RUNS: Final = (RowKind.RUN, RowKind.ELEMENT_RUN)
_FIRINGS: Final = (RowKind.FIRINGS, RowKind.ELEMENTS, *_RUNS)
_LETTERS: Final = (RowKind.DEAD, RowKind.DEAD_RUN)
_MOST_RUNS: Final = 900
"""Runs that a task merges at once: it removes none, as the task may be repeated."""

_MOST_SINKS: Final = 4
"""Connections to brokers that a worker keeps, at most."""

_SINKS: Final[dict[tuple[Output, str], BatchSink[Firing]]] = {}
"""The open sinks of messages of a worker."""

FILES: Final = -1
"""Kind of the row with the names of the files that a task has, as JSON. It never passes operators."""


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    """The work of a task on the rows of a batch on their way to the driver.

    - `outputs`: the files and topics that it writes, with `terms`.
    - `keeps_state`: the events of an instant may be in several tasks.
    - `takes_firings`: the driver writes firings, too.
    - `shown`: dead letters of each input and reason that the driver logs, where a table has them;
      None: the driver takes all.
    - `cut`: the inputs of dead letters that the driver takes in any case.
    """

    outputs: tuple[Output, ...]
    terms: OutputTerms
    keeps_state: bool
    takes_firings: bool
    shown: int | None
    cut: frozenset[str]

    def driver_rows(self, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task for the driver, once the task's outputs have the batch `number`."""
        import pyarrow as pa

        passed: list[tuple[int, bytes]] = []
        firings: list[Firing] = []
        runs: list[RunPlace] = []
        seen = Counter[tuple[str, Reason]]()
        for kind, payload in _rows(batches):
            if kind in _FIRINGS and self.outputs:
                if kind in _RUNS:
                    runs.append(run_place(payload))
                else:
                    firings += decode_firings(payload)
            if kind in _LETTERS and self.shown is not None:
                passed += self._letters(kind, payload, seen)
            elif kind not in _FIRINGS or self.takes_firings:
                passed.append((kind, payload))
        if self.outputs:
            passed += self._written(number, _Blocks(MergedRuns(FIRINGS, firings, runs, _MOST_RUNS)))
        kinds, payloads = zip(*passed, strict=True) if passed else ((), ())
        yield pa.RecordBatch.from_arrays([pa.array(kinds, pa.int32()), pa.array(payloads, pa.binary())], names=["kind", "payload"])

    def _letters(self, kind: int, payload: bytes, seen: Counter[tuple[str, Reason]]) -> Iterator[tuple[int, bytes]]:
        """The dead letters of a row that the driver takes, and those that it logs."""
        assert self.shown is not None
        for letters in _letters(kind, payload):
            shown = []
            for letter in letters:
                if letter.input not in self.cut and letter.reason is not Reason.EMPTY:
                    seen[letter.input, letter.reason] += 1
                    if seen[letter.input, letter.reason] <= self.shown + 1:
                        shown.append(letter)
            if taken := [letter for letter in letters if letter.input in self.cut]:
                yield RowKind.DEAD, encode_dead_letters(taken)
            if shown:
                yield RowKind.SHOWN, encode_dead_letters(shown)

    def _written(self, number: int, firings: _Blocks) -> Iterator[tuple[int, bytes]]:
        """Write the firings of a task; the rows of the files that it has, and of firings that a broker
        does not take."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        files: list[str] = []
        rejected: list[DeadLetter] = []
        for output in self.outputs:
            terms = replace(output.own_terms(self.terms), part=f"-{task:05}")
            if isinstance(output.destination, PathDestination):
                file = batch_file(output.destination.path, number, f"{terms.part}.{output.format.value}")
                chosen_batches(output, "", terms, _HISTORY).write_batch(number, firings, check_nothing)
                files += [str(file)] if file.look() is not None else []
            else:
                if self.keeps_state:  # a task that has whole instants numbers their events as the driver does
                    terms = replace(terms, pipeline=f"{terms.pipeline}{terms.part}")
                rejected += _send(output, terms, number, firings)
        yield FILES, json.dumps(files).encode()
        if rejected:
            yield RowKind.DEAD, encode_dead_letters(rejected)
            yield RowKind.COUNTS, encode_totals(Totals(dead_letters=Counter(letter.reason for letter in rejected)))


_HISTORY: Final = BatchHistory("")


class _Blocks:
    """The firings of a task in the order of the output, which can be read several times."""

    def __init__(self, firings: Iterable[Firing]) -> None:
        self._firings = firings

    def __iter__(self) -> Iterator[Sequence[Firing]]:
        return blocks(self._firings)


def _send(output: Output, terms: OutputTerms, number: int, firings: _Blocks) -> Sequence[DeadLetter]:
    """Send the firings of a task to a topic, by a connection that the worker keeps."""
    name = output, repr(terms)
    sink = _SINKS.pop(name, None)
    if sink is None:
        sink = chosen_batches(output, "", terms, _HISTORY)
        sink.open(check_nothing)
    rejected = sink.write_batch(number, firings, check_nothing)  # what has failed is not kept
    if len(_SINKS) >= _MOST_SINKS:
        _SINKS.pop(next(iter(_SINKS))).close()
    _SINKS[name] = sink
    return rejected


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """The kinds and payloads of rows, in a worker."""
    suppress_pandas_probe()
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _letters(kind: int, payload: bytes) -> Iterator[list[DeadLetter]]:
    return _of_run(DEAD_LETTERS, payload) if kind == RowKind.DEAD_RUN else iter([decode_dead_letters(payload)])


def _of_run(form: SpilledKind[T], payload: bytes) -> Iterator[list[T]]:
    """The items of a run in blocks."""
    items = read_run(form, run_place(payload))
    while block := list(islice(items, BLOCK_SIZE)):
        yield block


def _event_table(labels: frozenset[str] | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a table of events; `labels`: those that it has (None: all)."""
    for kind, payload in _rows(batches):
        # The lists of JSON have the items of firings: to make firings of them would take as long as to read them.
        listed = _of_run(FIRINGS, payload) if kind in _RUNS else iter([json.loads(payload)])
        for firings in listed:
            yield event_rows(firings if labels is None else [firing for firing in firings if firing[2] in labels])


def _letter_table(cut: frozenset[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a table of dead letters, without those of the inputs `cut`, which the driver adds."""
    for kind, payload in _rows(batches):
        for letters in _letters(kind, payload):
            yield letter_rows([letter for letter in letters if letter.input not in cut and letter.reason is not Reason.EMPTY])


def _carried(function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The rows of a function; errors of the user are carried to the driver."""
    try:
        with without_garbage_collection():
            yield from function(batches)
    except Refused as refused:
        raise CarriedDiagnostics(encode_diagnostics(refused, lasting=True)) from None
    except DotrError as error:
        if (diagnostic := getattr(error, "diagnostic", None)) is None:
            raise
        raise CarriedDiagnostics(encode_diagnostics(Refused([diagnostic]), lasting=True)) from None


class LetterTable:
    """A table of dead letters as a `BatchSink`: the driver adds the dead letters that it has to those
    of the tasks."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._session: SparkSession | None = None
        self.rows: DataFrame | None = None
        """Those of the tasks in the batch under way; None: they have none."""

    def begin(self, session: SparkSession, *, in_doubt: bool) -> int | None:
        """Check the table with a session (`TableWriter.open`)."""
        self._session = session
        return self._writer.open(session, in_doubt=in_doubt)

    def open(self, check: Check) -> None:
        """Returns None: `begin` has opened the table."""

    def write_batch(self, number: int, blocks: Iterable[Sequence[DeadLetter]], check: Check) -> Sequence[DeadLetter]:
        """Write the dead letters of a batch, if there are any; returns none."""
        import pyarrow as pa

        rows, self.rows = self.rows, None
        if letters := list(chain.from_iterable(blocks)):
            assert self._session is not None
            own = self._session.createDataFrame(pa.Table.from_batches([letter_rows(letters)]), LETTER_COLUMNS)
            rows = own if rows is None else rows.unionAll(own)
        if rows is not None:
            self._writer.write(rows, number)
        return ()

    def close(self) -> None:
        """Does nothing: Spark keeps no table open."""


class ExecutorOutputs:
    """The outputs of a run that executors write; false where there are none.

    `keeps_state`: the program has operators; `shown`: dead letters of an input and reason that are
    logged; `cut`: the rules that are cut into stages. `letters` is the sink of dead letters where a
    table has them, else None.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        dead_letters: Destination | None,
        terms: OutputTerms,
        history: BatchHistory,
        *,
        keeps_state: bool,
        shown: int,
        cut: Sequence[Rule],
    ) -> None:
        own = [replace(output, destination=replace(output.destination, span=None)) for output in outputs if output.by_executors]
        in_tasks = tuple([output for output in own if not isinstance(output.destination, TableDestination)])
        self._tables = [
            (None if output.chosen is None else output.chosen.labels, TableWriter(output.destination, history.identity))
            for output in outputs
            if isinstance(output.destination, TableDestination)
        ]
        table = dead_letters if isinstance(dead_letters, TableDestination) else None
        self.letters = None if table is None else LetterTable(TableWriter(table, history.identity, LETTER_COLUMNS))
        self._history = history
        inputs = frozenset(f"rule {rule.name}" for rule in cut)
        takes_firings = not all(output.by_executors for output in outputs)
        self._plan = TaskOutputs(in_tasks, terms, keeps_state, takes_firings, None if table is None else shown, inputs)
        self._kept: DataFrame | None = None

    def __bool__(self) -> bool:
        return bool(self._tables or self._plan.outputs or self.letters is not None)

    def open(self, session: SparkSession, check: Check) -> int | None:
        """Check the destinations, and remove temporary files of a killed run. Returns the greatest
        number of a batch that a table is known to have. Raises `Refused`."""
        for output in self._plan.outputs:
            sink = chosen_batches(output, "", output.own_terms(self._plan.terms), self._history)
            sink.open(check)
            sink.close()
        in_doubt = self._history.is_in_doubt
        last = [writer.open(session, in_doubt=in_doubt) for _, writer in self._tables]
        if self.letters is not None:
            last.append(self.letters.begin(session, in_doubt=in_doubt))
        return max((number for number in last if number is not None), default=None)

    def write(self, batch: DataFrame, number: int) -> list[tuple[int, bytes]]:
        """Write the events of a batch; returns the rows of the driver, as kinds and payloads."""
        rows = batch.select("kind", "payload")
        if self._tables or self.letters is not None:
            rows = self._kept = rows.persist()
        plan, taken = self._plan, rows
        if not plan.outputs and not plan.takes_firings:
            taken = rows.where(~rows.kind.isin([int(kind) for kind in _FIRINGS]))
        if plan.outputs or plan.shown is not None:
            taken = taken.mapInArrow(partial(_carried, partial(plan.driver_rows, number)), _ROWS)
        passed = taken.collect()
        self._remove_others(number, {name for row in passed if row.kind == FILES for name in json.loads(bytes(row.payload))})
        for labels, writer in self._tables:
            found = rows.where(rows.kind.isin([int(kind) for kind in _FIRINGS]))
            writer.write(found.mapInArrow(partial(_carried, partial(_event_table, labels)), EVENT_COLUMNS), number)
        if self.letters is not None and any(row.kind == RowKind.SHOWN for row in passed):
            found = rows.where(rows.kind.isin([int(kind) for kind in _LETTERS]))
            self.letters.rows = found.mapInArrow(partial(_carried, partial(_letter_table, self._plan.cut)), LETTER_COLUMNS)
        return [(row.kind, bytes(row.payload)) for row in passed if row.kind != FILES]

    def release(self) -> None:
        """Forget the rows of the batch, which all outputs have."""
        if self._kept is not None:
            self._kept.unpersist()
            self._kept = None

    def _remove_others(self, number: int, names: Set[str]) -> None:
        """Remove the files of a batch whose tasks an earlier attempt had, and this one has not."""
        for output in self._plan.outputs:
            if isinstance(output.destination, PathDestination):
                for found in Location(output.destination.path).glob(batch_file(".", number, "-*").name):
                    if str(found.location) not in names:
                        found.location.remove()
