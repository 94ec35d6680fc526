"""A rule that fails at an anchor, or goes over a limit: tried once more, then named, while the others go on.

Idea: a matcher changes nothing that lasts before it is done with an anchor, so an anchor can be tried again as it is. Where many rules
run as one matcher, each is then tried for itself, over the events that the state holds.
Invariant: what a failing anchor has found so far counts for nothing; matches of the anchors before it stand.
Cost: nothing where nothing fails; else the state's events, for rules that run together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dotr.errors.fallbacks import error_line
from dotr.patterns.event_store import KeyIndex, PortStore
from dotr.patterns.events import StoredEvent
from dotr.patterns.match_buffer import MatchBuffer
from dotr.patterns.matcher.candidates import AnchorLimitExceeded
from dotr.patterns.matcher.compile import Matcher
from dotr.patterns.state import State


class RuleFailure(NamedTuple):
    """A rule, by its number in the layer, the anchor that it failed at twice, and how."""

    rule: int
    anchor: StoredEvent
    error: str


class LimitExcess(NamedTuple):
    """A rule, by its number in the layer, the anchor at which it went over a limit, and the place of the clause; `probes` tells the limit
    on candidates from that on the matches of a branch."""

    rule: int
    anchor: StoredEvent
    place: int
    probes: bool


class SingleRule(NamedTuple):
    """A rule compiled for itself: its number, the indexes that it looks into as (port, index), and what makes its ports' stores."""

    rule: int
    matcher: Matcher
    indexes: tuple[tuple[int, int], ...]
    stores: Callable[[], list[PortStore]]


def match_exactly(
    matcher: Matcher, indexes: Sequence[KeyIndex], anchor: StoredEvent, state: State, buffer: MatchBuffer
) -> Iterator[RuleFailure | LimitExcess]:
    """The matches of an anchor, which may be many, of each rule for itself; which rules go over a limit there, and which fail."""
    for row in matcher.rows:
        rule = row[0]
        assert isinstance(rule, int)
        failed = False
        while True:
            mark, exceeded_places = len(buffer.matches), set[int]()
            try:
                matcher.compile_exact()(anchor, row, indexes, state.consumed, buffer.matches, buffer.base, exceeded_places)
                if exceeded_places:
                    yield LimitExcess(rule, anchor, min(exceeded_places), probes=False)
            except AnchorLimitExceeded as exceeded:
                del buffer.matches[mark:]
                yield LimitExcess(rule, anchor, exceeded.place, probes=True)
            except Exception as error:
                del buffer.matches[mark:]
                if not failed:
                    failed = True
                    continue
                yield RuleFailure(rule, anchor, error_line(error))
            break
        buffer.flush()


def isolate_rules(
    rules: Sequence[SingleRule], anchor: StoredEvent, state: State, buffer: MatchBuffer
) -> Iterator[RuleFailure | LimitExcess]:
    """An anchor at which rules fail together, with each rule for itself."""
    for single in rules:
        stores = single.stores()
        for store, events in zip(stores, state.stores, strict=True):
            for event in events:
                store.add([event])
        indexes = [stores[port].indexes[index] for port, index in single.indexes]
        mark = len(buffer.matches)
        try:
            single.matcher.find((anchor,), indexes, state.consumed, buffer.matches, buffer.base)
        except AnchorLimitExceeded:
            del buffer.matches[mark:]
            yield from match_exactly(single.matcher, indexes, anchor, state, buffer)
        except Exception as error:
            del buffer.matches[mark:]
            yield RuleFailure(single.rule, anchor, error_line(error))
        buffer.flush()
