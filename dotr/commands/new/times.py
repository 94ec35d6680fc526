"""Guesses of the time of a user's records: a cell, or a template of cells.

Idea: each cell that has times is a candidate, and so is a date beside a time of day. That one is
taken which most records have, which ascends most, and which has the finest steps, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from dotr.commands.new.sample import Cells, Sample
from dotr.model.time import Micros, Unit
from dotr.streams.time_formats import time_parser
from dotr.streams.times import has_zone

_CLOCKS: Final = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H.%M.%S", "%I:%M:%S %p", "%I:%M %p")
_WITH_DOTS_OR_DASHES: Final = ("%Y-%m-%d", "%d.%m.%Y", "%d-%m-%Y", "%d.%m.%y", "%d-%b-%Y")
_DATES: Final = (*_WITH_DOTS_OR_DASHES, "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%Y%m%d", "%d %b %Y")
_FORMS: Final = (
    *(f"{date} {clock}" for date in _DATES for clock in _CLOCKS),
    *("%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%S%z", "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y"),
    *(f"{date} %H:%M:%S{behind}" for date in _DATES for behind in (" %z", " UTC", ".%f %z", ".%f UTC")),
    *("%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT", *_DATES),
)
_ACCESS: Final = "[%d/%b/%Y:%H:%M:%S"
_PARTS: Final = (
    ("", "%Y", "year|yr|jahr|année|año"),
    ("-", "%m", "month|mon|mo|monat|mois|mes"),
    ("-", "%d", "day|tag|jour|día"),
    (" ", "%H", "hour|hr|stunde|heure|hora"),
    (":", "%M", "minute|min"),
    (":", "%S", "second|sec|sekunde"),
)
_NAMED: Final = re.compile(
    r"time|date|zeit|datum|stamp|epoch|heure|fecha|hora|created|observed|changed|updated|^ts$|^at$|^t$|_at$|[a-z]At$|時|时|日期|врем|дата",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_DIGITS: Final = re.compile(r".*[0-9].*[0-9].*[0-9]")
_YEARS: Final = (315_532_800, 4_102_444_800)
"""The years 1980 and 2100 in seconds since 1970."""

_EPOCHS: Final = {"s": ("unix", 1), "ms": ("unix_ms", 1_000), "us": ("unix_us", 1_000_000), "ns": ("unix_ns", 1_000_000_000)}
"""The form of numbers since 1970 by their unit, and how many units a second has."""

_TRIED: Final = 200


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """The cells of times.

    - `written`: the key `time`; several are a list.
    - `form`: the key `time_format`; None for ISO 8601 and for integers of the unit.
    - `unit`: that of integers.
    - `times`: those of the sample in µs since 1970, None where a record has none that can be read.
    - `count`: the number of records that have the cells; `rank`: 0 for dates and for numbers of a
      column that is called a time, 1 for other numbers that may be epochs, 2 for small integers.
    - `zoned`: each time has its zone, or is a number.
    """

    written: tuple[str, ...]
    form: str | None
    unit: str
    times: tuple[Micros | None, ...]
    count: int
    rank: int
    zoned: bool
    integers: bool

    @property
    def cells(self) -> frozenset[str]:
        """The cells that the time is made of."""
        return frozenset(cell for each in self.written for cell in re.findall(r"\{([^{}]*)\}", each) or [each])

    @property
    def is_around(self) -> bool:
        """True if the time is that of the whole object around the items of a list."""
        return all(each.startswith("^.") and not each.endswith("[]") for each in self.written)

    @property
    def ascent(self) -> float:
        """The share of changes that go up; where most go down, somewhat less than theirs."""
        known = [time for time in self.times if time is not None]
        ups = [after > before for before, after in pairwise(known) if after != before]
        return max(sum(ups), 0.9 * (len(ups) - sum(ups))) / max(1, len(ups))

    def described(self, others: Sequence[TimeGuess], records: int) -> Iterator[str]:
        """Sentences about the guess; `others` are those that were not taken, of so many records."""
        form = f"in the form {self.form}" if self.form else f"an integer in {self.unit}" if self.integers else "a date-time"
        also = ", ".join(f"{each.written[0]} ({each.count:,} of {records:,})" for each in others)
        yield f"The time is {' or '.join(self.written)}, {form}{also and f' (also: {also})'}."
        if not self.zoned:
            yield "Its times have no zone and are read as UTC: time_zone: Europe/Berlin, for example, changes that."
        if self.form and (order := re.search(r"%[dm]/%[dm]", self.form)):
            yield f"The {'day' if order[0].startswith('%d') else 'month'} is taken to come first."


def time_of(sample: Sample) -> TimeGuess | None:
    """The guess of the time; None where no cell has times.

    >>> cells = {"Date": ["1.3.2024", "2.3.2024"], "Time": ["08:00", "07:00"], "v": ["1", "2"]}
    >>> guess = time_of(Sample({}, cells, 2, {}, ()))
    >>> guess.written, guess.form
    (('{Date} {Time}',), '%d.%m.%Y %H:%M')
    """
    found = candidates(sample)
    rank = min(((each.is_around, each.rank) for each in found), default=None)
    found = [each for each in found if (each.is_around, each.rank) == rank]
    most = max((each.count for each in found), default=0)
    found = [each for each in found if each.count >= 0.98 * most]
    highest = max((each.ascent for each in found), default=0)
    found = [each for each in found if each.ascent >= highest - 0.1]
    best = max(found, key=lambda each: (len(set(each.times)), len(each.cells), any(map(_NAMED.search, each.cells))), default=None)
    return best and _with_others(best, candidates(sample), sample.count)


def _with_others(best: TimeGuess, found: Sequence[TimeGuess], count: int) -> TimeGuess:
    """The guess with the cells that have the time where its own cell has none: of Kubernetes'
    events eventTime or lastTimestamp."""
    for each in found:
        exclusive = all(one is None or other is None for one, other in zip(best.times, each.times, strict=True))
        if best.form is each.form is None and not (best.integers or each.integers) and exclusive and each.count and best.count < count:
            times = tuple([one if other is None else other for one, other in zip(best.times, each.times, strict=True)])
            zoned = best.zoned and each.zoned
            best = TimeGuess((*best.written, *each.written), None, "s", times, best.count + each.count, 0, zoned, integers=False)
    return best


def candidates(sample: Sample) -> list[TimeGuess]:
    """The cells, and templates of cells, that have times in at least half of the records that have
    them."""
    cells, order = sample.cells, list(sample.cells)
    names = {cell: sample.names.get(cell, cell) for cell in cells}
    texts = {cell: [str(value) for value in values if value is not None and not isinstance(value, bool)] for cell, values in cells.items()}
    found = [_of_numbers(cell, cells[cell], named=bool(_NAMED.search(names[cell]))) for cell in order]
    found = [guess or _guessed(cell, cells, _form_of(texts[cell], ("", *_FORMS))) for cell, guess in zip(order, found, strict=True)]
    clocks = {cell: _form_of(texts[cell], _CLOCKS) for cell in order}
    clocks |= {cell: "%H" for cell in order if clocks[cell] is None and re.fullmatch(_PARTS[3][2], names[cell], re.IGNORECASE)}
    for at, date in enumerate(found[: len(order)]):
        near = min((each for each in order if clocks[each]), key=lambda each: abs(order.index(each) - at), default=None)
        if date is not None and date.form in _DATES and near is not None:
            whole = "" if date.form == "%Y-%m-%d" and clocks[near] in _CLOCKS[:3] else f"{date.form} {clocks[near]}"
            found.append(_guessed(f"{{{order[at]}}} {{{near}}}", cells, whole))
    for cell, other in pairwise(order):  # [01/Mar/2024:12:00:00 +0100] of a web server's log
        if _form_of(texts[cell], [_ACCESS]):
            found.append(_guessed(f"{{{cell}}} {{{other}}}", cells, f"{_ACCESS} %z]"))
    parts = [next((each for each in order if re.fullmatch(words, names[each], re.IGNORECASE)), None) for _, _, words in _PARTS]
    given = _PARTS[: next((number for number, part in enumerate(parts) if part is None), len(parts))]
    if len(given) > 2:
        written = "".join(f"{mark}{{{part}}}" for (mark, _, _), part in zip(given, parts, strict=False))
        found.append(_guessed(written, cells, "".join(mark + form for mark, form, _ in given)))
    return [each for each in found if each and each.count and 2 * sum(time is not None for time in each.times) >= each.count]


def _of_numbers(cell: str, values: Sequence[Any], *, named: bool) -> TimeGuess | None:
    """The guess of a cell of numbers: epochs in the years 1980 to 2100, or integers of a cell that
    is called a time."""
    texts = [str(value) for value in values if value is not None]
    numbers = [text for text in texts if _NUMBER.fullmatch(text)]
    if not numbers or 2 * len(numbers) < len(texts):
        return None
    for unit, (form, factor) in _EPOCHS.items():
        if 2 * sum(_YEARS[0] * factor <= float(text) <= _YEARS[1] * factor for text in numbers) > len(texts):
            whole = unit != "ns" and all(map(_INTEGER.fullmatch, numbers))
            times = tuple([_micros(value, factor) for value in values])
            written, unit = (None, unit) if whole else (form, "s")
            return TimeGuess((cell,), written, unit, times, len(texts), 1 - named, zoned=True, integers=whole)
    if named and all(map(_INTEGER.fullmatch, numbers)) and not all(len(text) in (8, 12, 14) for text in numbers):
        times = tuple([_micros(value, 1) for value in values])
        return TimeGuess((cell,), None, "s", times, len(texts), 2, zoned=True, integers=True)
    return None


def _micros(value: Any, factor: int) -> Micros | None:
    text = str(value)
    return int(Decimal(text) * 1_000_000 // factor) if _NUMBER.fullmatch(text) and abs(float(text)) < 1e20 else None


def _form_of(texts: Sequence[str], forms: Sequence[str]) -> str | None:
    """The form of most texts, the first of several; empty for ISO 8601, None for none."""
    tried = list(dict.fromkeys(text for text in texts if _DIGITS.match(text) and len(text) < 60))[:_TRIED]
    best: tuple[int, str | None] = (0, None)
    for form in forms if 2 * len(tried) >= len(set(texts[: len(tried) + 1])) else ():
        if any(_parsed(text, form) is not None for text in tried[:5]):
            count = sum(_parsed(text, form) is not None for text in tried)
            if count == len(tried):
                return form
            best = max(best, (count, form), key=lambda each: each[0])
    return best[1]


def _parsed(text: str, form: str) -> Micros | None:
    try:
        return time_parser(form or None, None)(text, Unit.SECOND) if form or text[4:5] == "-" else None
    except ValueError:
        return None


def _guessed(written: str, cells: Cells, form: str | None) -> TimeGuess | None:
    """The guess of a cell or a template in a form; None without one."""
    if form is None:
        return None
    used = re.findall(r"\{([^{}]*)\}", written)
    rows = zip(*(cells[cell] for cell in used), strict=True) if used else [(value,) for value in cells[written]]
    blank = re.sub(r"\{[^{}]*\}", "{}", written) if used else "{}"
    texts = [None if None in row else blank.format(*row) for row in rows]
    times = tuple([None if text is None else _parsed(text, form) for text in texts])
    known = [text for text in texts if text is not None]
    zoned = all(map(has_zone, known)) if not form else any(zone in form for zone in ("%z", "UTC", "GMT"))
    return TimeGuess((written,), form or None, "s", times, len(known), 0, zoned=zoned, integers=False)
