"""Replays: one distance for all files, rounds without end, and the same batches from any offset."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dotr.errors.diagnostics import InputFailed
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element
from dotr.model.time import Micros, Unit
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.planning.live_planner import GrowingInputs
from dotr.runtimes.spark.tasks.inputs import TaskInputs, admit
from dotr.streams.formats.reading import Reader, has_date_times
from dotr.streams.lateness import TimeFilter
from dotr.streams.merge.feeds import FilesFeed
from dotr.streams.merge.file_marks import mark_of_path
from dotr.streams.merge.replays import Rounds, files_of_input, moved_files, time_span
from dotr.streams.records import ElementMap, Format, InputFile, Replayed

pytestmark = pytest.mark.core

SECOND = 1_000_000
DAY = 86_400 * SECOND
AT = '"{}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'


def ndjson(path: Path, times: Sequence[int | str | None], **settings: object) -> InputFile:
    lines = [json.dumps({"time": at, "graph": f"<urn:s> <urn:at> {n} ."}) if at is not None else "broken" for n, at in enumerate(times)]
    path.write_text("\n".join(lines) + "\n")
    return InputFile(path.stem, str(path), Format.NDJSON, mark=mark_of_path(str(path)), **settings)  # type: ignore[arg-type]


def test_integers_move_by_whole_units_and_date_times_by_microseconds(tmp_path: Path) -> None:
    integers = ndjson(tmp_path / "i.ndjson", [12, 10], unit=Unit.MINUTE, delay=5 * 60 * SECOND)
    dated = ndjson(tmp_path / "d.ndjson", ["1970-01-01T00:10:00.25Z", None])
    start = 1_000 * DAY + 7_500_001
    both = moved_files([integers, dated], lambda: start, 0)
    assert {file.replayed for file in both.files} == {Replayed(1_000 * DAY - 10 * 60 * SECOND)}, "the least time of both is minute 10"
    assert both.start == 1_000 * DAY
    alone = moved_files([dated], lambda: start, 0)
    assert alone.files[0].replayed == Replayed(start - 600 * SECOND - 250_000)
    assert alone.start == start
    kept = moved_files([dated], lambda: 0, DAY, shift=7)
    assert kept.files[0].replayed == Replayed(7, DAY)


def test_late_elements_have_no_part_in_the_span(tmp_path: Path) -> None:
    file = ndjson(tmp_path / "a.ndjson", [None, 10, 30, 5, 27, 20, 31], delay=3 * SECOND)
    assert time_span(file, whole=True) == (10 * SECOND, 31 * SECOND)
    begun = time_span(ndjson(tmp_path / "b.ndjson", [10, 8, 7, 12, 9], delay=3 * SECOND), whole=False)
    assert begun is not None
    assert begun.least == 7 * SECOND, "nothing that follows can be earlier"
    assert time_span(ndjson(tmp_path / "c.ndjson", [None]), whole=True) is None
    empty = moved_files([ndjson(tmp_path / "c.ndjson", [None])], lambda: 9, DAY)
    assert empty.start is None
    assert not empty.files[0].shift


FORMATS = {
    Format.TRIG: "".join(
        f"<urn:g{n}> <http://www.w3.org/ns/prov#generatedAtTime> {AT.format(f'2014-08-01T00:00:0{n}Z')} ."
        f" <urn:g{n}> {{ <urn:s> <urn:at> {AT.format('2014-08-01T00:00:00Z')} }}\n"
        for n in (1, 2, 5)
    ),
    Format.NQUADS: "".join(
        f"<urn:g{n}> <http://www.w3.org/ns/prov#generatedAtTime> {AT.format(f'2014-08-01T00:00:0{n}Z')} .\n"
        f"<urn:s> <urn:at> {AT.format('2014-08-01T00:00:00Z')} <urn:g{n}> .\n"
        for n in (1, 2, 5)
    ),
    Format.CSV: "t,v\n" + "".join(f"2014-08-01 00:00:0{n},2014-08-01T00:00:00Z\n" for n in (1, 2, 5)),
    Format.NDJSON: "".join(
        json.dumps({"time": f"2014-08-01T00:00:0{n}Z", "graph": f"<urn:s> <urn:at> {AT.format('2014-08-01T00:00:00Z')} ."}) + "\n"
        for n in (1, 2, 5)
    ),
}


@pytest.mark.parametrize("form", FORMATS)
def test_the_time_moves_and_other_literals_do_not(tmp_path: Path, form: Format) -> None:
    path = tmp_path / "file"
    path.write_text(FORMATS[form])
    mapped = ElementMap("t", Document("map", "<urn:s> <urn:at> '{v}'^^<http://www.w3.org/2001/XMLSchema#dateTime> ."))
    file = InputFile("in", str(path), form, map=mapped if form is Format.CSV else None)
    moved = InputFile("in", str(path), form, map=file.map, replayed=Replayed(DAY))
    with Reader(file) as plain, Reader(moved) as later, Reader(moved, elements=False) as scan:
        before, after = list(plain.records()), list(later.records())
        assert [(each.offset, each.judged_time) for each in scan.records()] == [(each.offset, each.judged_time) for each in after]
    assert len(before) == 3
    for one, other in zip(before, after, strict=True):
        assert one.time is not None
        assert one.element is not None
        assert other.element == Element(one.time + DAY, one.element.triples)
        assert (other.time, other.raw) == (one.time + DAY, one.raw)
        assert "2014-08-01T00:00:00Z" in str(one.element.triples)
    assert has_date_times(moved)


def test_a_filter_of_times_is_of_the_moved_ones(tmp_path: Path) -> None:
    file = ndjson(tmp_path / "a.ndjson", [1, 2, 3, 2, 4, 5], replayed=Replayed(100 * SECOND))
    wanted = TimeFilter(after=101 * SECOND, until=104 * SECOND)
    with Reader(file, time_filter=wanted) as reader:
        found = [record.time for record in reader.records() if record.element is not None]
    assert found == [102 * SECOND, 103 * SECOND, 104 * SECOND]
    assert wanted.greatest == 105 * SECOND


def test_dead_letters_have_the_moved_time_and_the_written_text(tmp_path: Path) -> None:
    file = ndjson(tmp_path / "a.ndjson", ["2014-08-01T00:00:01", "2014-08-01T00:00:00"], replayed=Replayed(DAY))
    elements: list[Element] = []
    letters: list[DeadLetter] = []
    everything = Job("{}", (file.to_json(),), (0,), "s", True, 0, 1, 1, 10, 1, str(tmp_path / "q"))
    task = Task.of_json("[0, 4611686018427387904, null, [[0, 0, 1, -4611686018427387904, -1, -1]]]")
    admit(TaskInputs(everything, task).files(task.ranges[0], trace=False), task.ranges[0], 0, 1 << 62, elements, letters)
    [letter] = letters
    assert (letter.reason.value, letter.time) == ("late", 1_406_851_200 * SECOND + DAY)
    assert "2014-08-01T00:00:00" in letter.text
    assert "came before this one of 2014-08-02T00:00:00Z; its date-time has no zone" in letter.why


def test_rounds_follow_each_other_and_a_changed_file_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    file = ndjson(path, [1, 2], replayed=Replayed(10 * SECOND, 60 * SECOND))
    feed = FilesFeed(files_of_input(file))
    read = [feed.read(1) for _ in range(5)]
    assert [(each.number, each.records[0].time, each.records[0].line) for each in read if each] == [
        (0, 11 * SECOND, 1),
        (0, 12 * SECOND, 2),
        (1, 71 * SECOND, 1),
        (1, 72 * SECOND, 2),
        (2, 131 * SECOND, 1),
    ]
    assert not feed.ended
    with path.open("a") as appended:
        appended.write('{"time": 3, "graph": ""}\n')
    assert [each.line for chunk in [feed.read(9), feed.read(9)] if chunk for each in chunk.records] == [2, 1, 2], "what is appended is not"
    path.write_text('{"time": 7, "graph": ""}\n' * 3)
    with pytest.raises(InputFailed, match="C288"):
        Rounds(file).file(1)
    path.unlink()
    with pytest.raises(InputFailed, match="has changed since its first round"):
        Rounds(file).file(7)
    assert not FilesFeed(files_of_input(ndjson(path, [1], replayed=Replayed(5)))).ended


def batches(job: Job, start: Offset, until: Micros) -> list[tuple[Offset, list[Element], list[DeadLetter]]]:
    """The batches that end before a time, each with its elements and dead letters."""
    inputs, found = GrowingInputs(job, start), list[tuple[Offset, list[Element], list[DeadLetter]]]()
    end = time.monotonic() + 60
    while inputs.plan.offset.time < until and time.monotonic() < end:
        inputs.plan.scan(full=inputs.plan.pending > 20)
        for cut in inputs.plan.cuts():
            task = Task.of_json(Task.of_cut(start, cut, cut.time, inputs.paths, inputs.topics.partition).to_json())
            elements, letters = list[Element](), list[DeadLetter]()
            for each in task.ranges:
                files = TaskInputs(job, task).files(each, trace=False, times=(task.after, task.until))
                admit(files, each, task.after, task.until, elements, letters)
            start = Offset(cut.time, cut.positions)
            found.append((start, elements, letters))
    inputs.close()
    return found


def test_batches_on_spark_have_the_rounds_from_any_offset(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    replayed = Replayed(100 * SECOND, 50 * SECOND)
    files = [
        ndjson(tmp_path / "a.ndjson", [3, 1, None, 2, 9, 5, 40], delay=2 * SECOND, replayed=replayed),
        ndjson(tmp_path / "b.ndjson", [2, 5, 30], replayed=replayed),
        ndjson(tmp_path / "once.ndjson", [120, 160]),
    ]
    paces = tuple((file.input, 1e9) for file in files)
    job = Job(
        "{}",
        tuple(file.to_json() for file in files),
        tuple(file.delay for file in files),
        "SECOND",
        False,
        0,
        1,
        1,
        3,
        1,
        str(tmp_path / "checkpoint" / "query"),
        paces=paces,
        marks=tuple(json.dumps(file.mark) for file in files),
    )
    found = batches(job, Offset.start(3), 320 * SECOND)
    times = sorted(element.time // SECOND for _, elements, _ in found for element in elements)
    per_round = [1, 2, 2, 3, 5, 9, 30, 40]
    expected = sorted([*(100 + 50 * n + each for n in range(9) for each in per_round), 120, 160])
    assert times == [each for each in expected if each <= found[-1][0].time // SECOND]
    letters = [(each.line, each.reason.value, each.time and each.time // SECOND) for _, _, own in found for each in own]
    of_rounds = [each for n in range(9) for each in ((3, "unreadable", None), (6, "late", 105 + 50 * n))]
    assert letters == of_rounds[: len(letters)]
    assert len(letters) >= 8
    for number in range(0, len(found), 3):
        offset = Offset.of_text(found[number][0].to_text())
        again = batches(job, offset, 320 * SECOND)
        rest, repeated = (
            sorted(element.time for _, elements, _ in own for element in elements if element.time <= 320 * SECOND)
            for own in (found[number + 1 :], again)
        )
        assert repeated == rest
        told = [(each.line, each.time) for _, _, own in found[: number + 1] for each in own]
        told += [(each.line, each.time) for _, _, own in again for each in own]
        assert told[: len(letters)] == [(each.line, each.time) for _, _, own in found for each in own][: len(told)]
