"""Continuous queries with a key in several buckets, without Spark: the events of one engine."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Firing, output_order
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.syntax.turtle.graphs import read_graph
from tests.runtimes.spark.test_unit_steps import by_one_engine
from tests.support.layered_batches import Instants, in_layers
from tests.support.properties import examples

PREFIXES = {"": "http://example.org/"}
DATALOG = ":q(?y, ?x) :- :p(?x, ?y) .  :v(?x, ?n) :- :p(?x, ?y), :v(?y, ?n) ."
BACKGROUND = ":a :w 1 . :b :w 2 . :c :w 3 . :e :v 9 ; :w 4 ."
EXTENTS = (
    "RANGE 4s STEP 2s",
    "RANGE 6s STEP 1s STARTING AT 2",
    "FROM NOW-5s TO NOW-2s STEP 2s",
    "LANDMARK STEP 2s RESTARTING EVERY 6s",
    "LANDMARK STEP 2s LIMIT 9",
    "ELEMENTS 3",
    "ELEMENTS 4 STEP 3",
    "TRIPLES 5",
    "TRIPLES 3 STEP 4",
    "NOW",
)
REPORTS = (
    "",
    "REPORT ON CONTENT CHANGE",
    "REPORT ON WINDOW CLOSE",
    "REPORT PERIODIC 3s",
    "REPORT PERIODIC 2s AND NON-EMPTY CONTENT",
    "REPORT ON WINDOW CLOSE AND ON CONTENT CHANGE",
)
PATTERNS = (
    "?x :v ?y",
    "?x :v ?y OPTIONAL { ?x :w ?z }",
    "?x :v ?y ; :w ?z",
    "?x :p ?y FILTER(?y != :a)",
    "{ ?x :v ?y } UNION { ?x :p ?y }",
    "?x ?r ?y BIND(STR(?r) AS ?z)",
    "VALUES ?x { :a :b :e } ?x :v ?y",
    "?x :q ?y",
    "?x :w ?y",
)
LINES = (
    ("RSTREAM", "?x ?y", ""),
    ("RSTREAM", "?y", ""),
    ("RSTREAM", "DISTINCT ?x", "ORDER BY DESC(?x)"),
    ("ISTREAM", "?x ?y", ""),
    ("DSTREAM", "?x ?y", ""),
    ("RSTREAM", "(COUNT(*) AS ?n)", "GROUP BY ?x"),
    ("RSTREAM", "(MAX(?y) AS ?n)", "GROUP BY (?x AS ?s) HAVING(COUNT(*) > 1)"),
    ("ISTREAM", "?x (SUM(?y) AS ?n) (SAMPLE(?y) AS ?m)", "GROUP BY ?x"),
    ("DSTREAM", "?x ?y (COUNT(?y) AS ?n)", "GROUP BY ?x ?y"),
)


def query(chance: random.Random, label: str, stream: str) -> str:
    relation, projection, modifiers = chance.choice(LINES)
    extent, reports, level = chance.choice(EXTENTS), chance.choice(REPORTS), chance.choice(("NONE", "NONE", "SNAPSHOT"))
    if extent == "NOW":
        reports = reports.replace("WINDOW CLOSE AND ON ", "").replace("WINDOW CLOSE", "CONTENT CHANGE")
    name, pattern = chance.choice(("<w>", "")), chance.choice(PATTERNS)
    window = f"FROM {'NAMED ' if name else ''}WINDOW {name} ON {stream} [{extent} {reports} ENTAILMENT {level}]"
    where = f"WINDOW <w> {{ {pattern} }}" if name else pattern
    return f"REGISTER {relation} {label} AS SELECT {projection} {window} WHERE {{ {where} }} {modifiers}"


def construct(label: str, relation: str, spec: str) -> str:
    return f"REGISTER {relation} {label} AS CONSTRUCT {{ ?x :v ?y ; :of [ :w ?y ] }} FROM WINDOW ON :s {spec} WHERE {{ ?x :v ?y }}"


def programs(seed: int) -> tuple[dict[str, str], random.Random]:
    chance = random.Random(seed)
    texts = [query(chance, f"Q{number}", chance.choice((":s", ":s", "<Made>"))) for number in range(6)]
    texts.append(construct("Made", chance.choice(("RSTREAM", "ISTREAM")), "[NOW ENTAILMENT NONE]"))
    texts.append(construct("Gone", "DSTREAM", f"[RANGE 5s STEP 2s ENTAILMENT {chance.choice(('NONE', 'SNAPSHOT'))}]"))
    rule = "rule Read define Read = [ [] :of ?x ] from Q0 with Read.?x = Q0.?x" if "?x" in texts[0].partition("FROM")[0] else ""
    return {
        "q.rspql": "PREFIX : <http://example.org/>\n" + "\n".join(texts),
        "r.dotr": rule and f"PREFIX : <http://example.org/>\n{rule}",
    }, chance


def instants_of(chance: random.Random) -> Instants:
    now, found = 0, []
    for _ in range(25):
        now += chance.choice([1, 1, 2, 3])
        graphs = []
        for _ in range(chance.choice([1, 1, 2, 3])):
            some = [
                f":{chance.choice('abcde')} :{chance.choice(('v', 'v', 'w'))} {chance.randrange(4)} ."
                if chance.random() < 0.7
                else f":{chance.choice('abcde')} :p :{chance.choice('abcde')} ."
                for _ in range(chance.randrange(4))
            ]
            graphs.append(FedGraph.on("http://example.org/s", read_graph(" ".join(some), PREFIXES, 100)))
        found.append((now * 1_000_000, graphs))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_keyed_queries_in_buckets_equal_one_engine(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    compare(seed, str(tmp_path_factory.mktemp("kb") / "kb.ttl"))


@given(st.integers(0, 1 << 30))
@examples(6)
def test_random_keyed_queries_in_buckets_equal_one_engine(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compare(seed, f"{folder}/kb.ttl")


def query_spec(seed: int, path: str) -> tuple[ProgramSpec, Instants]:
    """The program of a seed, and instants; its background is written to a path."""
    spec, chance = _spec(programs(seed), path)
    return spec, instants_of(chance)


def _spec(made: tuple[dict[str, str], random.Random], path: str) -> tuple[ProgramSpec, random.Random]:
    files, chance = made
    with open(path, "w") as file:
        file.write("@prefix : <http://example.org/> . " + BACKGROUND)
    datalog = (Document("k.dlog", DATALOG),) if chance.random() < 0.5 else ()
    documents = tuple(Document(name, text) for name, text in files.items() if text)
    return ProgramSpec(documents, datalog, (path,), Entailment.NONE, prefixes=PREFIXES), chance


def compare(seed: int, path: str) -> None:
    files, chance = programs(seed)
    spec, _ = _spec((files, chance), path)
    cut = replace(spec, cut=True)
    spread = {placed.unit.name for placed in compile_program(cut).layout.units if placed.is_spread}
    assert spread == {"Made", "Gone", *(f"Q{number}" for number in range(6))}
    instants = instants_of(chance)
    expected = by_one_engine(spec, instants)
    for count, buckets in ((0, 1), (3, 2), (len(instants) - 1, 3), (9, 5)):
        cuts = sorted(chance.sample(range(1, len(instants)), count))
        found = in_layers(cut, instants, cuts, buckets, seed)
        assert found == sorted(expected, key=output_order), (cuts, buckets, files, difference(expected, found))


def difference(expected: list[Firing], found: list[Firing]) -> str:
    lacks, has = Counter(map(str, expected)), Counter(map(str, found))
    return "\n".join([f"- {each}" for each in lacks - has] + [f"+ {each}" for each in has - lacks])


CONFIG = """\
name: keyed
rules: [q.rspql]
input: [{{ name: in, format: ndjson, path: in.ndjson, stream: "http://example.org/s" }}]
prefixes: {{ "": "http://example.org/" }}
output: [{{ format: ndjson, path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: 9 }}
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_same_lines(tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    chance = random.Random(4)
    texts = [f"REGISTER {relation} {relation} AS SELECT ?x ?y FROM WINDOW ON :s [{spec}] WHERE {{ ?x :v ?y }}" for relation, spec in SPECS]
    texts.append(construct("Made", "ISTREAM", "[RANGE 8s STEP 3s ENTAILMENT NONE]"))
    (tmp_path / "q.rspql").write_text("PREFIX : <http://example.org/>\n" + "\n".join(texts))
    elements = [{"time": now, "graph": f":s{chance.randrange(9)} :v {chance.randrange(5)} ."} for now in range(0, 60, 2)]
    (tmp_path / "in.ndjson").write_text("".join(json.dumps(each) + "\n" for each in elements))
    for out in ("local", "spark"):
        (tmp_path / f"{out}.yaml").write_text(CONFIG.format(out=out))
    run_local(build(read_config(str(tmp_path / "local.yaml")), fresh=False, on_spark=False), lambda totals: None)
    pipeline = build(read_config(str(tmp_path / "spark.yaml")), fresh=False, on_spark=True)
    assert [placed.unit.name for placed in pipeline.program.layout.units if not placed.is_spread] == ["graphs of Made"]
    run_spark(pipeline, lambda totals: None)
    written = "".join(file.read_text() for file in sorted((tmp_path / "spark").glob("*.ndjson")))
    assert written == (tmp_path / "local").read_text()
    assert all(written.count(f'"{label}"') > 10 for label in ("Made", *(relation for relation, _ in SPECS)))


SPECS = (
    ("RSTREAM", "RANGE 9s STEP 4s ENTAILMENT NONE"),
    ("ISTREAM", "ELEMENTS 6 ENTAILMENT SNAPSHOT"),
    ("DSTREAM", "RANGE 7s STEP 2s REPORT ON CONTENT CHANGE ENTAILMENT NONE"),
)
