"""A program run in this process, instant by instant (interface.md, From Python)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from dotr.datalog.inconsistencies import NO_INCONSISTENCIES, Inconsistency
from dotr.engine.instants import merge
from dotr.engine.output_events import EPOCH, MICROSECOND, Event, utc
from dotr.engine.program import CompiledProgram
from dotr.engine.router import Facts
from dotr.engine.stage_one import InstantFacts
from dotr.engine.stage_two import StageTwo, TakeFirings
from dotr.errors.diagnostics import DotrError
from dotr.errors.fallbacks import FallbackKind, drain_fallbacks
from dotr.joins.limits import LIMITS
from dotr.languages.turtle.graphs import Misread, read_graph
from dotr.model.stream import DeadLetter, Firing, Instant
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.outputs.writing import ntriples, output_order

_LOG: Final = logging.getLogger("dotr")


class Engine:
    """Both stages over closed instants in time order: what the local runtime and a session drive.

    Between instants there are moments at which ticks or delayed anchors stand; they are gone through in the order of time, all layers at
    one before any at the next. The first and the last time that the engine is told of bound the ticks, and the last one what is waited for.
    `failed` holds what rules have failed at, or gone over a limit at, until its reader takes it out. `layers` are the program's, where they
    are compiled already. Where a moment has many firings `put` has them on the way, in no order, and what is returned is the rest.
    """

    def __init__(
        self, program: CompiledProgram, clock: Clock, layers: Sequence[StageTwo] | None = None, put: TakeFirings | None = None
    ) -> None:
        self.program = program
        self._layers = program.stage_two(clock) if layers is None else layers
        self._put = put
        self._router = program.router()
        self._states = [layer.start() for layer in self._layers]
        self._timed = program.timed
        self._passed: Micros | None = None
        self.failed: list[DeadLetter] = []

    def step(self, instant: Instant) -> tuple[list[Firing], InstantFacts]:
        """The firings of an instant later than all before, in order of rule name, then attributes, after those of the moments before it;
        and what stage one found. Nothing has happened where that was rejected."""
        asked = self.evaluate(instant)
        return [] if asked.rejected else self.match(instant.time, asked), asked

    def evaluate(self, instant: Instant) -> InstantFacts:
        """What stage one finds; nothing has happened yet."""
        return self.program.stage_one.evaluate(instant)

    def match(self, time: Micros, asked: InstantFacts) -> list[Firing]:
        """The firings of an instant that was asked and is not rejected, as `step` gives them."""
        if not self._timed:
            return self._moment(time, asked.facts) if asked.facts else []
        earlier = [firing for firings in self.moments_until(time - 1) for firing in firings]
        self._passed = time
        return earlier + self._moment(time, {**asked.facts, **self.program.stage_one.ticks_at(time)})

    def moments_until(self, until: Micros) -> Iterator[list[Firing]]:
        """The firings of each moment up to a time, while no instant comes."""
        if self._timed:
            if self._passed is None:
                return  # before the first instant
            while (time := self._next(self._passed)) is not None and time <= until:
                self._passed = time
                yield self._moment(time, self.program.stage_one.ticks_at(time))

    def advance(self, time: Micros) -> Iterator[list[Firing]]:
        """The firings of each moment up to a time later than all before: it counts like an instant at which nothing holds."""
        if self._passed is None:
            self._passed = time - 1
        yield from self.moments_until(time)
        self._passed = time

    def finish(self) -> Iterator[list[Firing]]:
        """The stream is over: the firings of each moment at which something stands that was waited for."""
        while self._timed and (time := self._due()) is not None:
            yield self._moment(time, {}, ended=True)

    def _due(self) -> Micros | None:
        """When the next delayed anchor stands."""
        times = [layer.due(state) for layer, state in zip(self._layers, self._states, strict=True)]
        return min([time for time in times if time is not None], default=None)

    def _next(self, passed: Micros) -> Micros | None:
        """The next moment after all before, if no instant comes first."""
        due, tick = self._due(), self.program.stage_one.next_tick(passed)
        return due if tick is None else tick if due is None else min(due, tick)

    def _moment(self, time: Micros, facts: Facts, *, ended: bool = False) -> list[Firing]:
        """All layers at one time; the firings are in order of rule name, then attributes."""
        firings: list[Firing] = []
        deliveries = self._router.facts(facts)
        for number, layer in enumerate(self._layers):
            arrivals = deliveries[number].get(0)
            if not arrivals:
                if not self._timed or layer.due(self._states[number]) != time:
                    continue
                arrivals = {}
            step = layer.step(self._states[number], time, arrivals, ended=ended, put=self._put)
            firings += step.firings
            if step.failed:
                self.failed += step.failed
            if step.events and number + 1 < len(self._layers):
                for above, further in enumerate(self._router.events(step.events, number)):
                    for port, events in further.get(0, {}).items():
                        deliveries[above].setdefault(0, {}).setdefault(port, []).extend(events)
        if len(firings) > 1:
            firings.sort(key=output_order)
        return firings

    def reload(self) -> None:
        """Write all state and read it back, as a runtime does between batches."""
        self._states = [layer.restore(state.encode()) for layer, state in zip(self._layers, self._states, strict=True)]

    @property
    def held(self) -> list[list[int]]:
        """How many events each port of each layer holds."""
        return [state.event_counts for state in self._states]

    @property
    def remembered(self) -> int:
        """How many events the state holds."""
        return sum(map(len, self._states))


class SessionError(DotrError, ValueError):
    """A call of a session that cannot be carried out; the session is as it was before the call."""


class Session:
    """A program with state, run in this process and advanced by its caller, one instant after the
    other.

    `CompiledProgram.session` makes one. The first call of `advance` decides how times are written: integers
    that count the program's unit, or date-times. As a context manager a session is finished at the
    end of the block; events that were still waiting are then lost, unless `finish` is called
    before. A session is not thread-safe; sessions of one program are independent of each other.

    Attributes:
        clashes: the contradictions found in the last instant, each with the name of the violated
            rule (`rule`) and the triples that violate it (`premises`). A program that rejects
            inconsistent instants makes no events of such an instant.

    >>> from dotr.engine.program import compile_program
    >>> from dotr.engine.spec import ProgramSpec
    >>> from dotr.model.places import Document
    >>> rule = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
    >>> program = compile_program(ProgramSpec((Document("b.dotr", rule),), prefixes={"": "http://e/"}))
    >>> with program.session() as session:
    ...     [event] = session.advance(12, ":x a :A .")
    >>> event.time, event.rule, event.type, event.attributes, event.values
    (12, 'B', 'B', {'x': '<http://e/x>'}, {'x': IRI('http://e/x')})
    >>> with program.session() as session:
    ...     [event] = session.advance(datetime(2024, 2, 29, 12, 30), ":x a :A .")
    >>> print(event.time)
    2024-02-29 12:30:00+00:00
    """

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self._unit = program.spec.unit
        self._nesting = program.spec.limits.nesting
        self._dated: bool | None = None
        self._running: Engine | None = None
        self._last: Micros | None = None
        self._finished = False
        self._told: set[tuple[FallbackKind, str]] = set()
        self.inconsistencies: Sequence[Inconsistency] = NO_INCONSISTENCIES

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finished = True

    def advance(self, time: int | datetime, *graphs: str | Iterable[Iterable[object]]) -> list[Event]:
        """Process the instant at a time, and return its events.

        Args:
            time: the time of the instant, later than that of every call before. An `int` counts the
                program's unit (seconds, where `CompiledProgram.load` names none); a `datetime` without a
                zone is UTC. The first call decides which of both a session takes.
            graphs: the graphs of the instant, which is their merge. Each is Turtle text, in which
                the program's prefixes may be used, or an iterable of triples, whose terms are
                N-Triples text or terms of pyoxigraph, rdflib or `dotr.IRI`. Blank nodes are local
                to their graph. Without a graph time passes and there is no instant: rules that wait
                for a time fire. An empty graph (`""`) is an instant.

        Returns:
            The events in order of time, then rule name, then attributes: those of timers and
            delayed anchors that became due since the last call, and those of the instant.

        Raises:
            SessionError: the time is not later than the last one, of the other kind or out of
                range; a graph cannot be read; the session is finished. The session is then as it
                was before the call. It is a `DotrError` and a `ValueError`.
        """
        if self._finished:
            raise SessionError("the session is finished")
        now, dated = self._micros(time), isinstance(time, datetime)
        if self._last is not None and now <= self._last:
            raise SessionError(f"time {time} is not after {self._shown(self._last)}, the last one")
        try:
            elements = [self._read(graph) for graph in graphs]
        except ValueError as error:
            raise SessionError(str(error)) from None
        engine = self._started(dated)
        self._last = now
        if not elements:
            return self._events(engine, engine.advance(now))
        firings, asked = engine.step(merge(now, elements))
        self.inconsistencies = asked.inconsistencies
        if asked.exceeded:
            label = self._program.asked_as(asked.over)
            where = f"the query {label}" if label else "the closure"
            _LOG.warning("the instant %s is left out, it goes over a limit: %s in %s", self._shown(now), asked.exceeded, where)
        for streams, reason in asked.failed:
            _LOG.warning("the query of rule %s fails: %s", ", ".join(self._program.readers(streams)), reason)
        return self._events(engine, engine.advance(now) if asked.rejected else [firings])

    def finish(self) -> list[Event]:
        """End the stream at the last time advanced to, and return the events that were waiting for
        a later time.

        Returns:
            The events of delayed anchors that were not due yet, in order of time; timers do not
            fire after the last time. A second call returns an empty list.
        """
        if self._finished:
            return []
        self._finished = True
        return self._events(self._running, self._running.finish()) if self._running is not None else []

    def _read(self, graph: str | Iterable[Iterable[object]]) -> tuple[Triple, ...]:
        return (
            read_graph(graph, self._program.spec.prefixes, self._nesting) if isinstance(graph, str) else read_triples(graph, self._nesting)
        )

    def _micros(self, time: int | datetime) -> Micros:
        """The time in microseconds since 1970; raises SessionError where it is none that this
        session takes."""
        dated = isinstance(time, datetime)
        if not dated and type(time) is not int:
            raise SessionError(f"{time!r} is no time: it is an integer that counts the program's unit, or a datetime")
        if self._dated is not None and dated != self._dated:
            kinds = ("a datetime", "an integer") if self._dated else ("an integer", "a datetime")
            raise SessionError(f"{time!r} is no time of this session: its first one was {kinds[0]}, and this one is {kinds[1]}")
        if isinstance(time, datetime):
            try:
                return int(((time.replace(tzinfo=UTC) if time.utcoffset() is None else time.astimezone(UTC)) - EPOCH) // MICROSECOND)
            except (OverflowError, ValueError):
                raise SessionError(f"{time} is no time that can be: in UTC it lies outside the years 1 to 9999") from None
        now = time * self._unit.value
        if not -LAST_MICRO < now < LAST_MICRO:
            raise SessionError(f"{time} is no time that can be: is the program's unit right?")
        return now

    def _started(self, dated: bool) -> Engine:
        """The engine; the first time decides how it writes times."""
        if self._running is None:
            self._dated = dated
            self._running = Engine(self._program, Clock(self._unit, dated))
        return self._running

    def _shown(self, micros: Micros) -> int | datetime:
        """A time as the caller writes it; a date-time where the unit cannot hold it."""
        return utc(micros) if self._dated or micros % self._unit.value else micros // self._unit.value

    def _events(self, engine: Engine, moments: Iterable[Sequence[Firing]]) -> list[Event]:
        made = [
            Event(self._shown(each.time), each.rule, each.event, dict(each.attributes), ntriples(each.graph))
            for firings in moments
            for each in firings
        ]
        for letter in engine.failed:
            _LOG.warning("%s:%d: %s", letter.file, letter.line, letter.why)
        engine.failed.clear()
        for found in drain_fallbacks():
            if (found.kind, found.place) not in self._told:
                self._told.add((found.kind, found.place))
                _LOG.warning("%s", found)
        return made


def read_triples(triples: Iterable[Iterable[object]], nesting: int = LIMITS.nesting) -> tuple[Triple, ...]:
    """Triples of terms, read as an element's graph is; raises ValueError with the reason in words.

    >>> read_triples([("_:x", "<http://e/p>", '"1"^^<http://www.w3.org/2001/XMLSchema#string>')])
    (('_:0', '<http://e/p>', '"1"'),)
    >>> read_triples([("http://e/x", "<http://e/p>", "_:y")])
    Traceback (most recent call last):
    ValueError: http://e/x <http://e/p> _:y . is no triple in N-Triples: the prefix http: has not been declared
    """
    lines = [" ".join(map(_written, triple)) + " ." for triple in triples]
    try:
        return read_graph("\n".join(lines), {}, nesting)
    except ValueError:
        for line in lines:
            try:
                read_graph(line, {}, nesting)
            except ValueError as error:
                why = error.why if isinstance(error, Misread) else error
                raise ValueError(f"{line} is no triple in N-Triples: {why}") from None
        raise


def _written(term: object) -> str:
    """A term's N-Triples text; rdflib's terms are texts that lack the brackets, and say it by n3()."""
    n3 = getattr(term, "n3", None)
    return str(n3() if callable(n3) else term)
