"""The SELECT line of a QUERY: `*`, or variables and `(expression AS ?variable)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.chains import ChainReader
from dotr.languages.epsparql.text.expressions import NO_SET_HINT
from dotr.languages.epsparql.text.lexemes import UnitCursor, UnreadablePart
from dotr.model.algebra import Expression
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.syntax.sparql.keywords import AGGREGATES

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
