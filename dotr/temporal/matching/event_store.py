"""Event store: the events of a port within its retention, indexed by equality keys.

Idea: one dictionary per index from a key to its run of events; the insertion is generated per port.
A log has all events in the order of time; a `RunStore` does without.
Invariant: a run holds the events of its key that pass the index's filter, in the order of time and
ties; every event within the retention is present, and a run that grows holds at most as many
expired events as live ones.
Cost: insertion and expiration are O(1) amortised per event and index; a look-up reads one run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import chain, pairwise
from operator import itemgetter
from types import EllipsisType
from typing import Any, Final, NamedTuple, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.codegen.printer import printed
from dotr.evaluation.codegen.tree import Assign, CodeNode, Emit, ForEach, Fork, GeneratedFunction, IfElse
from dotr.evaluation.expressions import InlineConjunction, equality_key
from dotr.evaluation.expressions.values.exact_sums import Moments, SortedNumbers
from dotr.model import dataclass
from dotr.model.algebra import Expression
from dotr.model.event_order import AttributeValues
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.rule_search import ConstantTable, RowFinder
from dotr.temporal.matching.sums import DistinctRun, EventRun, ExtremumRun, SkipRun, StatisticRun, SumRun

IndexKey: TypeAlias = str | int | tuple[str | int, ...] | EllipsisType | None
"""The key of a run: one equality key, a tuple of several, or None for an index without
equalities. With a constant table, the last part is the number of a row of the table. No look-up
has the key `...`: its run has the events of a `RunStore` that the index does not take."""

KeyIndex: TypeAlias = dict[IndexKey, list[StoredEvent]]

EventTest: TypeAlias = Callable[[Micros, AttributeValues], bool]
"""Evaluates the constraints of a clause that name no other event."""


class EventCondition(NamedTuple):
    """A test of an event `(t, _, v)` with the sources of its arguments: a test of the second
    attribute is `(test, "v[1]")`."""

    test: Callable[..., bool]
    arguments: str


InsertEvents: TypeAlias = Callable[[Sequence[KeyIndex], Sequence[StoredEvent], Micros], None]
"""`insert(indexes, events, horizon)` appends events to the runs of each index and trims long
runs whose older half lies before `horizon`."""


class Measure(Enum):
    """A summary that the runs of an index answer for a stretch of time."""

    COUNT = "count"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    DISTINCT = "distinct"
    ABOVE = "above"
    """The position of the next event whose number is above a bound."""
    BELOW = "below"
    SORTED = "sorted"
    MOMENTS = "moments"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index on attribute positions, over the events that satisfy the filter `own`.

    `own` are constraints in the normal form of `rule_templates` that name no other event. An index
    with a `measure` of the attribute `measured` holds the events that have that attribute. With
    `constants`, each row of the table has runs of its own.
    """

    positions: tuple[int, ...]
    own: tuple[Expression, ...] = ()
    measure: Measure | None = None
    measured: int | None = None
    constants: ConstantTable | None = None

    def new_run(self) -> list[StoredEvent]:
        """An empty run for a new key."""
        position = self.measured if self.measured is not None else 0
        match self.measure:
            case None:
                return []
            case Measure.COUNT:
                return EventRun()
            case Measure.SUM:
                return SumRun(position)
            case Measure.LEAST | Measure.GREATEST:
                return ExtremumRun(position, self.measure is Measure.GREATEST)
            case Measure.DISTINCT:
                return DistinctRun(position)
            case Measure.ABOVE | Measure.BELOW:
                return SkipRun(position, self.measure is Measure.BELOW)
            case Measure.SORTED | Measure.MOMENTS:
                return StatisticRun(position, SortedNumbers if self.measure is Measure.SORTED else Moments)


TRIM: Final = 128
"""Runs of more events than this are trimmed."""

VISITS: Final = 2_048
"""The number of keys that a `RunStore` visits where time passes without its events."""

SLACK: Final = 64
"""The number of events above which a `StandingStore` is first swept."""


def trim(run: list[StoredEvent]) -> None:
    """Removes the older events of a run: half, or the power of two below, which keeps blocks
    aligned."""
    number = 1 << ((len(run) >> 1).bit_length() - 1)
    if isinstance(run, EventRun):
        run.drop(number)
    else:
        del run[:number]


