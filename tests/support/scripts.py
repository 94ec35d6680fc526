"""Scripts of arrivals at growing inputs, and feeds that follow a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hypothesis import strategies as st

from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO
from dotr.streams.merge.feeds import BEGIN, FeedRecords, InputPoint
from dotr.streams.records import Format, InputFile, Record
from tests.oracle.arrivals import Arrives, Beats, Elapse, Ends, Input, Step


class Stopped(Exception):
    """Raised at the end of a script."""


class ScriptedFeed:
    """An input whose records appear as the script proceeds; a record's offset is its position. A file has `length` records."""

    def __init__(self, number: int, spec: Input, length: int = 3) -> None:
        self.spec = InputFile(str(number), "f", Format.NDJSON, delay=spec.delay, single=spec.single, apart=spec.apart)
        self.times: list[int | None] = []
        self.length = length
        self.finished = False
        self.place = 0

    @property
    def ended(self) -> bool:
        return self.finished and self.place == len(self.times)

    @property
    def end(self) -> InputPoint:
        return point_of(self.place, self.length)

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records that have appeared, all of one file."""
        file = self.place // self.length
        upto = min(len(self.times), (file + 1) * self.length, self.place + most)
        if upto == self.place:
            return None
        places, self.place = range(self.place, upto), upto
        return FeedRecords(file, self.spec, [record_of(place, self.times[place], self.length) for place in places])

    def close(self) -> None:
        """Does nothing: a scripted feed has no resources."""


def point_of(place: int, length: int) -> InputPoint:
    return InputPoint(place // length, place % length, place % length + 1) if place else BEGIN


def record_of(place: int, time: int | None, length: int) -> Record:
    element = None if time is None else Element(time, ((f"<x:{place}>", "<x:>", "<x:>"),))
    at = place % length
    return Record(at, at + 1, at + 1, time, element, f"{place}".encode(), "" if time is not None else "!")


class World:
    """Applies a script to feeds, step by step."""

    def __init__(self, inputs: Sequence[Input], script: Iterable[Step]) -> None:
        self.feeds = [ScriptedFeed(number, spec) for number, spec in enumerate(inputs)]
        self.now = 0.0
        self.heartbeat = -LAST_MICRO
        self._steps = iter(script)

    def clock(self) -> float:
        return self.now

    def go_on(self, seconds: float = 0.0) -> None:
        """Applies the next step; raises `Stopped` after the last one."""
        match next(self._steps, None):
            case None:
                raise Stopped
            case Arrives(number, time):
                self.feeds[number].times.append(time)
            case Ends(number):
                self.feeds[number].finished = True
            case Elapse(elapsed):
                self.now += elapsed
            case Beats(time):
                self.heartbeat = time


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[object]], object]) -> tuple[list[Input], list[Step]]:
    """Some inputs, and a script: arrivals more or less in order, pauses, ends."""
    inputs: list[Input] = draw(
        st.lists(
            st.one_of(
                st.builds(Input, st.integers(0, 4), st.sampled_from([None, 5.0, 9.0])),
                st.builds(Input, st.just(0), st.sampled_from([None, 5.0]), st.just(True)),
                st.builds(Input, st.just(0), st.sampled_from([None, 5.0]), st.just(False), st.just(True)),
            ),
            min_size=1,
            max_size=3,
        )
    )  # type: ignore[assignment]
    numbers = st.integers(0, len(inputs) - 1)
    times = st.none() | st.integers(0, 14)
    moves: list[tuple[str, int, int | None]] = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("arrives"), numbers, times),
                st.tuples(st.just("next"), numbers, st.integers(0, 3)),
                st.tuples(st.just("next"), numbers, st.integers(0, 3)),
                st.tuples(st.just("elapse"), st.just(0), st.sampled_from([2, 5, 10])),
                st.tuples(st.just("ends"), numbers, st.none()),
            ),
            max_size=40,
        )
    )  # type: ignore[assignment]
    ended: set[int] = set()
    latest = [0 for _ in inputs]
    script: list[Step] = []
    for kind, number, value in moves:
        if kind == "elapse":
            assert value is not None
            script.append(Elapse(float(value)))
        elif number not in ended:
            if kind == "ends":
                ended.add(number)
                script.append(Ends(number))
                continue
            time = value if kind == "arrives" or value is None else latest[number] + value
            latest[number] = max(latest[number], time or 0)
            script.append(Arrives(number, time))
    return inputs, script
