"""An inbox in memory for the tests of receivers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from dotr.streams.records import Message
from tests.support.patience import PATIENCE


class MemoryInbox:
    """Inbox in memory of at most `most` messages; `last`: the last message of an earlier run."""

    def __init__(self, most: int = 1 << 20, last: Message | None = None) -> None:
        self.messages: list[Message] = []
        self.most = most
        self.last = last

    def earlier(self) -> Iterator[list[Message]]:
        return iter(())

    def offer(self, messages: Sequence[Message], kept: Callable[[], None]) -> bool:
        if len(self.messages) + len(messages) > self.most:
            return False
        self.messages += messages
        kept()
        return True

    def wait_for_capacity(self, seconds: float, size: int = 0) -> bool:
        time.sleep(0.01)
        return len(self.messages) < self.most

    def until(self, count: int) -> list[bytes]:
        """The bodies of messages, once there are so many; that of a dead letter is its reason in capitals."""
        until(lambda: len(self.messages) >= count)
        return [each.reason.value.upper().encode() if each.why else each.body for each in self.messages]


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
