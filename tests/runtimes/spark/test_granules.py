"""The index of granules: cuts from it give each element once, and each dead letter once."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dotr.model.stream import DeadLetter, Element
from dotr.model.time import LAST_MICRO, Micros, Unit
from dotr.runtimes.spark.exchange.positions import END, Cut, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.planning.granules import Granule, Piece, has_ranges, range_starts, records_of_granule, scan_parts, scan_range
from dotr.runtimes.spark.planning.indexed_plan import ending_at, indexed_plan
from dotr.runtimes.spark.planning.planner import scanned_cuts
from dotr.runtimes.spark.tasks.inputs import admit, range_files
from dotr.streams.lateness import TimeFilter
from dotr.streams.merge.bounded import merged
from dotr.streams.records import Format, InputFile, Position
from tests.support.judged_inputs import BROKEN, GOOD, OPEN, QUOTED, TIMELESS, written

pytestmark = pytest.mark.core

EXAMPLES: Final = int(os.environ.get("DOTR_EXAMPLES", "60"))
FORMATS: Final = (Format.NDJSON, Format.CSV, Format.CSV, Format.NQUADS, Format.TRIG, Format.JSON, Format.PARQUET)


def pieces_of(file: InputFile, position: InputPosition, first: int, size: int) -> list[Piece]:
    """The pieces of an input from a position on, by ranges or in parts."""
    if position.offset == END:
        return []
    start = Position(position.offset, position.line)
    if not has_ranges(file):
        return list(scan_parts(file, start, size, first))
    starts = range_starts(start.offset, Path(file.path).stat().st_size, first)
    return [scan_range(file, start, starts, piece, size) for piece in range(len(starts))]


class Index:
    """An index of files from an offset on."""

    def __init__(self, files: list[InputFile], base: Offset, first: int, size: int) -> None:
        self.base = base
        self._pieces = [pieces_of(file, position, first, size) for file, position in zip(files, base.positions, strict=True)]

    def cuts(self, files: list[InputFile], start: Offset, size: int, until: Micros = LAST_MICRO) -> list[Cut]:
        delays = [file.delay for file in files]
        return list(indexed_plan(lambda number, piece: self._pieces[number][piece], self.base, delays, start, size, until))


def run_task(files: list[InputFile], task: Task, elements: list[Element], dead: list[DeadLetter]) -> None:
    task = Task.of_json(task.to_json())
    for input_range in task.ranges:
        time_filter = TimeFilter(input_range.greatest, task.after, task.until)
        admit(
            range_files(files[input_range.input], input_range, trace=False, time_filter=time_filter),
            input_range,
            task.after,
            task.until,
            elements,
            dead,
        )


def in_one_process(files: list[InputFile]) -> tuple[Counter[Element], Counter[DeadLetter]]:
    dead: list[DeadLetter] = []
    elements = Counter(element for _, together in merged(files, dead.append) for element in together)
    return elements, Counter(dead)


def random_files(folder: Path, chance: random.Random) -> list[InputFile]:
    files = []
    for number in range(chance.randint(1, 3)):
        form = chance.choice(FORMATS)
        kinds = [GOOD, GOOD, GOOD, BROKEN, TIMELESS, *([QUOTED, QUOTED, OPEN] if form is Format.CSV else [])]
        time, records = 0, []
        for _ in range(chance.choice((0, 3, 12, 40))):
            time += chance.choice((0, 0, 1, 2, -3, 5 if chance.random() < 0.1 else 0))
            records.append((chance.choice(kinds), max(0, time)))
        members = chance.choice((0, 0, 0, 1, 3)) if records else 0
        apart = chance.random() < 0.3
        delay, single = chance.randint(0, 3) * 1_000_000, chance.random() < 0.2
        files.append(written(folder, number, form, delay, single, records, members=members, apart=apart))
    if any(file.apart for file in files):  # so that all times are near each other
        files = [replace(file, unit=Unit.MICROSECOND, delay=file.delay // 1_000_000) for file in files]
    return files


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_new_index_at_every_cut_gives_each_element_and_each_dead_letter_once(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        files = random_files(Path(folder), chance)
        elements: list[Element] = []
        dead: list[DeadLetter] = []
        offset = Offset.start(len(files))
        while not offset.ended:
            index = Index(files, offset, chance.choice((1, 7, 40, 200)), chance.choice((1, 2, 5)))
            batch = index.cuts(files, offset, chance.choice((1, 4, 9)))[: chance.randint(1, 3)]
            end = Offset(batch[-1].time, batch[-1].positions)
            if chance.random() < 0.3:  # planned again, from another index or by the planner that reads records
                again = Index(files, offset, chance.choice((1, 60)), chance.choice((1, 3)))
                size = chance.choice((1, 5))
                cuts = again.cuts(files, offset, size, end.time) if chance.random() < 0.7 else read_plan(files, offset, size, end.time)
                batch = ending_at(cuts, end)
            for cut in batch:
                following = Offset(cut.time, cut.positions)
                for before, after in zip(offset.positions, following.positions, strict=True):
                    assert after.offset == END or before.offset <= after.offset
                run_task(files, Task.of_cut(offset, cut, cut.time), elements, dead)
                offset = following
            assert offset == end
        assert (Counter(elements), Counter(dead)) == in_one_process(files)


def read_plan(files: list[InputFile], start: Offset, size: int, until: Micros) -> list[Cut]:
    """The cuts of a planner that reads the records."""
    return list(scanned_cuts(files, start, size, until))


def test_the_planner_reads_each_piece_once_and_no_record(tmp_path: Path) -> None:
    """Ten inputs of 500 records, whose files are removed before batches are planned."""
    files = [written(tmp_path, number, Format.NDJSON, 0, False, [(GOOD, at // 7) for at in range(500)]) for number in range(10)]
    size = records_of_granule(400, 4, len(files))
    pieces = {
        (number, piece): found
        for number, file in enumerate(files)
        for piece, found in enumerate(pieces_of(file, Offset.start(1).positions[0], 1_000, size))
    }
    for file in files:
        Path(file.path).unlink()
    read: Counter[tuple[int, int]] = Counter()

    def read_piece(number: int, piece: int) -> Piece:
        read[number, piece] += 1
        return pieces[number, piece]

    start = Offset.start(len(files))
    cuts = list(indexed_plan(read_piece, start, [0] * len(files), start, 100))
    assert read == Counter(pieces.keys())
    assert sum(cut.elements for cut in cuts) == sum(granule.weight for piece in pieces.values() for granule in piece.granules) == 5_000
    assert max(cut.elements for cut in cuts) <= 100 + 2 * size * len(files)


def test_pieces_of_every_range_size_hold_the_same_records(tmp_path: Path) -> None:
    """The records of the granules, each from the piece that holds them, are those of one scan."""
    records = [(QUOTED if at % 3 else OPEN, at) for at in range(30)]
    file = written(tmp_path, 0, Format.CSV, 0, False, records)
    whole = pieces_of(file, Offset.start(1).positions[0], 1 << 20, 1)[0].granules
    for first in range(1, 60):
        pieces = pieces_of(file, Offset.start(1).positions[0], first, 1)
        found: list[Granule] = []
        piece, link = pieces[0], None
        while True:
            found += [each for each in piece.granules if link is None or each.offset >= link.offset]
            link = piece.link
            if link is None:
                break
            piece = pieces[link.piece]
        assert [(each.offset, each.greatest) for each in found] == [(each.offset, each.greatest) for each in whole]
