"""Walks along paths, and the pairs that a delta adds, compared with the oracle; and what they cost."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dotr.evaluation.joins.paths import added_pairs, path_ends, path_test, uncounted
from dotr.evaluation.joins.scope import is_nullable
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Alternative, Inverse, Link, Negated, Path, Repeat, Sequence
from dotr.model.terms import Term, Triple
from tests.oracle.algebra import walk

pytestmark = pytest.mark.core

NODES = [f"<{name}>" for name in "abcdefg"]
UP = Repeat(Link("<up>"), 1, True)


def any_path(chosen: random.Random, depth: int) -> Path:
    """A path without a sequence of length zero."""
    inner = Link(chosen.choice(["<p>", "<q>"])) if depth == 0 else any_path(chosen, depth - 1)
    match chosen.randrange(7):
        case 0:
            return Inverse(inner)
        case 1 if not is_nullable(inner):
            return Sequence(inner, any_path(chosen, 0))
        case 2:
            return Alternative(inner, any_path(chosen, 0))
        case 3:
            return Negated(*chosen.choice([(("<p>",), None), (None, ("<q>",)), ((), ("<p>",))]))
        case 4 | 5:
            return Repeat(inner, chosen.randint(0, 1), True)
        case _:
            return Repeat(inner, 0, False)


def some_triples(chosen: random.Random, most: int) -> list[Triple]:
    triples = [(chosen.choice(NODES), chosen.choice(["<p>", "<q>", "<r>"]), chosen.choice(NODES)) for _ in range(chosen.randint(0, most))]
    return list(dict.fromkeys(triples))


@pytest.mark.parametrize("seed", range(400))
def test_walks_and_added_pairs_are_those_of_all_pairs(seed: int) -> None:
    chosen = random.Random(seed)
    path = Repeat(any_path(chosen, 1), *chosen.choice([(1, True), (0, True), (0, False)]))
    known = some_triples(chosen, 10)
    new = [triple for triple in some_triples(chosen, 5) if triple not in known]
    background, delta = TripleIndex(known), TripleIndex(new)
    before, after = (set(walk(path, graph, NODES)) for graph in (known, known + new))
    forward, backward = (path_ends(path, (background, delta), uncounted, forward=each) for each in (True, False))
    test = path_test(path, (background, delta), uncounted)
    for start in NODES:
        assert Counter(list(forward(start))) == Counter(end for first, end in after if first == start)
        assert Counter(list(backward(start))) == Counter(first for first, end in after if end == start)
        assert [end for end in NODES if test(start, end)] == [end for end in NODES if (start, end) in after]
    added = Counter({pair: 1 for pair in after - before if pair[0] != pair[1] or not is_nullable(path)})
    assert Counter(added_pairs(path, background, delta, uncounted)) == added
    kept = chosen.sample(NODES, 3), chosen.sample(NODES, 3)
    filtered = {pair for pair in added_pairs(path, background, delta, uncounted, ((kept[:1],), (kept[1:],))) if pair in added}
    if path.many:
        assert filtered == {(start, end) for start, end in added if start in kept[0] and end in kept[1]}


@pytest.mark.parametrize(
    "path", [Negated(("<p>",), None), Alternative(Link("<p>"), Inverse(Link("<q>"))), Sequence(Link("<p>"), Link("<q>"))]
)
def test_paths_without_repetition_keep_multiplicity(path: Path) -> None:
    chosen = random.Random(repr(path))
    for _ in range(40):
        known = some_triples(chosen, 12)
        ends = path_ends(path, [TripleIndex(known)], uncounted, forward=True)
        assert Counter((start, end) for start in NODES for end in ends(start)) == Counter(walk(path, known, NODES))


@pytest.mark.parametrize("path", [Negated(("<p>", "<r3>"), None), Negated(None, ("<q>",)), Negated(("<p>",), ("<r1>", "<q>"))])
@pytest.mark.parametrize("forward", [True, False])
def test_negated_set_over_many_predicates_takes_the_edges_of_one_end(path: Negated, forward: bool) -> None:
    chosen = random.Random(5)
    predicates = ["<p>", "<q>", *(f"<r{n}>" for n in range(30))]
    known, new = (
        list(dict.fromkeys([(chosen.choice(NODES), each, chosen.choice(NODES)) for _ in range(2) for each in some]))
        for some in (predicates, predicates[:3])
    )
    new = [triple for triple in new if triple not in known]
    hidden = ("<a>", "<urn:dotr:hidden:x>", "<b>")
    work = Work()
    ends = path_ends(path, [TripleIndex([*known, hidden]), TripleIndex(new)], work.spend, forward=forward)
    pairs = walk(path, known + new, NODES)
    found = Counter((start, end) if forward else (end, start) for start in NODES for end in ends(start))
    assert found == Counter(pairs)
    assert work.done == len(NODES) + found.total()


class Work:
    """The work that is counted."""

    def __init__(self) -> None:
        self.done = 0

    def spend(self, work: int) -> None:
        self.done += work


def building(rooms: int) -> TripleIndex:
    """Rooms on floors of 20 rooms, in one building, up and down."""
    ups = [(f"<room{n}>", f"<floor{n // 20}>") for n in range(rooms)] + [(f"<floor{n}>", "<house>") for n in range(rooms // 20)]
    return TripleIndex([*((low, "<up>", high) for low, high in ups), *((high, "<down>", low) for low, high in ups)])


@pytest.mark.parametrize(
    ("edges", "pairs"),
    [
        ([("<new>", "<up>", "<floor0>")], 2),
        ([("<floor0>", "<down>", "<new>")], 2),
        ([("<house>", "<down>", "<new>")], 1),
        ([("<room7>", "<up>", "<zone>"), ("<zone>", "<up>", "<house>")], 2),
        ([("<zone>", "<down>", "<room7>"), ("<house>", "<down>", "<zone>")], 2),
        ([("<room7>", "<up>", "<house>")], 0),
        ([("<floor3>", "<up>", "<campus>")], 21),
    ],
)
def test_an_edge_costs_the_pairs_that_it_adds(edges: list[Triple], pairs: int) -> None:
    """Whatever the number of rooms, on the way up and down."""
    costs = []
    for rooms in (400, 8_000):
        work = Work()
        path = Repeat(Link(edges[0][1]), 1, True)
        assert len(list(added_pairs(path, building(rooms), TripleIndex(edges), work.spend))) == pairs
        costs.append(work.done)
    assert costs[0] == costs[1] <= 10 * pairs + 100


def test_edges_in_a_row_cost_their_pairs() -> None:
    chain = TripleIndex([(f"<{n}>", "<up>", f"<{n + 1}>") for n in range(1_000)])
    edges = TripleIndex([(f"<{n}>", "<up>", f"<{n + 1}>") for n in range(1_000, 1_010)])
    work = Work()
    pairs = list(added_pairs(UP, chain, edges, work.spend))
    assert len(pairs) == len(set(pairs)) == 10 * 1_000 + 55
    assert work.done <= 2 * len(pairs)


def test_few_kept_terms_of_a_large_closure_cost_few_walks() -> None:
    work = Work()
    kept: tuple[list[Term], list[Term]] = ["<room3>"], ["<campus>"]
    edge = TripleIndex([("<house>", "<up>", "<campus>")])
    assert list(added_pairs(UP, building(8_000), edge, work.spend, ((kept[:1],), (kept[1:],)))) == [("<room3>", "<campus>")]
    assert work.done < 40


def test_a_test_of_two_terms_walks_from_the_narrow_end() -> None:
    work = Work()
    down = Repeat(Link("<down>"), 1, True)
    assert path_test(down, [building(8_000)], work.spend)("<house>", "<room7>")
    assert work.done < 500
