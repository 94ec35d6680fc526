"""Random programs of EP-SPARQL, rules and shared queries: the engine agrees with the oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import assume, given, note

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from tests.languages.epsparql.test_intervals import run_intervals
from tests.oracle.cases import read_turtle
from tests.oracle.isomorphism import canonical
from tests.support.properties import also_reloaded, examples
from tests.support.strategies_continuous import SECOND
from tests.support.strategies_temporal import PREFIXES, Row, TemporalProgram, brute_force, rows_of, temporal_programs


def compare(program: TemporalProgram, *, reloaded: bool) -> None:
    """`reloaded`: also with the state restored after every instant."""
    note(program.units)
    note(str(replace(program, units="")))
    expected = rows_of(brute_force(program))
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items()) + program.background)
        spec = ProgramSpec(
            (Document("q.epsparql", program.units), Document("r.dotr", program.rules)),
            (Document("k.dlog", program.datalog),) if program.datalog else (),
            (str(background),),
            Entailment(program.entailment),
            prefixes=PREFIXES,
        )
        try:
            compiled = compile_program(spec)
        except Refused as refused:
            assume("D404" not in str(refused))
            raise
        elements = [(int(at * SECOND), read_turtle(text, PREFIXES)) for at, text in program.elements]
        runs = [run_intervals(compiled, elements, reloaded=each) for each in {False, reloaded}]
    for firings in runs:
        given_rows = [(each, canonical(frozenset(each.graph or ()), dict(each.attributes))) for each in firings]
        found: Counter[Row] = Counter((each.time, each.event, text) for each, text in given_rows)
        lines = [f"- expected {each}" for each in (expected - found)] + [f"+ got {each}" for each in (found - expected)]
        assert expected == found, "\n".join(lines)


@given(temporal_programs())
@examples(40)
def test_engine_agrees_with_the_oracle(program: TemporalProgram) -> None:
    compare(program, reloaded=also_reloaded(program))
