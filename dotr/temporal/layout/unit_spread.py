"""Spreading of units of other languages than that of rules over the buckets of a layer.

Idea: a unit with a key runs in all buckets, and each bucket has the solutions whose key hashes to
it. A row is sent to the buckets of the terms in its key columns. A row without key columns, such as
a graph in which an operand is matched, is sent to all buckets, and each keeps its own solutions.
Example: `{ ?a :knows ?b } SEQ { ?b :knows ?c }` has the key ?b, and both groups read one stream of
rows (subject, object): a row is sent to the bucket of its object, for the first group, and to that
of its subject, for the second.
Source: ep-sparql.md, section 5; lars.md, section 4; continuous.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.languages.continuous.model import ConstructForm
from dotr.languages.epsparql.component import IntervalComponent
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.temporal.layout.spread import ReadSpread
from dotr.temporal.layout.units import StreamQuery, StreamUnit


def unit_key_names(unit: StreamUnit) -> tuple[str, ...]:
    """The key of a unit that is spread, as texts for state: the variable of each operand, or the
    predicates of a LARS file with their places; empty: the unit has one partition.
    """
    match unit:
        case IntervalComponent():
            return ()
        case StreamQuery(query) if isinstance(query.form, ConstructForm):
            return ()
        case StreamQuery():
            return _query_key_names(unit)
        case IntervalUnit(query):
            from dotr.languages.epsparql.interval_keys import operand_keys  # loaded where a program has such a unit

            return operand_keys(query) or ()
        case _:
            from dotr.languages.continuous.unit import ConstructSolutions
            from dotr.languages.lars.lars_spread import lars_key_names
            from dotr.languages.lars.unit import LarsUnit

            if isinstance(unit, ConstructSolutions):
                return _query_key_names(unit.whole)
            return lars_key_names(unit) if isinstance(unit, LarsUnit) else ()


def read_spreads(unit: StreamUnit) -> Sequence[ReadSpread] | None:
    """The spread of each read of a unit, the same for reads of one stream; None: the unit has one
    partition.
    """
    match unit:
        case IntervalComponent():
            return None
        case StreamQuery(query) if isinstance(query.form, ConstructForm):
            return None  # its solutions are spread, where it is cut (`dotr.languages.continuous.unit`)
        case StreamQuery(query):
            from dotr.languages.continuous.query_spread import query_spreads

            return query_spreads(query)
        case IntervalUnit():
            from dotr.languages.epsparql.interval_spread import interval_spreads  # loaded where a program has such a unit

            return interval_spreads(unit)
        case _:
            from dotr.languages.continuous.unit import ConstructSolutions
            from dotr.languages.lars.lars_spread import lars_spreads
            from dotr.languages.lars.unit import LarsUnit

            if isinstance(unit, ConstructSolutions):
                from dotr.languages.continuous.query_spread import query_spreads

                return query_spreads(unit.whole.query)
            return lars_spreads(unit) if isinstance(unit, LarsUnit) else None


def _query_key_names(unit: StreamQuery) -> tuple[str, ...]:
    key = unit.key.variable
    return () if key is None else (key,)
