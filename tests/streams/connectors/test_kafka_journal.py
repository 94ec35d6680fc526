"""Journal of partitions: written entries are read back, and a cut-off entry is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.stores import Location
from dotr.streams.connectors.kafka.topics import JOURNAL, LostRange, Partition, PartitionJournal

pytestmark = pytest.mark.core

FIRST = Partition("a", 0, "id", 5, None)
SECOND = Partition("a", 1, "id", 0, 9)


def test_written_entries_are_read_back(tmp_path: Path) -> None:
    journal = PartitionJournal(Location(str(tmp_path)))
    journal.add("in", [FIRST, SECOND])
    journal.add_lost(1, LostRange(2, 4))
    again = PartitionJournal(Location(str(tmp_path)))
    assert again.entries == [("in", FIRST), ("in", SECOND)]
    assert (again.lost(0), again.lost(1)) == ((), (LostRange(2, 4),))
    assert (again.number("in", SECOND), again.number("other", SECOND)) == (1, -1)


def test_entry_cut_off_by_a_crash_is_skipped(tmp_path: Path) -> None:
    """Reading changes nothing; the next entry begins a line of its own."""
    PartitionJournal(Location(str(tmp_path))).add("in", [FIRST])
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('["partition", "in", "a", 1')
    text = (tmp_path / JOURNAL).read_text()
    journal = PartitionJournal(Location(str(tmp_path)))
    assert journal.entries == [("in", FIRST)]
    assert (tmp_path / JOURNAL).read_text() == text
    journal.add("in", [SECOND])
    assert PartitionJournal(Location(str(tmp_path))).entries == [("in", FIRST), ("in", SECOND)]


@pytest.mark.parametrize("line", ['["partition", "in"]', '["other", 1]', '["lost", 1, 2, "x"]', "[nothing]"])
def test_damaged_journal_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / JOURNAL).write_text(line + "\n")
    with pytest.raises(Refused, match=r"S114.*its line 1 is no entry"):
        PartitionJournal(Location(str(tmp_path)))
