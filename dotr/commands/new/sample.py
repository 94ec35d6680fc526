"""Samples of a user's own file: its first records, as an input of a configuration would read them.

Idea: a table has the delimiter with which most lines have one number of columns; what is before the
first line with that number is skipped. Of JSON the lists of objects are candidates for `each`.
Every record is flat: its cells are written as in a map.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypeAlias

from dotr.errors.diagnostics import refuse
from dotr.model import dataclass
from dotr.streams.formats.json.cuts import document_cuts, has_object_per_line, line_cuts
from dotr.streams.formats.json.records import DECODER
from dotr.streams.formats.lines import open_lines
from dotr.streams.formats.mapping.json_paths import Step, parse_path, step_text
from dotr.streams.formats.parquet import rows_of
from dotr.streams.records import START

SAMPLE: Final = 1_000
"""Records that are read for the guesses."""

_BYTES: Final = 1 << 20
_DELIMITERS: Final = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a bar", " ": "a blank"}
_ACCESS_LOG: Final = re.compile(r'\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "')
_ACCESS_COLUMNS: Final = ("host", "ident", "user", "time", "zone", "request", "status", "bytes", "referer", "agent")
_DATA: Final = re.compile(r"-?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?|.*[0-9][-/.:][0-9]+[-/.: T].*")
"""A cell that is no name of a column: a number, a date or a time of day."""

_NAME: Final = re.compile(r'(?!["$\s])[^{}"\r\n]+(?<!\s)')
_TYPED: Final = re.compile(r":[A-Za-z]+\??$")
_BETWEEN: Final = re.compile(r"[\s,\x1e]*(?=[{\[])")

Cells: TypeAlias = dict[str, list[Any]]
"""The values of each cell, as it is written in a map, one a record; None where it has none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The first records of a file.

    - `settings`: the keys of its input, `format` among them.
    - `count`: the number of records; `names`: the names of cells that are not written as such.
    - `sentences`: what was guessed.
    - `in_all`: every message has such records.
    """

    settings: Mapping[str, object]
    cells: Cells
    count: int
    names: Mapping[str, str]
    sentences: tuple[str, ...]
    in_all: bool = True


def samples_of(path: str) -> list[Sample]:
    """The samples of a file, the likeliest first; several where a JSON file has several lists.

    Raises:
        Refused: where the file cannot be read (I101), or has no records (C308).
    """
    with closing(open_lines(path, START)) as lines:
        beginning = lines.read(_BYTES)
    if not beginning.strip():
        raise refuse("C308", f"{path} is empty", None, "Name a file with some records.")
    if beginning.startswith(b"PAR1"):
        return [_sample({}, list(islice(rows_of(path), SAMPLE)), f"{path} is Parquet: each row is an element.", "parquet")]
    if beginning.lstrip(b"\xef\xbb\xbf \t\r\n\x1e")[:1] in (b"{", b"["):
        return _json_samples(path)
    if b"\0" in beginning and not beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refuse("C308", f"{path} is neither CSV nor JSON", None, "Export the data as CSV, JSON or Parquet.")
    return [_table(path, beginning)]


# --- tables of text ---


def _table(path: str, beginning: bytes) -> Sample:
    encoding, text = _decoded(beginning)
    lines = list(io.StringIO(text, newline=""))
    if len(beginning) == _BYTES:
        lines.pop()
    settings: dict[str, object] = {"format": "csv"}
    sentences = []
    comments = [line for line in lines if line.startswith("#")]
    if comments:
        settings["comment"] = "#"
        sentences.append(f"{len(comments)} lines begin with # and are left out.")
        lines = [line for line in lines if not line.startswith("#")]
    declared = re.match(r"sep=(.)\r?\n", text)
    delimiter, rows, width = _rows(lines, declared[1] if declared else " " if _ACCESS_LOG.match(text) else "")
    if width < 2:
        values = [line.rstrip("\r\n") for line in lines if line.strip()][:SAMPLE]
        return Sample(
            {"format": "text"}, {"$value": values}, len(values), {"$value": "value"}, (f"{path} is text: each line is an element.",)
        )
    fitting = (number for number, (_, row) in enumerate(rows) if number >= bool(declared) and len(row) in (width, max(2, width - 1)))
    at = next(fitting, 0)
    before, header = rows[at]
    following = [row for _, row in rows[at + 1 :]]
    is_short = len(header) < width
    if is_short and not (following and all(len(row) == width for row in following) and any(map(_DATA.fullmatch, following[0]))):
        at, (before, header) = next((number, row) for number, row in enumerate(rows) if len(row[1]) == width)
        following, is_short = [row for _, row in rows[at + 1 :]], False
    fields = next((line.split()[1:] for line in comments if re.match("#fields?[ \t]", line)), [])
    skipped = before if any(row for _, row in rows[:at]) or declared else 0
    if _ACCESS_LOG.match(text):
        names, following = [*_ACCESS_COLUMNS, *(f"column{number}" for number in range(11, width + 1))][:width], [header, *following]
    elif any(map(_DATA.fullmatch, header)):
        names = fields if len(fields) == width else [f"column{number}" for number in range(1, width + 1)]
        following = [header, *following]
        sentences.append("It has no header: columns names its columns.")
    else:
        names = ["row", *header] if is_short else header
        if is_short:
            skipped += 1
            sentences.append(f"Its header has {len(header)} names for {width} columns: the first is called row.")
        elif skipped:
            sentences.append(f"{'One line is' if skipped == 1 else f'{skipped} lines are'} skipped before the header.")
    if names is not header:
        settings["columns"] = names
    settings |= {"skip": skipped} if skipped else {}
    settings |= {"delimiter": delimiter} if delimiter != "," else {}
    body = [row for row in following if len(row) == width][:SAMPLE]
    found = [cell for row in body for cell in row]
    commas, dots = (sum(bool(re.fullmatch(f"-?[0-9]+{mark}[0-9]+", cell)) for cell in found) for mark in (",", "[.]"))
    if delimiter != "," and commas > dots:
        settings["decimal"] = ","
        sentences.append("Decimals have a comma.")
    if encoding != "utf-8":
        settings["encoding"] = encoding
        sentences.append(f"It is not UTF-8: it is read as {'windows-1252' if encoding == 'cp1252' else encoding} (encoding).")
    written = [
        name if _NAME.fullmatch(name) and names.count(name) == 1 and not _TYPED.search(name) else f"${n}" for n, name in enumerate(names)
    ]
    cells: Cells = {cell: [row[number] or None for row in body] for number, cell in enumerate(written)}
    called = {cell: name or ("index" if cell == "$0" else "column") for cell, name in zip(written, names, strict=True)}
    first = f"{path} is CSV: {width} columns, separated by {_DELIMITERS.get(delimiter, delimiter)}."
    return Sample(settings, cells, len(body), called, (first, *sentences))


def _decoded(beginning: bytes) -> tuple[str, str]:
    """The encoding of a text that may be cut at its end, and the text."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", beginning.decode("utf-16", "replace")
    try:
        return "utf-8", beginning.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = "utf-8" if error.start >= len(beginning) - 4 else "cp1252"
        return encoding, beginning.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")


