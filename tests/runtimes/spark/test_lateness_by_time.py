"""Lateness by time alone: a record counts by its time though its graph cannot be read, in process and in tasks alike."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO
from dotr.runtimes.spark.exchange.positions import END, Offset
from dotr.runtimes.spark.exchange.task import InputRange, Task
from dotr.runtimes.spark.planning.planner import scanned_cuts
from dotr.runtimes.spark.tasks.inputs import admit, range_files
from dotr.streams.formats.csv import rows as csv_rows
from dotr.streams.formats.csv.map import compile_map
from dotr.streams.formats.json import records as json_records
from dotr.streams.formats.json.map import compile_map_of
from dotr.streams.lateness import TimeFilter
from dotr.streams.merge.bounded import merged
from dotr.streams.records import Format, InputFile
from dotr.syntax.turtle.graphs import TurtleReader
from tests.support.judged_inputs import BROKEN, GOOD, TIMELESS, expected_reasons, written

pytestmark = pytest.mark.core


def in_tasks(files: list[InputFile], size: int) -> tuple[list[Element], list[DeadLetter]]:
    """Elements and dead letters of the tasks of all cuts."""
    elements: list[Element] = []
    dead: list[DeadLetter] = []
    start = Offset.start(len(files))
    for cut in scanned_cuts(files, start, size):
        task = Task.of_json(Task.of_cut(start, cut, cut.time).to_json())
        for input_range in task.ranges:
            time_filter = TimeFilter(input_range.greatest, task.after, task.until)
            ranges = range_files(files[input_range.input], input_range, trace=False, time_filter=time_filter)
            admit(ranges, input_range, task.after, task.until, elements, dead)
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
def test_tasks_equal_one_process(described: list[tuple[Format, int, bool, list[tuple[str, int]]]], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [
            written(Path(folder), number, form, delay * 1_000_000, single, records)
            for number, (form, delay, single, records) in enumerate(described)
        ]
        dead: list[DeadLetter] = []
        instants = list(merged(files, dead.append))
        elements, rejected = in_tasks(files, size)
    assert Counter(rejected) == Counter(dead)
    assert Counter(elements) == Counter(element for _, together in instants for element in together)
    for number, (form, delay, single, records) in enumerate(described):
        if form is Format.TRIG:  # a broken graph may take a broken neighbour with it
            continue
        assert Counter(each.reason for each in dead if each.input == f"in{number}") == expected_reasons(records, delay, single)


@pytest.mark.parametrize("form", [Format.NDJSON, Format.CSV, Format.JSON, Format.PARQUET])
@pytest.mark.parametrize("single", [False, True])
def test_graphs_of_late_records_and_of_other_tasks_are_not_parsed(
    form: Format, single: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = parsed_of(form, monkeypatch)
    times = [(GOOD, 5), (GOOD, 9), (GOOD, 9), (GOOD, 7), (BROKEN, 6), (GOOD, 12), (GOOD, 11)]
    file = written(tmp_path, 0, form, 2_000_000, single, times)
    list(merged([file], lambda letter: None))
    assert parsed() == ([0, 1, 5] if single else [0, 1, 2, 3, 5, 6])
    input_range = InputRange(0, 0, 1, -LAST_MICRO, END, END)
    found: list[Element] = []
    time_filter = TimeFilter(-LAST_MICRO, 5_000_000, 9_000_000)
    admit(range_files(file, input_range, trace=False, time_filter=time_filter), input_range, 5_000_000, 9_000_000, found, [])
    assert parsed() == ([1] if single else [1, 2, 3])
    assert [element.time for element in found] == ([9_000_000] if single else [9_000_000, 9_000_000, 7_000_000])


def parsed_of(form: Format, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """The numbers of the records whose graphs have been parsed since the last call."""
    found: list[int] = []

    def drained() -> list[int]:
        numbers = found.copy()
        found.clear()
        return numbers

    match form:
        case Format.NDJSON:

            def counted(reader: TurtleReader, text: str) -> tuple[Triple, ...]:
                found.append(int(text.split()[-2]) if " " in text else -1)
                return read(reader, text)

            read = TurtleReader.read
            monkeypatch.setattr(TurtleReader, "read", counted)
        case Format.CSV:

            def counting(spec: InputFile, header: Sequence[str]) -> Callable[[Sequence[str]], tuple[tuple[Triple, ...], int]]:
                make = compile_map(spec, header)

                def row(cells: Sequence[str]) -> tuple[tuple[Triple, ...], int]:
                    found.append(int(cells[2]))
                    return make(cells)

                return row

            monkeypatch.setattr(csv_rows, "compile_map", counting)
        case _:

            def counting_json(spec: InputFile, *others: Any) -> Callable[..., Any]:
                make = compile_map_of(spec, *others)

                def item(value: Any, *others: Any) -> Any:
                    found.append(int(value["v"]))
                    return make(value, *others)

                return item

            monkeypatch.setattr(json_records, "compile_map_of", counting_json)
    return drained


def test_unreadable_graph_makes_no_instant_but_its_time_counts(tmp_path: Path) -> None:
    file = written(tmp_path, 0, Format.NDJSON, 0, False, [(GOOD, 1), (BROKEN, 9), (GOOD, 5), (BROKEN, 4), (GOOD, 10)])
    dead: list[DeadLetter] = []
    assert [time for time, _ in merged([file], dead.append)] == [1_000_000, 10_000_000]
    assert [(each.line, each.reason, each.time) for each in dead] == [
        (2, Reason.UNREADABLE, 9_000_000),
        (3, Reason.LATE, 5_000_000),
        (4, Reason.LATE, 4_000_000),
    ]
    assert dead[1].why == "an element of 9 came before this one of 5"
