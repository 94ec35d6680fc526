"""Time of an element that is in its triples: the values of a path of predicates (docs/inputs.md).

Cost: a pass over the triples for each step of the path, and 0.3 µs a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from dotr.model.terms import PROV, XSD, Term, Triple, literal_parts
from dotr.model.time import Micros, Unit
from dotr.streams.records import InputFile, Times
from dotr.streams.times import parse_date_time, parse_number, parse_time

GENERATED_AT_TIME: Final = f"<{PROV}generatedAtTime>"
_SHOWN: Final = "prov:generatedAtTime"
_STEP: Final = re.compile(r"(\^?)(<[^>]*>)")
_DATE: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(Z|[+-][0-9]{2}:[0-9]{2})?")
_LONGEST_DATE: Final = len("2024-05-01+02:00")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DATE_TIMES: Final = frozenset(XSD + name for name in ("dateTime", "dateTimeStamp", "date"))
_NUMBERS: Final = frozenset(XSD + name for name in ("decimal", "double", "float"))
_NO_TIMES: Final = frozenset(XSD + name for name in ("gYear", "boolean", "hexBinary", "base64Binary"))
"""Datatypes of which a value may look like an integer, and is no time."""


class ElementTime:
    """The time of an element by the settings of its input.

    - `written`: True if the configuration names the path.
    - `predicate`: the only step of the path, as a term; None for a longer path.

    >>> from dotr.streams.records import Format, GraphSettings
    >>> settings = GraphSettings("<http://e/effective>/<http://e/v>", times=Times.LATEST)
    >>> time = ElementTime(InputFile("in", "", Format.TURTLE, graphs=settings))
    >>> effective, issued = ("<a>", "<http://e/effective>", "_:e"), ("<a>", "<http://e/issued>", "_:i")
    >>> time.values([effective, issued, ("_:e", "<http://e/v>", '"5"'), ("_:i", "<http://e/v>", '"6"')])
    ['"5"']
    >>> time.of(['"5"', '"1970-01-01T00:00:07Z"'])
    7000000
    """

    __slots__ = ("_choice", "_shown", "_steps", "_unit", "predicate", "written")

    def __init__(self, spec: InputFile) -> None:
        path = spec.graphs.time if spec.graphs.sent_time is None else ""
        self.written = bool(path)
        self._steps = [(found[2], bool(found[1])) for found in _STEP.finditer(path or GENERATED_AT_TIME)]
        self.predicate = self._steps[0][0] if len(self._steps) == 1 else None
        self._shown = _SHOWN if self.predicate == GENERATED_AT_TIME else path
        self._unit = spec.unit
        self._choice = spec.graphs.times

    def values(self, triples: Sequence[Triple]) -> list[Term]:
        """The terms at the end of the path, from any subject."""
        reached: dict[Term, None] | None = None
        for predicate, is_inverse in self._steps:
            pairs = [(each[2], each[0]) if is_inverse else (each[0], each[2]) for each in triples if each[1] == predicate]
            reached = {end: None for start, end in pairs if reached is None or start in reached}
        return list(reached or ())

    def read(self, values: Iterable[Term]) -> tuple[set[Micros], ValueError | None]:
        """The distinct times (µs since 1970) among values of the path, and the first error."""
        times, invalid = set[Micros](), None
        for value in dict.fromkeys(values):
            try:
                times.add(time_of_term(value, self._unit, self._shown))
            except ValueError as error:
                invalid = invalid or error
        return times, invalid

    def chosen(self, times: Collection[Micros], missing: str = "") -> Micros:
        """The time of an element with these distinct times (µs since 1970).

        Raises ValueError where there are several and the input does not choose one, or where there
        is none, with the reason `missing`.
        """
        if not times:
            raise ValueError(missing or f"it has no {self._shown}")
        if len(times) > 1 and self._choice is Times.ONE:
            raise ValueError(f"it has more than one {self._shown} (times: latest or earliest chooses one)")
        return min(times) if self._choice is Times.EARLIEST else max(times)

    def of(self, values: Iterable[Term], missing: str = "") -> Micros:
        """The time of an element with these values of the path, as `chosen`; raises ValueError also
        where one of them is no time.
        """
        if len(distinct := list(values)) == 1:  # that of nearly all elements
            return time_of_term(distinct[0], self._unit, self._shown)
        times, invalid = self.read(distinct)
        if invalid is not None:
            raise invalid
        return self.chosen(times, missing)


def time_of_term(term: Term, unit: Unit, path: str = _SHOWN) -> Micros:
    """Time (µs since 1970) of a literal of any datatype, at the end of a path: a date-time, a date
    (its midnight), or a number of a unit; raises ValueError with the reason.

    >>> time_of_term('"7"^^<http://www.w3.org/2001/XMLSchema#integer>', Unit.SECOND)
    7000000
    >>> time_of_term('"1970-01-02"^^<http://www.w3.org/2001/XMLSchema#date>', Unit.SECOND)
    86400000000
    >>> time_of_term('"2024"^^<http://www.w3.org/2001/XMLSchema#gYear>', Unit.SECOND)
    Traceback (most recent call last):
    ValueError: its prov:generatedAtTime is no time: "2024"^^<http://www.w3.org/2001/XMLSchema#gYear>
    """
    if term[0] == '"':
        text, datatype, _ = literal_parts(term)
        try:
            if len(text) <= _LONGEST_DATE and (date := _DATE.fullmatch(text)):
                return parse_date_time(f"{date[1]}T00:00:00{date[2] or ''}")
            if datatype in _DATE_TIMES:
                return parse_date_time(text)
            if datatype in _NUMBERS and _NUMBER.fullmatch(text):
                return parse_number(text, unit)
            if datatype not in _NO_TIMES:
                return parse_time(text, unit)
        except ValueError as error:
            raise ValueError(f"its {path} cannot be read: {error}") from None
    raise ValueError(f"its {path} is no time: {term if term[0] != '_' else 'a blank node'}")
