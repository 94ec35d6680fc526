"""Division of the state of a LARS file over buckets, and its union, where their number changes.

Idea: an atom belongs to the bucket of the term at its predicate's key (`dotr.languages.lars.keys`).
This holds for atoms in windows, runs, counted pairs, and input whose point is not evaluated yet.
The times of points are copied to every bucket, and a union has those of all. A bucket may also have
atoms of other keys that an earlier division has left there; these are dropped.
Example: of `Hot(?x) :- :temp(?x, ?v) IN [4 s] .` each triple of :temp belongs to the bucket of its
subject.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from dotr.engine.state.units import UnitSnapshot
from dotr.engine.unit_runs import UnitContext
from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.keys import lars_key
from dotr.languages.lars.lars_spread import EventReads, keyed_by_object
from dotr.languages.lars.model import ClassName, EventName, LarsFile, OwnRelation, PropertyName
from dotr.languages.lars.run import LarsRun
from dotr.model.terms import RDF_TYPE, Term
from dotr.temporal.layout.keys import bucket
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError

IsOwn: TypeAlias = Callable[[Term | None], bool]
"""True for a key of a part."""


class LarsDivision:
    """Divides the states of one LARS file."""

    def __init__(self, file: LarsFile, events: EventReads, context: UnitContext) -> None:
        key = lars_key(file)
        self._objects: Final = keyed_by_object(key)
        self._places: Final = key.places
        closure = LarsRun(file, events, context).closure
        self._logs: Final = closure.log_rows
        self._runs: Final = {rows.name: rows for rows in closure.rules.runs}
        self._counted: Final = [feed.count.label for feed in closure.rules.counts]
        self._relations: Final = {name: meaning.rows for name, meaning in closure.rules.meanings.items()}

    def divided(self, state: UnitSnapshot, buckets: int, bucket_before: tuple[int, int] | None) -> Sequence[UnitSnapshot]:
        """The parts of a state by bucket.

        Args:
            state: that of the whole file, or of a bucket.
            buckets: the number of parts.
            bucket_before: the old bucket and the old number of buckets; None for a whole file.

        Raises:
            StateError: the state is of another form.
        """

        def part(number: int) -> UnitSnapshot:
            def is_own(key: Term | None) -> bool:
                was_own = bucket_before is None or bucket(key, bucket_before[1]) == bucket_before[0]
                return was_own and bucket(key, buckets) == number

            return self._part(state, is_own)

        try:
            return [part(number) for number in range(buckets)]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"it cannot be read ({error})") from error

    def _part(self, state: UnitSnapshot, is_own: IsOwn) -> UnitSnapshot:
        first, last, passed, point, triples, events, closure = json.loads(state.rest)
        triples = [[time, triple] for time, triple in triples if is_own(self._key_of_triple(triple))]
        of_labels = [
            [label, [[time, event] for time, event in found if is_own(self._key_of_event(label, event))]] for label, found in events
        ]
        waiting = [[label, found] for label, found in of_labels if found]
        if not triples and not waiting:
            point = None
        runs = {
            name: [at, [row for row in rows if self._is_own_row(self._runs[name], row[1:], is_own)]]
            for name, (at, rows) in closure["runs"].items()
        }
        counts = [
            [pair for pair in pairs if is_own(self._key_of_triple(pair[1:]) if label is None else self._key_of_event(label, pair[1:]))]
            for label, pairs in zip(self._counted, closure["counts"], strict=True)
        ]
        inserted = {
            name: [
                [start, horizon, [row for row in rows if self._is_own_insert(name, row, is_own)]] for start, horizon, rows in of_relation
            ]
            for name, of_relation in closure["inserted"].items()
        }
        logs = [
            [entry for entry in log if self._is_own_row(rows, entry[2], is_own)]
            for rows, log in zip(self._logs, state.entries, strict=True)
        ]
        rest = [first, last, passed, point, triples, waiting, {**closure, "runs": runs, "counts": counts, "inserted": inserted}]
        return UnitSnapshot(json.dumps(rest), logs)

    def _is_own_insert(self, relation: str, row: Sequence[Term], is_own: IsOwn) -> bool:
        return relation not in self._relations or self._is_own_row(self._relations[relation], row, is_own)

    def _is_own_row(self, rows: AtomRows, row: Sequence[Term | None], is_own: IsOwn) -> bool:
        """True for the row of an atom of the part's keys, or of a predicate without a key; a time
        may follow the atom's terms."""
        match rows.predicate:
            case PropertyName(None):
                return is_own(self._key_of_triple(row))
            case PropertyName(str(iri)):
                return is_own(row[1] if iri in self._objects else row[0])
            case ClassName():
                return is_own(row[0])
            case OwnRelation() as relation:
                place = self._places.get(relation)
                return not isinstance(place, int) or is_own(row[place])
            case EventName() as event:
                place = self._places.get(event)
                return place not in rows.names or is_own(row[rows.names.index(str(place))])
            case _:
                return True

    def _key_of_triple(self, triple: Sequence[Term | None]) -> Term | None:
        subject, predicate, obj = triple
        return obj if predicate in self._objects and predicate != RDF_TYPE else subject

    def _key_of_event(self, label: str, event: Sequence[Term]) -> Term | None:
        """The key of an event, which lists each name before its term."""
        place = self._places.get(EventName(label))
        names = list(event[::2])
        return event[2 * names.index(str(place)) + 1] if place in names else None


