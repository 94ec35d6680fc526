"""Feeds: non-blocking reads of one input, which return records, None (no data yet), or are at the
end.

Invariant: `end` is the position of the record after the last one returned, so another feed can
resume there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from queue import Empty, Queue
from typing import BinaryIO, Final, NamedTuple, Protocol

from dotr.errors.diagnostics import Refused, refuse
from dotr.streams.formats.lines import STANDARD_INPUT, damaged, standard_bytes
from dotr.streams.formats.reading import Reader
from dotr.streams.formats.segments import DAMAGED_HINT, MAGIC, SegmentReader, Segments
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.folders import Folder, GrowingInput
from dotr.streams.records import START, InputFile, Position, Record


class InputPoint(NamedTuple):
    """Position in an input: the number of a file, and an offset (bytes) and a line in the file."""

    file: int
    offset: int
    line: int


BEGIN: Final = InputPoint(0, *START)


class FeedRecords(NamedTuple):
    """Records of one file, with the number of the file in its input."""

    number: int
    file: InputFile
    records: list[Record]


class Feed(Protocol):
    """An input read concurrently with others."""

    @property
    def ended(self) -> bool:
        """True if no record follows."""

    @property
    def end(self) -> InputPoint:
        """Position of the record after the last one returned."""

    def read(self, most: int) -> FeedRecords | None:
        """The next records of one file, about `most` of them; None where none has arrived."""

    def close(self) -> None:
        """Release the files or connections of the feed."""


class InputFiles(Protocol):
    """Files of an input, numbered from 0 on."""

    def file(self, number: int) -> InputFile | None:
        """File of this number; None where it does not exist, or does not exist yet."""

    @property
    def closed(self) -> bool:
        """True if no further file will appear."""


class OneFile:
    """An input of one file."""

    closed = True

    def __init__(self, file: InputFile) -> None:
        self._file = file

    def file(self, number: int) -> InputFile | None:
        """The file for number 0, else None."""
        return None if number else self._file


class AppearingFiles:
    """Files that appear in a watched folder; `known` are those that are read elsewhere."""

    closed = False

    def __init__(self, growing: GrowingInput, known: Iterable[FoundFile], clock: Callable[[], float] = time.monotonic) -> None:
        self._like = growing.like
        self._folder = Folder(growing.pattern, growing.settle, known, clock)
        self._found: list[FoundFile] = []

    def file(self, number: int) -> InputFile | None:
        """File of this number as it is now, or None; lists the folder where the number is the next
        one."""
        if number == len(self._found):
            self._found += self._folder.new_files()
            if number == len(self._found):
                return None
        file = self._found[number]
        if not file.change:  # it may have been found long before
            file = FoundFile.at(file.path)
            self._folder.watch(file)
        return self._like.found(file)

    def is_drained(self) -> bool:
        """True if the latest look at the folder has listed it, and no file is new."""
        return self._folder.is_drained

    def changes(self) -> list[InputFile]:
        """The changes of the files since the last listing."""
        return list(map(self._like.found, self._folder.changes()))


class FilesFeed:
    """Feed of files in sequence, from the position `start` on.

    A file that cannot be opened is one unreadable record; in a scan of an input of a single file,
    which can be scanned again from a checkpoint, it raises `Refused`.
    """

    def __init__(self, files: InputFiles, start: InputPoint = BEGIN, *, elements: bool = True, ended: bool = False) -> None:
        self._files = files
        self._elements = elements
        self._point = start
        self._reader: Reader | None = None
        self._file: InputFile | None = None
        self._records: Iterator[Record] = iter(())
        self._next: Record | None = None
        self._wanted = TimeFilter()
        self.ended = ended

    @property
    def end(self) -> InputPoint:
        """Position of the next record."""
        return self._point

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records of one file; None where none has arrived."""
        number = self._point.file
        while self._next is None:
            if self.ended or not self._open():
                return None
            number = self._point.file
            self._advance()
            if self._next is None and not self.ended and number and self._file is not None and self._file.replayed:
                return None  # a round without a record: another look comes later
        file = self._file
        assert file is not None
        assert self._next is not None
        records = [self._next, *islice(self._records, max(0, most - 1))]
        self._advance()
        return FeedRecords(number, file, records)

    def _advance(self) -> None:
        """Fetch the next record; at the end of the file move to the next file."""
        self._next = record = next(self._records, None)
        if record is not None:
            self._point = InputPoint(self._point.file, record.offset, record.line)
            return
        self.close()
        self._next_file()

    def _next_file(self) -> None:
        number = self._point.file + 1
        self._point = InputPoint(number, *START)
        if self._files.closed and self._files.file(number) is None:
            self.ended = True

    def _open(self) -> bool:
        file = self._files.file(self._point.file)
        if file is None:
            self.ended = self._files.closed
            return False
        self._file = file
        if file.change:
            self._records = iter([file.record_of_change])
            return True
        try:
            self._reader = Reader(file, Position(self._point.offset, self._point.line), elements=self._elements, time_filter=self._wanted)
            self._records = self._reader.records()
        except Refused as refused:
            if isinstance(self._files, OneFile) and not self._elements:
                raise
            self._records = iter([unopened(self._point, refused)])
        return True

    def close(self) -> None:
        """Close the current file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def unopened(point: InputPoint, refused: Refused) -> Record:
    """The unreadable record of a file that cannot be opened, or read from its beginning."""
    record = damaged(point.offset, point.line, refused)
    return record._replace(why=refused.diagnostics[0].message)


class StandardInput:
    """Feed of standard input, read by a separate thread, so that other inputs need not wait."""

    def __init__(self, like: InputFile, *, elements: bool = True) -> None:
        self._file = replace(like, path=STANDARD_INPUT)
        self._queue: Queue[Record | BaseException | None] = Queue(10_000)
        self._elements = elements
        self._point = BEGIN
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def end(self) -> InputPoint:
        """Always the beginning: standard input cannot be read a second time."""
        return self._point

    def _read(self) -> None:
        try:
            with Reader(self._file, elements=self._elements, time_filter=TimeFilter()) as reader:
                for record in reader.records():
                    self._queue.put(record)
        except BaseException as error:
            self._queue.put(error)
        else:
            self._queue.put(None)

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records; None where none has arrived."""
        records: list[Record] = []
        try:
            while len(records) < most:
                item = self._queue.get_nowait()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    self.ended = True
                    break
                records.append(item)
        except Empty:
            pass
        return FeedRecords(0, self._file, records) if records else None

    def is_drained(self) -> bool:
        """True if, after an empty read, the pipe is empty too, and no record is on its way."""
        return standard_bytes().is_drained() and self._queue.empty()

    def close(self) -> None:
        """Does nothing: the thread may be blocked in a read, and ends with the process."""


