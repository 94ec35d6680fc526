"""State of a bucket of rules while it is moved, and the file that holds it until the bucket starts.

Idea: a bucket that has no stored value yet starts from a file. Its first line has the number of
lines of each store and queue, and the consumed events; each further line is a block of events, as
in a segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from dotr.engine.state.event_blocks import EventBlock, blocks_of, lines_of
from dotr.engine.state.log import Manifest, live_consumption
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import State, StateError, StateSnapshot

FORM: Final = 1
"""Version of the form of a file."""

_BEGINNING: Final = b'{"moved":'


class MovedState(NamedTuple):
    """The state of a partition as blocks: of each store, of each set of consumed events, and of
    each queue; and `State.passed` (µs)."""

    events: Sequence[Sequence[EventBlock]]
    consumed: Sequence[Sequence[tuple[Micros, int]]]
    waiting: Sequence[Sequence[EventBlock]]
    passed: Micros | None

    @staticmethod
    def of_snapshot(state: StateSnapshot) -> MovedState:
        """The state of a snapshot as blocks."""

        def blocks(logs: Sequence[Sequence[StoredEvent]]) -> list[list[EventBlock]]:
            return [[EventBlock.of_events(log)] if log else [] for log in logs]

        return MovedState(blocks(state.events), state.consumed, blocks(state.waiting), state.passed)

    @property
    def snapshot(self) -> StateSnapshot:
        """The state as lists of events."""

        def events(logs: Sequence[Sequence[EventBlock]]) -> list[list[StoredEvent]]:
            return [[event for block in log for event in block.events()] for log in logs]

        return StateSnapshot(events(self.events), self.consumed, events(self.waiting), self.passed)

    @property
    def event_counts(self) -> tuple[int, ...]:
        """The number of events of each store."""
        return tuple(sum(len(block.times) for block in log) for log in self.events)

    def encode(self) -> bytes:
        """The lines of a file; `decode` tests their beginning."""
        lines = [[[line for block in log for line in lines_of(block)] for log in logs] for logs in (self.events, self.waiting)]
        head = {
            "moved": FORM,
            "passed": self.passed,
            "consumed": [sorted(pairs) for pairs in self.consumed],
            "lines": [[len(log) for log in logs] for logs in lines],
        }
        first = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        return b"".join([first, *(line for logs in lines for log in logs for line in log)])

    @staticmethod
    def decode(written: bytes) -> MovedState | None:
        """The inverse of `encode`; None for state of another form. Raises StateError.

        >>> state = MovedState([[EventBlock(["<a>"], [5], [0], [[0]])], []], [[(5, 0)]], [[]], 9)
        >>> MovedState.decode(state.encode()) == state, MovedState.decode(b'{"version":2}')
        (True, None)
        """
        if not written.startswith(_BEGINNING):
            return None
        try:
            lines = iter(written.splitlines())
            head = json.loads(next(lines))
            if head["moved"] != FORM:
                raise StateError(f"its form is {head['moved']}, this release reads {FORM}")
            events, waiting = ([blocks_of(islice(lines, number)) for number in numbers] for numbers in head["lines"])
            return MovedState(events, [[(time, ordinal) for time, ordinal in pairs] for pairs in head["consumed"]], waiting, head["passed"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})") from error


def is_moved(written: bytes) -> bool:
    """True for the text of a file of moved state.

    >>> is_moved(MovedState([], [], [], None).encode()), is_moved(b"")
    (True, False)
    """
    return written.startswith(_BEGINNING)


def blocks_of_state(written: bytes, segments: Iterable[tuple[int, bytes]]) -> MovedState:
    """The state of a bucket of rules from its stored value.

    Args:
        written: the value: a text, a manifest, or the text of a file of moved state.
        segments: those of a manifest, each with the number of its log, in the order of positions.

    Raises:
        StateError: the value cannot be read.
    """
    moved = MovedState.decode(written)
    if moved is not None:
        return moved
    manifest = Manifest.decode(written)
    if manifest is None:
        return MovedState.of_snapshot(StateSnapshot.decode(written))
    last = len(manifest.oldest) - 1
    logs: list[list[EventBlock]] = [[] for _ in range(last)]
    consumed: list[list[tuple[Micros, int]]] = [[] for _ in range(manifest.set_count)]
    try:
        for log, lines in segments:
            if log == last:
                for number, time, ordinal, _ in live_consumption(manifest, [lines]):
                    consumed[number].append((time, ordinal))
            elif (oldest := manifest.oldest[log]) is not None:
                logs[log] += [live for block in blocks_of(lines.splitlines()) if (live := block.since(oldest)).times]
    except (IndexError, TypeError, ValueError) as error:
        raise error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})") from error
    stores = len(manifest.event_counts)
    return MovedState(logs[:stores], consumed, logs[stores:], manifest.passed)


def restore_moved(state: State, written: bytes) -> State:
    """Fill the empty `state` with moved state, and return it. Raises StateError where the moved
    state is that of another layer."""
    moved = MovedState.decode(written)
    assert moved is not None, "the text is that of a file of moved state"
    counts = (moved.events, state.stores), (moved.consumed, state.consumed), (moved.waiting, state.waiting)
    if any(len(moved_slots) != len(slots) for moved_slots, slots in counts):
        raise StateError("it belongs to another program")
    for store, blocks in zip(state.stores, moved.events, strict=True):
        if events := list(_events(blocks)):
            store.extend(events)
    for consumed, pairs in zip(state.consumed, moved.consumed, strict=True):
        consumed.update(pairs)
    for waiting, blocks in zip(state.waiting, moved.waiting, strict=True):
        waiting.extend(_events(blocks))
    state.passed = moved.passed
    return state


def _events(blocks: Iterable[EventBlock]) -> Iterator[StoredEvent]:
    return (event for block in blocks for event in block.events())