def compile_insert(
    specs: Sequence[IndexSpec],
    tests: Sequence[EventCondition | None],
    finders: Sequence[RowFinder | None],
    *,
    takes_all: bool = False,
) -> InsertEvents:
    """Generates the insertion of a port's events into its indexes.

    `tests` and `finders` belong to the filter and the constants of the index at the same position;
    `takes_all` is that of `insertion_of_event`. For one index on attribute 1:

    >>> from inspect import getsource
    >>> print(getsource(compile_insert([IndexSpec((1,))], [None], [None])))
    def insert(indexes, events, horizon):
        index0 = indexes[0]
        for e in events:
            t, _, v = e
            s0 = v[1]
            if s0 is not None:
                k = (s0 if s0 >= '<=' else key(s0))
                c = index0.get(k)
                if c is None:
                    index0[k] = [e]
                else:
                    c.append(e)
                    if len(c) > 128 and c[len(c) >> 1][0] < horizon:
                        trim(c)
    <BLANKLINE>
    """
    insertions, names = insertion_of_event(specs, tests, finders, takes_all=takes_all)
    per_event = [Assign("t, _, v", "e"), *[each for insertion in insertions for each in insertion]]
    indexes = [Assign(f"index{n}", f"indexes[{n}]") for n in range(len(specs))]
    function = GeneratedFunction("insert", "indexes, events, horizon", [*indexes, ForEach("e", "events", per_event)])
    return define(printed(function), "event store", "insert", names)


def insertion_of_event(
    specs: Sequence[IndexSpec],
    tests: Sequence[EventCondition | InlineConjunction | None],
    finders: Sequence[RowFinder | None],
    *,
    takes_all: bool = False,
) -> tuple[list[list[CodeNode]], dict[str, object]]:
    """The statements that insert the event `e = (t, _, v)` into each index, `index0`, `index1`, …,
    and the names that they read. They also read `horizon`.

    A test is a condition with the sources of its arguments, or statements that skip. `takes_all`:
    an event that fails it, or has no key, is inserted under the key `...`, and no run is trimmed.
    Then `horizon` is not read."""
    names: dict[str, object] = {"key": equality_key, "trim": trim}
    insertions = []
    for n, (spec, test, finder) in enumerate(zip(specs, tests, finders, strict=True)):
        names[f"new_run{n}"], names[f"find{n}"] = spec.new_run, finder
        condition, skips = "", list[CodeNode]()
        if isinstance(test, EventCondition):
            names[f"test{n}"], condition = test.test, f"test{n}({test.arguments})"
        elif test is not None:
            names, skips = {**test.names, **names}, test.statements
        insertions.append(_insertion(n, spec, condition, skips, finder is not None, takes_all=takes_all))
    return insertions, names


def _insertion(n: int, spec: IndexSpec, condition: str, tests: Sequence[CodeNode], has_table: bool, *, takes_all: bool) -> list[CodeNode]:
    """The statements that insert the event `e` into index `n`, where it passes the condition, or
    where no statement of `tests` skips; with `takes_all`, elsewhere under the key `...`."""
    sides = [f"s{number}" for number in range(len(spec.positions))]
    keys = [f"({side} if {side} >= '<=' else key({side}))" for side in sides]
    conditions = [f"{side} is not None" for side in sides]
    skips = spec.measure in (Measure.ABOVE, Measure.BELOW)
    if spec.measured is not None and not skips:
        conditions.append(f"v[{spec.measured}] is not None")
    if condition:
        conditions.append(condition)
    shared_keys: list[CodeNode] = []
    if has_table:
        if keys:  # computed once for all rows
            shared_keys = [Assign(f"k{number}", key) for number, key in enumerate(keys)]
            keys = [f"k{number}" for number in range(len(keys))]
        keys.append("row[0]")
    is_plain = spec.measure is None
    first: list[CodeNode] = [Assign(f"index{n}[k]", "[e]")]
    if not is_plain:
        first = [Assign("c", f"new_run{n}()"), Emit("c.append", "e"), Assign(f"index{n}[k]", "c")]
    further: list[CodeNode] = [Emit("c.append", "e")]
    if skips:
        further.append(IfElse([("c.is_built", [Emit("c.add_rank", "e")])]))
    if not takes_all:
        further.append(IfElse([(f"len(c) > {TRIM} and c[len(c) >> 1][0] < horizon", [Emit("trim", "c")])]))
    keyed: list[CodeNode] = [Assign("k", "None" if not keys else keys[0] if len(keys) == 1 else f"({', '.join(keys)})")]
    insert: list[CodeNode] = [Assign("c", f"index{n}.get(k)"), IfElse([("c is None", first)], further)]
    always: list[CodeNode] = []
    if takes_all:  # k = ...; s0 = v[1]; if s0 is not None: k = s0; c = index0.get(k); …
        insert, always = [], insert
    insert = [*keyed, *insert]
    if not is_plain and not skips:
        terms = "None" if not sides else sides[0] if len(sides) == 1 else f"({', '.join(sides)})"
        insert.append(Assign(f"c.key_terms[{terms}]", "None"))
    if has_table:
        insert = [*shared_keys, ForEach("row", f"find{n}(v)", insert)]
    if tests:
        insert = [Fork([[*tests, *insert]])]
    values: list[CodeNode] = [Assign(side, f"v[{position}]") for side, position in zip(sides, spec.positions, strict=True)]
    taken = [IfElse([(" and ".join(conditions), insert)])] if conditions else insert
    return [*([Assign("k", "...")] if takes_all and (conditions or tests) else []), *values, *taken, *always]


