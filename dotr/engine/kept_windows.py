"""Closures of the windows of a continuous query, kept from report to report (continuous.md, 11).

Idea: at a report, the elements that came into a content since the report before are inserted into a
closure by horizons, and the closure is moved to where the content now begins. A content is a range
of positions, so what came is a slice.
Invariant: after `said` the closure holds the content of the report, and nothing else.
Cost: what came and went since the report before (`dotr.horizons`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.datalog.background import Knowledge
from dotr.horizons.rules import FactChanges
from dotr.horizons.window_closure import WindowClosure, is_kept
from dotr.model.continuous import ContinuousQuery, ContinuousWindow, EntailmentLevel
from dotr.model.datalog import DatalogRule
from dotr.model.time import LAST_MICRO, Micros
from dotr.windows.content import ContentRange, WindowContent


class KeptWindow:
    """The closure of one window's content. It is not part of a checkpoint: a new one takes in the
    content again.
    """

    def __init__(self, level: EntailmentLevel, knowledge: Knowledge, rules: Sequence[DatalogRule], limit: int) -> None:
        self._level = level
        self._knowledge = knowledge
        self._rules = rules
        self._limit = limit
        self._closure: WindowClosure | None = None
        self.changes: FactChanges | None = None
        """Changes since the content before; None where that is not known."""
        self._taken = 0
        self._last: Micros = -LAST_MICRO

    def said(self, content: WindowContent, held: ContentRange) -> WindowClosure:
        """The closure, moved to a content at the positions `held`.

        Raises `LimitExceeded`; the next content is then closed anew.
        """
        is_new = self._closure is None
        if self._closure is None:
            self._closure = WindowClosure(self._level, self._knowledge, self._rules, self._limit)
            self._taken, self._last = 0, -LAST_MICRO
        closure, begin = self._closure, self._last
        if held.first < held.end:
            begin = content.time_at(held.first) - 1
            for time, triples in content.between(max(held.first, self._taken), held.end):
                closure.insert(time, triples)
                self._last = time
            self._taken = held.end
        try:
            changes = closure.advance(begin)
        except BaseException:
            self._closure = None
            raise
        self.changes = None if is_new else changes
        return closure


def closed_anew(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> list[ContinuousWindow]:
    """The windows of a query whose contents are closed anew at each report: rules with NOT or
    AGGREGATE, the level STREAM, and several default windows, which are closed together.
    """
    beside = sum(window.name is None for window in query.windows) > 1
    return [
        window
        for window in query.windows
        if not isinstance(window.block_level, EntailmentLevel)
        or not is_kept(rules, window.block_level)
        or (beside and window.name is None and window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW))
    ]


def keeps_default_graph(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> bool:
    """True where it is known from report to report what changes of the default graph: it is the
    background alone, or that and one window whose closure is kept.
    """
    windows = [window for window in query.windows if window.name is None]
    return not windows or (len(windows) == 1 and windows[0] not in closed_anew(query, rules))


def kept_windows(query: ContinuousQuery, knowledge: Knowledge, rules: Sequence[DatalogRule], limit: int) -> list[KeptWindow | None]:
    """New closures of the windows' contents, None for those that are closed anew."""
    anew = closed_anew(query, rules)
    return [
        KeptWindow(window.block_level, knowledge, rules, limit)
        if isinstance(window.block_level, EntailmentLevel) and window not in anew
        else None
        for window in query.windows
    ]
