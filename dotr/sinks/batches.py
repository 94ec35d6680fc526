"""Interfaces of sinks: what a run in process writes to, and what a run on Spark writes batches to.

A sink takes items of one kind, firings or dead letters. Files, topics of a broker and addresses of
a server implement the same two interfaces; `dotr.sinks.opening` knows them all.
Invariant: a batch is in a sink whole or not at all as far as the sink's promise goes
(`at_least_once`: a batch that was cut off may be there in part, and is then written again whole).
Sinks are written one behind the other, and each knows its own last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias, TypeVar

from dotr.model.stream import DeadLetter

T_contra = TypeVar("T_contra", contravariant=True)

Check: TypeAlias = Callable[[], None]
"""Called while a sink waits for a broker or server; raises where the run has been stopped."""


Reject: TypeAlias = Callable[[DeadLetter], None]
"""Called with the dead letter of an item that a sink cannot take: a message that is too long."""


def check_nothing() -> None:
    """Go on waiting."""


class RunSink(Protocol[T_contra]):
    """A sink of a run in process: a context, whose exit completes what is written.

    `write_items` adds items in output order. `flush` hands on what is buffered. `mark` gives a
    place for `truncate`, or None where what is written cannot be taken back. `discard` closes a
    sink to which nothing was written, and removes what opening it has made. Raises `WriteFailed`.
    """

    def write_items(self, items: Sequence[T_contra]) -> None: ...

    def flush(self) -> None: ...

    def mark(self) -> int | None: ...

    def truncate(self, mark: int, /) -> None: ...

    def discard(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...


class BatchSink(Protocol[T_contra]):
    """A sink of a run on Spark: batches with numbers, each there whole or not at all.

    `open` connects before the first batch. It returns the number of the last batch that is there;
    None where none is, or where the sink need not know. It raises `Refused` for what can never
    succeed, and waits for what may, calling `check`.
    `write_batch` writes the blocks of items of a batch in order, and returns when they are there; a
    batch that is there already is left as it is, or written again with the same bytes. The blocks
    can be read again, for another attempt. It returns the dead letters of items that the sink
    cannot take, the same ones each time. Raises `WriteFailed`, `Refused`, or what `check` raises.
    `close` ends the connection.
    """

    def open(self, check: Check) -> int | None: ...

    def write_batch(self, number: int, blocks: Iterable[Sequence[T_contra]], check: Check) -> Sequence[DeadLetter]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """Knowledge that a checkpoint has of batches, numbered over all generations of its query.

    - `identity`: the checkpoint's ID; another checkpoint of the same pipeline has another.
    - `written`: the number of batches that are in all sinks, so the number of the next one.
    - `planned`: `written`, or one more where a batch was planned that may be in some sinks.
    - `last_written`: the number of the last batch that the user says is there; None: nothing said.

    >>> BatchHistory("a1", written=7, planned=8).is_in_doubt
    True
    """

    identity: str
    written: int = 0
    planned: int = 0
    last_written: int | None = None

    @property
    def is_in_doubt(self) -> bool:
        """Test for a batch that may be in some sinks."""
        return self.planned > self.written
