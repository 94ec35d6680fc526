"""Files that go on (`tail: true`): whole records as they are appended, whatever becomes of files.

Idea: a scan of the folder decides which file each name has now, and how far it reaches; records are
then read up to there (`tailed_file.py`). A file and those that follow under its name are a series,
an input of its own.
Invariant: each whole record of a series is yielded once, and nothing behind the size that a scan
has seen is read, so that a copy that is complete when its original is cut has all that was read.
Cost: a listing and a `stat` a file for each scan.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice
from stat import S_ISDIR, S_ISREG
from typing import Any, Final, NamedTuple
from zlib import crc32

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.streams.formats.csv.rows import header_in, whole_rows
from dotr.streams.formats.reading import records_of
from dotr.streams.lateness import TimeFilter
from dotr.streams.merge.feeds import BEGIN, FeedRecords, InputPoint
from dotr.streams.merge.file_marks import COMPARED, FileMark, bytes_of, digest_of, unblocked
from dotr.streams.merge.folders import CompressedFiles, GrowingInput, present
from dotr.streams.records import Format, InputFile, Position, Record

# A file that goes on (`tail: true`): its whole records as they are appended, and the identity of
# its bytes.
#
# Idea: a file is known by its inode and its last bytes read (`FileMark`), a copy of a file that was
# cut or removed by the checksum of all its bytes read.
# Invariant: nothing behind the size that a scan of the folder has seen is read. What cannot be read
# is told once, as a dead letter, and tried again.
# Cost: one read for each 64 KiB; in CSV with quotes about 1 µs a row beyond reading a whole file.


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


BLOCK: Final = 1 << 16
"""Bytes of a piece of ordinary records in process."""

_OPEN_FILES: Final = 256
"""Limit of the files of an input that are kept open, to be read after their removal."""

_PAST: Final = 100
"""Limit of the files cut or removed of which a copy is recognized."""

_SCAN_SECONDS: Final = 0.01
_SHARE: Final = 10
"""Scanning a folder takes at most 1/10 of the time."""


class FileSeries:
    """A file and those that follow under its name.

    `files` are in the order of reading, the first is being read; `known` are all files of which the
    folder may still have the bytes.
    """

    def __init__(self, name: str, folder: TailedFolder, known: Iterable[TailedFile] = ()) -> None:
        self.name = name
        self.known = list(known)
        self.files = deque(file for file in self.known if not file.over)
        self._folder = folder
        self._obstacle = self._seen = ""

    @property
    def ended(self) -> bool:
        """True if no record follows."""
        return self._folder.is_whole and not self.files

    def add(self, file: TailedFile) -> None:
        """Add the next file."""
        self.files.append(file)
        self.known.append(file)

    def read_again(self, file: TailedFile) -> None:
        """Read a file on that was over, before all others."""
        if file.over and not file.refused and file.mark.size > file.mark.offset:
            file.over = False
            self.files.appendleft(file)

    def next_piece(self) -> WholeRecords | None:
        """The next whole records; None where none has come."""
        while self.files:
            file = self.files[0]
            piece = None if file.over else file.piece(self._folder.block)
            self._folder.limit_open_files(file)
            if piece is None:
                if not file.over and not self._has_ended(file):
                    break
                piece = None if file.over else self._last_piece(file)
                file.over = True
                file.close()
                self.files.popleft()
            if piece is not None:
                return piece
        obstacle, self._obstacle = self._obstacle, ""
        why = f"{obstacle} is in the place of this file: nothing is read until a file is there again"
        return self.known[-1].told(why) if obstacle and self.known else None

    def see_obstacle(self, what: str) -> None:
        """Note what is in the place of a file; empty: a file is. A new obstacle is told."""
        self._obstacle = what if what != self._seen else self._obstacle
        self._seen = what

    def _has_ended(self, file: TailedFile) -> bool:
        """True if a file is gone, or another has its name and it has not changed for `settle`; in a
        run that does not watch, always."""
        folder = self._folder
        if not folder.watching:
            return True
        if file.gone is not None:
            if file.descriptor is None:
                return folder.scans > file.gone  # a copy of what was cut may be in the next listing
            status = os.fstat(file.descriptor)
            if file.version != (status.st_size, status.st_mtime_ns):  # moved to another folder, it may grow
                file.see(file.path, status, folder.scanned)
                return False
            return not status.st_nlink or folder.scanned - file.changed >= folder.settle
        return len(self.files) > 1 and folder.scanned - file.changed >= folder.settle

    def _last_piece(self, file: TailedFile) -> WholeRecords | None:
        """The bytes behind the last line end of a file that has ended, as a piece."""
        left = file.mark.size - file.mark.offset
        if left <= 0 or (file.failed and not self._folder.watching):
            return None
        if not self._folder.watching and len(self.files) == 1:
            raw = (bytes_of(file.path, file.mark.offset, file.mark.size) or b"") if file.descriptor is not None else b""
            why = f"its line end is not there: the run has ended (watch: false) at byte {file.mark.size} of a file that goes on"
            return file.told(why, raw=raw) if raw.strip() else None
        piece = file.piece(self._folder.block, last=True)
        if piece is not None or file.descriptor is not None:
            return piece
        why = f"{left:,} bytes from byte {file.mark.offset} on were there, and were cut or removed before they were a whole record"
        return file.told(f"{why}; keep a file for `settle` after it is renamed", Reason.LOST)


class TailedFolder:
    """The series of files of an input, from scans of its folder.

    `watching`: further scans are made; otherwise files are read up to the ends of the first scan.
    `tell` is called once for each compressed file, with a line for the user. `block`: bytes of a
    piece of ordinary records.
    """

    def __init__(
        self,
        growing: GrowingInput,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], object] = lambda line: None,
        block: int = BLOCK,
    ) -> None:
        self.like = growing.like
        self.block = block
        self.watching = growing.watching
        self.settle = growing.settle / 1_000_000 if growing.watching else 0.0
        self.series: dict[str, FileSeries] = {}
        self.scans = 0
        self.scanned = 0.0
        self._pattern = growing.pattern
        self._clock = clock
        self._compressed = CompressedFiles(growing, tell)
        self._next = -1.0
        self._is_fresh = False
        self._past: deque[tuple[FileSeries, TailedFile]] = deque(maxlen=_PAST)
        self._held: dict[str, tuple[tuple[int, int, int], float, TailedFile | None]] = {}
        self._open: dict[int, TailedFile] = {}

    @property
    def is_whole(self) -> bool:
        """True if all files are found, and no scan follows."""
        return not self.watching and self.scans > 0

    def is_drained(self) -> bool:
        """True if the latest call of `appeared` has scanned the folder, so that an empty read of a
        series has left nothing in its files. A half line is nothing yet."""
        return self._is_fresh

    def restore(self, name: str, states: Iterable[list[Any]]) -> FileSeries:
        """Add a series that an earlier run has read."""
        series = self.series[name] = FileSeries(name, self, [TailedFile.of_json(self.like, *state) for state in states])
        self._past += [(series, file) for file in series.known if file.gone is not None]
        return series

    def appeared(self) -> list[FileSeries]:
        """Scan the folder, if that is due; the series that are new since the last call."""
        started = self._clock()
        self._is_fresh = False
        if started < self._next or (self.scans and not self.watching):
            return []
        self._is_fresh = True
        self.scanned, before = started, len(self.series)
        self._scan()
        self.scans += 1
        now = self._clock()
        self._next = now + max(_SCAN_SECONDS, _SHARE * (now - started))
        return list(islice(self.series.values(), before, None))

    def limit_open_files(self, file: TailedFile) -> None:
        """Close the file that was read longest ago, where too many are open."""
        self._open.pop(id(file), None)
        if file.descriptor is not None:
            self._open[id(file)] = file
            if len(self._open) > _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()

    def _scan(self) -> None:
        found, known = {}, bool(self.series)
        for path, status in present(self._pattern):
            is_file = S_ISREG(status.st_mode)
            if path in self.series:
                self.series[path].see_obstacle("" if is_file else "a folder" if S_ISDIR(status.st_mode) else "a pipe or device")
            if is_file and not self._compressed.leaves_out(path):
                found[path] = status
        names: dict[int, list[str]] = {}
        for path, status in found.items():
            names.setdefault(status.st_ino, []).append(path)
        taken: set[str] = set()
        lost: list[tuple[FileSeries, TailedFile, bool]] = []
        for series in self.series.values():
            for file in series.known:
                if file.gone is not None:
                    continue
                place = self._place(file, found, names, taken)
                if place is not None and file.continues(*place):
                    taken.add(place[0])
                    self._see(series, file, *place)
                else:
                    lost.append((series, file, place is not None))
        for series, file, is_cut in lost:
            path = file.path
            if not is_cut and path in found and path not in taken and file.is_replaced_by(path, found[path]):  # another inode
                taken.add(path)
                self._see(series, file, path, found[path])
                continue
            if is_cut:
                file.close()
            file.gone = self.scans
            self._past.append((series, file))
            over = [each for each in series.known if each.gone is not None and each.over]
            series.known = [each for each in series.known if each not in over[:-_PAST]]
        held = {}
        for path, status in found.items():
            if path not in taken and not self._is_copy(path, status, known):
                self._add(path, status)
            elif path in self._held and path not in taken:
                held[path] = self._held[path]
        self._held = held

    def _place(
        self, file: TailedFile, found: dict[str, os.stat_result], names: dict[int, list[str]], taken: set[str]
    ) -> tuple[str, os.stat_result] | None:
        """The name that the inode of a file has now, in the pattern or in the file's folder."""
        own = [path for path in names.get(file.mark.inode, ()) if file.mark.device in (-1, found[path].st_dev) and path not in taken]
        if own:
            path = file.path if file.path in own else own[0]
            return path, found[path]
        if file.over:
            return None
        with suppress(OSError):
            status = os.stat(file.path)
            if status.st_ino == file.mark.inode and file.path not in found:
                return file.path, status
        with suppress(OSError), os.scandir(os.path.dirname(file.path) or os.curdir) as entries:
            for entry in entries:
                if entry.inode() == file.mark.inode and entry.path not in found and entry.is_file():
                    return entry.path, entry.stat()
        return None

    def _is_copy(self, path: str, status: os.stat_result, known: bool) -> bool:
        """True if a file with a new name is a copy of one that was cut or removed, which it is then,
        or may become one. `known`: files were known before this scan."""
        size, version = status.st_size, (status.st_size, status.st_mtime_ns, status.st_ino)
        held = self._held.get(path)
        for series, file in reversed(self._past):
            is_source = held is not None and held[0] == version and held[2] is file and len(file.head) < size < file.mark.offset
            if file.gone is None or not (is_source or file.is_in(path, size)):
                continue
            if is_source:  # all its rows were read
                file.mark = file.mark._replace(offset=size, digest=digest_of(bytes_of(path, max(0, size - COMPARED), size) or b""))
            file.gone = None
            file.close()
            self._see(series, file, path, status)
            return True
        if (path in self.series and size) or not known:
            return False
        since = held[1] if held is not None and held[0] == version else self.scanned
        end = bytes_of(path, max(0, size - COMPARED), size) or b""
        files = (file for series in self.series.values() for file in series.known if file.gone is None)
        source = next((file for file in files if file.begins_with(size, end)), None)
        if (source is None and size) or self.scanned - since >= self.settle:
            return False
        self._held[path] = version, since, source
        return True

    def _add(self, path: str, status: os.stat_result) -> None:
        """Add a new file, to the series of its name."""
        mark = FileMark(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev, 0, digest_of(b""))
        if path not in self.series:
            self.series[path] = FileSeries(path, self)
        file = TailedFile(path, path, self.like, mark, self.scanned)
        self.series[path].add(file)
        self._see(self.series[path], file, path, status)

    def _see(self, series: FileSeries, file: TailedFile, path: str, status: os.stat_result) -> None:
        """Note the present name of a file, and keep it open, so that it can be read after its
        removal."""
        file.see(path, status, self.scanned)
        series.read_again(file)
        if not file.over and file.descriptor is None and len(self._open) < _OPEN_FILES:
            with suppress(OSError):  # told where it is read
                file.open()
            self.limit_open_files(file)


