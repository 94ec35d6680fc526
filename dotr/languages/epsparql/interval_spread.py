"""Spreading of EP-SPARQL units: the columns of keys in the rows that they read (ep-sparql.md,
5)."""

from __future__ import annotations

from collections.abc import Sequence

from dotr.languages.epsparql.interval_keys import OperandKeys, operand_keys
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.temporal.intervals.patterns import operand_reads, visible_variables
from dotr.temporal.layout.spread import ReadSpread


def operand_places(unit: IntervalUnit, keys: OperandKeys) -> Sequence[int]:
    """The index of the key's variable among the sorted variables of each operand."""
    assert unit.query.where is not None, "a unit with a key has operands"
    operands = [each.operand for each in operand_reads(unit.query.where)]
    return [sorted(visible_variables(operand)).index(key) for operand, key in zip(operands, keys, strict=True)]


def interval_spreads(unit: IntervalUnit) -> Sequence[ReadSpread] | None:
    """The spread of each read of a unit, the same for reads of one stream; None: the unit has one
    partition.
    """
    keys = operand_keys(unit.query)
    if keys is None:
        return None
    found = {read.stream: ReadSpread((), False) for read in unit.reads}
    for place, inputs in zip(operand_places(unit, keys), unit.operands, strict=True):
        for each in inputs:
            stream = unit.reads[each.read].stream
            before = found[stream]
            if each.columns is None:
                found[stream] = ReadSpread(before.places, True)
            else:
                found[stream] = ReadSpread(tuple(sorted({*before.places, each.has_start + each.columns[place]})), before.is_everywhere)
    return [found[read.stream] for read in unit.reads]
