"""Buckets that receive the rows of a read, and the share of a unit that a bucket has.

Idea: a unit with a key is stepped in all buckets, and each bucket has the solutions whose key
hashes to it. A row is sent to the buckets of the terms in its key columns. A row without key
columns, such as a graph in which an operand is matched, is sent to all buckets, and each keeps its
own solutions.
Example: `{ ?a :knows ?b } SEQ { ?b :knows ?c }` has the key ?b, and both groups read one stream of
rows (subject, object): a row is sent to the bucket of its object, for the first group, and to that
of its subject, for the second.
Source: ep-sparql.md, section 5; lars.md, section 4; continuous.md, section 9.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    - `is_divided`: a row is an element, of which each bucket receives a share (`element_shares`).
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


def element_shares(rows: Sequence[AttributeValues], buckets: int) -> Sequence[AttributeValues]:
    """The share of each bucket, in order, in elements that arrive together: a row of the number of
    elements, the number of their triples, and the triples of the bucket's subjects.

    >>> a, b = ("<http://e/a>", "<e:v>", '"1"'), ("<http://e/b>", "<e:v>", '"2"')
    >>> element_shares([(*a, *b), b], 2) == [("2", "3", *b, *b), ("2", "3", *a)]
    True
    """
    own: list[list[Term | None]] = [[] for _ in range(buckets)]
    triples = 0
    for row in rows:
        found = dict.fromkeys(zip(row[0::3], row[1::3], row[2::3], strict=True))
        for triple in found:
            if triple[0] is not None:
                triples += 1
                own[bucket(triple[0], buckets)] += triple
    counts = str(len(rows)), str(triples)
    return [(*counts, *each) for each in own]
