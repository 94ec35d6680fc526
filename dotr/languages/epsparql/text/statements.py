"""Statements of `.epsparql` files: REGISTER, label, form, chain and policy.

Idea: a file is cut at each word REGISTER, so that a syntax error ends no other unit.
Source: ep-sparql.md, sections 1, 2.2 and 4.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.chains import ChainReader
from dotr.languages.epsparql.text.expressions import NO_SET_HINT, IntervalReader, tokens_of
from dotr.languages.epsparql.text.keywords import BACKGROUND, FUNCTIONS, MODIFIERS
from dotr.languages.epsparql.text.lexemes import UnitCursor, UnreadablePart, clipped
from dotr.languages.epsparql.text.operands import ChainPlaces, ParsedOperand
from dotr.model import dataclass
from dotr.model.algebra import Expression, Select
from dotr.model.places import Span
from dotr.model.templates import Fresh, Template, leaves
from dotr.model.terms import Label, Variable, unescaped
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.keywords import AGGREGATES
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.tokens import TokenScan
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.intervals.patterns import UsePolicy

# The SELECT line of a QUERY: `*`, or variables and `(expression AS ?variable)`.

_HINT: Final = "The SELECT line is *, or variables and values: SELECT ?c (?p * 2 AS ?double) WHERE …"


@dataclass(frozen=True, slots=True)
class SelectedColumn:
    """A column of a SELECT line; `expression` is None for a variable of the pattern."""

    name: Variable
    expression: Expression | None
    name_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    """A SELECT line; `columns` is None for `*`. `is_complete`: it has no error."""

    columns: tuple[SelectedColumn, ...] | None
    is_complete: bool


def read_columns(line: UnitCursor) -> ColumnSyntax:
    """Read the SELECT line, all lexemes of the cursor; problems are recorded in its scan."""
    problems = line.scan.problems
    before = len(problems)
    if line.is_mark("*") and line.position + 1 == line.end:
        return ColumnSyntax(None, is_complete=True)
    columns: list[SelectedColumn] = []
    try:
        while line.position < line.end:
            column = _column(line)
            columns += [column] if column is not None else []
        if not columns and len(problems) == before:
            raise line.unexpected("* or variables", _HINT)
    except UnreadablePart as unreadable:
        problems.append(unreadable.diagnostic)
    return ColumnSyntax(tuple(columns), is_complete=len(problems) == before)


def _column(line: UnitCursor) -> SelectedColumn | None:
    lexeme = line.here
    if lexeme.group == "variable":
        line.position += 1
        place = line.span_of(lexeme)
        return SelectedColumn(lexeme.text[1:], None, place, place)
    if not line.is_mark("("):
        raise line.unexpected("* or a variable, or (expression AS ?variable)", _HINT)
    opened = line.position
    closed = line.closing(opened)
    line.position = closed + 1
    span = line.span_between(opened, closed + 1)
    for part in line.lexemes[opened:closed]:
        if part.group == "word" and part.text.upper() in AGGREGATES:
            hint = f"A QUERY of one plain group may have aggregates. {NO_SET_HINT}"
            line.report(TemporalCode.NO_SET, f"{part.text.upper()} of a chain", line.span_of(part), hint)
            return None
    found = ChainReader(line).named_expression(opened, closed, span)
    if found is None:
        return None
    name, name_span, parsed = found
    return SelectedColumn(name, parsed.whole, name_span, span)


EXAMPLE: Final = "REGISTER QUERY Fall AS SELECT ?c WHERE { ?c :price ?p } SEQ { ?c :price ?q } FILTER(?q < ?p) WITHIN 10 s"
_STREAM: Final = "REGISTER STREAM Up AS CONSTRUCT { ?c :rose ?q } WHERE { ?c :price ?p } SEQ { ?c :price ?q } WITHIN 10 s"
_POLICIES: Final = "A policy is UNRESTRICTED, CHRONOLOGICAL or RECENT."


@dataclass(slots=True)
class UnitSyntax:
    """A REGISTER statement; parts with syntax errors are left out.

    - `columns`: those of a QUERY, or of the sub-SELECT that is the WHERE of a STREAM.
    - `operand`: the pattern; None after a problem, or if `answers` has the pattern.
    - `answers`: a QUERY of one plain group with SPARQL's modifiers or aggregates.
    """

    span: Span
    scan: TokenScan
    label: Label = ""
    label_span: Span | None = None
    documentation: str = ""
    is_stream: bool = False
    is_distinct: bool = False
    columns: ColumnSyntax | None = None
    template: Template | None = None
    template_span: Span | None = None
    operand: ParsedOperand | None = None
    answers: Select | None = None
    policy: UsePolicy = UsePolicy.UNRESTRICTED
    policy_span: Span | None = None
    places: ChainPlaces = field(default_factory=ChainPlaces)


def read_unit(cursor: UnitCursor) -> UnitSyntax:
    """Read a unit after its prologue; problems are recorded in the cursor's scan."""
    span = cursor.span_between(cursor.position, cursor.end) if cursor.position < cursor.end else cursor.scan.span
    unit = UnitSyntax(span, cursor.scan)
    while cursor.end > cursor.position and cursor.lexemes[cursor.end - 1].text == ";":
        cursor.end -= 1
    try:
        _read_head(cursor, unit)
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
        cursor.position = cursor.find("SELECT", "CONSTRUCT")
        if cursor.position == cursor.end:
            return unit
        unit.is_stream = cursor.is_word("CONSTRUCT")
    try:
        _read_form(cursor, unit)
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
    return unit


