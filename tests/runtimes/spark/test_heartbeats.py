"""Heartbeats of the pipeline's clock in batches, without Spark: the events of one engine, and no batch more than needed."""

from __future__ import annotations

import json
import os
import random
import time as clock
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, FedGraph, Firing
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros, Unit
from dotr.runtimes.spark.checkpoint.figures import read_due, read_inputs, write_due
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, START, Cut, Offset
from dotr.runtimes.spark.planning.live_planner import Scanner
from dotr.runtimes.spark.planning.planner import ScannedInput, ScannedPlan
from dotr.streams.merge.live import Heartbeats
from dotr.streams.merge.paces import NoRateLimit
from dotr.streams.records import Format, InputFile
from dotr.syntax.turtle.graphs import read_graph
from tests.oracle.arrivals import Input
from tests.runtimes.spark.test_live_batches import read
from tests.support.layered_batches import LayeredRun
from tests.support.patience import PATIENCE
from tests.support.properties import examples
from tests.support.running import by_time
from tests.support.scripts import World
from tests.support.strategies import PLAIN, ProgramText, programs
from tests.support.strategies_continuous import ContinuousProgram, continuous_programs
from tests.support.strategies_lars import LarsProgram, lars_programs
from tests.support.strategies_streams import streams
from tests.support.strategies_temporal import TemporalProgram, temporal_programs

