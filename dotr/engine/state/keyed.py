"""Parts of a unit's state by key: their division over buckets, and their union, where the number of
buckets changes.

Idea: a run says which rows of its state have a key, and at which position, and what is the same in
every bucket (`dotr.engine.unit_runs.UnitRun.keyed_state`). A row belongs to the bucket of its key,
all else is copied to every bucket. A union has the rows of all parts. So the code of a language
neither divides nor unites.
Example: of the state `[9, [["<a>", 1], ["<b>", 2]]]` with the parts `Common(max)` and
`KeyedRows(itemgetter(0))`, the part of the bucket of <b> is `[9, [["<b>", 2]]]`.
Invariant: the union of the parts of a state is the state, up to the order of its rows.
Cost: linear in the state; each key is hashed once for each division.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import TypeAlias, TypeVar

from dotr.engine.state.units import UnitSnapshot
from dotr.model import dataclass
from dotr.model.terms import Term
from dotr.temporal.layout.keys import bucket
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError

Each = TypeVar("Each")

RowKey: TypeAlias = Callable[[Sequence[object]], object]
"""The key of a row: a term, or None, which belongs to bucket 0."""

IsOwn: TypeAlias = Callable[[object], bool]
"""True for a key of a part."""


class StatePart(ABC):
    """A value of the JSON of a state. Its methods raise `TypeError` or `ValueError` for a value of
    another form."""

    @abstractmethod
    def own(self, value: object, is_own: IsOwn) -> object:
        """The value in the bucket whose keys `is_own` passes."""

    @abstractmethod
    def united(self, values: Sequence[object]) -> object:
        """The value of the union of parts, at least one, with different keys."""


@dataclass(frozen=True, slots=True)
class Common(StatePart):
    """A value that is the same in every bucket. `choose`: for a number in which buckets may differ,
    the choice among those that are not None; None: buckets do not differ.

    >>> Common(max).united([3, None, 5]), Common(max).united([None]), Common().united([["a"], ["a"]])
    (5, None, ['a'])
    """

    choose: Callable[[Sequence[int]], int] | None = None

    def own(self, value: object, is_own: IsOwn) -> object:
        return value

    def united(self, values: Sequence[object]) -> object:
        if self.choose is None:
            return values[0]
        known = [value for value in values if isinstance(value, int)]
        return self.choose(known) if known else None


@dataclass(frozen=True, slots=True)
class CommonRows(StatePart):
    """Rows without a key: buckets may have different ones.

    >>> CommonRows().united([[["a", 1], ["b", 2]], [["b", 2], ["c", 3]]])
    [['a', 1], ['b', 2], ['c', 3]]
    """

    def own(self, value: object, is_own: IsOwn) -> object:
        return value

    def united(self, values: Sequence[object]) -> object:
        return list({json.dumps(row): row for value in values for row in _listed(value)}.values())


@dataclass(frozen=True, slots=True)
class KeyedRows(StatePart):
    """Rows with a key. `nested`: the position in each row of the list to which the key belongs;
    None: the row itself.

    >>> KeyedRows(itemgetter(0), nested=1).own([[4, ["<a>"]], [5, ["<b>"]]], lambda key: key == "<b>")
    [[5, ['<b>']]]
    """

    key: RowKey
    nested: int | None = None

    def own(self, value: object, is_own: IsOwn) -> object:
        key, nested = self.key, self.nested
        if nested is None:
            return [row for row in _listed(value) if is_own(key(_listed(row)))]
        return [row for row in _listed(value) if is_own(key(_listed(_listed(row)[nested])))]

    def united(self, values: Sequence[object]) -> object:
        return [row for value in values for row in _listed(value)]


@dataclass(frozen=True, slots=True)
class RowsAt(StatePart):
    """A list of a number and the rows as of it, such as those of the last point. Rows of an earlier
    number are out of date.

    >>> RowsAt(KeyedRows(itemgetter(0))).united([[4, [["a"]]], [3, [["b"]]], [4, [["c"]]]])
    [4, [['a'], ['c']]]
    """

    rows: StatePart

    def own(self, value: object, is_own: IsOwn) -> object:
        at, rows = _listed(value)
        return [at, self.rows.own(rows, is_own)]

    def united(self, values: Sequence[object]) -> object:
        pairs = [_listed(value) for value in values]
        last = Common(max).united([at for at, _ in pairs])
        return [last, self.rows.united([rows for at, rows in pairs if at == last])]


@dataclass(frozen=True, slots=True)
class Fields(StatePart):
    """A list with a part for each of its values. `further`: the last ones may be missing."""

    parts: Sequence[StatePart]
    further: int = 0

    def own(self, value: object, is_own: IsOwn) -> object:
        return [part.own(each, is_own) for part, each in self._paired(_listed(value))]

    def united(self, values: Sequence[object]) -> object:
        columns = list(zip(*map(_listed, values), strict=True))
        return [part.united(column) for part, column in self._paired(columns)]

    def _paired(self, values: Sequence[Each]) -> Iterator[tuple[StatePart, Each]]:
        return zip(self.parts[: max(len(values), len(self.parts) - self.further)], values, strict=True)


@dataclass(frozen=True, slots=True)
class ByName(StatePart):
    """A dictionary whose values are the parts of their names. A name that a bucket lacks has no
    rows there."""

    part_of: Callable[[str], StatePart]

    def own(self, value: object, is_own: IsOwn) -> object:
        return {name: self.part_of(name).own(each, is_own) for name, each in _named(value).items()}

    def united(self, values: Sequence[object]) -> object:
        found: dict[str, list[object]] = {}
        for value in values:
            for name, each in _named(value).items():
                found.setdefault(name, []).append(each)
        return {name: self.part_of(name).united(each) for name, each in found.items()}


@dataclass(frozen=True, slots=True)
class RowGroups(StatePart):
    """Lists that end with rows, each after the values that name it; groups without rows are
    dropped. `rows_of`: the part of the rows with a name.

    >>> groups = RowGroups(lambda name: KeyedRows(itemgetter(0)))
    >>> groups.united([[["p", 1, [["a"]]]], [["p", 1, [["b"]]], ["p", 2, [["c"]]]]])
    [['p', 1, [['a'], ['b']]], ['p', 2, [['c']]]]
    """

    rows_of: Callable[[Sequence[object]], StatePart]

    def own(self, value: object, is_own: IsOwn) -> object:
        groups = [(name, self.rows_of(name).own(rows, is_own)) for *name, rows in map(_listed, _listed(value))]
        return [[*name, rows] for name, rows in groups if rows]

    def united(self, values: Sequence[object]) -> object:
        found: dict[tuple[object, ...], list[object]] = {}
        for value in values:
            for *name, rows in map(_listed, _listed(value)):
                found.setdefault(tuple(name), []).append(rows)
        return [[*name, self.rows_of(name).united(rows)] for name, rows in found.items()]


class LogPart(ABC):
    """The entries of a log."""

    @abstractmethod
    def own(self, entries: Sequence[StoredEvent], is_own: IsOwn) -> Sequence[StoredEvent]:
        """The entries in the bucket whose keys `is_own` passes."""

    @abstractmethod
    def united(self, logs: Sequence[Sequence[StoredEvent]]) -> Sequence[StoredEvent]:
        """The entries of the union of parts with different keys."""


@dataclass(frozen=True, slots=True)
class KeyedLog(LogPart):
    """A log whose entries are rows with a key (None: they have none, and every bucket has all)."""

    key: RowKey | None

    def own(self, entries: Sequence[StoredEvent], is_own: IsOwn) -> Sequence[StoredEvent]:
        key = self.key
        return entries if key is None else [entry for entry in entries if is_own(key(entry[2]))]

    def united(self, logs: Sequence[Sequence[StoredEvent]]) -> Sequence[StoredEvent]:
        return logs[0] if self.key is None else sorted([entry for log in logs for entry in log], key=itemgetter(0))


@dataclass(frozen=True, slots=True)
class SharedLog(LogPart):
    """A log that has the same entries in every bucket, each with the rows of the bucket's keys: a
    value that is the same everywhere, then the terms of the rows, `width` for each, the first of
    which is the key. An entry without that value is whole in every bucket.

    >>> SharedLog(2).own([(5, 0, ("2", "<a>", "1", "<b>", "2"))], lambda key: key == "<b>")
    [(5, 0, ('2', '<b>', '2'))]
    >>> SharedLog(2).united([[(5, 0, ("2", "<a>", "1"))], [(5, 0, ("2", "<b>", "2"))]])
    [(5, 0, ('2', '<a>', '1', '<b>', '2'))]
    """

    width: int

    def own(self, entries: Sequence[StoredEvent], is_own: IsOwn) -> Sequence[StoredEvent]:
        return [self._own(entry, is_own) for entry in entries]

    def _own(self, entry: StoredEvent, is_own: IsOwn) -> StoredEvent:
        time, ordinal, values = entry
        if len(values) % self.width != 1:
            return entry
        starts = range(1, len(values), self.width)
        return time, ordinal, (values[0], *(term for at in starts if is_own(values[at]) for term in values[at : at + self.width]))

    def united(self, logs: Sequence[Sequence[StoredEvent]]) -> Sequence[StoredEvent]:
        return [self._united(entries) for entries in zip(*logs, strict=True)]

    def _united(self, entries: Sequence[StoredEvent]) -> StoredEvent:
        time, ordinal, values = entries[0]
        if len(values) % self.width != 1:
            return entries[0]
        if any((each[0], each[2][0]) != (time, values[0]) for each in entries):
            raise StateError("the buckets of a unit have reached different times")
        return time, ordinal, (values[0], *(term for each in entries for term in each[2][1:]))


@dataclass(frozen=True, slots=True)
class KeyedState:
    """The state of a unit that has a key: the part of `UnitRun.to_json`, and those of its logs."""

    rest: StatePart
    logs: Sequence[LogPart]

    def divided(self, state: UnitSnapshot, buckets: int, bucket_before: tuple[int, int] | None) -> Sequence[UnitSnapshot]:
        """The parts of a state by bucket. Rows of other keys that an earlier division has left in
        the bucket are dropped.

        Args:
            state: that of the whole unit, or of a bucket.
            buckets: the number of parts.
            bucket_before: the old bucket and the old number of buckets; None for a whole unit.

        Raises:
            StateError: the state is of another form.
        """

        @cache
        def bucket_of(key: Term | None) -> int | None:
            was_own = bucket_before is None or bucket(key, bucket_before[1]) == bucket_before[0]
            return bucket(key, buckets) if was_own else None

        def part(rest: object, number: int) -> UnitSnapshot:
            def is_own(key: object) -> bool:
                if key is not None and not isinstance(key, str):
                    raise TypeError("a key is no term")
                return bucket_of(key) == number

            logs = zip(self.logs, state.entries, strict=True)
            return UnitSnapshot(json.dumps(self.rest.own(rest, is_own)), [form.own(log, is_own) for form, log in logs])

        with _of_this_form():
            rest = _decoded(state)
            return [part(rest, number) for number in range(buckets)]

    def united(self, parts: Sequence[UnitSnapshot]) -> UnitSnapshot:
        """The state of a bucket, united from its parts, at least one, which have different keys.

        Raises:
            StateError: a part is of another form, or the parts are at different times.
        """
        with _of_this_form():
            rest = self.rest.united([_decoded(part) for part in parts])
            logs = zip(self.logs, zip(*[part.entries for part in parts], strict=True), strict=True)
            return UnitSnapshot(json.dumps(rest), [form.united(of_log) for form, of_log in logs])


@contextmanager
def _of_this_form() -> Iterator[None]:
    try:
        yield
    except StateError:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def _decoded(state: UnitSnapshot) -> object:
    text, _ = state
    value: object = json.loads(text)
    return value


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} in place of a list")
    return value


def _named(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} in place of a dictionary")
    return value
