"""Inputs with readable, broken and untimed records, and their dead letters by definition."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.time import Micros, Unit
from dotr.streams.records import ElementMap, Format, InputFile

MAP: Final = ElementMap("t", Document("map", "<{id}> :v {v} ."))
GOOD, BROKEN, TIMELESS = "good", "broken", "timeless"
QUOTED, OPEN = "quoted", "open"
"""Of csv: a row with lines inside of quotes that look like rows, and one whose quote is never closed."""


def text_of(form: Format, kind: str, time: int, number: int) -> str:
    """A record: readable, with a time and an unreadable graph, or without a time."""
    name = f"urn:x:{number}" if kind not in (BROKEN, TIMELESS) else "no IRI"
    match form:
        case Format.NDJSON:
            graph = f"<{name}> :v {number} ." if kind == GOOD else "<"
            return json.dumps({"time": time, "graph": graph} if kind != TIMELESS else {"graph": graph})
        case Format.CSV if kind == QUOTED:
            return f'{time},urn:x:{number},"one ""two"",\n{time + 9},urn:x:0,0\n""\n{number}"'
        case Format.CSV if kind == OPEN:
            return f'{time},urn:x:{number},"{number}'
        case Format.CSV:
            return f"{'soon' if kind == TIMELESS else time},{name},{number}"
        case Format.JSON | Format.PARQUET:
            return json.dumps({"id": name, "v": number} | ({} if kind == TIMELESS else {"t": time}))
        case Format.NQUADS:
            at = (
                f'\n<http://e/g{number}> <http://www.w3.org/ns/prov#generatedAtTime> "{time}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
            )
            value = f'"{number}"' if kind != BROKEN else "x:y"
            return f"<http://e/s> <http://e/v> {value} <http://e/g{number}> ." + (at if kind != TIMELESS else "")
        case Format.TRIG:
            at = f":g{number} prov:generatedAtTime {time} . " if kind != TIMELESS else ""
            return f":g{number} {{ :s :v {number if kind != BROKEN else 'x:y'} }} {at}"
    raise AssertionError(form)


def written(
    folder: Path,
    number: int,
    form: Format,
    delay: Micros,
    single: bool,
    records: list[tuple[str, int]],
    *,
    members: int = 0,
    apart: bool = False,
) -> InputFile:
    """A file with these records; `members`: compressed, in so many members of gzip. `apart`: integer times are microseconds."""
    path = folder / f"{number}.txt"
    head = {Format.CSV: ["t,id,v"], Format.TRIG: ["@prefix : <http://e/> . @prefix prov: <http://www.w3.org/ns/prov#> ."]}.get(form, [])
    lines = [*head, *(text_of(form, kind, time, number) for number, (kind, time) in enumerate(records))]
    if form is Format.PARQUET:
        kinds = pa.schema([("t", pa.int64()), ("id", pa.string()), ("v", pa.int64())])
        parquet.write_table(pa.Table.from_pylist([json.loads(line) for line in lines], kinds), path, row_group_size=3)
    elif members:
        share = -(-len(lines) // members)
        parts = ["".join(f"{line}\n" for line in lines[at : at + share]) for at in range(0, len(lines), share)]
        path.write_bytes(b"".join(gzip.compress(part.encode()) for part in parts))
    else:
        path.write_text("".join(f"{line}\n" for line in lines))
    mapped = MAP if form in (Format.CSV, Format.JSON, Format.PARQUET) else None
    name = f"in{number}"
    file = InputFile(name, str(path), form, delay=0 if single else delay, prefixes=(("", "http://e/"),), map=mapped, single=single)
    return replace(file, delay=0, single=False, apart=True, unit=Unit.MICROSECOND) if apart else file


def expected_reasons(records: list[tuple[str, int]], delay: int, single: bool) -> Counter[Reason]:
    """The reasons of the dead letters of an input, by definition."""
    found: Counter[Reason] = Counter()
    before: list[int] = []
    for kind, time in records:
        if kind == TIMELESS:
            found[Reason.UNREADABLE] += 1
            continue
        late = any(earlier - time > (0 if single else delay) for earlier in before)
        second = single and bool(before) and time == max(before)
        if late or second:
            found[Reason.LATE if late else Reason.SECOND] += 1
        elif kind == BROKEN:
            found[Reason.UNREADABLE] += 1
        before.append(time)
    return found
