"""Output events of the Python API, and the conversion of terms to Python values.

Invariant: `python_value` is lossless. A term that no Python type holds exactly remains N-Triples
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from html import escape
from itertools import islice
from typing import Final, TypeAlias

from dotr.errors.terminal import escape_controls
from dotr.evaluation.expressions.values.datetimes import DateTime
from dotr.evaluation.expressions.values.terms import Iri, read
from dotr.model import dataclass
from dotr.model.terms import Label, Prefixes, Term, Variable
from dotr.model.time import Micros
from dotr.syntax.rendering import term_text

# Fragments of HTML for notebooks: tables and text, without scripts, styles and links.
#
# Invariant: all content is escaped here, control characters and invisible ones included.


MOST_ROWS: Final = 50
"""The largest number of rows that a table shows."""


def escaped(text: str) -> str:
    r"""Text as the content of an element.

    >>> escaped("a < b\x1b")
    'a &lt; b\\u001b'
    """
    return escape(escape_controls(text))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    """A table of the first `MOST_ROWS` of `count` rows, and the number of further rows.

    >>> table(["time"], [["12"], ["<"]], 2)
    '<table class="dotr"><thead><tr><th>time</th></tr></thead><tbody><tr><td>12</td></tr><tr><td>&lt;</td></tr></tbody></table>'
    """
    shown = [_row("td", row) for row in islice(rows, MOST_ROWS)]
    if count > MOST_ROWS:
        shown.append(f'<tr><td colspan="{len(head)}">… and {count - MOST_ROWS:,} more</td></tr>')
    return f'<table class="dotr"><thead>{_row("th", head)}</thead><tbody>{"".join(shown)}</tbody></table>'


def paragraph(text: str) -> str:
    """A paragraph.

    >>> paragraph("no events")
    '<p>no events</p>'
    """
    return f"<p>{escaped(text)}</p>"


def preformatted(text: str) -> str:
    """Text with its line breaks and spaces.

    >>> preformatted("a\\n  b")
    '<pre>a\\n  b</pre>'
    """
    return f"<pre>{escaped(text)}</pre>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escaped(cell)}</{tag}>' for cell in cells)}</tr>"


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class IRI(str):
    """An IRI as a Python value: a `str` without angle brackets.

    It may be used as a term in the triples of `Session.advance`.

    >>> room = IRI("http://example.org/roomA")
    >>> room.n3()
    '<http://example.org/roomA>'
    >>> room == "http://example.org/roomA"
    True
    """

    __slots__ = ()

    def n3(self) -> str:
        """The IRI in N-Triples, with angle brackets."""
        return f"<{self}>"

    def __repr__(self) -> str:
        return f"IRI({str(self)!r})"


PythonValue: TypeAlias = int | Decimal | float | bool | str | datetime | IRI


@dataclass(frozen=True, slots=True)
class Event:
    """An output event: one match of a rule, as `Session.advance` and `Session.finish` return it.

    Attributes:
        time: the time of the match's anchor. An `int` that counts the program's unit, or a
            `datetime` in UTC if the session is advanced by date-times, or if the time is no whole
            number of units (half a second in a program whose unit is the minute).
        rule: the name of the rule.
        type: the event type that the rule defines.
        attributes: name to N-Triples text of the term, for each attribute that is bound.
        graph: the output graph as N-Triples, one triple a line.
        prefixes: the program's prefixes, prefix without colon to namespace IRI. A notebook shows
            the event with them; they are no part of its value.

    >>> text = '"21.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    >>> event = Event(12, "R", "Fire", {"room": "<http://example.org/roomA>", "heat": text}, "")
    >>> event.values
    {'room': IRI('http://example.org/roomA'), 'heat': Decimal('21.5')}
    >>> event.attributes["heat"] == text
    True
    """

    time: int | datetime
    rule: str
    type: Label
    attributes: Mapping[Variable, Term]
    graph: str
    prefixes: Prefixes = field(default_factory=dict, compare=False, repr=False)

    @property
    def values(self) -> dict[Variable, PythonValue]:
        """The attributes as Python values, by name; a new dictionary at each call.

        | term | value |
        | --- | --- |
        | IRI | `IRI`, a `str` without angle brackets |
        | xsd:integer and the types derived from it | `int` |
        | xsd:decimal | `Decimal` |
        | xsd:double, xsd:float | `float` |
        | xsd:boolean | `bool` |
        | xsd:string | `str`, without quotes and escapes |
        | xsd:dateTime | `datetime`; naive where the literal has no zone |
        | every other term | its N-Triples text, a `str` |

        The last row applies to blank nodes, triple terms, texts with a language tag, other data
        types, ill-typed literals, and date-times that `datetime` cannot hold exactly (before the
        year 1, finer than a microsecond).
        """
        return {name: python_value(term) for name, term in self.attributes.items()}

    def _repr_html_(self) -> str:
        return _event_table([self])


class Events(list[Event]):
    """The list of events that one call of a session returns; a notebook shows it as a table.

    >>> Events() == []
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _event_table(self) if self else paragraph("no events")


def _event_table(events: Sequence[Event]) -> str:
    """The events in HTML, a row for each, with attributes as Turtle terms."""
    names = list(dict.fromkeys(name for event in events[:MOST_ROWS] for name in event.attributes))
    rows = (
        [str(event.time), event.rule, event.type]
        + [term_text(event.attributes[name], event.prefixes) if name in event.attributes else "" for name in names]
        for event in events
    )
    return table(["time", "rule", "type", *names], rows, len(events))


def python_value(term: Term) -> PythonValue:
    """The Python value of a term by the table of `Event.values`.

    >>> from dotr.model.terms import XSD
    >>> [python_value(f'"1"^^<{XSD}{name}>') for name in ("integer", "byte", "decimal", "double", "float", "boolean", "date")]
    [1, 1, Decimal('1'), 1.0, 1.0, True, '"1"^^<http://www.w3.org/2001/XMLSchema#date>']
    >>> python_value('"warm"'), python_value('"warm"@en'), python_value("_:b0")
    ('warm', '"warm"@en', '_:b0')
    >>> python_value(f'"2024-02-29T12:30:00.5+01:00"^^<{XSD}dateTime>')
    datetime.datetime(2024, 2, 29, 12, 30, 0, 500000, tzinfo=datetime.timezone(datetime.timedelta(seconds=3600)))
    """
    match read(term):
        case bool() | int() | Decimal() | str() as value:
            return value
        case float() as value:
            return float(value)  # xsd:float is a subclass of float
        case Iri():
            return IRI(term[1:-1])
        case DateTime() as value:
            return _datetime(value) or term
        case _:
            return term


def _datetime(value: DateTime) -> datetime | None:
    """The date-time with its own zone; None where `datetime` cannot hold it exactly."""
    micros = value.second * 1_000_000
    if not 1 <= value.year <= 9999 or micros != int(micros):
        return None
    zone = None if value.zone is None else UTC if value.zone == 0 else timezone(timedelta(minutes=value.zone))
    seconds, fraction = divmod(int(micros), 1_000_000)
    return datetime(value.year, value.month, value.day, value.hour, value.minute, seconds, fraction, zone)


def utc(micros: Micros) -> datetime:
    """The date-time in UTC of a time in µs since 1970.

    >>> utc(1_500_000)
    datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.timezone.utc)
    """
    return EPOCH + micros * MICROSECOND
