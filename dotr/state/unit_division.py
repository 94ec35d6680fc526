"""Division of the state of an EP-SPARQL unit over buckets, where it was that of one partition.

Example: the unit `{ ?c :price ?p } SEQ { ?c :price ?q }` keeps the solutions of its left operand;
each goes to the bucket of its ?c.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dotr.joins.limits import Limits
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.keys import bucket
from dotr.layout.unit_spread import unit_key_names
from dotr.model.time import Clock
from dotr.patterns.events import StoredEvent
from dotr.patterns.intervals.tree import PatternTree
from dotr.patterns.state import StateError
from dotr.state.unit_state import UnitSnapshot


def divided(unit: IntervalUnit, state: UnitSnapshot, clock: Clock, limits: Limits, buckets: int) -> Sequence[UnitSnapshot]:
    """The parts of the state of a whole unit that has a key, by bucket.

    Args:
        unit: the unit, whose run wrote the state.
        state: the rest and the logs, as `IntervalRun` writes them.
        clock: the form of times in terms.
        limits: those of the program.
        buckets: the number of buckets.

    Raises:
        StateError: the state is of another form.
    """
    keys, query = unit_key_names(unit), unit.query
    assert query.where is not None, "a unit with a key has operands"
    tree = PatternTree(query.where, query.policy, clock, limits)
    places = tree.places_of_keys(keys)
    # The logs are those of the stores that have one; the rest lists the solutions of the others.
    of_logs = [place for place, store in zip(places, tree.stores, strict=True) if store.log is not None]
    try:
        kept = json.loads(state.rest)
        return [
            UnitSnapshot(
                json.dumps(
                    [
                        [each for each in solutions if bucket(each[2][place], buckets) == number]
                        for place, solutions in zip(places, kept, strict=True)
                    ]
                ),
                [_own(log, 1 + place, number, buckets) for place, log in zip(of_logs, state.entries, strict=True)],
            )
            for number in range(buckets)
        ]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def _own(log: Sequence[StoredEvent], place: int, number: int, buckets: int) -> list[StoredEvent]:
    """The entries of a log whose key, at a place of their rows, is one of a bucket's."""
    return [entry for entry in log if bucket(entry.values[place], buckets) == number]