def _rows(lines: Sequence[str], declared: str) -> tuple[str, list[tuple[int, list[str]]], int]:
    """The delimiter with which most of the first lines have one number of columns, the rows, each
    with the number of lines before it, and that number; it is 1 where no delimiter fits.
    """
    best: tuple[float, int, str] = (0, 1, ",")
    for mark in declared or ",;\t|":
        widths = Counter(len(row) for row in islice(csv.reader(lines, delimiter=mark), 200) if row)
        width, count = max(widths.items(), key=lambda item: (item[1] * (item[0] > 1), item[0]), default=(1, 0))
        if width > 1 and (count / widths.total(), width) > best[:2]:
            best = (count / widths.total(), width, mark)
    share, width, mark = best
    if share < 0.5:
        return mark, [], 1
    reader = csv.reader(lines, delimiter=mark)
    rows, before = [], 0
    for row in islice(reader, 4 * SAMPLE):
        if row:
            rows.append((before, row))
        before = reader.line_num
    return mark, rows, width


# --- JSON ---


def _json_samples(path: str) -> list[Sample]:
    messages = list(islice(_messages(path), SAMPLE))
    if not messages:
        raise refuse("C308", f"{path} has no JSON object that can be read", None, "Export an object a line, or an array of objects.")
    if any(name in messages[0] for name in ("bn", "bt")):
        message = f"{path} is SenML whose base names or base times (bn, bt) hold for the records behind"
        raise refuse("C308", message, None, "Resolve its records first (RFC 8428, 4.6), so that each has its own n and t.")
    samples = [_sample({}, messages, f"{path} is JSON: each object is an element.")]
    for each in dict.fromkeys(each for message in messages[:20] for each in _lists(message, "", 4)):
        steps = parse_path(each).steps
        items, in_all = list[dict[str, Any]](), True
        for whole in messages:
            found = list(islice(_items(whole, steps, "^.", {}), max(1, SAMPLE - len(items))))
            items += found
            in_all = in_all and bool(found)
        sample = _sample({"each": each}, items[:SAMPLE], f"{path} is JSON: each item of {each} is an element.")
        samples.append(replace(sample, in_all=in_all))
    for lists in _columns(messages[0], ""):
        around = dict(_scalars(messages[0], "^."))
        rows = [dict(zip([f"^.{each}" for each in lists], row, strict=True)) | around for row in zip(*lists.values(), strict=True)]
        sentence = f"{path} is JSON: the items of {', '.join(lists)} are elements, side by side."
        samples.append(_sample({"each": list(lists)}, rows[:SAMPLE], sentence))
    return samples