def _read_head(cursor: UnitCursor, unit: UnitSyntax) -> None:
    """`REGISTER QUERY Label "documentation" AS`."""
    if not cursor.take_words("REGISTER"):
        raise cursor.unexpected("REGISTER", f"A unit is {EXAMPLE}")
    if cursor.take_words("STREAM"):
        unit.is_stream = True
    elif not cursor.take_words("QUERY"):
        word = cursor.here.text.upper()
        hint = f"A unit is {EXAMPLE}"
        if word in ("RSTREAM", "ISTREAM", "DSTREAM"):
            hint = f"{word} is of continuous queries, whose files are .rspql. {hint}"
        raise cursor.unexpected("QUERY or STREAM", hint)
    lexeme = cursor.here
    if lexeme.group != "word" or (cursor.is_word("AS") and cursor.at(1).text.upper() != "AS"):
        found = f"found {clipped(lexeme.text)}" if lexeme.text else "the text ends"
        hint = f"A label is a word of letters, digits and _ that begins with no digit. A unit is {EXAMPLE}"
        raise UnreadablePart(Diagnostic(TemporalCode.NO_LABEL, f"expected a label, {found}", cursor.span_of(lexeme), hint))
    cursor.position += 1
    unit.label, unit.label_span = lexeme.text, cursor.span_of(lexeme)
    if cursor.here.group == "string":
        text = cursor.here.text
        width = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
        unit.documentation = unescaped(text[width:-width])
        cursor.position += 1
    if not cursor.take_words("AS"):
        raise cursor.unexpected("AS", "Behind the label comes AS, then SELECT or CONSTRUCT.")


def _read_form(cursor: UnitCursor, unit: UnitSyntax) -> None:
    cursor.take_prologue()
    word = cursor.here.text.upper() if cursor.here.group == "word" else ""
    expected = "CONSTRUCT" if unit.is_stream else "SELECT"
    if word in ("ASK", "DESCRIBE") or (word in ("SELECT", "CONSTRUCT") and word != expected):
        kind = "STREAM" if unit.is_stream else "QUERY"
        hint = f"A QUERY is {EXAMPLE}. A STREAM is {_STREAM}"
        cursor.report(TemporalCode.WRONG_FORM, f"a {kind} with {word}", cursor.span_of(cursor.here), hint)
        if word in ("ASK", "DESCRIBE"):
            return
        unit.is_stream = word == "CONSTRUCT"
    elif word != expected:
        raise cursor.unexpected(expected, f"A unit is {_STREAM if unit.is_stream else EXAMPLE}")
    start = cursor.position
    cursor.position += 1
    if unit.is_stream:
        _read_template(cursor, unit)
        _read_where(cursor, unit, start)
        return
    line = _take_line(cursor)
    unit.is_distinct = line.take_words("DISTINCT")
    if line.is_word("REDUCED"):
        line.report(TemporalCode.NO_SET, "REDUCED", line.span_of(line.here), "Write DISTINCT, or nothing.")
        line.position += 1
    _read_where(cursor, unit, start, line)


