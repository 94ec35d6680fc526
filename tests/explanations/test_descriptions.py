"""Descriptions of units: the class of each language has them."""

from __future__ import annotations

from typing import Final

import pytest

from dotr.commands.check.retained_state import state
from dotr.commands.explain.explanation import explanation
from dotr.engine.spec import ProgramSpec
from dotr.explanations.descriptions import DescribedUnit
from dotr.languages.continuous.unit import ConstructSolutions, MergedGraphs, QueryUnit
from dotr.languages.epsparql.component import IntervalComponent
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.languages.lars.unit import LarsUnit
from dotr.languages.programs import compile_program
from dotr.model.places import Document

pytestmark = pytest.mark.core

UNITS: Final[tuple[type[DescribedUnit], ...]] = (
    QueryUnit,
    ConstructSolutions,
    MergedGraphs,
    LarsUnit,
    IntervalUnit,
    IntervalComponent,
)
"""The classes of units; the type checker compares their methods with the protocol."""


@pytest.mark.parametrize("unit", UNITS)
def test_each_class_of_a_unit_has_a_description(unit: type[DescribedUnit]) -> None:
    assert issubclass(unit, DescribedUnit)


def test_a_query_that_is_cut_is_described_and_drawn_as_one() -> None:
    text = (
        "PREFIX : <http://example.org/> REGISTER RSTREAM Hot AS CONSTRUCT { ?x :hot true } "
        "FROM NAMED WINDOW <w> ON :in [RANGE 10s STEP 5s ENTAILMENT SNAPSHOT] { WINDOW <w> { ?x :value ?v } }"
    )
    program = compile_program(ProgramSpec((Document("hot.rspql", text),), cut=True))
    names = [placed.unit.name for layer in program.layout.layers for placed in layer.units]
    assert names == ["Hot", "graphs of Hot"]
    explained = explanation("hot.rspql", program)
    assert [each.title for each in explained.units] == ["Continuous query Hot: RSTREAM of one graph a report"]
    assert [(each.name, each.layer) for each in explained.drawn] == [("Hot", 0)]
    assert state("hot.rspql", program.rules, program.units).bounds == ("Hot: window <w> keeps elements of 10 s",)
