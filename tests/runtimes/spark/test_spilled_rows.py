"""Output of a batch as rows or as sorted runs: the same contents in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.model.stream import DeadLetter, Firing, Reason, output_order
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import RowKind, decode_firings
from dotr.runtimes.spark.exchange.spilled_rows import (
    DEAD_LETTERS,
    FIRINGS,
    RunPlace,
    SpillBuffer,
    SpilledDeadLetters,
    blocks,
    merge_runs,
    read_run,
    remove_runs,
    run_folder,
    run_place,
    write_run,
)

_TERMS = st.sampled_from(['"a"', '"\ud800"', '"b\\n"', "<http://e/é>"])
_FIRINGS = st.builds(
    Firing,
    st.integers(-5, 5),
    st.sampled_from("RS"),
    st.just("E"),
    st.lists(st.tuples(st.just("x"), _TERMS), max_size=1).map(tuple),
    st.lists(st.tuples(_TERMS, _TERMS, _TERMS), max_size=1).map(tuple),
    st.integers(0, 1),
)


def job(folder: Path) -> Job:
    return Job("{}", (), (), "SECOND", False, 1, 1, 1, 1, 1, str(folder / "query"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoint")


@given(st.lists(st.lists(st.lists(_FIRINGS, max_size=9), max_size=4), max_size=3), st.integers(1, 9), st.integers(2, 5))
def test_runs_merge_into_output_order(folder: Path, found: list[list[list[Firing]]], run: int, most: int) -> None:
    held: list[Firing] = []
    runs: list[RunPlace] = []
    for bucket in found:
        waiting = SpillBuffer(FIRINGS, job(folder), run)
        for step in bucket:
            waiting.add(step, len(step))
        for line in waiting.rows(-1):
            if line.kind == RowKind.RUN:
                runs.append(run_place(line.payload))
                assert len(list(read_run(FIRINGS, runs[-1]))) == line.time >= 1
            else:
                held += decode_firings(line.payload)
                place = run_place(line.payload)
                assert isinstance(place, Path)
                assert not place.exists()
    everything = sorted([firing for bucket in found for step in bucket for firing in step], key=output_order)
    assert [output_order(firing) for firing in merge_runs(FIRINGS, held, runs, most)] == [output_order(firing) for firing in everything]
    remove_runs(run_folder(job(folder)))


def test_few_firings_are_a_row_and_many_are_runs(tmp_path: Path) -> None:
    firing = Firing(1, "R", "E", (), (), 0)
    waiting = SpillBuffer(FIRINGS, job(tmp_path))
    waiting.add([firing] * 5_000, 5_000)
    assert [line.kind for line in waiting.rows(-1)] == [RowKind.FIRINGS]
    waiting.add([firing], 1)
    assert [(line.kind, line.time) for line in waiting.rows(-1)] == [(RowKind.RUN, 5_001)]


def test_blocks_hold_whole_instants() -> None:
    firings = [Firing(time, "R", "E", (), (), 0) for time in (1, 1, 1, 2, 3, 3)]
    assert [[firing.time for firing in block] for block in blocks(firings, 2)] == [[1, 1, 1], [2, 3, 3]]
    assert [[firing.time for firing in block] for block in blocks(firings, 1)] == [[1, 1, 1], [2], [3, 3]]
    assert list(blocks([], 1)) == []


def test_run_reads_as_written(tmp_path: Path) -> None:
    firings = [Firing(number, "R", "E", (("x", '"\ud800"'),), (("<s>", "<p>", '"o"'),), 1) for number in range(450)]
    assert list(read_run(FIRINGS, write_run(FIRINGS, tmp_path / "new", firings))) == firings


def test_dead_letters_are_ordered_by_line(tmp_path: Path) -> None:
    """Long dead letters count several times, so that a run of them is no larger."""
    letters = SpilledDeadLetters(job(tmp_path))
    text = "\ud800" + "a" * 51_199
    found = [DeadLetter(Reason.UNREADABLE, "ab"[line % 2], "f", line, None, text, "why") for line in range(1_001)]
    letters.extend(reversed(found))
    lines = letters.rows(-1)
    assert {line.kind for line in lines} == {RowKind.DEAD_RUN}
    assert [line.time for line in lines] == [496, 496, 9]
    again = list(merge_runs(DEAD_LETTERS, [], [run_place(line.payload) for line in lines], 2))
    assert again == sorted(found, key=lambda letter: (letter.input, letter.line))
    assert letters.counted == {Reason.UNREADABLE: 1_001}
