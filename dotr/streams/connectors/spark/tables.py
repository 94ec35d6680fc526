"""Tables that Spark writes, and what each format promises of a batch that is written again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from dotr.evaluation.files.environment import VARIABLE, revealed
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.stream import DeadLetter, Firing
from dotr.streams.formats.writing import ntriples
from dotr.streams.sinks.files import encoded

if TYPE_CHECKING:
    import pyarrow as pa

_FILES: Final = frozenset({"parquet", "orc", "json", "csv", "avro", "xml"})


class Repetition(Enum):
    """The content of a table after a batch is written a second time, after a crash.

    TRANSACTION: nothing more, as Delta keeps the number of the last batch of each writer. SNAPSHOT:
    nothing more, as the number is looked up in the summaries of Iceberg's snapshots. FOLDER: the
    batch alone, whose folder is replaced whole. ROWS: its rows a second time (at least once).
    """

    TRANSACTION = "transaction"
    SNAPSHOT = "snapshot"
    FOLDER = "folder"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class TableDestination:
    """A table of Spark's catalog, or of a database (`jdbc`), or at a path or URL.

    - `format`: the name of Spark's sink.
    - `options`: its options by name; secrets are `${NAME}`.

    >>> str(TableDestination("delta", "gold.events")), TableDestination("parquet", path="/lake/events").repetition
    ('table gold.events', <Repetition.FOLDER: 'folder'>)
    """

    format: str
    table: str = ""
    path: str = ""
    options: tuple[tuple[str, str], ...] = ()
    span: Span | None = None

    @property
    def repetition(self) -> Repetition:
        """The content of the table after a batch is written again."""
        if self.format == "delta":
            return Repetition.TRANSACTION
        if self.format == "iceberg":
            return Repetition.SNAPSHOT
        return Repetition.FOLDER if self.format in _FILES and self.path else Repetition.ROWS

    def revealed_options(self) -> dict[str, str]:
        """The options with the values of secrets. Raises `Refused` (S124) where one is not set."""
        return {key: revealed(value) for key, value in self.options}

    def without_secrets(self, text: str) -> str:
        """A text of Spark, or of a driver of a database, without the values of secrets."""
        for _, written in self.options:
            if VARIABLE.fullmatch(written) and (value := revealed(written)):
                text = text.replace(value, written)
        return text

    def __str__(self) -> str:
        return f"table {self.table}" if self.table else self.path


EVENT_COLUMNS: Final = "time TIMESTAMP, rule STRING, event STRING, attributes MAP<STRING, STRING>, graph STRING"
"""The columns of a table of events, as Spark's DDL; attributes are N-Triples terms, and the graph
N-Triples. An element of an input has no rule, and the input's name as its event."""

LETTER_COLUMNS: Final = "time TIMESTAMP, reason STRING, error STRING, input STRING, record STRING"
"""The columns of a table of dead letters."""


def event_rows(firings: Sequence[Firing]) -> pa.RecordBatch:
    """The rows of firings, in `EVENT_COLUMNS`.

    >>> event_rows([Firing(12_000_000, "R", "Fire", (("room", '"A"'),), (), 0)]).to_pylist()[0]["attributes"]
    [('room', '"A"')]
    """
    import pyarrow as pa

    times, rules, events, attributes, graphs, _ = zip(*firings, strict=True) if firings else ((),) * 6
    own = [pairs if rule else () for rule, pairs in zip(rules, attributes, strict=True)]
    # The attributes of all rows lie in one list: [[a], [b, c]] are [a, b, c] with the offsets 0, 1, 3.
    offsets = pa.array(accumulate(map(len, own), initial=0), pa.int32())
    pairs = list(chain.from_iterable(own))
    columns = [
        pa.array(times, pa.timestamp("us", tz="UTC")),
        _texts([rule or None for rule in rules]),
        _texts(events),
        pa.MapArray.from_arrays(offsets, _texts([name for name, _ in pairs]), _texts([value for _, value in pairs])),
        _texts([ntriples(graph) for graph in graphs]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["time", "rule", "event", "attributes", "graph"])


def letter_rows(letters: Sequence[DeadLetter]) -> pa.RecordBatch:
    """The rows of dead letters, in `LETTER_COLUMNS`.

    >>> from dotr.model.stream import Reason
    >>> letter_rows([DeadLetter(Reason.LATE, "in", "a.csv", 7, None, "x", "why")]).to_pylist()
    [{'time': None, 'reason': 'late', 'error': 'why', 'input': 'in', 'record': 'x'}]
    """
    import pyarrow as pa

    columns = [
        pa.array([letter.time for letter in letters], pa.timestamp("us", tz="UTC")),
        _texts([letter.reason.value for letter in letters]),
        _texts([letter.why for letter in letters]),
        _texts([letter.input for letter in letters]),
        _texts([letter.text for letter in letters]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["time", "reason", "error", "input", "record"])


def _texts(values: Sequence[str | None]) -> pa.Array:
    """Texts as a column; half of a surrogate pair is its escape."""
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if value is None else encoded(value).decode() for value in values], pa.string())
