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
from dotr.temporal.layout.spread import ReadSpread


def query_spreads(query: ContinuousQuery) -> Sequence[ReadSpread] | None:
    """The spread of the only read of a query; None: it has one partition."""
    if query_key(query).variable is None:
        return None
    (window,) = query.windows
    is_divided = window.block_level is EntailmentLevel.NONE
    return [ReadSpread((), not is_divided, is_divided=is_divided)]
