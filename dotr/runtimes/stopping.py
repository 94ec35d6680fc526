"""Stopping a run: Ctrl-C and SIGTERM interrupt at once whatever is being found, and wait only while an instant is being written.

So the output holds whole instants. Where one has very many matches, writing it takes long too: then it looks for `wanted` now and then,
and takes back what it has written of the instant. A second signal interrupts at once, whatever is at work.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """`busy` is set by the run while an instant is being written, and true before it has begun; then `wanted` says that a signal came."""

    __slots__ = ("is_writing", "requested")

    def __init__(self) -> None:
        self.is_writing = True
        self.requested = False

    def end_write(self) -> None:
        """Nothing is being written: a signal that has come interrupts now, and one that comes at once."""
        self.is_writing = False
        if self.requested:
            raise KeyboardInterrupt

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """What a signal does."""
        if self.requested or not self.is_writing:
            self.requested = True
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it holds, signals go to the Stop that it gives. Only a main thread has signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = [(number, signal.signal(number, stop.handle_signal)) for number in _SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)
