"""Cost of reading a record: an item of `each` beside an object on a line of its own.

    python -m benchmarks.records [--records 20000] [--bytes 200]

CPU time of this process, the least of five readings of a file with times and one triple a record,
and the memory that a reading takes at its peak beyond that of the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from dotr.model.places import Document
from dotr.streams.formats.reading import Reader
from dotr.streams.records import ElementMap, Format, InputFile

KINDS = {
    "a line": "",
    "an item of each": "list[]",
    "an item of nested lists": "list[].list[]",
    "an item of lists side by side": "at[], v[]",
}


def write(path: Path, each: str, records: int, size: int) -> InputFile:
    """A file of records, of about `size` bytes each, as an input."""
    objects = [{"at": number, "v": number, "text": "x" * size} for number in range(records)]
    map_, at = "[] :v {v} .", "at"
    if not each:
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    elif each == "list[]":
        path.write_text(json.dumps({"list": objects}))
    elif each == "list[].list[]":
        path.write_text(json.dumps({"list": [{"list": objects[start : start + 10]} for start in range(0, records, 10)]}))
    else:
        path.write_text(json.dumps({"at": [each["at"] for each in objects], "v": [each["text"] for each in objects]}))
        map_, at = "[] :v {^.v[]} .", "^.at[]"
    mapped = ElementMap(at, Document("map", map_), each=each)
    return InputFile("in", str(path), Format.JSON, prefixes=(("", "http://e/"),), map=mapped, record=1 << 40)


def read(file: InputFile) -> float:
    """CPU seconds of one reading."""
    start = time.process_time()
    with Reader(file) as reader:
        for _ in reader.records():
            pass
    return time.process_time() - start


def main() -> None:
    """Print a row for each kind of record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, each in KINDS.items():
            path = Path(folder) / "in.json"
            file = write(path, each, options.records, options.bytes)
            seconds = min(read(file) for _ in range(5))
            tracemalloc.start()
            read(file)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            shown = f"{seconds / options.records * 1e6:6.2f} µs, {peak / path.stat().st_size:5.2f} times the memory of the file"
            sys.stdout.write(f"{name:32}{shown}\n")


if __name__ == "__main__":
    main()
