"""Content of a file: what its first bytes say that it is, and its text as lines.

Idea: a file in UTF-16, and a CSV file whose lines end with a carriage return alone, are read
through a raw stream that recodes them to UTF-8 and to line feeds, as a compressed file is read
through one that unpacks it. Positions are offsets in the recoded bytes, so such a file is read from
its start.
Cost: one look at the first 64 KiB of a file, kept while the file does not change.
"""

from __future__ import annotations

import codecs
import io
from functools import lru_cache
from typing import BinaryIO, Final, NamedTuple, cast

from dotr.errors.diagnostics import Refused, refuse
from dotr.model.places import Span
from dotr.streams.formats.lines import STANDARD_INPUT, DerivedBytes, FileVersion, damage, file_version, open_lines
from dotr.streams.records import START, WIDE, Format, InputFile, Position

_LOOKED_AT: Final = 1 << 16
_PACKED: Final = "{}: unpack it, or pipe it in (`{} {} | dotr run`, path: -)"
_WORKBOOK: Final = "an Excel workbook: save it as CSV, in UTF-8"
_ODD: Final = {
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
    b"PK\x05\x06": ("a zip archive", "unzip -p"),
    b"(\xb5/\xfd": ("zstd-compressed", "zstd -dc"),
    b"BZh": ("bzip2-compressed", "bzip2 -dc"),
    b"\xfd7zXZ\x00": ("xz-compressed", "xz -dc"),
    b"PAR1": ("a Parquet file: write format: parquet", ""),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (_WORKBOOK, ""),
}
"""The kinds of files that are no text, by their first bytes, and the commands that unpack them."""

_IN_WORKBOOK: Final = (b"[Content_Types].xml", b"_rels/.rels", b"xl/")
_WIDE_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\v\f\r\x1a\x1b"})


class Content(NamedTuple):
    """The content of a file by its first bytes.

    - `odd`: what the file is, and the way out, where it is no text of its encoding; else empty.
    - `wide`: the codec of a file in UTF-16; empty for all others.
    - `returns`: the lines of a CSV file end with a carriage return alone.
    """

    odd: str = ""
    wide: str = ""
    returns: bool = False


_PLAIN: Final = Content()


def open_text(file: InputFile, position: Position, place: Span | None = None) -> BinaryIO:
    """Open a file as lines of bytes from a position on, decompressed and recoded; raises `Refused`
    (I101) where the file cannot be read, or is no text of its encoding.

    The caller closes the file, as that of `open_lines`.
    """
    if file.framed or file.format is Format.PARQUET:
        return open_lines(file.path, position, place, file.size)
    if file.path == STANDARD_INPUT:
        lines = open_lines(file.path, position, place, file.size)
        content = content_of(cast(io.BufferedReader, lines).peek(_LOOKED_AT), file)
        if content.odd:
            raise _refused(file, content, place)
        return _recoded(lines, content)
    content = _content_of_file(file)
    if content.odd:
        raise _refused(file, content, place)
    if not content.wide and not content.returns:
        return open_lines(file.path, position, place, file.size)
    lines = _recoded(open_lines(file.path, START, place, file.size), content)
    lines.seek(position.offset)
    return lines


def whole_reason(file: InputFile) -> str:
    """The reason why a file is read from its start, so that tasks cannot divide it; else empty."""
    if file.framed or not file.path or file.path == STANDARD_INPUT:
        return ""
    if file.format is Format.JELLY:
        return "names that its frames define are used by later ones"
    content = _content_of_file(file)
    return "it is in UTF-16" if content.wide else "its lines end with a carriage return alone" if content.returns else ""


def content_of(start: bytes, file: InputFile) -> Content:
    r"""The content of a file that begins with some bytes: its first 64 KiB, or all.

    >>> content_of(b"BZh91AY&SY\x00", InputFile("in", "a.bz2", Format.TRIG)).odd
    'is bzip2-compressed: unpack it, or pipe it in (`bzip2 -dc a.bz2 | dotr run`, path: -)'
    >>> content_of(b"BZh,t\n1,2\n", InputFile("in", "a.csv", Format.CSV)), content_of(b"t,v\r1,2\r", InputFile("in", "", Format.CSV))[2]
    (Content(odd='', wide='', returns=False), True)
    """
    encoding = "utf-8" if file.map is None else file.map.encoding
    packed, is_wide = _packed(start, file), _is_wide(start)
    if encoding in WIDE:
        if start and not is_wide and (packed or _is_text(start, "utf-8")):
            return Content(packed or "is in UTF-8, not in UTF-16: leave encoding out")
        wide = _wide_codec(start, encoding)
        return Content(wide=wide, returns=_has_returns(start.decode(wide, "ignore").encode(), file))
    if (packed or is_wide) and not _is_text(start, encoding):
        way = "write encoding: utf-16" if file.map is not None else f"recode it (`iconv -f utf-16 -t utf-8 {file.path}`)"
        return Content(packed or f"is in UTF-16: {way}")
    return Content(returns=True) if _has_returns(start, file) else _PLAIN


def recoded_start(start: bytes, file: InputFile) -> bytes:
    """The recoded text of a file that begins with some bytes.

    >>> recoded_start(b"t,v\\r1,2\\r", InputFile("in", "-", Format.CSV))
    b't,v\\n1,2\\n'
    """
    with _recoded(cast(BinaryIO, io.BufferedReader(io.BytesIO(start))), content_of(start, file)) as lines:
        return lines.read()


