"""The part of a continuous query that one bucket evaluates (continuous.md, section 9).

Idea: a query keyed by its subject runs in every bucket, over the triples of the bucket's subjects.
Each bucket outputs the solutions of its subjects; solutions over the background alone are found in
all buckets, and the bucket of their subject outputs them. Every bucket receives the numbers of all
elements and triples, so windows of all buckets report at the same times. Only the first bucket
outputs what all buckets find: contradictions and dead letters of a LIMIT.
Example: a bucket receives the row `2 3 :b :v 2 :b :v 3`: two elements with three triples have
arrived, of which two triples have subjects of the bucket. The entry of its log is `2 :b :v 2 :b :v
3`, with the number of elements, or `3 :b …` where the window counts triples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.languages.continuous.evaluation.maintained_solutions import SolutionChanges
from dotr.languages.continuous.keys import key_column
from dotr.languages.continuous.model import ContinuousQuery, EntailmentLevel, TriplesExtent
from dotr.languages.continuous.windows.content import ContentRange, TimedElement, WindowContent
from dotr.model.algebra import Select
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term, Triple
from dotr.model.time import Micros
from dotr.temporal.items import graph_row, row_graph
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.matching.events import StoredEvent


class ElementShare(NamedTuple):
    """The bucket's share of the elements of a time.

    - `elements`, `size`: the number of all elements, and of all their triples.
    - `triples`: those with subjects of the bucket, each once.
    """

    elements: int
    size: int
    triples: tuple[Triple, ...]


class QueryShare:
    """The part of a keyed query that one bucket evaluates.

    - `is_divided`: the bucket receives shares of elements; else whole elements, which it closes.
    - `is_first`: the bucket outputs contradictions and dead letters that all buckets find.
    """

    def __init__(self, query: ContinuousQuery, share: BucketShare) -> None:
        (window,) = query.windows
        column = key_column(query)
        assert column is not None, "a query in several buckets has a key"
        self._share = share
        self.is_divided = window.block_level is EntailmentLevel.NONE
        self.is_first = share.bucket == 0
        self._counts_triples = isinstance(window.extent, TriplesExtent)
        self._column = column
        projection = query.query.projection
        self._place = projection.index(column) if column in projection else len(projection)
        self._is_hidden = column not in projection
        self._is_default = window.name is None
        self._own: dict[Term, bool] = {}

    def has(self, subject: Term | None) -> bool:
        """True for a subject of the bucket."""
        assert subject is not None, "triples bind the key of a query"
        own = self._own.get(subject)
        if own is None:
            if len(self._own) > _MANY:
                self._own.clear()
            own = self._own[subject] = self._share.has(subject)
        return own

    # --- solutions ---

    def selected(self, select: Select) -> Select:
        """The query with the key in its projection, where the bucket may find solutions of other
        buckets: a default graph holds the background, with all subjects."""
        if self._is_default and self._is_hidden:
            return replace(select, projection=(*select.projection, self._column))
        return select

    def own_changes(self, changes: SolutionChanges) -> SolutionChanges:
        """The solutions of the bucket, in the query's projection."""
        if not self._is_default:
            return changes
        return SolutionChanges(self._own_rows(changes.inserted), self._own_rows(changes.deleted), changes.is_initial)

    def _own_rows(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        place, has = self._place, self.has
        found = [row for row in rows if has(row[place])]
        return [row[:place] for row in found] if self._is_hidden else found

    # --- elements ---

    def arrived(self, rows: Iterable[AttributeValues]) -> ElementShare:
        """The share of the rows that arrive at a time. They are shares or, where there is only one
        bucket, whole elements."""
        elements = size = 0
        triples: dict[Triple, None] = {}
        for row in rows:
            if len(row) % 3:  # a share: two numbers, then triples
                elements += int(row[0] or "")
                size += int(row[1] or "")
                triples |= dict.fromkeys(row_graph(row[2:]))
            else:
                whole = row_graph(row)
                elements += 1
                size += len(whole)
                triples |= dict.fromkeys(each for each in whole if self.has(each[0]))
        return ElementShare(elements, size, tuple(triples))

    # --- state ---

    def entries(self, content: WindowContent, after: Micros | None) -> list[StoredEvent]:
        """The shares of a content after a time in µs (None: all), as entries of a log."""
        kept = zip(content.later(after), content.counted(after), strict=True)
        return [(time, 0, (str(counted), *graph_row(triples))) for (time, triples), counted in kept]

    def restore(self, content: WindowContent, text: str, entries: Iterable[StoredEvent]) -> None:
        """The inverse of `entries`; `text` is that of `WindowContent.to_json`."""
        kept = [(int(row[0] or ""), TimedElement(time, row_graph(row[1:]))) for time, _, row in entries]
        content.restore(text, [each for _, each in kept], [counted for counted, _ in kept])

    def take_over(self, content: WindowContent, text: str, entries: Sequence[StoredEvent], reported: ContentRange) -> ContentRange:
        """Restore the bucket's share of a content from the state of one partition, which has whole
        elements.

        Returns the range of shares for `reported`, the range of elements of the last report.
        """
        content.restore(text, [TimedElement(time, row_graph(row)) for time, _, row in entries])
        whole = content.elements
        first = content.range_of_kept().first
        shares: list[TimedElement] = []
        counted: list[int] = []
        ends = [first]  # the position after the last element of each share
        for time, group in groupby(whole, attrgetter("time")):
            elements = [each.triples for each in group]
            own = dict.fromkeys(triple for triples in elements for triple in triples if self.has(triple[0]))
            shares.append(TimedElement(time, tuple(own)))
            counted.append(sum(map(len, elements)) if self._counts_triples else len(elements))
            ends.append(ends[-1] + len(elements))
        content.restore(text, shares, counted)
        if reported.end <= first:
            return reported
        # A content never splits the elements of one time, so it begins and ends between two shares.
        positions = {position: first + number for number, position in enumerate(ends)}
        return ContentRange(positions.get(reported.first, reported.first), positions[reported.end])

    def own_rows(self, rows: Iterable[AnswerRow]) -> list[AnswerRow]:
        """The bucket's rows among those of the last report of one partition."""
        return [row for row in rows if self.has(row[self._place])]


_MANY = 100_000
"""The greatest number of subjects whose buckets are cached."""
