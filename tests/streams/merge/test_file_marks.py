"""Marks of files: changes that they see, and those that they do not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dotr.streams.merge.file_marks import COMPARED, FileMark, mark_of_path

pytestmark = pytest.mark.core

TEXT = b"".join(b"%d,%d\n" % (number, number) for number in range(400))


def marked(path: Path, offset: int | None = None) -> FileMark:
    return mark_of_path(str(path), offset)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT)
    return path


def seen(mark: FileMark, path: Path) -> tuple[bool, bool]:
    return mark.has_changed(str(path)), mark.is_continued_by(str(path))


def later(path: Path) -> None:
    """Give a file another time of change."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def test_an_unchanged_file_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = marked(path)
    monkeypatch.setattr(os, "open", None)
    assert not mark.has_changed(str(path))


def test_touched_and_copied_files_are_unchanged(path: Path, tmp_path: Path) -> None:
    mark = marked(path)
    later(path)
    assert seen(mark, path) == (False, True)
    (tmp_path / "copy").write_bytes(TEXT)
    os.replace(tmp_path / "copy", path)
    assert seen(mark, path) == (False, True)


def test_appended_bytes_are_a_change_that_continues_the_file(path: Path) -> None:
    mark = marked(path)
    with path.open("ab") as file:
        file.write(b"9,9\n")
    assert seen(mark, path) == (True, True)


@pytest.mark.parametrize("text", [TEXT[:-4] + b"9,9\n", TEXT[:-4], b"", b"x" * len(TEXT) + b"x", TEXT[1:]])
def test_other_bytes_are_a_change(path: Path, text: bytes) -> None:
    mark = marked(path)
    path.write_bytes(text)
    later(path)
    assert seen(mark, path) == (True, False)


def test_what_is_not_seen(path: Path) -> None:
    mark, status = marked(path), path.stat()
    path.write_bytes(b"x" * len(TEXT))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not mark.has_changed(str(path)), "size and time of change are those of the mark"
    path.write_bytes(b"x" * (len(TEXT) - COMPARED) + TEXT[-COMPARED:])
    later(path)
    assert seen(mark, path) == (False, True), "the last 1,024 bytes are the same"


def test_a_mark_amid_a_file_compares_the_bytes_before_its_offset(path: Path) -> None:
    mark = marked(path, 300)
    path.write_bytes(TEXT[:300])
    assert seen(mark, path) == (True, True)
    path.write_bytes(b"x" + TEXT[1:])
    later(path)
    assert seen(mark, path) == (True, False)


def test_folders_pipes_and_missing_files(path: Path) -> None:
    mark = marked(path)
    path.unlink()
    assert not mark.has_changed(str(path)), "what was read stays read"
    os.mkfifo(path)
    assert seen(mark, path) == (True, False)
    path.unlink()
    path.mkdir()
    assert seen(mark, path) == (True, False)


def test_json_form(path: Path) -> None:
    mark = marked(path, 7)
    assert FileMark.of_json(json.loads(json.dumps(mark.to_json()))) == mark
    for members in ([], [1, 2], ["a"] * 6, [*mark.to_json(), 1]):
        with pytest.raises((TypeError, ValueError)):
            FileMark.of_json(members)