def _messages(path: str) -> Iterator[dict[str, Any]]:
    with closing(open_lines(path, START)) as lines:
        cuts = line_cuts if has_object_per_line(lines, 1 << 23) else document_cuts
    with closing(open_lines(path, START)) as lines:
        for cut in cuts(lines, 0, 1, 1 << 23):
            with suppress(ValueError, RecursionError):
                text, at = cut.raw.decode("utf-8-sig"), 0
                while blank := _BETWEEN.match(text, at):  # objects may follow each other in a line
                    message, at = DECODER.raw_decode(text, blank.end())
                    yield from (each for each in (message if isinstance(message, list) else [message]) if isinstance(each, dict))


def _lists(value: dict[str, Any], before: str, most: int) -> Iterator[str]:
    """The paths of the lists of objects, or of lists of values, the outer ones first; `most` lists
    in lists."""
    inner: list[tuple[Any, str]] = []
    for name, member in value.items():
        path = before + step_text(name)
        if isinstance(member, dict):
            inner.append((member, f"{path}."))
        elif isinstance(member, list) and member and isinstance(member[0], dict | list) and most:
            yield f"{path}[]"
            inner += [(item, f"{path}[].") for item in member[:20]]
    for member, path in inner:
        if isinstance(member, dict):
            yield from _lists(member, path, most - path.endswith("[]."))


def _columns(value: dict[str, Any], before: str) -> Iterator[dict[str, list[Any]]]:
    """The lists of values of one length that are members of one object, by path."""
    lists = {f"{before}{step_text(name)}[]": each for name, each in value.items() if isinstance(each, list)}
    lists = {path: each for path, each in lists.items() if len(each) > 1 and not isinstance(each[0], dict | list)}
    if len(lists) > 1 and len({len(each) for each in lists.values()}) == 1:
        yield lists
    for name, member in value.items():
        if isinstance(member, dict):
            yield from _columns(member, f"{before}{step_text(name)}.")


def _items(value: Any, steps: Sequence[Step], before: str, outer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The items at the end of a path, as flat records with the cells of what is around them (`^.`)."""
    if not steps:
        if isinstance(value, dict | list):
            yield {**dict(_scalars(value, "")), **outer}
    elif steps[0] is None:
        for item in value if isinstance(value, list) else ():
            yield from _items(item, steps[1:], f"{before}[].", outer)
    elif isinstance(value, dict):
        around = dict(_scalars(value, before))
        name = step_text(str(steps[0]))
        yield from _items(value.get(str(steps[0])), steps[1:], before + name + "." * isinstance(steps[1], str), {**outer, **around})


def _sample(settings: Mapping[str, object], records: Sequence[Mapping[str, Any]], sentence: str, form: str = "json") -> Sample:
    """The sample of objects, whose lists are left out."""
    cells: Cells = {}
    for number, record in enumerate(records):
        for cell, value in record.items() if "each" in settings else _scalars(record, ""):
            cells.setdefault(cell, [None] * len(records))[number] = value
    return Sample({"format": form, **settings}, cells, len(records), {}, (sentence,))


def _scalars(value: Any, before: str) -> Iterator[tuple[str, Any]]:
    """The paths that lead from an object, or a list of values, to a value or a list of values, and
    these."""
    steps = value.items() if isinstance(value, dict) else [(f"[{number}]", each) for number, each in enumerate(value)]
    for name, member in steps:
        path = before + (step_text(name) if isinstance(value, dict) else name)
        if isinstance(member, dict):
            yield from _scalars(member, path + ".")
        elif isinstance(member, (str, bool)) and "{" not in name and "}" not in name:
            yield path, member
        elif member and isinstance(member, list) and not before.startswith("^.") and all(isinstance(each, str | bool) for each in member):
            yield f"{path}[]", member
