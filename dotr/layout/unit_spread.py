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

from collections.abc import Collection, Sequence
from typing import NamedTuple

from dotr.layout.event_order import AttributeValues
from dotr.layout.interval_components import IntervalComponent
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.keys import bucket
from dotr.layout.units import StreamQuery, StreamUnit
from dotr.model.continuous import ConstructForm
from dotr.model.terms import Term


class ReadSpread(NamedTuple):
    """The buckets to which the rows of a read are sent.

    - `places`: the key columns of a row, sorted; a row is sent to the bucket of the term in each.
    - `is_everywhere`: a row is sent to all buckets.
    - `objects`: for rows that are triples, the predicates of triples that are keyed by their
      objects; the others are keyed by their subjects. None for other rows.
    - `is_divided`: a row is an element, of which each bucket receives a share (`query_spread`).
    """

    places: tuple[int, ...]
    is_everywhere: bool
    objects: frozenset[Term] | None = None
    is_divided: bool = False

    def keys(self, row: AttributeValues) -> Collection[Term | None]:
        """The keys of a row, unless `is_everywhere` or `is_divided`.

        >>> ReadSpread((0, 1), False).keys(("<e:a>", "<e:b>")) == {"<e:a>", "<e:b>"}
        True
        >>> ReadSpread((), False, frozenset({"<e:p>"})).keys(("<e:a>", "<e:p>", "<e:b>"))
        ('<e:b>',)
        """
        if self.objects is not None:
            return (row[2] if row[1] in self.objects else row[0],)
        return {row[place] for place in self.places}

    @property
    def is_exact(self) -> bool:
        """True if a row is sent to the bucket of its only key alone."""
        return len(self.places) == 1 and not self.is_everywhere


class BucketShare(NamedTuple):
    """The share of a unit in a bucket: the keys that hash to it.

    >>> share = BucketShare(0, 2)
    >>> [share.has(f"<http://e/{name}>") for name in "abcd"]
    [False, True, False, True]
    """

    bucket: int
    buckets: int

    def has(self, term: Term | None) -> bool:
        """True if a key belongs to the bucket."""
        return bucket(term, self.buckets) == self.bucket


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
            from dotr.layout.interval_keys import operand_keys  # loaded where a program has such a unit

            return operand_keys(query) or ()
        case _:
            from dotr.layout.lars_spread import lars_key_names
            from dotr.layout.lars_units import LarsUnit
            from dotr.layout.merged_graphs import ConstructSolutions

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
            return None  # its solutions are spread, where it is cut (`merged_graphs`)
        case StreamQuery(query):
            from dotr.layout.query_spread import query_spreads

            return query_spreads(query)
        case IntervalUnit():
            from dotr.layout.interval_spread import interval_spreads  # loaded where a program has such a unit

            return interval_spreads(unit)
        case _:
            from dotr.layout.lars_spread import lars_spreads
            from dotr.layout.lars_units import LarsUnit
            from dotr.layout.merged_graphs import ConstructSolutions

            if isinstance(unit, ConstructSolutions):
                from dotr.layout.query_spread import query_spreads

                return query_spreads(unit.whole.query)
            return lars_spreads(unit) if isinstance(unit, LarsUnit) else None


def _query_key_names(unit: StreamQuery) -> tuple[str, ...]:
    key = unit.key.variable
    return () if key is None else (key,)