def united_lars(parts: Sequence[UnitSnapshot]) -> UnitSnapshot:
    """The state of a bucket of a file, united from its parts, which have different keys. A part at
    an earlier point than another has not changed since that point."""
    rests = [json.loads(part.rest) for part in parts]
    first = min((rest[0] for rest in rests if rest[0] is not None), default=None)
    last, passed, point = (max((rest[place] for rest in rests if rest[place] is not None), default=None) for place in (1, 2, 3))
    events: dict[str, list[Any]] = {}
    for rest in rests:
        for label, found in rest[5]:
            events.setdefault(label, []).extend(found)
    triples = [triple for rest in rests for triple in rest[4]]
    closure = _united_closure([rest[6] for rest in rests])
    logs = [
        _numbered(sorted((entry for part in parts for entry in part.entries[log]), key=itemgetter(0)))
        for log in range(len(parts[0].entries))
    ]
    return UnitSnapshot(json.dumps([first, last, passed, point, triples, sorted(events.items()), closure]), logs)


def _numbered(log: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The entries of a log in order of time, numbered at each time."""
    found: list[StoredEvent] = []
    for time, _, values in log:
        number = found[-1][1] + 1 if found and found[-1][0] == time else 0
        found.append((time, number, values))
    return found


def _united_closure(closures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def latest(name: str) -> int | None:
        return max((each[name] for each in closures if each[name] is not None), default=None)

    inserted: dict[str, dict[tuple[int, int], dict[tuple[Term, ...], None]]] = {}
    for each in closures:
        for relation, of_relation in each["inserted"].items():
            for start, horizon, rows in of_relation:
                inserted.setdefault(relation, {}).setdefault((start, horizon), {}).update(dict.fromkeys(map(tuple, rows)))
    runs: dict[str, list[Any]] = {}
    for name in closures[0]["runs"]:
        at = max((each["runs"][name][0] for each in closures if each["runs"][name][0] is not None), default=None)
        runs[name] = [at, [row for each in closures if each["runs"][name][0] == at for row in each["runs"][name][1]]]
    return {
        "first": min((each["first"] for each in closures if each["first"] is not None), default=None),
        "point": latest("point"),
        "inserted": {
            relation: [[*when, sorted(rows)] for when, rows in sorted(of_relation.items())] for relation, of_relation in inserted.items()
        },
        "runs": runs,
        "counts": [[pair for each in closures for pair in each["counts"][number]] for number in range(len(closures[0]["counts"]))],
        "reached": sorted({point for each in closures for point in each["reached"]}),
        "last_with_atoms": latest("last_with_atoms"),
    }
