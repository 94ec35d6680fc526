"""LARS files with a key in several buckets, without Spark: the events of one engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.syntax.turtle.graphs import read_graph
from tests.support.layered_batches import Instants, in_layers

PREFIXES = {"": "http://example.org/"}
LARS = """\
BACKGROUND :zone .
Level(:s1, 1) .  Level(:s3, 2) .
Hot(?v, ?x) :- :temp(?x, ?v) IN [4 s], NOT :off(?x, true) IN [2 s] .
Watched(?x) :- :zone(?x, ?z) .
Odd(?x) :- Watched(?x), NOT Hot(9, ?x) .
Ranked(?x, ?n) :- Hot(?v, ?x), Level(?x, ?n) .
Lasting(?x) :- :in(?y, ?x) ALWAYS IN [1 s], Watched(?x) .
:alarm(?x, ?v) :- Hot(?v, ?x), EVENT Seen(?x) IN [3 s] .
Few(?x, ?v) :- :temp(?x, ?v) IN [LAST 2 PER ?x] .
REPORT Hot(?v, ?x) .  REPORT ENDED Hot(?v, ?x) AS Cool .  REPORT ALL Odd(?x) .  REPORT Ranked(?x, ?n) .
REPORT Lasting(?x) .  REPORT :alarm(?x, ?v) AS Alarm .  REPORT Few(?x, ?v) .  REPORT ENDED Few(?x, ?v) AS Gone .
"""
RULES = "PREFIX : <http://example.org/>\nquery Seen = [ SELECT ?x { ?x :seen true } ]\n"
UNITS = "PREFIX : <http://example.org/>\nREGISTER QUERY After AS SELECT ?x WHERE EVENT Lasting(?x) SEQ { ?x :temp ?v } WITHIN 9 s\n"
LABELS = {"Hot", "Cool", "Odd", "Ranked", "Lasting", "Alarm", "Few", "Gone", "After"}


@pytest.fixture
def spec(tmp_path: Path) -> ProgramSpec:
    return lars_spec(tmp_path)


def lars_spec(folder: Path) -> ProgramSpec:
    path = folder / "kb.ttl"
    path.write_text("@prefix : <http://example.org/> . :s0 :zone :a . :s1 :zone :b . :s2 :zone :a . :s9 :zone :b .")
    documents = tuple(Document(name, text) for name, text in (("a.lars", LARS), ("r.dotr", RULES), ("u.epsparql", UNITS)))
    return ProgramSpec(documents, (), (str(path),), Entailment.NONE, prefixes=PREFIXES)


def instants_of(seed: int) -> Instants:
    chance, now, found = random.Random(seed), 0, []
    for _ in range(60):
        now += chance.choice([1, 1, 2, 5])
        thing = f":s{chance.randrange(5)}"
        text = chance.choice(
            [f"{thing} :temp {chance.choice([8, 9])}", f":y :in {thing}", f"{thing} :off true", f"{thing} :seen true ; :temp 9"]
        )
        found.append((now * 500_000, [read_graph(f"{text} . :y :in :s2 .", PREFIXES, 100)]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_keyed_files_in_buckets_equal_one_engine(seed: int, spec: ProgramSpec) -> None:
    program, instants = compile_program(spec), instants_of(seed)
    assert [placed.unit.name for placed in program.layout.units if placed.is_spread] == ["a.lars", "After"]
    engine = Engine(program, Clock())
    expected: list[Firing] = [firing for time, graphs in instants for firing in engine.step(time, graphs)[0]]
    expected += [firing for moment in engine.finish() for firing in moment]
    assert {firing.rule for firing in expected} == LABELS
    chance = random.Random(seed)
    for count, buckets in ((0, 1), (3, 2), (len(instants) - 1, 3), (9, 5)):
        cuts = sorted(chance.sample(range(1, len(instants)), count))
        assert in_layers(spec, instants, cuts, buckets, seed) == expected, (cuts, buckets)
