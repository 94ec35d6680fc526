"""What one input has for us now: some records, nothing at the moment, or nothing any more. Never waits.

Invariant: `end` is where the record after the last one taken starts, or will start, so that another feed can go on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import Empty, Queue
from typing import Final, NamedTuple, Protocol

from dotr.errors.diagnostics import Refused
from dotr.sources.lines import STANDARD_INPUT, damaged
from dotr.sources.reading import Reader
from dotr.sources.records import START, InputFile, Position, Record
from dotr.sources.watched_folders import Folder, GrowingInput


class InputPoint(NamedTuple):
    """A place in an input: the number of a file, and in it an offset and a line."""

    file: int
    offset: int
    line: int


BEGIN: Final = InputPoint(0, *START)


class FeedRecords(NamedTuple):
    """Records of one file, with the file's number in its input."""

    number: int
    file: InputFile
    records: list[Record]


class Feed(Protocol):
    """An input as it is read while others are, too. `ended`: nothing comes any more."""

    @property
    def ended(self) -> bool: ...

    @property
    def end(self) -> InputPoint: ...

    def take(self, most: int) -> FeedRecords | None: ...

    def close(self) -> None: ...


class InputFiles(Protocol):
    """The files of an input, numbered from 0 on."""

    def file(self, number: int) -> InputFile | None:
        """A file; None: it is not there, or not yet."""

    @property
    def closed(self) -> bool:
        """Whether no file will come any more than those that are there."""


class OneFile:
    """A file that is all there is of its input."""

    closed = True

    def __init__(self, file: InputFile) -> None:
        self._file = file

    def file(self, number: int) -> InputFile | None:
        return None if number else self._file


class AppearingFiles:
    """The files that appear in a watched folder."""

    closed = False

    def __init__(self, growing: GrowingInput, known: list[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._growing = growing
        self._folder = Folder(growing.pattern, growing.settle, known, clock)
        self._paths: list[str] = []

    def file(self, number: int) -> InputFile | None:
        if number == len(self._paths):
            self._paths += self._folder.look()
        return replace(self._growing.like, path=self._paths[number]) if number < len(self._paths) else None


class FilesFeed:
    """One file after the other. What cannot be opened is one unreadable record, unless the input is that file alone: then it is refused."""

    def __init__(self, files: InputFiles, start: InputPoint = BEGIN, *, elements: bool = True, ended: bool = False) -> None:
        self._files = files
        self._elements = elements
        self._point = start
        self._reader: Reader | None = None
        self._file: InputFile | None = None
        self._records: Iterator[Record] = iter(())
        self._next: Record | None = None
        self.ended = ended

    @property
    def end(self) -> InputPoint:
        """Where reading goes on."""
        return self._point

    def take(self, most: int) -> FeedRecords | None:
        """Up to so many records of one file; None: nothing now."""
        number = self._point.file
        while self._next is None:
            if self.ended or not self._open():
                return None
            number = self._point.file
            self._advance()
        file = self._file
        assert file is not None
        taken: list[Record] = []
        while self._next is not None and len(taken) < most:
            taken.append(self._next)
            self._advance()
        return FeedRecords(number, file, taken)

    def _advance(self) -> None:
        """Take the next record in hand; after the last one, the next file is to come."""
        self._next = record = next(self._records, None)
        if record is not None:
            self._point = InputPoint(self._point.file, record.offset, record.line)
            return
        self.close()
        self._file_done()

    def _file_done(self) -> None:
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
        try:
            self._reader = Reader(file, Position(self._point.offset, self._point.line), elements=self._elements)
            self._records = self._reader.records()
        except Refused as refused:
            if isinstance(self._files, OneFile):
                raise
            self._records = iter([unopened(self._point, refused)])
        return True

    def close(self) -> None:
        """Close the file at hand."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def unopened(point: InputPoint, refused: Refused) -> Record:
    """The record of a file that cannot be opened, or read from its beginning."""
    record = damaged(point.offset, point.line, refused)
    return record._replace(why=refused.diagnostics[0].message)


class StandardInput:
    """Standard input, read by a thread of its own: so that others need not wait for it."""

    def __init__(self, like: InputFile, *, elements: bool = True) -> None:
        self._file = replace(like, path=STANDARD_INPUT)
        self._queue: Queue[Record | BaseException | None] = Queue(10_000)
        self._elements = elements
        self._point = BEGIN
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def end(self) -> InputPoint:
        return self._point

    def _read(self) -> None:
        try:
            with Reader(self._file, elements=self._elements) as reader:
                for record in reader.records():
                    self._queue.put(record)
        except BaseException as error:
            self._queue.put(error)
        else:
            self._queue.put(None)

    def take(self, most: int) -> FeedRecords | None:
        """Up to so many records; None: nothing now."""
        taken: list[Record] = []
        try:
            while len(taken) < most:
                item = self._queue.get_nowait()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    self.ended = True
                    break
                taken.append(item)
        except Empty:
            pass
        return FeedRecords(0, self._file, taken) if taken else None

    def close(self) -> None:
        """The thread ends with the process: it may be waiting for input."""