class SegmentsFeed:
    """Feed of the published messages of an input, which ends where its sender has said so."""

    def __init__(self, segments: Segments, start: InputPoint = BEGIN, *, elements: bool = False) -> None:
        self._segments = segments
        self._elements = elements
        self._point = start
        self._published = (-1, 0)
        self._open: OpenSegment | None = None
        self.ended = False

    @property
    def end(self) -> InputPoint:
        """Position of the next record."""
        return self._point

    def read(self, most: int) -> FeedRecords | None:
        """The records of about `most` messages of one segment; None where none is published."""
        has_end = self._segments.has_end()  # before what is published, since the end is marked last
        while self._is_published():
            last, length = self._published
            if self._open is None:
                self._open = open_segment(self._segments.open(self._point.file), self._point, elements=self._elements)
            number, segment = self._point.file, self._open
            bound = length if number == last else segment.size()
            records: list[Record] = []
            while len(records) < most and (more := segment.reader.next(bound)) is not None:
                records += more
            if segment.reader.offset < bound or number == last:
                self._point = InputPoint(number, segment.reader.offset, segment.reader.line)
            else:
                self.close()
                self._point = InputPoint(number + 1, 0, segment.reader.line)
            if records:
                return FeedRecords(number, segment.file, records)
        self.ended = has_end
        return None

    def _is_published(self) -> bool:
        """True if another message or segment is published."""
        here = self._point.file, max(self._point.offset, len(MAGIC))
        if self._published <= here:
            self._published = self._segments.published()
        return self._published > here

    def close(self) -> None:
        """Close the current segment."""
        if self._open is not None:
            self._open.stream.close()
            self._open = None


class OpenSegment(NamedTuple):
    """An open segment with its reader."""

    file: InputFile
    stream: BinaryIO
    reader: SegmentReader

    def size(self) -> int:
        """Length of the file in bytes."""
        return os.fstat(self.stream.fileno()).st_size


def open_segment(file: InputFile, point: InputPoint, *, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> OpenSegment:
    """Open a segment at a position; `elements`: with the elements of the records that pass
    `time_filter`.

    Raises Refused (S114) where it cannot be read.
    """
    try:
        stream = open(file.path, "rb")  # noqa: SIM115 (the reader closes it)
    except OSError as error:
        raise refuse(
            "S114", f"the checkpoint is damaged: {file.path}: {(error.strerror or str(error)).lower()}", hint=DAMAGED_HINT
        ) from None
    return OpenSegment(
        file, stream, SegmentReader(stream, file, Position(point.offset, point.line), elements=elements, time_filter=time_filter)
    )
