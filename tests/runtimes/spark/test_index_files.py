"""Files of the index: complete or absent, and waits for them that end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, decode_diagnostics, encode_diagnostics
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.planning import index_files
from dotr.runtimes.spark.planning.granules import Granule, Piece, PieceLink, has_ranges, range_starts, scan_range
from dotr.runtimes.spark.planning.index_files import IndexFiles, PlanStopped
from dotr.streams.records import START, Format, InputFile
from tests.support.judged_inputs import MAP

pytestmark = pytest.mark.core

PIECE = Piece((Granule(0, 1, 3, 7),), PieceLink(1, 90, 4))


@pytest.fixture
def files(tmp_path: Path) -> IndexFiles:
    files = IndexFiles(tmp_path / "index")
    files.begin(Offset.start(2))
    return files


def test_a_piece_is_waited_for(files: IndexFiles) -> None:
    assert files.base() == Offset.start(2)
    assert files.read_now(0, 3) is None
    threading.Timer(0.1, files.write, (0, 3, PIECE)).start()
    assert files.read(0, 3) == PIECE == files.read_now(0, 3)
    files.release(0, 3)
    assert files.read_now(0, 3) is None


def test_a_failed_scan_ends_the_wait_with_its_diagnostics(files: IndexFiles) -> None:
    files.fail(encode_diagnostics(Refused([Diagnostic("S150", "no room", None, "")])))
    with pytest.raises(CarriedDiagnostics) as failed:
        files.read(0, 0)
    found = decode_diagnostics(str(failed.value))
    assert found is not None
    assert found.diagnostics[0].message == "no room"


def test_missing_heartbeat_ends_the_wait(files: IndexFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_files, "_SILENCE_SECONDS", 0.2)
    beating = [threading.Timer(0.1 * number, files.beat) for number in range(1, 5)]
    start = time.monotonic()
    for each in beating:
        each.start()
    with pytest.raises(Refused, match="S151") as refused:
        files.read(0, 0)
    assert time.monotonic() - start > 0.5, "as long as the process shows that it is there, it is waited for"
    assert refused.value.diagnostics[0].code == "S151"


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    stopped = threading.Event()
    threading.Timer(0.1, stopped.set).start()
    with pytest.raises(PlanStopped):
        IndexFiles(tmp_path, stopped.is_set).read(0, 0)


def test_range_that_starts_inside_of_quotes_is_valid_from_the_next_row_on(tmp_path: Path) -> None:
    """The second range starts in the quoted field of row 2, and reads its lines as rows; the first range is scanned up to row 3."""
    head, first = "t,id,v\n", "1,urn:x:1,1\n"
    second, third = '2,urn:x:2,"a\n99,urn:no:1,1\n98,urn:no:2,1\nb"\n', "3,urn:x:3,3\n"
    path = tmp_path / "a.csv"
    path.write_text(head + first + second + third)
    file = InputFile("a", str(path), Format.CSV, prefixes=(("", "http://e/"),), map=MAP)
    starts = (0, len(head + first) + 12, len(head + first + second) - 3)
    pieces = [scan_range(file, START, starts, piece, 1) for piece in range(3)]
    at = len(head + first + second)
    assert pieces[0] == Piece((Granule(len(head), 2, 1, 1_000_000), Granule(len(head + first), 3, 1, 2_000_000)), PieceLink(2, at, 7))
    assert pieces[1].granules[0].greatest == 99_000_000, "it is left out, being before the link"


def test_a_range_without_a_line_end_has_no_record(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    long = '{"time": 1, "graph": "", "more": "' + "x" * 100 + '"}\n'
    path.write_text(long + '{"time": 2, "graph": ""}\n')
    file = InputFile("a", str(path), Format.NDJSON)
    starts = range_starts(0, path.stat().st_size, 10)
    pieces = [scan_range(file, START, starts, piece, 1) for piece in range(len(starts))]
    assert pieces[1] == Piece((), None)
    link = pieces[0].link
    assert link is not None
    assert (link.offset, link.line) == (len(long), 2)
    assert pieces[link.piece].granules[0] == Granule(len(long), 1, 1, 2_000_000)


def test_only_plain_files_whose_records_are_a_function_of_the_place_have_ranges(tmp_path: Path) -> None:
    quads, log, packed = tmp_path / "a.nq", tmp_path / "b.nq", tmp_path / "c.ndjson"
    quads.write_text("<http://e/s> <http://e/p> <http://e/o> <http://e/g> .\n")
    log.write_text('VERSION "1.2-messages"\n' + quads.read_text())
    packed.write_bytes(b"\x1f\x8b")
    assert has_ranges(InputFile("a", str(quads), Format.NQUADS))
    assert not has_ranges(InputFile("a", str(log), Format.NQUADS))
    assert not has_ranges(InputFile("a", str(packed), Format.NDJSON))
    assert not has_ranges(InputFile("a", str(quads), Format.TRIG))
    assert not has_ranges(InputFile("a", str(tmp_path / "none"), Format.CSV))
