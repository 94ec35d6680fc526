"""Cost of reading a record of each kind, beside the parsers of the standard library.

    python -m benchmarks.records [--records 20000] [--bytes 200]

CPU time of this process, the least of five readings of a file with times and one triple a record,
and the memory that a reading takes at its peak beyond that of the file.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dotr.model.places import Document
from dotr.streams.formats.reading import Reader
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.tails import TailedFolder, TailFeed
from dotr.streams.records import COLUMNS, ElementMap, Format, InputFile

WIDTH = 20
"""Columns of a row whose columns are records."""


def described(path: Path, form: Format, template: str, at: str, **settings: Any) -> InputFile:
    """A file as an input."""
    mapped = ElementMap(at, Document("map", template), **settings)
    return InputFile("in", str(path), form, prefixes=(("", "http://e/"),), map=mapped, record=1 << 40)


def json_file(path: Path, records: int, size: int, each: str) -> InputFile:
    """A file of JSON objects, of about `size` bytes each: on lines, or items of `each`."""
    objects = [{"at": number, "v": number, "text": "x" * size} for number in range(records)]
    template, at = "[] :v {v} .", "at"
    if not each:
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    elif each == "list[]":
        path.write_text(json.dumps({"list": objects}))
    elif each == "list[].list[]":
        path.write_text(json.dumps({"list": [{"list": objects[start : start + 10]} for start in range(0, records, 10)]}))
    else:
        path.write_text(json.dumps({"at": [each["at"] for each in objects], "v": [each["text"] for each in objects]}))
        template, at = "[] :v {^.v[]} .", "^.at[]"
    return described(path, Format.JSON, template, at, each=each)


def csv_file(path: Path, records: int, size: int, cell: str = "{v}", at: str = "t", **settings: Any) -> InputFile:
    """A file of rows of three cells, of about `size` bytes each."""
    text = "x" * size
    path.write_text("t,v,text\n" + "".join(f"{number},{number},{text}\n" for number in range(records)))
    return described(path, Format.CSV, f"[] :v {cell} .", at, **settings)


def wide_file(path: Path, records: int, size: int) -> InputFile:
    """A file of which each row has `WIDTH` records."""
    header = ",".join(f"c{number}" for number in range(WIDTH))
    rows = (",".join(map(str, range(row, row + WIDTH))) for row in range(records // WIDTH))
    path.write_text(f"t,{header}\n" + "".join(f"{number},{row}\n" for number, row in enumerate(rows)))
    return described(path, Format.CSV, "[] :v {$cell} .", "t", each=COLUMNS)


def text_file(path: Path, records: int, size: int) -> InputFile:
    """A file of numbers, which are times."""
    path.write_text("".join(f"{number}\n" for number in range(records)))
    return described(path, Format.TEXT, "[] :v {$value} .", "$value")


KINDS: dict[str, Callable[[Path, int, int], InputFile]] = {
    "JSON: a line": lambda path, records, size: json_file(path, records, size, ""),
    "an item of each": lambda path, records, size: json_file(path, records, size, "list[]"),
    "an item of nested lists": lambda path, records, size: json_file(path, records, size, "list[].list[]"),
    "an item of lists side by side": lambda path, records, size: json_file(path, records, size, "at[], v[]"),
    "CSV: a row": csv_file,
    "a row with a typed cell": lambda path, records, size: csv_file(path, records, size, "{v:integer}"),
    "a row with a time of two cells": lambda path, records, size: csv_file(path, records, size, at="{t}{v}", time_format="unix_ns"),
    "a cell of each: columns": wide_file,
    "text: a line": text_file,
}


def read(file: InputFile) -> float:
    """CPU seconds of one reading."""
    start = time.process_time()
    with Reader(file) as reader:
        for _ in reader.records():
            pass
    return time.process_time() - start


def read_tailed(file: InputFile) -> float:
    """CPU seconds of one reading as a file that goes on."""
    start = time.process_time()
    folder = TailedFolder(GrowingInput(file, file.path, 0, tail=True, watching=False), lambda: 0.0, print)
    for series in folder.appeared():
        feed = TailFeed(series, folder.like)
        while feed.read(1000) is not None:
            pass
    folder.close()
    return time.process_time() - start


def parse_only(file: InputFile) -> float:
    """CPU seconds of the standard library's parser over the lines of a file."""
    start = time.process_time()
    with Path(file.path).open() as lines:
        for _ in csv.reader(lines) if file.format is Format.CSV else map(json.loads, lines):
            pass
    return time.process_time() - start


def main() -> None:
    """Print a row for each kind of record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, write in KINDS.items():
            path = Path(folder) / "in.data"
            file = write(path, options.records, options.bytes)
            seconds = min(read(file) for _ in range(5))
            tracemalloc.start()
            read(file)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            shown = f"{seconds / options.records * 1e6:6.2f} µs, {peak / path.stat().st_size:5.2f} times the memory of the file"
            sys.stdout.write(f"{name:32}{shown}\n")
            if name in ("JSON: a line", "CSV: a row"):
                for also, other in (("  the same with tail", read_tailed), ("  the parser alone", parse_only)):
                    sys.stdout.write(f"{also:32}{min(other(file) for _ in range(5)) / options.records * 1e6:6.2f} µs\n")


if __name__ == "__main__":
    main()
