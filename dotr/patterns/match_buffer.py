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

EmitMatches: TypeAlias = Callable[[list[Match]], None]
"""Takes matches that are not kept."""

FLUSH_SIZE: Final = 50_000
"""So many matches are handed on."""


class MatchBuffer:
    """The matches so far that were not handed on; of those that were, only composite events that rules of the layer read at this moment."""

    __slots__ = ("_collected", "_composite_labels", "_emit", "base", "events", "matches")

    def __init__(
        self, matches: list[Match], base: int, emit: EmitMatches | None, composite_labels: list[Label | None] | None = None
    ) -> None:
        self.matches = matches
        self.base = base
        self._emit = emit
        self._composite_labels = composite_labels
        self._collected = 0
        self.events: dict[Label, list[tuple[int, AttributeValues]]] = {}

    def flush(self) -> None:
        """Hands the matches on, if they are many."""
        if self._emit is not None and len(self.matches) >= FLUSH_SIZE:
            self.collect_events()
            self._collected = 0
            self.base += len(self.matches)
            self._emit(self.matches)
            self.matches.clear()

    def collect_events(self) -> None:
        """Keeps the events of matches since the last time."""
        if self._composite_labels is not None:
            for rule, ordinal, _, values in self.matches[self._collected :]:
                event = self._composite_labels[rule]
                if event is not None:
                    self.events.setdefault(event, []).append((ordinal, values))
            self._collected = len(self.matches)

    def until_full(self, anchors: Iterable[StoredEvent]) -> Iterable[StoredEvent]:
        """Anchors until there are many matches."""
        return anchors if self._emit is None else self._until_many(anchors)

    def _until_many(self, anchors: Iterable[StoredEvent]) -> Iterator[StoredEvent]:
        matches = self.matches
        for anchor in anchors:
            yield anchor
            if len(matches) >= FLUSH_SIZE:
                return
