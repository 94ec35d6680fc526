"""One incremental closure of several default windows of a query.

Idea: the default graph is the closure of all their contents (continuous.md, section 5). Windows of
time with equal closes begin at a constant distance from each other, so with the times of each
window moved by that distance, all begin together, and one closure holds the elements of all.

    RANGE 10 s STEP 2 s of one stream and RANGE 4 s STEP 2 s of another, at 20

        contents                      10 < time ≤ 20, and 16 < time ≤ 20
        the second's times less 6     10 < time ≤ 14

Invariant: after `move` the view holds the triples that all contents together entail. Where a
distance changes, the closure is built again.
Cost: the inserted and expired elements since the last report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.literal_limits import BOUNDS
from dotr.languages.continuous.evaluation.shared_closure import MaintainedWindow, SharedClosure, WindowChanges
from dotr.languages.continuous.evaluation.window_closure import WindowClosure, is_kept
from dotr.languages.continuous.model import ContinuousQuery, EntailmentLevel, RangeExtent
from dotr.languages.continuous.windows.content import WindowContent
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Triple
from dotr.model.time import Micros

if TYPE_CHECKING:
    from dotr.languages.continuous.evaluation.window_closures import SharedClosures


def are_joined(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> bool:
    """True for a query whose several default windows have one incremental closure.

    They are windows of time with one STEP, without STARTING AT or a lag, at the level GRAPH or
    WINDOW, and no rule has NOT or AGGREGATE.
    """
    extents = [window.extent for window in query.windows if window.name is None]
    levels = {window.block_level for window in query.windows if window.name is None}
    return (
        len(extents) > 1
        and levels <= {EntailmentLevel.GRAPH, EntailmentLevel.WINDOW}
        and is_kept(rules, EntailmentLevel.GRAPH)
        and all(isinstance(extent, RangeExtent) and not extent.lag and extent.start is None for extent in extents)
        and len({extent.step for extent in extents if isinstance(extent, RangeExtent)}) == 1
    )


class JoinedClosure(SharedClosure):
    """One closure of the contents of several windows; its only member represents all of them."""

    def __init__(self, registry: SharedClosures, contents: Sequence[WindowContent]) -> None:
        super().__init__(registry, None, EntailmentLevel.GRAPH, None)
        self._contents = contents
        self._distances: list[Micros] = []
        self._inserted: list[Micros | None] = []  # the time of the last inserted element of each content

    def move(self, member: MaintainedWindow, time: Micros) -> WindowChanges:
        """Advances to the contents at the time of a report."""
        begins = [content.begin_at(time) for content in self._contents]
        least = min(begins)
        distances = [begin - least for begin in begins]
        closure = self._closure
        is_new = closure is None or distances != self._distances
        try:
            if closure is None or is_new:
                closer = self.closer
                closure = self._closure = WindowClosure(self.level, closer.knowledge, closer.rules, closer.limit)
                self._distances, self._inserted = distances, [None] * len(begins)
                member.attach(closure.view())
            for number, (content, distance) in enumerate(zip(self._contents, distances, strict=True)):
                for element in content.later(self._inserted[number]):
                    closure.insert(element.time - distance, element.triples)
                    self._inserted[number] = element.time
            closure.advance(least)
            changes = member.view.advance(least)
        except LimitExceeded:
            BOUNDS.restart()
            self.forget()
            if is_new:
                raise
            return self.move(member, time)
        except BaseException:
            self.forget()
            raise
        member.is_initial = False
        began, renewed, ended = (cast("Sequence[Triple]", each) for each in (changes.began, changes.renewed, changes.ended))
        return WindowChanges(began, renewed, ended, is_new)
