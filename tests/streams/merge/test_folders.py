"""Watched folders: new files, changes of files found before, and files that are no files any more."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.files.stores import Location
from dotr.model.stream import DeadLetter
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import AppearingFiles, FilesFeed
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.folders import Folder, GrowingInput, stable_files
from dotr.streams.merge.journal import Journal, JournaledFiles
from dotr.streams.records import Format, InputFile

pytestmark = pytest.mark.core


def line(time: int) -> str:
    return f'{{"time": {time}, "graph": ""}}\n'


def clock() -> Iterator[float]:
    """A clock that is a minute later at each listing, which reads it twice."""
    now = 0.0
    while True:
        now += 60
        yield now
        yield now


def folder_of(path: Path, *known: FoundFile) -> Folder:
    return Folder(str(path / "*"), 0, known, clock().__next__)


def names(found: list[FoundFile]) -> list[tuple[str, bool]]:
    """The names of found files, with True for a change."""
    return [(Path(file.path).name, bool(file.change)) for file in found]


def test_a_change_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    folder = folder_of(tmp_path)
    assert names(folder.new_files()) == [("a", False)]
    assert names(folder.new_files()) == []
    (tmp_path / "a").write_text("12")
    (tmp_path / "b").write_text("1")
    found = folder.new_files()
    assert names(found) == [("a", True), ("b", False)]
    assert ": 1 bytes of it are read, 2 are there now; " in found[0].change
    (tmp_path / "a").write_text("123")
    (tmp_path / "b").unlink()
    assert names(folder.new_files()) == []
    (tmp_path / "b").write_text("2")
    assert names(folder.new_files()) == [("b", True)]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_a_change(tmp_path: Path, make: object) -> None:
    (tmp_path / "a").write_text("1")
    folder = folder_of(tmp_path)
    folder.new_files()
    (tmp_path / "a").unlink()
    assert names(folder.new_files()) == [], "a file that was read may be removed"
    assert callable(make)
    make(tmp_path / "a")
    (change,) = folder.new_files()
    assert "no file is there now" in change.change


def test_what_is_no_file_delays_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "b")
    (tmp_path / "c").symlink_to(tmp_path / ".nowhere")
    (tmp_path / "d").write_text("1")
    folder = folder_of(tmp_path)
    assert names(folder.new_files()) == [("d", False)]
    (tmp_path / ".nowhere").write_text("1")
    assert names(folder.new_files()) == [("c", False)]


def test_files_read_elsewhere_and_those_of_older_releases(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1")
    told = FoundFile.at(str(tmp_path / "a"))._replace(change="told")
    folder = folder_of(tmp_path, told, FoundFile.at(str(tmp_path / "b")), FoundFile(str(tmp_path / "c")))
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("12")
    assert names(folder.new_files()) == [("b", True)], "of a file without a mark no change is known"


def read_to_the_end(feed: FilesFeed) -> list[DeadLetter | int | None]:
    """The times and dead letters of what a feed has now."""
    found: list[DeadLetter | int | None] = []
    while (chunk := feed.read(100)) is not None:
        lateness = Lateness.of(chunk.file)
        found += [lateness.of_unreadable(chunk.file, each) if each.time is None else each.time // 1_000_000 for each in chunk.records]
    return found


def test_a_file_is_its_bytes_as_of_its_opening(tmp_path: Path) -> None:
    growing = GrowingInput(InputFile("in", "", Format.NDJSON), str(tmp_path / "*"))
    files = AppearingFiles(growing, (), clock().__next__)
    feed = FilesFeed(files)
    (tmp_path / "a").write_text(line(1) + line(2))
    (tmp_path / "b").write_text(line(4))
    first = feed.read(1)
    assert first is not None
    assert [record.time for record in first.records] == [1_000_000]
    for name, time in (("a", 3), ("b", 5)):
        with (tmp_path / name).open("a") as file:
            file.write(line(time))
    two, four, five, letter = read_to_the_end(feed)
    assert (two, four, five) == (2, 4, 5), "b is opened after it has grown"
    assert isinstance(letter, DeadLetter)
    assert (letter.reason.value, letter.input, letter.file, letter.line) == ("changed", "in", str(tmp_path / "a"), 1)
    assert not read_to_the_end(feed)


def test_a_file_that_is_removed_before_it_is_opened(tmp_path: Path) -> None:
    growing = GrowingInput(InputFile("in", "", Format.NDJSON), str(tmp_path / "*"))
    files = AppearingFiles(growing, (), clock().__next__)
    feed = FilesFeed(files)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(line(1))
    feed.read(1)
    (tmp_path / "b").unlink()
    os.mkfifo(tmp_path / "b")
    (tmp_path / "c").unlink()
    letters = read_to_the_end(feed)
    assert [(letter.reason.value, Path(letter.file).name) for letter in letters if isinstance(letter, DeadLetter)] == [
        ("unreadable", "b"),
        ("unreadable", "c"),
    ]
    (tmp_path / "c").write_text(line(2))
    (letter,) = read_to_the_end(feed)
    assert isinstance(letter, DeadLetter)
    assert ": 0 bytes of it are read, " in letter.why


def test_changes_are_numbered_by_the_journal(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_text(line(1))
    growing = GrowingInput(InputFile("in", "", Format.NDJSON), str(tmp_path / "d/*"))

    def started() -> JournaledFiles:
        return JournaledFiles(growing, Journal(Location(str(tmp_path)), {}), (), watching=True, clock=clock().__next__)

    files = started()
    first = files.file(0)
    assert first is not None
    assert (first.size, first.change) == (len(line(1)), "")
    (tmp_path / "d/a").write_text(line(1) + line(2))
    again = started()
    change = again.file(1)
    assert change is not None
    assert change.path == first.path
    assert change.change
    assert again.paths(0, 1) == (FoundFile(first.path, first.mark), FoundFile(first.path, first.mark, change.change))
    assert started().file(2) is None, "it is told once"


def test_a_file_that_vanishes_is_not_waited_for(tmp_path: Path) -> None:
    stable_files([str(tmp_path / "gone")], 0)


STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["write", "append", "touch", "replace", "remove", "list"]), st.text("12", max_size=3))
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_every_change_is_found_once_at_the_next_listing(steps: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        folder = folder_of(path)
        expected: dict[str, str | None] = {}  # the content as of the first listing; None: the change is told
        for number, (file, step, text) in enumerate([*steps, ("a", "list", "")], 1):
            match step:
                case "write" | "append":
                    with (path / file).open("w" if step == "write" else "a") as opened:
                        opened.write(text)
                case "replace":
                    (path / ".new").write_text(text)
                    (path / ".new").replace(path / file)
                case "remove":
                    (path / file).unlink(missing_ok=True)
            if step != "list":
                if (path / file).exists():
                    os.utime(path / file, ns=(0, number))
                continue
            present = {each: (path / each).read_text() for each in "ab" if (path / each).exists()}
            changed = [each for each, text in expected.items() if text is not None and present.get(each, text) != text]
            new = [each for each in present if each not in expected]
            assert names(folder.new_files()) == [*((each, True) for each in changed), *((each, False) for each in new)]
            expected |= {each: present[each] for each in new} | dict.fromkeys(changed)


def test_a_folder_is_drained_where_it_was_listed_and_no_file_settles(tmp_path: Path) -> None:
    now = [0.0]
    folder = Folder(str(tmp_path / "*"), 1_500_000, (), lambda: now[0])

    def drained_after(seconds: float) -> bool:
        now[0] += seconds
        folder.new_files()
        return folder.is_drained

    assert drained_after(0)
    assert not drained_after(0.001)  # listed a moment ago: a file may have appeared since
    assert drained_after(1)
    (tmp_path / "a").write_text("1")
    (tmp_path / "sub").mkdir()  # no file
    assert [drained_after(1) for _ in range(4)] == [False, False, False, True]  # new, settling, found, known
