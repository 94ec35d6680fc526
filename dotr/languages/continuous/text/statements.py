"""REGISTER statements of a file: their spans, heads, FROM clauses and queries.

Idea: the file is cut at each word REGISTER, so that a syntax error ends no other statement. In a
statement the head, each FROM clause and the query are parsed by themselves.
Source: continuous.md, sections 1 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import RelationToStream, StreamName
from dotr.languages.continuous.text.specs import WindowSpec, read_length, read_spec
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.terms import Label, Term, iri
from dotr.model.time import Micros, Unit
from dotr.syntax.cursor import Cursor, UnreadablePart, clipped
from dotr.syntax.sparql.keywords import KEYWORDS, REFUSED_KEYWORDS, Dialect
from dotr.syntax.sparql.tokens import Lexeme, TokenScan

# Keywords of continuous queries, and refused keywords of SPARQL and of other engines.


_PATTERNS: Final = frozenset(("WINDOW", "MATCH", "CONSUMING", "EVENT", "FIRST", "LAST", "SEQ", "NAIVE", "CHRONOLOGICAL", "RECENT", "AT"))
_SAME_ANSWER: Final = "A run must give the same output whenever it is repeated. The time of an event is EVENT … AT ?t."
BACKGROUND: Final = "The background is `knowledge.graphs` of the configuration; a pattern over a window is written WINDOW <w> { … }."
_NO_STREAM: Final = (
    "Declare the window before WHERE, FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s], or [NOW], and read it with WINDOW <w> { … }."
)
_AGGREGATE: Final = "Write it in the SELECT line, SELECT ?x (AVG(?y) AS ?mean), and GROUP BY ?x behind the pattern."
_SEQUENCE: Final = "Write SEQ: MATCH { EVENT <w> { … } SEQ EVENT <w> { … } }."
_REGIME: Final = (
    "Write the regime into the configuration, knowledge: { entailment: rdfs } or owl2rl; what a window derives from it is of the window: "
    "[RANGE 10s STEP 5s ENTAILMENT WINDOW]."
)
TIMESTAMP_HINT: Final = "Write MATCH { EVENT <w> AT ?t { … } }: ?t is the time of the element that has the triples."

CONTINUOUS: Final = Dialect(
    keywords=KEYWORDS | _PATTERNS,
    refused={
        **REFUSED_KEYWORDS,
        **{
            word: (REFUSED_KEYWORDS[word][0], REFUSED_KEYWORDS[word][1], _SAME_ANSWER)
            for word in ("NOW", "RAND", "UUID", "STRUUID", "BNODE")
        },
        **{
            word: (REFUSED_KEYWORDS[word][0], f"{word} is refused", "A query changes nothing: write SELECT, CONSTRUCT or ASK.")
            for word in ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING")
        },
        "DESCRIBE": (REFUSED_KEYWORDS["DESCRIBE"][0], "DESCRIBE is refused", "Write CONSTRUCT: its template says which triples it gives."),
        **{
            word: (WindowCode.UNEXPECTED, f"{word} inside a query", "A query begins with SELECT, CONSTRUCT or ASK, and has no other in it.")
            for word in ("CONSTRUCT", "ASK")
        },
        "GRAPH": ("Q107", "GRAPH is refused", BACKGROUND),
        "FROM": (WindowCode.UNEXPECTED, "FROM behind the pattern", "Write FROM … before WHERE."),
        "AGGREGATE": (WindowCode.OTHER_SYNTAX, "AGGREGATE { … } is C-SPARQL's", _AGGREGATE),
        **{word: (WindowCode.OTHER_SYNTAX, f"{word} is no operator of MATCH", _SEQUENCE) for word in ("THEN", "SEQUENCE", "FOLLOWED")},
        "UNDER": (WindowCode.OTHER_SYNTAX, "UNDER ENTAILMENT REGIME is RSP-QL's", _REGIME),
        "STREAM": (WindowCode.OTHER_SYNTAX, "STREAM in a pattern is CQELS-QL", _NO_STREAM),
        "TIMESTAMP": (WindowCode.TIMESTAMP, "timestamp() is C-SPARQL's", TIMESTAMP_HINT),
    },
    has_references=False,
    names_after=frozenset(("WINDOW", "EVENT")),
)


_FORMS: Final = ("SELECT", "CONSTRUCT", "ASK")
_STARTS: Final = (*_FORMS, "DESCRIBE", "INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")
_LABEL: Final = re.compile(r"[^\W\d]\w*")
_EXAMPLE: Final = "REGISTER RSTREAM <out> AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [RANGE 10s STEP 5s] { WINDOW <w> { ?x ?p ?y } }"


@dataclass(slots=True)
class FromSyntax:
    """A FROM clause; `name` and `name_span` are None for a default window."""

    name: Term | None
    name_span: Span | None
    stream: StreamName
    stream_span: Span
    spec: WindowSpec
    span: Span


@dataclass(slots=True)
class StatementSyntax:
    """A REGISTER statement with its query as text.

    - `scan`: prefixes, base and problems.
    - `period`: of COMPUTED EVERY, in µs.
    - `form`: SELECT, CONSTRUCT or ASK; empty after a syntax error before it.
    - `line`: from the form to the first FROM, WHERE or `{`, without R2S and template.
    - `body`: from WHERE or `{` to the end.
    - `is_complete`: the head and all FROM clauses are without errors.
    """

    span: Span
    scan: TokenScan
    name: StreamName = ""
    label: Label = ""
    label_span: Span | None = None
    relation: RelationToStream | None = None
    period: Micros | None = None
    period_span: Span | None = None
    form: str = ""
    form_span: Span | None = None
    line: Span | None = None
    template: Span | None = None
    body: Span | None = None
    windows: list[FromSyntax] = field(default_factory=list)
    is_complete: bool = True


def read_statement(cursor: Cursor, unit: Unit) -> StatementSyntax:
    """Read a statement after its prologue; problems are recorded in the cursor's scan.

    `unit`: the unit of a duration's number without one.
    """
    statement = StatementSyntax(cursor.span_since(cursor.position) if cursor.position < cursor.end else cursor.scan.span, cursor.scan)
    try:
        _read_head(cursor, unit, statement)
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
        statement.is_complete = False
        cursor.position = cursor.find(*_STARTS)
    cursor.take_prologue()
    try:
        _read_query(cursor, unit, statement)
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
        statement.is_complete = False
    return statement


def _read_head(cursor: Cursor, unit: Unit, statement: StatementSyntax) -> None:
    """`REGISTER RSTREAM <out> COMPUTED EVERY 10s AS`."""
    if not cursor.take_words("REGISTER"):
        word = cursor.here.text.upper()
        hint = f"Give it a name: write REGISTER RSTREAM <out> AS before {word}." if word in _FORMS else f"A statement is {_EXAMPLE}"
        raise cursor.unexpected("REGISTER", hint)
    statement.relation = _take_relation(cursor)
    if statement.relation is None and not (cursor.take_words("STREAM") or cursor.take_words("QUERY")):
        raise cursor.unexpected("RSTREAM, ISTREAM, DSTREAM, STREAM or QUERY", f"A statement is {_EXAMPLE}")
    lexeme = cursor.here
    if lexeme.group == "word":
        cursor.position += 1
        statement.name, statement.label_span = lexeme.text, cursor.span_of(lexeme)
    else:
        statement.name, statement.label_span = cursor.take_name("the name of the query")
    label = re.split("[#/:]", statement.name)[-1]
    if not _LABEL.fullmatch(label):
        hint = "The label of its events is what follows the last #, / or :, a word of letters, digits and _ that begins with no digit."
        cursor.report(WindowCode.NO_LABEL, f"{clipped(lexeme.text)} gives no label", statement.label_span, hint)
        statement.is_complete = False
    statement.label = label
    first = cursor.position
    if cursor.take_words("COMPUTE") or cursor.take_words("COMPUTED"):
        if not cursor.take_words("EVERY"):
            raise cursor.unexpected("EVERY", "Write COMPUTED EVERY 10s.")
        statement.period = read_length(cursor, unit, ("AS",))
        statement.period_span = cursor.span_since(first)
        statement.is_complete &= statement.period is not None
    if not cursor.take_words("AS"):
        raise _unexpected(cursor, "AS", "Behind the name comes AS, then the query.")


def _unexpected(cursor: Cursor, expected: str, hint: str = "") -> UnreadablePart:
    """The error of the next lexeme, which may be a word of another engine, for the caller to raise."""
    word = cursor.here.text.upper()
    if word not in ("UNDER", "AGGREGATE"):
        return cursor.unexpected(expected, hint)
    code, message, hint = CONTINUOUS.refused[word]
    return UnreadablePart(Diagnostic(code, message, cursor.span_of(cursor.here), hint))


def _take_relation(cursor: Cursor) -> RelationToStream | None:
    return next((each for each in RelationToStream if cursor.take_words(each.value)), None)


def _read_query(cursor: Cursor, unit: Unit, statement: StatementSyntax) -> None:
    """Read the form, R2S and FROM clauses; record the spans of the SELECT line and the pattern."""
    form = cursor.here
    word = form.text.upper()
    if form.group == "word" and word in CONTINUOUS.refused and word not in _FORMS:
        code, message, hint = CONTINUOUS.refused[word]
        raise UnreadablePart(Diagnostic(code, message, cursor.span_of(form), hint))
    if not (form.group == "word" and word in _FORMS):
        raise cursor.unexpected("SELECT, CONSTRUCT or ASK", f"A statement is {_EXAMPLE}")
    cursor.position += 1
    statement.form, statement.form_span = word, cursor.span_of(form)
    place = cursor.span_of(cursor.here)
    relation = _take_relation(cursor)
    if relation is not None:
        if statement.relation is not None:
            hint = f"Leave one of them out: REGISTER {statement.relation.value} says it already."
            cursor.report(WindowCode.TWO_RELATIONS, f"{relation.value} besides {statement.relation.value}", place, hint)
        statement.relation = statement.relation or relation
    if word == "CONSTRUCT" and cursor.is_mark("{"):
        statement.template = _braces(cursor)
    first = cursor.position
    cursor.position = cursor.find("FROM", "WHERE", marks=("{",))
    if cursor.position > first:
        statement.line = cursor.span_of(cursor.lexemes[first], cursor.lexemes[cursor.position - 1])
        if word != "SELECT":
            problem = f"unexpected {clipped(cursor.lexemes[first].text)}"
            cursor.report(WindowCode.UNEXPECTED, problem, cursor.span_of(cursor.lexemes[first]), "Here come FROM, WHERE or {.")
            statement.is_complete = False
    while cursor.is_word("FROM"):
        _read_from(cursor, unit, statement)
    if cursor.position < cursor.end:
        last = cursor.end - 1
        while last > cursor.position and cursor.lexemes[last].text == ";":
            last -= 1
        end = Cursor(cursor.scan, cursor.lexemes, cursor.position, last + 1, cursor.syntax_code).find("FROM")
        if end <= last:
            place = cursor.span_of(cursor.lexemes[end])
            cursor.report(WindowCode.UNEXPECTED, "FROM behind the pattern", place, "Write FROM … before WHERE.")
            statement.is_complete = False
        statement.body = cursor.span_of(cursor.here, cursor.lexemes[end - 1])
    else:
        raise cursor.unexpected("WHERE { … }", f"A statement is {_EXAMPLE}")


def _braces(cursor: Cursor) -> Span:
    """Take `{ … }`; return the place of the text between the braces."""
    opened = cursor.here
    cursor.position += 1
    closed = cursor.find(marks=("}",))
    if closed == cursor.end:
        raise UnreadablePart(Diagnostic("Q102", "{ is never closed", cursor.span_of(opened), "Add a }."))
    cursor.position = closed + 1
    return cursor.scan.span_at(opened.end, cursor.lexemes[closed].start)


def _read_from(cursor: Cursor, unit: Unit, statement: StatementSyntax) -> None:
    """Read one FROM clause, or record its problem and skip it."""
    first = cursor.position
    cursor.position += 1
    stop = cursor.find("FROM", "WHERE", marks=("{",))
    try:
        window = _from_clause(cursor, first, unit)
        if cursor.position < stop:
            raise _unexpected(cursor, "FROM, WHERE or {")
        statement.windows.append(window)
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
        statement.is_complete = False
        cursor.position = stop


def _from_clause(cursor: Cursor, first: int, unit: Unit) -> FromSyntax:
    """Read the clause behind the word FROM, which is at position `first`."""
    name: Term | None = None
    name_span: Span | None = None
    if cursor.is_word("NAMED", "STREAM"):
        hint = "Write FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s], and read it with WINDOW <w> { … }."
        place = cursor.span_of(cursor.here, cursor.at(1))
        raise UnreadablePart(Diagnostic(WindowCode.OTHER_SYNTAX, "FROM NAMED STREAM is SPARQLstream's", place, hint))
    is_named = cursor.take_words("NAMED")
    if not (cursor.is_word("WINDOW") or (cursor.is_word("STREAM") and not is_named)):
        if cursor.here.group in ("iri", "pname"):
            raise UnreadablePart(Diagnostic(WindowCode.FROM_A_GRAPH, "FROM a graph", cursor.span_of(cursor.here), BACKGROUND))
        raise cursor.unexpected("WINDOW" if is_named else "NAMED WINDOW, WINDOW or STREAM", _FROM_HINT)
    if cursor.take_words("STREAM"):
        stream, stream_span = _take_stream(cursor)
    else:
        cursor.position += 1
        if is_named or not cursor.is_word("ON"):
            text, name_span = cursor.take_name("the name of the window")
            name = iri(text) if is_named else None
        if not cursor.take_words("ON"):
            raise cursor.unexpected("ON", _FROM_HINT)
        cursor.take_words("STREAM")
        stream, stream_span = _take_stream(cursor)
    opened = cursor.here
    if not cursor.take_mark("["):
        raise cursor.unexpected("[", _FROM_HINT)
    closed = cursor.find(marks=("]",))
    if closed == cursor.end:
        raise UnreadablePart(Diagnostic("Q102", "[ is never closed", cursor.span_of(opened), "Add a ]."))
    spec = read_spec(Cursor(cursor.scan, cursor.lexemes, cursor.position, closed, cursor.syntax_code), unit)
    cursor.position = closed + 1
    return FromSyntax(name, name_span, stream, stream_span, spec, cursor.span_since(first))


_FROM_HINT: Final = "Write FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s]."


def _take_stream(cursor: Cursor) -> tuple[StreamName, Span]:
    return cursor.take_name("the name of the stream")


def statement_cursor(scan: TokenScan, lexemes: Sequence[Lexeme]) -> Cursor:
    """A cursor behind the prologue of a statement; the prefixes and base are in `scan`."""
    cursor = Cursor(scan, lexemes, 0, len(lexemes), WindowCode.UNEXPECTED)
    cursor.take_prologue()
    return cursor
