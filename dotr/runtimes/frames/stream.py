"""Inputs of `events`: DataFrames whose rows are elements, or triples of the background.

Idea: an input is checked against the schema of its DataFrame before anything runs, and becomes a
`RowSource`, which is data alone. A row travels as one text: the JSON of the columns that its map
names, or the text of its graph.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.errors.diagnostics import ArgumentRefused, Diagnostic, DotrError, Refused, did_you_mean
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.stream import fed_stream, misspelt_stream, stream_name
from dotr.model.templates import Cell, CellIri, CellLiteral, ParsedMap, Template, TemplateSlot, TemplateTerm
from dotr.model.time import LAST_MICRO, Unit
from dotr.runtimes.frames.reading import RowSource as RowSource
from dotr.streams.formats.json.map import compile_json_map
from dotr.streams.formats.mapping.json_paths import Step, parse_path, path_text
from dotr.streams.formats.mapping.map_terms import columns_of
from dotr.streams.formats.mapping.maps import cell_problem, column_name, is_mapping, written_name
from dotr.streams.times import parse_delay
from dotr.syntax.rendering import near_streams, stream_text
from dotr.syntax.turtle.parser import parse_map

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dotr.engine.program import CompiledProgram

# Paths to the columns of a DataFrame, resolved against the JSON of its schema.
#
# Idea: every cell of a map, and the columns of time and graph, are paths of names and lists. A path
# is followed through structs and arrays, and rewritten as the schema spells it, so that a worker
# finds it in the JSON of a row. The columns that no path names do not travel.


INTEGERS: Final = ("byte", "short", "integer", "long")
TEXTS: Final = ("string", "char", "varchar")
_OTHERS: Final = ("boolean", "double", "float", "decimal", "timestamp", "timestamp_ntz", "date", "void")
_VALUES: Final = (*INTEGERS, *TEXTS, *_OTHERS)
"""The types of Spark that are terms."""

_MOST_NAMED: Final = 50
_WAY: Final[Mapping[str, str]] = {
    "binary": 'Make it text first: F.base64("{name}"), or F.decode("{name}", "UTF-8").',
    "map": 'Select its values as columns first: F.col("{name}")["KEY"].alias("KEY").',
    "interval": 'Make it a number first, such as F.expr("extract(SECOND FROM {name})").',
    "variant": 'Select its values with their types first: F.variant_get("{name}", "$.KEY", "double").',
}
"""Ways out for the types that are no terms, by their first word."""


class UnresolvedPath(DotrError):
    """Raised for a path that leads to no value of a row; `problem` has no place."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.problem = Diagnostic(code, message, None, hint)


