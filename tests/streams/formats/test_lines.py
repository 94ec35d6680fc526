"""Files as bytes: the first bytes of a file, as of its opening or as many as are given."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.streams.formats.lines import open_lines
from dotr.streams.records import START, Position

pytestmark = pytest.mark.core

TEXT = b"".join(b"%d\n" % number for number in range(30_000))  # more than a buffer


def test_bytes_appended_after_the_opening_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    for read in (lambda lines: b"".join(lines), lambda lines: lines.read(), lambda lines: lines.read(1 << 20)):
        with open_lines(str(path), START) as lines:
            with path.open("ab") as file:
                file.write(b"more\n")
            assert read(lines) == TEXT
            lines.seek(len(TEXT) - 7)
            assert lines.read() == TEXT[-7:]
        path.write_bytes(TEXT)


@pytest.mark.parametrize("size", [0, 1, 5, 65_536, 65_537, len(TEXT), len(TEXT) + 1])
def test_a_given_number_of_bytes_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    for offset in (0, 3, 65_536, 70_000):
        with open_lines(str(path), Position(offset, 1), size=size) as lines:
            assert b"".join(lines) == TEXT[:size][offset:]


def test_a_compressed_file_is_its_members_as_of_the_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(gzip.compress(b"more\n"))
    with open_lines(str(path), START, size=size) as lines:
        assert lines.read() == TEXT
    with open_lines(str(path), START) as lines:
        assert lines.read() == TEXT + b"more\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(Refused, match="I101"):
        open_lines(str(tmp_path / "a"), START)
    with open_lines(os.devnull, START) as lines:
        assert lines.read() == b""
