"""Programs with continuous queries on Spark: one operator with one partition steps all of stage
two.

Idea: a report sees all of its windows, and a query is under way until those that feed it are done,
so the layers of such a program share one engine, in bucket 0; stage one stays in the reading tasks,
which send facts and elements as rows. The state is a value: that of every layer as text, written
whole after each batch.
Cost: a batch reads and writes the elements that windows hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from dotr.datalog.inconsistencies import NO_INCONSISTENCIES
from dotr.engine.driver import Engine, StreamItems
from dotr.engine.program import CompiledProgram
from dotr.engine.stage_one import InstantFacts
from dotr.layout.event_order import AttributeValues
from dotr.layout.units import InstantStream
from dotr.model.stream import Firing
from dotr.model.time import LAST_MICRO, Micros
from dotr.monitoring.totals import Totals
from dotr.patterns.rule_counts import RuleCounts
from dotr.patterns.state import StateError
from dotr.runtimes.spark.bucket_steps import TimedArrivals, chunk_payload, closed_by, in_order, instants_of
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import BucketSize, RowKind, SparkRow, encode_inconsistencies, encode_size, encode_totals, fallback_rows
from dotr.runtimes.spark.spilled_rows import FIRINGS, SpillBuffer, SpilledDeadLetters
from dotr.runtimes.spark.state_moves import unreadable_state
from dotr.runtimes.spark.worker_cache import layers_of, program_of, without_garbage_collection

_MAX_CONTRADICTED_SHOWN: Final = 3
"""Reports with contradictions of a batch that are shown, at most."""


class ValueStore(Protocol):
    """The stored state of a bucket as a value (`worker.BucketStore`)."""

    def value(self) -> tuple[bytes, bytes] | None: ...

    def set_value(self, digest: bytes, written: bytes) -> None: ...


def _fed_streams(program: CompiledProgram) -> list[InstantStream]:
    """The streams of inputs and the triples of instants; number n of them is port −1 − n of the
    rows, fact streams are 0 and on."""
    return [*sorted(program.layout.fed_streams, key=lambda stream: stream.name), *program.layout.instant_triples]


class ProgramRouter:
    """The facts and elements of a task's instants, as rows of bucket 0."""

    def __init__(self, job: Job) -> None:
        self._key = job.keys(0)[0]
        self._ports = {stream: -1 - number for number, stream in enumerate(_fed_streams(program_of(job)))}
        self._arrivals: TimedArrivals = []

    def add(self, time: Micros, facts: InstantFacts, items: StreamItems) -> None:
        """Add the facts and elements of an instant."""
        ports = {number: list(enumerate(rows)) for number, rows in facts.facts.items()}
        for stream, rows in items.items():
            longest = max(map(len, rows))  # rows of one port have one length: elements are filled up with None
            ports[self._ports[stream]] = [(ordinal, (*row, *(None,) * (longest - len(row)))) for ordinal, row in enumerate(rows)]
        self._arrivals.append((time, ports))

    @property
    def rule_counts(self) -> dict[str, RuleCounts]:
        """None: the operator counts."""
        return {}

    def lines(self) -> list[SparkRow]:
        """The arrivals as rows."""
        if not self._arrivals:
            return []
        return [SparkRow(self._key, RowKind.CHUNK, self._arrivals[0][0], chunk_payload(self._arrivals))]


def process_program(job: Job, bucket: int, rows: Sequence[SparkRow], store: ValueStore) -> list[SparkRow]:
    """Run a batch's rows for a bucket, and write its state: bucket 0 has all, the others have
    nothing.

    Raises Refused where the stored state is unreadable.
    """
    if bucket:
        return []
    with without_garbage_collection():
        run = _ProgramRun(job)
        stored = store.value()
        if stored is not None:
            run.restore(stored[1])
        run.step(rows)
        written = run.encode()
        store.set_value(blake2b(written, digest_size=16).digest(), written)
        return [*run.lines(len(written)), *(line._replace(key=-1) for line in fallback_rows())]


class _ProgramRun:
    """The results of a batch so far."""

    def __init__(self, job: Job) -> None:
        self._program = program_of(job)
        self._streams = _fed_streams(self._program)
        self._engine = Engine(self._program, job.clock, layers_of(job), self._emit)
        self._firings = SpillBuffer(FIRINGS, job)
        self._failed = SpilledDeadLetters(job)

    def restore(self, written: bytes) -> None:
        """Continue from the state that `encode` wrote."""
        try:
            passed, states = json.loads(written)
            if passed is None:
                return
            self._engine.restore([state.encode("utf-8", "surrogatepass") for state in states], passed)
        except (StateError, ValueError, TypeError, KeyError) as error:
            raise unreadable_state(error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})")) from None

    def encode(self) -> bytes:
        """The state of all layers as text; empty before the first instant."""
        passed = self._engine.passed
        if passed is None:
            return b"[null, []]"
        states = [state.decode("utf-8", "surrogatepass") for state in self._engine.encode(passed)]
        return json.dumps([passed, states]).encode("utf-8", "surrogatepass")

    def step(self, rows: Sequence[SparkRow]) -> None:
        """Step through the instants of a batch, and through what is due between and after them."""
        engine = self._engine
        spans = [(line.time, int(line.payload)) for line in rows if line.kind == RowKind.SPAN]
        if spans:
            engine.begin(min(spans)[0])
            for time, ports in in_order(instants_of(line.payload) for line in rows if line.kind == RowKind.CHUNK):
                facts = {port: _rows(arrivals) for port, arrivals in ports.items() if port >= 0}
                items: StreamItems = {self._streams[-1 - port]: _rows(arrivals) for port, arrivals in ports.items() if port < 0}
                self._take(engine.match(time, InstantFacts(facts, NO_INCONSISTENCIES), items))
            self._take_all(engine.advance(max(last for _, last in spans)))
        if closed_by(rows) == LAST_MICRO and engine.passed is not None:
            self._take_all(engine.finish())

    def _take_all(self, moments: Iterable[Sequence[Firing]]) -> None:
        for firings in moments:
            self._take(firings)

    def _take(self, firings: Sequence[Firing]) -> None:
        if firings:
            self._emit(list(firings))
        if self._engine.failed:
            self._failed.extend(self._engine.failed)
            self._engine.failed.clear()

    def _emit(self, firings: list[Firing]) -> None:
        self._firings.add(firings, len(firings))

    def lines(self, size: int) -> list[SparkRow]:
        """The results as rows; `size` is that of the state in bytes."""
        out = self._firings.rows(-1)
        contradicted = self._engine.drain_contradicted()
        if contradicted:
            shown = [(each.time, each.text) for each in contradicted[:_MAX_CONTRADICTED_SHOWN]]
            out.append(SparkRow(-1, RowKind.INCONSISTENT, 0, encode_inconsistencies(shown)))
        totals = Totals(dead_letters=self._failed.counted, rules=self._engine.rule_counts, inconsistent=len(contradicted))
        out += self._failed.rows(-1)
        if totals.dead_letters or totals.rules or contradicted:
            out.append(SparkRow(-1, RowKind.COUNTS, 0, encode_totals(totals)))
        counts = tuple(self._engine.event_counts[0])
        out.append(SparkRow(-1, RowKind.STATE, size, encode_size(BucketSize(0, 0, counts, size))))
        return out


def _rows(arrivals: Sequence[tuple[int, AttributeValues]]) -> list[AttributeValues]:
    return [values for _, values in arrivals]