class Schema(NamedTuple):
    """The columns of a DataFrame.

    - `struct`: its schema as JSON, as `DataFrame.schema.jsonValue()` gives it.
    - `is_exact`: names differ by case (`spark.sql.caseSensitive`).
    """

    struct: dict[str, Any]
    is_exact: bool = False

    def resolve(self, cell: str, use: str) -> tuple[tuple[Step, ...], Any]:
        """The path of a cell as the schema spells it, with the type at its end; raises
        `UnresolvedPath`. A column whose name is the text of the cell comes before a path.

        `use`: what names the column, for messages.

        >>> fields = [{"name": "Room", "type": "string"}, {"name": "tags", "type": {"type": "array", "elementType": "string"}}]
        >>> schema = Schema({"type": "struct", "fields": fields})
        >>> schema.resolve("room", "map"), schema.resolve("tags[]", "map")
        ((('Room',), 'string'), (('tags', None), 'string'))
        >>> schema.resolve("rooms", "map")
        Traceback (most recent call last):
        dotr.runtimes.frames.stream.UnresolvedPath: the DataFrame has no column rooms, which map names
        """
        names = [field["name"] for field in self.struct["fields"]]
        if cell in names or column_name(cell) in names:
            steps: tuple[Step, ...] = (cell if cell in names else column_name(cell),)
        else:
            try:
                path = parse_path(cell)
            except ValueError as error:
                raise UnresolvedPath("T107", str(error), 'A path is written a.b, a[0] or a[]; a name with a dot {"a.b"}.') from None
            if path.sent:
                hint = f"A column of that name is written in quotes: {{{written_name(cell)}}}."
                raise UnresolvedPath("T107", f"{cell} is of messages and files, and a row of a DataFrame has columns alone", hint)
            steps = path.steps[1:] if path.from_message else path.steps
        found: list[Step] = []
        kind: Any = self.struct
        for step in steps:
            step, kind = self._step(found, kind, step, use)
            found.append(step)
        return tuple(found), kind

    def _step(self, before: Sequence[Step], kind: Any, step: Step, use: str) -> tuple[Step, Any]:
        """One step as the schema spells it, from a value of a type, and the type behind it."""
        here, name = path_text(before), type_name(kind)
        if not isinstance(step, str):
            if name == "array":
                return step, kind["elementType"]
            whose = here or "a row"
            raise UnresolvedPath("C290", f"{whose} is {_of_type(kind)}, and no array", f"Write {{{here}}}." if here else "Name a column.")
        if name == "array":
            if type_name(kind["elementType"]) not in ("struct", "array"):
                hint = f"Write {{{here}[]}} for each item, or {{{here}[0]}} for the first."
                raise UnresolvedPath("C290", f"{here} is an array, whose items have no field {step}", hint)
            hint = f"Write {{{here}[].{step}}} for each item, or {{{here}[0].{step}}} for the first."
            raise UnresolvedPath("C290", f"{here} is an array, whose items may have a field {step}", hint)
        if name != "struct":
            hint = _way_out(kind, before) if name in _WAY else f'Write {{{here}}}, or {{"{here}.{step}"}} for a column of that name.'
            raise UnresolvedPath("C290", f"{here} is {_of_type(kind)}, and has no field {step}", hint)
        names = [field["name"] for field in kind["fields"]]
        same = [each for each in names if each == step or (not self.is_exact and each.lower() == step.lower())]
        if len(same) > 1:
            what = "columns" if not before else f"fields of {here}"
            hint = "Give them names of their own before: df.toDF(…); or set spark.sql.caseSensitive where they differ by case."
            raise UnresolvedPath("I104", f"the DataFrame has {len(same)} {what} {' and '.join(dict.fromkeys(same))}", hint)
        if not same:
            known = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")
            owner, noun, all_are = ("the DataFrame", "column", "Its columns are") if not before else (here, "field", "Its fields are")
            hint = f"{did_you_mean(step, names)} {all_are} {known}.".strip()
            raise UnresolvedPath("I103", f"{owner} has no {noun} {step}, which {use} names", hint)
        return same[0], next(field["type"] for field in kind["fields"] if field["name"] == same[0])

    def value(self, cell: str) -> tuple[Step, ...]:
        """The path of a cell of a map, which leads to a value that is a term; raises
        `UnresolvedPath`."""
        steps, kind = self.resolve(cell, "map")
        here, name = path_text(steps), type_name(kind)
        if name == "array":
            inner = type_name(kind["elementType"])
            further = f".{kind['elementType']['fields'][0]['name']}" if inner == "struct" else ""
            hint = f"Write {{{here}[]{further}}} for each item, or {{{here}[0]{further}}} for the first."
            raise UnresolvedPath("C290", f"{here} is an array, and the map needs one value", hint)
        if name == "struct":
            fields = [field["name"] for field in kind["fields"]]
            hint = f"Name one of its fields, such as {{{here}.{fields[0]}}}: it has {', '.join(fields[:_MOST_NAMED])}." if fields else ""
            raise UnresolvedPath("C290", f"{here} is a struct, and the map needs one value", hint)
        if name not in _VALUES:
            raise UnresolvedPath("C290", f"{here} is {_of_type(kind)}, which is no term", _way_out(kind, steps))
        return steps

    def column(self, cell: str, use: str, kinds: Sequence[str], hint: str) -> tuple[tuple[str, ...], str]:
        """The path of a column outside of a map, such as that of the time, and its type, which is
        one of some kinds; raises `UnresolvedPath` with `hint`, where `{name}` is the column."""
        steps, kind = self.resolve(cell, use)
        here = path_text(steps)
        names = tuple([step for step in steps if isinstance(step, str)])
        if len(names) < len(steps):
            why = f"{here}, which {use} names, is of an array"
            raise UnresolvedPath("C290", why, 'Make an item a column first: df.withColumn("NAME", F.col("ARRAY")[0]).')
        if type_name(kind) not in kinds:
            raise UnresolvedPath("C290", f"{here}, which {use} names, is {_of_type(kind)}", hint.format(name=_spark_name(steps)))
        return names, kind

    def pruned(self, paths: Sequence[Sequence[Step]]) -> dict[str, Any]:
        """The JSON of a schema with the columns and fields that some paths name.

        >>> inner = {"type": "struct", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "string"}]}
        >>> schema = Schema({"type": "struct", "fields": [{"name": "device", "type": inner}, {"name": "v", "type": "double"}]})
        >>> [(field["name"], field["type"]["fields"]) for field in schema.pruned([("device", "id")])["fields"]]
        [('device', [{'name': 'id', 'type': 'long'}])]
        """
        return _pruned(self.struct, paths)