class PortStore:
    """The stored events of one port and the runs of its indexes.

    `retention` is in µs; `log` has all events in the order of time; `indexes` are shared with the
    matchers; `expired` counts the events expired since empty runs were last removed.
    """

    __slots__ = ("_insert", "expired", "indexes", "log", "retention")

    def __init__(self, retention: Micros, indexes: int, insert: InsertEvents) -> None:
        self.retention = retention
        self.log: deque[StoredEvent] = deque()
        self.indexes: tuple[KeyIndex, ...] = tuple({} for _ in range(indexes))
        self._insert = insert
        self.expired = 0

    def add(self, events: Sequence[StoredEvent]) -> None:
        """Stores the events of one time, not before any stored one, and expires events before
        its horizon."""
        now = events[0][0]
        horizon = now - self.retention
        log = self.log
        if log and log[0][0] < horizon:
            self.expire(now, len(events))  # before insertion: often no event is left, so that all runs are cleared at once
        log.extend(events)
        self._insert(self.indexes, events, horizon)

    def add_one(self, event: StoredEvent) -> None:
        """Stores one event, with the same result as `add`.

        The fast path expires a single event: with a retention of 30 s and an event a second, each
        insertion expires one.
        """
        now = event[0]
        horizon = now - self.retention
        log = self.log
        log.append(event)
        if log[0][0] < horizon:
            log.popleft()
            self.expired += 1
            if self.expired > TRIM + len(log) or log[0][0] < horizon:
                self.expire(now)
        self._insert(self.indexes, (event,), horizon)

    def extend(self, events: Sequence[StoredEvent]) -> None:
        """Stores events of several times in their order, with the same result as `add` for each
        time."""
        now = events[-1][0]
        horizon = now - self.retention
        if events[0][0] < horizon:
            events = events[bisect_left(events, (horizon,)) :]
        self.log.extend(events)
        if self.log[0][0] < horizon:
            self.expire(now)
        self._insert(self.indexes, events, horizon)

    def keep(self, events: Sequence[StoredEvent], first: Micros) -> None:
        """Stores the events of one time and expires nothing that a moment from `first` (µs) on can
        read."""
        self.log.extend(events)
        self._insert(self.indexes, events, first - self.retention)

    def expire(self, now: Micros, coming: int = 0) -> None:
        """Removes the events that no instant from `now` (µs) on can read; `coming` is the number of
        events that are about to be stored.

        Empty runs are removed once more events have expired than are left: so the number of runs
        stays proportional to the events, and the sweep costs O(1) per event.
        """
        horizon = now - self.retention
        log = self.log
        if log and log[-1][0] < horizon:
            log.clear()
        else:
            stored, drop = len(log), log.popleft
            while log and log[0][0] < horizon:
                drop()
            self.expired += stored - len(log)
        if not log:
            for runs in self.indexes:
                runs.clear()
            self.expired = 0
        elif self.expired > TRIM + len(log) + coming:
            for runs in self.indexes:
                for key in [key for key, run in runs.items() if run[-1][0] < horizon]:
                    del runs[key]
            self.expired = 0

    @property
    def whole(self) -> Micros:
        """The duration (µs) for which every event is kept."""
        return self.retention

    def drop_replaced(self, now: Micros) -> None:
        """Removes the events that no moment from `now` (µs) on can choose: none, as each is needed
        until it expires."""

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self.log)

    def __len__(self) -> int:
        return len(self.log)


class NewestEvents(NamedTuple):
    """The events that a port keeps for `last` and `not` with equalities: of each key the newest
    that passes `test` (None: every event does).

    `positions` are those of the key's attributes; events are read for `far` µs.
    """

    positions: tuple[int, ...]
    test: EventTest | None
    far: Micros


