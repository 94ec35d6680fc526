"""Stop of a run by Ctrl-C or SIGTERM: immediate during matching, delayed while an instant is
written.

Invariant: the output holds whole instants. A long write checks `requested` from time to time and
undoes the instant. A second signal interrupts at once.
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
    """State of a stop: `is_writing` delays the interrupt (true before the first instant, too),
    `requested` records a signal."""

    __slots__ = ("is_writing", "requested")

    def __init__(self) -> None:
        self.is_writing = True
        self.requested = False

    def end_write(self) -> None:
        """Allow interrupts again; raises KeyboardInterrupt where a signal arrived during the write."""
        self.is_writing = False
        if self.requested:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt where a signal has arrived."""
        if self.requested:
            raise KeyboardInterrupt

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: interrupt, or record it during a write."""
        if self.requested or not self.is_writing:
            self.requested = True
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Context whose `Stop` handles SIGINT and SIGTERM, in the main thread."""
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