def _pruned(struct: dict[str, Any], paths: Sequence[Sequence[Step]]) -> dict[str, Any]:
    fields = []
    for field in struct["fields"]:
        further = [path[1:] for path in paths if path[0] == field["name"]]
        if further:
            is_struct = type_name(field["type"]) == "struct"
            fields.append({"name": field["name"], "type": _pruned(field["type"], further) if is_struct else field["type"]})
    return {"type": "struct", "fields": fields}


def type_name(kind: Any) -> str:
    """The first word of a type in the JSON of a schema.

    >>> type_name("decimal(10,2)"), type_name({"type": "array", "elementType": "string"}), type_name("interval day to second")
    ('decimal', 'array', 'interval')
    """
    name = str(kind if isinstance(kind, str) else kind["type"])
    return re.split(r"[ (]", name)[0].removeprefix("calendar")


def _of_type(kind: Any) -> str:
    return f"of type {kind if isinstance(kind, str) else type_name(kind)}"


def _way_out(kind: Any, steps: Sequence[Step]) -> str:
    return _WAY.get(type_name(kind), 'Cast it first: F.col("{name}").cast("string").').format(name=_spark_name(steps))


def _spark_name(steps: Sequence[Step]) -> str:
    """The text by which `F.col` names a column or a field.

    >>> _spark_name(("device", "my id")), _spark_name(("tags", 0)), _spark_name(("parts", None, "n"))
    ('device.`my id`', 'tags[0]', 'parts.n')
    """
    texts = []
    for step in steps:
        if isinstance(step, int):
            texts.append(f"[{step}]")
        elif isinstance(step, str):
            texts.append(f".{step}" if re.fullmatch(r"\w+", step) else f".`{step.replace('`', '``')}`")
    return "".join(texts).removeprefix(".")


def with_columns(parsed: ParsedMap, renamed: Callable[[str], str]) -> ParsedMap:
    """The map whose cells have other texts."""

    def cell(part: str | Cell) -> str | Cell:
        return replace(part, column=renamed(part.column)) if isinstance(part, Cell) else part

    def slot(each: TemplateSlot) -> TemplateSlot:
        match each:
            case Cell():
                return replace(each, column=renamed(each.column))
            case CellIri(parts) | CellLiteral(parts):
                return replace(each, parts=tuple(map(cell, parts)))
            case TemplateTerm(subject, predicate, value):
                return TemplateTerm(slot(subject), slot(predicate), slot(value))
            case _:
                return each

    return replace(parsed, template=Template(tuple([(slot(s), slot(p), slot(o)) for s, p, o in parsed.template.triples])))