class NoFileYet:
    """Feed without records of a folder, which has ended once there is a series: until then other
    inputs wait for the first file, or until the input is idle."""

    end: InputPoint = BEGIN

    def __init__(self, folder: TailedFolder) -> None:
        self._folder = folder

    @property
    def ended(self) -> bool:
        """True if there is a series, or none will come."""
        return bool(self._folder.series) or self._folder.is_whole

    def read(self, most: int) -> None:
        """No record."""

    def close(self) -> None:
        """Does nothing."""


class TailFeed:
    """Feed of a series in process."""

    def __init__(self, series: FileSeries, like: InputFile) -> None:
        self._series = series
        self._like = like
        self._file = like
        self._records: Iterator[Record] = iter(())
        self._wanted = TimeFilter()
        self.end: InputPoint = BEGIN

    @property
    def ended(self) -> bool:
        """True if no record follows."""
        return self._series.ended

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records of one file; None where none has come."""
        while True:
            if records := list(islice(self._records, most)):
                return FeedRecords(0, self._file, records)
            piece = self._series.next_piece()
            if piece is None:
                return None
            like, head = self._like, piece.columns
            mapped = like.map if like.map is None or not head else replace(like.map, columns=head, skip=0)
            self._file = replace(like, path=piece.name, map=mapped)
            if piece.told is not None:
                self._records = iter([piece.told])
            else:
                self._records = records_of(BytesIO(piece.data), self._file, Position(0, piece.line), True, self._wanted)

    def close(self) -> None:
        """Does nothing: the folder closes its files."""
