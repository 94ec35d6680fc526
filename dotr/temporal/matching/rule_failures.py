"""Isolation of rules that fail or exceed a limit at an anchor.

Idea: a matcher changes state only after it has finished an anchor, so an anchor can be retried. If
many rules share a matcher, each is then evaluated by itself over the stored events.
Invariant: partial matches of a failing anchor are discarded; matches of earlier anchors remain.
Cost: none without a failure; otherwise proportional to the stored events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from dotr.errors.fallbacks import error_line
from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.temporal.matching.event_store import KeyIndex, PortStore
from dotr.temporal.matching.events import DelayOf, EnteringBinding, MatchBuffer, SearchStart, StoredEvent, anchor_of
from dotr.temporal.matching.matcher.candidates import AnchorLimitExceeded
from dotr.temporal.matching.matcher.compile import Matcher
from dotr.temporal.matching.rule_counts import GroupCounter
from dotr.temporal.matching.state import State


class RuleFailure(NamedTuple):
    """A rule (by its number in the layer), the anchor at which it failed twice, and the error."""

    rule: int
    anchor: StoredEvent
    error: str


class AnchorLimit(Enum):
    """A limit of a rule at an anchor: matches of a branch, candidates, or bytes of computed
    terms."""

    MATCHES = auto()
    PROBES = auto()
    TEXT = auto()


class LimitExcess(NamedTuple):
    """A rule (by its number in the layer), the anchor at which it exceeded a limit, the limit, and
    the clause's place (0: no clause)."""

    rule: int
    anchor: StoredEvent
    limit: AnchorLimit
    place: int = 0


class SingleRule(NamedTuple):
    """A rule compiled by itself: its number, the (port, index) of each clause, a factory of its
    ports' stores, the delay of its anchors, and the port of the firings that its `once`
    compares."""

    rule: int
    matcher: Matcher
    indexes: tuple[tuple[int, int], ...]
    stores: Callable[[], list[PortStore]]
    delay: DelayOf
    once: int | None = None


def match_exactly(
    matcher: Matcher, indexes: Sequence[KeyIndex], start: SearchStart, state: State, buffer: MatchBuffer, counter: GroupCounter
) -> Iterator[RuleFailure | LimitExcess]:
    """Adds the matches of an anchor or a binding rule by rule, with exact limits; yields excesses
    and failures. The counter has counted the anchor already."""
    anchor = anchor_of(start)
    for row in start.rows if isinstance(start, EnteringBinding) else matcher.rows:
        rule = row[0]
        assert isinstance(rule, int)
        failed = False
        while True:
            mark, exceeded_places = len(buffer.matches), set[int]()
            counted = counter.bindings
            BOUNDS.restart()
            try:
                matcher.compile_exact()(start, row, indexes, state.consumed, buffer.matches, buffer.base, exceeded_places, counter)
                if exceeded_places:
                    yield LimitExcess(rule, anchor, AnchorLimit.MATCHES, min(exceeded_places))
            except AnchorLimitExceeded as exceeded:
                del buffer.matches[mark:]
                counter.bindings = counted
                counter.forget(anchor, rule)
                yield LimitExcess(rule, anchor, AnchorLimit.PROBES, exceeded.place)
            except LimitExceeded:
                del buffer.matches[mark:]
                counter.bindings = counted
                counter.forget(anchor, rule)
                yield LimitExcess(rule, anchor, AnchorLimit.TEXT)
            except Exception as error:
                del buffer.matches[mark:]
                counter.bindings = counted
                counter.forget(anchor, rule)
                if not failed:
                    failed = True
                    continue
                yield RuleFailure(rule, anchor, error_line(error))
            break
        buffer.flush()
    BOUNDS.restart()


def isolate_rules(
    rules: Sequence[SingleRule], start: SearchStart, state: State, buffer: MatchBuffer, counter: GroupCounter, *, is_counted: bool
) -> Iterator[RuleFailure | LimitExcess]:
    """Evaluates an anchor or a binding at which a group fails for each rule by itself.
    `is_counted`: the counter of the group has counted the anchor already."""
    alive = {row[0] for row in start.rows} if isinstance(start, EnteringBinding) else None
    for single in rules:
        if alive is not None and single.rule not in alive:
            continue
        own_start = start._replace(rows=single.matcher.rows) if isinstance(start, EnteringBinding) else start
        stores = single.stores()
        time, _, values = anchor_of(start)
        now = time + (single.delay(time, values) or 0)
        for store, events in zip(stores, state.stores, strict=True):
            for event in events:
                if event[0] <= now:  # a store shared by several pages may have later events
                    store.add([event])
        indexes = [stores[port].indexes[index] for port, index in single.indexes]
        if single.once is not None:
            indexes += state.stores[single.once].indexes
        mark, own = len(buffer.matches), single.matcher.counter()
        BOUNDS.restart()
        try:
            single.matcher.find((own_start,), indexes, state.consumed, buffer.matches, buffer.base, own)
        except (AnchorLimitExceeded, LimitExceeded):
            del buffer.matches[mark:]
            own.forget(anchor_of(start))
            yield from match_exactly(single.matcher, indexes, own_start, state, buffer, own)
        except Exception as error:
            del buffer.matches[mark:]
            own.forget(anchor_of(start))
            yield RuleFailure(single.rule, anchor_of(start), error_line(error))
        counter.add_rule(single.rule, own, with_anchors=not is_counted)
        buffer.flush()