class StandingStore(PortStore):
    """A store that drops events which newer ones of their keys have replaced.

    Events are kept for `whole` µs, as in any store (None: no clause needs all of them), and of each
    key the newest as `newest` says; those of the present moment are all kept, as a clause may read
    what was before it. For the key of the first attribute, with the present at 9:

        (3, a) (5, b) (7, a) (9, a)   →   (5, b) (7, a) (9, a)

    The log is swept when it holds more than `most` events, twice those that the sweep before has
    left, so that an insertion costs O(1) amortised.
    """

    __slots__ = ("_newest", "_whole", "most")

    def __init__(self, retention: Micros, indexes: int, insert: InsertEvents, whole: Micros | None, newest: Sequence[NewestEvents]) -> None:
        super().__init__(retention, indexes, insert)
        self._whole = whole
        self._newest = newest
        self.most = SLACK

    def add(self, events: Sequence[StoredEvent]) -> None:
        super().add(events)
        self._sweep_if_long(events[0][0])

    def add_one(self, event: StoredEvent) -> None:
        super().add_one(event)
        self._sweep_if_long(event[0])

    def extend(self, events: Sequence[StoredEvent]) -> None:
        now = events[-1][0]
        super().extend(events)
        self._sweep_if_long(now)

    def keep(self, events: Sequence[StoredEvent], first: Micros) -> None:
        super().keep(events, first)
        self._sweep_if_long(first)

    def _sweep_if_long(self, now: Micros) -> None:
        if len(self.log) > self.most:
            self.drop_replaced(now)

    @property
    def whole(self) -> Micros:
        return self._whole or 0

    def drop_replaced(self, now: Micros) -> None:
        log, kept = self.log, list[StoredEvent]()
        least = now if self._whole is None else now - self._whole
        newest = [(number, positions, test, now - far) for number, (positions, test, far) in enumerate(self._newest)]
        found: set[tuple[int, AttributeValues]] = set()
        for event in reversed(log):
            time, _, values = event
            is_needed = time >= least
            if time < now:
                for number, positions, test, horizon in newest:
                    key = number, tuple([values[position] for position in positions])
                    if time >= horizon and key not in found and None not in key[1] and (test is None or test(time, values)):
                        found.add(key)
                        is_needed = True
            if is_needed:
                kept.append(event)
        if len(kept) < len(log):
            kept.reverse()
            log.clear()
            log.extend(kept)
            for runs in self.indexes:
                runs.clear()
            self.expired = 0
            self._insert(self.indexes, kept, now - self.retention)
        self.most = 2 * len(log) + SLACK


