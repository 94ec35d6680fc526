"""Every event of random programs with units of EP-SPARQL has reasons, and its evidence suffices: a brute-force evaluation over the elements
of its evidence alone has the event."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, note

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.model.places import Document
from tests.oracle.isomorphism import canonical
from tests.support.properties import examples
from tests.support.strategies_temporal import PREFIXES, TemporalProgram, brute_force, temporal_programs
from tests.support.unit_reasons import NOT_MONOTONE, assert_reasons_give_events, emptied, refused_as_expected, replay_of


@given(temporal_programs())
@examples(10)
def test_evidence_of_temporal_events_suffices_for_them(program: TemporalProgram) -> None:
    note(program.units)
    note(str(replace(program, units="")))
    brute_force(program)  # passes over what is refused
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
        refused_as_expected(spec)
        replay = replay_of(program.elements, spec, PREFIXES, None)

        def alone(kept: set[int]) -> set[tuple[object, ...]]:
            found = brute_force(replace(program, elements=tuple(emptied(program.elements, kept))))
            return {(each.time, each.event, canonical(each.graph, each.attributes)) for each in found.outputs}

        texts = program.units + program.rules + program.datalog
        assert_reasons_give_events(replay, alone, is_monotone=not any(word in texts for word in NOT_MONOTONE))
