"""Warnings about literals in the background's axioms: functional properties of data that windows
merge (K403), and literals outside the range of their property (K404).

Cost: a look-up for each functional property and each range; at most `_MAX_LITERALS` literals of a
property are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions.identity import has_type, is_datatype
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.instant.datalog.entailment import Entailment
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Term, iri, is_literal

_RANGE: Final = iri(RDFS + "range")
_FUNCTIONAL, _OF_DATA = (iri(OWL + name) for name in ("FunctionalProperty", "DatatypeProperty"))
_MAX_LITERALS: Final = 10_000


def literal_warnings(program: CompiledProgram) -> Iterator[Diagnostic]:
    """The warnings of a program with OWL 2 RL."""
    if program.spec.entailment is not Entailment.OWL2RL:
        return
    background = program.knowledge.background
    ranges = background.by_subject.get(_RANGE, NO_ENDS)
    merging = next((unit for unit in program.units if unit.merges_instants), None)
    if merging is not None:
        types = background.by_object.get(RDF_TYPE, NO_ENDS)
        of_data = set(types.get(_OF_DATA, NO_TERMS))
        for name in sorted(types.get(_FUNCTIONAL, NO_TERMS)):
            if name in of_data or any(map(is_datatype, ranges.get(name, NO_TERMS))):
                yield Diagnostic(
                    "K403",
                    f"{name} is functional, and the windows of {merging.noun} {merging.name} merge its values of several instants",
                    None,
                    "Two different values of one subject in a window are a contradiction (dt-diff): take the axiom out of the background, "
                    "or give each reading a subject of its own.",
                    Severity.WARNING,
                )
    for name, datatypes in sorted(ranges.items()):
        found = _outside(background, name, [each for each in datatypes if is_datatype(each)])
        if found is not None:
            yield Diagnostic(
                "K404",
                f"{name} has the value {found[0]}, which is not in its range {found[1]}",
                None,
                "dt-not-type does not count: nothing contradicts. Mend the value, or the range; further values are not told.",
                Severity.WARNING,
            )


def _outside(background: TripleIndex, name: Term, datatypes: list[Term]) -> tuple[Term, Term] | None:
    """A literal of a property, and a datatype of its range that the literal does not have."""
    if not datatypes:
        return None
    for value in islice(background.by_object.get(name, NO_ENDS), _MAX_LITERALS):
        for datatype in datatypes:
            if is_literal(value) and not has_type(value, datatype):
                return value, datatype
    return None
