"""A replay that is read once for several questions.

Idea: the instants that were read are kept up to a number of triples; a question that starts again
takes them from memory and reads on from there. Beyond that number the latest ones are kept, for
their proofs, and a question that starts again reads the stream again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from dotr.explanations.replay import RejectedElement, Replay, ReplayedInstant
from dotr.model.time import Micros

_MOST_TRIPLES: Final = 2_000_000
"""Number of triples of the instants that are kept."""


class RememberedReplay:
    """Instants of a replay that have been read.

    Args:
        replay: the replay.
        most: the number of triples of the instants that are kept.

    Attributes:
        replay: the replay, whose instants come from memory where they are kept.
    """

    def __init__(self, replay: Replay, most: int = _MOST_TRIPLES) -> None:
        self._source = replay
        self._most = most
        self._kept: list[ReplayedInstant] = []
        self._triples = 0
        self._is_whole = True
        self._rest: Iterator[ReplayedInstant] | None = None
        self.replay = replace(replay, read=self._read)

    def instant(self, time: Micros) -> ReplayedInstant | None:
        """The instant at a time in µs; None where there is none."""
        for each in reversed(self._kept):
            if each.time == time:
                return each
            if each.time < time:
                break
        return next((each for each in self.replay.instants() if each.time >= time and each.time == time), None)

    def _read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        if not self._is_whole:
            yield from self._source.read(on_reject)
            return
        if self._rest is None:
            self._rest = self._source.read(on_reject)
        number = 0
        while True:
            while self._is_whole and number < len(self._kept):
                yield self._kept[number]
                number += 1
            instant = next(self._rest, None)
            if instant is None:
                return
            self._keep(instant)
            number += 1
            yield instant

    def _keep(self, instant: ReplayedInstant) -> None:
        self._kept.append(instant)
        self._triples += sum(map(len, instant.graphs))
        if self._triples > self._most and len(self._kept) > 1:
            self._is_whole = False
            del self._kept[: len(self._kept) // 2]
            self._triples = sum(len(graph) for each in self._kept for graph in each.graphs)
