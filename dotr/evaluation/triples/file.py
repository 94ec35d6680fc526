"""File of named sections: written atomically, and verified before use.

    header, 4,096 bytes: magic, format, byte order, key, length of the file, number of sections;
                         name, offset, length, checksum of each section; checksum of the header
    sections, each at a multiple of 4,096

Invariant: a file under its final name was complete and synced to disk before it got that name. The
checksum of the header is compared at every opening. The checksums of the sections are compared once
for each *identity* (device, inode, length, times of change of content and of status), which is then
recorded in a file beside it. Every write or replacement changes the identity. Files are replaced
and never overwritten, so a process that has mapped a file keeps its content. A decaying disk, which
changes no time, is not detected.

Cost: 1.2 s a gigabyte to verify, half a millisecond to open a verified file. Pages are read at
their first use.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.trust import distrust, make_folder
from dotr.model import dataclass

Buffer: TypeAlias = "bytes | bytearray | memoryview | array[int]"

FORMAT: Final = 3
_MAGIC: Final = b"\x89dotr\r\n\x1a"
_PAGE: Final = 4096
_PREAMBLE: Final = struct.Struct("=8sIIQI16s")
_SECTION_ENTRY: Final = struct.Struct("=16sQQ16s")
_BYTE_ORDER: Final = 0x01020304
_BLOCK: Final = 1 << 20


class UnusableFile(DotrError):
    """Reason why a file cannot be used, phrased to follow the file name."""


class DistrustedFile(UnusableFile):
    """Reason why others than this user could have written a file."""


@dataclass(frozen=True, slots=True)
class FileSection:
    """Offset, length and checksum of a section."""

    offset: int
    length: int
    checksum: bytes


def _checksum(*parts: Buffer) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def write_file(path: Path, key: bytes, sections: Mapping[str, Iterable[Buffer]]) -> None:
    """Writes a file under a temporary name, syncs it and renames it to `path`; raises OSError.

    `key`: 16 bytes that identify the content's sources.
    `sections`: the buffers of each section, in the order of writing.
    The new file is recorded as verified.
    """
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(bytes(_PAGE))
            table = {section: _write_section(file, parts) for section, parts in sections.items()}
            length = file.tell()
            file.seek(0)
            file.write(_header(key, length, table))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    _write_checked(path, _identity(os.stat(path)))


def _write_section(file: BinaryIO, parts: Iterable[Buffer]) -> FileSection:
    offset = -(-file.tell() // _PAGE) * _PAGE
    file.seek(offset)
    digest = blake2b(digest_size=16)
    for part in parts:
        file.write(part)
        digest.update(part)
    length = file.tell() - offset
    if not length:  # the page of an empty last section exists
        file.write(b"\0")
    return FileSection(offset, length, digest.digest())


def _header(key: bytes, length: int, table: Mapping[str, FileSection]) -> bytes:
    header = _PREAMBLE.pack(_MAGIC, FORMAT, _BYTE_ORDER, length, len(table), key)
    for name, section in table.items():
        header += _SECTION_ENTRY.pack(name.encode(), section.offset, section.length, section.checksum)
    header += _checksum(header)
    assert len(header) <= _PAGE
    return header.ljust(_PAGE, b"\0")


def read_header(header: bytes, length: int) -> tuple[bytes, dict[str, FileSection]]:
    """The key and the sections of a file's header; raises `UnusableFile`.

    `header`: the first 4,096 bytes.
    `length`: the length of the file in bytes.
    >>> read_header(b"PK", 2)
    Traceback (most recent call last):
    dotr.evaluation.triples.file.UnusableFile: is not one of dotr's
    """
    if len(header) < _PAGE or not header.startswith(_MAGIC):
        raise UnusableFile("is not one of dotr's" if header[:8] != _MAGIC else "is cut off")
    _, version, order, written, count, key = _PREAMBLE.unpack_from(header)
    end = _PREAMBLE.size + count * _SECTION_ENTRY.size
    if order != _BYTE_ORDER:
        raise UnusableFile(f"was written on a machine of another byte order than this one's ({sys.byteorder}), or is damaged in its header")
    if version != FORMAT:
        raise UnusableFile(f"has format {version}, where this version of dotr has {FORMAT}")
    if end + 16 > _PAGE or _checksum(header[:end]) != header[end : end + 16]:
        raise UnusableFile("is damaged in its header")
    if written != length:
        raise UnusableFile(f"is {'cut off' if length < written else 'too long'}: {length:,} of {written:,} bytes")
    sections = {}
    for name, offset, size, checksum in _SECTION_ENTRY.iter_unpack(header[_PREAMBLE.size : end]):
        if offset % _PAGE or offset + size > length:
            raise UnusableFile("is damaged in its header")
        sections[name.rstrip(b"\0").decode()] = FileSection(offset, size, checksum)
    return key, sections


class MappedFile:
    """Read-only memory mapping of a file, shared by all processes that open it."""

    def __init__(self, path: Path, key: bytes | None = None, *, shared: bool = False) -> None:
        """Opens and verifies a file; raises `UnusableFile`, or OSError where the file cannot be
        opened.

        `key`: the key that the file must have; None: any.
        `shared`: the file is used whoever owns it, and whoever may write to its folder.
        """
        if not shared and (reason := distrust(path)) is not None:
            raise DistrustedFile(f"is not used, since others could have written it: {reason}")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size < _PAGE:
                raise UnusableFile("is not one of dotr's" if not file.read(8).startswith(_MAGIC) else "is cut off")
            self.bytes: Final = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.path = path
        self.shared = shared
        self.size = status.st_size
        self.key, self.sections = read_header(self.bytes[:_PAGE], status.st_size)
        if key is not None and self.key != key:
            raise UnusableFile("was made from other sources")
        identity = _identity(status)
        if _read_checked(path) != identity:
            for name in self.damaged_sections():
                raise UnusableFile(f"is damaged (section {name})")
            _write_checked(path, identity)

    def damaged_sections(self) -> Iterator[str]:
        """Names of the sections whose checksum differs."""
        with memoryview(self.bytes) as view:
            for name, section in self.sections.items():
                stop = section.offset + section.length
                blocks = (view[start : min(start + _BLOCK, stop)] for start in range(section.offset, stop, _BLOCK))
                if _checksum(*blocks) != section.checksum:
                    yield name

    def section(self, name: str) -> FileSection:
        """A section by name; raises `UnusableFile` for a missing one."""
        section = self.sections.get(name)
        if section is None:
            raise UnusableFile(f"has no section {name}")
        return section

    def view(self, name: str, code: Literal["B", "I", "Q"] = "B") -> memoryview:
        """A section as numbers of one type (B: 1 byte, I: 4 bytes, Q: 8 bytes)."""
        section = self.section(name)
        return memoryview(self.bytes)[section.offset : section.offset + section.length].cast(code)


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def checked_path(path: Path) -> Path:
    """The file that records the verified identity."""
    return path.with_name(path.name + ".checked")


def _read_checked(path: Path) -> str | None:
    try:
        return checked_path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _write_checked(path: Path, identity: str) -> None:
    """Records a verified identity; without write permission the next opening verifies again."""
    note = checked_path(path)
    with suppress(OSError):
        replace_file(note, [identity.encode()], 0o644)