def _take_line(cursor: UnitCursor) -> UnitCursor:
    """Take the SELECT line: up to WHERE, or to the chain if WHERE is left out."""
    first = cursor.position
    cursor.position = cursor.find("WHERE", "EVENT", "FROM", marks=("{",))
    line = cursor.part(first, cursor.position)
    if cursor.is_word("FROM"):
        cursor.report("Q107", "FROM is refused", cursor.span_of(cursor.here), BACKGROUND)
        cursor.position = cursor.find("WHERE", "EVENT", marks=("{",))
    return line


def _read_template(cursor: UnitCursor, unit: UnitSyntax) -> None:
    if not cursor.is_mark("{"):
        raise cursor.unexpected("{", f"A template stands in braces: {_STREAM}")
    opened = cursor.position
    closed = cursor.closing(opened)
    cursor.position = closed + 1
    span = cursor.inner_span(opened, closed)
    unit.template_span = span
    functions = [each for each in cursor.lexemes[opened:closed] if each.group == "word" and each.text.upper() in FUNCTIONS]
    for lexeme in functions:
        hint = f"Bind it in the chain, BIND({lexeme.text}() AS ?v), and write ?v in the template."
        cursor.report(TemporalCode.NO_INTERVAL, f"{lexeme.text} in a template", cursor.span_of(lexeme), hint)
    if functions:
        return
    try:
        template = parse_template(span, cursor.scan.prefixes, base=cursor.scan.base)
    except Refused as refused:
        cursor.scan.problems += refused.diagnostics
        return
    names = dict.fromkeys(leaf.name for leaf in leaves(template) if isinstance(leaf, Fresh))
    for name in names:
        at = span.text.find(name)
        place = cursor.scan.span_at(span.start + max(at, 0), span.start + max(at, 0) + len(name))
        hint = "A new node is written [] or _:b: it is new for each solution."
        cursor.report(TemporalCode.FRESH_NAME, f"{name} in a template", place, hint)
    if not names:
        unit.template = template


def _read_where(cursor: UnitCursor, unit: UnitSyntax, start: int, line: UnitCursor | None = None) -> None:
    """Read the chain, modifiers and policy.

    `start`: the position of SELECT or CONSTRUCT; `line`: the SELECT line, None of a STREAM.
    """
    cursor.take_words("WHERE")
    if cursor.position == cursor.end:
        raise cursor.unexpected("WHERE { … }", f"A unit is {_STREAM if unit.is_stream else EXAMPLE}")
    end = _policy_position(cursor)
    inner = cursor.part(cursor.position, end)
    if line is not None and _has_modifiers(line, inner):
        _read_answers(cursor, unit, inner, start, line)
    elif line is None and _is_sub_select(inner):
        _read_sub_select(unit, inner)
    else:
        if line is not None:
            unit.columns = read_columns(line)
        reader = ChainReader(inner, unit.places)
        unit.operand = _unit_chain(reader)
    cursor.position = end
    if end < cursor.end:
        _read_policy(cursor, unit)


def _unit_chain(reader: ChainReader) -> ParsedOperand | None:
    """The chain of all the reader's lexemes; None after recorded problems."""
    cursor = reader.cursor
    first = cursor.position
    try:
        parsed = reader.chain()
        for word in MODIFIERS:
            if cursor.is_word(word):
                place = cursor.span_of(cursor.here)
                hint = f"A QUERY of one plain group may have it. {NO_SET_HINT}"
                raise UnreadablePart(Diagnostic(TemporalCode.NO_SET, f"{_modifier(word)} of a chain", place, hint))
        if cursor.position < cursor.end:
            raise reader.unexpected_end()
        return parsed.operand
    except UnreadablePart as unreadable:
        cursor.scan.problems.append(unreadable.diagnostic)
        if cursor.position == first:
            cursor.position += 1
        reader.check_remaining_groups()
        return None


def _modifier(word: str) -> str:
    return f"{word} BY" if word in ("GROUP", "ORDER") else word


def _policy_position(cursor: UnitCursor) -> int:
    return cursor.find("POLICY")