def _refused(file: InputFile, content: Content, place: Span | None) -> Refused:
    name = "standard input" if file.path == STANDARD_INPUT else file.path
    return refuse("I101", f"{name} {content.odd}", place)


def _content_of_file(file: InputFile) -> Content:
    try:
        return _looked_at(file, file_version(file.path))
    except (Refused, OSError):  # reported where the file is opened
        return _PLAIN


@lru_cache(1 << 12)
def _looked_at(file: InputFile, version: FileVersion) -> Content:
    """The content of a file; `version` tells whether the file has changed since."""
    with open_lines(file.path, START, size=file.size) as lines:
        return content_of(lines.read(_LOOKED_AT), file)


def _packed(start: bytes, file: InputFile) -> str:
    """The form of a file that is no text, by its first bytes, and the way out; else empty."""
    what, command = next((found for magic, found in _ODD.items() if start.startswith(magic)), ("", ""))
    if command == "unzip -p" and any(part in start for part in _IN_WORKBOOK):
        what, command = _WORKBOOK, ""
    return f"is {_PACKED.format(what, command, file.path)}" if command else what and f"is {what}"


def _is_wide(start: bytes) -> bool:
    """True if a file begins as text in UTF-16 does: with its mark, or with every second byte 0."""
    if len(start) < _LOOKED_AT and len(start) % 2:
        return False
    zeros = [start[at:8:2].count(0) for at in (0, 1)]
    return start.startswith(_WIDE_BOMS) or sorted(zeros) == [0, min(8, len(start)) // 2 or 1]


def _wide_codec(start: bytes, encoding: str) -> str:
    if encoding == "utf-16":
        return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) or start[:1] == b"\0" else "utf-16-le"
    return encoding


def _is_text(start: bytes, encoding: str) -> bool:
    """True if the first bytes of a file are text of an encoding: no byte is a control character."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(start, final=len(start) < _LOOKED_AT)
    except UnicodeDecodeError:
        return False
    return len(start.translate(None, _CONTROLS)) == len(start)


def _has_returns(start: bytes, file: InputFile) -> bool:
    """True if lines end with a carriage return alone: one that ends the bytes may be half of an
    end."""
    return file.format is Format.CSV and b"\r" in start and b"\n" not in start and (start.count(b"\r") > 1 or start[-1:] != b"\r")


def _recoded(lines: BinaryIO, content: Content) -> BinaryIO:
    return io.BufferedReader(RecodedBytes(lines, content), _LOOKED_AT) if content.wide or content.returns else lines


class RecodedBytes(DerivedBytes):
    """Raw stream of the bytes of a file in UTF-8 and with line feeds.

    Half of a surrogate pair, and half of a character at the end, become bytes that are no UTF-8.
    """

    def __init__(self, file: BinaryIO, content: Content) -> None:
        super().__init__(file)
        self._content = content
        self._move_back(0)

    def _move_back(self, offset: int) -> None:
        if self._returned:
            self._file.seek(0)
        self._returned, self._unread, self._ended = 0, b"", False
        self._decoder = codecs.getincrementaldecoder(self._content.wide or "latin-1")("surrogatepass")

    def _next(self, most: int) -> bytes:
        recoded = b""
        while not recoded and not self._ended:
            data = cast(io.BufferedReader, self._file).read1(most)
            self._ended = not data
            try:
                recoded = self._decoder.decode(data, not data).encode("utf-8", "surrogatepass") if self._content.wide else data
            except UnicodeDecodeError:  # the file ends amid a character
                recoded = b"\xff"
        self.error = damage(self._file)
        return recoded.replace(b"\r", b"\n") if self._content.returns else recoded


# Encodings of files: UTF-8, extensions of ASCII with one byte a character, and UTF-16.

_ASCII: Final = bytes(range(128))


def encoding_name(name: str) -> str:
    """The name of the codec of an encoding; raises ValueError where files cannot have it.

    A file is cut into lines before it is decoded, so the encoding must contain ASCII unchanged and,
    except for UTF-8, have one byte a character; UTF-16 is recoded.

    >>> encoding_name("UTF8"), encoding_name("Latin-1"), encoding_name("windows-1252"), encoding_name("UTF-16")
    ('utf-8', 'iso8859-1', 'cp1252', 'utf-16')
    >>> encoding_name("utf-32")
    Traceback (most recent call last):
    ValueError: utf-32 has characters of several bytes: save the file as UTF-8
    >>> encoding_name("latin-x")
    Traceback (most recent call last):
    ValueError: there is no encoding latin-x; common ones are utf-8, latin-1 and windows-1252
    """
    try:
        codec = codecs.lookup(name).name
        text = _ASCII.decode(codec, "replace")
    except (LookupError, ValueError):
        raise ValueError(f"there is no encoding {name}; common ones are utf-8, latin-1 and windows-1252") from None
    if codec != "utf-8" and codec not in WIDE and (text != _ASCII.decode() or not _has_one_byte_each(codec)):
        raise ValueError(f"{name} has characters of several bytes: save the file as UTF-8")
    return codec


def _has_one_byte_each(codec: str) -> bool:
    """True if each byte is one character, independent of the next byte."""
    return all(len(bytes([byte, 0x40]).decode(codec, "replace")) == 2 for byte in range(256))
