"""Spool of standard input: a copy in the checkpoint, so that a batch can be read again.

Idea: a thread writes records as numbered segments, each complete or absent; a file `end` marks the
end of the input. Records copied before a crash are part of the stream, and the input of the next
start follows them. The name of a segment has its number and its line range in the whole input; the
file `next` has the next number and line, also after segments are removed. Copying pauses while the
query is far behind.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.private_files import remove_leftovers, replace_file
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.runtimes.monitoring.totals import RunFailed
from dotr.streams.formats.content import recoded_start
from dotr.streams.formats.csv.map import first_line
from dotr.streams.formats.csv.rows import QuoteState, quote_state
from dotr.streams.formats.lines import standard_bytes
from dotr.streams.formats.rdf.logs import graph_of
from dotr.streams.formats.segments import DRAINED, SEGMENT, SPOOL, SPOOL_END
from dotr.streams.merge.feeds import StandardInput
from dotr.streams.records import COLUMNS, ROWS, Format, InputFile, Record

# Spool: a folder of the checkpoint to which a thread copies what cannot be read a second time.


_MARK_MICROS: Final = 100_000
"""Least time between two marks, in µs."""


class Spool(ABC):
    """A spool; `failure` is the error that ended its thread. `marks`: it tells the planner up to when
    its source was left empty.

    `what` begins the message of such an error. Raises `RunFailed` where the folder cannot be
    written.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.failure: Refused | RunFailed | None = None
        self.marks = False
        self._marked = 0
        self._folder = folder
        self._what = what
        self._thread = threading.Thread(target=self._run, name="dotr-spool", daemon=True)
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)

    @abstractmethod
    def _copy(self) -> None:
        """Copy until the spool is closed. Raises `Refused` or OSError."""

    @abstractmethod
    def close(self) -> None:
        """End the thread."""

    def _mark(self, machine: Micros, is_drained: Callable[[], bool]) -> None:
        """Tell the planner that all that had come at a time of the machine (µs) is spooled, if so."""
        if self.marks and machine >= self._marked + _MARK_MICROS and is_drained():
            replace_file(self._folder / DRAINED, [b"%d" % machine])
            self._marked = machine

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Context in which an OSError is raised as `RunFailed`."""
        try:
            yield
        except OSError as error:
            where, why = error.filename or self._folder, (error.strerror or str(error)).lower()
            raise RunFailed(f"{self._what} to {where}: {why} (once that is mended, the same command goes on)") from None

    def _run(self) -> None:
        try:
            with self._writing():
                self._copy()
        except (Refused, RunFailed) as error:
            self.failure = error


_SEGMENT_RECORDS: Final = 20_000
_MAX_SEGMENTS: Final = 500
_PAUSE_SECONDS: Final = 0.02
_MAGIC: Final = b"\x1f\x8b"


class StandardInputSpool(Spool):
    """Copy of standard input, read as an input like `like`, in a folder of the checkpoint."""

    def __init__(self, like: InputFile, folder: Path, *, marks: bool = False) -> None:
        super().__init__(folder, "standard input cannot be copied")
        self.marks = marks
        self._like = like
        self._stop = threading.Event()
        if not (folder / SPOOL_END).exists():
            self._thread.start()

    def _copy(self) -> None:
        like, folder = self._like, self._folder
        header = _header(like) if like.format is Format.CSV and not (like.map and like.map.columns) else b""
        by_column = like.map is not None and like.map.each == COLUMNS
        feed = StandardInput(replace(like, map=replace(like.map, each=ROWS)) if like.map and by_column else like, elements=False)
        number, line = _next_segment(folder)
        copied = 0
        while not self._stop.is_set():
            if len(os.listdir(folder)) > _MAX_SEGMENTS:
                time.sleep(_PAUSE_SECONDS)
                continue
            machine = time.time_ns() // 1_000
            chunk = feed.read(_SEGMENT_RECORDS)
            if chunk is None:
                if feed.ended:
                    replace_file(folder / SPOOL_END, (), sync=True)
                    return
                self._mark(machine, feed.is_drained)
                time.sleep(_PAUSE_SECONDS)
                continue
            records = [record for record in chunk.records if record.line > copied]  # a line may be several records
            if not records:
                continue
            last = records[-1]
            copied = last.line
            first, after = line + records[0].line - 1, line + last.line - 1 + _with_newline(last.raw).count(b"\n")
            name = f"{number:012d}-{first:012d}-{after:012d}.{like.format.value}"
            text = chain([header], _texts(records, like))
            replace_file(folder / name, text, sync=True)
            number += 1
            replace_file(folder / NEXT, [f"{number} {after}".encode()], sync=True)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


def _texts(records: Iterable[Record], like: InputFile) -> Iterator[bytes]:
    """The text of the records, of each line once; a line without a record is an empty one."""
    line = end = 0
    for record in records:
        if record.line > line:
            yield b"\n" * (record.line - end if line else 0)
            yield from _record_text(record, like)
            line, end = record.line, record.line + _with_newline(record.raw).count(b"\n")


NEXT: Final = "next"
"""File with the number of the next segment and its first line."""


def copied_lines(checkpoint: Path) -> int | None:
    """The lines of standard input copied so far, over all runs; None where the checkpoint has no
    spool."""
    folder = checkpoint / SPOOL
    return _next_segment(folder)[1] - 1 if folder.is_dir() else None


def _next_segment(folder: Path) -> tuple[int, int]:
    """The number and first line of the next segment. After a crash, the last segment may be missing
    in `next`. Raises Refused (S114) where `next` is damaged."""
    number, line = 0, 1
    if (folder / NEXT).exists():
        try:
            number, line = map(int, (folder / NEXT).read_text().split())
        except ValueError:
            hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
            raise refuse(
                "S114", f"the checkpoint is damaged: {folder / NEXT} does not contain the number of the next line", hint=hint
            ) from None
    for found in filter(None, map(SEGMENT.fullmatch, sorted(os.listdir(folder)))):
        if int(found[1]) >= number:
            number, line = int(found[1]) + 1, int(found[3] or line)
    return number, line


def _record_text(record: Record, like: InputFile) -> Iterator[bytes]:
    """The text of a record. A record beyond the size limit, of which the beginning is read, is
    padded beyond the limit, so that it is rejected again."""
    if record.reason is not Reason.LIMIT or record.end - record.offset <= len(record.raw) + 1:
        yield _with_newline(record.raw)
        return
    yield record.raw
    end = b"\n"
    if like.map is not None and like.format is Format.CSV:
        state = quote_state(record.raw, QuoteState.START, like.map.delimiter.encode())
        if state is QuoteState.QUOTE:
            yield b'"'
        end = b'"\n' if state in (QuoteState.QUOTE, QuoteState.INSIDE) else end
    elif like.format is Format.NQUADS and (graph := graph_of(record.raw)) is not None:
        yield f"\n! {graph} ".encode()
    for _ in range(like.record // len(_BLANKS) + 1):
        yield _BLANKS
    yield end


_BLANKS: Final = b" " * (1 << 16)


def _header(like: InputFile) -> bytes:
    """The line of the header of standard input, recoded, which is not consumed; of a longer line
    than a record may be, its beginning."""
    standard_input, limit = standard_bytes(), like.record
    while True:
        start = decompressed_prefix(standard_input.buffered, 0 if like.map and like.map.skip else limit + 1)
        lines = recoded_start(start, like)
        line = first_line(like, BytesIO(lines))[0]
        if line.endswith(b"\n") or len(line) > limit or not standard_input.read_ahead():
            return _with_newline(line)


def decompressed_prefix(prefix: bytes, most: int = 0) -> bytes:
    """The text of a stream's first bytes, decompressed where they are gzip (at most `most` bytes,
    0: all).

    >>> import gzip
    >>> packed = gzip.compress(b"time,room")
    >>> decompressed_prefix(packed), decompressed_prefix(packed[:5]), decompressed_prefix(b"time"), decompressed_prefix(packed[:1])
    (b'time,room', b'', b'time', b'')
    """
    if not _MAGIC.startswith(prefix[:2]):
        return prefix
    try:
        return zlib.decompressobj(wbits=31).decompress(prefix, most)
    except zlib.error:  # reported when the stream is read
        return b""


def _with_newline(raw: bytes) -> bytes:
    return raw if raw.endswith(b"\n") else raw + b"\n"
