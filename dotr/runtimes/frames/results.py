"""Rows of the operators as rows of the result: events and dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import ArgumentRefused, Diagnostic, did_you_mean
from dotr.evaluation.expressions.kinds import ANYTHING, TermKind
from dotr.model.algebra import Call, Const, Expression, Var
from dotr.model.rules import Aggregate, Rule
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.runtimes.external_sort import decode_firings
from dotr.runtimes.spark.exchange.rows import RowKind, decode_dead_letters
from dotr.runtimes.spark.pandas_probe import suppress_pandas_probe
from dotr.streams.sinks.parquet import column_names
from dotr.temporal.stage_two import BECAUSE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

RESULT: Final = (
    "time timestamp, rule string, event string, attributes map<string, string>, graph string, "
    "dead struct<reason: string, error: string, input: string, record: string>"
)
"""The columns of the result."""

EXPLAINED: Final = f"{RESULT}, because string"
"""The columns of a result that explains events."""

_LETTER: Final = ("reason", "error", "input", "record")


class ResultRows:
    """A function from the rows of the operators to those of the result, for `mapInArrow`.

    Args:
        explains: events have the events of their match.
        left_out: the events that are not shown.
    """

    def __init__(self, *, explains: bool, left_out: frozenset[Label]) -> None:
        self._explains = explains
        self._left_out = left_out

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        suppress_pandas_probe()
        import pyarrow as pa

        term, stamp = pa.string(), pa.timestamp("us", tz="UTC")
        letter = pa.struct([(name, term) for name in _LETTER])
        names = ["time", "rule", "event", "attributes", "graph", "dead", "because"]
        types = [stamp, term, term, pa.map_(term, term), term, letter, term]
        event = _explained if self._explains else _event
        size = len(names) - (not self._explains)
        for batch in batches:
            rows: list[tuple[Any, ...]] = []
            for kind, payload in zip(batch.column("kind").to_pylist(), batch.column("payload").to_pylist(), strict=True):
                if kind == RowKind.FIRINGS:
                    rows += [event(firing) for firing in decode_firings(payload) if firing.event not in self._left_out]
                elif kind == RowKind.DEAD:
                    rows += map(_dead, decode_dead_letters(payload))
            if rows:
                columns = list(zip(*rows, strict=True))[:size]
                yield pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types[:size], strict=True)], names=names[:size])


def _event(firing: Firing) -> tuple[Any, ...]:
    graph = None if firing.graph is None else "".join([f"{s} {p} {o} .\n" for s, p, o in firing.graph])
    return firing.time, firing.rule, firing.event, firing.attributes, graph, None, None


def _explained(firing: Firing) -> tuple[Any, ...]:
    [(name, text), *attributes] = firing.attributes or [("", "")]
    if name != BECAUSE:  # of another language
        return _event(firing)
    return (*_event(firing._replace(attributes=tuple(attributes)))[:-1], text or None)


def _dead(letter: DeadLetter) -> tuple[Any, ...]:
    return (
        letter.time,
        None,
        None,
        None,
        None,
        dict(zip(_LETTER, (letter.reason.value, letter.why, letter.input, letter.text), strict=True)),
        None,
    )


# Attributes of one event as columns with types.
#
# Idea: the type of a column follows from the kinds of terms that the rules may assign to the
# attribute, which were inferred for warnings. Terms are converted by Spark's own expressions, so
# that no row passes through Python.
# Invariant: a term that is not of the column's type is NULL there; `attributes` has every term.


LONG, DOUBLE, BOOLEAN, TIMESTAMP, STRING = "bigint", "double", "boolean", "timestamp", "string"
_WHOLE: Final = ("STRLEN", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES")
_TEXT: Final = "struct<v: string>"
_NEEDED: Final = ("time", "rule", "event", "attributes", "dead")
"""The columns of a result that attributes are read from."""


def attributes_of(found: DataFrame, program: CompiledProgram, event: Label) -> DataFrame:
    """The events of one label, with a column for each attribute.

    The columns are `time` and `rule`, then the attributes in the order of their names. An attribute
    named as a column of the result (`time`, `rule`, `event`, `graph`) has the prefix `attribute_`.

    | the rules assign the attribute | type of the column |
    | --- | --- |
    | counts, lengths, years …, and their sums, differences and products | BIGINT |
    | other numbers, and values that a FILTER compares with a number | DOUBLE |
    | truth values | BOOLEAN |
    | `time(L)` | TIMESTAMP |
    | anything else, and all attributes of other languages but times | STRING: an IRI without `<>`, or the text of a literal |

    A term that is not of the type is NULL. DOUBLE rounds decimals; `attributes` of `found` has the
    exact terms.

    Args:
        found: the result of `events`.
        program: the program that it was made by.
        event: the label of the event.

    Returns:
        A DataFrame, streaming if `found` is. Events that lack an attribute have NULL there.

    Raises:
        ArgumentRefused: the program makes no such event (C268), or `found` is no result of
            `events` (C203).

    >>> from dotr import Program
    >>> try:
    ...     attributes_of(None, Program.from_config("configs/fire.yaml"), "Fir")
    ... except ArgumentRefused as error:
    ...     print(error)
    C268 no event is called Fir
    Did you mean Fire?
    """
    from dotr.runtimes.frames.stream import check_program

    check_program(program)
    known = program.attributes
    if event not in known:
        hint = did_you_mean(str(event), list(known)) or f"There are {', '.join(sorted(known)) or 'none'}."
        raise ArgumentRefused([Diagnostic("C268", f"no event is called {event}", None, hint)])
    missing = [each for each in _NEEDED if each not in getattr(found, "columns", ())]
    if missing:
        hint = "Give it what events(…) returns, or a table of all of its columns; it leaves dead letters out by itself."
        raise ArgumentRefused([Diagnostic("C203", f"found has no column {', '.join(missing)}", None, hint)])
    from pyspark.sql import functions as F

    names = known[event]
    types = attribute_types(program, event)
    rows = found.where(F.col("dead").isNull() & (F.col("event") == event))
    columns = [
        _typed(F.col("attributes")[name], types[name], program.spec.unit.value).alias(column)
        for name, column in zip(names, column_names(names), strict=True)
    ]
    return rows.select("time", "rule", *columns)


# --- types ---


def attribute_types(program: CompiledProgram, event: Label) -> Mapping[Variable, str]:
    """The type of the column of each attribute of an event.

    >>> from dotr import Program
    >>> text = "define A = [ [] a :A ] from T = [ SELECT ?v ?r WHERE { ?r :v ?v FILTER(?v > 5) } ] "
    >>> text += "and ?n = count(*) of L = [ SELECT ?x WHERE { ?x a :B } ] within 5 s from T "
    >>> text += "with A.?v = T.?v, A.?n = ?n + 1, A.?at = time(T), A.?r = T.?r"
    >>> dict(attribute_types(Program.load(text=text, prefixes={"": "http://e/"}), "A"))
    {'at': 'timestamp', 'n': 'bigint', 'r': 'string', 'v': 'double'}
    """
    rules = [rule for rule in program.rules.rules if rule.event == event]
    forms, kinds = program.rules.forms.get(event, {}), program.rules.kinds.get(event, {})
    types = {}
    for name in program.attributes[event]:
        form, kind = forms.get(name), kinds.get(name, ANYTHING)
        if form is not None and not form.is_length:
            types[name] = TIMESTAMP
        elif kind == frozenset({TermKind.NUMBER}):
            assigned = [(each.expression, rule) for rule in rules for each in rule.assignments if each.variable == name]
            types[name] = LONG if all(_is_whole(*each) for each in assigned) else DOUBLE
        else:
            types[name] = BOOLEAN if kind == frozenset({TermKind.BOOLEAN}) else STRING
    return types


def _is_whole(expression: Expression, rule: Rule) -> bool:
    """True if the values of an expression of a rule are whole numbers of no great size."""
    match expression:
        case Const(term):
            return term.endswith("#integer>")
        case Var(name):
            return any(isinstance(each, Aggregate) and each.variable == name and each.function.upper() == "COUNT" for each in rule.clauses)
        case Call("+" | "-" | "*" | "UNARY-", operands):
            return all(_is_whole(each, rule) for each in operands)
        case Call(function, _):
            return function in _WHOLE
        case _:
            return False


# --- columns ---


def _typed(term: Column, kind: str, unit: int) -> Column:
    """The value of a term in N-Triples as a column of a type; `unit`: that of integer times in µs."""
    from pyspark.sql import functions as F

    written = F.regexp_extract(term, r'(?s)^"(.*)"[^"]*$', 1)
    if kind == TIMESTAMP:
        whole = F.timestamp_micros(F.try_multiply(written.try_cast("bigint"), F.lit(unit).cast("bigint")))
        return F.when(term.endswith("integer>"), whole).otherwise(written.try_cast("timestamp"))
    if kind != STRING:
        return F.when(term.startswith('"'), written.try_cast(kind))
    # The escapes of N-Triples that are written are those of JSON.
    as_json = F.from_json(F.concat(F.lit('{"v":"'), written, F.lit('"}')), _TEXT)["v"]
    text = F.when(written.contains("\\"), as_json).otherwise(written)
    is_iri = term.startswith("<") & ~term.startswith("<<")
    return F.when(term.startswith('"'), text).when(is_iri, F.substring(term, F.lit(2), F.length(term) - 2)).otherwise(term)