class RunStore(PortStore):
    """A store without a log: its events are those of the runs of its only index.

    It stands in for the store `logged`, whose log is empty meanwhile, until somebody asks for the
    log: then `put_back` is called. Events that the index does not take have a run of their own,
    under the key `...`. For the key of the first attribute:

        log     (3, a) (5, None) (7, b) (8, a)
        index   a: (3, a) (8, a)    ...: (5, None)    b: (7, b)

    `left` is the number of events before the next `turn`, which visits twice as many keys, one
    after the other, removes the runs that have ended, and trims long ones: so there are about as
    many expired events as live ones at most, and no event waits for a sweep of all. The sweep of a
    `StandingStore` depends on the length of its log, which is put back before it may be that long.
    """

    __slots__ = ("_horizon", "_is_standing", "_mark", "_step", "_unvisited", "left", "logged", "put_back")

    def __init__(self, logged: PortStore, insert: InsertEvents, put_back: Callable[[], None]) -> None:
        log = logged.log
        self.retention = logged.retention
        self.indexes = logged.indexes
        self.logged = logged
        self.put_back = put_back
        self._insert = insert
        self._is_standing = isinstance(logged, StandingStore)
        self._step = self.left = logged.most >> 1 if isinstance(logged, StandingStore) else TRIM
        self._horizon, self._mark = (log[0][0], log[-1][0]) if log else (-LAST_MICRO, -LAST_MICRO)
        self._unvisited: list[IndexKey] = []
        (runs,) = self.indexes
        runs.clear()
        insert(self.indexes, log, self._horizon)
        log.clear()

    @staticmethod
    def can_replace(logged: PortStore) -> bool:
        """True if the times and ordinals of the events tell the order of the log, and no sweep of a
        `StandingStore` is near."""
        if isinstance(logged, StandingStore) and 2 * len(logged.log) > logged.most:
            return False
        return all(before[:2] < after[:2] for before, after in pairwise(logged.log))

    def with_log(self) -> PortStore:
        """The store `logged`, with the log of the events."""
        (runs,) = self.indexes
        self.logged.log.extend(self)
        runs.pop(..., None)
        self.logged.expired = len(runs)  # some of these have ended
        return self.logged

    def add(self, events: Sequence[StoredEvent]) -> None:
        now = events[0][0]
        self.left -= len(events)
        if self.left <= 0 and not self._renew(now, len(events)):
            self.logged.add(events)
        else:
            self._insert(self.indexes, events, now - self.retention)

    def add_one(self, event: StoredEvent) -> None:
        self.add((event,))

    def turn(self, now: Micros) -> int:
        """Visits keys once `left` is 0; returns the number of events since the last turn."""
        self._renew(now, 0)
        return self._step

    def _renew(self, now: Micros, coming: int) -> bool:
        """Begins to count events at a time (µs), `coming` of which are about to be stored; False if
        the log is put back.

        The log of a `StandingStore` has at most `most` events if at a turn at most half as many are
        live: no more than those since the last turn, if that was a retention ago.
        """
        horizon, added = now - self.retention, self._step - self.left
        self._visit(2 * added, horizon)
        if self._is_standing:
            if added > self._step or self._mark >= horizon:
                added = coming + sum([len(run) - bisect_left(run, (horizon,)) for run in self.indexes[0].values()])
            if added > self._step:
                self.put_back()
                return False
        self._mark, self.left = now, self._step
        return True

    def expire(self, now: Micros, coming: int = 0) -> None:
        horizon = now - self.retention
        self._horizon = max(self._horizon, horizon)
        self._visit(VISITS, horizon)

    def _visit(self, number: int, horizon: Micros) -> None:
        """Removes the runs that have ended before a time (µs) among those of the next keys, and trims
        the others."""
        (runs,) = self.indexes
        keys = self._unvisited = self._unvisited or list(reversed(runs))  # the oldest key is the last one
        for key in keys[-number:]:
            run = runs.get(key)
            if run is None:
                continue
            if run[-1][0] < horizon:
                del runs[key]
                continue
            while len(run) > TRIM and run[len(run) >> 1][0] < horizon:
                trim(run)
        del keys[-number:]

    def __iter__(self) -> Iterator[StoredEvent]:
        runs = self.indexes[0].values()
        horizon = max([self._horizon, *[run[-1][0] - self.retention for run in runs]])
        return iter(sorted(chain.from_iterable([run[bisect_left(run, (horizon,)) :] for run in runs]), key=itemgetter(0, 1)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class FiringStore(PortStore):
    """The firings that hold others of a rule back for a pause (µs), for the rule's `once`.

    The only index has the time of the last one of each key. A key is the term where there is one
    alone, else the tuple of terms; a rule inserts into index and log by itself.

    >>> store = FiringStore(60)
    >>> store.add([(5, 0, ("<e:a>",))])
    >>> store.add([(60, 0, ("<e:b>",))])
    >>> store.expire(80)
    >>> list(store), store.indexes
    ([(60, 0, ('<e:b>',))], ({'<e:a>': 5, '<e:b>': 60},))
    """

    __slots__ = ()

    def __init__(self, pause: Micros) -> None:
        super().__init__(pause, 0, _insert_firings)
        self.indexes = (FiringIndex(self.log),)

    def expire(self, now: Micros, coming: int = 0) -> None:
        horizon, log, (times,) = now - self.retention, self.log, self.indexes
        while log and log[0][0] < horizon:
            log.popleft()
            self.expired += 1
        if not log:
            times.clear()
            self.expired = 0
        elif self.expired > TRIM + len(log):
            for key in [key for key, time in times.items() if time < horizon]:  # type: ignore[operator]
                del times[key]
            self.expired = 0


class FiringIndex(dict[Any, Any]):
    """The time (µs) of the last firing of each key; `note` appends to the log of the store."""

    __slots__ = ("note",)

    def __init__(self, log: deque[StoredEvent]) -> None:
        super().__init__()
        self.note = log.append


def _insert_firings(indexes: Sequence[KeyIndex], firings: Sequence[StoredEvent], horizon: Micros) -> None:
    times: dict[Any, Any] = indexes[0]
    for time, _, keys in firings:
        times[keys[0] if len(keys) == 1 else keys] = time


class BorrowedStore(PortStore):
    """A read-only view of a store of another state, whose owner adds and expires the events.

    Matchers read its runs; its events are no part of the state that borrows it."""

    __slots__ = ("_owner",)

    def __init__(self, owner: PortStore) -> None:
        super().__init__(owner.retention, 0, owner._insert)
        self.indexes = owner.indexes
        self._owner = owner

    def add(self, events: Sequence[StoredEvent]) -> None:
        raise AssertionError("the owner stores events")

    extend = add

    def add_one(self, event: StoredEvent) -> None:
        self.add((event,))

    def expire(self, now: Micros, coming: int = 0) -> None:
        """The owner expires events."""

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self._owner)
