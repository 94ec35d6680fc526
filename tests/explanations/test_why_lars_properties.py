"""Every event of random programs with LARS files has reasons, and its evidence suffices: a brute-force evaluation over the elements of its
evidence alone has the event."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import assume, given, note

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.model.places import Document
from tests.languages.lars.test_lars_random import PREFIXES as LARS_PREFIXES
from tests.languages.lars.test_lars_random import STREAM, by_brute_force, documents_of
from tests.oracle.isomorphism import canonical
from tests.support.properties import examples
from tests.support.strategies_lars import LarsProgram, lars_programs
from tests.support.unit_reasons import NOT_MONOTONE, assert_reasons_give_events, emptied, refused_as_expected, replay_of


@given(lars_programs())
@examples(10)
def test_evidence_of_lars_events_suffices_for_them(program: LarsProgram) -> None:
    for text in (program.first, program.later):
        note(text)
    note(str(replace(program, first="", later="")))
    expected = by_brute_force(program)
    assume(not expected.decided_by_names and not expected.too_much)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder) / "background.ttl"
        background.write_text("@prefix : <http://example.org/> .\n" + program.background)
        datalog = (Document("k.dlog", program.datalog),) if program.datalog else ()
        spec = ProgramSpec(tuple(documents_of(program)), datalog, (str(background),), Entailment("none"), prefixes=LARS_PREFIXES)
        refused_as_expected(spec)
        replay = replay_of(program.elements, spec, LARS_PREFIXES, STREAM)

        def alone(kept: set[int]) -> set[tuple[object, ...]]:
            given_by = by_brute_force(replace(program, elements=tuple(emptied(program.elements, kept))))
            return {(each.time, each.event, canonical(each.graph, each.attributes)) for each in given_by.outputs}

        texts = program.first + program.later + program.rules + program.queries + program.datalog
        is_monotone = not program.queries and not any(word in texts for word in NOT_MONOTONE)
        assert_reasons_give_events(replay, alone, is_monotone=is_monotone)
