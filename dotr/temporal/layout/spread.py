"""Buckets that receive the rows of a read, and the share of a unit that a bucket has.

Invariant: a row without a key among its columns is sent to all buckets, and each keeps its own
share.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.temporal.layout.keys import bucket


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