def _read_policy(cursor: UnitCursor, unit: UnitSyntax) -> None:
    first = cursor.position
    cursor.position += 1
    lexeme = cursor.here
    names = [policy.value for policy in UsePolicy]
    if lexeme.group != "word" or lexeme.text.upper() not in names:
        message = f"unknown policy {clipped(lexeme.text)}" if lexeme.text else "expected a policy, the text ends"
        hint = did_you_mean(lexeme.text.upper(), names) or _POLICIES
        place = cursor.span_of(lexeme)
        raise UnreadablePart(Diagnostic(TemporalCode.UNKNOWN_POLICY, message, place, hint))
    unit.policy = UsePolicy(lexeme.text.upper())
    cursor.position += 1
    unit.policy_span = cursor.span_since(first)
    for word in ("WITHIN", "FILTER", "BIND"):
        if cursor.is_word(word):
            place = cursor.span_of(cursor.here)
            unit.operand = None
            raise UnreadablePart(Diagnostic(TemporalCode.WRONG_ORDER, f"{word} behind POLICY", place, f"Write {word} before POLICY."))
    for word in MODIFIERS:
        if cursor.is_word(word):
            place = cursor.span_of(cursor.here)
            raise UnreadablePart(Diagnostic(TemporalCode.NO_SET, f"{_modifier(word)} behind POLICY", place, NO_SET_HINT))
    if cursor.position < cursor.end:
        raise cursor.unexpected("the end of the unit", "POLICY stands last. The next unit begins with REGISTER.")


# --- SPARQL's modifiers and aggregates ---


def _has_modifiers(line: UnitCursor, where: UnitCursor) -> bool:
    """True of a QUERY of one plain group that has modifiers, or aggregates or EXISTS in SELECT."""
    if not where.is_mark("{"):
        return False
    opened = where.position
    closed = where.closing(opened)
    if where.temporal_words(opened + 1, closed):
        return False
    after = where.part(closed + 1, where.end)
    if after.position < after.end:
        return any(after.is_word(word) for word in MODIFIERS)
    lexemes = line.lexemes[line.position : line.end]
    return any(each.group == "word" and each.text.upper() in (*AGGREGATES, "EXISTS") for each in lexemes)


def _read_answers(cursor: UnitCursor, unit: UnitSyntax, where: UnitCursor, start: int, line: UnitCursor) -> None:
    """Read a QUERY of one plain group as one SPARQL query."""
    problems = cursor.scan.problems
    if problems and problems[-1].code == TemporalCode.NO_SET and "REDUCED" in problems[-1].message:
        return
    span = cursor.span_between(start, where.end)
    tokens = tokens_of(span, cursor.scan)

    def reader(scan_: TokenScan, no_references: str) -> IntervalReader:
        return IntervalReader(scan_, no_references, "beside modifiers and aggregates")

    def read(reading: QueryReader, node: ParseNode) -> Select:
        return reading.select(node, top=True)

    try:
        unit.answers = parse_tokens(tokens, grammar.QUERY, read, no_references="", reader=reader)
    except Refused as refused:
        problems += refused.diagnostics
    unit.is_distinct = False


# --- the paper's sub-SELECT ---


def _is_sub_select(where: UnitCursor) -> bool:
    """True if the WHERE of a STREAM is `{ SELECT … WHERE CHAIN }`, as in the paper's query (5)."""
    if not (where.is_mark("{") and where.at(1).text.upper() == "SELECT"):
        return False
    closed = where.closing(where.position)
    return closed == where.end - 1 and bool(where.temporal_words(where.position + 1, closed))


def _read_sub_select(unit: UnitSyntax, where: UnitCursor) -> None:
    closed = where.closing(where.position)
    inner = where.part(where.position + 2, closed)
    line = _take_line(inner)
    inner.take_words("WHERE")
    if line.is_word("DISTINCT") or line.is_word("REDUCED"):
        place = line.span_of(line.here)
        hint = "Every solution of a STREAM makes a graph. Leave it out."
        raise UnreadablePart(Diagnostic(TemporalCode.NO_SET, f"{line.here.text.upper()} in a STREAM", place, hint))
    unit.columns = read_columns(line)
    unit.operand = _unit_chain(ChainReader(inner, unit.places))
