"""The parsed program as JSON: programs of all languages are restored, and a worker imports no
parser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dotr.commands.test.cases import load_test
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.schema import state_schema
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.program_json import ParsedProgram, UnknownForm, ValueCodec, maps_from_json, maps_to_json
from dotr.languages.programs import compile_program
from dotr.model import algebra
from dotr.model.places import Document
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.formats.mapping.maps import parsed_map
from dotr.streams.records import ElementMap, Format, InputFile
from tests.support.paths import ROOT, TESTS

CONFIGS = ("city", "city-queries", "city-lars", "city-sequences", "mixed", "fire")
FILES = sorted((TESTS / "cases").glob("*.yaml"))


def compiled_again(program: CompiledProgram) -> CompiledProgram:
    """The program as a worker compiles it."""
    spec = ProgramSpec.from_json(program.spec.to_json())
    return ParsedProgram.from_json(ParsedProgram.of(program).to_json(program.spec), spec).compiled(spec, CachePolicy(None))


def check(program: CompiledProgram) -> None:
    again = compiled_again(program)
    assert ParsedProgram.of(again) == ParsedProgram.of(program)
    assert again.layout == program.layout
    assert again.all_attributes == program.all_attributes
    assert state_schema(again) == state_schema(program)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_is_restored_from_json(path: Path) -> None:
    check(load_test(str(path)).program)


@pytest.mark.parametrize("name", CONFIGS)
def test_configured_programs_are_restored_from_json(name: str) -> None:
    check(compile_program(read_config(str(ROOT / "configs" / f"{name}.yaml"), []).program(), CachePolicy(None)))


def test_units_with_lengths_of_time_are_restored() -> None:
    """A unit that reads its own events keeps what is known of the attributes of others."""
    text = """PREFIX : <http://e/>
    REGISTER QUERY Twice AS SELECT ?x (getDURATION() AS ?d) WHERE { ?x :v ?m } SEQ { ?x :v ?n } WITHIN 20 s
    REGISTER STREAM Sum AS CONSTRUCT { [] :n ?k } WHERE { ?y :n ?j } SEQ { :s :v ?v } BIND(?j + 1 AS ?k) WITHIN PT1H
    """
    check(compile_program(ProgramSpec((Document("q.epsparql", text),))))


def test_places_refer_to_the_documents_of_the_specification() -> None:
    text = "rule R define Fire = [ [] a :X ] from A = [ SELECT ?a WHERE { ?a a :A } ]"
    spec = ProgramSpec((Document("r.dotr", text),), prefixes={"": "http://e/"})
    written = ParsedProgram.of(compile_program(spec)).to_json(spec)
    assert "SELECT" not in written
    (rule,) = ParsedProgram.from_json(written, spec).rules
    assert rule.span.document is spec.rules[0]


def test_rules_of_an_entailment_are_not_the_program_s_own() -> None:
    spec = ProgramSpec(
        datalog=(Document("a.dlog", ":p(?x, ?y) :- :q(?x, ?y) ."),), entailment=Entailment.OWL2RL, prefixes={"": "http://e/"}
    )
    program = compile_program(spec)
    assert len(program.own_datalog) == 1 < len(program.closing_rules)


class Pair(NamedTuple):
    """Two values."""

    left: object
    right: object


def test_equal_parts_are_written_once_and_numbers_keep_their_type() -> None:
    codec = ValueCodec((Pair,))
    value = Pair((1, True, 1.0, None, "1"), Pair((True,), Pair((1,), {"a": (1,)})))
    text = codec.encode(value)
    again = codec.decode(text)
    assert again == value
    assert [type(part) for part in again.left] == [int, bool, float, type(None), str]
    assert again.right.right.left is again.right.right.right["a"]


def test_deep_value_is_restored_without_recursion() -> None:
    codec = ValueCodec((Pair,))
    value: object = Pair(0, "")
    for number in range(20_000):
        value = Pair(number, value)
    again = codec.decode(codec.encode(value))
    for number in reversed(range(20_000)):
        assert again.left == number
        again = again.right


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '[["pear",1]]', '[["Pair",1]]', '[["Pair",1,2,3]]', '[["Pair",[0],1]]', '[["Pair",[-2],1]]', "[1]", "[[]]"]
)
def test_texts_of_another_form_are_refused(text: str) -> None:
    codec = ValueCodec((Pair,))
    with pytest.raises(UnknownForm):
        codec.decode(text)


def test_types_without_a_name_are_refused() -> None:
    with pytest.raises(UnknownForm, match="Var is no type of the codec"):
        ValueCodec((Pair,)).encode(Pair(1, algebra.Var("x")))
    with pytest.raises(ValueError, match="one name"):
        ValueCodec((Pair, type("Pair", (), {})))


def test_a_program_of_another_release_is_refused() -> None:
    for text in ('[["noun of tomorrow"]]', '[["Document","a","b"]]'):
        with pytest.raises(Refused, match="S155"):
            ParsedProgram.from_json(text, ProgramSpec())


PARSERS = (
    *("languages.rules", "languages.continuous.text", "languages.continuous.reading", "languages.lars.text", "languages.lars.reading"),
    *("languages.epsparql.text", "languages.epsparql.reading", "languages.allowances"),
    *(
        "syntax.sparql",
        "syntax.datalog",
        "syntax.scan",
        "syntax.cursor",
        "syntax.turtle.parser",
        "syntax.turtle.terms",
        "syntax.turtle.tokens",
    ),
)
"""The parsers of programs and maps, as modules of `dotr`."""

WORKER = """
import json, sys
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark import daemon
from dotr.runtimes.spark.exchange.worker_cache import input_of, layers_of, program_of, terms_of
from dotr.streams.formats.reading import Reader
daemon.import_engine()
job = Job.from_json(sys.stdin.read())
program, layers, terms = program_of(job), layers_of(job), terms_of(job)
assert program.layout.layers and layers
records = []
for number in range(len(job.inputs)):
    with Reader(input_of(job, number)) as reader:
        records += [record.element for record in reader.records()]
