"""The matches of a moment on their way out: handed on whenever there are many, so that a moment's matches are never all in memory.

Invariant: matches are handed on between two anchors, or between two rules at one anchor, never in the middle of a rule's: so what a rule
has found of an anchor can still be taken back. Ordinals go on where those handed on have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from dotr.layout.event_order import AttributeValues
from dotr.model.terms import Label
from dotr.patterns.events import Match, StoredEvent

TakeMatches: TypeAlias = Callable[[list[Match]], None]
"""Takes matches that are not kept."""

MANY: Final = 50_000
"""So many matches are handed on."""


class MatchBuffer:
    """The matches so far that were not handed on; of those that were, only composite events that rules of the layer read at this moment."""

    __slots__ = ("_made", "_noted", "_take", "base", "events", "matched")

    def __init__(self, matched: list[Match], base: int, take: TakeMatches | None, made: list[Label | None] | None = None) -> None:
        self.matched = matched
        self.base = base
        self._take = take
        self._made = made
        self._noted = 0
        self.events: dict[Label, list[tuple[int, AttributeValues]]] = {}

    def flush(self) -> None:
        """Hands the matches on, if they are many."""
        if self._take is not None and len(self.matched) >= MANY:
            self.note()
            self._noted = 0
            self.base += len(self.matched)
            self._take(self.matched)
            self.matched.clear()

    def note(self) -> None:
        """Keeps the events of matches since the last time."""
        if self._made is not None:
            for rule, ordinal, _, values in self.matched[self._noted :]:
                event = self._made[rule]
                if event is not None:
                    self.events.setdefault(event, []).append((ordinal, values))
            self._noted = len(self.matched)

    def some(self, anchors: Iterable[StoredEvent]) -> Iterable[StoredEvent]:
        """Anchors until there are many matches."""
        return anchors if self._take is None else self._until_many(anchors)

    def _until_many(self, anchors: Iterable[StoredEvent]) -> Iterator[StoredEvent]:
        matched = self.matched
        for anchor in anchors:
            yield anchor
            if len(matched) >= MANY:
                return
