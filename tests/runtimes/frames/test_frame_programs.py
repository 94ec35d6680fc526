"""Random programs over DataFrames, by the operators without Spark: batches and streams give the events of one process, with their names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, note

pytest.importorskip("pyspark")

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from tests.cases.test_cases import FILES, program_of
from tests.support.frame_operators import InputGraph, check_batch, check_stream, graph_text
from tests.support.properties import examples, scattered
from tests.support.random_chains import ChainMaker
from tests.support.staged_programs import BACKGROUND
from tests.support.strategies_continuous import ContinuousProgram, continuous_programs
from tests.support.strategies_lars import LarsProgram, lars_programs
from tests.support.strategies_temporal import TemporalProgram, temporal_programs
from tests.support.varied_programs import varied_program

SECOND = 1_000_000
RANDOM_RULES = int(os.environ.get("DOTR_EXAMPLES", "30"))
PREFIXES = {"": "http://example.org/", "owl": "http://www.w3.org/2002/07/owl#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}


def check(program: CompiledProgram, graphs: Sequence[InputGraph], seed: int) -> int:
    """Compare batch and stream, perhaps with a clock; the number of events and late rows."""
    return check_batch(program, graphs, seed, 1 + seed % 3) + check_stream(program, graphs, seed, 1 + seed % 3, clock=seed % 5 < 2)


@pytest.mark.parametrize("name", FILES)
def test_cases(name: str) -> None:
    program = program_of(FILES[name])
    for number, case in enumerate(FILES[name].cases):
        graphs = [InputGraph(each.time, "in", graph_text(each.triples)) for each in case.elements]
        if graphs:
            check_batch(program, graphs, number)
            check_stream(program, graphs, number)


@pytest.mark.parametrize("first", range(0, RANDOM_RULES, 10))
def test_random_rules(first: int, tmp_path: Path) -> None:
    (tmp_path / "k.ttl").write_text(BACKGROUND)
    seen = 0
    for seed in range(first, first + 10):
        if seed % 2:
            rules, elements = varied_program(seed)
        else:
            maker = ChainMaker(seed)
            rules, elements = maker.program(), maker.stream()
        try:
            program = compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(str(tmp_path / "k.ttl"),)))
        except Refused:
            continue
        seen += check(program, [InputGraph(each.time, "in", graph_text(each.triples)) for each in elements], seed)
    assert seen


def check_units(
    files: dict[str, str], datalog: str, background: str, entailment: str, graphs: Sequence[InputGraph], origin: int = 0
) -> None:
    for name, text in files.items():
        note(f"{name}:\n{text}")
    note(str((datalog, background, entailment, graphs)))
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "background.ttl"
        known.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items()) + background)
        spec = ProgramSpec(
            tuple(Document(name, text) for name, text in files.items() if text),
            (Document("k.dlog", datalog),) if datalog else (),
            (str(known),),
            Entailment(entailment),
            prefixes=PREFIXES,
            origin=origin,
        )
        try:
            program = compile_program(spec)
        except Refused:
            assume(False)
        assume(bool(graphs))
        check(program, graphs, scattered(files, graphs).randrange(1 << 20))


@given(lars_programs())
@examples(4)
def test_random_lars_files(made: LarsProgram) -> None:
    graphs = [InputGraph(int(at * SECOND), "http://example.org/in", text) for at, text in made.elements]
    files = {"a.lars": made.first, "b.lars": made.later, "r.dotr": made.rules, "q.rspql": made.queries}
    check_units(files, made.datalog, made.background, "none", graphs)


@given(continuous_programs())
@examples(4)
def test_random_continuous_queries(made: ContinuousProgram) -> None:
    graphs = [InputGraph(int(at * SECOND), f"http://example.org/{name}", text) for at, name, text in made.elements]
    files = {"q.rspql": made.queries, "r.dotr": made.rules}
    check_units(files, made.datalog, made.background, made.entailment, graphs, made.origin)


@given(temporal_programs())
@examples(4)
def test_random_patterns(made: TemporalProgram) -> None:
    graphs = [InputGraph(int(at * SECOND), "http://example.org/in", text) for at, text in made.elements]
    check_units({"q.epsparql": made.units, "r.dotr": made.rules}, made.datalog, made.background, made.entailment, graphs)
