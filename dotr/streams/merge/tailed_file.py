"""A file that goes on (`tail: true`): its whole records as they are appended, and the identity of
its bytes.

Idea: a file is known by its inode and its last bytes read (`FileMark`), a copy of a file that was
cut or removed by the checksum of all its bytes read.
Invariant: nothing behind the size that a scan of the folder has seen is read. What cannot be read
is told once, as a dead letter, and tried again.
Cost: one read for each 64 KiB; in CSV with quotes about 1 µs a row beyond reading a whole file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.streams.formats.csv.rows import header_in, whole_rows
from dotr.streams.merge.file_marks import COMPARED, FileMark, bytes_of, digest_of, unblocked
from dotr.streams.records import Format, InputFile, Record

_Version = tuple[int, int]


class WholeRecords(NamedTuple):
    """Whole records of a file: the bytes `data`, from `line` on.

    `name`: the name under which the file was first found; `head`: the text above the first row of
    CSV data, and `columns` its columns. `told`: in place of data, the record of a dead letter.
    """

    name: str
    line: int
    data: bytes = b""
    head: bytes = b""
    columns: tuple[str, ...] = ()
    told: Record | None = None


class TailedFile:
    """A file, read up to the offset of its mark. `gone`: no name leads to its bytes any more (since
    that scan). `changed`: time (s) of the scan that has last seen it change."""

    def __init__(self, name: str, path: str, like: InputFile, mark: FileMark, changed: float = 0.0) -> None:
        self.name = name
        self.path = path
        self.mark = mark
        self.changed = changed
        self.checksum = 0
        self.line = 1
        self.head = b""
        self.columns: tuple[str, ...] = ()
        self.over = False
        self.refused = ""
        self.failed = False
        self.gone: int | None = None
        self.descriptor: int | None = None
        self._like = like
        self._heading = like.format is Format.CSV and like.map is not None and (not like.map.columns or like.map.skip > 0)
        self._skipping = False
        self._incomplete: _Version | None = None

    def to_json(self) -> list[object]:
        """The state as a list for JSON."""
        state = [self.checksum, self.line, len(self.head), self.over, self.refused, self.gone is not None, self._heading, self._skipping]
        return [self.name, self.path, self.mark.to_json(), *state]

    @staticmethod
    def of_json(like: InputFile, name: str, path: str, mark: list[Any], *state: Any) -> TailedFile:
        """The file of a state, with an unknown device; its head is read again where it is needed."""
        file = TailedFile(name, path, like, FileMark.of_json(mark)._replace(device=-1))
        file.checksum, file.line, head, file.over, file.refused, gone, file._heading, file._skipping = state
        file.head, file.gone = bytes(head), 0 if gone else None
        return file

    def continues(self, path: str, status: os.stat_result) -> bool:
        """True if the file of a path has the bytes read, and perhaps further ones."""
        if self.mark.is_of(status):
            return True
        if self.over and path != self.path and self.mark.offset <= len(self.head):
            return False  # it had a header at most, as others have, and its inode may be another file's now
        try:
            return status.st_size >= self.mark.offset and self.mark.is_continued_by(path)
        except OSError:  # as it cannot be read now, its inode decides
            return (status.st_ino, self.mark.device in (-1, status.st_dev)) == (self.mark.inode, True)

    def is_replaced_by(self, path: str, status: os.stat_result) -> bool:
        """True if another file has all bytes of this one, or, if it is not open, all that were
        read."""
        if self.descriptor is None:
            return self.continues(path, status)
        end = os.fstat(self.descriptor).st_size
        start = max(0, end - COMPARED)
        try:
            return 0 < end <= status.st_size and os.pread(self.descriptor, end - start, start) == bytes_of(path, start, end)
        except OSError:
            return False

    def see(self, path: str, status: os.stat_result, now: float) -> None:
        """Note the present name, size and time of change."""
        if path != self.path or status.st_ino != self.mark.inode:
            self.path = path
            if status.st_ino != self.mark.inode:
                self.close()
        if self.version != (status.st_size, status.st_mtime_ns):
            self.changed = now
        self.mark = FileMark(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev, *self.mark[4:])

    @property
    def version(self) -> _Version:
        """The size and the time of change as last seen."""
        return self.mark.size, self.mark.modified

    def begins_with(self, size: int, end: bytes) -> bool:
        """True if this file may begin with another one of that size, judged by the last bytes of
        that."""
        try:
            return os.stat(self.path).st_size >= size and bytes_of(self.path, size - len(end), size) == end
        except OSError:
            return False

    def is_in(self, path: str, size: int) -> bool:
        """True if a file of that size begins with all that was read of this one."""
        left, checksum, block = self.mark.offset, 0, b""
        try:
            if not len(self.head) < left <= size or not self.mark.is_continued_by(path):
                return False
            with open(path, "rb", opener=unblocked) as file:
                while left and (block := file.read(min(left, 1 << 20))):
                    left, checksum = left - len(block), crc32(block, checksum)
        except OSError:
            return False
        return not left and checksum == self.checksum and (block.endswith(b"\n") or size == self.mark.offset)

    def open(self) -> bool:
        """Open the file, unless it is open; False where another one has its name. Raises OSError where
        it cannot be opened."""
        if self.descriptor is None and self.gone is None:
            self.descriptor = unblocked(self.path)
            if os.fstat(self.descriptor).st_ino != self.mark.inode:
                self.close()
        return self.descriptor is not None

    def close(self) -> None:
        """Close the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def told(self, why: str, reason: Reason = Reason.UNREADABLE, raw: bytes = b"") -> WholeRecords:
        """A dead letter at the place where reading stands."""
        return WholeRecords(self.name, self.line, told=Record(0, len(raw), self.line, None, None, raw, why, reason=reason))

    def piece(self, block: int, *, last: bool = False) -> WholeRecords | None:
        """The next whole records, about `block` bytes; None where there are none yet. `last`: what
        stands behind the last line end is whole.

        Where the file cannot be read, this is told once, until some of it is read again.
        """
        try:
            piece = self._piece(block, last=last)
        except OSError as error:
            self.close()
            why = f"it cannot be read from byte {self.mark.offset} on: {error.strerror}; it is read on from there once it can be"
            piece, self.failed = None if self.failed else self.told(why), True
        else:
            self.failed = self.failed and piece is None
        return piece

    def _piece(self, block: int, *, last: bool) -> WholeRecords | None:
        limit, size = self._like.record, block
        while self.mark.offset < self.mark.size and (last or self._incomplete != self.version) and self.open():
            data = self._read(min(size, self.mark.size - self.mark.offset))
            if data is None:
                break
            ended = len(data) < size
            if self._skipping:  # the rest of a line beyond the limit
                end = data.find(b"\n") + 1
                self._skipping = not end
                self._pass(data[: end or len(data)])
                continue
            end = len(data) if last and ended else _whole(data, self._like)
            if not end and len(data) > limit:
                end, self._skipping = limit + 1, True
            elif not end and not ended:
                size = min(2 * size, limit + block)
                continue
            if end and self._heading:
                end = self._read_head(data[:end])
            elif end:
                return self._taken(data[:end])
            if not end:
                self._incomplete = self.version
                break
            if self.refused:
                return self.told(self.refused)
        return None

    def _taken(self, data: bytes) -> WholeRecords:
        """The piece of the next bytes, which are read."""
        if self.head and not self.columns and self.descriptor is not None:  # a file of an earlier run
            self._heading, self.head = True, os.pread(self.descriptor, len(self.head), 0)
            self._read_head(self.head)
        piece = WholeRecords(self.name, self.line, data, self.head, self.columns)
        self._pass(data)
        return piece

    def _read(self, size: int) -> bytes | None:
        """The next bytes; None where those before are not the ones that were read."""
        assert self.descriptor is not None
        before = min(COMPARED, self.mark.offset)
        block = os.pread(self.descriptor, before + size, self.mark.offset - before)
        self._before = block[:before]
        if digest_of(self._before) == self.mark.digest or not self.mark.offset:
            return block[before:]
        self.mark = self.mark._replace(modified=-1)  # so that the next scan looks again
        return None

    def _pass(self, data: bytes) -> None:
        """Note that the next bytes are read."""
        self.checksum = crc32(data, self.checksum)
        self.line += data.count(b"\n")
        self.mark = self.mark._replace(offset=self.mark.offset + len(data), digest=digest_of(self._before + data[-COMPARED:]))

    def _read_head(self, data: bytes) -> int:
        """Read the header in some first rows, again where it was read before; its length, 0 where
        it is not complete. `refused` is set where it is wrong."""
        try:
            found = header_in(replace(self._like, path=self.name), data)
        except Refused as refused:
            self.refused, self.over = refused.diagnostics[0].message, True
            self._pass(data)
            return len(data)
        if found is None:
            return 0
        self.columns, length, self._heading = tuple(found[0]), found[1].offset, False
        if not self.mark.offset:
            self.head = data[:length]
            self._pass(self.head)
        return length


def _whole(data: bytes, like: InputFile) -> int:
    """The length of the whole records at the beginning of some bytes."""
    if like.format is Format.CSV and like.map is not None:
        return whole_rows(data, like.map, like.record)
    return data.rfind(b"\n") + 1
