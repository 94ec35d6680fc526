"""Random programs with LARS files: the engine agrees with the oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, note

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.continuous.reading import compile_continuous, events_of
from dotr.languages.lars.reading import compile_lars
from dotr.languages.lars.unit import made_by
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from tests.languages.continuous.test_continuous_queries import run_engine
from tests.oracle.cases import read_turtle, world
from tests.oracle.isomorphism import canonical
from tests.oracle.units import UnitsResult, run_units
from tests.support.properties import also_reloaded, examples
from tests.support.strategies_lars import SECOND, LarsProgram, lars_programs

pytest.importorskip("dotr.languages.lars.run")
PREFIXES = {"": "http://example.org/"}
STREAM = "http://example.org/in"
MOST = 400


def documents_of(program: LarsProgram) -> list[Document]:
    files = [("a.lars", program.first), ("b.lars", program.later), ("r.dotr", program.rules), ("q.rspql", program.queries)]
    return [Document(name, text) for name, text in files if text]


def by_brute_force(program: LarsProgram) -> UnitsResult:
    documents = documents_of(program)
    files = compile_lars([each for each in documents if each.name.endswith(".lars")], PREFIXES)
    assume(not files.errors)
    queries = compile_continuous([each for each in documents if each.name.endswith(".rspql")], PREFIXES).checked().queries
    made = [*events_of(queries), *(events for file in files.files for events in made_by(file))]
    rules = compile_rules([each for each in documents if each.name.endswith(".dotr")], PREFIXES, units=made)
    assume(not rules.errors)
    datalog = [("k.dlog", program.datalog)] if program.datalog else []
    known = world(rules, [program.background], datalog, "none", PREFIXES)
    arrived = [(STREAM, Element(int(at * SECOND), read_turtle(turtle, PREFIXES))) for at, turtle in program.elements]
    return run_units(known, queries, arrived, 0, MOST, files.files)


def outputs_of_both(program: LarsProgram, *, reloaded: bool) -> tuple[Counter[tuple[object, ...]], list[Counter[tuple[object, ...]]]]:
    """Events of the oracle, and of each run of the engine: time, label, attributes and graph up to blank
    nodes. `reloaded`: also of a run whose state is restored after every instant."""
    expected = by_brute_force(program)
    assume(not expected.decided_by_names and not expected.too_much)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("@prefix : <http://example.org/> .\n" + program.background)
        spec = ProgramSpec(
            tuple(documents_of(program)),
            (Document("k.dlog", program.datalog),) if program.datalog else (),
            (str(background),),
            Entailment("none"),
            prefixes=PREFIXES,
        )
        try:
            compiled = compile_program(spec)
        except Refused as refused:
            assume("D404" not in str(refused) and "D401" not in str(refused))
            raise
        elements = [(int(at * SECOND), STREAM, turtle) for at, turtle in program.elements]
        runs = [run_engine(compiled, elements, reloaded=each) for each in {False, reloaded}]
    return (
        Counter((each.time, each.event, canonical(each.graph, each.attributes)) for each in expected.outputs),
        [
            Counter((each.time, each.event, canonical(frozenset(each.graph or ()), dict(each.attributes))) for each in firings)
            for firings in runs
        ],
    )


def compare(program: LarsProgram, *, reloaded: bool) -> None:
    for text in (program.first, program.later):
        note(text)
    note(str(replace(program, first="", later="")))
    expected, runs = outputs_of_both(program, reloaded=reloaded)
    for found in runs:
        lines = [f"- expected {each}" for each in (expected - found)] + [f"+ got {each}" for each in (found - expected)]
        assert expected == found, "\n".join(lines)


@given(lars_programs())
@examples(25)
def test_engine_agrees_with_the_oracle(program: LarsProgram) -> None:
    compare(program, reloaded=also_reloaded(program))
