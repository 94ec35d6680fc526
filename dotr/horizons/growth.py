"""V(X | Y) over a closure that holds X and Y: what X says (continuous.md, section 5).

Idea: beginning with X, each fact said is joined with all that the closure knows; so a conclusion
has a premise that is said. Horizons as in the closure: the least of a derivation's premises, the
greatest of all derivations.

    known: (a, b) until 3, (b, c) until 9, "in" transitive      X: (b, c), for ever

        said: (b, c) for ever, (a, c) until 3

Invariant: nothing is changed in the closure, and nothing that it learns later changes the result.
Cost: the derivations with a premise that is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop

from dotr.horizons.facts import NOW
from dotr.horizons.routes import JoinPart, RuleRoutes
from dotr.horizons.rules import NEVER, Point, WindowFact
from dotr.horizons.waiting import WaitingFacts, list_of
from dotr.joins.limits import LimitExceeded


def grown(rules: RuleRoutes, facts: Iterable[WindowFact], h: Point, beyond: Point, limit: int) -> dict[WindowFact, Point]:
    """V of some facts, each fact with its horizon.

    Args:
        rules: those of the closure, without NOT.
        facts: held by the closure; `h` is their horizon here.
        beyond: premises with this horizon or a lesser one are not known.
        limit: the greatest number of facts said.

    Raises:
        LimitExceeded: more is said.
    """
    heap: list[Point] = []
    waiting = WaitingFacts(heap)
    waiting.paths = paths = WaitingFacts(heap)
    said: dict[WindowFact, Point] = {}
    steps: dict[WindowFact, Point] = {}  # horizons of facts as steps of transitive properties
    waiting.extend(h, facts)
    while heap:
        horizon = -heappop(heap)
        while True:
            if horizon in waiting:
                some, step = list_of(waiting.pop(horizon)), horizon
            elif horizon in paths:
                some, step = list_of(paths.pop(horizon)), NEVER
            else:
                break
            new: dict[str, list[WindowFact]] = {}
            for fact in some:
                if fact not in said:
                    said[fact] = horizon
                    new.setdefault(fact[-2], []).append(fact)
                elif step > steps[fact]:  # known as a path of the same horizon or a greater one
                    rules.run(fact[-2], (fact,), horizon, max(steps[fact], beyond), NOW, beyond + 1, waiting, JoinPart.FIRSTS)
                else:
                    continue
                steps[fact] = step
            part = JoinPart.OTHERS if step == NEVER else JoinPart.ALL
            for name, group in new.items():
                rules.run(name, group, horizon, beyond, NOW, beyond + 1, waiting, part)
            if len(said) > limit:
                raise LimitExceeded(limit)
    return said
