"""Standard input on Spark: copied into the checkpoint before it is used, so that a batch can be read again.

A thread reads records and writes them as numbered segments, each there whole or not at all; a file `end` says that nothing more comes. What
was copied before a crash is part of the stream; what is sent to the next start goes on behind it. The copy waits while the query is far
behind.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dotr.io.feeds import StandardInput
from dotr.io.lines import standard_bytes
from dotr.io.records import Format, InputFile
from dotr.runtimes.spark.journal import SEGMENT, SPOOL, SPOOL_END

_SEGMENT_RECORDS: Final = 20_000
_MOST_SEGMENTS: Final = 500
_PAUSE_SECONDS: Final = 0.02


@contextmanager
def spooling(like: InputFile, checkpoint: Path) -> Iterator[None]:
    """While it holds, standard input is copied."""
    folder = checkpoint / SPOOL
    folder.mkdir(exist_ok=True)
    stop = threading.Event()
    thread = threading.Thread(target=_copy, args=(like, folder, stop), daemon=True)
    if not (folder / SPOOL_END).exists():
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if thread.is_alive():
            thread.join()


def _copy(like: InputFile, folder: Path, stop: threading.Event) -> None:
    header = _header() if like.format is Format.CSV else b""
    feed = StandardInput(like, elements=False)
    number, line = _next(folder)
    while not stop.is_set():
        if len(os.listdir(folder)) > _MOST_SEGMENTS:
            time.sleep(_PAUSE_SECONDS)
            continue
        taken = feed.take(_SEGMENT_RECORDS)
        if taken is None:
            if feed.ended:
                _write(folder / SPOOL_END, b"")
                return
            time.sleep(_PAUSE_SECONDS)
            continue
        records = taken.records
        first = line + records[0].line - 1
        _write(folder / f"{number:012d}-{first:012d}.{like.format.value}", header + b"".join(map(_whole, (r.raw for r in records))))
        (folder / NEXT).write_text(f"{number + 1} {line + records[-1].line}")
        number += 1


NEXT: Final = "next"


def _next(folder: Path) -> tuple[int, int]:
    """The number of the next segment, and the line it starts at: a crash may have left a segment that `next` does not know yet."""
    number, line = 0, 1
    if (folder / NEXT).exists():
        number, line = map(int, (folder / NEXT).read_text().split())
    known = [int(found[1]) for name in os.listdir(folder) if (found := SEGMENT.fullmatch(name))]
    return max([number, *(each + 1 for each in known)]), line


def _header() -> bytes:
    """The first line of standard input, which is left there."""
    waiting = standard_bytes()
    while b"\n" not in waiting.held and waiting.more():
        pass
    return _whole(waiting.held.partition(b"\n")[0])


def _whole(raw: bytes) -> bytes:
    return raw if raw.endswith(b"\n") else raw + b"\n"


def _write(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.tmp")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
