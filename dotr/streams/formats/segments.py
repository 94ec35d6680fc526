"""Segments of spools: numbered files, of frames of messages or of lines of standard input.

Idea: one process appends frames to the last segment while others read. A frame is a header of fixed
length, then the description (the transport's properties of the message), then the body. The writer
publishes the length that is durable, and readers stop there, so that a frame torn by a crash is
never read. It begins a new segment at each start and at a bounded length, and all but the last are
immutable. Segments of standard input are written whole.
Invariant: record n of the message at offset m has the offset m + n, which is inside its frame,
since the header is longer than the records of an empty message, and each further record has at
least two bytes.
Cost: about 1 µs a frame, without the decoding of the message.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

from dotr.errors.diagnostics import Refused, refuse
from dotr.model.stream import Reason
from dotr.streams.formats.messages import item_decoder
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import Format, InputFile, Message, Position, Record

RECEIVED: Final = "received"
"""Pattern that marks a spooled input; those of watched folders are absolute paths."""

MAGIC: Final = b"dotr msg"
"""First bytes of a segment, before its frames."""

SPOOL: Final = "spool"
SPOOL_END: Final = "end"
SEGMENT: Final = re.compile(r"([0-9]{12})-([0-9]{12})(?:-([0-9]{12}))?(\..*)?")
"""Name of a segment: number, first line, line behind its last (absent in older releases)."""

SUFFIX: Final = ".messages"
TOLD: Final = ".told"
"""Ending of a segment of files that go on which holds no text, but the record of a dead letter."""

DRAINED: Final = "drained"
"""Name of the file with the machine's time, in µs since 1970, up to which all that has come is spooled."""

PUBLISHED: Final = "published"
"""Name of the file with the number of the last segment and its durable length in bytes."""

_HEADER: Final = struct.Struct("<IIIqqq")
"""Header: checksum of the rest; lengths of description and body; place; received; timestamp."""

_CHECKSUM: Final = 4
_BLOCK: Final = 1 << 16
_NONE: Final = -(1 << 63)
"""Encoding of a missing time."""


def spool_folder(checkpoint: Path, name: str) -> Path:
    """Folder of the segments of an input.

    >>> str(spool_folder(Path("cp"), "a/b"))
    'cp/spool/of-a%2Fb'
    """
    return checkpoint / SPOOL / f"of-{quote(name, safe='')}"


def encode_frame(message: Message) -> bytes:
    """The frame of a message, as bytes.

    >>> import io
    >>> message = Message(b"x", 7, None, 12, b"k", (("a", b"b"),), "t", 3)
    >>> frame = encode_frame(message)
    >>> FrameReader(io.BytesIO(frame), 0).next() == (message, len(frame)), FrameReader(io.BytesIO(frame[:-1]), 0).next()
    (True, None)
    """
    description = b""
    if message.key is not None or message.headers or message.topic or message.partition or message.why:
        key = None if message.key is None else base64.b64encode(message.key).decode()
        headers = [[name, base64.b64encode(value).decode()] for name, value in message.headers]
        told = [message.why, message.reason.value] if message.why else []
        description = json.dumps([key, headers, message.topic, message.partition, *told]).encode()
    times = (_NONE if time is None else time for time in (message.received, message.timestamp))
    header = _HEADER.pack(0, len(description), len(message.body), message.place, *times)
    checked = b"".join((memoryview(header)[_CHECKSUM:], description, message.body))
    return zlib.crc32(checked).to_bytes(_CHECKSUM, "little") + checked


class Frame(NamedTuple):
    """A message, and the offset of the next frame."""

    message: Message
    end: int


class FrameReader:
    """Reader of the frames of a segment from an offset on, which is the start of a frame.

    Invariant: the stream's position is the end of the buffer `_data`; `_at` is the index of the
        next
    unread byte in it.
    """

    __slots__ = ("_at", "_data", "_stream", "offset")

    def __init__(self, stream: BinaryIO, offset: int) -> None:
        stream.seek(offset)
        self._stream = stream
        self._data = b""
        self._at = 0
        self.offset = offset

    def next(self, bound: int | None = None) -> Frame | None:
        """The next frame; None where it is incomplete, or extends beyond the offset `bound`."""
        if len(self._data) - self._at < _HEADER.size and not self._fill(_HEADER.size, bound):
            return None
        checksum, described, size, place, received, timestamp = _HEADER.unpack_from(self._data, self._at)
        length = _HEADER.size + described + size
        if len(self._data) - self._at < length and not self._fill(length, bound):
            return None
        data, at, end = self._data, self._at, self._at + length
        if zlib.crc32(memoryview(data)[at + _CHECKSUM : end]) != checksum:
            return None
        self._at = end
        self.offset += length
        body = data[end - size : end]
        message = Message(body, place, None if timestamp == _NONE else timestamp, None if received == _NONE else received)
        if described:
            message = _with_description(message, data[at + _HEADER.size : end - size])
        return Frame(message, self.offset)

    def _fill(self, needed: int, bound: int | None) -> bool:
        """Fill the buffer with at least `needed` unread bytes; False where there are fewer."""
        rest = self._data[self._at :]
        most = max(_BLOCK, needed - len(rest))
        if bound is not None:
            most = min(most, bound - self.offset - len(rest))
        self._data, self._at = rest + self._stream.read(max(0, most)), 0
        return len(self._data) >= needed


