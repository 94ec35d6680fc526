"""Temporary files of sinks: a link under a name that can be guessed is not written through, and a killed run leaves nothing for long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.events import DeadLetterFiles, FileBatches, OutputTerms, TableFormat, open_file

pytestmark = pytest.mark.core

FIRINGS: Final[Sequence[Firing]] = [Firing(5, "R", "E", (("a", '"1"'),), (("<s>", "<p>", "<o>"),), 0)]
LEFT: Final = "0123456789abcdef"
TERMS: Final = OutputTerms(Clock(), ("a",))
FORMATS: Final[list[StreamFormat | TableFormat]] = [StreamFormat.NDJSON, TableFormat.PARQUET]


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    (tmp_path / "precious").write_text("precious")
    return tmp_path / "precious"


@pytest.mark.parametrize("form", FORMATS)
def test_batch_is_not_written_through_a_link(tmp_path: Path, precious: Path, form: StreamFormat | TableFormat) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    name = f"000000000007.{form.value}"
    (folder / f".{name}.tmp").symlink_to(precious)
    (folder / name).symlink_to(precious)
    sink = FileBatches([(str(folder), form)], TERMS)
    sink.write_batch(7, [FIRINGS], lambda: None)
    assert precious.read_text() == "precious"
    assert (folder / name).is_file()
    assert not (folder / name).is_symlink()


@pytest.mark.parametrize("form", FORMATS)
def test_leftovers_of_a_killed_run_are_removed_before_the_first_batch(tmp_path: Path, form: StreamFormat | TableFormat) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / f".000000000007.{form.value}.{LEFT}.tmp").touch()
    FileBatches([(str(folder), form)], TERMS).open(lambda: None)
    (folder / f".000000000008.ndjson.{LEFT}.tmp").touch()
    DeadLetterFiles(str(folder), Clock()).open(lambda: None)
    assert list(folder.iterdir()) == []
    FileBatches([(str(tmp_path / "missing"), form)], TERMS).open(lambda: None)


def test_failed_batch_leaves_no_temporary_file(tmp_path: Path) -> None:
    def firings() -> object:
        yield FIRINGS
        raise ZeroDivisionError

    for form in FORMATS:
        with pytest.raises(ZeroDivisionError):
            FileBatches([(str(tmp_path), form)], TERMS).write_batch(0, firings(), lambda: None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_dead_letters_are_not_written_through_a_link(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "dead").mkdir()
    (tmp_path / "dead" / ".000000000000.ndjson.tmp").symlink_to(precious)
    DeadLetterFiles(str(tmp_path / "dead"), Clock()).write_batch(
        0, [[DeadLetter(Reason.LATE, "in", "a.csv", 7, 12, "x", "why")]], lambda: None
    )
    assert precious.read_text() == "precious"


def test_table_in_process_is_not_written_through_a_link(tmp_path: Path, precious: Path) -> None:
    path = tmp_path / "out.parquet"
    (tmp_path / ".out.parquet.tmp").symlink_to(precious)
    (tmp_path / f".out.parquet.{LEFT}.tmp").symlink_to(precious)
    (tmp_path / f".other.parquet.{LEFT}.tmp").touch()
    with open_file(str(path), TableFormat.PARQUET, TERMS) as sink:
        sink.write_items(FIRINGS)
    assert precious.read_text() == "precious"
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == [f".other.parquet.{LEFT}.tmp", ".out.parquet.tmp", "out.parquet", "precious"]
