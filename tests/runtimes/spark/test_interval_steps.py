"""Units of EP-SPARQL in batches and buckets, without Spark, and on it: the lines of one engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.engine.state import segments as segment_store
from dotr.engine.state import units as unit_state
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros
from dotr.syntax.turtle.graphs import read_graph
from tests.support.crashes import lines_after_a_crash
from tests.support.layered_batches import Instants, in_layers
from tests.support.properties import examples
from tests.support.strategies_temporal import PREFIXES, TemporalProgram, temporal_programs

SECOND = 1_000_000
UNITS = """\
PREFIX : <http://example.org/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
REGISTER STREAM Up AS CONSTRUCT { ?x :rose ?n } WHERE { ?x :v ?m } SEQ { ?x :v ?n } FILTER(?n > ?m) WITHIN 9 s
REGISTER QUERY Twice AS SELECT ?x ?n (getDURATION() AS ?d) WHERE { ?x :rose ?m } SEQ { ?x :rose ?n } WITHIN 20 s POLICY RECENT
REGISTER STREAM Sum AS CONSTRUCT { [] :n ?k ; :sum ?t } WHERE { ?y :n ?j ; :sum ?s } SEQ { :s1 :v ?v }
BIND(?j + 1 AS ?k) BIND(?s + ?v AS ?t) WITHIN PT1H POLICY RECENT
REGISTER QUERY Alone AS SELECT ?x ?n WHERE { ?x :v ?m FILTER(getDURATION() < "PT4S"^^xsd:duration) } OPTIONALSEQ { ?x :v ?n }
REGISTER QUERY Warned AS SELECT ?x WHERE EVENT Alarm(?x) AND { ?x :v ?n FILTER(?n > 80) } WITHIN 6 s POLICY CHRONOLOGICAL
"""
RULES = """\
PREFIX : <http://example.org/>
rule Alarm define Alarm = [ [] :of ?x ] from Twice with Alarm.?x = Twice.?x
"""
SPEC = ProgramSpec((Document("q.epsparql", UNITS), Document("r.dotr", RULES)))
LABELS = {"Up", "Twice", "Sum", "Alone", "Warned", "Alarm"}


def stream(seed: int) -> list[tuple[int, str]]:
    """Elements: seconds and Turtle."""
    chance, now, found = random.Random(seed), 0, [(0, ":acc :n 0 ; :sum 0 .")]
    for _ in range(50):
        now += chance.choice([0, 1, 1, 2, 3, 7])
        found.append((now, f":s{chance.randrange(3)} :v {chance.randrange(40, 90)} ."))
    return found


def instants_of_stream(seed: int) -> list[tuple[Micros, list[tuple[Triple, ...]]]]:
    elements = stream(seed)
    times = sorted({now for now, _ in elements})
    return [(now * SECOND, [read_graph(text, PREFIXES, 100) for at, text in elements if at == now]) for now in times]


def by_one_engine(spec: ProgramSpec, instants: Instants) -> list[Firing]:
    engine = Engine(compile_program(spec), Clock())
    firings = [firing for time, graphs in instants for firing in engine.step(time, graphs)[0]]
    return firings + [firing for moment in engine.finish() for firing in moment]


@pytest.mark.core
@pytest.mark.parametrize("seed", range(3))
def test_any_batches_and_buckets_equal_one_engine(seed: int) -> None:
    instants = instants_of_stream(seed)
    expected = by_one_engine(SPEC, instants)
    assert {firing.rule for firing in expected} == LABELS
    assert {placed.unit.name for placed in compile_program(SPEC).layout.units if placed.is_spread} == {"Alone", "Twice", "Up", "Warned"}
    chance = random.Random(seed)
    for count, buckets in ((0, 1), (3, 2), (len(instants) - 1, 3)):
        cuts = sorted(chance.sample(range(1, len(instants)), count))
        assert in_layers(SPEC, instants, cuts, buckets, seed) == expected, (cuts, buckets)


@pytest.mark.core
def test_stored_solutions_are_written_in_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, constant, value in (
        (unit_state, "INSIDE", 3),
        (segment_store, "RECENT_BATCHES", 2),
        (segment_store, "MAX_SEGMENT_BYTES", 400),
        (segment_store, "SEGMENT_EVENTS", 2),
    ):
        monkeypatch.setattr(module, constant, value)
    instants = instants_of_stream(5)
    cuts = list(range(1, len(instants), 2))
    assert in_layers(SPEC, instants, cuts, 2, 5) == by_one_engine(SPEC, instants)


@given(temporal_programs(), st.randoms(use_true_random=False))
@examples(8)
def test_random_programs_in_layers_equal_one_engine(program: TemporalProgram, chance: random.Random) -> None:
    texts = (Document("q.epsparql", program.units), Document("r.dotr", program.rules))
    datalog = (Document("k.dlog", program.datalog),) if program.datalog else ()
    spec = ProgramSpec(texts, datalog, (), Entailment(program.entailment), prefixes=PREFIXES)
    try:
        compiled = compile_program(spec)
    except Refused:
        assume(False)
    assume(bool(compiled.units) and compiled.layout.stateful_operators == len(compiled.layout.layers))
    together: dict[Micros, list[tuple[Triple, ...]]] = {}
    for at, turtle in program.elements:
        together.setdefault(int(at * SECOND), []).append(read_graph(turtle, PREFIXES, 100))
    instants = list(together.items())
    cuts = sorted(chance.sample(range(1, len(instants)), chance.randrange(len(instants))))
    note(program.units)
    note(program.rules)
    note(str((cuts, program.elements)))
    seed, buckets = chance.randrange(1 << 30), chance.choice([1, 2, 3])
    assert in_layers(spec, instants, cuts, buckets, seed) == by_one_engine(spec, instants)


CONFIG = """\
name: intervals
rules: [q.epsparql, r.dotr]
input: [{{ name: in, format: ndjson, path: in.ndjson }}]
prefixes: {{ "": "http://example.org/" }}
output: [{{ format: ndjson, path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: 9 }}
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_same_lines_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "q.epsparql").write_text(UNITS)
    (tmp_path / "r.dotr").write_text(RULES)
    _, here = lines_after_a_crash(tmp_path, CONFIG, stream(9), after=15)
    assert here.elements == 51
