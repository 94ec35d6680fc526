"""Lateness by time alone: a record counts by its time though its graph cannot be read, in process and in tasks alike."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Micros
from dotr.runtimes.spark.inputs import admit, range_files
from dotr.runtimes.spark.planner import Offset, plan
from dotr.runtimes.spark.task import Task
from dotr.sources.merge import merged
from dotr.sources.reading import Reader
from dotr.sources.records import ElementMap, Format, InputFile, Position

pytestmark = pytest.mark.core

MAP: Final = ElementMap("t", Document("map", "<{id}> :v {v} ."))
GOOD, BROKEN, TIMELESS = "good", "broken", "timeless"


def text_of(form: Format, kind: str, time: int, number: int) -> str:
    """A record: readable, with a time and an unreadable graph, or without a time."""
    name = f"urn:x:{number}" if kind == GOOD else "no IRI"
    match form:
        case Format.NDJSON:
            graph = f"<{name}> :v {number} ." if kind == GOOD else "<"
            return json.dumps({"time": time, "graph": graph} if kind != TIMELESS else {"graph": graph})
        case Format.CSV:
            return f"{'soon' if kind == TIMELESS else time},{name},{number}"
        case Format.JSON:
            return json.dumps({"id": name, "v": number} | ({} if kind == TIMELESS else {"t": time}))
        case Format.TRIG:
            at = f":g{number} prov:generatedAtTime {time} . " if kind != TIMELESS else ""
            return f":g{number} {{ :s :v {number if kind == GOOD else 'x:y'} }} {at}"
    raise AssertionError(form)


def written(folder: Path, number: int, form: Format, delay: Micros, single: bool, records: list[tuple[str, int]]) -> InputFile:
    path = folder / f"{number}.txt"
    head = {Format.CSV: ["t,id,v"], Format.TRIG: ["@prefix : <http://e/> . @prefix prov: <http://www.w3.org/ns/prov#> ."]}.get(form, [])
    path.write_text("".join(f"{line}\n" for line in [*head, *(text_of(form, kind, time, k) for k, (kind, time) in enumerate(records))]))
    mapped = MAP if form in (Format.CSV, Format.JSON) else None
    name = f"in{number}"
    return InputFile(name, str(path), form, delay=0 if single else delay, prefixes=(("", "http://e/"),), map=mapped, single=single)


def in_tasks(files: list[InputFile], size: int) -> tuple[list[Element], list[DeadLetter]]:
    """Elements and dead letters of the tasks of all cuts."""

    def scan(number: int, offset: int, line: int) -> Iterator[tuple[int, int, Micros | None]]:
        with Reader(files[number], Position(offset, line), elements=False) as reader:
            for record in reader.records():
                yield record.offset, record.line, record.judged_time

    elements: list[Element] = []
    dead: list[DeadLetter] = []
    start = Offset.start(len(files))
    for cut in plan(scan, [file.delay for file in files], start, size):
        task = Task.of_json(Task.of_cut(start, cut, cut.time).to_json())
        for stretch in task.ranges:
            admit(range_files(files[stretch.input], stretch, trace=False), stretch, task.after, task.until, elements, dead)
        start = Offset(cut.time, cut.positions)
    return elements, dead


records_of_input = st.lists(st.tuples(st.sampled_from((GOOD, GOOD, BROKEN, TIMELESS)), st.integers(0, 12)), max_size=14)
inputs = st.lists(
    st.tuples(st.sampled_from((Format.NDJSON, Format.CSV, Format.JSON, Format.TRIG)), st.integers(0, 3), st.booleans(), records_of_input),
    min_size=1,
    max_size=3,
)


@given(inputs, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_tasks_find_what_one_process_finds(described: list[tuple[Format, int, bool, list[tuple[str, int]]]], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [
            written(Path(folder), number, form, delay * 1_000_000, single, records)
            for number, (form, delay, single, records) in enumerate(described)
        ]
        dead: list[DeadLetter] = []
        instants = list(merged(files, dead.append))
        elements, told = in_tasks(files, size)
    assert Counter(told) == Counter(dead)
    assert Counter(elements) == Counter(element for _, together in instants for element in together)
    for number, (form, delay, single, records) in enumerate(described):
        if form is Format.TRIG:  # a broken graph may take a broken neighbour with it
            continue
        assert Counter(each.reason for each in dead if each.input == f"in{number}") == expected(records, delay, single)


def expected(records: list[tuple[str, int]], delay: int, single: bool) -> Counter[Reason]:
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


def test_a_graph_that_cannot_be_read_makes_no_instant_and_its_time_counts(tmp_path: Path) -> None:
    file = written(tmp_path, 0, Format.NDJSON, 0, False, [(GOOD, 1), (BROKEN, 9), (GOOD, 5), (BROKEN, 4), (GOOD, 10)])
    dead: list[DeadLetter] = []
    assert [time for time, _ in merged([file], dead.append)] == [1_000_000, 10_000_000]
    assert [(each.line, each.reason, each.time) for each in dead] == [
        (2, Reason.UNREADABLE, 9_000_000),
        (3, Reason.LATE, 5_000_000),
        (4, Reason.LATE, 4_000_000),
    ]
    assert dead[1].why == "an element 4 s later came before it"
