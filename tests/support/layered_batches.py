"""Programs with units of several languages, run batch by batch in several buckets as on Spark, but without Spark."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from dotr.engine.driver import close_instant, items_of_instant
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.migration import StateMigrator, merge_blocks, state_change
from dotr.engine.state.moves import MovedState, blocks_of_state
from dotr.engine.state.schema import KnowledgeDigests, state_schema
from dotr.engine.state.units import UnitsValue
from dotr.languages.programs import compile_program
from dotr.model.stream import DeadLetter, Firing, output_order
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.runtimes.spark.buckets.bucket_steps import span_row
from dotr.runtimes.spark.buckets.worker import BucketCache, process_batch
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, decode_dead_letters, decode_firings, decode_totals
from dotr.runtimes.spark.tasks.stage_one_task import ChunkRouter

Instants: TypeAlias = Sequence[tuple[Micros, Sequence[tuple[Triple, ...]]]]

_RUNS = itertools.count()


class MemoryStore:
    """The stored state of a bucket, in memory."""

    def __init__(self) -> None:
        self.kept: tuple[bytes, bytes] | None = None
        self.entries: dict[tuple[int, int], bytes] = {}
        self.written = 0

    def value(self) -> tuple[bytes, bytes] | None:
        return self.kept

    def set_value(self, digest: bytes, written: bytes) -> None:
        self.kept = digest, written
        self.written += len(written)

    def read(self, log: int, position: int) -> bytes | None:
        return self.entries.get((log, position))

    def write(self, log: int, position: int, lines: bytes) -> None:
        self.entries[log, position] = lines
        self.written += len(lines)

    def remove(self, log: int, position: int) -> None:
        del self.entries[log, position]


class LayeredRun:
    """A program in buckets. Rows of a bucket come in any order, and a task may be repeated. With a `clock_delay`, `due` is the least time
    that the buckets tell after a batch; `BEGINNING` before one."""

    def __init__(self, spec: ProgramSpec, buckets: int = 2, seed: int = 0, clock_delay: Micros | None = None) -> None:
        self.program = compile_program(spec)
        layers = self.program.layout.stateful_operators
        assert layers == len(self.program.layout.layers), "there is state"
        unit, folder = self.program.spec.unit.written, f"{next(_RUNS)}/query"
        self.job = Job(spec.to_json(), (), (), unit, False, layers, buckets, buckets, 1000, 2, folder, clock_delay=clock_delay)
        self.due: Micros | None = BEGINNING
        self.stores = [[MemoryStore() for _ in range(buckets)] for _ in range(layers)]
        self.dead_letters = 0
        self.letters: list[DeadLetter] = []
        self.seed = seed
        self.caches: list[BucketCache] = [{}, {}]
        self._random = random.Random(seed)

    def batch(self, instants: Instants, closed: Micros, *, is_heartbeat: bool = False) -> list[Firing]:
        """The firings of a batch that ends at a time, which is perhaps a heartbeat, in order."""
        router = ChunkRouter(self.job)
        times: list[Micros] = []
        for time, graphs in instants:
            done = close_instant(self.program, time, graphs)
            if done.facts.rejected:
                continue
            times.append(time)
            items = items_of_instant(self.program.layout.fed_streams, time, graphs, done)
            if done.facts.facts or items:
                router.add(time, done.facts, items)
        if is_heartbeat and closed not in times[-1:]:
            times.append(closed)
        rows = router.lines()
        for layer in range(self.job.layers):
            for key in self.job.keys(layer):
                rows.append(SparkRow(key, RowKind.CLOSED, closed, b""))
                if times and self.program.timed:
                    rows.append(span_row(key, times, self.program.longest_gap))
        firings: list[Firing] = []
        for layer, stores in enumerate(self.stores):
            for bucket, store in enumerate(stores):
                rows += self._bucket(layer, bucket, store, rows)
        for row in rows:
            if row.kind == RowKind.FIRINGS:
                firings += decode_firings(row.payload)
            elif row.kind == RowKind.COUNTS:
                self.dead_letters += sum(decode_totals(row.payload).dead_letters.values())
            elif row.kind == RowKind.DEAD:
                self.letters += decode_dead_letters(row.payload)
        self.due = min((int(row.payload) for row in rows if row.kind == RowKind.DUE), default=None)
        return sorted(firings, key=output_order)

    def _bucket(self, layer: int, bucket: int, store: MemoryStore, rows: Sequence[SparkRow]) -> list[SparkRow]:
        key = self.job.keys(layer)[bucket]
        own = [row for row in rows if row.key == key]
        self._random.shuffle(own)
        if self._random.random() < 0.1:  # the task fails at its end and is retried
            kept, entries = store.kept, dict(store.entries)
            process_batch(self.job, layer, bucket, own, store, self._random.choice(self.caches))
            store.kept, store.entries = kept, entries
        return process_batch(self.job, layer, bucket, own, store, self._random.choice(self.caches))


def in_layers(spec: ProgramSpec, instants: Instants, cuts: Sequence[int], buckets: int = 2, seed: int = 0) -> list[Firing]:
    """The firings of instants in batches that end before the cuts; the last one ends the stream."""
    run = LayeredRun(spec, buckets, seed)
    firings: list[Firing] = []
    ends = [*cuts, len(instants)]
    for start, end in zip([0, *cuts], ends, strict=True):
        firings += run.batch(instants[start:end], LAST_MICRO if end == len(instants) else instants[end][0] - 1)
    return firings


def moved_to(run: LayeredRun, buckets: int, now: Micros, spec: ProgramSpec | None = None) -> LayeredRun:
    """A run whose state was moved to `buckets` buckets at a time, as a start on Spark moves it; `spec`: a changed program."""
    before = state_schema(run.program, knowledge="k")
    change = state_change(before, run.program if spec is None else compile_program(spec), now, KnowledgeDigests("k", "k"))
    moved = LayeredRun(replace(spec or run.program.spec, since=change.since), buckets, run.seed)
    clock = Clock(moved.program.spec.unit)
    migrator = StateMigrator(change.before, change.after, moved.program, clock, buckets, run.job.buckets)
    parts: dict[tuple[int, int], list[bytes]] = {}
    passed: set[Micros | None] = set()
    for layer, stores in enumerate(run.stores):
        for bucket, store in enumerate(stores):
            if store.kept is None:
                continue
            units = UnitsValue.decode(store.kept[1])
            if units is not None:
                passed.add(units.passed)
                for place, part in migrator.redistribute_units(bucket, units, store).items():
                    parts.setdefault(place, []).append(part.encode())
                continue
            state = blocks_of_state(store.kept[1], [(log, lines) for (log, _), lines in sorted(store.entries.items())])
            passed.add(state.passed)
            for place, piece in migrator.divide(layer, bucket, state).items():
                parts.setdefault(place, []).append(piece.encode())
    until = max((time for time in passed if time is not None), default=None)
    for layer, placed in enumerate(moved.program.layout.layers):
        for bucket, store in enumerate(moved.stores[layer]):
            texts = parts.get((layer, bucket), [])
            if placed.units:
                of_units = [UnitsValue.decode(text) for text in texts]
                store.kept = b"moved", migrator.unite_units([each for each in of_units if each is not None], until).encode()
            else:
                of_rules = [MovedState.decode(text) for text in texts]
                whole = merge_blocks(placed, [each for each in of_rules if each is not None], until, migrator.kept_order(layer))
                store.kept = b"moved", whole.encode()
    return moved
