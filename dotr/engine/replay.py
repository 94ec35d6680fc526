"""Replay of a stream in process, the input of every explanation.

A `Replay` yields the instants of a stream with the places of their elements, any number of times.
There are three kinds: of the inputs of a configuration (`dotr.runtimes.pipeline.replay`), of a case
of a rule test (`dotr.commands.why.questions`) and of a session (`dotr.api.session`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Prefixes, Triple
from dotr.model.time import Clock, Micros
from dotr.model.units import GraphStream, MadeGraphs


class ElementPlace(NamedTuple):
    """Place of an element for messages: a file, and its line counted from 1 (0: without a line).

    >>> str(ElementPlace("data/mon.ndjson", 2)), str(ElementPlace("graph 1 of advance(12)", 0))
    ('data/mon.ndjson:2', 'graph 1 of advance(12)')
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class WindowElement(NamedTuple):
    """An element of a window.

    - `time`: in µs since 1970.
    - `shown`: the time as the output writes it.
    - `stream`: the stream of inputs, or the stream of a unit's graphs.
    - `triples`: with their final blank nodes.
    - `number`: its position among the elements of its stream and time, from 0 on.
    - `place`: the place of an element of an input; None for the graph of a unit.
    """

    time: Micros
    shown: str | int
    stream: GraphStream
    triples: tuple[Triple, ...]
    number: int
    place: ElementPlace | None

    @property
    def source(self) -> str:
        """The file and line, or the unit of the graph, as text."""
        return f"a graph of {self.stream.label}" if isinstance(self.stream, MadeGraphs) else str(self.place or f"stream {self.stream.name}")

    def __str__(self) -> str:
        return f"{self.source}, at {self.shown}"


StatedPlace: TypeAlias = ElementPlace | WindowElement
"""The place of a triple that an element states."""


class ReplayedInstant(NamedTuple):
    """An instant before stage one, or an advance of time.

    - `time`: in µs since 1970.
    - `graphs`: the triples of each element, in the order in which a run merges them. If there is
      none, only time advances, as in a session that is advanced without a graph (`Engine.advance`).
    - `places`: the place of each element.
    - `inputs`: the name of its input, where the replay is of inputs.
    """

    time: Micros
    graphs: Sequence[tuple[Triple, ...]]
    places: Sequence[ElementPlace]
    inputs: Sequence[str] = ()

    def step(self, engine: Engine) -> list[Firing]:
        """Step an engine through the instant, or advance its time; returns the firings."""
        if not self.graphs:
            return [firing for firings in engine.advance(self.time) for firing in firings]
        firings, _ = engine.step(self.time, self.graphs)
        return firings


class RejectedElement(NamedTuple):
    """An element that its input rejects: the dead letter, and the triples if they are readable."""

    dead_letter: DeadLetter
    triples: tuple[Triple, ...] | None


@dataclass(frozen=True, slots=True)
class InputProgress:
    """Progress of an input at the end of a replay.

    - `name`: the name of the input; empty for a session.
    - `passed`: the watermark in µs since 1970; None if the input has no element.
    - `ended`: True if no element can follow, as at the end of a file that does not grow.
    """

    name: str
    passed: Micros | None
    ended: bool


@dataclass(frozen=True)
class Replay:
    """A program and the stream that it is replayed over.

    Attributes:
        name: the file of the configuration or rule test, for suggested commands; empty for a
            session.
        program: the compiled program.
        clock: the form of times in text.
        prefixes: prefixes for terms in text.
        read: yields the instants, from the first one with each call. Elements that an input rejects
            (late, unreadable, …) are passed to the callback.
        progress: the progress of the inputs after the last instant of the latest `read`. Empty: the
            stream has ended.
        case: the name of the case of a rule test; empty otherwise.
        time_forms: the formats of the inputs' times, each with the zone of those without one.
        recorded: the stream is a recording of a run.
    """

    name: str
    program: CompiledProgram
    clock: Clock
    prefixes: Prefixes
    read: Callable[[Callable[[RejectedElement], None]], Iterator[ReplayedInstant]]
    progress: Callable[[], Sequence[InputProgress]] = tuple
    case: str = ""
    time_forms: Sequence[tuple[str | None, str | None]] = ()
    recorded: bool = False

    def instants(self, on_reject: Callable[[RejectedElement], None] | None = None) -> Iterator[ReplayedInstant]:
        """The instants of the stream in the order of time, from the first one."""
        return self.read(on_reject or _ignore)

    def why_not_command(self, rule: str) -> str:
        """The command, or the call, that explains why a rule did not fire."""
        return f"dotr why-not {self.name} --rule {rule}" if self.name else f'session.why_not("{rule}")'

    @property
    def ended(self) -> bool:
        """True if, after the last instant, no input can have another element."""
        return all(each.ended for each in self.progress())


def _ignore(rejected: RejectedElement) -> None:
    """Ignore a rejected element."""


# A replay that caches its instants for several questions.
#
# Idea: the instants that have been read are cached up to a number of triples. A further pass over the
# replay yields them from memory, then continues to read the stream. Beyond that number only the
# latest instants are kept, for proofs, and a further pass reads the stream from its start.

_MOST_TRIPLES: Final = 2_000_000
"""Maximum number of triples of the cached instants."""


class CachedReplay:
    """Cache of the instants of a replay.

    Args:
        replay: the replay.
        most: the maximum number of triples of the cached instants.

    Attributes:
        replay: the replay, which yields cached instants from memory.
    """

    def __init__(self, replay: Replay, most: int = _MOST_TRIPLES) -> None:
        self._source = replay
        self._most = most
        self._kept: list[ReplayedInstant] = []
        self._triples = 0
        self._is_whole = True
        self._rest: Iterator[ReplayedInstant] | None = None
        self.replay = replace(replay, read=self._read)

    def instant(self, time: Micros) -> ReplayedInstant | None:
        """The instant at a time in µs since 1970; None if there is none."""
        for each in reversed(self._kept):
            if each.time == time:
                return each
            if each.time < time:
                break
        found = next((each for each in self.replay.instants() if each.time >= time), None)
        return found if found is not None and found.time == time else None

    def _read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        if not self._is_whole:
            yield from self._source.read(on_reject)
            return
        if self._rest is None:
            self._rest = self._source.read(on_reject)
        number = 0
        while True:
            while self._is_whole and number < len(self._kept):
                yield self._kept[number]
                number += 1
            instant = next(self._rest, None)
            if instant is None:
                return
            self._keep(instant)
            number += 1
            yield instant

    def _keep(self, instant: ReplayedInstant) -> None:
        self._kept.append(instant)
        self._triples += sum(map(len, instant.graphs))
        if self._triples > self._most and len(self._kept) > 1:
            self._is_whole = False
            del self._kept[: len(self._kept) // 2]
            self._triples = sum(len(graph) for each in self._kept for graph in each.graphs)
