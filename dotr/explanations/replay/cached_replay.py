"""A replay that caches its instants for several questions.

Idea: the instants that have been read are cached up to a number of triples. A further pass over the
replay yields them from memory, then continues to read the stream. Beyond that number only the
latest instants are kept, for proofs, and a further pass reads the stream from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from dotr.explanations.replay.stream import RejectedElement, Replay, ReplayedInstant
from dotr.model.time import Micros

_MOST_TRIPLES: Final = 2_000_000
"""Maximum number of triples of the cached instants."""


class CachedReplay:
    """Cache of the instants of a replay.

    Args:
        replay: the replay.
        most: the maximum number of triples of the cached instants.

    Attributes:
        replay: the replay, which yields cached instants from memory.
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
        """The instant at a time in µs since 1970; None if there is none."""
        for each in reversed(self._kept):
            if each.time == time:
                return each
            if each.time < time:
                break
        found = next((each for each in self.replay.instants() if each.time >= time), None)
        return found if found is not None and found.time == time else None

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
