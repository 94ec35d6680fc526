"""Spreading of units of other languages than that of rules over the buckets of a layer.

Idea: a unit with a key runs in all buckets, and each bucket has the solutions whose key hashes to
it. A row goes to the buckets of the terms at its key's places; what has no such place, a graph in
which an operand is matched, goes to all buckets, and each takes its own solutions of it.
Example: `{ ?a :knows ?b } SEQ { ?b :knows ?c }` has the key ?b, and both groups read one stream of
rows (subject, object): a row goes to the bucket of its object, for the first group, and to that of
its subject, for the second.
Source: ep-sparql.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dotr.layout.interval_keys import OperandKeys, operand_keys
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.keys import bucket
from dotr.layout.units import StreamUnit
from dotr.model.intervals import operand_reads, visible_variables
from dotr.model.terms import Term


class ReadSpread(NamedTuple):
    """The buckets to which the rows of a read go.

    - `places`: the places in a row of the terms that key it, sorted; a row goes to the bucket of
      each.
    - `is_everywhere`: a row goes to all buckets.
    """

    places: tuple[int, ...]
    is_everywhere: bool

    @property
    def is_exact(self) -> bool:
        """True if a row comes to no bucket but that of its only key."""
        return len(self.places) == 1 and not self.is_everywhere


class BucketShare(NamedTuple):
    """The part of a unit that a bucket has: that of the keys which hash to it.

    >>> share = BucketShare(0, 2)
    >>> [share.has(f"<http://e/{name}>") for name in "abcd"]
    [True, False, True, False]
    """

    bucket: int
    buckets: int

    def has(self, term: Term | None) -> bool:
        """True if a key is one of the bucket's."""
        return bucket(term, self.buckets) == self.bucket


_NOWHERE: Final = ReadSpread((), False)


def unit_key_names(unit: StreamUnit) -> OperandKeys | None:
    """The variables that key a unit that is spread, one for each of its operands; None: the unit has
    one partition.
    """
    return operand_keys(unit.query) if isinstance(unit, IntervalUnit) else None


def operand_places(unit: IntervalUnit, keys: OperandKeys) -> Sequence[int]:
    """The place of the key among the sorted variables of each operand."""
    assert unit.query.where is not None, "a unit with a key has operands"
    operands = [each.operand for each in operand_reads(unit.query.where)]
    return [sorted(visible_variables(operand)).index(key) for operand, key in zip(operands, keys, strict=True)]


def read_spreads(unit: StreamUnit) -> Sequence[ReadSpread] | None:
    """The spread of each read of a unit, the same for reads of one stream; None: the unit has one
    partition.
    """
    keys = unit_key_names(unit)
    if keys is None or not isinstance(unit, IntervalUnit):
        return None
    found = {read.stream: _NOWHERE for read in unit.reads}
    for place, inputs in zip(operand_places(unit, keys), unit.operands, strict=True):
        for each in inputs:
            stream = unit.reads[each.read].stream
            places, everywhere = found[stream]
            if each.columns is None:
                found[stream] = ReadSpread(places, True)
            else:
                found[stream] = ReadSpread(tuple(sorted({*places, each.has_start + each.columns[place]})), everywhere)
    return [found[read.stream] for read in unit.reads]
