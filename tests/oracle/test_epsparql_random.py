"""Random programs of EP-SPARQL, evaluated by brute force: every one can be parsed, and laws of section 2 hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, note

from tests.support.properties import examples
from tests.support.strategies_continuous import SECOND
from tests.support.strategies_temporal import Row, TemporalProgram, brute_force, rows_of, temporal_programs


@given(temporal_programs())
@examples(30)
def test_answers_are_never_taken_back(program: TemporalProgram) -> None:
    """Monotonicity in time: the output of a prefix of a stream is part of the output of the whole."""
    note(program.units)
    whole = rows_of(brute_force(program))
    for count in range(1, len(program.elements)):
        until = program.elements[count - 1][0]
        if until == program.elements[count][0]:
            continue
        shorter = rows_of(brute_force(replace(program, elements=program.elements[:count])))
        assert up_to(until, shorter) == up_to(until, whole)


def up_to(until: float, rows: Counter[Row]) -> Counter[Row]:
    return Counter({row: number for row, number in rows.items() if row[0] <= until * SECOND})
