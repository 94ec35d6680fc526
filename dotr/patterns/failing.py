"""A rule that fails at an anchor: tried once more, then named, while the others go on.

Idea: a matcher changes nothing that lasts before it is done with an anchor, so an anchor can be tried again as it is. Where many rules
run as one matcher, each is then tried for itself, over the events that the state holds.
Invariant: what a failing anchor has found so far counts for nothing; matches of the anchors before it stand.
Cost: nothing where nothing fails; else the state's events, for rules that run together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dotr.fallbacks import Kind, answered, described
from dotr.patterns.happened import Happened, Matched
from dotr.patterns.matcher import Matcher
from dotr.patterns.state import State
from dotr.patterns.store import PortStore


class Failure(NamedTuple):
    """A rule, by its number in the layer, the anchor that it failed at twice, and how."""

    rule: int
    anchor: Happened
    error: str


class Alone(NamedTuple):
    """A rule compiled for itself: its number, the indexes that it looks into as (port, index), and what makes its ports' stores."""

    rule: int
    matcher: Matcher
    indexes: tuple[tuple[int, int], ...]
    stores: Callable[[], list[PortStore]]


def recover(
    first: Exception,
    anchors: Sequence[Happened],
    remaining: Iterator[Happened],
    before: int,
    matched: list[Matched],
    attempt: Callable[[Iterator[Happened]], None],
    apart: Callable[[], Sequence[Alone]],
    rules: Sequence[int],
    state: State,
    base: int,
) -> list[Failure]:
    """After a matcher has failed at an anchor with the error `first`: that one again, then those that remain; `before` is how many matches
    there were."""
    failures: list[Failure] = []
    while True:
        failed = len(failures)
        left = list(remaining)
        anchor = anchors[len(anchors) - len(left) - 1]
        matched[before:] = [each for each in matched[before:] if each.bound[0] is not anchor]
        mark = len(matched)
        try:
            attempt(iter((anchor,)))
        except Exception as error:
            del matched[mark:]
            if len(rules) == 1:
                failures.append(Failure(rules[0], anchor, described(error)))
            else:
                failures += _each(apart(), anchor, matched, state, base)
        if len(failures) == failed:
            answered(first, Kind.RULES)
        anchors, remaining, before = left, iter(left), len(matched)
        try:
            attempt(remaining)
        except Exception as error:
            first = error
            continue
        return failures


def _each(apart: Sequence[Alone], anchor: Happened, matched: list[Matched], state: State, base: int) -> Iterator[Failure]:
    """The anchor with each rule for itself."""
    for alone in apart:
        stores = alone.stores()
        for store, kept in zip(stores, state.stores, strict=True):
            for event in kept:
                store.add([event])
        lanes = [stores[port].indexes[index] for port, index in alone.indexes]
        mark = len(matched)
        try:
            alone.matcher.find((anchor,), lanes, state.consumed, matched, base)
        except Exception as error:
            del matched[mark:]
            yield Failure(alone.rule, anchor, described(error))
