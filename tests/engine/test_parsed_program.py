"""The parsed program as JSON: all languages, both directions, and no parser in a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from dotr.config import read_config
from dotr.datalog.compiled_cache import CachePolicy
from dotr.datalog.entailment import Entailment
from dotr.engine.parsed_program import PROGRAM_CODEC, ParsedProgram
from dotr.engine.program import CompiledProgram, compile_parsed, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.model import algebra, continuous, datalog, intervals, lars, rules, templates
from dotr.model.codec import UnknownForm, ValueCodec
from dotr.model.places import Document
from dotr.state.state_schema import state_schema
from dotr.workbench.rule_tests import load_test
from tests.support.paths import ROOT, TESTS

pytestmark = pytest.mark.core

CONFIGS = ("city", "city-queries", "city-lars", "city-sequences", "mixed", "fire")
FILES = sorted((TESTS / "cases").glob("*.yaml"))


def compiled_again(program: CompiledProgram) -> CompiledProgram:
    """The program as a worker compiles it."""
    spec = ProgramSpec.from_json(program.spec.to_json())
    return compile_parsed(spec, ParsedProgram.from_json(ParsedProgram.of(program).to_json(program.spec), spec), CachePolicy(None))


def check(program: CompiledProgram) -> None:
    again = compiled_again(program)
    assert ParsedProgram.of(again) == ParsedProgram.of(program)
    assert again.layout == program.layout
    assert again.all_attributes == program.all_attributes
    assert state_schema(again) == state_schema(program)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_travels(path: Path) -> None:
    check(load_test(str(path)).program)


@pytest.mark.parametrize("name", CONFIGS)
def test_configured_programs_travel(name: str) -> None:
    check(compile_program(read_config(str(ROOT / "configs" / f"{name}.yaml"), []).program(), CachePolicy(None)))


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


def test_every_noun_of_the_model_has_a_written_name() -> None:
    known = set(PROGRAM_CODEC.types)
    nouns = {
        kind
        for module in (algebra, continuous, datalog, intervals, lars, rules, templates)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and (is_dataclass(kind) or issubclass(kind, Enum))
    }
    derived = {lars.PropertyName, lars.ClassName, lars.OwnRelation, lars.EventName}  # found from atoms, in no program
    assert nouns - known == derived


class Pair(NamedTuple):
    """Two values."""

    left: object
    right: object


def test_equal_parts_stand_once_and_numbers_keep_their_kind() -> None:
    codec = ValueCodec({Pair: "pair"})
    value = Pair((1, True, 1.0, None, "1"), Pair((True,), Pair((1,), {"a": (1,)})))
    text = codec.encode(value)
    again = codec.decode(text)
    assert again == value
    assert [type(part) for part in again.left] == [int, bool, float, type(None), str]
    assert again.right.right.left is again.right.right.right["a"]


def test_a_deep_value_travels() -> None:
    codec = ValueCodec({Pair: "pair"})
    value: object = Pair(0, "")
    for number in range(20_000):
        value = Pair(number, value)
    again = codec.decode(codec.encode(value))
    for number in reversed(range(20_000)):
        assert again.left == number
        again = again.right


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '[["pear",1]]', '[["pair",1]]', '[["pair",1,2,3]]', '[["pair",[0],1]]', '[["pair",[-2],1]]', "[1]", "[[]]"]
)
def test_other_texts_are_refused(text: str) -> None:
    codec = ValueCodec({Pair: "pair"})
    with pytest.raises(UnknownForm):
        codec.decode(text)


def test_types_without_a_name_are_refused() -> None:
    with pytest.raises(UnknownForm, match="Var has no written name"):
        ValueCodec({Pair: "pair"}).encode(Pair(1, algebra.Var("x")))
    with pytest.raises(ValueError, match="one written name"):
        ValueCodec({Pair: "pair", algebra.Var: "pair"})


def test_a_program_of_another_release_is_refused() -> None:
    for text in ('[["noun of tomorrow"]]', '[["document","a","b"]]'):
        with pytest.raises(Refused, match="S155"):
            ParsedProgram.from_json(text, ProgramSpec())


WORKER = """
import json, sys
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark import source, operator, stage_one_task, worker
from dotr.runtimes.spark.worker_cache import layers_of, program_of, terms_of
job = Job.from_json(sys.stdin.read())
program, layers, terms = program_of(job), layers_of(job), terms_of(job)
assert program.layout.layers and layers
print(json.dumps(sorted(sys.modules)))
"""


def test_a_worker_of_the_city_job_imports_no_parser() -> None:
    pytest.importorskip("pyspark")
    from dotr.runtimes.spark.job import Job

    program = compile_program(read_config(str(ROOT / "configs" / "city.yaml"), []).program(), CachePolicy(None))
    parsed = ParsedProgram.of(program).to_json(program.spec)
    layers = len(program.layout.layers)
    job = Job(program.spec.to_json(), (), (), "SECOND", False, layers, 2, 2, 1000, 2, "x", parsed=parsed)
    done = subprocess.run([sys.executable, "-c", WORKER], input=job.to_json(), capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout)
    parsers = ("rules", "sparql", "datalog", "continuous", "lars", "epsparql", "allowances")
    heavy = {"rdflib", "pyparsing", "pandas"}
    assert [name for name in imported if name.startswith(tuple(f"dotr.languages.{each}" for each in parsers))] == []
    assert heavy.isdisjoint(imported)
