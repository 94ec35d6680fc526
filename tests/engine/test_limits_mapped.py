"""Limits over a mapped background: the same instants exceed the same limits as over one in
memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.evaluation.triples import index as unmade
from dotr.evaluation.triples import mapped_index as index
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries import join_groups, plan
from dotr.model.algebra import Select
from dotr.model.places import Document, Span
from dotr.model.terms import Triple, iri
from dotr.syntax.sparql import parse_select
from tests.evaluation.triples.test_store_index import mapped
from tests.support.properties import examples

NODES = [iri(f"http://e/{name}") for name in "stuvw"]
PREDICATES = [iri(f"http://e/{name}") for name in "ab"]
QUERIES = [
    "?x :a ?y . ?y :b ?z",
    "?x :a ?y . ?z :a ?y",
    "?x :a ?y . ?x :b ?z . ?z :a ?w",
    "?x :b :v . ?y :b :v",
    "?x :a ?y FILTER(STR(?x) < STR(?y)) ?y :a ?z",
    "?x :b ?y . ?x ?p ?z",
    "?x :new ?y OPTIONAL { ?y :a ?z . ?z :b ?w }",
    "?x :new ?y FILTER NOT EXISTS { ?y :a ?z . ?z :b :s }",
    "?x :new ?y MINUS { ?y :b ?z . ?w :a ?z }",
]


def select(pattern: str) -> Select:
    text = f"PREFIX : <http://e/> SELECT * {{ {pattern} }}"
    return parse_select(Span(Document("q", text), 0, len(text)), {})


def triples(predicates: Sequence[str]) -> st.SearchStrategy[list[Triple]]:
    return st.lists(st.tuples(*map(st.sampled_from, (NODES, predicates, NODES))), max_size=30, unique=True)


def answers_or_limits(query: Select, background: TripleIndex, new: TripleIndex, limits: Limits) -> list[list[AnswerRow] | str]:
    """The rows of a query, or the limit that is exceeded: evaluated in a join group, and by its
    plan."""
    try:
        made = plan(query, background, limits=limits)
    except LimitExceeded as error:  # by answers over the background alone
        return [str(error)]

    def by_group() -> list[AnswerRow]:
        found: dict[int, list[AnswerRow]] = {}
        for unit in join_groups([made], background, limits):
            unit.evaluate(background, new, found)
        return found.get(0, [])

    answers: list[list[AnswerRow] | str] = []
    for evaluate in by_group, lambda: made.answers(new):
        try:
            answers.append(sorted(evaluate(), key=str))
        except LimitExceeded as error:
            answers.append(str(error))
    return answers


@examples(100)
@given(triples(PREDICATES), triples([*PREDICATES, iri("http://e/new")]), st.integers(1, 3), st.data())
def test_mapped_background_has_the_rows_and_limits_of_one_in_memory(
    known: list[Triple], instant: list[Triple], long: int, data: st.DataObject
) -> None:
    """Long lists of the background are read from the file, after those of the instant."""
    memory = TripleIndex(known)
    new = TripleIndex(triple for triple in instant if triple not in memory)
    with tempfile.TemporaryDirectory() as folder, patch.multiple(index, _MAX_PROMOTED=0, _LAZY_FROM=long):
        file = mapped(known, folder)
        for query in map(select, data.draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3, unique=True))):
            size = data.draw(st.integers(1, 40))
            for limits in Limits(), Limits(rows=size, probes=3 * size):
                assert answers_or_limits(query, file, new, limits) == answers_or_limits(query, memory, new, limits)


def test_triples_after_a_long_list_are_counted(tmp_path: Path) -> None:
    """A hundred triples of the file and two of the instant count as a hundred and two."""
    known = [(iri(f"http://e/x{number}"), PREDICATES[0], NODES[0]) for number in range(100)]
    new = TripleIndex([(NODES[0], PREDICATES[1], NODES[0]), *((node, PREDICATES[0], NODES[0]) for node in NODES[:2])])
    query, lengths = select("?r :b ?y . ?x :a ?y"), list[int]()
    length = unmade._Concatenation.__len__

    def noted(both: unmade._Concatenation[object]) -> int:
        lengths.append(length(both))
        return lengths[-1]

    with patch.multiple(index, _MAX_PROMOTED=0), patch.object(unmade._Concatenation, "__len__", noted):
        file = mapped(known, tmp_path)
        assert len(plan(query, file, limits=Limits(rows=102, probes=1_000)).answers(new)) == 102
        assert lengths == [102]
        with pytest.raises(LimitExceeded, match="more than 102 triples and rows looked at"):
            plan(query, file, limits=Limits(rows=102, probes=102)).answers(new)
        assert len(plan(query, TripleIndex(known), limits=Limits(rows=102, probes=103)).answers(new)) == 102
        assert len(plan(query, file, limits=Limits(rows=102, probes=103)).answers(new)) == 102
