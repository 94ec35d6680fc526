"""Interfaces of sinks: `RunSink` for a run in process, and `BatchSink` for the batches of a run on
Spark.

A sink writes items of one kind, firings or dead letters. Files, topics of a broker and URLs of a
server implement the same two interfaces; `dotr.streams.connectors.opening` opens them.
Invariant: a batch is written completely or not at all, within the guarantee of the sink (at least
once: an interrupted batch may be written partly, and is then repeated completely). The sinks of a
run are written one after the other, and each has its own last batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from types import TracebackType
from typing import Protocol, Self, TypeAlias, TypeVar

from dotr.model import dataclass
from dotr.model.stream import DeadLetter

T_contra = TypeVar("T_contra", contravariant=True)

Check: TypeAlias = Callable[[], None]
"""Callback of a sink that waits for a broker or server; raises if the run was stopped."""


Reject: TypeAlias = Callable[[DeadLetter], None]
"""Callback for the dead letter of an item that a sink cannot write: a message that is too long."""


def check_nothing() -> None:
    """Does nothing: the sink continues to wait."""


class RunSink(Protocol[T_contra]):
    """A sink of a run in process: a context, whose exit completes the output.

    Its methods raise `WriteFailed`.
    """

    def write_items(self, items: Sequence[T_contra]) -> None:
        """Add items, in the order of the output."""

    def flush(self) -> None:
        """Write all buffered items."""

    def mark(self) -> int | None:
        """The present end of the output, for `truncate`; None where output cannot be withdrawn."""

    def truncate(self, mark: int, /) -> None:
        """Withdraw the output behind a mark."""

    def discard(self) -> None:
        """Close a sink without output, and remove the files that opening it has created."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...


class BatchSink(Protocol[T_contra]):
    """A sink of a run on Spark, for numbered batches."""

    def open(self, check: Check) -> int | None:
        """Connect, before the first batch.

        Returns the number of the last batch that is written; None if there is none, or if the sink
        does not record it. Raises `Refused` for permanent errors; waits after transient ones,
        calling `check`.
        """

    def write_batch(self, number: int, blocks: Iterable[Sequence[T_contra]], check: Check) -> Sequence[DeadLetter]:
        """Write the blocks of items of a batch, in order; returns when they are stored.

        A batch that is already written is skipped, or written again with the same bytes. `blocks`
        may be iterated again, for another attempt. Returns the dead letters of items that the sink
        cannot write, the same ones in each repetition. Raises `WriteFailed`, `Refused`, or what
        `check` raises.
        """

    def close(self) -> None:
        """End the connection."""


@dataclass(slots=True)
class ServedCounts:
    """Counts of a stream that an output serves, which readers may read in any thread.

    - `stream`: its IRI.
    - `elements`: those published in this run.
    - `clients`: present readers that elements are pushed to, by resource, such as events.
    - `bytes`: those pushed, by resource.
    - `slow`: readers that were closed since they did not keep up, by resource.
    - `refusals`: requests that were refused, by status.
    """

    stream: str
    elements: int = 0
    clients: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    slow: Counter[str] = field(default_factory=Counter)
    refusals: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """Batches recorded in a checkpoint, numbered over all generations of its query.

    - `identity`: the ID of the checkpoint, unique among those of a pipeline.
    - `written`: the number of batches that are written to all sinks: the number of the next batch.
    - `planned`: `written`, or one more if a batch was planned that may be written to some sinks.
    - `last_written`: the number of the last written batch, as given by the user; None: not given.

    >>> BatchHistory("a1", written=7, planned=8).is_in_doubt
    True
    """

    identity: str
    written: int = 0
    planned: int = 0
    last_written: int | None = None

    @property
    def is_in_doubt(self) -> bool:
        """True if a batch may be written to some sinks, and not to others."""
        return self.planned > self.written
