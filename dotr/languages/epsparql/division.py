"""Division of the state of an EP-SPARQL unit over buckets, and its union.

Example: the unit `{ ?c :price ?p } SEQ { ?c :price ?q }` stores the solutions of its left operand;
each belongs to the bucket of its ?c.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter

from dotr.engine.state.units import UnitSnapshot
from dotr.evaluation.limits import Limits
from dotr.languages.epsparql.interval_keys import LinkedQuery, interval_key_names
from dotr.model.time import Clock
from dotr.temporal.intervals.tree import PatternTree
from dotr.temporal.layout.keys import bucket
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError


def united_intervals(parts: Sequence[UnitSnapshot]) -> UnitSnapshot:
    """The state of a bucket of an EP-SPARQL unit, united from its parts, which have different keys.

    >>> one = UnitSnapshot('[[[5,1,["<a>"]]]]', [[(5, 0, ("1", "<a>"))]])
    >>> other = UnitSnapshot('[[[4,1,["<b>"]]]]', [[(4, 0, ("1", "<b>"))]])
    >>> united_intervals([one, other]).rest
    '[[[5, 1, ["<a>"]], [4, 1, ["<b>"]]]]'
    >>> [time for time, _, _ in united_intervals([one, other]).entries[0]]
    [4, 5]
    """
    rests = zip(*[json.loads(part.rest) for part in parts], strict=True)
    logs = zip(*[part.entries for part in parts], strict=True)
    return UnitSnapshot(
        json.dumps([[solution for part in of_store for solution in part] for of_store in rests]),
        [sorted([entry for part in of_log for entry in part], key=itemgetter(0)) for of_log in logs],
    )


def divided_intervals(unit: LinkedQuery, state: UnitSnapshot, clock: Clock, limits: Limits, buckets: int) -> Sequence[UnitSnapshot]:
    """The parts of the state of a whole EP-SPARQL unit that has a key, by bucket.

    Args:
        unit: the unit, whose run wrote the state.
        state: the rest and the logs, as `IntervalRun` writes them.
        clock: the form of times in terms.
        limits: those of the program.
        buckets: the number of buckets.

    Raises:
        StateError: the state is of another form.
    """
    keys, query = interval_key_names(unit), unit.query
    assert query.where is not None, "a unit with a key has operands"
    tree = PatternTree(query.where, query.policy, clock, limits)
    places = tree.places_of_keys(keys)
    # The logs are those of the stores that have one; the rest lists the solutions of the others.
    of_logs = [place for place, store in zip(places, tree.stores, strict=True) if store.log is not None]
    try:
        stored = json.loads(state.rest)
        return [
            UnitSnapshot(
                json.dumps(
                    [
                        [each for each in solutions if bucket(each[2][place], buckets) == number]
                        for place, solutions in zip(places, stored, strict=True)
                    ]
                ),
                [_own(log, 1 + place, number, buckets) for place, log in zip(of_logs, state.entries, strict=True)],
            )
            for number in range(buckets)
        ]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def _own(log: Sequence[StoredEvent], place: int, number: int, buckets: int) -> list[StoredEvent]:
    """The entries of a log whose key, at a position of their rows, belongs to a bucket."""
    return [entry for entry in log if bucket(entry[2][place], buckets) == number]