GRAPHS: Final = ("turtle", "ntriples", "trig", "jsonld")
"""The formats of a column that holds graphs."""

_ONLY: Final = "stream"
"""The name of a stream without one, where it is the only one."""

_TIMES_OF: Final = ("timestamp", "timestamp_ntz", "date", *INTEGERS)
_TIME_HINT: Final = (
    'A time is a TIMESTAMP, or a whole number in the program\'s unit: F.to_timestamp("{name}"), or F.col("{name}").cast("long").'
)
_GRAPH_HINT: Final = 'A graph is text, a STRING: F.decode("{name}", "UTF-8"), or F.to_json("{name}") for format="jsonld".'
_DAY: Final = Unit.DAY.value
_TIMES: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_AS_JSON: Final = {
    "timestampFormat": _TIMES,
    "timestampNTZFormat": _TIMES,
    "dateFormat": "yyyy-MM-dd",
    "timeZone": "UTC",
    "ignoreNullFields": "true",
}
"""Options by which the JSON of a row loses nothing: times have all of their six digits, in UTC."""


@dataclass(frozen=True)
class Stream:
    """A DataFrame whose rows are elements.

    Either `map` or `graph` is given.

    Attributes:
        df: the DataFrame, streaming or batch.
        time: the column of the elements' times: TIMESTAMP; TIMESTAMP_NTZ or DATE, which are in the
            program's `time_zone` (UTC if it has none); or integral, in the program's unit.
        map: the template that makes the graph of a row: `"[] a :Temp ; :room '{room}' ."`. A cell
            names a column, a field of a struct (`{device.id}`), or the items of an array
            (`{tags[]}`). Or the path of a mapping of RML (`.ttl`).
        graph: the column that holds the graph of a row as text.
        format: the syntax of these texts: `"turtle"`, `"ntriples"`, `"trig"` or `"jsonld"`.
        lateness: the time by which an element may come after a later one, such as `"30 seconds"`.
        name: the name of the input, which dead letters have; without one, its number.
        stream: the stream of continuous queries that the input feeds: an IRI or a prefixed name;
            without one, that of its name.

    >>> Stream(None, time="ts", graph="text", name="alarms").format
    'turtle'
    """

    df: DataFrame
    time: str
    map: str | None = None
    graph: str | None = None
    format: str = "turtle"
    lateness: str = "0 seconds"
    name: str = ""
    stream: str | None = None


@dataclass(frozen=True)
class Background:
    """A batch DataFrame whose rows are triples of the background, read once at the start.

    Attributes:
        df: the DataFrame.
        map: the template that makes the triples of a row, as that of a `Stream`.

    >>> Background(None, map=":{room} :floor {floor} .").map
    ':{room} :floor {floor} .'
    """

    df: DataFrame
    map: str


def sources_of(program: CompiledProgram, given: Sequence[Stream | Background] | Stream | Background) -> list[RowSource]:
    """The sources of the streams among the inputs of `events`, in their order; all inputs are
    checked.

    Raises:
        ArgumentRefused: with all problems of all inputs.
    """
    check_program(program)
    if isinstance(given, Stream | Background):
        raise ArgumentRefused([Diagnostic("C203", f"inputs should be a list, not a {type(given).__name__}", None, "Write [Stream(…)].")])
    problems = list(_problems_together(given))
    streams = [each for each in given if isinstance(each, Stream)]
    sources = [_source(program, stream, name, problems) for stream, name in zip(streams, _names(streams), strict=True)]
    for name, count in Counter(source.name for source in sources).items():
        if count > 1:
            hint = "Give each a name of its own: Stream(…, name=…)."
            problems.append(Diagnostic("C203", f"{count} streams have the name {name}", None, hint))
    for each in given:
        if isinstance(each, Background):
            background_source(program, each, problems)
    if problems:
        raise ArgumentRefused(list(dict.fromkeys(problems)))
    return sources


