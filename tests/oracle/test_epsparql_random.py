"""Random programs of EP-SPARQL, as the brute force sees them: every one can be read, and laws of section 2 hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, note

from tests.support.properties import examples
from tests.support.strategies_temporal import TemporalProgram, brute_force, rows_of, temporal_programs


@given(temporal_programs())
@examples(30)
def test_answers_are_never_taken_back(program: TemporalProgram) -> None:
    """Time-wise monotonicity: what a shorter stream gives, up to a time, a longer one gives too."""
    note(program.units)
    whole = rows_of(brute_force(program))
    for count in range(1, len(program.elements)):
        until, first_left_out = program.elements[count - 1][0], program.elements[count][0]
        if until == first_left_out:
            continue
        shorter = replace(program, elements=program.elements[:count])
        assert Counter({row: n for row, n in rows_of(brute_force(shorter)).items() if row[0] <= until * 1_000_000}) == earlier