SECOND = 1_000_000
PREFIXES = {"": "http://example.org/", "owl": "http://www.w3.org/2002/07/owl#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}
Timeline = Sequence[tuple[Micros, list[tuple[Triple, ...]]]]
"""Instants, and heartbeats as times without graphs, in order."""


def in_process(spec: ProgramSpec, timeline: Timeline) -> tuple[list[Firing], list[DeadLetter]]:
    engine = Engine(compile_program(spec), Clock(spec.unit))
    firings: list[Firing] = []
    for time, graphs in timeline:
        firings += engine.step(time, graphs)[0] if graphs else [each for moment in engine.advance(time) for each in moment]
    return firings + [each for moment in engine.finish() for each in moment], engine.failed


def on_spark(spec: ProgramSpec, timeline: Timeline, buckets: int, seed: int) -> tuple[list[Firing], list[DeadLetter], int]:
    """The firings and dead letters of batches as the planner makes them, and the number of batches of heartbeats alone."""
    run, firings, made, skipped = LayeredRun(spec, buckets, seed, clock_delay=SECOND), list[Firing](), 0, None
    chance = random.Random(seed)
    waiting: list[tuple[Micros, list[tuple[Triple, ...]]]] = []
    for time, graphs in timeline:
        if graphs:
            waiting.append((time, graphs))
            if chance.random() < 0.5:
                firings += run.batch(waiting, time + chance.randrange(2) * 10)
                waiting, skipped = [], None
        elif waiting or (run.due is not None and run.due <= time):
            made += not waiting
            firings += run.batch(waiting, time, is_heartbeat=True)
            waiting, skipped = [], None
        else:
            skipped = time
    if skipped is not None and run.due is not None:
        firings += run.batch([], skipped, is_heartbeat=True)
    return firings + run.batch(waiting, LAST_MICRO), run.letters, made


def compare(spec: ProgramSpec, instants: dict[Micros, list[tuple[Triple, ...]]], chance: random.Random) -> None:
    """Compare batches with one engine, over instants with heartbeats among them; the first and the last one are perhaps far away."""
    try:
        program = compile_program(spec)
    except Refused:
        assume(False)
    assume(program.layout.stateful_operators > 0)
    first, last, found = min(instants, default=0), max(instants, default=0), dict(instants)
    for _ in range(chance.randrange(12)):
        found.setdefault(chance.randrange(first - 8 * SECOND, last + 20 * SECOND), [])
    timeline = sorted(found.items())
    for document in (*spec.rules, *spec.datalog):
        note(f"{document.name}:\n{document.text}")
    note(str([(time, len(graphs)) for time, graphs in timeline]))
    seed, buckets = chance.randrange(1 << 30), chance.choice([1, 2, 3])
    expected, letters = in_process(spec, timeline)
    assume(len(expected) < 1_000)
    firings, found_letters, _ = on_spark(spec, timeline, buckets, seed)
    assert firings == expected
    assert sorted(found_letters) == sorted(letters)


def instants_of(elements: Sequence[tuple[float, str, str]], spec: ProgramSpec) -> dict[Micros, list[tuple[Triple, ...]]]:
    """The instants of elements: seconds, the name of the stream, and Turtle."""
    found: dict[Micros, list[tuple[Triple, ...]]] = {}
    for at, name, turtle in elements:
        found.setdefault(int(at * SECOND), []).append(FedGraph.on("http://example.org/" + name, read_graph(turtle, spec.prefixes, 100)))
    return found


def spec_of(**texts: str) -> ProgramSpec:
    return ProgramSpec(tuple(Document(name.replace("_", "."), text) for name, text in texts.items() if text), prefixes=PREFIXES)


@given(programs(PLAIN), streams(), st.randoms(use_true_random=False))
@examples(12)
def test_random_rules(text: ProgramText, elements: list[Element], chance: random.Random) -> None:
    compare(replace(spec_of(r_dotr=text.rules), unit=text.clock.unit), by_time(elements), chance)


@given(continuous_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_queries_and_rules(program: ContinuousProgram, chance: random.Random) -> None:
    spec = replace(spec_of(q_rspql=program.queries, r_dotr=program.rules), origin=program.origin * SECOND)
    compare(spec, instants_of(program.elements, spec), chance)


@given(lars_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_lars_files(program: LarsProgram, chance: random.Random) -> None:
    spec = spec_of(a_lars=program.first, b_lars=program.later, r_dotr=program.rules, q_rspql=program.queries)
    compare(spec, instants_of([(at, "in", turtle) for at, turtle in program.elements], spec), chance)


@given(temporal_programs(), st.randoms(use_true_random=False))
@examples(4)
def test_random_epsparql_units(program: TemporalProgram, chance: random.Random) -> None:
    spec = spec_of(q_epsparql=program.units, r_dotr=program.rules)
    compare(spec, instants_of([(at, "in", turtle) for at, turtle in program.elements], spec), chance)


# The planner, its tasks and the buckets together, with kills.

RULES = """
PREFIX : <http://example.org/>
query A = [ SELECT ?s WHERE { ?s <x:> ?o } ]
rule Left define Left = [ [] :x ?s ] from A as B delayed by 4 s with Left.?s = B.?s
rule Tick define Tick = [ [] :n ?n ] from every 7 s as T and ?n = count(*) of A within 7 s from T with Tick.?n = ?n
rule Alone define Alone = [ [] :x ?s ] from Left and not A within 3 s from Left with Alone.?s = Left.?s
"""
POINTS = "Seen(?s) :- <x:>(?s, ?o) IN [6 s, 9 s] .  REPORT Seen(?s) .  REPORT ENDED Seen(?s) AS Over ."
DELAY = 2 * SECOND


class Site:
    """A machine on which a pipeline runs: its time, two inputs that grow, the log of offsets, and the buckets."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.size = self.chance.choice([1, 2, 4])
        self.spec = spec_of(r_dotr=RULES, l_lars=POINTS)
        self.world = World([Input(delay=SECOND), Input()], [])
        self.now = 1_000 * SECOND
        self.run = LayeredRun(self.spec, 2, seed, clock_delay=DELAY)
        self.offsets = [Offset.start(2)]
        self.firings: list[Firing] = []
        self.elements: list[tuple[int, tuple[int, int]]] = []
        self.dead: list[tuple[int, int, str]] = []
        self.alone = 0
        self.start()

    def start(self) -> None:
        """Start the planner at the last offset, after a batch that is logged is done again."""
        scanned = []
        for feed, place in zip(self.world.feeds, self.offsets[-1].positions, strict=True):
            feed.place = place.file * feed.length + place.offset
            delay = feed.spec.delay
            scanned.append(ScannedInput.starting_at(place, feed, delay, single=False, idle=None, pace=NoRateLimit(), bounded=False))
        heartbeats = Heartbeats(DELAY, lambda: self.now, lambda: self.run.due)
        self.plan = ScannedPlan(scanned, self.offsets[-1], self.size, 2, lambda: self.now / SECOND, heartbeats)

    def batch(self, start: Offset, cuts: Sequence[Cut]) -> None:
        """Run a batch; the driver may be killed at its end, and does it again."""
        end = self.offsets[-1]
        elements, rejected = read(self.world, start, cuts)
        together: dict[Micros, list[tuple[Triple, ...]]] = {}
        for time, (number, place) in elements:
            together.setdefault(time, []).append(((f"<x:{number}-{place}>", "<x:>", "<x:>"),))
        instants = sorted(together.items())
        kept = [[(store.kept, dict(store.entries)) for store in layer] for layer in self.run.stores]
        firings = self.run.batch(instants, end.time, is_heartbeat=end.is_heartbeat)
        if self.chance.random() < 0.2:
            for layer, stored in zip(self.run.stores, kept, strict=True):
                for store, (value, entries) in zip(layer, stored, strict=True):
                    store.kept, store.entries = value, entries
            self.run.caches = [{}, {}]
            assert self.run.batch(instants, end.time, is_heartbeat=end.is_heartbeat) == firings
        self.firings += firings
        self.elements += elements
        self.dead += rejected
        self.alone += not elements and not rejected

    def proceed(self) -> None:
        """Plan and run all batches that are there to be made; the planner or the driver may be killed."""
        while True:
            while self.plan.scan(machine=self.now):
                pass
            start = self.offsets[-1]
            cuts = self.plan.cuts()
            if self.chance.random() < 0.1:  # before the offset is logged
                self.start()
                self.run.due = self.chance.choice([self.run.due, BEGINNING])
                continue
            if not cuts:
                return
            self.offsets.append(self.plan.offset)
            if self.chance.random() < 0.1:  # behind it
                self.start()
                again = Site.replanned(self, start)
                cuts = [again]
                self.start()
            self.batch(start, cuts)

    def replanned(self, start: Offset) -> Cut:
        last = self.offsets.pop()
        self.start()
        cut = self.plan.replan(last)
        self.offsets.append(last)
        return cut


@pytest.mark.parametrize("seed", range(int(os.environ.get("DOTR_EXAMPLES", 6))))
def test_kills_change_no_event(seed: int) -> None:
    """Each element is taken once or is a dead letter once, and the events are those of one engine over the same heartbeats."""
    site = Site(seed)
    chance = random.Random(-seed)
    for _ in range(60):
        site.now += chance.choice([100_000, 300_000, 900_000, 900_000, 5 * SECOND, 20 * SECOND])
        for _ in range(chance.choice([0, 0, 1, 1, 3, 6])):
            feed = chance.choice(site.world.feeds)
            feed.times.append(site.now - chance.choice([0, 0, 100_000, 500_000, 1_500_000, 2 * SECOND, 4 * SECOND]))
        site.proceed()
    for feed in site.world.feeds:
        feed.finished = True
    site.proceed()
    assert site.offsets[-1].ended
    records = [(number, place) for number, feed in enumerate(site.world.feeds) for place in range(len(feed.times))]
    assert sorted([*(each for _, each in site.elements), *((number, place) for number, place, _ in site.dead)]) == records
    assert {reason for _, _, reason in site.dead} <= {"late", "clock"}
    times = [offset.time for offset in site.offsets]
    assert times == sorted(times)
    found: dict[Micros, list[tuple[Triple, ...]]] = {offset.time: [] for offset in site.offsets if offset.is_heartbeat}
    for time, (number, place) in site.elements:
        found.setdefault(time, []).append(((f"<x:{number}-{place}>", "<x:>", "<x:>"),))
    expected, _ = in_process(site.spec, sorted(found.items()))
    assert site.firings == expected
    assert {firing.rule for firing in expected} == {"Left", "Tick", "Alone", "Seen", "Over"}


def test_hour_with_nothing_due_makes_no_batch() -> None:
    world = World([Input()], [])
    feed, now = world.feeds[0], [0]
    scanned = ScannedInput.starting_at(START, feed, 0, single=False, idle=None, pace=NoRateLimit(), bounded=False)
    due: list[Micros | None] = [BEGINNING]
    heartbeats = Heartbeats(SECOND, lambda: now[0], lambda: due[0])
    plan = ScannedPlan([scanned], Offset.start(1), 10, 1, lambda: now[0] / SECOND, heartbeats)
    made = []
    for second in range(3_700):
        now[0] = second * SECOND
        plan.scan(machine=now[0])
        if plan.cuts():
            made.append((second, plan.offset.time // SECOND, plan.offset.is_heartbeat))
            due[0] = 3_650 * SECOND if second < 3_600 else None
    assert made == [(1, -1, True), (3_652, 3_650, True)], "the first heartbeat, and that at which something is due"
    assert heartbeats.last > 3_690 * SECOND
    assert Offset.of_json(plan.offset.to_json()) == plan.offset


def test_planner_reads_what_is_due_after_each_batch(tmp_path: Path) -> None:
    """Of growing inputs as a run plans them: where nothing is told, the next heartbeat is a batch; then that at which something is due. An
    element far ahead is told once, with its place."""
    (tmp_path / "in").mkdir()
    like = InputFile("in", "", Format.NDJSON, unit=Unit.MICROSECOND)
    growing = json.dumps([f"{tmp_path}/in/*", 0, None, True])
    job = Job("{}", (like.to_json(),), (0,), "us", False, 1, 1, 1, 10, 1, f"{tmp_path}/query", growing=(growing,), clock_delay=100_000)
    scanner = Scanner(job, Offset.start(1))

    def batch() -> Offset:
        deadline = clock.monotonic() + PATIENCE
        while not scanner.batch():
            assert clock.monotonic() < deadline
        return scanner.offset

    try:
        first = batch()
        assert first.is_heartbeat
        write_due(tmp_path, None)
        assert not any(scanner.batch() for _ in range(5)), "nothing is due"
        scanner.stop()
        scanner = Scanner(job, first)
        due = clock.time_ns() // 1_000 + SECOND
        write_due(tmp_path, due)
        assert batch().time >= due
        far = due + 2 * 86_400 * SECOND
        (tmp_path / "in/a.ndjson").write_text(f'{{"time": {far}, "graph": ""}}\n')
        deadline = clock.monotonic() + PATIENCE
        while (found := read_inputs(tmp_path)).ahead is None:
            assert clock.monotonic() < deadline
    finally:
        scanner.stop()
    assert found.ahead == ("in", str(tmp_path / "in/a.ndjson"), 1, far)
    assert found.heartbeat is not None
    assert found.heartbeat >= due
    assert found.connections == {}
    assert [name for name, _, _ in found.watermarks] == ["in"]
    (tmp_path / "due.json").write_text("no number")
    assert read_due(tmp_path) == BEGINNING
