"""Streams that feed the operands of an EP-SPARQL unit, and their spreading: the columns of keys in
the rows that it reads (ep-sparql.md, 2, 4 and 5).

Example: the unit `Q`, of `{ ?c :rose ?q } SEQ { ?c :price ?p }`, where the STREAM `Up` makes graphs
of `?c :rose ?q`, has three reads: the facts of either plain group, and the graphs of `Up` with
their starts. Operand 0 has the inputs 0 and 1, operand 1 has the input 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dotr.languages.epsparql.interval_keys import OperandKeys, operand_keys
from dotr.model.places import Span
from dotr.model.terms import Label
from dotr.temporal.intervals.patterns import TemporalQuery, operand_reads, visible_variables
from dotr.temporal.layout.spread import ReadSpread
from dotr.temporal.layout.units import UnitRead


class OperandInput(NamedTuple):
    """A read that feeds an operand.

    - `read`: its number.
    - `columns`: for each variable of the operand, sorted, the place of its term in a row; None: the
      row is a graph, in which the operand is matched.
    - `has_start`: the row begins with the start of the event.
    """

    read: int
    columns: tuple[int, ...] | None
    has_start: bool


@dataclass(frozen=True, slots=True)
class LinkedQuery:
    """A QUERY or STREAM with the streams that it reads.

    - `operands`: the inputs of each operand, in the order of the text. A QUERY with SPARQL's
      modifiers has none, and one read: its answers.
    """

    query: TemporalQuery
    reads: tuple[UnitRead, ...]
    operands: tuple[tuple[OperandInput, ...], ...]

    @property
    def name(self) -> Label:
        """The name of the unit, which is its label."""
        return self.query.label

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.query.label_span


def interval_key_names(unit: LinkedQuery) -> OperandKeys:
    """The variable of each operand that keys a unit; empty: the unit has one partition."""
    return operand_keys(unit.query) or ()


def operand_places(unit: LinkedQuery, keys: OperandKeys) -> Sequence[int]:
    """The index of the key's variable among the sorted variables of each operand."""
    assert unit.query.where is not None, "a unit with a key has operands"
    operands = [each.operand for each in operand_reads(unit.query.where)]
    return [sorted(visible_variables(operand)).index(key) for operand, key in zip(operands, keys, strict=True)]


def interval_spreads(unit: LinkedQuery) -> Sequence[ReadSpread] | None:
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
