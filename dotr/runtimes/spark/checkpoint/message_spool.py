"""Spool of messages in the checkpoint: a message is durable before it is acknowledged, since it
cannot be received twice.

Idea: one thread appends all messages offered meanwhile to the last segment, makes them durable with
one fsync, publishes the new length to the planner, and then notifies the receivers. So a single
sender waits for one fsync a message, and many senders share it.
Invariant: published messages are durable. A frame behind the published length, which a crash may
have torn, is either whole and becomes part of the stream at the next start, or is cut off.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.private_files import replace_file
from dotr.model import dataclass
from dotr.model.time import Unit
from dotr.runtimes.monitoring.totals import RunFailed
from dotr.runtimes.spark.checkpoint.standard_input_spool import Spool, StandardInputSpool
from dotr.streams.connectors.receivers import QUEUED_BYTES, QUEUED_MESSAGES, ReceptionClock, dates_of
from dotr.streams.formats.segments import (
    MAGIC,
    PUBLISHED,
    SPOOL,
    SPOOL_END,
    SUFFIX,
    FrameReader,
    Segments,
    damaged_segment,
    encode_frame,
    published,
    segment_names,
    spool_folder,
)
from dotr.streams.merge.feeds import SegmentsFeed
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.records import AllEnded, InputFile, Message, Receiver, ReceivingFailed
from dotr.streams.sinks.files import sync_folder

_SEGMENT_BYTES: Final = 16 << 20
_LEAST_SEGMENT_BYTES: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
"""Time between two looks for segments that the planner has released, while the spool is full."""


class MessageSpool(Spool):
    """Inbox of an input like `like` on Spark: its segments in a folder of the checkpoint.

    `limit`: bytes of segments, at most; `receiver`: what fills it, once it is made. Raises
    `RunFailed` where the folder cannot be written.
    """

    def __init__(self, like: InputFile, folder: Path, limit: int) -> None:
        super().__init__(folder, "messages cannot be spooled")
        self._feeds = [SegmentsFeed(Segments(replace(like, unit=unit), folder), elements=True) for unit in (Unit.MICROSECOND, Unit.DAY)]
        self._limit = limit
        self.receiver: Receiver | None = None
        self._segment_bytes = max(_LEAST_SEGMENT_BYTES, min(_SEGMENT_BYTES, limit // 8))
        self._waiting: list[tuple[list[bytes], Callable[[], None]]] = []
        self._waiting_messages = self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._file = -1
        self._length = 0
        self.last: Message | None = None
        with self._writing():
            self._number, self._place, self.last = _recover(folder)
            self._used = _size(folder)
        self._written = self._place
        self._clock = ReceptionClock(0 if self.last is None else self.last.received or 0)
        self._thread.start()

    def offer(self, messages: Sequence[Message], kept: Callable[[], None]) -> bool:
        """Accept all of the messages, or none; True if they are accepted. `kept` is called by the
        spool's thread once they are durable."""
        with self._changed:
            if self._closed or self.failure is not None:
                return False
            if not self._has_capacity(len(messages), sum(len(message.body) for message in messages)):
                return False
            received = self._clock.read()
            frames = [
                encode_frame(message._replace(place=place, received=received)) for place, message in enumerate(messages, self._place + 1)
            ]
            self._place += len(messages)
            self._waiting.append((frames, kept))
            self._waiting_messages += len(frames)
            self._waiting_bytes += sum(map(len, frames))
            self._changed.notify_all()
        return True

    def _has_capacity(self, messages: int, size: int) -> bool:
        if self._used + self._waiting_bytes + size > self._limit:
            return False
        few = self._waiting_messages + messages <= QUEUED_MESSAGES and self._waiting_bytes + size <= QUEUED_BYTES
        return few or not self._waiting

    def wait_for_capacity(self, seconds: float, size: int = 0) -> bool:
        """Wait until a message of `size` bytes would be accepted, at most `seconds`; True if it
        would."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or self._has_capacity(1, size), seconds) and not self._closed

    def first_has_dates(self) -> bool | None:
        """True where the first readable message has date-times; None where there is none yet."""
        fine, coarse = self._feeds
        while (one := fine.read(1)) is not None and (other := coarse.read(1)) is not None:
            if (dates := dates_of(one.records, other.records)) is not None:
                fine.close()
                coarse.close()
                return dates
        return None

    def close(self) -> None:
        """Write the accepted messages, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _copy(self) -> None:
        try:
            while True:
                has_ended = self.receiver is not None and self.receiver.ended  # before what it has offered is taken
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closed, _LOOK_SECONDS)
                    accepted, self._waiting = self._waiting, []
                    self._waiting_messages = 0
                    if not accepted and self._closed and not has_ended:
                        return
                if accepted:
                    self._write([frame for frames, _ in accepted for frame in frames])
                    for _, kept in accepted:
                        with suppress(Exception):  # the sender may have disconnected
                            kept()
                    continue
                if has_ended:
                    replace_file(self._folder / SPOOL_END, (), sync=True)
                    return
                self._mark(time.time_ns() // 1_000, self._is_drained)
                if self._used * 2 > self._limit:
                    self._count_again()
        finally:
            if self._file >= 0:
                os.close(self._file)

    @property
    def has_ended(self) -> bool:
        """True if the sender has said, in this run or an earlier one, that no further message
        comes, and all are spooled."""
        return (self._folder / SPOOL_END).exists()

    def earlier(self) -> Iterator[list[Message]]:
        """The messages of each segment that is still there, the newest segment first."""
        names = segment_names(self._folder)
        for number in sorted(names, reverse=True):
            messages: list[Message] = []
            with suppress(FileNotFoundError), (self._folder / names[number]).open("rb") as file:
                frames = FrameReader(file, len(MAGIC))
                while (frame := frames.next()) is not None:
                    messages.append(frame.message)
            yield messages

    def _is_drained(self) -> bool:
        """True if nothing waits in the receiver's socket, or to be written."""
        receiver = self.receiver
        return receiver is not None and receiver.is_drained() and not self._waiting

    def _count_again(self) -> None:
        """Count the bytes of the segments again, of which the planner may have removed some."""
        used = _size(self._folder)
        with self._changed:
            self._used = used
            self._changed.notify_all()

    def _write(self, frames: Sequence[bytes]) -> None:
        data = b"".join(frames)
        if self._file < 0 or self._length > self._segment_bytes:
            self._begin_segment()
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fsync(self._file)
        self._length += len(data)
        self._written += len(frames)
        _publish(self._folder, self._number, self._length)
        with self._changed:
            self._used += len(data)
            self._waiting_bytes -= len(data)
            self._changed.notify_all()

    def _begin_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._number += 1
        path = self._folder / f"{self._number:012d}-{self._written + 1:012d}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.write(self._file, MAGIC)
        self._length = len(MAGIC)
        sync_folder(self._folder)


def _recover(folder: Path) -> tuple[int, int, Message | None]:
    """Make the last segment durable and publish its length; a frame that a crash has torn is cut
    off, and a segment without a frame removed, so that the last message stays in the folder.
    Returns the number of the segment, the place of its last message, and that message; (-1, 0,
    None) for a new folder.

    Raises Refused (S114) where a published message is damaged.
    """
    names = segment_names(folder)
    if not names:
        return -1, 0, None
    number = max(names)
    path, end = folder / names[number], 0
    last: Message | None = None
    with path.open("r+b") as file:
        if file.read(len(MAGIC)) == MAGIC:
            frames = FrameReader(file, len(MAGIC))
            while (frame := frames.next()) is not None:
                last = frame.message
            end = frames.offset
        if (number, end) < published(folder):
            raise damaged_segment(path, end)
        if last is None and number - 1 in names:
            path.unlink()
            return _recover(folder)
        _cut_off(file.fileno(), end)
    _publish(folder, number, max(end, len(MAGIC)))
    place = int(names[number].split("-")[1].removesuffix(SUFFIX)) - 1 if last is None else last.place
    return number, place, last


def _cut_off(file: int, end: int) -> None:
    os.ftruncate(file, end)
    if not end:
        os.pwrite(file, MAGIC, 0)
    os.fsync(file)


def _publish(folder: Path, number: int, length: int) -> None:
    """Publish the length up to which readers may read. The file need not be durable, since the
    segment is, and `_recover` writes it anew."""
    replace_file(folder / PUBLISHED, [f"{number} {length}".encode()])


def _size(folder: Path) -> int:
    """Bytes of the segments of a folder."""
    total = 0
    for name in segment_names(folder).values():
        with suppress(FileNotFoundError):  # removed by the planner meanwhile
            total += (folder / name).stat().st_size
    return total


@dataclass
class Reception:
    """The spools of a run on Spark, and the receivers that fill them, by name of input. `marks`: those
    of `Spool`."""

    spools: list[Spool] = field(default_factory=list)
    receivers: dict[str, Receiver] = field(default_factory=dict)
    marks: bool = False

    def connections(self) -> dict[str, bool]:
        """The state of each receiver by name of input: True if messages can arrive."""
        return {name: receiver.connected for name, receiver in self.receivers.items()}

    @property
    def failure(self) -> Refused | RunFailed | None:
        """The error that ended a receiver or a spool, which ends the run."""
        for spool in self.spools:
            if spool.failure is not None:
                return spool.failure
        for receiver in self.receivers.values():
            match receiver.failure:
                case ReceivingFailed() as failure:
                    return RunFailed(f"{failure} (what has come is kept: the same command goes on from it)")
                case Refused() as refused:
                    return refused
                case None:
                    pass
        return None

    def first_has_dates(self) -> bool | None:
        """True where the first readable message of the spools has date-times; None where there is
        none yet. Raises the error that ended a receiver or a spool, and AllEnded."""
        if self.failure is not None:
            raise self.failure
        spools = [spool for spool in self.spools if isinstance(spool, MessageSpool)]
        all_ended = all(spool.has_ended for spool in spools)
        found = next((dates for spool in spools if (dates := spool.first_has_dates()) is not None), None)
        if found is None and all_ended:
            raise AllEnded
        return found

    def copy_standard_input(self, growing: Sequence[GrowingInput], checkpoint: Path) -> None:
        """Begin to copy standard input, if an input reads it."""
        self.spools += [StandardInputSpool(each.like, checkpoint / SPOOL, marks=self.marks) for each in growing if each.standard]

    def stop(self) -> None:
        """End the receivers, then the spools."""
        for receiver in self.receivers.values():
            receiver.stop()
        for spool in self.spools:
            spool.close()


@contextmanager
def receiving(growing: Sequence[GrowingInput], checkpoint: Path, *, marks: bool = False) -> Iterator[Reception]:
    """Receive the messages of inputs that have a source into their spools while the context is
    open. `marks`: those of `Spool`.

    Raises `Refused` where a receiver cannot start, and `RunFailed` where a spool cannot be written.
    """
    reception = Reception(marks=marks)
    try:
        for each in growing:
            if each.source is not None:
                spool = MessageSpool(each.like, spool_folder(checkpoint, each.like.input), each.spool)
                reception.spools.append(spool)
                if spool.has_ended:
                    continue
                receiver = each.source.receiver()
                spool.receiver, spool.marks = receiver, marks
                reception.receivers[each.like.input] = receiver
                receiver.start(spool)
        yield reception
    finally:
        reception.stop()
