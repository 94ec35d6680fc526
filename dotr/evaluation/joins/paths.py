"""Property paths over indexes: walks from a bound end, and the pairs that a delta adds (SPARQL 1.1,
section 18.4; Italiano 1986 for the pairs).

Idea: a path is walked forward from a known subject, or backward from a known object. Where both are
known, two walks take turns, and the first that ends decides. The pairs that an edge `u -> v` adds
to `+` are those from the terms that reach `u` to the terms that `v` reaches, without the pairs that
were connected before; these are found from whichever ends take fewer edges.

    a -> b   c -> d     and the edge b -> c      adds a-c, a-d, b-c, b-d

Invariant: `|` and `!()` keep multiplicity, `?`, `*` and `+` reach each end once. A path of length
zero is taken to connect every term to itself, so the pairs that a delta adds have none of them.
Cost: of `+` and `*`, the edges reachable from the known end; of added pairs, their number and the
cheaper search for connected ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias, assert_never

from dotr.evaluation.codegen import WorkCount
from dotr.evaluation.joins.scope import is_nullable, is_single_step
from dotr.evaluation.triples.index import NO_EDGES, NO_ENDS, NO_TERMS, TripleIndex
from dotr.model.algebra import Alternative, Inverse, Link, Negated, Path, Repeat
from dotr.model.algebra import Sequence as PathSequence
from dotr.model.terms import Term

PathEnds: TypeAlias = Callable[[Term], Iterable[Term]]
"""The ends of the paths that start at a term, or backward the starts of those that end there."""

Spend: TypeAlias = Callable[[int], None]
"""A function that counts work. Raises `LimitExceeded`."""

_FEW_PREDICATES: Final = 16
"""Indexes with at most this many predicates are searched by predicate, which needs no edges."""

Pair: TypeAlias = tuple[Term, Term]

Terms: TypeAlias = Sequence[Collection[Term]]
"""Terms: those of some tables."""

Kept: TypeAlias = Sequence[Terms]
"""The terms that may be an end of a pair: those of each member."""


def path_ends(path: Path, indexes: Sequence[TripleIndex], spend: Spend, *, forward: bool) -> PathEnds:
    """The ends of a path over the union of indexes that share no triple.

    >>> index = TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<c>")])
    >>> some, start = Repeat(Link("<p>"), 1, True), "<a>"
    >>> list(path_ends(some, [index], uncounted, forward=True)("<a>"))
    ['<b>', '<c>']
    >>> list(path_ends(some, [index], uncounted, forward=False)("<c>"))
    ['<b>', '<a>']
    """
    match path:
        case Link(predicate):
            found = ((index.by_subject if forward else index.by_object).get(predicate) for index in indexes)
            return _linked([table.get for table in found if table is not None], spend)
        case Inverse(inner):
            return path_ends(inner, indexes, spend, forward=not forward)
        case PathSequence(left, right):
            one = path_ends(left if forward else right, indexes, spend, forward=forward)
            other = path_ends(right if forward else left, indexes, spend, forward=forward)
            # The term in the middle is the value of a variable, hence a node of the graph.
            if is_nullable(left) and is_nullable(right):
                return lambda start: [end for middle in one(start) for end in other(middle)] if is_node(indexes, start) else NO_TERMS
            return lambda start: [end for middle in one(start) for end in other(middle)]
        case Alternative(left, right):
            one, other = (path_ends(each, indexes, spend, forward=forward) for each in (left, right))
            return lambda start: [*one(start), *other(start)]
        case Repeat(inner, least, many):
            step = path_ends(inner, indexes, spend, forward=forward)
            return lambda start: _reached(step, start, least, many)
        case Negated(ahead, back):
            sets = [(excluded, along) for excluded, along in ((ahead, forward), (back, not forward)) if excluded is not None]
            few = [index for index in indexes if len(index.by_subject) <= _FEW_PREDICATES]
            tables = [
                (index.by_subject if along else index.by_object)[predicate].get
                for excluded, along in sets
                for index in few
                for predicate in index.predicates()
                if predicate not in excluded
            ]
            others = [_others(index, excluded, along) for excluded, along in sets for index in indexes if index not in few]
            if others:
                walks = [_linked(tables, uncounted), *others]

                def ends(start: Term) -> list[Term]:
                    found = [end for walk in walks for end in walk(start)]
                    spend(1 + len(found))
                    return found

                return ends
            return _linked(tables, spend)
        case _:
            assert_never(path)


def _linked(tables: Sequence[Callable[..., list[Term]]], spend: Spend) -> PathEnds:
    """The ends of triples, looked up in tables that share no triple."""

    def ends(start: Term) -> list[Term]:
        found = NO_TERMS
        for get in tables:
            more = get(start, NO_TERMS)
            if more:
                found = found + more if found else more
        spend(1 + len(found))
        return found

    return ends


def _others(index: TripleIndex, excluded: Collection[Term], along: bool) -> PathEnds:
    """The ends of a term's edges by any other predicate: one look-up instead of one a predicate.

    `along`: from subjects to objects; False: from objects to subjects.
    """
    if along:
        ahead = index.edges_from.get
        return lambda start: [end for predicate, end in ahead(start, NO_EDGES) if predicate not in excluded]
    back = index.edges_to.get
    return lambda start: [end for end, predicate in back(start, NO_EDGES) if predicate not in excluded]


def _reached(step: PathEnds, start: Term, least: int, many: bool) -> dict[Term, None]:
    """The terms that one step or more reach, and with `least` 0 the start, breadth first."""
    seen: dict[Term, None] = {} if least else {start: None}
    queue = [start]
    for node in queue:  # grows
        for end in step(node):
            if end not in seen:
                seen[end] = None
                if many:
                    queue.append(end)
    return seen


def is_node(indexes: Iterable[TripleIndex], term: Term) -> bool:
    """Tests whether the term is the subject or the object of a triple."""
    return any(term in index.by_subject[p] or term in index.by_object[p] for index in indexes for p in index.predicates())


def path_test(path: Repeat, indexes: Sequence[TripleIndex], spend: Spend) -> Callable[[Term, Term], bool]:
    """The test whether `?`, `*` or `+` connects two terms, over the union of indexes.

    >>> index = TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<c>")])
    >>> connected = path_test(Repeat(Link("<p>"), 1, True), [index], uncounted)
    >>> connected("<a>", "<c>"), connected("<c>", "<a>"), connected("<a>", "<a>")
    (True, False, False)
    """
    ahead, behind = _both_ways(path.path, indexes, spend)
    nullable = path.least == 0
    return lambda start, end: (nullable and start == end) or _connected(ahead, behind, start, end, path.many, spend)


def _both_ways(path: Path, indexes: Sequence[TripleIndex], spend: Spend) -> tuple[PathEnds, PathEnds]:
    """The ends of a path ahead and behind, for walks that take turns: of these, turns are counted."""
    spend = uncounted if is_single_step(path) else spend
    return path_ends(path, indexes, spend, forward=True), path_ends(path, indexes, uncounted, forward=False)


def _connected(ahead: PathEnds, behind: PathEnds, start: Term, end: Term, many: bool, spend: Spend) -> bool:
    walks = _search(ahead, start, end, many), _search(behind, end, start, many)
    while True:
        spend(1)
        for walk in walks:
            is_found = next(walk, None)
            if is_found is not False:  # None: the walk has ended
                return bool(is_found)


def _search(step: PathEnds, start: Term, goal: Term, many: bool) -> Iterator[bool]:
    """False for each edge of a walk, and True when it reaches the goal."""
    seen: set[Term] = set()
    queue = [start]
    for node in queue:  # grows
        for end in step(node):
            yield end == goal
            if many and end not in seen:
                seen.add(end)
                queue.append(end)


# --- the pairs that a delta adds ---


def added_pairs(
    path: Path, background: TripleIndex, delta: TripleIndex, spend: Spend, kept: tuple[Kept, Kept] = ((), ())
) -> Iterable[Pair]:
    """The pairs of a path over both indexes that use a triple of the delta; of `?`, `*` and `+`
    those that the background does not have, each once. Of `*` and `+` only pairs are made whose
    ends are `kept`, so that a join with few terms makes few.

    >>> background = TripleIndex([("<a>", "<p>", "<b>"), ("<c>", "<p>", "<d>"), ("<a>", "<p>", "<d>")])
    >>> delta = TripleIndex([("<b>", "<p>", "<c>")])
    >>> list(added_pairs(Repeat(Link("<p>"), 1, True), background, delta, uncounted))
    [('<b>', '<c>'), ('<b>', '<d>'), ('<a>', '<c>')]
    """
    match path:
        case Link(predicate):
            return ((subject, each) for subject, objects in delta.by_subject.get(predicate, NO_ENDS).items() for each in objects)
        case Inverse(inner):
            return ((end, start) for start, end in added_pairs(inner, background, delta, spend))
        case PathSequence(left, right):
            after = path_ends(right, (background, delta), spend, forward=True)
            before = path_ends(left, (background, delta), spend, forward=False)
            return [
                *((start, end) for start, middle in added_pairs(left, background, delta, spend) for end in after(middle)),
                *((start, end) for middle, end in added_pairs(right, background, delta, spend) for start in before(middle)),
            ]
        case Alternative(left, right):
            return [*added_pairs(left, background, delta, spend), *added_pairs(right, background, delta, spend)]
        case Repeat(inner, _, many):
            ahead, behind = _both_ways(inner, (background,), spend)
            steps = dict.fromkeys(added_pairs(inner, background, delta, spend))
            added = [(start, end) for start, end in steps if not _connected(ahead, behind, start, end, False, spend)]
            pairs = _closed(added, ahead, behind, spend, kept) if many else added
            return [(start, end) for start, end in pairs if start != end or not is_nullable(path)]
        case Negated(ahead_of, back_of):
            triples = list(delta.visible())
            ahead_pairs = [(s, o) for s, p, o in triples if ahead_of is not None and p not in ahead_of]
            return ahead_pairs + [(o, s) for s, p, o in triples if back_of is not None and p not in back_of]
        case _:
            assert_never(path)


def _closed(steps: Iterable[Pair], ahead: PathEnds, behind: PathEnds, spend: Spend, kept: tuple[Kept, Kept]) -> Iterator[Pair]:
    """The pairs that some steps add to the closure of others, step by step.

    `a -> b` and then `b -> c`, without others: a-b, then a-c and b-c.
    """
    added_from: dict[Term, list[Term]] = {}
    added_to: dict[Term, list[Term]] = {}

    def forward(node: Term) -> list[Term]:
        return [*ahead(node), *added_from.get(node, NO_TERMS)]

    def backward(node: Term) -> list[Term]:
        return [*behind(node), *added_to.get(node, NO_TERMS)]

    for start, end in steps:
        if _connected(forward, backward, start, end, True, spend):
            continue
        if kept[0]:
            reaching = [first for first, _ in _known_pairs(forward, backward, kept[0][0], ([start],), spend)]
            before = _kept(dict.fromkeys([start, *reaching]), kept[0])
        else:
            before = _reached(backward, start, 0, True)
        if before and kept[1]:
            reached = [last for _, last in _known_pairs(forward, backward, ([end],), kept[1][0], spend)]
            after = _kept(dict.fromkeys([end, *reached]), kept[1])
        else:
            after = _reached(forward, end, 0, True) if before else {}
        spend(len(before) * len(after))
        known = _known_pairs(forward, backward, (before,), (after,), spend)
        yield from ((first, last) for first in before for last in after if (first, last) not in known)
        added_from.setdefault(start, []).append(end)
        added_to.setdefault(end, []).append(start)


def _kept(terms: dict[Term, None], groups: Kept) -> dict[Term, None]:
    for tables in groups:
        terms = {term: None for term in terms if any(term in table for table in tables)}
    return terms


def _known_pairs(forward: PathEnds, backward: PathEnds, before: Terms, after: Terms, spend: Spend) -> dict[Pair, None]:
    """The pairs of two sets that are connected: all walks from the first take turns with all walks
    from the second, until one side has ended.

    The edge from a new room to a floor of 100 rooms: the room reaches nothing yet, so that no other
    room is visited.
    """
    from_first: dict[Pair, None] = {}
    from_second: dict[Pair, None] = {}
    walks = _walks(forward, before, after, from_first), _walks(backward, after, before, from_second)
    while True:
        spend(1)
        if next(walks[0], True):
            return from_first
        if next(walks[1], True):
            return {(start, end): None for end, start in from_second}


def _walks(step: PathEnds, starts: Terms, goals: Terms, found: dict[Pair, None]) -> Iterator[bool]:
    """Walks from all starts; False for each edge, and the goals reached into `found`."""
    for start in chain(*starts):
        seen: set[Term] = set()
        queue = [start]
        for node in queue:  # grows
            for end in step(node):
                yield False
                if end not in seen:
                    seen.add(end)
                    queue.append(end)
                    if any(end in table for table in goals):
                        found[start, end] = None


# --- counting ---


def uncounted(work: int) -> None:
    """Counts nothing."""


def counting(count: WorkCount) -> Callable[[Any, list[int]], Spend]:
    """The function that begins the count of walks: of the rows so far, and a list whose second
    number is the work of walks so far.
    """

    def begin(rows: Any, spent: list[int]) -> Spend:
        most = count.least

        def spend(work: int) -> None:
            nonlocal most
            spent[1] += work
            if spent[1] > most:
                most = count.passed(spent[1], rows)

        return spend

    return begin


NOT_SPENT: Final = "[0, 0]"
"""The work of look-ups and of walks before a join."""
