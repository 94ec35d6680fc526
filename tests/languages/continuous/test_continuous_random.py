"""Random programs of continuous queries and rules: the engine agrees with the oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import assume, given, note

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.continuous.reading import compile_continuous, events_of
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from tests.languages.continuous.test_continuous_queries import run_engine
from tests.oracle.cases import read_turtle, world
from tests.oracle.isomorphism import canonical
from tests.oracle.units import run_units
from tests.support.properties import also_reloaded, examples
from tests.support.strategies_continuous import SECOND, ContinuousProgram, continuous_programs, joined_programs, kept_programs

PREFIXES = {"": "http://example.org/", "owl": "http://www.w3.org/2002/07/owl#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}
MOST = 400


def outputs_of_both(program: ContinuousProgram, *, reloaded: bool) -> tuple[Counter[tuple[object, ...]], list[Counter[tuple[object, ...]]]]:
    """Events of the oracle, and of each run of the engine: time, label, attributes and graph up to blank
    nodes. `reloaded`: also of a run whose state is restored after every instant."""
    query_file, rule_file = Document("q.rspql", program.queries), Document("r.dotr", program.rules)
    queries = compile_continuous([query_file], PREFIXES).checked().queries
    rules = compile_rules([rule_file], PREFIXES, units=events_of(queries))
    assume(not rules.errors)
    datalog = [("k.dlog", program.datalog)] if program.datalog else []
    known = world(rules, [program.background], datalog, program.entailment, PREFIXES)
    stream = "http://example.org/"
    arrived = [(stream + name, Element(int(at * SECOND), read_turtle(turtle, PREFIXES))) for at, name, turtle in program.elements]
    expected = run_units(known, queries, arrived, program.origin * SECOND, MOST)
    assume(not expected.decided_by_names and not expected.too_much)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items()) + program.background)
        spec = ProgramSpec(
            (query_file, rule_file),
            tuple(Document(name, text) for name, text in datalog),
            (str(background),),
            Entailment(program.entailment),
            prefixes=PREFIXES,
            origin=program.origin * SECOND,
        )
        try:
            compiled = compile_program(spec)
        except Refused as refused:
            assume("D404" not in str(refused) and "D401" not in str(refused))
            raise
        elements = [(int(at * SECOND), stream + name, turtle) for at, name, turtle in program.elements]
        runs = [run_engine(compiled, elements, reloaded=each) for each in {False, reloaded}]
    return (
        Counter((each.time, each.event, canonical(each.graph, each.attributes)) for each in expected.outputs),
        [
            Counter((each.time, each.event, canonical(frozenset(each.graph or ()), dict(each.attributes))) for each in firings)
            for firings in runs
        ],
    )


def compare(program: ContinuousProgram, *, reloaded: bool) -> None:
    note(program.queries)
    note(str(replace(program, queries="")))
    expected, runs = outputs_of_both(program, reloaded=reloaded)
    for found in runs:
        lines = [f"- expected {each}" for each in (expected - found)] + [f"+ got {each}" for each in (found - expected)]
        assert expected == found, "\n".join(lines)


@given(continuous_programs())
@examples(40)
def test_engine_agrees_with_the_oracle(program: ContinuousProgram) -> None:
    compare(program, reloaded=also_reloaded(program))


@given(kept_programs())
@examples(60)
def test_incremental_solutions_agree_with_the_oracle(program: ContinuousProgram) -> None:
    compare(program, reloaded=also_reloaded(program))


@given(joined_programs())
@examples(40)
def test_several_default_windows_agree_with_the_oracle(program: ContinuousProgram) -> None:
    compare(program, reloaded=also_reloaded(program))
