"""V(X | Y), the facts that X entails given Y (continuous.md, section 5), over a closure that holds
X and Y.

Idea: semi-naive evaluation from X: each fact of V is joined with all facts of the closure, so every
conclusion has a premise in V. Horizons as in the closure: the minimum over the premises of a
derivation, the maximum over derivations.

    closure: (a, b) until 3, (b, c) until 9, "in" transitive      X: (b, c), for ever

        V: (b, c) for ever, (a, c) until 3

Invariant: the closure is not changed, and the result does not change with it later.
Cost: the derivations with a premise in V.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop

from dotr.evaluation.limits import LimitExceeded
from dotr.temporal.horizons.facts import NOW
from dotr.temporal.horizons.queues import HorizonQueue, list_of
from dotr.temporal.horizons.routes import JoinPart, RuleRoutes
from dotr.temporal.horizons.rules import NEVER, Point, WindowFact


def grown(rules: RuleRoutes, facts: Iterable[WindowFact], h: Point, beyond: Point, limit: int) -> dict[WindowFact, Point]:
    """The facts that some facts entail (V), each with its horizon.

    Args:
        rules: those of the closure, without NOT.
        facts: held by the closure; `h` is their horizon here.
        beyond: premises with this horizon or a lesser one are ignored.
        limit: the greatest number of facts of V.

    Raises:
        LimitExceeded: V has more facts.
    """
    heap: list[Point] = []
    queue = HorizonQueue(heap)
    queue.paths = paths = HorizonQueue(heap)
    entailed: dict[WindowFact, Point] = {}
    steps: dict[WindowFact, Point] = {}  # horizons of facts as steps of transitive properties
    queue.extend(h, facts)
    while heap:
        horizon = -heappop(heap)
        while True:
            if horizon in queue:
                some, step = list_of(queue.pop(horizon)), horizon
            elif horizon in paths:
                some, step = list_of(paths.pop(horizon)), NEVER
            else:
                break
            new: dict[str, list[WindowFact]] = {}
            for fact in some:
                if fact not in entailed:
                    entailed[fact] = horizon
                    new.setdefault(fact[-2], []).append(fact)
                elif step > steps[fact]:  # entailed before as a path, with the same horizon or a greater one
                    rules.run(fact[-2], (fact,), horizon, max(steps[fact], beyond), NOW, beyond + 1, queue, JoinPart.FIRSTS)
                else:
                    continue
                steps[fact] = step
            part = JoinPart.OTHERS if step == NEVER else JoinPart.ALL
            for name, group in new.items():
                rules.run(name, group, horizon, beyond, NOW, beyond + 1, queue, part)
            if len(entailed) > limit:
                raise LimitExceeded(limit)
    return entailed
