"""Partitioned evaluation equals evaluation in one process: keys, ports, layers and states, without
Spark.

A layer's state is split over buckets. Each bucket is stepped separately with the events that the
router sends to it. Its events arrive at the layers above in random order, and its state is encoded
and restored at random. The output equals the engine's, fresh names included.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache

import pytest

import dotr
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing, Instant, output_order
from dotr.model.terms import Triple
from dotr.model.time import Clock
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.merge.bounded import merged
from dotr.temporal.layout.keys import AnyPartition, KeyedPartitions, SinglePartition
from dotr.temporal.matching.state import State
from tests.oracle.cases import CaseFile, read_folder
from tests.support.paths import ROOT
from tests.support.running import cut_into_stages, in_batches, outputs, run_engine


class Partitioned:
    """The engine in buckets. `seed` determines the order of steps and when states are encoded or
    expired."""

    def __init__(self, program: CompiledProgram, clock: Clock, buckets: int, seed: int) -> None:
        self.program = program
        self.layers = program.stage_two(clock)
        self.router = program.router(buckets)
        self.states: dict[tuple[int, int], State] = {}
        self.random = random.Random(seed)
        self.used: list[set[int]] = [set() for _ in self.layers]

    def step(self, instant: Instant) -> list[Firing]:
        firings: list[Firing] = []
        deliveries = self.router.facts(self.program.stage_one.evaluate(instant).facts, instant.time)
        for number, layer in enumerate(self.layers):
            arrived = list(deliveries[number].items())
            self.random.shuffle(arrived)
            for bucket, arrivals in arrived:
                self.used[number].add(bucket)
                state = self.states.pop((number, bucket), None) or layer.start()
                done = layer.step(state, instant.time, arrivals, bucket)
                firings += done.firings
                self.states[number, bucket] = self.handled(number, state, instant.time)
                events = list(done.events)
                self.random.shuffle(events)
                for above, further in enumerate(self.router.events(events, number, instant.time)):
                    for target, ports in further.items():
                        for port, sent in ports.items():
                            deliveries[above].setdefault(target, {}).setdefault(port, []).extend(sent)
        return sorted(firings, key=output_order)

    def handled(self, layer: int, state: State, now: int) -> State:
        """The changes that a runtime may make to a state between two instants."""
        if self.random.random() < 0.3:
            state.expire(now + 1)
        return self.layers[layer].restore(state.encode()) if self.random.random() < 0.3 else state


def same(program: CompiledProgram, instants: Iterable[Instant], clock: Clock, buckets: int, seed: int = 1) -> tuple[int, Partitioned]:
    """Compares the engine with a partitioned run; returns the number of firings, and the latter."""
    engine, parted, fired = Engine(program, clock), Partitioned(program, clock, buckets, seed), 0
    for instant in instants:
        firings = engine.match(instant.time, program.stage_one.evaluate(instant))
        assert parted.step(instant) == firings
        fired += len(firings)
    return fired, parted


# --- the city ---


def test_city_program_is_partitioned_without_change() -> None:
    pipeline = build(read_config(str(ROOT / "configs/city.yaml")), fresh=False, on_spark=True)
    instants = [merge(now, [triples for _, triples in elements]) for now, elements in merged(pipeline.inputs, lambda letter: None)]
    fired, parted = same(pipeline.program, instants, pipeline.clock, 5)
    assert fired == 168
    assert parted.used == [set(range(5)), set(range(5))]


# --- the cases ---

FILES = read_folder(ROOT / "tests/cases")


@cache
def loaded(name: str) -> CompiledProgram:
    file: CaseFile = FILES[name]
    return dotr.Program.load(file.rules, file.graphs, file.datalog, entailment=file.entailment, prefixes=file.prefixes, unit=file.unit)


@pytest.mark.parametrize("buckets", [2, 5, 64])
@pytest.mark.parametrize("name", FILES)
def test_cases(name: str, buckets: int) -> None:
    """Programs with delays or ticks are stepped in batches, layer by layer; all others by instants."""
    for number, case in enumerate(FILES[name].cases):
        if loaded(name).timed:
            times = [element.time for element in case.elements]
            cuts = random.Random(number).choices(times, k=3) if times else []
            firings = in_batches(loaded(name), case.elements, case.clock, buckets, cuts)
            assert outputs(firings) == list(run_engine(loaded(name), case.elements, case.clock).outputs)
            continue
        by_time: dict[int, list[tuple[Triple, ...]]] = {}
        for element in case.elements:
            by_time.setdefault(element.time, []).append(element.triples)
        same(loaded(name), [merge(time, by_time[time]) for time in sorted(by_time)], case.clock, buckets, number)


@pytest.mark.parametrize("name", FILES)
def test_cases_cut_into_stages(name: str) -> None:
    cut = cut_into_stages(loaded(name))
    for number, case in enumerate(FILES[name].cases if cut is not None else ()):
        times = [element.time for element in case.elements]
        cuts = random.Random(number).choices(times, k=3) if times else []
        assert cut is not None
        firings = in_batches(cut, case.elements, case.clock, 3, cuts)
        assert outputs(firings) == list(run_engine(loaded(name), case.elements, case.clock).outputs)


# --- programs of all kinds of partitioning ---

SELECT = "SELECT ?k ?v WHERE { ?x a :%s ; :k ?k ; :v ?v }"
A, B, C = (f"{label} = [ {SELECT % label} ]" for label in "ABC")

KEYED = f"""
rule Pair define P = [ dotr_id :k ?k ; :a ?a ; :b ?b ]
from {A} and each B = [ SELECT ?k ?v WHERE {{ ?x a :B ; :k ?k ; :v ?v . FILTER (?k = A.?k) }} ] within [0, 9 s] from A
with P.?k = A.?k, P.?a = A.?v, P.?b = B.?v
"""
CONSUMING = KEYED.replace("each", "last") + "consuming B"
SINGLE = f"""
rule Loose define P = [ dotr_id :a ?a ; :b ?b ]
from {A} and last B = [ SELECT ?k ?v WHERE {{ ?x a :B ; :k ?k ; :v ?v . FILTER (?v > A.?v) }} ] within 7 s from A
with P.?a = A.?v, P.?b = B.?v
"""
SPREAD = f"""
rule Alone define P = [ dotr_id :k ?k ]
from {A} with P.?k = A.?k
"""
UNDER_ANOTHER_KEY = """
rule Above define Q = [ dotr_id :b ?b ; :n ?n ]
from P and each C = [ SELECT ?k ?v WHERE { ?x a :C ; :k ?k ; :v ?v . FILTER (?v = P.?b) } ] within [0, 9 s] from P
with Q.?b = P.?b, Q.?n = C.?k
"""
UNDER_NO_KEY = """
rule Count define Q = [ dotr_id :a ?a ; :b ?b ]
from P and last P as Before within 9 s from P
with Q.?a = P.?a, Q.?b = Before.?b
"""
UNDER_THE_SAME_KEY = """
rule Above define Q = [ dotr_id :k ?k ]
from P and first P as Before [ FILTER (?k = P.?k) ] within 9 s from P
with Q.?k = P.?k
"""
THREE = """
rule Top define R = [ dotr_id :b ?b ]
from Q and each Q as Before [ FILTER (?n = Q.?n) ] within [0, 9 s] from Q
with R.?b = Before.?b
"""
ALONE_OVER_EVENTS = """
rule Copy define Q = [ dotr_id :a ?a ]
from P with Q.?a = P.?a
"""
OF_TWO_RULES = (
    KEYED
    + f"""