def _with_description(message: Message, description: bytes) -> Message:
    key, headers, topic, partition, *told = json.loads(description)
    pairs = tuple((name, base64.b64decode(value)) for name, value in headers)
    message = message._replace(key=None if key is None else base64.b64decode(key), headers=pairs, topic=topic, partition=partition)
    return message._replace(why=told[0], reason=Reason(told[1])) if told else message


_SINGLE: Final = (Format.NDJSON, Format.TEXT, Format.TURTLE, Format.NTRIPLES)
"""Formats with one record a message."""


def has_several(spec: InputFile) -> bool:
    """True if a message of an input may have several records."""
    return spec.format not in _SINGLE


class SegmentReader:
    """Reader of the records of one segment, from a position on.

    The position may be inside a frame where a message has several records; the segment is then read
    from its beginning, and the records before the position are skipped. `line` is the place of the
    last message, plus 1.
    """

    def __init__(
        self, stream: BinaryIO, spec: InputFile, position: Position, *, elements: bool, time_filter: TimeFilter = EVERY_TIME
    ) -> None:
        self._spec = spec
        self._decode = item_decoder(spec, time_filter)
        self._elements = elements
        self._first = position.offset
        self.line = position.line
        start = max(position.offset, len(MAGIC))
        if start > len(MAGIC) and has_several(spec) and not (spec.format is Format.JSON and _begins_frame(stream, position)):
            start = len(MAGIC)
        self._frames = FrameReader(stream, start)

    @property
    def offset(self) -> int:
        """The offset of the next frame."""
        return self._frames.offset

    def next(self, bound: int | None = None) -> Iterable[Record] | None:
        """The records of the next message; None at the offset `bound`, or at the end.

        Raises Refused (S114) where a frame before the bound is damaged.
        """
        frames, first = self._frames, self._first
        while bound is None or frames.offset < bound:
            start = frames.offset
            frame = frames.next(bound)
            if frame is None:
                if bound is None:
                    return None
                raise damaged_segment(self._spec.path, start)
            message, end = frame
            self.line = message.place + 1
            if end <= first:
                continue
            records = _placed(self._decode(message, self._elements), start, end)
            return records if start >= first else (record for record in records if record.offset >= first)
        return None


DAMAGED_HINT: Final = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."


def damaged_segment(path: Path | str, offset: int) -> Refused:
    """The error of a segment with a damaged published message (S114)."""
    return refuse("S114", f"the checkpoint is damaged: {path} has no whole message at byte {offset}", hint=DAMAGED_HINT)


def _begins_frame(stream: BinaryIO, position: Position) -> bool:
    """True if a frame begins at a position. A place in its text cannot be taken for one: JSON has no
    zero bytes, and the lengths in a frame have several."""
    frame = FrameReader(stream, position.offset).next()
    return frame is not None and frame.message.place == position.line


def _placed(records: Iterable[Record], start: int, end: int) -> Iterable[Record]:
    """Records of a message with their offsets in the segment."""
    if isinstance(records, list) and len(records) == 1:
        return [Record._make((start, end, *records[0][2:]))]
    following = iter(records)
    held = next(following, None)

    def placed() -> Iterator[Record]:
        number, last = start, held
        for record in following:
            assert last is not None
            yield Record._make((number, number + 1, *last[2:]))
            number, last = number + 1, record
        if last is not None:
            yield Record._make((number, end, *last[2:]))

    return placed()