print(json.dumps([sorted(sys.modules), records]))
"""


def imported_by_a_worker(program: CompiledProgram, inputs: Sequence[InputFile] = ()) -> tuple[set[str], list[Any]]:
    """The modules that a process imports to compile a program and to read inputs, and the
    elements."""
    pytest.importorskip("pyspark")
    from dotr.runtimes.spark.exchange.job import Job

    job = Job(
        program=program.spec.to_json(),
        parsed=ParsedProgram.of(program).to_json(program.spec),
        inputs=tuple(file.to_json() for file in inputs),
        maps=maps_to_json([None if file.map is None else parsed_map(file) for file in inputs]),
        delays=tuple(0 for _ in inputs),
        unit="SECOND",
        dated=False,
        layers=len(program.layout.layers),
        buckets=2,
        partitions=2,
        batch=1000,
        tasks=2,
        run="x",
    )
    done = subprocess.run([sys.executable, "-c", WORKER], input=job.to_json(), capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    modules, elements = json.loads(done.stdout)
    return set(modules), elements


def check_no_parser(modules: Set[str]) -> None:
    assert [name for name in sorted(modules) if name.startswith(tuple(f"dotr.{each}" for each in PARSERS))] == []
    assert {"rdflib", "pyparsing", "pandas"}.isdisjoint(modules)


def test_a_worker_of_the_city_job_imports_no_parser() -> None:
    program = compile_program(read_config(str(ROOT / "configs" / "city.yaml"), []).program(), CachePolicy(None))
    modules, _ = imported_by_a_worker(program)
    check_no_parser(modules)


def test_a_worker_that_reads_by_maps_imports_no_parser(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,room,value\n5,hall,7.5\n")
    (tmp_path / "a.json").write_text('{"t": 6, "id": "http://e/s", "tags": [{"n": "a"}, {"n": "b"}]}\n')
    prefixes = (("", "http://e/"),)
    rows = ElementMap("t", Document("map of rows", ":{room} :value {value} ; :in [ :name {room} ] ."))
    objects = ElementMap("t", Document("map of objects", "<{id}> :tag [ :no {tags[].n} ] ."))
    inputs = [
        InputFile("rows", str(tmp_path / "a.csv"), Format.CSV, prefixes=prefixes, map=rows),
        InputFile("objects", str(tmp_path / "a.json"), Format.JSON, prefixes=prefixes, map=objects),
    ]
    spec = ProgramSpec((Document("r.dotr", RULE),), prefixes=dict(prefixes))
    modules, elements = imported_by_a_worker(compile_program(spec), inputs)
    check_no_parser(modules)
    room, seven = "<http://e/hall>", '"7.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    tags = [["<http://e/s>", "<http://e/tag>", node] for node in ("_:0", "_:1")]
    names = [["_:0", "<http://e/no>", '"a"'], ["_:1", "<http://e/no>", '"b"']]
    assert elements == [
        [5_000_000, [[room, "<http://e/value>", seven], [room, "<http://e/in>", "_:0"], ["_:0", "<http://e/name>", '"hall"']]],
        [6_000_000, [tags[0], names[0], tags[1], names[1]]],
    ]


def test_maps_of_another_release_are_refused() -> None:
    for text in ('[["map of tomorrow"]]', '[["cell","x"]]'):
        with pytest.raises(Refused, match="S155"):
            maps_from_json(text)


RULE = """
rule R define Full = [ [] a :Full ] from A
and last B [ FILTER(?b = A.?a) ] within 5 s from A
query A = [ SELECT ?a WHERE { ?x :in ?a } ]
query B = [ SELECT ?b WHERE { ?x :tag ?b } ]
"""
