"""Guesses about a user's own file, a CSV or JSON export: delimiter, encoding, time, values.

Idea: the first records decide. Every guess is reported as a sentence, so that a user can correct
it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from dotr.errors.diagnostics import refuse
from dotr.model.time import Micros, Unit
from dotr.streams.formats.json.cuts import document_cuts, has_object_per_line, line_cuts
from dotr.streams.formats.json.records import DECODER
from dotr.streams.formats.lines import open_lines
from dotr.streams.formats.map_terms import JsonNumber
from dotr.streams.records import START
from dotr.streams.times import has_zone, time_parser

SAMPLE: Final = 1_000
"""Records that are read for the guesses."""

_FORMS: Final = (
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d-%m-%Y %H:%M:%S",
    "%d-%m-%Y %H:%M",
    "%Y%m%d%H%M%S",
    "%Y%m%dT%H%M%S",
    "%d.%m.%Y",
    "%Y-%m-%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
)
_TIME_NAMES: Final = re.compile(r"time|date|zeit|datum|stamp|^ts$|^at$|^t$|heure|fecha|created|observed", re.IGNORECASE)
_COMMA_NUMBER: Final = re.compile(r"-?[0-9]+,[0-9]+")
_DOT_NUMBER: Final = re.compile(r"-?[0-9]+\.[0-9]+")
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_YEARS: Final = (315_532_800, 4_102_444_800)
"""The years 1980 and 2100 in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class TimeGuess:
    """The column or path of times.

    - `form`: as of `datetime.strptime`; None for ISO 8601 and for integers.
    - `unit`: that of integers.
    - `lateness`: how much an element of the sample is behind one before it, at most, in µs.
    - `zoned`: a time has its zone, or is an integer.
    """

    name: str
    form: str | None
    unit: str
    lateness: Micros
    zoned: bool
    integers: bool


@dataclass(frozen=True, slots=True)
class ValueGuess:
    """A column or path with its predicate's local name, and its values in the sample.

    `numeric`: all values are numbers, as floats in `numbers`; `distinct`: the number of values.
    """

    name: str
    predicate: str
    numbers: tuple[float, ...]
    numeric: bool
    distinct: int


@dataclass(frozen=True, slots=True)
class ExportGuess:
    """Guesses of an export, with a sentence for each guess."""

    format: str
    time: TimeGuess
    values: tuple[ValueGuess, ...]
    subject: str = "[]"
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    each: str = ""
    sentences: tuple[str, ...] = ()


def guess(path: str) -> ExportGuess:
    """The guesses about a CSV or JSON file; raises `Refused` for other files and without a time."""
    with closing(open_lines(path, START)) as lines:
        beginning = lines.read(1 << 20)
    if not beginning.strip():
        raise refuse("C308", f"{path} is empty", None, "Name a file with some records.")
    if beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _guess_json(path)
    if b"\0" in beginning:
        raise refuse("C308", f"{path} is neither CSV nor JSON", None, "Export the data as CSV or JSON.")
    return _guess_csv(path, beginning)


# --- CSV ---


def _guess_csv(path: str, beginning: bytes) -> ExportGuess:
    encoding = "utf-8"
    try:
        text = beginning.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(beginning) - 4:
            encoding = "cp1252"
        text = beginning.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    lines = text.splitlines(keepends=True)
    delimiter = max(",;\t|", key=lambda mark: _agreement(lines, mark))
    rows = [row for row in islice(csv.reader(lines, delimiter=delimiter), SAMPLE + 1) if row]
    header = rows[0]
    body = [row for row in rows[1:] if len(row) == len(header)]
    if len(header) < 2 or not body:
        raise refuse("C308", f"{path} has no rows of several columns", None, "The first line of a CSV file names its columns.")
    cells = [cell for row in body for cell in row]
    commas, dots = sum(bool(_COMMA_NUMBER.fullmatch(cell)) for cell in cells), sum(bool(_DOT_NUMBER.fullmatch(cell)) for cell in cells)
    decimal = "," if delimiter != "," and commas > dots else "."
    columns = {name: [row[number] for row in body] for number, name in enumerate(header) if header.count(name) == 1 and _usable(name)}
    time = _time_of(path, columns)
    values = _values_of({name: column for name, column in columns.items() if name != time.name}, decimal)
    mark = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a bar"}[delimiter]
    sentences = [f"{path} is CSV: {len(header)} columns, separated by {mark}."]
    if decimal == ",":
        sentences.append("Decimals have a comma.")
    if encoding != "utf-8":
        sentences.append("It is not UTF-8: it is read as windows-1252 (encoding).")
    return ExportGuess("csv", time, values, "[]", delimiter, decimal, encoding, "", (*sentences, *_time_sentences(time)))


