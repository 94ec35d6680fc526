"""Inputs as workers need them, and the reading of their records: the JSON of a row by its map, or a
graph.

Idea: the JSON of a row is decoded to texts, and each text gets the type of its column, in the forms
that the reader of Parquet gives: so a row is the same element in a file and in a DataFrame.
Cost: about 5 µs for a row of three columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias

from dotr.evaluation.limits import LIMITS
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.terms import Triple
from dotr.model.time import Micros, Unit
from dotr.streams.formats.json.map import compile_map_of
from dotr.streams.formats.json.records import DECODER, reason_text
from dotr.streams.formats.parquet import DATE, DATE_TIME, DECIMAL, DOUBLE, FLOAT
from dotr.streams.records import ElementMap, Format, GraphSettings, InputFile, Message, SentTime, limit_reason
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting

ReadRecord: TypeAlias = Callable[[str], tuple[Triple, ...]]
"""A function from the text of a row to its triples, whose blank nodes are `_:0`, `_:1`, …; raises
ValueError with the reason where there are none."""

_Typed: TypeAlias = Callable[[Any], Any]

_CACHED: Final = 1 << 14
_INFINITIES: Final = {"Infinity": "INF", "-Infinity": "-INF", "NaN": "NaN"}


class RowSource(NamedTuple):
    """An input as workers need it: data alone.

    - `name`: that of the input; `stream`: that of the stream of queries that it feeds.
    - `lateness`: in µs.
    - `kind`: "map", or the format of graphs.
    - `map`: the text of the map; `parsed`: the parsed map, whose cells name columns as the schema
      does (`languages.program_json`).
    - `columns`: the columns that the map names, as the JSON of Spark's schema.
    - `time`: the steps from the row to its time, and `time_type`: the type of this column; `graph`:
      the steps to the graph's text.
    - `prefixes`: of the map and of graphs.
    - `unit`: the unit of integer times; `zone`: that of times without one (empty: UTC).
    - `nesting`, `record`: limits of a record.
    """

    name: str
    stream: str
    lateness: Micros = 0
    kind: str = "map"
    map: str = ""
    parsed: str = ""
    columns: str = ""
    time: tuple[str, ...] = ()
    time_type: str = ""
    graph: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    unit: str = Unit.SECOND.written
    zone: str = ""
    nesting: int = LIMITS.nesting
    record: int = LIMITS.record

    @property
    def is_dated(self) -> bool:
        """True if the times are date-times."""
        return self.time_type.startswith(("timestamp", "date"))

    def to_json(self) -> str:
        """The source as JSON.

        >>> source = RowSource("alarms", "alarms", 0, "turtle", time=("at",), prefixes=(("", "http://e/"),))
        >>> RowSource.from_json(source.to_json()) == source
        True
        """
        return json.dumps(self)

    @staticmethod
    def from_json(text: str) -> RowSource:
        """The inverse of `to_json`."""
        source = RowSource(*json.loads(text))
        prefixes = tuple([(prefix, iri) for prefix, iri in source.prefixes])
        return source._replace(time=tuple(source.time), graph=tuple(source.graph), prefixes=prefixes)


def read_record(source: RowSource, record: str | None) -> tuple[Triple, ...]:
    """The triples of a record; raises ValueError with the reason (`why_unreadable`).

    >>> read_record(RowSource("alarms", "alarms", 0, "turtle", prefixes=(("", "http://e/"),)), ":fire a :Alarm .")
    (('<http://e/fire>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<http://e/Alarm>'),)
    """
    if record is None:
        raise ValueError("its graph is NULL")
    return reader_of(source)(record)


def why_unreadable(error: Exception) -> tuple[Reason, str]:
    """The reason of the dead letter of a record that cannot be read, and its text."""
    return Reason.LIMIT if isinstance(error, TextLimitExceeded) else Reason.UNREADABLE, reason_text(error)


@lru_cache(64)
def reader_of(source: RowSource) -> ReadRecord:
    """The function that reads the records of a source.

    >>> from dotr.languages.program_json import maps_to_json
    >>> from dotr.model.places import Span
    >>> from dotr.syntax.turtle.parser import parse_map
    >>> text = "<x:{room}> <x:value> {value} ."
    >>> parsed = maps_to_json([parse_map(Span(Document("map", text), 0, len(text)), {})])
    >>> fields = [{"name": "room", "type": "string"}, {"name": "value", "type": "double"}]
    >>> source = RowSource("readings", "readings", 0, "map", text, parsed, json.dumps({"type": "struct", "fields": fields}))
    >>> reader_of(source)('{"room":"hall","value":21.50}')
    (('<x:hall>', '<x:value>', '"21.5"^^<http://www.w3.org/2001/XMLSchema#double>'),)
    """
    read = _map_reader(source) if source.kind == "map" else _graph_reader(source)
    limit = source.record

    def limited(record: str) -> tuple[Triple, ...]:
        if len(record) * 3 > limit and len(record.encode(errors="surrogatepass")) > limit:
            raise TextLimitExceeded(limit_reason(limit))
        return read(record)

    return limited


# --- rows with a map ---


def _map_reader(source: RowSource) -> ReadRecord:
    from dotr.languages.program_json import maps_from_json

    [parsed] = maps_from_json(source.parsed)
    mapped = ElementMap((), Document(f"map of {source.name}", source.map), time_zone=source.zone or None, parsed=parsed)
    unit = Unit.from_written(source.unit)
    make = compile_map_of(InputFile(source.name, "", Format.PARQUET, unit, prefixes=source.prefixes, map=mapped))
    decode, nesting = DECODER.decode, source.nesting
    typed = _typed_fields(json.loads(source.columns))

    def read(record: str) -> tuple[Triple, ...]:
        if record.count("{") + record.count("[") > nesting:
            check_json_nesting(record, nesting)
        row = decode(record)
        for name, convert in typed:
            value = row.get(name)
            if value is not None:
                row[name] = convert(value)
        return make(row, (row,), None)[0]

    return read


def _typed_fields(struct: dict[str, Any]) -> Sequence[tuple[str, _Typed]]:
    """The fields of a struct whose texts get a type."""
    found = [(field["name"], _typed(field["type"])) for field in struct["fields"]]
    return [(name, convert) for name, convert in found if convert is not None]


def _typed(kind: Any) -> _Typed | None:
    """The function from the texts in a value of JSON to values of a type of Spark; None where they
    stay as they are: whole numbers, strings, booleans."""
    if isinstance(kind, str):
        return _decimal if kind.startswith("decimal") else _CONVERSIONS.get(kind)
    if kind["type"] == "array":
        convert = _typed(kind["elementType"])
        return None if convert is None else partial(_items, convert)
    fields = _typed_fields(kind) if kind["type"] == "struct" else ()
    return partial(_struct, fields) if fields else None


def _items(convert: _Typed, values: list[Any]) -> list[Any]:
    return [None if each is None else convert(each) for each in values]


def _struct(fields: Sequence[tuple[str, _Typed]], value: dict[str, Any]) -> dict[str, Any]:
    for name, convert in fields:
        if (each := value.get(name)) is not None:
            value[name] = convert(each)
    return value


def _decimal(text: str) -> str:
    r"""The decimal of a column, with the digits of its scale.

    >>> print(_decimal("7.50"), _decimal("0E-18"))
    7.50 0.000000000000000000
    """
    return DECIMAL(f"{Decimal(text):f}" if "E" in text else text)


@lru_cache(_CACHED)
def _double(text: str) -> str:
    """The double of a column, in the shortest form that Arrow writes.

    >>> print(_double("21.0"), _double("1.0E7"), _double("-0.0"), _double("1.0E-7"), _double("-Infinity"))
    21 10000000 -0 1e-7 -INF
    """
    if text in _INFINITIES:
        return DOUBLE(_INFINITIES[text])
    value = float(text)
    written = repr(value).removesuffix(".0")
    return DOUBLE(written if "e" not in written and abs(value) < 1e9 else _by_arrow(text, "double"))


@lru_cache(_CACHED)
def _float(text: str) -> str:
    """The float of a column, in the shortest form that Arrow writes.

    >>> print(_float("21.5"), _float("NaN"), _float("1.0E10"))
    21.5 NaN 1e+10
    """
    return FLOAT(_INFINITIES[text] if text in _INFINITIES else _by_arrow(text, "float"))


def _by_arrow(text: str, kind: str) -> str:
    import pyarrow as pa

    return str(pa.scalar(float(text), kind).cast(pa.string()).as_py())


_CONVERSIONS: Final[dict[str, _Typed]] = {
    "double": _double,
    "float": _float,
    "timestamp": lambda text: DATE_TIME(text.removeprefix("+").removesuffix(".000000") + "Z"),  # +10000-01-01T… has five digits
    "timestamp_ntz": lambda text: DATE_TIME(text.removeprefix("+").removesuffix(".000000")),
    "date": lambda text: DATE(text.removeprefix("+")),
}


# --- rows with a graph ---


def _graph_reader(source: RowSource) -> ReadRecord:
    from dotr.streams.formats.messages import message_decoder  # most programs read no graphs from columns
    from dotr.syntax.turtle.graphs import PrefixHeader, read_graph

    prefixes, nesting, form = dict(source.prefixes), source.nesting, Format(source.kind)
    if form is Format.TURTLE:
        return lambda text: read_graph(text, prefixes, nesting)
    header = PrefixHeader(prefixes if form is Format.TRIG else {})
    sent = GraphSettings(SentTime.TIMESTAMP.value)
    decode = message_decoder(InputFile(source.name, "", form, graphs=sent, nesting=nesting, record=source.record))

    def read(text: str) -> tuple[Triple, ...]:
        [record] = decode(Message(header.prepend_to(text).encode(), 0, timestamp=0), True)
        if record.element is None and record.reason is not Reason.EMPTY:
            raise (TextLimitExceeded if record.reason is Reason.LIMIT else ValueError)(record.why)
        return record.element.triples if record.element is not None else ()

    return read
