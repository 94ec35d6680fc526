"""Lines that are appended: in a file, and as parts of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.evaluation.files import stores
from dotr.evaluation.files.stores import AppendedLines, Location, configure_storage
from tests.support.object_server import S3


@pytest.mark.core
def test_line_that_a_crash_has_cut_off_is_ended_first(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"one\ntw")
    notes = AppendedLines(Location(str(file)))
    assert notes.read() == ["one", "tw"]
    notes.append(["three"])
    assert file.read_bytes() == b"one\ntw\nthree\n"
    notes.shorten(["three"])
    notes.append(["four"])
    assert file.read_bytes() == b"three\nfour\n"


def test_parts_of_a_store_have_so_many_lines_and_go_on(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PART", 2)
    configure_storage(s3.settings())
    bucket = s3.bucket()
    place = Location(f"s3a://{bucket}/fires/notes")
    try:
        notes = AppendedLines(place)
        assert notes.read() == []
        for number in range(3):
            notes.append([str(number)])
        notes = AppendedLines(place)
        assert notes.read() == ["0", "1", "2"]
        for number in range(3, 6):
            notes.append([str(number)])
        notes.shorten(["5"])
        assert AppendedLines(place).read() == [str(number) for number in range(6)]
        assert s3.keys(bucket) == [f"fires/notes/{number:012d}" for number in range(3)]
    finally:
        configure_storage({})
