"""Content of files: what is no text is told by its first bytes, and UTF-16 is read."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import random
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import DeadLetter
from dotr.runtimes.spark.planning.granules import has_ranges
from dotr.streams.formats.content import open_text
from dotr.streams.formats.reading import check_input
from dotr.streams.merge.feeds import AppearingFiles, FilesFeed
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.records import START, ElementMap, Format, InputFile, Position
from tests.streams.formats.test_io_formats import read, seconds

pytestmark = pytest.mark.core

TEXT = "t,v\n1,10\n2,20\n"
MAP = ElementMap("t", Document("map", "[] <x:v> {v} ."))
WIDE = replace(MAP, encoding="utf-16")
MAPPED = (Format.CSV, Format.JSON, Format.TEXT)
ZSTD = bytes.fromhex("28b52ffd045871000074") + b"\x00t,v\n1,10\n2,20\n\xd5\x1e"


def zipped(*names: str) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return memory.getvalue()


def spec(path: Path, form: Format, mapped: ElementMap = MAP) -> InputFile:
    if form is Format.TEXT:
        mapped = replace(mapped, time="$value", template=Document("map", "[] <x:v> {$value} ."))
    return InputFile("in", str(path), form, map=mapped if form in MAPPED else None)


ODD = {
    "zip": (zipped("x.csv"), "is a zip archive: unpack it, or pipe it in (`unzip -p FILE | dotr run`, path: -)"),
    "zstd": (ZSTD, "is zstd-compressed: unpack it, or pipe it in (`zstd -dc FILE | dotr run`, path: -)"),
    "bzip2": (bz2.compress(TEXT.encode()), "is bzip2-compressed: unpack it, or pipe it in (`bzip2 -dc FILE | dotr run`, path: -)"),
    "xz": (lzma.compress(TEXT.encode()), "is xz-compressed: unpack it, or pipe it in (`xz -dc FILE | dotr run`, path: -)"),
    "xlsx": (zipped("[Content_Types].xml", "xl/workbook.xml"), "is an Excel workbook: save it as CSV, in UTF-8"),
    "xls": (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100), "is an Excel workbook: save it as CSV, in UTF-8"),
    "parquet": (b"PAR1\x15\x04" + bytes(range(128, 256)) + b"PAR1", "is a Parquet file: write format: parquet"),
    "packed": (gzip.compress(bz2.compress(TEXT.encode())), "is bzip2-compressed: "),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("form", [form for form in Format if form not in (Format.PARQUET, Format.RECORDING)])
def test_file_that_is_no_text_is_told(tmp_path: Path, name: str, form: Format) -> None:
    content, told = ODD[name]
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    for encoding in ("utf-8", "iso8859-1", "utf-16") if form is Format.CSV else ("utf-8",):
        with pytest.raises(Refused) as caught:
            check_input(spec(path, form, replace(MAP, encoding=encoding)))
        [problem, *_] = caught.value.diagnostics
        assert problem.code == "I101"
        assert problem.message.startswith(f"{path} {told.replace('FILE', str(path))}")
        assert "latin" not in "".join(f"{each.message}{each.hint}" for each in caught.value.diagnostics)


@pytest.mark.parametrize("form", [form for form in Format if form not in (Format.PARQUET, Format.RECORDING)])
@pytest.mark.parametrize("text", [TEXT.encode("utf-16"), codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), TEXT.encode("utf-16-le")])
def test_utf_16_is_told(tmp_path: Path, form: Format, text: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    way = "write encoding: utf-16" if form in MAPPED else f"recode it (`iconv -f utf-16 -t utf-8 {path}`)"
    with pytest.raises(Refused) as caught:
        check_input(spec(path, form))
    assert caught.value.diagnostics[0].message == f"{path} is in UTF-16: {way}"


@pytest.mark.parametrize(
    "text",
    [
        b"PAR1,v\n1,2\n",
        b"BZh,v\n1,2\n",
        b"PK,v\n1,2\n",
        "(µ/ý,v\n1,2\n".encode("latin-1"),
        "ÿþ,v\n1,2\n".encode("latin-1"),
        b"t,v\n1,\x002\n",
        b"\x00" * 100,
        b"\xff\xfe" + "t,v\n1,2".encode("utf-16-le") + b"\n",
        b"",
    ],
)
def test_text_that_begins_so_is_read(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    with open_text(spec(path, Format.CSV, replace(MAP, encoding="iso8859-1")), START) as lines:
        assert lines.read() == text


def test_binary_header_gets_no_encoding_as_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\x7fELF\x00\xff\n")
    with pytest.raises(Refused, match="I102") as caught:
        check_input(spec(path, Format.CSV))
    assert caught.value.diagnostics[0].hint == "Is it text? If so, save it as UTF-8."


def test_odd_file_of_a_watched_folder_is_one_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "b.csv").write_bytes(ODD["xz"][0])
    (tmp_path / "c.csv").write_text("t,v\n3,1\n")
    like = InputFile("in", "", Format.CSV, map=MAP)
    feed = FilesFeed(AppearingFiles(GrowingInput(like, str(tmp_path / "*.csv")), []))
    letters: list[DeadLetter] = []
    times: list[float | None] = []
    while (chunk := feed.read(10)) is not None:
        letters += [each.dead_letter(chunk.file) for each in chunk.records if each.element is None]
        times += seconds([each for each in chunk.records if each.element is not None])
    assert times == [1, 2, 3]
    [letter] = letters
    assert letter.why == f"{tmp_path}/b.csv {ODD['xz'][1].replace('FILE', f'{tmp_path}/b.csv')}"


# --- UTF-16 ---


@pytest.mark.parametrize(
    ("encoding", "mark", "codec", "end"),
    [
        ("utf-16", codecs.BOM_UTF16_LE, "utf-16-le", "\r\n"),
        ("utf-16", codecs.BOM_UTF16_BE, "utf-16-be", "\n"),
        ("utf-16", b"", "utf-16-le", "\r"),
        ("utf-16", b"", "utf-16-be", "\r\n"),
        ("utf-16-be", b"", "utf-16-be", "\r"),
        ("utf-16-le", codecs.BOM_UTF16_LE, "utf-16-le", "\n"),
    ],
)
def test_utf_16_is_read_as_the_same_text_in_utf_8(tmp_path: Path, encoding: str, mark: bytes, codec: str, end: str) -> None:
    text = "# µ\nt,v\n1,Ωmega\n" + "2,😀\n" * 8_000 + '3,"x\ny"\n'
    plain, wide, packed = (tmp_path / name for name in ("plain.csv", "wide.csv", "packed.csv"))
    plain.write_text(("\ufeff" if mark else "") + text.replace("\n", "\n" if end == "\r" else end), newline="")
    content = mark + text.replace("\n", end).encode(codec)
    wide.write_bytes(content)
    packed.write_bytes(gzip.compress(content, 1))
    mapped = replace(WIDE, encoding=encoding, comment="#")
    found = read(spec(plain, Format.CSV, replace(mapped, encoding="utf-8")))
    assert len(found) == 8_002
    for path in (wide, packed):
        file = spec(path, Format.CSV, mapped)
        check_input(file)
        assert not has_ranges(file)
        assert read(file) == found
        for number in (1, 3_000, 8_001):
            assert read(file, Position(found[number].offset, found[number].line)) == found[number:]


def test_json_in_utf_16(tmp_path: Path) -> None:
    for text, mark in (('{"t": 1, "v": "ä"}\n{"t": 2, "v": 2}\n', ""), ('\n [{"t": 1, "v": "ä"},\n{"t": 2, "v": 2}]', "\ufeff")):
        plain, wide = tmp_path / "plain.json", tmp_path / "wide.json"
        plain.write_text(mark + text)
        wide.write_bytes((mark + text).encode("utf-16-le"))
        found = read(spec(plain, Format.JSON))
        assert seconds(found) == [1, 2]
        assert read(spec(wide, Format.JSON, WIDE)) == found
        assert read(spec(wide, Format.JSON, WIDE), Position(found[1].offset, found[1].line)) == found[1:]


@pytest.mark.parametrize("broken", [b"2,\x00\xd8x\x00\n\x00", b"2,x\x00\n\x00\xfe"])
def test_broken_utf_16_costs_its_row(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("t,v\n1,a\n".encode("utf-16") + broken.replace(b"2,", "2,".encode("utf-16-le")))
    found = read(spec(path, Format.CSV, WIDE))
    assert [each.why.partition(" (")[0] for each in found if each.why] == ["it is not UTF-16"]
    assert seconds(found)[0] == 1


def test_text_in_utf_8_is_no_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    with pytest.raises(Refused, match="is in UTF-8, not in UTF-16: leave encoding out"):
        check_input(spec(path, Format.CSV, WIDE))


@pytest.mark.parametrize("seed", range(30))
def test_recoded_bytes_are_those_of_the_whole_file_from_any_offset_on(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    text = "".join(choose.choice('aé😀\r,"x') for _ in range(choose.randrange(2, 60)))
    path, wide = tmp_path / "a.csv", choose.random() < 0.7
    path.write_bytes(text.encode("utf-16" if wide else "utf-8"))
    file = spec(path, Format.CSV, WIDE if wide else MAP)
    with open_text(file, START) as lines:
        whole = lines.read()
        is_ended = text.count("\r") > 1 or "\r" in text[:-1]
        assert whole.removeprefix(codecs.BOM_UTF8).decode() == (text.replace("\r", "\n") if is_ended else text)
        for _ in range(5):
            offset = choose.randrange(len(whole) + 1)
            lines.seek(offset)
            assert lines.tell() == offset
            assert lines.read(3) == whole[offset : offset + 3]
    with open_text(file, Position(offset, 1)) as lines:
        assert lines.read() == whole[offset:]
