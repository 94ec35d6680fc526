"""Units beside layers of rules: buckets, rows and state of a program, without Spark, and on it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.engine.state import bucket as bucket_state
from dotr.engine.state import pages as paged_state
from dotr.engine.state import segments as segment_store
from dotr.engine.state import units as unit_state
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Firing
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.syntax.turtle.graphs import read_graph
from tests.support.crashes import lines_after_a_crash
from tests.support.layered_batches import Instants, LayeredRun, in_layers
from tests.support.properties import examples
from tests.support.strategies_continuous import ContinuousProgram, continuous_programs
from tests.support.strategies_lars import LarsProgram, lars_programs
from tests.support.strategies_temporal import TemporalProgram, temporal_programs

SECOND = 1_000_000
QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Hot AS SELECT ?x (MAX(?v) AS ?most)
FROM NAMED WINDOW <w> ON <sensors> [RANGE 10s STEP 5s] WHERE { WINDOW <w> { ?x :v ?v FILTER(?v > 60) } } GROUP BY ?x
REGISTER ISTREAM Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <sensors> [RANGE 10s STEP 5s] { ?x :v ?v }
REGISTER DSTREAM Gone AS SELECT ?x ?n FROM WINDOW ON <sensors> [RANGE 6s STEP 2s] { ?x :n ?n }
REGISTER RSTREAM Total AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <Seen> [RANGE 20s STEP 10s REPORT ON WINDOW CLOSE] { WINDOW <w> { ?x a :Seen } }
"""
RULES = """\
PREFIX : <http://example.org/>
rule Alarm define Alarm = [ [] :of ?x ; :most ?m ] from Hot with Alarm.?x = Hot.?x, Alarm.?m = Hot.?most
rule Twice define Twice = [ [] :of ?x ]
from Alarm and last Alarm as Old [ FILTER(?x = Alarm.?x) ] within 10 s from Alarm with Twice.?x = Alarm.?x
rule Late define Late = [ [] :of ?x ] from R = [ SELECT ?x { ?x :v ?v FILTER(?v > 85) } ] delayed by 9 s with Late.?x = R.?x
"""
SPEC = ProgramSpec((Document("q.rspql", QUERIES), Document("r.dotr", RULES)))
PREFIXES = {"": "http://example.org/"}
RANDOM_PREFIXES = {**PREFIXES, "owl": "http://www.w3.org/2002/07/owl#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}

# Rules below a query below rules; CONSTRUCT read by a query. Delayed anchors feed queries after the last instant, one of them
# through a query that reports at content changes only.
MIXED_QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Recent AS SELECT ?x (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <Late> [RANGE 8s STEP 4s] WHERE { WINDOW <w> { ?e :of ?x } } GROUP BY ?x
REGISTER RSTREAM Copied AS CONSTRUCT { ?x :late true } FROM NAMED WINDOW <w> ON <Late> [RANGE 20s REPORT ON CONTENT CHANGE]
WHERE { WINDOW <w> { ?e :of ?x } }
REGISTER ISTREAM Sums AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <Copied> [RANGE 12s STEP 3s REPORT ON WINDOW CLOSE] WHERE { WINDOW <w> { ?x :late true } }
REGISTER RSTREAM Both AS SELECT ?x
FROM NAMED WINDOW <v> ON <sensors> [ELEMENTS 3] FROM NAMED WINDOW <w> ON <Pair> [RANGE 30s STEP 10s]
WHERE { WINDOW <v> { ?x :v ?v } WINDOW <w> { ?e :of ?x } }
"""
MIXED_RULES = """\
PREFIX : <http://example.org/>
query Reading = [ SELECT ?x ?v { ?x :v ?v } ]
rule Pair define Pair = [ [] :of ?x ; :gap ?gap ] from Reading
and last Reading as Old [ FILTER(?x = Reading.?x) ] within 9 s from Reading with Pair.?x = Reading.?x, Pair.?gap = Reading.?v - Old.?v
rule Late define Late = [ [] :of ?x ] from Pair as P delayed by 11 s with Late.?x = P.?x
rule Ticked define Ticked = [ [] :n ?n ] from every 7 s as T and ?n = count(*) of Recent within 14 s from T with Ticked.?n = ?n
rule Echo define Echo = [ [] :n ?n ] from Sums and last Pair within 20 s from Sums with Echo.?n = Sums.?n
"""
MIXED = ProgramSpec((Document("q.rspql", MIXED_QUERIES), Document("r.dotr", MIXED_RULES)))

PAGED_QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Recent AS SELECT ?x (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <sensors> [RANGE 8s STEP 3s] WHERE { WINDOW <w> { ?x :v ?v } } GROUP BY ?x
"""
PAGED_RULES = """\
PREFIX : <http://example.org/>
query Reading = [ SELECT ?x ?v { ?x :v ?v } ]
rule Pair define Pair = [ [] :of ?x ; :gap ?gap ] from Reading
and each Reading as Old [ FILTER(?x = Reading.?x) ] within 30 s from Reading with Pair.?x = Reading.?x, Pair.?gap = Reading.?v - Old.?v
rule Above define Above = [ [] :of ?x ; :n ?n ] from Recent
and each Recent as Old [ FILTER(?x = Recent.?x) ] within 20 s from Recent with Above.?x = Recent.?x, Above.?n = Recent.?n - Old.?n
"""
PAGED = ProgramSpec((Document("q.rspql", PAGED_QUERIES), Document("r.dotr", PAGED_RULES)))

# Windows by time with and without a lower bound, runs and counts of LARS beside queries, and rules that read its REPORTs.
LARS = """\
Before(?x) :- :v(?x, ?v) IN [5 s, 20 s], FILTER(?v > 80) .  REPORT Before(?x) .
Hot(?x) AT ?t :- :v(?x, ?v) AT ?t IN [6 s], FILTER(?v > 60) .
Lasting(?x) :- Hot(?x) ALWAYS IN [1 s] .
Kept(?x, ?v) :- :v(?x, ?v) IN [LAST 2 PER ?x] .
REPORT Lasting(?x) .  REPORT ENDED Lasting(?x) AS Over .  REPORT ENDED Kept(?x, ?v) AS Displaced .
Again(?x) :- EVENT Alarm(?x) AT ?t IN [20 s], EVENT Alarm(?x) AT ?u IN [20 s], FILTER(?t < ?u) .  REPORT Again(?x) .
"""
READER = "PREFIX : <http://example.org/> rule Calm define Calm = [ [] :of ?x ] from Over with Calm.?x = Over.?x"
LARS_EVENTS = {"Before", "Lasting", "Over", "Displaced", "Again", "Calm"}
WITH_LARS = ProgramSpec((*SPEC.rules, Document("l.lars", LARS), Document("l.dotr", READER)), prefixes=PREFIXES)


def stream(seed: int) -> list[tuple[int, str]]:
    """Elements: seconds and Turtle."""
    chance, now, found = random.Random(seed), 0, []
    for number in range(40):
        now += chance.choice([0, 1, 1, 2, 3, 7])
        found.append((now, f":s{chance.randrange(4)} :v {chance.randrange(40, 90)} ; :n [ :m {number} ] ."))
    return found


def instants_of_stream(seed: int) -> list[tuple[Micros, list[tuple[Triple, ...]]]]:
    elements = stream(seed)
    return [
        (now * SECOND, [FedGraph.on("sensors", read_graph(text, PREFIXES, 100)) for at, text in elements if at == now])
        for now in sorted({now for now, _ in elements})
    ]


def by_one_engine(spec: ProgramSpec, instants: Instants) -> list[Firing]:
    engine = Engine(compile_program(spec), Clock())
    firings = [firing for time, graphs in instants for firing in engine.step(time, graphs)[0]]
    return firings + [firing for moment in engine.finish() for firing in moment]


PROGRAMS = {
    "queries below rules": (SPEC, {"Alarm", "Twice", "Late", "Hot", "Seen", "Gone", "Total"}),
    "mixed": (MIXED, {"Pair", "Late", "Recent", "Copied", "Sums", "Both", "Ticked", "Echo"}),
    "lars": (WITH_LARS, {"Alarm", "Twice", "Late", "Hot", "Seen", "Gone", "Total", *LARS_EVENTS}),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_batches_and_buckets_equal_one_engine(name: str, seed: int) -> None:
    spec, rules = PROGRAMS[name]
    instants = instants_of_stream(seed)
    expected = by_one_engine(spec, instants)
    assert {firing.rule for firing in expected} == rules
    chance = random.Random(seed)
    for count, buckets in ((0, 1), (3, 2), (len(instants) - 1, 3), (9, 5)):
        cuts = sorted(chance.sample(range(1, len(instants)), count))
        assert in_layers(spec, instants, cuts, buckets, seed) == expected, (cuts, buckets)


def compare(spec: ProgramSpec, elements: Sequence[tuple[float, str, str]], chance: random.Random) -> None:
    """Compare layers in buckets with one engine. Elements are seconds, the name of the stream, and Turtle."""
    try:
        compiled = compile_program(spec)
    except Refused:
        assume(False)
    assume(bool(compiled.units) and bool(elements))
    together: dict[Micros, list[tuple[Triple, ...]]] = {}
    for at, name, turtle in sorted(elements, key=lambda element: element[0]):
        together.setdefault(int(at * SECOND), []).append(FedGraph.on("http://example.org/" + name, read_graph(turtle, spec.prefixes, 100)))
    instants = list(together.items())
    cuts = sorted(chance.sample(range(1, len(instants)), chance.randrange(len(instants))))
    for document in (*spec.rules, *spec.datalog):
        note(f"{document.name}:\n{document.text}")
    note(str((cuts, elements)))
    seed, buckets = chance.randrange(1 << 30), chance.choice([1, 2, 3])
    assert in_layers(spec, instants, cuts, buckets, seed) == by_one_engine(spec, instants)


def spec_of(files: Mapping[str, str], datalog: str, entailment: str, origin: int = 0) -> ProgramSpec:
    texts = tuple(Document(name, text) for name, text in files.items() if text)
    closing = (Document("k.dlog", datalog),) if datalog else ()
    return ProgramSpec(texts, closing, (), Entailment(entailment), prefixes=RANDOM_PREFIXES, origin=origin)


@given(continuous_programs(), st.randoms(use_true_random=False))
@examples(8)
def test_random_queries_in_layers_equal_one_engine(program: ContinuousProgram, chance: random.Random) -> None:
    files = {"q.rspql": program.queries, "r.dotr": program.rules}
    compare(spec_of(files, program.datalog, program.entailment, program.origin * SECOND), program.elements, chance)


@given(lars_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_lars_files_in_layers_equal_one_engine(program: LarsProgram, chance: random.Random) -> None:
    files = {"a.lars": program.first, "b.lars": program.later, "r.dotr": program.rules, "q.rspql": program.queries}
    compare(spec_of(files, program.datalog, "none"), [(at, "in", turtle) for at, turtle in program.elements], chance)


@given(temporal_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_epsparql_units_in_layers_equal_one_engine(program: TemporalProgram, chance: random.Random) -> None:
    files = {"q.epsparql": program.units, "r.dotr": program.rules}
    compare(spec_of(files, program.datalog, program.entailment), [(at, "in", turtle) for at, turtle in program.elements], chance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_of_windows_are_written_in_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, constant, value in (
        (unit_state, "INSIDE", 3),
        (segment_store, "RECENT_BATCHES", 2),
        (segment_store, "MAX_SEGMENT_BYTES", 400),
        (segment_store, "SEGMENT_EVENTS", 2),
    ):
        monkeypatch.setattr(module, constant, value)
    instants = instants_of_stream(5)
    cuts = list(range(1, len(instants), 2))
    assert in_layers(PROGRAMS[name][0], instants, cuts, 2, 5) == by_one_engine(PROGRAMS[name][0], instants)


@pytest.mark.parametrize("seed", range(2))
def test_layer_without_timers_keeps_its_pages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, constant, value in (
        (bucket_state, "SMALL", 2),
        (paged_state, "MAX_UNPAGED", 3),
        (paged_state, "PAGE_EVENTS", 1),
        (segment_store, "RECENT_BATCHES", 2),
    ):
        monkeypatch.setattr(module, constant, value)
    instants = instants_of_stream(seed)
    run, firings, paged = LayeredRun(PAGED, 2, seed), list[Firing](), set[int]()
    assert run.program.timed_layers == {1}
    for start in range(0, len(instants), 3):
        end = min(start + 3, len(instants))
        firings += run.batch(instants[start:end], LAST_MICRO if end == len(instants) else instants[end][0] - 1)
        paged |= {number // 2 for cache in run.caches for (_, number), each in cache.items() if each.pages.page_count > 1}
    assert firings == by_one_engine(PAGED, instants)
    assert paged == {0, 2}


LONG_WINDOWS = {
    "q.rspql": """PREFIX : <http://example.org/> REGISTER RSTREAM Last AS
        SELECT (COUNT(*) AS ?n) FROM WINDOW ON <s> [RANGE 4000s STEP 2000s] { ?x :v "none" }""",
    "l.lars": 'PREFIX : <http://example.org/>  None(?x) :- :v(?x, "none") IN [4000 s] .  REPORT None(?x) .',
}


@pytest.mark.parametrize("name", LONG_WINDOWS)
def test_batch_writes_its_new_entries_only(name: str) -> None:
    """A window of 4,000 elements, to which a batch adds 40 and of which 40 expire."""
    run = LayeredRun(ProgramSpec((Document(name, LONG_WINDOWS[name]),)), buckets=1)
    (store,) = run.stores[0]
    written = []
    for start in range(0, 6_000, 40):
        before = store.written
        things = [f"<http://example.org/x{now}>" for now in range(start, start + 40)]
        graphs = [FedGraph.on("s", ((thing, "<http://example.org/v>", f'"{now}"'),)) for now, thing in enumerate(things, start)]
        run.batch([(now * SECOND, [graph]) for now, graph in enumerate(graphs, start)], (start + 40) * SECOND - 1)
        written.append(store.written - before)
    size = sum(map(len, store.entries.values()))
    assert size > 100_000
    batches = sorted(written[-40:])
    assert batches[20] < size / 40
    assert sum(batches) / 40 < size / 8, "a segment is written again with each doubling"


CONFIG = """\
name: units
rules: [q.rspql, r.dotr, l.lars, l.dotr]
prefixes: {{ "": "http://example.org/" }}
input: [{{ name: sensors, format: ndjson, path: in.ndjson }}]
output: [{{ format: ndjson, path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: 9 }}
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_same_lines_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "q.rspql").write_text(QUERIES)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "l.lars").write_text(LARS)
    (tmp_path / "l.dotr").write_text(READER)
    lines, _ = lines_after_a_crash(tmp_path, CONFIG, stream(9), after=15)
    assert {json.loads(line)["event"] for line in lines} >= LARS_EVENTS