def segment_records(stream: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of a segment from a position on, up to its last complete frame."""
    reader = SegmentReader(stream, spec, position, elements=elements)
    while (records := reader.next()) is not None:
        yield from records


def copied_like(like: InputFile) -> InputFile:
    """The specification of the copy of standard input: its text is recoded, and each segment begins
    with the header."""
    copied = like.map and replace(like.map, skip=0, encoding=like.map.codec)
    return replace(like, map=copied, framed=False)


def told_segment(record: Record) -> bytes:
    """The text of a segment that holds the record of a dead letter."""
    return json.dumps([record.reason.value, record.why, base64.b64encode(record.raw).decode()]).encode()


def told_records(stream: BinaryIO) -> Iterator[Record]:
    """The record of a segment of `told_segment`.

    >>> import io
    >>> record = Record(0, 9, 1, None, None, b"3,3", "no line end")
    >>> next(told_records(io.BytesIO(told_segment(record))))[4:7]
    (None, b'3,3', 'no line end')
    """
    text = stream.read()
    if text:
        reason, why, raw = json.loads(text)
        yield Record(0, len(text), 1, None, None, base64.b64decode(raw), why, reason=Reason(reason))


class Segments:
    """The segments of an input, in their folder.

    `framed`: they hold the frames of messages; else lines of standard input, each segment complete,
    and a marker file at the end. `closed`: no further segment will appear.
    """

    def __init__(self, like: InputFile, folder: Path, *, framed: bool = True) -> None:
        self.like = replace(like, framed=True) if framed else copied_like(like)
        self.closed = False
        self._folder = folder
        self._names: dict[int, str] = {}
        self._drained = _NONE

    def published(self) -> tuple[int, int]:
        """The number of the last segment, and its durable length (bytes); (-1, 0) without any."""
        return published(self._folder)

    def drained(self) -> int:
        """The machine's time (µs since 1970) up to which all that had come was spooled at the last
        call: so before an empty read that is between two calls."""
        before = self._drained
        with suppress(OSError, ValueError):
            self._drained = int((self._folder / DRAINED).read_bytes())
        return before

    def file(self, number: int) -> InputFile | None:
        """Segment of this number, or None."""
        if number not in self._names:
            self.closed = (self._folder / SPOOL_END).exists()  # before the listing, as the marker is written last
            self._names = segment_names(self._folder)
        name = self._names.get(number)
        return None if name is None else replace(self.like, path=str(self._folder / name))

    def paths(self, first: int, last: int) -> tuple[str, ...]:
        """Paths of the segments `first` to `last`; raises Refused (S114) if one is missing."""
        found = {number: self.file(number) for number in range(first, last + 1)}
        for number, file in found.items():
            if file is None:
                raise self._missing(number)
        return tuple(file.path for file in found.values() if file is not None)

    def _missing(self, number: int) -> Refused:
        return refuse("S114", f"the checkpoint is damaged: {self._folder} has no segment {number}, which a batch needs", hint=DAMAGED_HINT)

    def open(self, number: int) -> InputFile:
        """The segment of this number; raises Refused (S114) where it is missing."""
        file = self.file(number)
        if file is None:
            raise self._missing(number)
        return file

    def has_end(self) -> bool:
        """True if nothing comes behind what is published."""
        return (self._folder / SPOOL_END).exists()

    def complete(self) -> tuple[InputFile, ...]:
        """All segments, in order; none where the first was removed already."""
        numbers = list(segment_names(self._folder))
        return tuple(self.open(number) for number in numbers) if numbers[:1] == [0] else ()

    def remove(self, before: int) -> None:
        """Delete the segments before a number."""
        for number, name in segment_names(self._folder).items():
            if number < before:
                (self._folder / name).unlink(missing_ok=True)
                self._names.pop(number, None)


MARK: Final = "mark"
"""Name of the file with the mark of a series."""


class SeriesMark(NamedTuple):
    """Mark of a series of files that go on, of which the segments before the number `next` hold the
    records.

    `sources`: the files of the segments, as number of their first one, name, and lines of the head
    that each segment repeats. `files`: the states of the files.
    """

    next: int = 0
    sources: list[list[Any]] = []  # noqa: RUF012 (it is not changed)
    files: list[list[Any]] = []  # noqa: RUF012

    @staticmethod
    def of(folder: Path) -> SeriesMark:
        """The mark in the folder of a series; raises Refused (S114) where it is damaged."""
        path = folder / MARK
        try:
            number, sources, files = json.loads(path.read_bytes())
            return SeriesMark(int(number), list(sources), list(files))
        except FileNotFoundError:
            return SeriesMark()
        except (ValueError, TypeError):
            raise refuse("S114", f"the checkpoint is damaged: {path} is no mark of files", hint=DAMAGED_HINT) from None

    def place(self, number: int, line: int, first: int, *, told: bool) -> tuple[str, int]:
        """The file and the line in it of a line of the segment of a number, whose first record has
        the line `first` there.

        >>> SeriesMark(9, [[0, "a", 1], [5, "b", 0]]).place(4, 2, 70, told=False)
        ('a', 70)
        """
        source = next(each for each in reversed(self.sources) if each[0] <= number)
        return str(source[1]), line + first - 1 - (0 if told else int(source[2]))


def segment_names(folder: Path) -> dict[int, str]:
    """Names of the segments in a folder, by number, in ascending order."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    return {int(found[1]): name for name in names if (found := SEGMENT.fullmatch(name))}


def published(folder: Path) -> tuple[int, int]:
    """The number of the last segment of a folder, and its durable length in bytes; else (-1, 0)."""
    with suppress(FileNotFoundError, ValueError):
        number, length = map(int, (folder / PUBLISHED).read_text().split())
        return number, length
    return -1, 0


def last_place(folder: Path) -> int:
    """The place of the last complete message of a folder; 0 without any."""
    names = segment_names(folder)
    if not names:
        return 0
    name = names[max(names)]
    place = int(name.split("-")[1].removesuffix(SUFFIX)) - 1
    with (folder / name).open("rb") as file:
        frames = FrameReader(file, len(MAGIC))
        while (frame := frames.next()) is not None:
            place = frame.message.place
    return place
