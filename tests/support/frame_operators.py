"""The operators of `dotr.spark` in this process, with state, timers and watermarks as Spark has them.

So more programs are tried than Spark could run; `tests/runtimes/frames/test_frame_cases.py` runs the operators on Spark itself.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.model.stream import DeadLetter, FedGraph, Firing, Reason
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros, Unit
from dotr.runtimes.frames.events import frame_job
from dotr.runtimes.frames.packing import HEARTBEAT_TIME, RowPacker
from dotr.runtimes.frames.reading import RowSource, read_record
from dotr.runtimes.frames.shipped import ShippedJob
from dotr.runtimes.frames.waiting import FrameLayerProcessor, WaitingProcessor
from dotr.runtimes.spark.exchange.rows import RowKind, decode_dead_letters, decode_firings

_MILLI: Final = Unit.MILLISECOND.value


class InputRow(NamedTuple):
    """A row of the input with a number."""

    input: int
    time: Micros | None
    record: str | None


class _State:
    """The stored state of one operator: by key, then by variable."""

    def __init__(self) -> None:
        self.values: dict[int, dict[str, Any]] = {}
        self.timers: set[tuple[int, int]] = set()


class _Handle:
    """The handle of an operator: variables and timers of the current key."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.key = 0

    def variables(self) -> dict[str, Any]:
        return self.state.values.setdefault(self.key, {})

    def getValueState(self, name: str, schema: str) -> _Value:
        return _Value(self, name)

    def getMapState(self, name: str, key: str, value: str) -> _Map:
        return _Map(self, name)

    def registerTimer(self, time: int) -> None:
        self.state.timers.add((time, self.key))

    def deleteTimer(self, time: int) -> None:
        self.state.timers.discard((time, self.key))