rule Other define P = [ dotr_id :k ?k ; :a ?a ; :b ?b ]
from D = [ {SELECT % "C"} ] with P.?k = D.?v, P.?a = D.?v, P.?b = D.?k
"""
)

PROGRAMS: dict[str, tuple[str, set[type], int]] = {
    "keyed": (KEYED, {KeyedPartitions}, 1),
    "consuming": (CONSUMING, {KeyedPartitions}, 1),
    "single": (SINGLE, {SinglePartition}, 1),
    "spread": (SPREAD, {AnyPartition}, 1),
    "two keys": (KEYED + UNDER_ANOTHER_KEY, {KeyedPartitions}, 2),
    "keyed, then single": (KEYED + UNDER_NO_KEY, {KeyedPartitions, SinglePartition}, 2),
    "single, then keyed": (SINGLE + UNDER_ANOTHER_KEY, {KeyedPartitions, SinglePartition}, 2),
    "one key, one layer": (KEYED + UNDER_THE_SAME_KEY, {KeyedPartitions}, 1),
    "three layers": (KEYED + UNDER_ANOTHER_KEY + THREE, {KeyedPartitions}, 3),
    "alone over keyed events": (KEYED + ALONE_OVER_EVENTS, {KeyedPartitions}, 1),
    "alone over events of one partition": (SINGLE + ALONE_OVER_EVENTS, {SinglePartition, AnyPartition}, 1),
    "alone over spread events": (SPREAD + ALONE_OVER_EVENTS.replace("?a", "?k"), {AnyPartition}, 2),
    "spread, then keyed": (SPREAD + UNDER_THE_SAME_KEY, {AnyPartition, KeyedPartitions}, 2),
    "an event of two rules": (OF_TWO_RULES + UNDER_ANOTHER_KEY, {KeyedPartitions, AnyPartition}, 2),
    "an event of two rules, consumed": (OF_TWO_RULES + UNDER_THE_SAME_KEY + "consuming Before", {KeyedPartitions, AnyPartition}, 2),
}


@cache
def compiled(text: str) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("p.dotr", "PREFIX : <http://e/>" + text),)))


def stream(seed: int) -> list[Instant]:
    """Forty random instants of few keys and values.

    Some elements are repeated with other blank nodes, so that there are equal matches. Equal keys
    and values may be different terms (1 and 1.0).
    """
    choose = random.Random(seed)
    integer, decimal = "<http://www.w3.org/2001/XMLSchema#integer>", "<http://www.w3.org/2001/XMLSchema#decimal>"
    values = [f'"{n}"^^{integer}' for n in range(4)] + [f'"1.0"^^{decimal}', f'"02"^^{integer}']
    now, instants = 0, []
    for _ in range(40):
        now += choose.choice([1, 1, 2, 5]) * 1_000_000
        elements: list[tuple[Triple, ...]] = []
        for _ in range(choose.randint(0, 5)):
            about = ("<http://e/k>", choose.choice(values)), ("<http://e/v>", choose.choice(values))
            kind = choose.choice("ABC")
            triples: Sequence[Triple] = [
                ("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<http://e/{kind}>"),
                *(("_:0", predicate, value) for predicate, value in about if choose.random() < 0.95),
            ]
            elements += [tuple(triples)] * choose.choice([1, 1, 1, 2])
        instants.append(merge(now, elements))
    return instants


def test_streams_hold_equal_matches() -> None:
    program, equal = compiled(KEYED), 0
    engine = Engine(program, Clock())
    for instant in stream(0):
        firings = engine.match(instant.time, program.stage_one.evaluate(instant))
        equal += len(firings) - len({firing.attributes for firing in firings})
        assert len({firing.graph for firing in firings}) == len(firings)
    assert equal > 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, splits, layers = PROGRAMS[name]
    program = compiled(text)
    assert {type(placed.split) for layer in program.layout.layers for placed in layer.rules} == splits
    assert len(program.layout.layers) == layers
    by_rule = dict.fromkeys((rule.name for rule in program.rules.rules), 0)
    for seed in range(4):
        for buckets in (1, 2, 5):
            _, parted = same(program, stream(seed), Clock(), buckets, seed)
        engine = Engine(program, Clock())
        for instant in stream(seed):
            for firing in engine.match(instant.time, program.stage_one.evaluate(instant)):
                by_rule[firing.rule] += 1
    assert all(by_rule.values())
    busy = [len(used) for used in parted.used]
    assert max(busy) > 1 or SinglePartition in splits


def test_every_kind_of_partitioning_is_covered() -> None:
    assert {split for _, splits, _ in PROGRAMS.values() for split in splits} == {KeyedPartitions, SinglePartition, AnyPartition}


def test_single_partition_is_one_bucket() -> None:
    program = compiled(KEYED + UNDER_ANOTHER_KEY)
    fired, parted = same(program, stream(3), Clock(), 1)
    assert fired
    assert parted.used == [{0}, {0}]