def check_program(program: object) -> None:
    """Check that an argument is a program; raises ArgumentRefused."""
    from dotr.engine.program import CompiledProgram

    if not isinstance(program, CompiledProgram):
        hint = 'Write Program.from_config("pipeline.yaml"), or Program.load(…).'
        raise ArgumentRefused([Diagnostic("C203", f"program should be a Program, not a {type(program).__name__}", None, hint)])


def _names(streams: Sequence[Stream]) -> list[str]:
    """The names of streams, by number where they have none."""
    return [stream.name or (_ONLY if len(streams) == 1 else f"stream{number}") for number, stream in enumerate(streams, 1)]


def _problems_together(given: Sequence[object]) -> Iterator[Diagnostic]:
    """Problems of the inputs as a whole."""
    for each in given:
        if not isinstance(each, Stream | Background):
            hint = "Write Stream(df, time=…, map=…) or Background(df, map=…)."
            yield Diagnostic("C203", f"inputs should be a list of Stream and Background, and has a {type(each).__name__}", None, hint)
        elif not hasattr(each.df, "schema") or not hasattr(each.df, "isStreaming"):
            what = type(each).__name__
            yield Diagnostic("C203", f"df of {what} should be a DataFrame of Spark, not a {type(each.df).__name__}")
    known = [each for each in given if isinstance(each, Stream | Background) and hasattr(each.df, "isStreaming")]
    if not any(isinstance(each, Stream) for each in given):
        yield Diagnostic("C202", "inputs have no Stream", None, "Name the DataFrame with the elements: [Stream(df, time=…, map=…)].")
    if any(isinstance(each, Background) and each.df.isStreaming for each in known):
        hint = "Read it as a batch (spark.read, not spark.readStream), or make its rows elements: Stream(…)."
        yield Diagnostic("C291", "a Background is a streaming DataFrame, and it is read once, at the start", None, hint)
    streams = [each for each in known if isinstance(each, Stream)]
    batch = [name for each, name in zip(streams, _names(streams), strict=True) if not each.df.isStreaming]
    if 0 < len(batch) < len(streams):
        hint = "Read all of them with spark.readStream, or all with spark.read; what does not change may be Background(df, map=…)."
        yield Diagnostic(
            "C291",
            f"batch and streaming DataFrames are mixed: of {len(streams)}, {', '.join(batch)} {'is' if len(batch) == 1 else 'are'} batch",
            None,
            hint,
        )


def _source(program: CompiledProgram, stream: Stream, name: str, problems: list[Diagnostic]) -> RowSource:
    """The source of a stream; its problems are added."""
    whose = f"stream {name}" if name != _ONLY else "the stream"

    def resolved(cell: object, use: str, kinds: Sequence[str], hint: str) -> tuple[tuple[str, ...], str]:
        """The steps to a column of some types, and its type."""
        try:
            if isinstance(cell, str) and cell:
                return schema.column(cell, f"{use} of {whose}", kinds, hint) if schema else ((), "")
            problems.append(Diagnostic("C203", f"{use} of {whose} should be the name of a column, not {cell!r}"))
        except UnresolvedPath as error:
            problems.append(error.problem)
        return (), ""

    schema = schema_of(stream.df)
    time, time_type = resolved(stream.time, "time", _TIMES_OF, _TIME_HINT)
    lateness = 0
    try:
        lateness = parse_delay(stream.lateness)
    except (TypeError, ValueError) as error:
        hint = 'Write a duration, such as lateness="30 seconds".'
        problems.append(Diagnostic("C205", f"lateness of {whose}: {error}", None, hint))
    kind, graph = "map", tuple[str, ...]()
    if stream.map is None and stream.graph is None:
        hint = 'A template makes graphs of rows: map="[] a :Temp ; :value {value} ."; or a column holds them: graph="COLUMN".'
        problems.append(Diagnostic("C202", f"{whose} has neither map nor graph", None, hint))
    elif stream.map is not None and stream.graph is not None:
        hint = "Leave one out: map makes the graph of a row, graph names the column that holds it."
        problems.append(Diagnostic("C204", f"{whose} has both map and graph", None, hint))
    elif stream.graph is None and stream.format != GRAPHS[0]:
        hint = "Leave format out, or name the column that holds graphs: graph=…"
        problems.append(Diagnostic("C204", f"{whose} has the format {stream.format!r} of graphs, and a map", None, hint))
    elif stream.graph is not None:
        kind = stream.format
        if kind not in GRAPHS:
            hint = did_you_mean(str(kind), GRAPHS)
            problems.append(
                Diagnostic("C203", f"format of {whose} should be {', '.join(GRAPHS[:-1])} or {GRAPHS[-1]}, not {kind!r}", None, hint)
            )
        graph, _ = resolved(stream.graph, "graph", TEXTS, _GRAPH_HINT)
    source = _of_program(program, name)._replace(
        stream=_fed(program, stream, name, problems), lateness=lateness, kind=kind, time=time, time_type=time_type, graph=graph
    )
    return source if stream.map is None or schema is None else with_map(source, stream.map, schema, problems)