class _Value:
    def __init__(self, handle: _Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def get(self) -> Any:
        return self._handle.variables().get(self._name)

    def update(self, value: tuple[Any, ...]) -> None:
        self._handle.variables()[self._name] = value


class _Map:
    def __init__(self, handle: _Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def _entries(self) -> dict[Any, Any]:
        entries: dict[Any, Any] = self._handle.variables().setdefault(self._name, {})
        return entries

    def getValue(self, key: tuple[Any, ...]) -> Any:
        return self._entries().get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._entries()[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self._entries().pop(key, None)


class _Times(NamedTuple):
    watermark: int

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark


class Found(NamedTuple):
    """Firings and dead letters of a batch."""

    firings: list[Firing]
    letters: list[DeadLetter]

    def add(self, other: Found) -> None:
        """Add what a further batch has found."""
        self.firings.extend(other.firings)
        self.letters.extend(other.letters)


class FrameRun:
    """A program over DataFrames. The order of rows and of keys is random, and some batches (`repeated`: their share) are done again from
    the state before them."""

    def __init__(
        self,
        program: CompiledProgram,
        sources: Sequence[RowSource],
        partitions: int = 2,
        seed: int = 0,
        *,
        is_batch: bool = False,
        repeated: float = 0.2,
    ) -> None:
        job, digest = frame_job(program, sources, partitions)
        shipped = ShippedJob.of(job, program)
        self._repeated = repeated
        self._sources = sources
        self._partitions = partitions
        self._is_batch = is_batch
        self._random = random.Random(seed)
        layers = [FrameLayerProcessor(shipped, layer, digest, is_batch=is_batch) for layer in range(job.layers)]
        self._operators: list[Any] = [WaitingProcessor(shipped, [each.to_json() for each in sources], digest, is_batch=is_batch), *layers]
        self._states = [_State() for _ in self._operators]
        self._greatest: dict[int, int] = {}
        self.watermark = -1 if is_batch else 0
        self.heartbeats: list[Micros] = []

    def continue_from(self, other: FrameRun) -> None:
        """Begin with the state of another run."""
        self._states, self._greatest, self.watermark = copy.deepcopy(other._states), dict(other._greatest), other.watermark

    def batch(self, rows: Iterable[InputRow], heartbeat: int | None = None) -> Found:
        """The results of a batch; its watermark is that of the batch before. `heartbeat`: the machine's time less the clock, in ms."""
        given = list(rows)
        if heartbeat is not None:
            given += [InputRow(number, HEARTBEAT_TIME, None) for number in range(len(self._sources))]
            self.heartbeats += [self.watermark * _MILLI - 1] if self.watermark > 0 else []
        self._random.shuffle(given)
        if not self._is_batch and self._random.random() < self._repeated:
            states = copy.deepcopy(self._states)
            self._run(given)
            self._states = states
        found = self._run(given)
        for row in given:
            if row.time == HEARTBEAT_TIME and heartbeat is not None:
                latest = heartbeat + self._sources[row.input].lateness // _MILLI
                self._greatest[row.input] = max(latest, self._greatest.get(row.input, 0))
            elif row.time is not None:
                self._greatest[row.input] = max(row.time // _MILLI, self._greatest.get(row.input, 0))
        if len(self._greatest) == len(self._sources) and not self._is_batch:
            passed = min(self._greatest[number] - source.lateness // _MILLI for number, source in enumerate(self._sources))
            self.watermark = max(self.watermark, passed)
        return found

    def _run(self, given: Sequence[InputRow]) -> Found:
        rows: list[Row] = []
        for number, source in enumerate(self._sources):
            own = [row for row in given if row.input == number]
            for start in range(0, len(own), 3):
                rows += _rows(RowPacker(number, source.name, self._partitions)(_batches(own[start : start + 3])))
        for operator, state in zip(self._operators, self._states, strict=True):
            rows = list(self._step(operator, state, rows))
        firings = [each for row in rows if row.kind == RowKind.FIRINGS for each in decode_firings(row.payload)]
        return Found(firings, [each for row in rows if row.kind == RowKind.DEAD for each in decode_dead_letters(row.payload)])

    def _step(self, operator: Any, state: _State, rows: Sequence[Row]) -> Iterator[Row]:
        handle, times = _Handle(state), _Times(self.watermark)
        operator.init(handle)
        by_key: dict[int, list[Row]] = {}
        for row in rows:
            by_key.setdefault(row.key, []).append(row)
        keys = list(by_key)
        self._random.shuffle(keys)
        for handle.key in keys:
            self._random.shuffle(by_key[handle.key])
            yield from operator.handleInputRows((handle.key,), iter(by_key[handle.key]), times)
        for time, handle.key in sorted(state.timers):
            if time <= self.watermark and (time, handle.key) in state.timers:
                yield from operator.handleExpiredTimer((handle.key,), times, None)
                handle.deleteTimer(time)
        operator.close()


def _batches(rows: Sequence[InputRow]) -> Iterator[pa.RecordBatch]:
    times, records = pa.array([row.time for row in rows], pa.int64()), pa.array([row.record for row in rows], pa.string())
    yield pa.RecordBatch.from_arrays([times, records], names=["time", "record"])


def _rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [Row(**row) for batch in batches for row in batch.to_pylist()]


class InputGraph(NamedTuple):
    """An element as a row has it: its time (µs), the stream that it is on, and the text of its graph."""

    time: Micros
    stream: str
    text: str


def graph_text(triples: Sequence[Triple]) -> str:
    """The triples of an element as N-Triples, with blank nodes of its own."""
    return "".join(f"{s} {p} {o} .\n" for s, p, o in triples).replace("_:", "_:b")


def sources_of_graphs(program: CompiledProgram, graphs: Sequence[InputGraph], lateness: Micros = 0) -> list[RowSource]:
    """An input for each stream, whose rows have a column of graphs."""
    prefixes = tuple(program.spec.prefixes.items())
    names = dict.fromkeys(graph.stream for graph in graphs)
    return [RowSource(f"in{number}", name, lateness, "turtle", prefixes=prefixes) for number, name in enumerate(names)]


def rows_of(sources: Sequence[RowSource], graphs: Iterable[InputGraph]) -> list[InputRow]:
    """The rows of graphs."""
    number = {source.stream: number for number, source in enumerate(sources)}
    return [InputRow(number[graph.stream], graph.time, graph.text) for graph in graphs]


def in_process(
    program: CompiledProgram, sources: Sequence[RowSource], rows: Iterable[InputRow], heartbeats: Iterable[Micros] = (), *, ended: bool
) -> list[Firing]:
    """The firings of rows in this process; `ended`: with those behind the last instant."""
    engine, together = Engine(program, Clock(program.spec.unit)), dict[Micros, list[tuple[Triple, ...]]]()
    for row in rows:
        assert row.time is not None
        source = sources[row.input]
        together.setdefault(row.time, []).append(FedGraph.on(source.stream or source.name, read_record(source, row.record)))
    firings: list[Firing] = []
    for time in sorted({*together, *heartbeats}):
        firings += engine.step(time, together[time])[0] if time in together else [each for some in engine.advance(time) for each in some]
    return firings + ([each for some in engine.finish() for each in some] if ended else [])


def check_batch(program: CompiledProgram, graphs: Sequence[InputGraph], seed: int, partitions: int = 2) -> int:
    """Compare a batch with this process; the number of events."""
    sources = sources_of_graphs(program, graphs)
    rows = rows_of(sources, graphs)
    found = FrameRun(program, sources, partitions, seed, is_batch=True).batch(rows)
    _check(found.firings, in_process(program, sources, rows, ended=True))
    assert not [letter for letter in found.letters if not letter.input.startswith("rule ")]
    return len(found.firings)


def check_stream(program: CompiledProgram, graphs: Sequence[InputGraph], seed: int, partitions: int = 2, *, clock: bool = False) -> int:
    """Compare random batches, of rows in a random order, with this process over the rows that were not late; the number of those that
    were. No row is lost. `clock`: heartbeats follow the times of the rows."""
    chance = random.Random(seed)
    sources = sources_of_graphs(program, graphs, chance.choice([0, 1, 3, 8]) * 1_000_000)
    rows = rows_of(sources, graphs)
    run = FrameRun(program, sources, partitions, seed)
    end = max(graph.time for graph in graphs) + 10**9
    waiting = sorted(rows, key=lambda row: (row.time or 0) + chance.choice([0, 0, 1, 2, 5, 9]) * 1_000_000)
    found = Found([], [])
    while waiting:
        size = chance.randint(1, 8)
        latest = max(row.time or 0 for row in waiting[:size]) // _MILLI
        found.add(run.batch(waiting[:size], latest - chance.choice([10, 3_000]) if clock and chance.random() < 0.7 else None))
        waiting = waiting[size:]
    found.add(run.batch([InputRow(number, end, "<urn:x> <urn:y> <urn:z> .") for number in range(len(sources))]))
    found.add(run.batch([]))
    late = [letter for letter in found.letters if letter.reason is Reason.LATE]
    missing = Counter((letter.input, letter.time, letter.text) for letter in late)
    kept: list[InputRow] = []
    for row in rows:
        key = sources[row.input].name, row.time, row.record or ""
        if missing[key]:
            missing[key] -= 1
        else:
            kept.append(row)
    assert not +missing
    _check(found.firings, in_process(program, sources, kept, run.heartbeats, ended=False))
    return len(late)


def _check(found: Sequence[Firing], expected: Sequence[Firing]) -> None:
    one, other = Counter(map(str, found)), Counter(map(str, expected))
    assert one == other, f"not expected: {sorted((one - other).elements())}\nmissing: {sorted((other - one).elements())}"
