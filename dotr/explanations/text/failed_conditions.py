"""Text of a failed condition of a query or of a Datalog rule: its values, or its error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from dotr.model.algebra import Call, Expression, Var
from dotr.model.terms import Term, Variable, is_literal, literal_parts
from dotr.model.traverse import free_variables, subexpressions
from dotr.syntax.rendering import brief_text
from dotr.syntax.term_writer import TermWriter

_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_WITH_COMMA: Final = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")
_MAX_VALUES: Final = 5
_NO_TEXTS: Final[Mapping[Variable, str]] = {}


def failed_condition_text(
    condition: Expression,
    rows: Sequence[Mapping[Variable, Term]],
    errs: bool,
    writer: TermWriter,
    name: str = "",
    texts: Mapping[Variable, str] = _NO_TEXTS,
) -> str:
    """The text of a condition that is false for some rows, or an error for the first of them.

    Args:
        condition: the condition.
        rows: the terms of its variables, at least one row; only the first few are shown.
        errs: True if the condition is an error for the first row.
        writer: the writer of the explanation.
        name: a keyword before the condition in parentheses, such as `FILTER`; empty: neither.
        texts: the text of variables that the parser introduced, such as `AVG(?v)`.

    >>> from dotr.model.algebra import Call, Const
    >>> from dotr.model.terms import XSD
    >>> above = Call(">", (Var("v"), Const(f'"75"^^<{XSD}integer>')))
    >>> failed_condition_text(above, [{"v": f'"75"^^<{XSD}integer>'}, {"v": f'"3"^^<{XSD}integer>'}], False, TermWriter({}))
    '?v > 75 is false (75), (3)'
    >>> failed_condition_text(above, [{"v": '"35,5"'}], True, TermWriter({}))
    '?v > 75 errs: "35,5" is text. xsd:decimal(REPLACE(?v, ",", ".")) reads it.'
    """
    text = brief_text(condition, writer.prefixes)
    for variable, written in texts.items():
        text = text.replace(f"?{variable}", written)
    if name:
        text = f"{name}({text})"
    names = free_variables(condition)
    if errs and (reason := _error_text(names, condition, rows[0], writer)):
        return f"{text} errs: {reason}"
    shown = dict.fromkeys(_values_text(names, row, writer) for row in rows)
    values = ", ".join(list(shown)[:_MAX_VALUES]) + (", …" if len(shown) > _MAX_VALUES else "")
    return f"{text} {'errs' if errs else 'is false'}" + (f" {values}" if names else "")


def _values_text(names: Sequence[Variable], row: Mapping[Variable, Term], writer: TermWriter) -> str:
    for name in names:
        if name in row:
            writer.name_blank(row[name], name.lstrip("_:.") or "b")
    return f"({', '.join(writer.text(row[name]) if name in row else f'?{name} is unbound' for name in names)})"


def _error_text(names: Sequence[Variable], condition: Expression, row: Mapping[Variable, Term], writer: TermWriter) -> str:
    """The cause of an error, an unbound variable or text in arithmetic; empty if it is unknown."""
    missing = [name for name in names if name not in row]
    if missing:
        return f"?{missing[0]} is unbound"
    texts = [name for name in names if is_literal(row[name]) and not row[name].endswith(">") and _is_compared(name, condition)]
    if not texts:
        return ""
    values = list(dict.fromkeys(writer.text(row[name]) for name in texts))
    reason = f"{' and '.join(values)} {'is' if len(values) == 1 else 'are'} text"
    lexicals = [literal_parts(row[name])[0] for name in texts]
    them = "it" if len(texts) == 1 else "them"
    if all(map(_NUMBER.fullmatch, lexicals)):
        return f"{reason}. xsd:decimal(?{texts[0]}) reads {them}."
    if all(map(_WITH_COMMA.fullmatch, lexicals)):
        return f'{reason}. xsd:decimal(REPLACE(?{texts[0]}, ",", ".")) reads {them}.'
    return reason


def _is_compared(name: Variable, condition: Expression) -> bool:
    """True if a variable is an operand of a comparison or of arithmetic, not of a function."""
    return any(
        isinstance(part, Call) and Var(name) in part.arguments and not part.function[:1].isalpha() and not part.function.startswith("<h")
        for part in subexpressions(condition)
    )