def _fed(program: CompiledProgram, stream: Stream, name: str, problems: list[Diagnostic]) -> str:
    """The stream of continuous queries that an input feeds; one without a name feeds the only one."""
    read = sorted(each.name for each in program.layout.fed_streams)
    prefixes, inputs, text = program.rules.prefixes, program.spec.inputs, stream.stream or stream.name
    if not text and read:
        if len(read) > 1:
            hint = f"Queries read {', '.join(stream_text(each, prefixes) for each in read)}: Stream(…, stream=…) names one."
            problems.append(Diagnostic("C202", f"stream {name} has no name, and queries read several streams", None, hint))
        return read[0]
    fed = fed_stream(text or name, prefixes, inputs)
    if read and (fed is None or (fed not in read and not inputs and misspelt_stream(fed, read) is not None)):
        known = sorted({each for one in inputs for each in (one.fed, one.name)}) or read
        hint = near_streams(stream_name(text, prefixes), known, prefixes)
        problems.append(Diagnostic("C203", f"stream {text} feeds no stream of the program", None, hint))
    return name if fed is None else fed


def schema_of(df: DataFrame) -> Schema | None:
    """The schema of a DataFrame; None of another object."""
    if not hasattr(df, "schema") or not hasattr(df, "sparkSession"):
        return None
    return Schema(df.schema.jsonValue(), df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true")


def background_source(program: CompiledProgram, given: Background, problems: list[Diagnostic]) -> RowSource:
    """The source of the rows of a background; its problems are added."""
    source, schema = _of_program(program, "background"), schema_of(given.df)
    return source if schema is None else with_map(source, given.map, schema, problems)


def _of_program(program: CompiledProgram, name: str) -> RowSource:
    """A source with the settings of a program."""
    spec, limits = program.spec, program.spec.limits
    prefixes = tuple(spec.prefixes.items())
    return RowSource(
        name, name, prefixes=prefixes, unit=spec.unit.written, zone=spec.time_zone, nesting=limits.nesting, record=limits.record
    )


def with_map(source: RowSource, text: object, schema: Schema, problems: list[Diagnostic]) -> RowSource:
    """The source with a map, whose cells are columns of a schema; problems are added."""
    from dotr.languages.program_json import maps_to_json

    if not isinstance(text, str):
        problems.append(Diagnostic("C203", f"map of {source.name} should be text, not {text!r}"))
        return source
    found: list[Diagnostic] = []
    paths: dict[str, tuple[Step, ...]] = {}
    try:
        text = _compiled_mapping(text) if is_mapping(text) else text
        document = Document(f"map of {source.name}", text)
        parsed = parse_map(Span(document, 0, len(text)), dict(source.prefixes))
        for cell in columns_of(parsed.template):
            try:
                paths[cell] = schema.value(cell)
            except UnresolvedPath as error:
                found.append(cell_problem(document, cell, error.problem.code, str(error), error.problem.hint))
        if not found:
            parsed = with_columns(parsed, lambda cell: path_text(paths[cell]))
            compile_json_map(document, parsed)
            columns = schema.pruned(list(paths.values()))
            return source._replace(map=text, parsed=maps_to_json([parsed]), columns=json.dumps(columns))
    except Refused as refused:
        found += refused.diagnostics
    problems += found
    return source


def _compiled_mapping(path: str) -> str:
    """The text of a map that a file with a mapping of RML stands for; raises `Refused`."""
    # Few programs have one; it loads rdflib's parser.
    from dotr.runtimes.pipeline.config import read_document
    from dotr.streams.formats.mapping.rml import compile_mapping

    return compile_mapping(read_document(path), "parquet").text


def selected(df: DataFrame, source: RowSource) -> DataFrame:
    """The rows of a DataFrame with three columns.

    - `moment`: TIMESTAMP, of which a watermark is made; 1970 where the time is unreadable, which
      moves no watermark.
    - `time`: LONG, in µs since 1970; NULL where it is unreadable.
    - `record`: STRING, the JSON of the columns that the map names, or the text of the graph.
    """
    from pyspark.sql import functions as F

    time = _micros(_column(source.time), source)
    time = F.when(time.between(1 - LAST_MICRO, LAST_MICRO - 1), time)
    return df.select(
        F.timestamp_micros(F.coalesce(time, F.lit(0).cast("long"))).alias("moment"), time.alias("time"), record_of(source).alias("record")
    )


def record_of(source: RowSource) -> Column:
    """The text of a row from which its triples are read; NULL where its graph is."""
    from pyspark.sql import functions as F

    if source.kind != "map":
        return _column(source.graph)
    fields = json.loads(source.columns)["fields"]
    return F.to_json(F.struct(*_structs(fields, ())), _AS_JSON) if fields else F.lit("{}")


def _structs(fields: Sequence[dict[str, Any]], outer: tuple[str, ...]) -> list[Column]:
    """The columns of some fields; a struct has no other fields than these."""
    from pyspark.sql import functions as F

    columns = []
    for field in fields:
        path = (*outer, field["name"])
        inner = field["type"]
        is_struct = isinstance(inner, dict) and inner["type"] == "struct"
        column = F.struct(*_structs(inner["fields"], path)) if is_struct else _column(path)
        columns.append(column.alias(field["name"]))
    return columns


def _column(steps: Sequence[str]) -> Column:
    """The column at the end of some steps from a row."""
    from pyspark.sql import functions as F

    column = F.col(f"`{steps[0].replace('`', '``')}`")
    for step in steps[1:]:
        column = column.getField(step)
    return column


def _micros(column: Column, source: RowSource) -> Column:
    """The time of a column in µs since 1970; NULL where it is beyond the range of LONG."""
    from pyspark.sql import functions as F

    match source.time_type:
        case "timestamp":
            return F.unix_micros(column)
        case "timestamp_ntz":
            # A cast would go through the zone of Spark's session. 12:30 of day 2 is 1 d 12 h 30 min after the epoch.
            gap = column - F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
            days, hours, minutes, seconds = (F.extract(F.lit(part), gap) for part in ("DAY", "HOUR", "MINUTE", "SECOND"))
            whole = ((days.cast("long") * 24 + hours) * 60 + minutes) * 60_000_000
            wall = whole + (seconds * 1_000_000).cast("long")
        case "date":
            wall = F.try_multiply(F.unix_date(column).cast("long"), F.lit(_DAY).cast("long"))
        case _:
            return F.try_multiply(column.cast("long"), F.lit(Unit.from_written(source.unit).value).cast("long"))
    return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(wall), source.zone)) if source.zone else wall
