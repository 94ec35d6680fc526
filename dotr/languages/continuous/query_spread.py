"""Spreading of continuous queries by the subjects of their triple patterns (continuous.md, section
9).

Idea: at the level NONE a bucket receives, of the elements of each time, the triples of its
subjects, and the numbers of all elements and of all their triples, since policies and counts are
those of the whole window. At SNAPSHOT a bucket receives all elements, closes the items, and keeps
the entailed triples of its subjects. The background is in all buckets; a solution belongs to the
bucket of its subject.
Example: of two elements of one time, `:a :v 1 . :b :v 2` and `:b :v 3`, the bucket of :b gets the
row `2 3 :b :v 2 :b :v 3`: two elements with three triples, of which two are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.languages.continuous.keys import query_key
from dotr.languages.continuous.model import ContinuousQuery, EntailmentLevel
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.temporal.layout.keys import bucket
from dotr.temporal.layout.spread import ReadSpread


def query_spreads(query: ContinuousQuery) -> Sequence[ReadSpread] | None:
    """The spread of the only read of a query; None: it has one partition."""
    if query_key(query).variable is None:
        return None
    (window,) = query.windows
    is_divided = window.block_level is EntailmentLevel.NONE
    return [ReadSpread((), not is_divided, is_divided=is_divided)]


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
