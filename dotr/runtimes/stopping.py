"""Stopping a run between two instants: Ctrl-C and SIGTERM wait until the instant at work is written.

While nothing is at work (an input may be waiting for data) a signal interrupts at once; so does a second one, whatever is at work.
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
    """`busy` is set by the run while an instant is at work, and true before it has begun; then `wanted` says that a signal came."""

    __slots__ = ("busy", "wanted")

    def __init__(self) -> None:
        self.busy = True
        self.wanted = False

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """What a signal does."""
        if self.wanted or not self.busy:
            self.wanted = True
            raise KeyboardInterrupt
        self.wanted = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it holds, signals go to the Stop that it gives. Only a main thread has signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = [(number, signal.signal(number, stop.signalled)) for number in _SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)
