"""A program run in this process, instant by instant (interface.md, From Python)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from dotr.engine.instants import merge
from dotr.engine.program import Program
from dotr.engine.routing import Facts
from dotr.engine.stage_one import Asked
from dotr.engine.stage_two import Put, StageTwo
from dotr.knowledge.clashes import NO_CLASHES, Clash
from dotr.languages.turtle.graphs import read_graph
from dotr.model.stream import DeadLetter, Firing, Instant
from dotr.model.terms import Label, Triple, Variable
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

    def __init__(self, program: Program, clock: Clock, layers: Sequence[StageTwo] | None = None, put: Put | None = None) -> None:
        self.program = program
        self._layers = program.stage_two(clock) if layers is None else layers
        self._put = put
        self._router = program.router()
        self._states = [layer.start() for layer in self._layers]
        self._timed = program.timed
        self._passed: Micros | None = None
        self.failed: list[DeadLetter] = []

    def step(self, instant: Instant) -> tuple[list[Firing], Asked]:
        """The firings of an instant later than all before, in order of rule name, then attributes, after those of the moments before it;
        and what stage one found. Nothing has happened where that was rejected."""
        asked = self.ask(instant)
        return [] if asked.rejected else self.take(instant.time, asked), asked

    def ask(self, instant: Instant) -> Asked:
        """What stage one finds; nothing has happened yet."""
        return self.program.stage_one.facts(instant)

    def take(self, time: Micros, asked: Asked) -> list[Firing]:
        """The firings of an instant that was asked and is not rejected, as `step` gives them."""
        if not self._timed:
            return self._moment(time, asked.facts) if asked.facts else []
        earlier = [firing for firings in self.passing(time - 1) for firing in firings]
        self._passed = time
        return earlier + self._moment(time, {**asked.facts, **self.program.stage_one.ticks_at(time)})

    def passing(self, until: Micros) -> Iterator[list[Firing]]:
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
        yield from self.passing(time)
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
        return [state.held for state in self._states]

    @property
    def remembered(self) -> int:
        """How many events the state holds."""
        return sum(map(len, self._states))


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """A match: its time as the caller counts it, its rule and event type, its attributes and its graph as N-Triples text."""

    time: int
    rule: str
    type: Label
    attributes: dict[Variable, str]
    graph: str


class Session:
    """A program with state, advanced by its caller. Times are integers in the program's unit. `clashes` are the contradictions of the last
    instant; where the program rejects inconsistent instants, such a one makes no events.

    >>> from dotr.engine.program import compile_program
    >>> from dotr.engine.spec import ProgramSpec
    >>> from dotr.model.places import Document
    >>> rule = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
    >>> program = compile_program(ProgramSpec((Document("b.dotr", rule),), prefixes={"": "http://e/"}))
    >>> with program.session() as session:
    ...     [event] = session.advance(12, ":x a :A .")
    >>> event.time, event.rule, event.type, event.attributes
    (12, 'B', 'B', {'x': '<http://e/x>'})
    """

    def __init__(self, program: Program) -> None:
        self._unit = program.spec.unit
        self._engine = Engine(program, Clock(self._unit))
        self._prefixes = program.spec.prefixes
        self._last: int | None = None
        self._finished = False
        self.clashes: Sequence[Clash] = NO_CLASHES

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finished = True

    def advance(self, time: int, *graphs: str | Iterable[Iterable[object]]) -> list[OutputEvent]:
        """The events of the instant at `time`, the merge of the graphs: Turtle text with the program's prefixes, or triples, whose terms
        are N-Triples text or terms of pyoxigraph or rdflib.

        Without a graph time passes and nothing holds: what became due by then is told; an empty graph is an instant. Raises ValueError
        for a time not after the last, an unreadable graph, or a finished session; then nothing has changed.
        """
        if self._finished:
            raise ValueError("the session is finished")
        if type(time) is not int:
            raise ValueError(f"{time!r} is no time: it is an integer that counts the program's unit")
        if self._last is not None and time <= self._last:
            raise ValueError(f"time {time} is not after {self._last}, the last one")
        now = time * self._unit.value
        if not -LAST_MICRO < now < LAST_MICRO:
            raise ValueError(f"{time} is no time that can be: is the program's unit right?")
        elements = [read_graph(graph, self._prefixes) if isinstance(graph, str) else read_triples(graph) for graph in graphs]
        self._last = time
        if not elements:
            return self._events(self._engine.advance(now))
        firings, asked = self._engine.step(merge(now, elements))
        self.clashes = asked.clashes
        if asked.exceeded:
            label = self._engine.program.asked_as(asked.over)
            where = f"the query {label}" if label else "the closure"
            _LOG.warning("the instant %d is left out, it goes over a limit: %s in %s", time, asked.exceeded, where)
        for streams, error in asked.failed:
            _LOG.warning("the query of rule %s fails: %s", ", ".join(self._engine.program.readers(streams)), error)
        return self._events(self._engine.advance(now) if asked.rejected else [firings])

    def finish(self) -> list[OutputEvent]:
        """The end of the stream, of which the last time advanced to is the last instant: the events that were waiting for it."""
        if self._finished:
            return []
        self._finished = True
        return self._events(self._engine.finish())

    def _events(self, moments: Iterable[Sequence[Firing]]) -> list[OutputEvent]:
        made = [
            OutputEvent(each.time // self._unit.value, each.rule, each.event, dict(each.attributes), ntriples(each.graph))
            for firings in moments
            for each in firings
        ]
        for letter in self._engine.failed:
            _LOG.warning("%s:%d: %s", letter.file, letter.line, letter.why)
        self._engine.failed.clear()
        return made


def read_triples(triples: Iterable[Iterable[object]]) -> tuple[Triple, ...]:
    """Triples of terms, read as an element's graph is; raises ValueError with the reason in words.

    >>> read_triples([("_:x", "<http://e/p>", '"1"^^<http://www.w3.org/2001/XMLSchema#string>')])
    (('_:0', '<http://e/p>', '"1"'),)
    >>> read_triples([("http://e/x", "<http://e/p>", "_:y")])
    Traceback (most recent call last):
    ValueError: http://e/x <http://e/p> _:y . is no triple in N-Triples: the prefix http: has not been declared
    """
    lines = [" ".join(map(_written, triple)) + " ." for triple in triples]
    try:
        return read_graph("\n".join(lines), {})
    except ValueError:
        for line in lines:
            try:
                read_graph(line, {})
            except ValueError as error:
                raise ValueError(f"{line} is no triple in N-Triples: {error}") from None
        raise


def _written(term: object) -> str:
    """A term's N-Triples text; rdflib's terms are texts that lack the brackets, and say it by n3()."""
    n3 = getattr(term, "n3", None)
    return str(n3() if callable(n3) else term)
