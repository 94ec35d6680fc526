"""Sinks of outputs that are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from dotr.model.stream import DeadLetter, Firing
from dotr.streams.connectors.serve.kept import NewElement
from dotr.streams.connectors.serve.stream import PublishedStream
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.messages import NumberedFiring


class ServedEvents:
    """A published stream as a `RunSink`: an instant is served once it is whole, which the run tells
    by `end_instant`. The stream is ended by the run."""

    def __init__(self, stream: PublishedStream) -> None:
        self._stream = stream
        self._encode = partial(_elements, stream.terms.body_writer(StreamFormat.NDJSON))
        self._instant: list[NumberedFiring] = []

    def write_items(self, items: Sequence[NumberedFiring]) -> None:
        """Add firings, in the order of the output."""
        self._instant += items

    def end_instant(self) -> None:
        """Serve the instant."""
        if self._instant:
            instant, self._instant = self._instant, []
            self._stream.hold(instant, self._encode)

    def flush(self) -> None:
        """Append all instants that are whole; raises `WriteFailed` where the server has ended."""
        if not self._stream.is_served:
            raise WriteFailed(f"the server of {self._stream.base} has ended")
        self._stream.catch_up()

    def mark(self) -> int | None:
        """The number of firings that wait for their instant to be whole."""
        return len(self._instant)

    def truncate(self, mark: int, /) -> None:
        """Withdraw firings behind a mark, none of which has been served."""
        del self._instant[mark:]

    def discard(self) -> None:
        """Does nothing: whoever opened the server closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        if error is None:
            self.end_instant()
            self.flush()


class ServedBatches:
    """A published stream as a `BatchSink`: a batch is served once it is in the files beside the
    checkpoint. `terms` are those of the output."""

    def __init__(self, stream: PublishedStream, terms: OutputTerms) -> None:
        self._stream = stream
        self._write = terms.body_writer(StreamFormat.NDJSON)

    def open(self, check: Check) -> int | None:
        """The last batch in the files that has an element."""
        return self._stream.kept.last_batch

    def write_batch(self, number: int, blocks: Iterable[Sequence[NumberedFiring]], check: Check) -> Sequence[DeadLetter]:
        """Store and serve the elements of a batch that is not in the files yet."""
        self._stream.publish_batch(number, (_elements(self._write, items) for items in blocks))
        return ()

    def close(self) -> None:
        """Does nothing: whoever opened the server closes it."""


def _elements(write: Callable[[Sequence[Firing]], list[bytes]], items: Sequence[NumberedFiring]) -> list[NewElement]:
    lines = write([firing for firing, _ in items])
    return [NewElement(firing.time, ordinal, firing.event, line) for (firing, ordinal), line in zip(items, lines, strict=True)]
