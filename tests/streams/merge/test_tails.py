"""Files that go on: which file a name has, which rows are whole, and that each comes once, whatever becomes of the files."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.model.places import Document
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.tails import FileSeries, TailedFolder, TailFeed
from dotr.streams.records import ElementMap, Format, InputFile, Record
from tests.support.properties import EXAMPLES

pytestmark = pytest.mark.core

MAP = ElementMap("t", Document("map", "[] <http://e/v> {v} ."))
SETTLE = 1.0


class Tailing:
    """An input of files that go on in a folder, whose clock moves by hand."""

    def __init__(
        self,
        folder: Path,
        form: Format = Format.CSV,
        pattern: str = "app*",
        *,
        watching: bool = True,
        record: int = 1 << 20,
        mapped: ElementMap = MAP,
    ) -> None:
        self.folder = folder
        self.now = 0.0
        self.like = InputFile("in", "", form, map=None if form is Format.NDJSON else mapped, record=record)
        self.told: list[str] = []
        growing = GrowingInput(self.like, f"{folder}/{pattern}", int(SETTLE * 1_000_000), tail=True, watching=watching)
        self.files = TailedFolder(growing, lambda: self.now, self.told.append)
        self.feeds: list[tuple[FileSeries, TailFeed]] = []
        self.records: list[tuple[str, Record]] = []

    def scan(self, seconds: float = 0.1) -> list[Record]:
        """The records of a scan after some seconds, read to the end."""
        self.now += seconds
        self.feeds += [(series, TailFeed(series, self.files.like)) for series in self.files.appeared()]
        before = len(self.records)
        for series, feed in self.feeds:
            while (chunk := feed.read(7)) is not None:
                self.records += [(os.path.basename(series.name), record) for record in chunk.records]
        return [record for _, record in self.records[before:]]

    def values(self, seconds: float = 0.1) -> list[int]:
        """The times of the records of a scan in seconds; -1: a dead letter."""
        return [-1 if record.time is None else record.time // 1_000_000 for record in self.scan(seconds)]

    def settled(self) -> list[int]:
        """The values of two scans between which all files have settled."""
        return self.values() + self.values(SETTLE + 0.1) + self.values()

    def write(self, name: str, text: str, mode: str = "a") -> None:
        """Write text to a file, whose time of change differs from all before."""
        path = self.folder / name
        with path.open(mode) as file:
            file.write(text)
        self.now += 0.01
        stamp = 1_700_000_000_000_000_000 + int(self.now * 1_000_000_000)
        os.utime(path, ns=(stamp, stamp))


HEAD = "t,v\n"


def rows(*numbers: int) -> str:
    return "".join(f"{each},{each}\n" for each in numbers)


def test_rows_count_once_their_line_end_is_there(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", "t,")
    assert tail.values() == []
    tail.write("app", "v\n1,1\n2,")
    assert tail.values() == [1]
    tail.write("app", "2")
    assert tail.values() == []
    tail.write("app", '\n3,"a\nb')
    assert tail.values() == [2]
    tail.write("app", '"\n4,4\n')
    assert [(record.time, record.line) for record in tail.scan()] == [(3_000_000, 4), (4_000_000, 6)]


def test_open_quote_waits_up_to_the_limit_of_a_record(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, record=40)
    tail.write("app", HEAD + '1,"a\n2,2\n')
    assert tail.values() == []
    tail.write("app", rows(*range(10, 19)))
    assert tail.values() == [-1, 2, *range(10, 19)]
    assert "never closed" in tail.records[0][1].why


def test_lines_before_the_header_and_comments_are_no_rows(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, mapped=replace(MAP, skip=2, comment="#"))
    tail.write("app", 'logger "7\n')
    assert tail.values() == []
    tail.write("app", "zone UTC\n# a\n" + HEAD + rows(1) + '# an open "\n' + rows(2))
    assert tail.values() == [1, 2]
    tail.write("app", rows(3) + '#"')
    assert tail.values() == [3]
    tail.write("app", "\n" + rows(4))
    assert [(record.time, record.line) for record in tail.scan()] == [(4_000_000, 10)]


def test_lines_before_rows_without_a_header(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, mapped=replace(MAP, skip=1, columns=("t", "v")))
    tail.write("app", "logger 7\n" + rows(1))
    assert tail.values() == [1]
    tail.write("app", rows(2))
    assert tail.values() == [2]


def test_line_beyond_the_limit_is_one_dead_letter(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, record=30)
    tail.write("app", HEAD + "1," + 100_000 * "x")
    found = tail.scan()
    tail.write("app", 100_000 * "y" + "\n2,2\n")
    assert [(record.reason.value, record.line) for record in found] == [("limit", 2)]
    assert [(record.time, record.line) for record in tail.scan()] == [(2_000_000, 3)]


@pytest.mark.parametrize("form", [Format.CSV, Format.NDJSON])
def test_renamed_file_is_read_on_and_its_follower_after_it(tmp_path: Path, form: Format) -> None:
    tail = Tailing(tmp_path, form)
    head = HEAD if form is Format.CSV else ""

    def text(*numbers: int) -> str:
        return rows(*numbers) if form is Format.CSV else "".join(f'{{"time": {each}, "graph": ""}}\n' for each in numbers)

    tail.write("app", head + text(1))
    assert tail.values() == [1]
    os.rename(tmp_path / "app", tmp_path / "app.1")
    tail.write("app", head + text(4))
    tail.write("app.1", text(2))
    assert tail.values() == [2]
    tail.write("app.1", text(3)[:-1])
    assert tail.settled() == [3, 4]
    assert {name for name, _ in tail.records} == {"app"}
    tail.write("app.1", "\n" + text(5))
    assert tail.settled() == [5]


def test_file_renamed_out_of_the_pattern_is_found_by_its_inode(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, pattern="app")
    tail.write("app", HEAD + rows(1))
    tail.scan()
    os.rename(tmp_path / "app", tmp_path / "old")
    assert tail.values() == []
    tail.write("old", rows(2))
    tail.write("app", HEAD + rows(3))
    assert tail.settled() == [2, 3]


def test_copied_and_cut_file_is_read_on_in_its_copy(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1))
    assert tail.values() == [1]
    tail.write("app", rows(2))
    shutil.copy(tmp_path / "app", tmp_path / "app.1")
    tail.write("app", HEAD + rows(3), "w")
    assert tail.settled() == [2, 3]
    assert {name for name, _ in tail.records} == {"app"}


def test_copy_that_a_scan_sees_before_the_cut_waits(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1, 2))
    assert tail.values() == [1, 2]
    tail.write("app.1", HEAD + rows(1))  # amid copying
    assert tail.values() == []
    tail.write("app.1", rows(2))
    tail.write("app", rows(3))
    assert tail.values() == [3]
    tail.write("app", HEAD + rows(4), "w")
    assert tail.settled() == [4]


def test_copy_of_a_file_that_stays_is_a_file_of_its_own(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1, 2))
    tail.scan()
    shutil.copy(tmp_path / "app", tmp_path / "app.copy")
    assert tail.values() == []
    assert tail.settled() == [1, 2]
    assert tail.records[-1][0] == "app.copy"


@pytest.mark.parametrize("remove", [True, False])
def test_other_bytes_under_a_name_are_a_new_file(tmp_path: Path, remove: bool) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1, 2))
    tail.scan()
    if remove:
        os.remove(tmp_path / "app")
        tail.scan()
    tail.write("app", HEAD + rows(3, 4), "w")
    assert tail.settled() == [3, 4]


def test_same_bytes_under_a_name_are_the_file_as_before(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1, 2))
    tail.scan()
    tail.write("new", HEAD + rows(1, 2, 3), "w")
    os.rename(tmp_path / "new", tmp_path / "app")
    assert tail.settled() == [3]
    tail.write("app", "", "w")  # and written anew, which one scan sees cut
    assert tail.values() == []
    tail.write("app", HEAD + rows(1, 2, 3, 4))
    assert tail.settled() == [4]


def test_removed_file_is_read_to_its_end(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1))
    tail.scan()
    tail.write("app", rows(2) + "3,3")
    os.remove(tmp_path / "app")
    assert tail.settled() == [2, 3]


def test_what_is_cut_before_it_is_whole_is_lost(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1) + "2,")
    tail.scan()
    tail.write("app", HEAD + rows(3), "w")
    assert tail.settled() == [-1, 3]
    assert [(record.reason.value, record.line) for _, record in tail.records if record.time is None] == [("lost", 3)]


def test_present_ends_are_the_ends_without_watch(tmp_path: Path) -> None:
    tail = Tailing(tmp_path, watching=False)
    tail.write("app.2", HEAD + rows(1))
    tail.write("app.1", HEAD + rows(2) + "3,3")
    (tmp_path / "app").touch()
    assert tail.values() == [2, -1, 1]
    assert all(series.ended for series, _ in tail.feeds)
    letter = next(record for _, record in tail.records if record.time is None)
    assert (letter.line, letter.text) == (3, "3,3")
    assert "watch: false" in letter.why


def test_file_without_its_header_is_one_dead_letter(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", "t,w\n" + rows(1))
    assert tail.values() == [-1]
    tail.write("app", rows(2))
    assert tail.values() == []
    tail.write("app", HEAD + rows(3), "w")
    assert tail.settled() == [3]


def test_compressed_files_are_left_out_and_told_once(tmp_path: Path) -> None:
    tail = Tailing(tmp_path)
    (tmp_path / "app.2.gz").write_bytes(b"\x1f\x8b")
    assert tail.values() == tail.values() == []
    assert len(tail.told) == 1
    assert "app.2.gz" in tail.told[0]


# Hostile folders: a run goes on, and what cannot be read is told with its place.


def told(tail: Tailing) -> list[tuple[str, str, int, str]]:
    """The series, reason, line and sentence of the dead letters so far."""
    return [(name, record.reason.value, record.line, record.why) for name, record in tail.records if record.time is None]


@pytest.mark.parametrize(("make", "what"), [(Path.mkdir, "a folder"), (os.mkfifo, "a pipe or device")])
@pytest.mark.parametrize("kept_open", [True, False])
def test_folder_or_pipe_in_the_place_of_a_file_is_told_until_a_file_is_there(
    tmp_path: Path, make: Callable[[Path], object], what: str, kept_open: bool
) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1) + "3,")
    tail.write("apple", HEAD + rows(2))
    tail.scan()
    tail.write("app", "3\n")
    if not kept_open:
        close_all(tail)
    (tmp_path / "app").unlink()
    make(tmp_path / "app")
    tail.write("apple", rows(4))
    assert sorted(tail.settled()) == ([-1, 3, 4] if kept_open else [-1, -1, 4])
    lost = ("app", "lost", 3, "2 bytes from byte 8 on were there, and were cut or removed before they were a whole record")
    there = (
        "app",
        "unreadable",
        3,
        f"{what} is in the place of this file: nothing is read until a file is there again",
    )
    found = [(*letter[:3], letter[3].partition("; keep")[0]) for letter in told(tail)]
    assert found == ([there] if kept_open else [lost, there])
    (os.rmdir if what == "a folder" else os.unlink)(tmp_path / "app")
    tail.write("app", HEAD + rows(5))
    assert tail.settled() == [5]


def close_all(tail: Tailing) -> None:
    """Close all files, as where too many are open."""
    for series, _ in tail.feeds:
        for file in series.known:
            file.close()


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_file_that_cannot_be_read_for_a_while_is_told_once_and_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, grows: bool
) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1))
    tail.write("apple", HEAD + rows(2))
    tail.scan()
    if grows:
        tail.write("app", rows(3))
    close_all(tail)
    opened = os.open

    def refused(path: str, *arguments: int) -> int:
        if path.endswith("app"):
            raise error
        return opened(path, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        tail.write("apple", rows(4))
        assert sorted(tail.settled() + tail.settled()) == ([-1, 4] if grows else [4])
    why = f"it cannot be read from byte 8 on: {error.strerror}; it is read on from there once it can be"
    assert told(tail) == ([("app", "unreadable", 3, why)] if grows else [])
    tail.write("app", rows(5))
    assert tail.settled() == ([3, 5] if grows else [5])


def test_disk_that_fails_for_a_while_is_told_once_and_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1))
    tail.scan()
    tail.write("app", rows(2))

    def failing(*_: int) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing)
        assert tail.settled() + tail.settled() == [-1]
    assert tail.settled() == [2]


def test_file_that_cannot_be_read_is_told_without_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Tailing(tmp_path, watching=False)
    tail.write("app", HEAD + rows(1))
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: opened(path + ".gone", *more) if path.endswith("app") else opened(path, *more))
    assert tail.values() == [-1]
    assert told(tail)[0][3].startswith("it cannot be read from byte 0 on: No such file or directory")
    assert all(series.ended for series, _ in tail.feeds)


def test_link_that_leads_nowhere_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    tail = Tailing(tmp_path)
    (tmp_path / "app").symlink_to("real/log")
    assert tail.settled() == []
    tail.write("real/log", HEAD + rows(1))
    assert tail.values() == [1]
    os.rename(tmp_path / "real/log", tmp_path / "real/away")
    tail.write("real/away", rows(2))
    assert tail.settled() == [2]
    os.rename(tmp_path / "real/away", tmp_path / "real/log")
    tail.write("real/log", rows(3))
    assert tail.settled() == [3]


def test_file_that_is_removed_amid_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Tailing(tmp_path)
    many = rows(*range(1, 20_000))
    tail.write("app", HEAD + many)
    series = tail.files.appeared()[0]
    feed = TailFeed(series, tail.files.like)
    tail.feeds.append((series, feed))
    chunk = feed.read(7)
    assert chunk is not None
    (tmp_path / "app").unlink()
    assert len(chunk.records) + len(tail.settled()) == 19_999
    tail.write("app", HEAD + rows(1))
    assert tail.settled() == [1]


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("anew", "expected"),
    [
        (HEAD + rows(1, 2, 3), [3]),  # all bytes that were read: it goes on
        (HEAD + rows(1, 7, 8), [1, 7, 8]),  # the same first bytes, and others behind them: a new file
        (HEAD + rows(1), [1]),
        ("t,", []),
    ],
)
def test_file_that_is_cut_and_written_anew_with_the_same_first_bytes(tmp_path: Path, seen: bool, anew: str, expected: list[int]) -> None:
    tail = Tailing(tmp_path)
    tail.write("app", HEAD + rows(1, 2))
    tail.scan()
    tail.write("app", "", "w")
    if seen:
        tail.scan()
    tail.write("app", anew)
    assert tail.settled() == expected
    assert told(tail) == []
    tail.write("app", "v\n" + rows(9) if anew == "t," else rows(9))
    assert tail.settled() == [9]


class Writer:
    """A writer of numbered rows to `app`, which it rotates in every way."""

    def __init__(self, tail: Tailing, choose: random.Random) -> None:
        self.tail = tail
        self.folder = tail.folder
        self.choose = choose
        self.csv = tail.like.format is Format.CSV
        self.number = 0
        self.due: set[int] = set()
        self.doubtful: set[int] = set()
        self.found: Counter[int] = Counter()
        self.half = ""
        self.seen = False
        self.current = "app"

    def row(self) -> str:
        self.number += 1
        note = self.choose.choice(["x", '"a, b"', '"a\nb"', '"a ""b"""']) if self.csv else "x" * self.choose.randrange(90)
        return f"{self.number},{note}\n" if self.csv else f'{{"time": {self.number}, "graph": "", "x": "{note}"}}\n'

    def append(self) -> None:
        """Complete a half row, then write whole ones and perhaps a half one."""
        text = self.half
        if self.half:
            self.due.add(self.number)
        for _ in range(self.choose.randrange(4)):
            text += self.row()
            self.due.add(self.number)
        self.half = ""
        if self.choose.random() < 0.3:
            row = self.row()
            cut = self.choose.randrange(1, len(row))
            text, self.half = text + row[:cut], row[cut:]
        if text:
            self.tail.write(self.current, text)

    def begin(self, mode: str = "x", name: str = "app") -> None:
        """Begin a new file; a half row of the one before is never completed."""
        self.half = ""
        self.tail.write(name, HEAD if self.csv else "", mode)
        if not self.csv or self.choose.random() < 0.5:
            self.tail.write(name, self.row())
            self.due.add(self.number)
        self.seen, self.current = False, "app"

    def read(self, *, at_once: bool = False) -> None:
        seconds = 0.1 if at_once else self.choose.choice([0.1, 0.1, 0.5, 1.2])
        self.found.update(value for value in self.tail.values(seconds) if value >= 0)
        self.seen = True

    def rename(self) -> None:
        """Rotate by name; the writer may go on in the renamed file for a while."""
        kept = [name for name in ("app.3", "app.2", "app.1") if (self.folder / name).exists()]
        for name in kept:
            number = int(name[-1])
            if number < 3:
                os.rename(self.folder / name, self.folder / f"app.{number + 1}")
            elif self.seen:
                os.remove(self.folder / name)
        target = self.choose.choice(["app.1", f"old.{self.number}"]) if self.seen else "app.1"
        os.rename(self.folder / "app", self.folder / target)
        if self.choose.random() < 0.5:
            self.current = target
            self.append()
            if self.choose.random() < 0.5:
                self.read()
                self.append()
        self.begin()

    def copy(self) -> None:
        """Rotate by a copy and a cut, within `settle`, with rows between that may be lost."""
        before = self.number
        shutil.copy(self.folder / "app", self.folder / f"app.c{len(list(self.folder.iterdir()))}.{self.number}")
        self.half = ""
        if self.choose.random() < 0.4:
            self.read(at_once=True)
        if self.choose.random() < 0.4:
            self.tail.write("app", "\n" + self.row() if not self.csv else self.row())
            if self.choose.random() < 0.5:
                self.read(at_once=True)
        self.doubtful |= set(range(before + 1, self.number + 1))
        self.begin("w")

    def replace(self) -> None:
        """Put a new file over the name, whose file a scan has seen."""
        self.read()
        self.append()
        self.begin("x", "new")
        os.rename(self.folder / "new", self.folder / "app")

    def remove(self) -> None:
        self.read()
        self.append()
        os.remove(self.folder / "app")
        if self.choose.random() < 0.5:
            self.read()
        self.begin()

    def overwrite(self) -> None:
        """Write the file anew, once its rows are read."""
        for _ in range(30):
            if self.due <= self.found.keys():
                break
            self.read()
        self.begin("w")


@pytest.mark.parametrize("form", [Format.CSV, Format.NDJSON])
def test_each_row_comes_once_whatever_becomes_of_its_file(tmp_path: Path, form: Format) -> None:
    for seed in range(max(2, int(EXAMPLES or 0) // 50)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        choose = random.Random(seed)
        tail = Tailing(folder, form)
        writer = Writer(tail, choose)
        writer.begin()
        writer.read()
        steps: list[Callable[[], None]] = [
            writer.append,
            writer.read,
            writer.rename,
            writer.copy,
            writer.replace,
            writer.remove,
            writer.overwrite,
        ]
        for step in choose.choices(steps, [30, 30, 4, 4, 2, 2, 2], k=1_000):
            step()
        for _ in range(20):
            writer.read()
            tail.now += SETTLE + 1
        missing = writer.due - writer.found.keys()
        assert not missing, (seed, sorted(missing)[:5])
        twice = [number for number, times in writer.found.items() if times > 1]
        assert not twice, (seed, twice[:5])