def _usable(name: str) -> bool:
    return bool(name) and not re.search(r"[{}\r\n]", name)


def _agreement(lines: Sequence[str], delimiter: str) -> tuple[int, int]:
    """The fit of a delimiter: the number of leading lines with as many columns as the header, 0 if
    the header has a single one, and the number of columns.
    """
    rows = list(islice(csv.reader(lines, delimiter=delimiter), 50))
    columns = len(rows[0]) if rows else 0
    return (sum(len(row) == columns for row in rows), columns) if columns > 1 else (0, 0)


# --- JSON ---


def _guess_json(path: str) -> ExportGuess:
    messages = list(islice(_messages(path), SAMPLE))
    if not messages:
        raise refuse("C308", f"{path} has no JSON object that can be read", None, "Export an object a line, or an array of objects.")
    listed = _list_of_objects(messages[0])
    items: list[dict[str, Any]] = messages
    if listed:
        items = [item for message in messages for item in message.get(listed) or () if isinstance(item, dict)][:SAMPLE]
    columns: dict[str, list[str]] = {}
    numbers: set[str] = set()
    for item in items:
        for name, value in _scalars(item, ""):
            columns.setdefault(name, []).append(str(value))
            if not isinstance(value, JsonNumber):
                numbers.discard(name)
            elif len(columns[name]) == 1:
                numbers.add(name)
    time = _time_of(path, columns)
    rest = {name: column for name, column in columns.items() if name != time.name}
    subject = "[]"
    for name in ("id", "@id"):
        if all(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:\S+$", value) for value in rest.get(name, ["-"])):
            subject = f"<{{{_quoted(name)}}}>"
            del rest[name]
    values = tuple(each if each.name in numbers else replace(each, numbers=(), numeric=False) for each in _values_of(rest, "."))
    each = f"{_quoted(listed)}[]" if listed else ""
    what = f"each item of {each} is an element" if each else "each object is an element"
    sentences = [f"{path} is JSON: {what}."]
    return ExportGuess("json", time, values, subject, each=each, sentences=(*sentences, *_time_sentences(time)))


def _messages(path: str) -> Iterator[dict[str, Any]]:
    with closing(open_lines(path, START)) as lines:
        cuts = line_cuts if has_object_per_line(lines, 1 << 23) else document_cuts
    with closing(open_lines(path, START)) as lines:
        for cut in cuts(lines, 0, 1, 1 << 23):
            try:
                message = DECODER.decode(cut.raw.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict):
                yield message


def _list_of_objects(message: dict[str, Any]) -> str:
    """The name of a member that is a list of objects, if the message itself has no time; else
    empty."""
    if any(_TIME_NAMES.search(name) for name, _ in _scalars(message, "")):
        return ""
    for name, value in message.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return name
    return ""


def _scalars(value: dict[str, Any], before: str) -> Iterator[tuple[str, object]]:
    """The paths of an object that lead to a value, and the values; lists are left out."""
    for name, member in value.items():
        path = before + _quoted(name)
        if isinstance(member, dict):
            yield from _scalars(member, path + ".")
        elif isinstance(member, (str, bool)) and "{" not in name and "}" not in name:
            yield path, member


def _quoted(name: str) -> str:
    """A member's name as a step of a path.

    >>> _quoted("room"), _quoted("a.b")
    ('room', '"a.b"')
    """
    return name if re.fullmatch(r'[^.\[\]{}"^$\s][^.\[\]{}"]*', name) else json.dumps(name, ensure_ascii=False)


# --- times and values ---


def _time_of(path: str, columns: dict[str, list[str]]) -> TimeGuess:
    """The time column: the first whose name or values look like times; raises `Refused`."""
    ranked = sorted(columns, key=lambda name: not _TIME_NAMES.search(name))
    for name in ranked:
        texts = [text for text in columns[name] if text]
        named = bool(_TIME_NAMES.search(name))
        found = _form_of(texts, named=named)
        if found is not None:
            form, unit, parse = found
            times = [parse(text, unit) for text in texts]
            latest, lateness = times[0], 0
            for time in times:
                latest = max(latest, time)
                lateness = max(lateness, latest - time)
            integers = form is None and all(map(_INTEGER.fullmatch, texts))
            zoned = integers or (form is None and all(map(has_zone, texts)))
            return TimeGuess(name, form, _UNIT_WORDS[unit], lateness, zoned, integers)
    shown = ", ".join(list(columns)[:20])
    raise refuse("C308", f"{path} has no column of times: {shown}", None, "Write the configuration by hand: docs/inputs.md.")


_UNIT_WORDS: Final = {Unit.SECOND: "s", Unit.MILLISECOND: "ms", Unit.MICROSECOND: "us"}


def _form_of(texts: Sequence[str], *, named: bool) -> tuple[str | None, Unit, Callable[[str, Unit], Micros]] | None:
    """The format and unit in which all texts are times, and their parser; None if there is none.

    Integers are times if the column is `named` like one, or if they are in the years 1980 to 2100.
    """
    if not texts:
        return None
    if all(map(_INTEGER.fullmatch, texts)):
        for unit, factor in ((Unit.SECOND, 1), (Unit.MILLISECOND, 1_000), (Unit.MICROSECOND, 1_000_000)):
            if all(_YEARS[0] * factor <= int(text) <= _YEARS[1] * factor for text in texts):
                return None, unit, time_parser(None, None)
        if named and not all(len(text) in (8, 14) for text in texts):
            return None, Unit.SECOND, time_parser(None, None)
    for form in (None, *_FORMS):
        parse = time_parser(form, None)
        try:
            for text in texts:
                if form is None and not text[4:5] == "-":
                    raise ValueError
                parse(text, Unit.SECOND)
        except ValueError:
            continue
        return form, Unit.SECOND, parse
    return None


def _values_of(columns: dict[str, list[str]], decimal: str) -> tuple[ValueGuess, ...]:
    """The columns with values, each with a unique local name of a predicate."""
    values = []
    predicates: set[str] = set()
    for name, column in columns.items():
        texts = [text for text in column if text]
        if not texts:
            continue
        numbers = [_number(text, decimal) for text in texts]
        predicate = _local_name(name)
        count = 1
        while predicate in predicates:
            count += 1
            predicate = f"{_local_name(name)}{count}"
        predicates.add(predicate)
        numeric = all(number is not None for number in numbers)
        known = tuple(number for number in numbers if number is not None) if numeric else ()
        values.append(ValueGuess(name, predicate, known, numeric, len(set(texts))))
    return tuple(values)


def _number(text: str, decimal: str) -> float | None:
    if re.fullmatch(r"-?(?:0|[1-9][0-9]*)([.,][0-9]+)?", text) and ("." if decimal == "," else ",") not in text:
        return float(text.replace(",", "."))
    return None


def _local_name(name: str) -> str:
    """The local name of a predicate for a column or path.

    >>> _local_name("Avg Speed (km/h)"), _local_name("temperature.value"), _local_name("2nd")
    ('avgSpeedKmH', 'temperatureValue', 'n2nd')
    """
    words = _WORD.findall(name.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue").replace("ß", "ss"))
    joined = "".join(word if not number else word[:1].upper() + word[1:] for number, word in enumerate(words)) or "value"
    joined = joined[:1].lower() + joined[1:] if not joined[:2].isupper() else joined.lower() if joined.isupper() else joined
    return f"n{joined}" if joined[0].isdigit() else joined


def _time_sentences(time: TimeGuess) -> Iterator[str]:
    form = f"in the form {time.form}" if time.form else f"an integer in {time.unit}" if time.integers else "a date-time"
    yield f"The time is {time.name}, {form}."
    if not time.zoned:
        yield "Its times have no zone and are read as UTC: time_zone: Europe/Berlin, for example, changes that."
    if time.form is not None and re.match(r"%[dm][/]%[dm]", time.form):
        yield f"The {'day' if time.form.startswith('%d') else 'month'} is taken to come first."
    if time.lateness:
        yield f"Records are not in the order of time: the latest comes {time.lateness / 1_000_000:g} s behind (lateness)."
