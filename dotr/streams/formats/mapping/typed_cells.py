"""Typed cells of a map, such as `{Wert:decimal}`: from the text of a cell to a term in canonical form
(live.md, 2; semantics.md, 3).

Idea: each typed cell of a map is a function from texts to terms, cached by the text. A text that is
not of the type is an error of its element; of an optional cell, `{Wert:decimal?}`, it is False,
which leaves out the triples and is counted.
Invariant: blanks around a text mean nothing, but in a string; an empty text is no value, None.
Cost: about 0.1 µs for a cached text, a few µs otherwise; memory is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import lru_cache, partial
from math import isinf
from typing import Final, Literal, TypeAlias, assert_never

from dotr.evaluation.codegen.tree import Assign, CodeNode, Emit, IfElse
from dotr.model import dataclass
from dotr.model.templates import Cell, CellType, Template, TemplateSlot, TemplateTerm, leaves
from dotr.model.terms import XSD, Term, literal
from dotr.model.time import Clock, Unit
from dotr.streams.formats.mapping.map_terms import absolute_iri
from dotr.streams.records import InputFile
from dotr.streams.time_formats import date_form, time_parser

ReadCell: TypeAlias = Callable[[str | None], Term | Literal[False] | None]
"""A function from the text of a cell to its term; None for an empty one, False for a wrong one of an
optional cell. Raises ValueError for another wrong one."""

NO_TEXT: Final = "\0"
"""The beginning of what stands for a value that has no text: an object or a list of JSON."""

_CACHED: Final = 1 << 14
_USUAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_USUAL_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,8})\.[0-9]{0,8}[1-9]|0|-?[1-9][0-9]{0,17}")
_USUAL_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}Z")
"""Texts that are canonical as they stand: `7`, `-7.5`, but not `007`, `7.50`; times if there is such
a day."""
_USUAL_DOUBLE: Final = re.compile(r"(-?[1-9])([0-9]{0,7})\.([0-9]{0,6}[1-9])")
"""Texts of at most 15 digits, which are those of the canonical form: `-72.5` is `-7.25E1`."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE: Final = re.compile(rf"(?:{_DECIMAL.pattern})(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_DATED: Final = Clock(dated=True)


@dataclass(frozen=True, slots=True)
class CellSettings:
    """Settings of an input by which texts of typed cells are read.

    - `input`: the name of the input, by which texts that are left out are counted.
    - `decimal`: the mark of decimals.
    - `time_format`, `time_zone`, `unit`: as those of the times of the input.
    """

    input: str = ""
    decimal: str = "."
    time_format: str | None = None
    time_zone: str | None = None
    unit: Unit = Unit.SECOND

    @staticmethod
    def of(file: InputFile, template: Template) -> CellSettings:
        """The settings of an input; the same for all inputs whose maps have no types."""
        if file.map is None or not any(isinstance(slot, Cell) and slot.type is not None for slot in leaves(template)):
            return PLAIN
        return CellSettings(file.input, file.map.decimal, file.map.time_format, file.map.time_zone, file.unit)


PLAIN: Final = CellSettings()


@lru_cache(256)
def reader_of(cell: Cell, settings: CellSettings) -> ReadCell:
    """The function from the texts of a typed cell to terms.

    >>> read = reader_of(Cell.of("Wert:decimal"), CellSettings(decimal=","))
    >>> print(read(" 07,50 "), read("  "))
    "7.5"^^<http://www.w3.org/2001/XMLSchema#decimal> None
    >>> read("n/a")
    Traceback (most recent call last):
    ValueError: Wert: 'n/a' is no decimal
    >>> reader_of(Cell.of("Wert:decimal?"), CellSettings())("n/a")
    False
    """
    assert cell.type is not None
    make, is_string = _maker(cell.type, settings), cell.type is CellType.STRING
    noun = "no absolute IRI" if cell.type is CellType.IRI else f"no {cell.type.value}"

    @lru_cache(_CACHED)
    def read(text: str | None) -> Term | Literal[False] | None:
        value = text if text is None or is_string else text.strip()
        if not value:
            return None
        try:
            term = make(value)
        except ValueError:
            term = None
        if term is None and not cell.optional:
            assert text is not None
            shown = f"{text[:40]}…" if len(text) > 40 else text
            raise ValueError(f"{cell.column}: {f'its {text[1:]}' if text.startswith(NO_TEXT) else repr(shown)} is {noun}")
        return False if term is None else term

    return read


def _maker(kind: CellType, settings: CellSettings) -> Callable[[str], Term | None]:
    """The function from a text to a term of a type; None or ValueError for a wrong text."""
    # A planner of Spark reads times alone, and needs no expressions.
    from dotr.evaluation.expressions.values.terms import write
    from dotr.evaluation.expressions.values.times import time_term

    def number(pattern: re.Pattern[str], text: str) -> str:
        """The text with a dot, if it is a number by a pattern; raises ValueError."""
        if settings.decimal != ".":
            text = text.replace(".", "x").replace(settings.decimal, ".")
        if not pattern.fullmatch(text):
            raise ValueError
        return text

    match kind:
        case CellType.STRING:
            return lambda text: None if text.startswith(NO_TEXT) else literal(text)
        case CellType.IRI:
            return absolute_iri
        case CellType.INTEGER:
            end = f'"^^<{XSD}integer>'
            return lambda text: f'"{text}{end}' if _USUAL_INTEGER.fullmatch(text) else write(int(Decimal(number(_WHOLE, text))))
        case CellType.DECIMAL:
            if settings.decimal != ".":
                return lambda text: write(Decimal(number(_DECIMAL, text)))
            mark = f'"^^<{XSD}decimal>'
            return lambda text: f'"{text}{mark}' if _USUAL_DECIMAL.fullmatch(text) else write(Decimal(number(_DECIMAL, text)))
        case CellType.DOUBLE:
            usual = _USUAL_DOUBLE.fullmatch if settings.decimal == "." else lambda text: None
            mark = f'"^^<{XSD}double>'
            return lambda text: (
                f'"{found[1]}.{found[2]}{found[3]}E{len(found[2])}{mark}'
                if (found := usual(text))
                else None
                if isinf(value := float(number(_DOUBLE, text)))
                else write(value)
            )
        case CellType.BOOLEAN:
            return lambda text: None if (value := _BOOLEANS.get(text.lower())) is None else write(value)
        case CellType.DATE_TIME:
            parse = time_parser(settings.time_format, settings.time_zone, fractions=True)
            mark = f'"^^<{XSD}dateTime>'
            return lambda text: (
                f'"{text}{mark}'
                if settings.time_format is None and _USUAL_TIME.fullmatch(text) and datetime.fromisoformat(text)
                else time_term(parse(text, settings.unit), _DATED)
            )
        case CellType.DATE:
            form = date_form(settings.time_format)
            return lambda text: _date(text, form)
        case _:
            assert_never(kind)


def _date(text: str, form: str | None) -> Term | None:
    """The date of a text in a form, or in ISO 8601; None or ValueError for another text.

    >>> print(_date("3.2.2024", "%d.%m.%Y"), _date("2024-02-03+00:00", None))
    "2024-02-03"^^<http://www.w3.org/2001/XMLSchema#date> "2024-02-03Z"^^<http://www.w3.org/2001/XMLSchema#date>
    """
    if form is not None:
        try:
            return literal(datetime.strptime(text, form).date().isoformat(), XSD + "date")
        except ValueError:
            pass
    from dotr.evaluation.expressions.values.datetimes import Date, read_date
    from dotr.evaluation.expressions.values.terms import write

    value = read_date(text)
    return write(value) if isinstance(value, Date) else None


def typed_cells(slot: TemplateSlot) -> Iterator[Cell]:
    """The typed cells of a term of a template."""
    if isinstance(slot, TemplateTerm):
        for part in (slot.subject, slot.predicate, slot.object):
            yield from typed_cells(part)
    elif isinstance(slot, Cell) and slot.type is not None:
        yield slot


def typed_variable(variable: str, cell: Cell) -> str:
    """The variable of the term of a typed cell, whose value is in a variable.

    >>> typed_variable("c2", Cell.of("Wert:decimal?"))
    'c2_decimal_or_none'
    """
    assert cell.type is not None
    return f"{variable}_{cell.type.value}{'_or_none' if cell.optional else ''}"


def typed_code(cell: Cell, variable: str, settings: CellSettings, names: dict[str, object], values: str = "{}") -> list[CodeNode]:
    """The statements that assign the term of a typed cell, or None or False, to its variable; the
    functions that they call are added to `names`.

    `values`: the code of the text of the variable `{}`, where it may have other values.

    >>> from dotr.evaluation.codegen.printer import printed
    >>> from dotr.evaluation.codegen.tree import GeneratedFunction, Return
    >>> block = typed_code(Cell.of("Wert:decimal?"), "c2", CellSettings(), {})
    >>> print(printed(GeneratedFunction("term", "c2", [*block, Return("c2_decimal_or_none")])))
    def term(c2):
        c2_decimal_or_none = read_c2_decimal_or_none(c2)
        if c2_decimal_or_none is False:
            left_out('Wert')
        return c2_decimal_or_none
    <BLANKLINE>
    """
    name = typed_variable(variable, cell)
    names[f"read_{name}"] = reader_of(cell, settings)
    names["left_out"] = partial(count_left_out, settings.input)
    assigned: list[CodeNode] = [Assign(name, f"read_{name}({values.format(variable)})")]
    if cell.optional:
        assigned.append(IfElse([(f"{name} is False", [Emit("left_out", repr(cell.column))])]))
    return assigned


# Texts that optional cells have left out. They stay in the process until a runtime drains them;
# workers of Spark send them with the rows of a batch.

LeftOut: TypeAlias = dict[tuple[str, str], int]
"""Numbers of texts that are left out, by the names of input and column."""

_left_out: Final[Counter[tuple[str, str]]] = Counter()


def count_left_out(name: str, column: str) -> None:
    """Count a text that an optional cell of an input has left out."""
    _left_out[name, column] += 1


def drain_left_out() -> LeftOut:
    """The counts since the last call.

    >>> _ = drain_left_out()
    >>> count_left_out("readings", "Wert")
    >>> drain_left_out(), drain_left_out()
    ({('readings', 'Wert'): 1}, {})
    """
    if not _left_out:
        return {}
    found = dict(_left_out)
    _left_out.clear()
    return found
