"""Merge by time, lateness, dead letters, and sinks."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Clock
from dotr.streams.lateness import Lateness
from dotr.streams.merge.bounded import RecordSource, instants, merged
from dotr.streams.records import Format, InputFile, Record
from dotr.streams.sinks.events import dead_letter_line
from dotr.streams.sinks.files import BatchFile, FileSink, WriteFailed, check_new

pytestmark = pytest.mark.core

_TIMES = st.lists(st.none() | st.integers(0, 12), max_size=12)


def source(number: int, times: list[int | None], delay: int) -> RecordSource:
    """A source whose elements hold the number of the source and of the record."""
    records = [
        Record(
            at,
            at + 1,
            at + 1,
            time,
            None if time is None else Element(time, ((f"<x:{number}>", "<x:>", f"<x:{at}>"),)),
            b"x",
            "" if time is not None else "!",
        )
        for at, time in enumerate(times)
    ]
    return RecordSource(InputFile(str(number), "f", Format.NDJSON, delay=delay), iter(records), Lateness(delay))


@given(st.lists(st.tuples(_TIMES, st.integers(0, 4)), max_size=4))
def test_merge_gives_complete_instants_in_order_and_every_element(files: list[tuple[list[int | None], int]]) -> None:
    dead: list[DeadLetter] = []
    found = list(instants([source(number, times, delay) for number, (times, delay) in enumerate(files)], dead.append))
    expected: dict[int, list[Element]] = {}
    lost: list[tuple[str, int, Reason]] = []
    for number, (times, delay) in enumerate(files):
        for at, time in enumerate(times):
            if time is None:
                lost.append((str(number), at + 1, Reason.UNREADABLE))
            elif any(other is not None and other - time > delay for other in times[:at]):
                lost.append((str(number), at + 1, Reason.LATE))
            else:
                expected.setdefault(time, []).append(Element(time, ((f"<x:{number}>", "<x:>", f"<x:{at}>"),)))
    assert found == sorted(expected.items())
    assert sorted((letter.input, letter.line, letter.reason) for letter in dead) == sorted(lost)


def test_merge_read_ahead_is_minimal() -> None:
    taken: list[int] = []

    def counted(number: int) -> RecordSource:
        file, records, lateness = source(number, list(range(100)), 0)
        return RecordSource(file, (taken.append(number) or record for record in records), lateness)  # type: ignore[func-returns-value]

    stream = instants([counted(0), counted(1)], lambda letter: None)
    for _ in range(10):
        next(stream)
    assert len(taken) <= 2 * 11


def test_files_are_merged_and_rejected_records_are_dead_letters(tmp_path: Path) -> None:
    def file(name: str, *times: object) -> InputFile:
        path = tmp_path / name
        path.write_text("".join((json.dumps({"time": time, "graph": ""}) if time else "?") + "\n" for time in times))
        return InputFile(name, str(path), Format.NDJSON)

    dead: list[DeadLetter] = []
    stream = [(time // 1_000_000, len(elements)) for time, elements in merged([file("a", 1, 3, 2, 3), file("b", 2, None, 3)], dead.append)]
    assert stream == [(1, 1), (2, 1), (3, 3)]
    assert [json.loads(dead_letter_line(letter, Clock())) for letter in sorted(dead, key=lambda letter: letter.input)] == [
        {
            "reason": "late",
            "input": "a",
            "file": str(tmp_path / "a"),
            "line": 3,
            "time": 2,
            "text": '{"time": 2, "graph": ""}',
            "error": "an element of 3 came before this one of 2",
        },
        {
            "reason": "unreadable",
            "input": "b",
            "file": str(tmp_path / "b"),
            "line": 2,
            "time": None,
            "text": "?",
            "error": "it is no JSON: expecting value at column 1",
        },
    ]
    with pytest.raises(Refused):
        list(merged([file("a", 1), InputFile("c", str(tmp_path / "c"), Format.NDJSON)], dead.append))


# --- sinks ---


def code(path: Path) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        FileSink(str(path))
    return refused.value.diagnostics[0].code, refused.value.diagnostics[0].hint


def test_file_sink_creates_folders_and_refuses_old_output(tmp_path: Path) -> None:
    path = tmp_path / "out" / "deep" / "a.ndjson"
    with FileSink(str(path)) as sink:
        sink.write(["å\n", "b\n"])
        sink.flush()
        assert path.read_bytes() == b"\xc3\xa5\nb\n"
    again = code(path)
    assert again[0] == "I201"
    assert "--fresh" in again[1]
    assert path.read_text() == "å\nb\n"
    assert code(path / "below.ndjson")[0] == "I202"
    assert code(tmp_path / "out")[0] == "I202"


def test_compressed_sink_is_reproducible(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with FileSink(str(tmp_path / name)) as sink:
            sink.write(["line\n"] * 3)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"line\n" * 3


def write_batch(folder: str, batch: int, texts: Iterable[str], suffix: str) -> None:
    with BatchFile(folder, batch, suffix) as file:
        for text in texts:
            file.write([text])


def test_batch_file_is_complete_or_absent(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "fire.ndjson"
    write_batch(str(folder), 12, ["one\n"], ".ndjson")
    write_batch(str(folder), 13, [], ".ndjson")
    write_batch(str(folder), 12, iter(["two\n", "three\n"]), ".ndjson")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"000000000012.ndjson": "two\nthree\n"}
    with pytest.raises(Refused) as refused:
        check_new(str(folder))
    assert refused.value.diagnostics[0].code == "I201"
    check_new(str(tmp_path / "other"))
    (tmp_path / "empty").mkdir()
    check_new(str(tmp_path / "empty"))
    (tmp_path / "file").touch()
    with pytest.raises(Refused):
        write_batch(str(tmp_path / "file"), 1, ["x"], ".ndjson")


def test_batch_on_a_full_disk_raises_write_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    write_batch(str(folder), 1, ["one\n"], ".ndjson")

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteFailed, match=r"cannot write .*out: no space left on device"):
        write_batch(str(folder), 2, ["two\n"], ".ndjson")
    assert [path.name for path in folder.glob("[0-9]*")] == ["000000000001.ndjson"]
